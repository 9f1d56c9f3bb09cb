//! Percentages as base64, three bytes in four characters (RFC 4648, section 4).

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::CELLS_PER_LINE_MAX;

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// One percentage (0 to 100) for each of up to [`CELLS_PER_LINE_MAX`] cells.
///
/// Written as base64 with padding; only the canonical form is read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Percents(Vec<u8>);

impl Percents {
    /// These percentages.
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
        serializer.serialize_str(&encode(&self.0))
    }
}

impl<'de> Deserialize<'de> for Percents {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let bytes = decode(&text).ok_or_else(|| D::Error::custom("not canonical base64"))?;
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

fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let byte = |i: usize| u32::from(chunk.get(i).copied().unwrap_or(0));
        let group = byte(0) << 16 | byte(1) << 8 | byte(2);
        for i in 0..4 {
            if i <= chunk.len() {
                let digit = group >> (18 - 6 * i) & 0x3f;
                text.push(char::from(ALPHABET[digit as usize]));
            } else {
                text.push('=');
            }
        }
    }
    text
}

/// The bytes of canonical base64: full groups, padding only at the end, unused bits zero.
fn decode(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    for chunk in text.as_bytes().chunks(4) {
        let mut group = 0;
        for &letter in chunk {
            group = group << 6 | digit(letter)?;
        }
        bytes.extend_from_slice(&u32::to_be_bytes(group)[1..]);
    }
    let padding = text.bytes().rev().take_while(|&c| c == b'=').count();
    bytes.truncate(bytes.len().checked_sub(padding)?);
    // Padding inside, a cut group and unused bits all show when the bytes are written again.
    (encode(&bytes) == text).then_some(bytes)
}

fn digit(letter: u8) -> Option<u32> {
    let value = match letter {
        b'A'..=b'Z' => letter - b'A',
        b'a'..=b'z' => letter - b'a' + 26,
        b'0'..=b'9' => letter - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        b'=' => 0,
        _ => return None,
    };
    Some(u32::from(value))
}

#[cfg(test)]
mod tests {
    use super::{Percents, decode, encode};
    use proptest::prelude::*;

    #[test]
    fn texts_are_those_of_the_standard() {
        // RFC 4648, section 10.
        for (bytes, text) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert_eq!(encode(bytes.as_bytes()), text);
            assert_eq!(decode(text).as_deref(), Some(bytes.as_bytes()));
        }
    }

    #[test]
    fn other_texts_are_refused() {
        for text in [
            "Z", "Zg", "Zg=", "Zh==", "Z===", "====", "Zm8=Zm8=", "Zm9\n", "=m8=", "Zm9é",
        ] {
            assert_eq!(decode(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn bytes_round_trip(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            prop_assert_eq!(decode(&encode(&bytes)), Some(bytes));
        }

        #[test]
        fn any_text_is_refused_or_canonical(text in "[A-Za-z0-9+/=]{0,12}") {
            if let Some(bytes) = decode(&text) {
                prop_assert_eq!(encode(&bytes), text);
            }
        }
    }

    #[test]
    fn percentages_are_bounded() {
        let read = |bytes: &[u8]| {
            serde_json::from_str::<Percents>(&format!("\"{}\"", encode(bytes))).is_ok()
        };
        assert!(read(&[0, 100]));
        assert!(!read(&[101]));
        assert!(read(&[7; super::CELLS_PER_LINE_MAX]));
        assert!(!read(&[7; super::CELLS_PER_LINE_MAX + 1]));
    }
}
