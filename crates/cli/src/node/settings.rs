//! The origin of a node's options: the command line, then the environment, then a file, then the
//! default.
//!
//! An option `--api-port` is `ALPHORN_API_PORT` in the environment and `api-port` in the file of
//! `--config`. Values from these two are appended to the command line, so that they are parsed and
//! rejected as if they had been given there.

use super::files::read;
use crate::error::Result;
use crate::report::table;
use anyhow::anyhow;
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, Args as _, Command};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

/// The origin of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    CommandLine,
    Environment,
    File,
    Default,
    Unset,
}

impl Origin {
    fn name(self) -> &'static str {
        match self {
            Origin::CommandLine => "command line",
            Origin::Environment => "environment",
            Origin::File => "file",
            Origin::Default => "default",
            Origin::Unset => "not set",
        }
    }
}

/// An option and its value, none if it takes none.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Setting {
    name: String,
    value: Option<String>,
    origin: Origin,
}

/// The options of a node with their origins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Settings(Vec<Setting>);

impl Settings {
    /// Collects the options from the words after `alphorn node`, the environment and the file that one
    /// of them names.
    ///
    /// # Errors
    /// If the file cannot be read, or has unknown keys or an invalid value.
    pub(crate) fn find(
        words: &[OsString],
        environment: impl Fn(&str) -> Option<OsString>,
    ) -> Result<Self> {
        let command = super::Args::augment_args(Command::new("node").no_binary_name(true));
        let options: Vec<Arg> = command.get_arguments().cloned().collect();
        // Missing or wrong options are reported when the whole line is parsed.
        let lenient = |arg: Arg| arg.required(false);
        let lenient = command.mut_args(lenient).ignore_errors(true);
        let Ok(given) = lenient.try_get_matches_from(words) else {
            // Help was requested.
            return Ok(Settings(Vec::new()));
        };
        let written = |id: &str| given.value_source(id) == Some(ValueSource::CommandLine);
        let text = |id: &str| {
            let values = given.get_raw(id)?.map(|value| value.to_string_lossy());
            Some(values.collect::<Vec<_>>().join(","))
        };
        let named = |name: &str| format!("ALPHORN_{}", name.replace('-', "_").to_uppercase());
        let config = match written("config") {
            true => text("config").map(OsString::from),
            false => environment("ALPHORN_CONFIG"),
        };
        let mut file: BTreeMap<String, Value> = match &config {
            Some(path) => read(&PathBuf::from(path))?,
            None => BTreeMap::new(),
        };
        let mut settings = Vec::new();
        for option in &options {
            let Some(name) = option.get_long().filter(|name| *name != "help") else {
                continue;
            };
            let id = option.get_id().as_str();
            // Removed even where it is overridden: what is left at the end is unknown.
            let from_file = file.remove(name);
            let (value, origin) = if written(id) {
                (text(id), Origin::CommandLine)
            } else if let Some(value) = environment(&named(name)) {
                let value = value.into_string();
                let value = value.map_err(|_| anyhow!("{}: is not UTF-8", named(name)))?;
                (Some(value), Origin::Environment)
            } else if let Some(value) = from_file {
                (Some(plain(name, &value)?), Origin::File)
            } else {
                let defaults = option.get_default_values().iter();
                let defaults = defaults.map(|value| value.to_string_lossy());
                match defaults.collect::<Vec<_>>().join(",") {
                    none if none.is_empty() || is_flag(option) => (None, Origin::Unset),
                    value => (Some(value), Origin::Default),
                }
            };
            let value = match is_flag(option) {
                true => flag(name, value)?,
                false => value,
            };
            let name = name.to_owned();
            settings.push(Setting {
                name,
                value,
                origin,
            });
        }
        if let Some(unknown) = file.keys().next() {
            let file = config.unwrap_or_default();
            let what = format!("{}: unknown option {unknown}", file.to_string_lossy());
            return Err(anyhow!("{what}, as `alphorn node --help` lists them without --").into());
        }
        Ok(Settings(settings))
    }

    /// Returns the words to append to the command line.
    pub(crate) fn words(&self) -> impl Iterator<Item = OsString> {
        let found =
            |setting: &&Setting| matches!(setting.origin, Origin::Environment | Origin::File);
        self.0.iter().filter(found).filter_map(|setting| {
            let (name, value) = (&setting.name, setting.value.as_deref()?);
            Some(match value {
                FLAG => format!("--{name}").into(),
                value => format!("--{name}={value}").into(),
            })
        })
    }

    /// Formats a table of all options.
    pub(crate) fn table(&self) -> String {
        let rows = self.0.iter().map(|setting| {
            let value = setting.value.clone().unwrap_or_default();
            vec![setting.name.clone(), value, setting.origin.name().into()]
        });
        table(&["option", "value", "from"], &rows.collect::<Vec<_>>())
    }

