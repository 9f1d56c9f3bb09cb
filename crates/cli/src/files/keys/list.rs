//! `alphorn keys list`: the keys of a folder, by their public halves.

use crate::error::{Error, Result};
use crate::files::document::Document;
use crate::files::hex::Hex;
use crate::files::input::json_files;
use crate::files::scheme::FileScheme;
use crate::files::{FileOptions, aligned, header, shown};
use crate::report::Report;
use serde::Serialize;
use serde_json::json;
use std::path::{Path, PathBuf};

/// The keys of a folder
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  alphorn keys list keys
  alphorn keys list keys --json -

No password is needed: the table shows what each file claims. Files with public keys, signatures or
aggregates are left out; a .json file of any other kind makes the exit code 2.")]
pub(super) struct Args {
    #[command(flatten)]
    pub(super) options: FileOptions,
    /// Folder of key files
    pub(super) folder: PathBuf,
}

#[derive(Serialize)]
struct Row {
    file: String,
    public_key: Option<Hex<true>>,
    protection: String,
    insecure: bool,
}

pub(super) fn run<S: FileScheme>(args: &Args) -> Result<()> {
    let report = Report::begin("keys list", 0);
    let sink = args.options.sink();
    let scheme: S = args.options.open()?;
    let mut rows = Vec::new();
    let mut foreign = Vec::new();
    for path in json_files(&args.folder)? {
        match Document::read::<S>(&path) {
            Ok(document) => rows.extend(row(&path, &document)),
            Err(error) => foreign.push(error.to_string()),
        }
    }
    let text = |row: &Row| {
        let key = row.public_key.as_ref();
        vec![
            row.file.clone(),
            row.protection.clone(),
            key.map_or_else(|| "not named".to_owned(), ToString::to_string),
        ]
    };
    let names = header(&["file", "protection", "public key"]);
    let cells: Vec<Vec<String>> = [names].into_iter().chain(rows.iter().map(text)).collect();
    sink.say(&aligned(&cells));
    let config = json!({ "folder": shown(&args.folder) });
    let fields = json!({ "keys": rows, "foreign": foreign });
    args.options
        .write(&scheme, &report, &sink, config, fields)?;
    if foreign.is_empty() {
        return Ok(());
    }
    Err(Error::Usage(anyhow::anyhow!("{}", foreign.join("\n"))))
}

/// Returns the row of a key; none for a file without a secret key.
fn row(path: &Path, document: &Document) -> Option<Row> {
    let (public_key, protection, insecure) = match document {
        Document::Keystore(keystore) => {
            let key = keystore.public_key().map(|key| Hex(key.to_vec()));
            (key, keystore.kdf(), false)
        }
        Document::InteropKey(file) => {
            let protection = format!("none: INSECURE interop key {}", file.index);
            (Some(file.public_key.clone()), protection, true)
        }
        Document::PublicKeys(_)
        | Document::Signature(_)
        | Document::Aggregate(_)
        | Document::Bundle(_) => return None,
    };
    Some(Row {
        file: shown(path),
        public_key,
        protection,
        insecure,
    })
}
