//! Percentages as base64, three bytes in four characters (RFC 4648, section 4).

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::CELLS_PER_LINE_MAX;

/// One percentage (0 to 100) for each of up to [`CELLS_PER_LINE_MAX`] cells.
///
/// Written as base64 with padding; only the canonical form is accepted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Percents(Vec<u8>);

impl Percents {
    /// Wraps these percentages.
    ///
    /// # Panics
    ///
    /// If there are more than [`CELLS_PER_LINE_MAX`], or one is above 100.
    #[must_use]
    pub fn new(percents: Vec<u8>) -> Self {
        assert!(
            is_legal(&percents),
            "more than {CELLS_PER_LINE_MAX} percentages, or one above 100"
        );
        Self(percents)
    }

    /// The percentages.
    #[must_use]
    pub fn as_slice(&self) -> &[u8] {
        &self.0
    }
}

impl Serialize for Percents {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&STANDARD.encode(&self.0))
    }
}

impl<'de> Deserialize<'de> for Percents {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let bytes = STANDARD
            .decode(text)
            .map_err(|error| D::Error::custom(format!("not canonical base64: {error}")))?;
        if !is_legal(&bytes) {
            return Err(D::Error::custom(format!(
                "more than {CELLS_PER_LINE_MAX} percentages, or one above 100"
            )));
        }
        Ok(Self(bytes))
    }
}

fn is_legal(percents: &[u8]) -> bool {
    percents.len() <= CELLS_PER_LINE_MAX && percents.iter().all(|&percent| percent <= 100)
}

#[cfg(test)]
mod tests {
    use super::{Engine, Percents, STANDARD};
    use proptest::prelude::*;

    fn read(text: &str) -> Option<Vec<u8>> {
        let read = serde_json::from_str::<Percents>(&format!("\"{text}\""));
        read.ok().map(|percents| percents.0)
    }

    #[test]
    fn only_canonical_texts_are_read() {
        assert_eq!(read("AAFk").as_deref(), Some([0, 1, 100].as_slice()));
        assert_eq!(read("ZA==").as_deref(), Some([100].as_slice()));
        for text in [
            "Z", "ZA", "ZA=", "ZB==", "Z===", "====", "ZAE=ZAE=", "ZAF\\n", "=m8=", "ZAFé",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_refused_or_written_as_it_was_read(text in "[A-Za-z0-9+/=]{0,12}") {
            if let Some(bytes) = read(&text) {
                let again = serde_json::to_string(&Percents(bytes)).unwrap();
                prop_assert_eq!(again, format!("\"{text}\""));
            }
        }
    }

    #[test]
    fn percentages_are_bounded() {
        let read = |bytes: &[u8]| read(&STANDARD.encode(bytes)).is_some();
        assert!(read(&[0, 100]));
        assert!(!read(&[101]));
        assert!(read(&[7; super::CELLS_PER_LINE_MAX]));
        assert!(!read(&[7; super::CELLS_PER_LINE_MAX + 1]));
    }
}
