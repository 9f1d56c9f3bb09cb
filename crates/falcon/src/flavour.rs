//! The two flavours of Falcon-512 in use: they differ in the order of bits and bytes, in the hash
//! and in one more bound.

use sha3::Shake256;
use sha3::digest::{ExtendableOutput, Update, XofReader};

use crate::{DEGREE, MODULUS, PublicKey, SALT_BYTES};

/// Words of the hash below this are uniform modulo `q`: five times `q`.
pub(crate) const WORD_MAX: u16 = 61_445;

/// Bytes that one draw of the hash asks for: nine blocks, of whose 612 words 574 are below
/// [`WORD_MAX`] on average, with a deviation of six; eight blocks are too short in half of the cases.
const DRAW_BYTES: usize = 9 * 136;

/// How keys and signatures are written and messages hashed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Flavour {
    /// The FN-DSA draft as the crate `fn-dsa` 0.4.0 implements it: little endian, keys
    /// as values at the roots, the message bound to the key by a hash of both, every coefficient at most 840 in absolute value. No
    /// draft of FIPS 206 is published yet, so it may differ from the standard to come.
    #[default]
    FnDsa,
    /// Falcon as submitted to round 3 of the NIST competition: big endian, the hash over salt and
    /// message alone.
    Original,
}

impl Flavour {
    /// The byte of the flavour in transcripts and files.
    #[must_use]
    pub fn id(self) -> u8 {
        match self {
            Flavour::FnDsa => 0,
            Flavour::Original => 1,
        }
    }

    /// The name on the command line and in files.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Flavour::FnDsa => "fn-dsa",
            Flavour::Original => "original",
        }
    }

    /// The flavour of a name.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Flavour> {
        [Flavour::FnDsa, Flavour::Original]
            .into_iter()
            .find(|flavour| flavour.name() == name)
    }

    /// Whether a public key holds the coefficients of `h`; else its values at the roots of
    /// `Y^512 + 1`, in the order of [`crate::ring::Polys::forward`].
    #[must_use]
    pub fn keys_are_coefficients(self) -> bool {
        self == Flavour::Original
    }

    /// The largest absolute value of a coefficient of `s1` and `s2` that plain verification
    /// accepts. In the original flavour the code of `s2` ends at 2047 and `s1` is free.
    #[must_use]
    pub fn coefficient_max(self) -> Option<i16> {
        match self {
            Flavour::FnDsa => Some(840),
            Flavour::Original => None,
        }
    }

    /// The hash `c` of salt and message, coefficients in `[0, q)`. `key` are the bytes of the
    /// public key's digest, [`key_digest`], which only the draft looks at.
    #[must_use]
    pub fn target(
        self,
        key_digest: &[u8; 64],
        salt: &[u8; SALT_BYTES],
        message: &[u8],
    ) -> [u16; DEGREE] {
        let mut hash = Shake256::default();
        hash.update(salt);
        match self {
            Flavour::Original => hash.update(message),
            Flavour::FnDsa => hash.update(&representative(key_digest, message)),
        }
        let mut reader = hash.finalize_xof();
        let mut out = [0; DEGREE];
        let mut filled = 0;
        while filled < DEGREE {
            let mut bytes = [0; DRAW_BYTES];
            reader.read(&mut bytes);
            for pair in bytes.as_chunks::<2>().0 {
                let word = match self {
                    Flavour::Original => u16::from_be_bytes(*pair),
                    Flavour::FnDsa => u16::from_le_bytes(*pair),
                };
                if word < WORD_MAX && filled < DEGREE {
                    out[filled] = word % MODULUS;
                    filled += 1;
                }
            }
        }
        out
    }
}

impl Flavour {
    /// [`Flavour::target`] of a key, each coefficient in `[-(q-1)/2, (q-1)/2]`.
    #[must_use]
    pub fn centred_target(
        self,
        key: &PublicKey,
        salt: &[u8; SALT_BYTES],
        message: &[u8],
    ) -> [i16; DEGREE] {
        self.target(key.digest(), salt, message).map(|c| {
            if c > MODULUS / 2 {
                c as i16 - MODULUS as i16
            } else {
                c as i16
            }
        })
    }
}

/// SHAKE256 of an encoded public key, 64 bytes: what the draft binds messages to.
#[must_use]
pub fn key_digest(encoded_key: &[u8]) -> [u8; 64] {
    shake(&[encoded_key])
}

/// The message representative of the draft, without pre-hash and with an empty context.
fn representative(key_digest: &[u8; 64], message: &[u8]) -> [u8; 64] {
    shake(&[key_digest, &[0, 0], message])
}

fn shake(parts: &[&[u8]]) -> [u8; 64] {
    let mut hash = Shake256::default();
    for part in parts {
        hash.update(part);
    }
    let mut out = [0; 64];
    hash.finalize_xof().read(&mut out);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_are_different() {
        assert_eq!(Flavour::of_name("fn-dsa"), Some(Flavour::FnDsa));
        assert_eq!(Flavour::of_name("original"), Some(Flavour::Original));
        assert_eq!(Flavour::of_name("fips206"), None);
        assert_ne!(Flavour::FnDsa.id(), Flavour::Original.id());
    }

    #[test]
    fn targets_depend_on_all_that_the_flavour_hashes() {
        let target = |flavour: Flavour, key: u8, salt: u8, message: &[u8]| {
            flavour.target(&[key; 64], &[salt; SALT_BYTES], message)
        };
        for flavour in [Flavour::FnDsa, Flavour::Original] {
            let base = target(flavour, 0, 0, b"message");
            assert!(base.iter().all(|&c| c < MODULUS));
            assert_ne!(base, target(flavour, 0, 1, b"message"));
            assert_ne!(base, target(flavour, 0, 0, b"another"));
            let bound = flavour == Flavour::FnDsa;
            assert_eq!(base != target(flavour, 1, 0, b"message"), bound);
        }
    }
}
