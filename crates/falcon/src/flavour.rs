//! The flavours of Falcon in use: they differ in bit and byte order, in the hash, in one additional
//! bound, and in the origin of the salt.

use sha3::Shake256;
use sha3::digest::{ExtendableOutput, Update, XofReader};

use crate::{DEGREE, MODULUS, Parameters, PublicKey, SALT_BYTES};

/// Label hashed before key and message in flavour `slot`. With both, and with slot and role before
/// a message of 32 bytes, the input is one block of SHAKE256.
pub(crate) const SLOT_LABEL: &[u8] = b"alphorn/falcon/slot/v1";

/// Bytes of a salt that is not sent and of the message representative that follows it.
pub(crate) const EXPANDED_BYTES: usize = SALT_BYTES + 64;

/// Words of the hash below this bound are uniform modulo `q`: five times `q`.
pub(crate) const WORD_MAX: u16 = 61_445;

/// Bytes that one draw requests from the hash: nine blocks, of whose 612 words 574 are below
/// [`WORD_MAX`] on average, with a standard deviation of six. Eight blocks are too short for degree 512 in half of
/// the cases. Degree 1024 takes two draws.
const DRAW_BYTES: usize = 9 * 136;

/// How keys and signatures are encoded and messages hashed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Flavour {
    /// The FN-DSA draft as the crate `fn-dsa` 0.4.0 implements it: little endian, keys as values at the roots, the
    /// message bound to the key by a hash of both, every coefficient at most 840 in absolute value. No
    /// draft of FIPS 206 is published yet, so it may differ from the coming standard.
    #[default]
    FnDsa,
    /// Falcon as submitted to round 3 of the NIST competition: big endian, the hash over salt and message
    /// only.
    Original,
    /// [`Flavour::Original`] without salts: the salt is a hash of key, slot, role and message, so it
    /// is not sent. Safe only if a key signs once per slot and role: [`crate::slot`].
    Slot,
}

impl Flavour {
    /// All flavours.
    pub const ALL: [Flavour; 3] = [Flavour::FnDsa, Flavour::Original, Flavour::Slot];

    /// The byte of the flavour in transcripts and files.
    #[must_use]
    pub fn id(self) -> u8 {
        match self {
            Flavour::FnDsa => 0,
            Flavour::Original => 1,
            Flavour::Slot => 2,
        }
    }

    /// The name on the command line and in files.
    #[must_use]
    pub(crate) fn name(self) -> &'static str {
        match self {
            Flavour::FnDsa => "fn-dsa",
            Flavour::Original => "original",
            Flavour::Slot => "slot",
        }
    }

    /// Returns the flavour with this name.
    #[must_use]
    #[cfg(test)]
    pub(crate) fn of_name(name: &str) -> Option<Flavour> {
        (Flavour::ALL.into_iter()).find(|flavour| flavour.name() == name)
    }

    /// Whether a public key holds the coefficients of `h`. Otherwise it holds the values at the roots of
    /// `Y^N + 1`, in the order of [`crate::ring::Polys::forward`].
    #[must_use]
    pub(crate) fn keys_are_coefficients(self) -> bool {
        !self.is_little_endian()
    }

    /// Whether bits and bytes are little endian; otherwise they are big endian.
    pub(crate) fn is_little_endian(self) -> bool {
        self == Flavour::FnDsa
    }

    /// Returns the bytes of the salt in a signature: zero if the salt follows from the rest.
    #[must_use]
    pub const fn salt_bytes(self) -> usize {
        match self {
            Flavour::FnDsa | Flavour::Original => SALT_BYTES,
            Flavour::Slot => 0,
        }
    }

    /// Whether signatures carry a salt.
    #[must_use]
    pub(crate) fn is_salted(self) -> bool {
        self.salt_bytes() != 0
    }

    /// Returns the bytes of a signature of Falcon-512: a header, the salt, the code of `s2`.
    #[must_use]
    pub const fn signature_bytes(self) -> usize {
        self.signature_bytes_of(DEGREE)
    }

    /// The same for a degree.
    ///
    /// # Panics
    /// If the degree is neither 512 nor 1024.
    #[must_use]
    pub const fn signature_bytes_of(self, degree: usize) -> usize {
        Parameters::of(degree).signature_bytes - SALT_BYTES + self.salt_bytes()
    }

    /// Returns the largest absolute value of a coefficient of `s1` and `s2` that plain verification
    /// accepts. In the other flavours the code of `s2` ends at 2047 and `s1` is not limited.
    #[must_use]
    pub(crate) fn coefficient_max(self) -> Option<i16> {
        match self {
            Flavour::FnDsa => Some(840),
            Flavour::Original | Flavour::Slot => None,
        }
    }

    /// Returns the hash `c` of salt and message, with coefficients in `[0, q)`. `key_digest` is the digest of the
    /// public key, which original Falcon ignores. In flavour `slot` the message is that of
    /// [`crate::slot::signed_bytes`].
    ///
    /// # Panics
    /// If there is no salt but the flavour sends one, or the other way round.
    #[must_use]
    pub(crate) fn target<const N: usize>(
        self,
        key_digest: &[u8; 64],
        salt: Option<&[u8; SALT_BYTES]>,
        message: &[u8],
    ) -> [u16; N] {
        let name = self.name();
        assert_eq!(salt.is_some(), self.is_salted(), "a salt of flavour {name}");
        let mut hash = Shake256::default();
        hash.update(salt.map_or(&[][..], |salt| salt));
        match self {
            Flavour::Original => hash.update(message),
            Flavour::FnDsa => hash.update(&representative(key_digest, message)),
            Flavour::Slot => hash.update(&expand(key_digest, message)),
        }
        let mut reader = hash.finalize_xof();
        let mut out = [0; N];
        let mut filled = 0;
        while filled < N {
            let mut bytes = [0; DRAW_BYTES];
            reader.read(&mut bytes);
            for pair in bytes.as_chunks::<2>().0 {
                let word = if self.is_little_endian() {
                    u16::from_le_bytes(*pair)
                } else {
                    u16::from_be_bytes(*pair)
                };
                // Larger words are skipped: a remainder of any 16-bit word would prefer some residues.
                if word < WORD_MAX && filled < N {
                    out[filled] = word % MODULUS;
                    filled += 1;
                }
            }
        }
        out
    }
}

