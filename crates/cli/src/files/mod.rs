//! The schemes as a file tool: keys, signatures and aggregates, files in, files out.
//!
//! | module | content |
//! |---|---|
//! | [`keys`], [`sign`], [`aggregate`], [`merge`], [`verify`] | the commands |
//! | [`scheme`], [`bls`], [`falcon`], [`xmss`] | the interface of a scheme, and its implementations |
//! | [`choice`] | the scheme of a command |
//! | [`verdict`] | the verdict of `verify` on each file |
//! | [`xmss_proof`], [`bundle`] | proofs of XMSS signatures as evidence, and bundles of them |
//! | [`combine`] | common parts of aggregating and merging |
//! | [`document`], [`keystore`] | the formats of the files |
//! | [`keyfile`] | a secret key from any file that holds one |
//! | [`validators`], [`marks`] | the public keys of a network, the keystores of a node; the marks that move into it |
//! | [`secret`], [`input`], [`output`] | secrets in memory; bounded reading; atomic writing |

pub(crate) mod aggregate;
mod bls;
pub(crate) mod bundle;
mod bundle_file;
mod choice;
mod combine;
mod command;
mod document;
mod falcon;
mod falcon_flavours;
mod fields;
mod hex;
pub(crate) mod input;
mod keyfile;
pub(crate) mod keys;
mod keystore;
pub(crate) mod marks;
pub(crate) mod merge;
mod output;
pub(crate) mod proof_file;
pub(crate) mod scheme;
mod secret;
pub(crate) mod sign;
mod statement;
pub(crate) mod validators;
mod verdict;
pub(crate) mod verify;
mod xmss;
pub(crate) mod xmss_proof;

use crate::error::Result;
use crate::lattice::{FlavourOptions, ProfileOptions};
use crate::machine::{Machine, cores};
use crate::report::{Report, Sink, json_target};
use crate::text::printable;
use alphorn_lab::proof::ProofOptions;
use alphorn_xmss::Set;
use clap::builder::{OsStringValueParser, TypedValueParser};
use input::Permissions;
use scheme::{FileScheme, SchemeName};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// Options of every command of the file tool.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct FileOptions {
    /// Signature scheme (default: the one named in the files, or bls)
    #[arg(long, value_enum, value_name = "SCHEME")]
    scheme: Option<SchemeName>,
    /// Parameter set of XMSS: compact, prod or test (default: the one named in the files, or compact)
    #[arg(long, value_name = "SET")]
    set: Option<Set>,
    #[command(flatten)]
    flavour: FlavourOptions,
    /// Number of threads (default: all cores available to this process)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Write the result as one JSON object, - for standard output
    #[arg(long, value_name = "FILE", value_parser = OsStringValueParser::new().try_map(json_target))]
    json: Option<PathBuf>,
}

/// How proofs are made and verified.
#[derive(Clone, Copy, Debug, Default)]
struct Proofs {
    profile: ProfileOptions,
    preset: ProofOptions,
}

impl FileOptions {
    fn threads(&self) -> usize {
        self.threads.map_or_else(cores, usize::from)
    }

    /// Opens the scheme, for commands that neither make nor verify Falcon proofs.
    fn open<S: FileScheme>(&self) -> Result<S> {
        S::open(self, Proofs::default())
    }

    /// Returns the destination of the JSON object.
    fn sink(&self) -> Sink {
        Sink::new(self.json.clone())
    }

    /// Writes the JSON object of a command. There is no seed, as randomness comes from the operating
    /// system.
    fn write<S: FileScheme>(
        &self,
        scheme: &S,
        command: &Report,
        sink: &Sink,
        config: Value,
        mut fields: Value,
    ) -> Result<()> {
        let machine = Machine::here(self.threads(), scheme.kernels());
        fields["scheme"] = S::NAME.into();
        sink.write(&command.object(&machine, "measured", &config, fields)?)
    }
}

/// Formats a path for a report, which is text.
pub(crate) fn shown(path: impl AsRef<Path>) -> String {
    path.as_ref().display().to_string()
}

/// Formats paths for a report.
fn all_shown<'a>(paths: impl IntoIterator<Item = &'a PathBuf>) -> Vec<String> {
    paths.into_iter().map(shown).collect()
}

/// Formats a left-aligned table of names, hex digits and reasons. Widths count characters.
fn aligned(rows: &[Vec<String>]) -> String {
    let cell = |text: &String| printable(text, usize::MAX).replace('\n', "\\n");
    let rows = rows.iter().map(|row| row.iter().map(cell).collect());
    let rows: Vec<Vec<String>> = rows.collect();
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths);
        // The maximum width of `format!` is 65,535.
        let padded =
            cells.map(|(cell, width)| cell.clone() + &" ".repeat(width - cell.chars().count()));
        padded.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// Builds the header of a table.
fn header(names: &[&str]) -> Vec<String> {
    names.iter().map(|&name| name.to_owned()).collect()
}

/// Option of the commands that read secrets.
#[derive(clap::Args, Clone, Debug)]
struct SecretOptions {
    /// Accept key and password files that other users can open
    #[arg(long)]
    insecure_key_permissions: bool,
}

impl SecretOptions {
    fn permissions(&self) -> Permissions {
        if self.insecure_key_permissions {
            Permissions::Any
        } else {
            Permissions::Private
        }
    }
}
