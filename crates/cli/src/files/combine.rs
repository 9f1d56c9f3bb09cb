//! What `aggregate` and `merge` have in common: combining files over one message into one aggregate.

use super::document::{AggregateFile, Document};
use super::fields::{Signers, to_json};
use super::input::expand;
use super::output::{Access, Staged};
use super::scheme::FileScheme;
use super::statement::{Refusal, Signed, reason_of};
use super::{FileOptions, shown};
use crate::error::Result;
use crate::report::{Report, Sink};
use anyhow::anyhow;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// A command that makes one aggregate, from its start to the output file.
pub(super) struct Combination<'a> {
    options: &'a FileOptions,
    out: &'a Path,
    report: Report,
    sink: Sink,
    staged: Staged,
    /// The files to combine.
    pub(super) paths: Vec<PathBuf>,
}

impl<'a> Combination<'a> {
    /// Starts the command of that name; rejects output paths that cannot be written before any work.
    pub(super) fn begin(
        command: &'static str,
        options: &'a FileOptions,
        files: &[PathBuf],
        out: &'a Path,
        force: bool,
    ) -> Result<Self> {
        let report = Report::begin(command, 0);
        let sink = options.sink();
        let staged = Staged::new(force);
        staged.check(out, Access::Public)?;
        Ok(Combination {
            options,
            out,
            report,
            sink,
            staged,
            paths: expand(files)?,
        })
    }

    /// Writes the aggregate with this evidence and reports it: `said` after the number of signers,
    /// `fields` in addition to those that both commands have.
    pub(super) fn finish<S: FileScheme>(
        mut self,
        scheme: &S,
        signed: Signed,
        signers: &Signers,
        signature: Vec<u8>,
        about: About,
    ) -> Result<()> {
        let aggregate = AggregateFile::new::<S>(signed, signers, signature);
        let out = self.out;
        self.staged
            .add(out, Access::Public, &to_json(&aggregate)?)?;
        self.staged.commit()?;
        let count = signers.count();
        self.sink
            .say(&format!("{}: {count} signers{}", out.display(), about.said));
        let mut fields = json!({
            "signers": count,
            "message": aggregate.message,
            "slot": aggregate.slot,
            "signature": aggregate.signature,
            "file": shown(out),
        });
        if let (Value::Object(fields), Value::Object(more)) = (&mut fields, about.fields) {
            fields.extend(more);
        }
        self.options
            .write(scheme, &self.report, &self.sink, about.config, fields)
    }
}

/// Returns the sum or the list of signatures, each with its file and in the order of the signers.
pub(super) fn combined<S: FileScheme>(scheme: &S, parts: &[(&Path, &[u8])]) -> Result<Vec<u8>> {
    let signatures: Vec<&[u8]> = parts.iter().map(|(_, signature)| *signature).collect();
    let sum = scheme.combine(&signatures).map_err(|refusal| {
        let paths: Vec<&Path> = parts.iter().map(|(path, _)| *path).collect();
        refused(refusal, &paths, "signature")
    })?;
    Ok(sum.ok_or_else(|| anyhow!("the signatures cancel: their sum is the identity"))?)
}

/// Output of one command in addition to what both print.
pub(super) struct About {
    /// Printed after the number of signers.
    pub(super) said: String,
    /// Its options, in the JSON object.
    pub(super) config: Value,
    /// Further fields of the JSON object.
    pub(super) fields: Value,
}

/// Reads a file that must be a certain document: `pick` accepts it, or returns its actual kind.
pub(super) fn read_as<S: FileScheme, T>(
    path: &Path,
    what: &str,
    pick: impl FnOnce(Document) -> std::result::Result<T, &'static str>,
) -> Result<T> {
    pick(Document::read::<S>(path)?).map_err(|kind| {
        let path = path.display();
        anyhow!("{path}: no {what}, but a file of kind {kind}").into()
    })
}

/// Returns the keys of a public key file, in order.
pub(super) fn registry_keys<S: FileScheme>(
    scheme: &S,
    encoded: &[&[u8]],
) -> anyhow::Result<Vec<S::Key>> {
    let keys = scheme.decode_keys(encoded);
    keys.map_err(|refusal| anyhow!(reason_of(&refusal, "public key")))
}

/// Formats a rejection with the file that it refers to.
pub(super) fn refused(refusal: Refusal, paths: &[impl AsRef<Path>], what: &str) -> anyhow::Error {
    let path = |index: usize| paths[index].as_ref().display();
    match refusal {
        Refusal::Malformed { index, reason } => {
            anyhow!("{}: {what}: {reason}", path(index))
        }
        Refusal::Possession { index } => {
            anyhow!("{}: no proof of possession", path(index))
        }
    }
}