impl Flavour {
    /// [`Flavour::target`] for a key, with each coefficient in `[-(q-1)/2, (q-1)/2]`.
    #[must_use]
    pub(crate) fn centred_target<const N: usize>(
        self,
        key: &PublicKey<N>,
        salt: Option<&[u8; SALT_BYTES]>,
        message: &[u8],
    ) -> [i16; N] {
        self.target(key.digest(), salt, message).map(|c| {
            if c > MODULUS / 2 {
                c as i16 - MODULUS as i16
            } else {
                c as i16
            }
        })
    }
}

/// Returns SHAKE256 of an encoded public key, 64 bytes, to which the draft binds messages.
#[must_use]
#[cfg(test)]
pub(crate) fn key_digest(encoded_key: &[u8]) -> [u8; 64] {
    shake(&[encoded_key])
}

/// Returns the message representative of the draft, without pre-hash and with an empty context.
fn representative(key_digest: &[u8; 64], message: &[u8]) -> [u8; 64] {
    shake(&[key_digest, &[0, 0], message])
}

/// Returns the salt and the message representative of flavour `slot`, one after the other: a function of
/// key and message.
pub(crate) fn expand(key_digest: &[u8; 64], message: &[u8]) -> [u8; EXPANDED_BYTES] {
    shake(&[SLOT_LABEL, key_digest, message])
}

fn shake<const BYTES: usize>(parts: &[&[u8]]) -> [u8; BYTES] {
    let mut hash = Shake256::default();
    for part in parts {
        hash.update(part);
    }
    let mut out = [0; BYTES];
    hash.finalize_xof().read(&mut out);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_are_different() {
        for (id, flavour) in Flavour::ALL.into_iter().enumerate() {
            assert_eq!(Flavour::of_name(flavour.name()), Some(flavour));
            assert_eq!(usize::from(flavour.id()), id);
        }
        assert_eq!(Flavour::of_name("fips206"), None);
    }

    #[test]
    fn targets_depend_on_all_that_the_flavour_hashes() {
        let target = |flavour: Flavour, key: u8, salt: u8, message: &[u8]| {
            let salt = flavour.is_salted().then_some([salt; SALT_BYTES]);
            flavour.target::<DEGREE>(&[key; 64], salt.as_ref(), message)
        };
        for flavour in Flavour::ALL {
            let base = target(flavour, 0, 0, b"message");
            assert!(base.iter().all(|&c| c < MODULUS));
            let salted = base != target(flavour, 0, 1, b"message");
            assert_eq!(salted, flavour.is_salted());
            assert_ne!(base, target(flavour, 0, 0, b"another"));
            let bound = flavour != Flavour::Original;
            assert_eq!(base != target(flavour, 1, 0, b"message"), bound);
        }
    }

    #[test]
    #[should_panic(expected = "a salt of flavour slot")]
    fn a_salt_beside_the_derived_one_is_a_mistake() {
        let _ = Flavour::Slot.target::<DEGREE>(&[0; 64], Some(&[0; SALT_BYTES]), b"message");
    }
}
