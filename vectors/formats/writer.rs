// Vectors of formats in files: included by the tests that write them, of several crates.

use serde_json::{Map, Value, json};
use std::path::PathBuf;

/// The vectors of one file.
#[derive(Default)]
pub(crate) struct Vectors {
    /// What decoders know apart from the bytes, by a name that vectors use.
    pub(crate) given: Map<String, Value>,
    vectors: Vec<Value>,
}

impl Vectors {
    /// Bytes, and what they say.
    pub(crate) fn valid(
        &mut self,
        name: &str,
        format: &str,
        given: &Value,
        bytes: &[u8],
        says: Value,
    ) {
        self.vectors.push(json!({
            "name": name, "format": format, "given": given, "bytes": hex::encode(bytes), "says": says,
        }));
    }

    /// Bytes, and the class of the check that refuses them.
    pub(crate) fn refused(
        &mut self,
        name: &str,
        format: &str,
        given: &Value,
        bytes: &[u8],
        class: &str,
    ) {
        self.vectors.push(json!({
            "name": name, "format": format, "given": given, "bytes": hex::encode(bytes), "refused": class,
        }));
    }

    /// Compares the file with what is made now, or writes it where that is asked for.
    pub(crate) fn check(self, name: &str) {
        let path = folder().join(name);
        let lines: Vec<String> = self.vectors.iter().map(Value::to_string).collect();
        let text = format!(
            "{{\"given\": {},\n\"vectors\": [\n{}\n]}}\n",
            Value::Object(self.given),
            lines.join(",\n")
        );
        if std::env::var_os("ALPHORN_WRITE_VECTORS").is_some() {
            std::fs::write(&path, text).unwrap();
            return;
        }
        let there = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            there == text,
            "{name} is not what the encoders write: `just vectors` makes it anew"
        );
    }
}

/// Where the files are.
pub(crate) fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../vectors/formats")
}

/// Bytes with other ones from an offset on.
pub(crate) fn with(bytes: &[u8], at: usize, other: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    bytes[at..at + other.len()].copy_from_slice(other);
    bytes
}
