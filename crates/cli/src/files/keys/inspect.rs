//! `alphorn keys inspect`: what files say about their keys, and one list of proven public keys.

use super::{duty_path, public_key_entry, public_keys_file};
use crate::error::{Error, Result};
use crate::files::document::{Document, INTEROP_WARNING, PublicKeyEntry, check_public_keys};
use crate::files::fields::{registry_digest, to_json};
use crate::files::hex::Hex;
use crate::files::input::{Permissions, expand};
use crate::files::keyfile::Located;
use crate::files::output::{Access, Staged};
use crate::files::scheme::{FileScheme, PublicHalf};
use crate::files::secret::Password;
use crate::files::statement::{Refusal, reason_of};
use crate::files::verify::proven;
use crate::files::{FileOptions, SecretOptions, aligned, all_shown, shown};
use crate::progress::Bars;
use crate::report::Report;
use anyhow::anyhow;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Maximum size in bytes of an aggregate's evidence that is shown in full.
const SHOWN_BYTES_MAX: usize = 4096;

/// Show what files claim about their keys, never the secrets; join public keys into one list
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  alphorn keys inspect keystore-0.json
  alphorn keys inspect public-keys.json
  alphorn keys inspect keystore-0.json --pop --password-file password.txt \\
      --out public-0.json
  alphorn keys inspect public-0.json public-1.json keystore-2.json --pop \\
      --password-file password.txt --out public-keys.json

Without --pop nothing is decrypted, and the output is what the file claims. With --pop the keys are
unlocked, their public keys checked, and their proofs of possession made. For an XMSS key the first
free slot is shown, according to its mark.

--out joins all keys into one list, which `verify` and `genesis` accept as --keys: the key of each
keystore, and the keys in each file of public keys, whose proofs of possession are verified.
Positions follow the order of the files, by name within a folder; a key in several files is listed
once. The key for duties of KEY.json is KEY-duty.json next to it, as `keys new --duties` names it.")]
pub(super) struct Args {
    #[command(flatten)]
    pub(super) options: FileOptions,
    /// Keystores, interop keys, files of public keys, or folders of them
    #[arg(required = true, value_name = "FILES")]
    pub(super) files: Vec<PathBuf>,
    /// Unlock the keys, check their public keys and make their proofs of possession, if any
    #[arg(long)]
    pop: bool,
    /// File with the password of the keystores (- for standard input)
    #[arg(long, value_name = "FILE", requires = "pop")]
    pub(super) password_file: Option<PathBuf>,
    /// Write public keys and proofs of possession as one list
    #[arg(long, value_name = "FILE", requires = "pop")]
    pub(super) out: Option<PathBuf>,
    #[command(flatten)]
    secret: SecretOptions,
    /// Replace the file of --out if it exists
    #[arg(long, requires = "out")]
    force: bool,
}

pub(super) fn run<S: FileScheme>(args: &Args) -> Result<()> {
    let report = Report::begin("keys inspect", 0);
    let sink = args.options.sink();
    let scheme: S = args.options.open()?;
    let paths = expand(&args.files)?;
    let mut staged = Staged::new(args.force);
    if let Some(out) = &args.out {
        staged.check(out, Access::Public)?;
    }
    let mut proofs = match args.pop {
        true => Some(Proofs::new(&scheme, args)?),
        false => None,
    };
    let mut all = Vec::with_capacity(paths.len());
    for path in &paths {
        let document = Document::read::<S>(path)?;
        let mut fields = describe(&document);
        if matches!(document, Document::Keystore(_) | Document::InteropKey(_)) {
            fields.extend(S::describe_beside(path));
        }
        if let Some(proofs) = &mut proofs {
            fields.extend(proofs.add(path, document)?);
        }
        all.push(fields);
    }
    let mut said: Vec<String> = paths
        .iter()
        .zip(&all)
        .map(|(p, f)| table_of::<S>(p, f))
        .collect();
    if let (Some(out), Some(proofs)) = (&args.out, proofs) {
        let keys = proofs.list(&paths)?;
        check_public_keys::<S>(&keys)?;
        said.push(format!("{}: public keys: {}", out.display(), keys.len()));
        let file = public_keys_file::<S>(keys);
        staged.add(out, Access::Public, &to_json(&file)?)?;
        staged.commit()?;
    }
    sink.say(&said.join("\n\n"));
    let (config, fields) = match (&paths[..], &mut all[..]) {
        ([path], [fields]) => (
            json!({ "file": shown(path), "pop": args.pop }),
            Value::Object(std::mem::take(fields)),
        ),
        _ => {
            for (path, fields) in paths.iter().zip(&mut all) {
                fields.insert("file".to_owned(), json!(shown(path)));
            }
            (
                json!({ "files": all_shown(&paths), "pop": args.pop }),
                json!({ "files": all }),
            )
        }
    };
    args.options.write(&scheme, &report, &sink, config, fields)
}

