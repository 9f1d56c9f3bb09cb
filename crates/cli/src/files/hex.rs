//! Byte strings as hex digits.

use super::input;
use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;

/// Bytes as hex digits; read with or without `0x`, written with it if `PREFIXED`.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Hex<const PREFIXED: bool>(pub(super) Vec<u8>);

impl<const PREFIXED: bool> Hex<PREFIXED> {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<const PREFIXED: bool> fmt::Display for Hex<PREFIXED> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let prefix = if PREFIXED { "0x" } else { "" };
        write!(f, "{prefix}{}", hex::encode(&self.0))
    }
}

impl<const PREFIXED: bool> Serialize for Hex<PREFIXED> {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de, const PREFIXED: bool> Deserialize<'de> for Hex<PREFIXED> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        struct Digits<const PREFIXED: bool>;
        impl<const PREFIXED: bool> Visitor<'_> for Digits<PREFIXED> {
            type Value = Hex<PREFIXED>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string of hex digits")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> std::result::Result<Self::Value, E> {
                input::unhex(text).map(Hex).map_err(E::custom)
            }
        }
        deserializer.deserialize_str(Digits)
    }
}