    /// Returns the same as an object: the value and origin of each option.
    pub(crate) fn json(&self) -> Value {
        let entry = |setting: &Setting| {
            let (value, from) = (&setting.value, setting.origin.name());
            (setting.name.clone(), json!({"value": value, "from": from}))
        };
        self.0.iter().map(entry).collect()
    }
}

/// The value of a flag that is set.
const FLAG: &str = "true";

fn is_flag(option: &Arg) -> bool {
    matches!(option.get_action(), ArgAction::SetTrue)
}

/// Parses a flag as true or false; false is the same as absent.
fn flag(name: &str, value: Option<String>) -> Result<Option<String>> {
    match value.as_deref() {
        None | Some("false" | "0") => Ok(None),
        Some(FLAG | "1") => Ok(Some(FLAG.into())),
        Some(other) => Err(anyhow!("{name}: {other}, must be true or false").into()),
    }
}

/// Converts a value of the file to a word of the command line.
fn plain(name: &str, value: &Value) -> Result<String> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Bool(_) | Value::Number(_) => Ok(value.to_string()),
        Value::Array(all) => {
            let all: Result<Vec<String>> = all.iter().map(|one| plain(name, one)).collect();
            Ok(all?.join(","))
        }
        Value::Null | Value::Object(_) => {
            Err(anyhow!("{name}: must be a value or a list of values").into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(line: &str, environment: &[(&str, &str)]) -> Result<Settings> {
        let words: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
        let lookup = |name: &str| {
            let found = environment.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| OsString::from(value))
        };
        Settings::find(&words, lookup)
    }

    fn of<'a>(settings: &'a Settings, name: &str) -> (Option<&'a str>, Origin) {
        let mut all = settings.0.iter();
        let setting = all.find(|setting| setting.name == name).unwrap();
        (setting.value.as_deref(), setting.origin)
    }

    fn words(settings: &Settings) -> Vec<String> {
        let words = settings.words();
        words.map(|word| word.into_string().unwrap()).collect()
    }

    #[test]
    fn the_command_line_comes_before_the_environment_the_file_and_the_default() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let text = "api-port: 7\nprove-threads: 3\nsaturate: true\nlow-memory: false\n\
                    http-allow-host: [a, b]\nlisten: 10.0.0.1\n";
        std::fs::write(file.path(), text).unwrap();
        let line = format!("--config {} --listen 10.0.0.2", file.path().display());
        let settings = find(&line, &[("ALPHORN_API_PORT", "8"), ("ALPHORN_RECORD", "r")]).unwrap();
        assert_eq!(
            of(&settings, "listen"),
            (Some("10.0.0.2"), Origin::CommandLine)
        );
        assert_eq!(of(&settings, "api-port"), (Some("8"), Origin::Environment));
        assert_eq!(of(&settings, "prove-threads"), (Some("3"), Origin::File));
        assert_eq!(of(&settings, "low-memory"), (None, Origin::File));
        assert_eq!(
            of(&settings, "isolation"),
            (Some("process"), Origin::Default)
        );
        assert_eq!(of(&settings, "genesis"), (None, Origin::Unset));
        let found = words(&settings);
        for word in [
            "--api-port=8",
            "--record=r",
            "--prove-threads=3",
            "--saturate",
            "--http-allow-host=a,b",
        ] {
            assert!(found.contains(&word.to_owned()), "{word}: {found:?}");
        }
        assert_eq!(found.len(), 5, "{found:?}");
        let table = settings.table();
        assert!(table.contains("environment"), "{table}");
    }

    #[test]
    fn what_is_no_option_is_refused_by_its_name() {
        for (text, named) in [
            ("api-prot: 7\n", "unknown option api-prot"),
            (
                "saturate: maybe\n",
                "saturate: maybe, must be true or false",
            ),
            ("listen: {a: b}\n", "listen: must be a value"),
            ("- 1\n", "expected mapping"),
        ] {
            let file = tempfile::NamedTempFile::new().unwrap();
            std::fs::write(file.path(), text).unwrap();
            let line = format!("--config {}", file.path().display());
            let error = find(&line, &[]).unwrap_err().to_string();
            assert!(error.contains(named), "{text}: {error}");
        }
        let gone = find("", &[("ALPHORN_CONFIG", "/none.yaml")]).unwrap_err();
        assert!(gone.to_string().contains("/none.yaml"), "{gone}");
    }

    #[test]
    fn a_line_that_the_parser_will_refuse_is_left_to_it() {
        let settings = find("--api-port x --what", &[]).unwrap();
        assert_eq!(words(&settings), Vec::<String>::new());
    }
}
