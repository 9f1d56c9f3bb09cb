//! `alphorn keys inspect`: what a file says of its key, and its proof of possession.

use super::{public_key_entry, public_keys_file};
use crate::error::Result;
use crate::files::document::{Document, Hex, INTEROP_WARNING, registry_digest, to_json};
use crate::files::keyfile::Located;
use crate::files::output::{Access, Staged};
use crate::files::scheme::{FileScheme, PublicHalf};
use crate::files::secret::Password;
use crate::files::{FileOptions, SecretOptions, aligned};
use crate::progress::Bars;
use crate::report::Report;
use serde_json::{Map, Value, json};
use std::path::PathBuf;

/// Bytes of the evidence of an aggregate that is shown whole.
const SHOWN_BYTES_MAX: usize = 4096;

/// What a file says of its key or keys; never the secret
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  alphorn keys inspect keystore-0.json
  alphorn keys inspect public-keys.json
  alphorn keys inspect keystore-0.json --pop --password-file password.txt --out public-0.json

Without --pop nothing is decrypted: what is shown is what the file claims. With --pop the key is
unlocked, its public key checked, and its proof of possession made; --out writes both into a file
for `verify --keys`. Of an XMSS key the first free slot is shown, as its mark says.")]
pub(super) struct Args {
    #[command(flatten)]
    pub(super) options: FileOptions,
    /// A keystore, an interop key or a file of public keys
    file: PathBuf,
    /// Unlock the key, check its public key and make its proof of possession, if it has one
    #[arg(long)]
    pop: bool,
    /// Password of the keystore (- for standard input)
    #[arg(long, value_name = "FILE", requires = "pop")]
    password_file: Option<PathBuf>,
    /// Write public key and proof of possession
    #[arg(long, value_name = "FILE", requires = "pop")]
    out: Option<PathBuf>,
    #[command(flatten)]
    secret: SecretOptions,
    /// Replace the file of --out if it exists
    #[arg(long, requires = "out")]
    force: bool,
}

pub(super) fn run<S: FileScheme>(args: &Args) -> Result<()> {
    let report = Report::begin("keys inspect", 0);
    let sink = args.options.sink()?;
    let scheme: S = args.options.open()?;
    let document = Document::read::<S>(&args.file)?;
    let mut fields = describe(&document);
    if matches!(document, Document::Keystore(_) | Document::InteropKey(_)) {
        fields.extend(S::describe_beside(&args.file));
    }
    if args.pop {
        let public = prove(&scheme, args)?;
        fields.insert(
            "public_key".into(),
            json!(Hex::<true>(public.public_key.clone())),
        );
        if S::POSSESSION_BYTES > 0 {
            fields.insert(
                "proof_of_possession".into(),
                json!(Hex::<true>(public.possession.clone())),
            );
        }
        if let Some(out) = &args.out {
            let file = public_keys_file::<S>(vec![public_key_entry(public, None)]);
            let mut staged = Staged::new(args.force);
            staged.add(out, Access::Public, &to_json(&file)?)?;
            staged.commit()?;
        }
    }
    let mut rows = vec![
        vec!["file".to_owned(), args.file.display().to_string()],
        vec!["scheme".to_owned(), S::NAME.to_owned()],
    ];
    for (name, value) in &fields {
        let value = value
            .as_str()
            .map_or_else(|| value.to_string(), str::to_owned);
        rows.push(vec![name.replace('_', " "), value]);
    }
    sink.say(&aligned(&rows));
    let config = json!({ "file": args.file, "pop": args.pop });
    args.options
        .write(&scheme, &report, &sink, config, Value::Object(fields))
}

/// Unlocks the key and proves possession.
fn prove<S: FileScheme>(scheme: &S, args: &Args) -> Result<PublicHalf> {
    let permissions = args.secret.permissions();
    let located = Located::read::<S>(&args.file)?;
    let password = match &args.password_file {
        Some(file) => Some(Password::read(file, permissions)?),
        None => None,
    };
    let mut bars = Bars::new();
    let pair = located.unlock(scheme, password.as_ref(), permissions, &mut bars)?;
    bars.clear();
    Ok(pair.public)
}

/// What a file says of itself.
fn describe(document: &Document) -> Map<String, Value> {
    let mut fields = match document {
        Document::Keystore(keystore) => {
            let about = keystore.about();
            json!({
                "public_key": keystore.public_key().map(|key| Hex::<true>(key.to_vec())),
                "kdf": keystore.kdf(),
                "cipher": keystore.cipher(),
                "path": about.path,
                "description": about.description,
                "uuid": about.uuid,
                "unknown_fields": keystore.foreign_fields(),
            })
        }
        Document::InteropKey(file) => json!({
            "public_key": file.public_key,
            "index": file.index,
            "slots": file.slots,
            "warning": INTEROP_WARNING,
        }),
        Document::PublicKeys(file) => json!({
            "keys": file.keys.len(),
            "registry_digest": Hex::<true>(
                registry_digest(file.keys.iter().map(|key| &key.public_key.0[..])).to_vec()
            ),
        }),
        Document::Signature(file) => json!({
            "public_key": file.public_key,
            "slot": file.slot,
            "message": file.message,
            "signature": file.signature,
        }),
        Document::Aggregate(file) => json!({
            "slot": file.slot,
            "message": file.message,
            "signature": match file.signature.0.len() {
                0..=SHOWN_BYTES_MAX => file.signature.to_string(),
                bytes => format!("{bytes} bytes"),
            },
        }),
        Document::Bundle(file) => json!({ "entries": file.count() }),
    };
    let kind = json!(document.kind());
    match fields.as_object_mut() {
        Some(fields) => {
            // Only schemes whose keys sign once in each slot have any.
            fields.retain(|name, value| !(name.starts_with("slot") && value.is_null()));
            fields.insert("kind".into(), kind);
            fields.clone()
        }
        None => Map::new(),
    }
}
