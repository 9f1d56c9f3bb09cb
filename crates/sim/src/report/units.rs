//! Times are nanoseconds in memory and milliseconds in files.

/// Converts nanoseconds to milliseconds.
pub fn ms(ns: u64) -> f64 {
    ns as f64 / 1e6
}

fn ns(ms: f64) -> u64 {
    // Rounded rather than cut off: times without an exact form in milliseconds could lose a nanosecond when read.
    (ms * 1e6).round() as u64
}

/// Serialises a time.
pub(crate) mod as_ms {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(crate) fn serialize<S: Serializer>(ns: &u64, to: S) -> Result<S::Ok, S::Error> {
        super::ms(*ns).serialize(to)
    }

    pub(crate) fn deserialize<'de, D>(from: D) -> Result<u64, D::Error>
    where
        D: Deserializer<'de>,
    {
        f64::deserialize(from).map(super::ns)
    }
}

/// Serialises an optional time.
pub(crate) mod as_ms_or_none {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(crate) fn serialize<S>(ns: &Option<u64>, to: S) -> Result<S::Ok, S::Error>
    where
        S: Serializer,
    {
        ns.map(super::ms).serialize(to)
    }

    pub(crate) fn deserialize<'de, D>(from: D) -> Result<Option<u64>, D::Error>
    where
        D: Deserializer<'de>,
    {
        Ok(Option::<f64>::deserialize(from)?.map(super::ns))
    }
}
