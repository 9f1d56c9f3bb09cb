//! The parameter sets: two of the lean consensus specification, and a compact one.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// Base of the code: a chain has positions 0 to 7.
pub(crate) const BASE: u8 = 8;

/// Number of elements in the longest digest.
pub(crate) const DIGEST_MAX: usize = 8;

/// Number of chains in the largest set.
pub(crate) const CHAINS_MAX: usize = 46;

/// A parameter set. All sets sign 32-byte messages with one-time keys, one for each index below 2^L.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Set {
    /// The production set of the lean consensus specification, byte-compatible: 2536-byte signatures.
    Prod = 1,
    /// Its test set: 256 indices, four chains, no security.
    Test = 2,
    /// Short digests and a single permutation: 1171-byte signatures, 32-byte keys.
    Compact = 3,
}

/// The numbers of a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Params {
    /// L, the number of levels of the tree; there are 2^L indices.
    pub log2_lifetime: u8,
    /// v, the number of chains, of eight positions each.
    pub(crate) chains: usize,
    /// Sum of the code's digits; a message is hashed with fresh randomness until its code reaches it.
    pub(crate) target_sum: u16,
    /// Field elements of a digest.
    pub(crate) digest: usize,
    /// Field elements of a key's parameter P.
    pub(crate) parameter: usize,
    /// Field elements of a signature's randomness.
    pub(crate) randomness: usize,
    /// Number of bytes of a signature.
    pub signature_bytes: usize,
    /// Number of bytes of a public key.
    pub public_key_bytes: usize,
}

impl Params {
    /// Number of indices, 2^L.
    pub fn lifetime(&self) -> u64 {
        1 << self.log2_lifetime
    }

    /// Number of chain steps in one verification.
    pub(crate) fn steps(&self) -> usize {
        self.chains * usize::from(BASE - 1) - usize::from(self.target_sum)
    }
}

const PROD: Params = Params {
    log2_lifetime: 32,
    chains: 46,
    // Far above the mean of 161: few steps to verify, many tries to sign.
    target_sum: 200,
    digest: 8,
    parameter: 5,
    randomness: 7,
    signature_bytes: 2536,
    public_key_bytes: 52,
};

const TEST: Params = Params {
    log2_lifetime: 8,
    chains: 4,
    target_sum: 6,
    signature_bytes: 424,
    ..PROD
};

const COMPACT: Params = Params {
    log2_lifetime: 32,
    chains: 42,
    // The mean is 147.
    target_sum: 184,
    digest: 4,
    parameter: 4,
    randomness: 6,
    signature_bytes: 1171,
    public_key_bytes: 32,
};

impl Set {
    /// All sets.
    pub const ALL: [Set; 3] = [Set::Prod, Set::Test, Set::Compact];

    /// The numbers of the set.
    pub const fn params(self) -> &'static Params {
        match self {
            Set::Prod => &PROD,
            Set::Test => &TEST,
            Set::Compact => &COMPACT,
        }
    }

    /// `prod`, `test` or `compact`.
    pub const fn name(self) -> &'static str {
        match self {
            Set::Prod => "prod",
            Set::Test => "test",
            Set::Compact => "compact",
        }
    }

    /// The set with this number, or none if there is no such set.
    pub(crate) fn from_u8(value: u8) -> Option<Set> {
        Set::ALL.into_iter().find(|set| *set as u8 == value)
    }
}

/// A name that does not denote a set.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("unknown set {0:?}: expected compact, prod or test")]
pub struct UnknownSet(String);

impl FromStr for Set {
    type Err = UnknownSet;

    fn from_str(name: &str) -> Result<Set, UnknownSet> {
        Set::ALL
            .into_iter()
            .find(|set| set.name() == name)
            .ok_or_else(|| UnknownSet(name.to_owned()))
    }
}

impl fmt::Display for Set {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_follow_from_the_counts() {
        for set in Set::ALL {
            let p = set.params();
            let elements = p.randomness + p.digest * (p.chains + usize::from(p.log2_lifetime));
            let bytes = match set {
                Set::Compact => (elements * 31).div_ceil(8),
                // Three offsets of four bytes.
                Set::Prod | Set::Test => 4 * elements + 12,
            };
            assert_eq!(p.signature_bytes, bytes, "{set}");
            assert_eq!(p.public_key_bytes, 4 * (p.digest + p.parameter), "{set}");
            assert!(p.chains <= CHAINS_MAX && p.digest <= DIGEST_MAX, "{set}");
            assert_eq!(set.name().parse(), Ok(set));
            assert_eq!(Set::from_u8(set as u8), Some(set));
        }
        let steps = Set::ALL.map(|set| set.params().steps());
        assert_eq!(steps, [122, 22, 110]);
        assert!("leansig".parse::<Set>().is_err());
        assert_eq!(Set::from_u8(0), None);
    }
}