/// Formats the content of a file as a table.
fn table_of<S: FileScheme>(path: &Path, fields: &Map<String, Value>) -> String {
    let mut rows = vec![
        vec!["file".to_owned(), shown(path)],
        vec!["scheme".to_owned(), S::NAME.to_owned()],
    ];
    for (name, value) in fields {
        let value = value
            .as_str()
            .map_or_else(|| value.to_string(), str::to_owned);
        rows.push(vec![name.replace('_', " "), value]);
    }
    aligned(&rows)
}

/// The public half of a secret key, and what it signs.
#[derive(Clone)]
struct Unlocked {
    public: PublicHalf,
    duties: bool,
}

/// Public keys whose owners have the secret keys.
struct Proofs<'a, S: FileScheme> {
    scheme: &'a S,
    password: Option<Password>,
    permissions: Permissions,
    bars: Bars,
    unlocked: BTreeMap<PathBuf, Unlocked>,
    /// The keys of public key files.
    listed: BTreeMap<PathBuf, Vec<PublicKeyEntry>>,
}

impl<'a, S: FileScheme> Proofs<'a, S> {
    fn new(scheme: &'a S, args: &Args) -> Result<Self> {
        let permissions = args.secret.permissions();
        let password = match &args.password_file {
            Some(file) => Some(Password::read(file, permissions)?),
            None => None,
        };
        Ok(Proofs {
            scheme,
            password,
            permissions,
            bars: Bars::new(),
            unlocked: BTreeMap::new(),
            listed: BTreeMap::new(),
        })
    }

    /// Proves possession of the keys of a file; returns its description for a report.
    fn add(&mut self, path: &Path, document: Document) -> Result<Map<String, Value>> {
        if let Document::PublicKeys(file) = document {
            proven(self.scheme, &file).map_err(|refusal| {
                let reason = format!("{}: {}", path.display(), reason_of(&refusal, "public key"));
                match refusal {
                    Refusal::Possession { .. } => Error::Check(reason),
                    Refusal::Malformed { .. } => Error::Usage(anyhow!(reason)),
                }
            })?;
            self.listed.insert(path.to_owned(), file.keys);
            return Ok(Map::new());
        }
        let public = self.unlock(path)?.public;
        let mut fields = Map::new();
        let key = Hex::<true>(public.public_key);
        fields.insert("public_key".to_owned(), json!(key));
        if S::POSSESSION_BYTES > 0 {
            let proof = Hex::<true>(public.possession);
            fields.insert("proof_of_possession".to_owned(), json!(proof));
        }
        Ok(fields)
    }

    fn unlock(&mut self, path: &Path) -> Result<Unlocked> {
        if let Some(known) = self.unlocked.get(path) {
            return Ok(known.clone());
        }
        let located = Located::read::<S>(path)?;
        let (password, bars) = (self.password.as_ref(), &mut self.bars);
        let pair = located.unlock(self.scheme, password, self.permissions, bars)?;
        self.bars.clear();
        let unlocked = Unlocked {
            duties: S::signs_duties(&pair.key),
            public: pair.public,
        };
        self.unlocked.insert(path.to_owned(), unlocked.clone());
        Ok(unlocked)
    }

    /// Returns one list of the keys of all files, without duplicates.
    fn list(mut self, paths: &[PathBuf]) -> Result<Vec<PublicKeyEntry>> {
        let duties: BTreeSet<PathBuf> = paths.iter().map(|path| duty_path(path)).collect();
        let (mut keys, mut known) = (Vec::new(), BTreeSet::new());
        for path in paths {
            let entries = match self.listed.remove(path) {
                Some(entries) => entries,
                None => self.entry(path, &duties)?.into_iter().collect(),
            };
            for entry in entries {
                if known.insert(entry.clone()) {
                    keys.push(entry);
                }
            }
        }
        Ok(keys)
    }

    /// Returns the entry of a voting key; none for a duty key, which is part of its voting key's entry.
    fn entry(&mut self, path: &Path, duties: &BTreeSet<PathBuf>) -> Result<Option<PublicKeyEntry>> {
        let key = self.unlock(path)?;
        if key.duties {
            let (path, beside) = (path.display(), duties.contains(path));
            return match beside {
                true => Ok(None),
                false => Err(anyhow!(
                    "{path}: a key for duties: name the key for votes beside it, whose entry it is in"
                )
                .into()),
            };
        }
        let beside = duty_path(path);
        let duty = match S::DUTY_KEYS && beside.is_file() {
            true => Some(self.unlock(&beside)?),
            false => None,
        };
        if duty.as_ref().is_some_and(|duty| !duty.duties) {
            return Err(anyhow!("{}: no key for duties", beside.display()).into());
        }
        let duty = duty.map(|duty| duty.public);
        Ok(Some(public_key_entry(key.public, duty)))
    }
}

/// Describes a file from its own content.
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
            // Only schemes whose keys sign once per slot have any.
            fields.retain(|name, value| !(name.starts_with("slot") && value.is_null()));
            fields.insert("kind".into(), kind);
            fields.clone()
        }
        None => Map::new(),
    }
}
