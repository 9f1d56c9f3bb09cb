//! Which validators vote: a share of all, or those that voted in an epoch of a real network.
//!
//! A record is a folder with `meta.json` (number of active validators, slots, committees per slot,
//! names of the bit files) and bit files, with one bit per position of the epoch shuffling, least
//! significant bit first.

use crate::error::Result;
use crate::input;
use crate::overwrite::{check_apart, folder_of};
use alphorn_types::VALIDATORS_MAX;
use anyhow::{Context, bail};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// The source of the participation.
#[derive(Clone, Debug, PartialEq)]
pub enum Participation {
    /// Each validator votes with this probability.
    Share(f64),
    /// As recorded.
    File(PathBuf),
}

impl FromStr for Participation {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> std::result::Result<Self, Self::Err> {
        // Anything that looks like a number is parsed as one: 1.5 is a share out of range, not a
        // missing file.
        let number = text.strip_suffix('%').unwrap_or(text).trim();
        if text.is_empty() || number.parse::<f64>().is_ok() {
            return crate::options::share(text).map(Participation::Share);
        }
        Ok(Participation::File(PathBuf::from(text)))
    }
}

/// A share in percent, or the name of the record.
impl Display for Participation {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Participation::Share(share) => write!(f, "{} %", share * 100.0),
            Participation::File(path) => path.display().fmt(f),
        }
    }
}

impl Participation {
    /// Returns the files of the recorded epoch, for any flag; none for a share.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        match self {
            Participation::Share(_) => Vec::new(),
            Participation::File(path) => files(path),
        }
    }
}

/// Rejects an output that would overwrite a file of the records being read.
///
/// # Errors
/// If `output` is one of them.
pub fn check_records(read: &[Participation], output: Option<&Path>) -> Result<()> {
    let records: Vec<PathBuf> = read.iter().flat_map(Participation::files).collect();
    check_apart(records.iter().map(PathBuf::as_path), output)
}

/// Returns the files of the record that `path` names.
pub(crate) fn files(path: &Path) -> Vec<PathBuf> {
    let folder = match path.is_dir() {
        true => path,
        false => folder_of(path),
    };
    let bits = FLAGS.map(|flag| folder.join(format!("{flag}.bits")));
    std::iter::once(folder.join(META)).chain(bits).collect()
}

/// Flags of a recorded epoch.
pub(crate) const FLAGS: [&str; 3] = ["source", "target", "head"];
/// The default flag.
const FLAG: &str = "target";

/// Rejects `--flag` where no record is read, as only records have flags.
///
/// # Errors
/// If the flag was given, and no participation in `who` is recorded.
pub(crate) fn check_flag(flag: Option<&str>, who: &[Participation]) -> anyhow::Result<()> {
    let is_recorded = |who: &Participation| matches!(who, Participation::File(_));
    match flag {
        Some(flag) if !who.iter().any(is_recorded) => {
            bail!("--flag {flag}: of a recorded epoch, and none is read here")
        }
        _ => Ok(()),
    }
}

/// File that describes a record, apart from its bits.
const META: &str = "meta.json";
/// Maximum size of a meta file.
const META_BYTES_MAX: u64 = 1 << 20;

#[derive(Deserialize)]
struct Meta {
    network: String,
    epoch: u64,
    active_validators: u32,
    slots: u16,
    committees_per_slot: u16,
    files: BTreeMap<String, String>,
}

/// One flag of one recorded epoch.
#[derive(Clone, Debug)]
pub struct Record {
    /// Description in words.
    pub name: String,
    /// Number of positions.
    pub validators: u32,
    /// Horn's committees: the slots of the epoch.
    pub(crate) committees: u16,
    /// Horn's cells of a committee: the real committees of a slot.
    pub(crate) subcommittees: u16,
    /// The voters, by position.
    pub bits: alphorn_types::Bitfield,
}

