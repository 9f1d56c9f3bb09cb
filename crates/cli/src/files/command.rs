//! The commands of the file tool, which run with the scheme that their options or files name.

use super::bls::Bls;
use super::choice::Choice;
use super::document::scheme_of;
use super::falcon::Falcon;
use super::falcon_flavours::{FnDsa04, NoSalts, Round3};
use super::input::{LIST_BYTES_MAX, Opened, Permissions, expand, is_stdin, read_secret};
use super::keystore::KEYSTORE_BYTES_MAX;
use super::scheme::{FileScheme, SchemeName};
use super::xmss::{CompactSet, ProdSet, TestSet, Xmss};
use super::{FileOptions, Proofs};
use crate::error::Result;
use crate::overwrite::check_apart;
use alphorn_falcon::Flavour;
use alphorn_xmss::Set;
use clap::ValueEnum;
use std::path::{Path, PathBuf};

/// A command of the file tool, generic over the scheme.
pub(super) trait Command {
    /// Returns its options, which name the scheme.
    fn options(&self) -> &FileOptions;

    /// Returns how it makes and verifies proofs, if it does.
    fn proofs(&self) -> Proofs {
        Proofs::default()
    }

    /// Returns the files that may name the scheme if the options do not; the first one that does decides.
    fn sources(&self) -> Result<Vec<PathBuf>>;

    /// Returns the files it reads in addition to [`Command::sources`].
    fn others(&self) -> Vec<PathBuf> {
        Vec::new()
    }

    /// Returns the files it writes but never reads, apart from its report.
    fn outputs(&self) -> Result<Vec<PathBuf>>;

    /// Runs it.
    fn run_with<S: FileScheme>(&self) -> Result<()>;
}

/// Returns the files of a command, followed by the key files.
pub(super) fn with_keys<'a>(
    files: &[PathBuf],
    keys: impl IntoIterator<Item = &'a PathBuf>,
) -> Result<Vec<PathBuf>> {
    let mut sources = expand(files)?;
    sources.extend(keys.into_iter().cloned());
    Ok(sources)
}

/// Runs a command with the scheme that its options or its files name.
pub(super) fn dispatch(command: &impl Command) -> Result<()> {
    let (options, sources, others) = (command.options(), command.sources()?, command.others());
    let outputs = command.outputs()?;
    let read = sources.iter().chain(&others).map(PathBuf::as_path);
    let written = outputs.iter().chain(&options.json).map(PathBuf::as_path);
    check_apart(read, written)?;
    match choose(options, command.proofs(), &sources)? {
        Choice::Bls => command.run_with::<Bls>(),
        Choice::Falcon(Flavour::FnDsa) => command.run_with::<Falcon<FnDsa04>>(),
        Choice::Falcon(Flavour::Original) => command.run_with::<Falcon<Round3>>(),
        Choice::Falcon(Flavour::Slot) => command.run_with::<Falcon<NoSalts>>(),
        Choice::Xmss(Set::Compact) => command.run_with::<Xmss<CompactSet>>(),
        Choice::Xmss(Set::Prod) => command.run_with::<Xmss<ProdSet>>(),
        Choice::Xmss(Set::Test) => command.run_with::<Xmss<TestSet>>(),
    }
}

/// Returns the scheme named by the options; what they leave open is taken from the files.
fn choose(options: &FileOptions, proofs: Proofs, sources: &[PathBuf]) -> Result<Choice> {
    let found = sources.iter().find_map(|path| scheme_of_file(path));
    let scheme = options.scheme.or(found.map(Choice::scheme));
    let scheme = scheme.unwrap_or(SchemeName::Bls);
    let name = scheme.to_possible_value();
    let name = name.as_ref().map_or("", |name| name.get_name());
    options.flavour.check(name)?;
    proofs.profile.check(name)?;
    proofs.preset.check(name)?;
    alphorn_lab::proof::check_set(name, options.set)?;
    Ok(match (scheme, found) {
        (SchemeName::Bls, _) => Choice::Bls,
        (SchemeName::Falcon, Some(Choice::Falcon(flavour))) => {
            Choice::Falcon(options.flavour.flavour.unwrap_or(flavour))
        }
        (SchemeName::Falcon, _) => Choice::Falcon(options.flavour.flavour()),
        (SchemeName::Xmss, Some(Choice::Xmss(set))) => Choice::Xmss(options.set.unwrap_or(set)),
        (SchemeName::Xmss, _) => Choice::Xmss(options.set.unwrap_or(Set::Compact)),
    })
}

/// Returns the scheme that a file names, if any. Errors in the file are reported by the code that
/// reads it later.
fn scheme_of_file(path: &Path) -> Option<Choice> {
    // A pipe can be read only once.
    let metadata = path.metadata().ok().filter(|found| found.is_file())?;
    if is_stdin(path) {
        return None;
    }
    if metadata.len() > KEYSTORE_BYTES_MAX as u64 {
        return scheme_of(&Opened::read(path, LIST_BYTES_MAX).ok()?.bytes);
    }
    // It may hold a secret key; its permissions are checked when it is used.
    scheme_of(&read_secret(path, KEYSTORE_BYTES_MAX, Permissions::Any).ok()?)
}