impl Record {
    /// Reads a record. `path` names its folder, its `meta.json`, or one of its bit files; a folder
    /// stands for the file of `flag`, by default of the target.
    pub fn read(path: &Path, flag: Option<&str>) -> anyhow::Result<Self> {
        if !path.exists() {
            bail!(
                "{} is not there: a record is a folder with meta.json and bit files, as \
                 vectors/goerli-epoch-148260 of this project's repository; go there, or give the whole path",
                path.display()
            );
        }
        let (folder, file) = if path.is_dir() {
            (path.to_owned(), None)
        } else {
            let folder = path.parent().unwrap_or(Path::new(".")).to_owned();
            let name = path
                .file_name()
                .map(|name| name.to_string_lossy().into_owned());
            (folder, name.filter(|name| name != META))
        };
        let meta_path = folder.join(META);
        let text = input::bytes(&meta_path, META_BYTES_MAX)
            .with_context(|| format!("{} is no record", path.display()))?;
        let meta: Meta = serde_json::from_slice(&text)
            .with_context(|| format!("cannot read {}", meta_path.display()))?;
        if !(1..=VALIDATORS_MAX).contains(&meta.active_validators) {
            bail!(
                "{} records {} active validators, must be 1 to {VALIDATORS_MAX}",
                meta_path.display(),
                meta.active_validators
            );
        }
        let known = || meta.files.keys().cloned().collect::<Vec<_>>().join(", ");
        let file = match file {
            Some(file) if meta.files.contains_key(&file) => file,
            Some(file) => bail!(
                "{} names no bit file {file:?}; it names {}",
                meta_path.display(),
                known()
            ),
            None => format!("{}.bits", flag.unwrap_or(FLAG)),
        };
        if !meta.files.contains_key(&file) {
            bail!(
                "{} names no bit file {file:?}; it names {}",
                meta_path.display(),
                known()
            );
        }
        let bits_path: PathBuf = folder.join(&file);
        let expected = u64::from(meta.active_validators).div_ceil(8);
        let bytes = input::bytes(&bits_path, expected)?;
        let bits = alphorn_types::Bitfield::from_bytes(&bytes, meta.active_validators as usize)
            .with_context(|| {
                format!(
                    "{} does not hold {} bits",
                    bits_path.display(),
                    meta.active_validators
                )
            })?;
        Ok(Record {
            name: format!(
                "{} epoch {}, {}",
                // Printed on terminals, so escape sequences in a file must not reach one.
                meta.network.replace(char::is_control, ""),
                meta.epoch,
                file.trim_end_matches(".bits")
            ),
            validators: meta.active_validators,
            committees: meta.slots,
            subcommittees: meta.committees_per_slot,
            bits,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn goerli() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vectors/goerli-epoch-148260")
    }

    #[test]
    fn only_records_have_flags() {
        let who = |text: &str| text.parse::<Participation>().unwrap();
        check_flag(Some("head"), &[who("0.5"), who("folder")]).unwrap();
        check_flag(None, &[who("0.5")]).unwrap();
        let error = check_flag(Some("head"), &[who("0.5")]).unwrap_err();
        assert!(error.to_string().contains("--flag head"), "{error}");
        assert!(check_flag(Some("head"), &[]).is_err());
    }

    #[test]
    fn the_recorded_epoch_is_read() {
        let record = Record::read(&goerli(), None).unwrap();
        assert_eq!(
            (record.validators, record.committees, record.subcommittees),
            (392_036, 32, 64)
        );
        let share = record.bits.count_ones() as f64 / f64::from(record.validators);
        assert!(
            (0.734..0.736).contains(&share),
            "target participation is 73.5 %, read {share}"
        );
        let head = Record::read(&goerli().join("head.bits"), None).unwrap();
        assert!(head.bits.count_ones() < record.bits.count_ones());
    }

    #[test]
    fn wrong_records_are_named() {
        let error =
            |path: &Path, flag: &str| format!("{:#}", Record::read(path, Some(flag)).unwrap_err());
        assert!(error(&goerli(), "tail").contains("source.bits"));
        let missing = error(&goerli().join("other.bits"), "target");
        assert!(missing.contains("other.bits"), "{missing}");
        let nowhere = error(Path::new("vectors/nowhere"), "target");
        assert!(
            nowhere.starts_with("vectors/nowhere is not there"),
            "{nowhere}"
        );
        let unknown = error(&goerli().join("README.md"), "target");
        assert!(unknown.contains("meta.json"), "{unknown}");
        let folder = tempfile::tempdir().unwrap();
        std::fs::copy(goerli().join("meta.json"), folder.path().join("meta.json")).unwrap();
        std::fs::write(folder.path().join("target.bits"), [0; 10]).unwrap();
        assert!(error(folder.path(), "target").contains("392036 bits"));
        std::fs::write(folder.path().join("target.bits"), vec![0; 49_006]).unwrap();
        assert!(error(folder.path(), "target").contains("more than 49005 bytes"));
        let meta = |validators: &str| {
            let text = format!(
                r#"{{"network":"x","epoch":0,"active_validators":{validators},"slots":1,
                "committees_per_slot":1,"files":{{"target.bits":""}}}}"#
            );
            std::fs::write(folder.path().join("meta.json"), text).unwrap();
            error(folder.path(), "target")
        };
        assert!(meta("0").contains("must be 1 to 4194304"));
        assert!(meta("4294967295").contains("must be 1 to 4194304"));
        assert!(meta("4294967296").contains("meta.json"));
        assert!(meta("-1").contains("meta.json"));
        std::fs::remove_file(folder.path().join("target.bits")).unwrap();
        assert!(meta("8").contains("target.bits"));
        std::fs::create_dir(folder.path().join("target.bits")).unwrap();
        assert!(meta("8").contains("directory"));
    }

    #[test]
    fn a_number_is_a_share_and_anything_else_a_record() {
        let parse = |text: &str| text.parse::<Participation>();
        assert!(matches!(parse("95%"), Ok(Participation::Share(0.95))));
        assert!(matches!(parse("1"), Ok(Participation::Share(1.0))));
        assert!(matches!(parse("vectors/x"), Ok(Participation::File(_))));
        assert!(matches!(parse("./1.5"), Ok(Participation::File(_))));
        for wrong in ["1.5", "-0.1", "-5%", "NaN", "inf", "1e9", "101 %", ""] {
            let error = parse(wrong).unwrap_err().to_string();
            assert!(error.contains("no share from 0 to 1"), "{wrong}: {error}");
        }
    }
}
