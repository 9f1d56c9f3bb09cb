//! Verification without any proof, one signature or many: the baseline of every aggregate, and
//! what a prover asks of each signature before it begins.

use alphorn_labrador::{Backend, Pass, Vectors};
use thiserror::Error;

use crate::codec::{DecodeError, decode_signature};
use crate::ring::{LANES, Polys};
use crate::{DEGREE, NORM_SQ_MAX, PublicKey, SALT_BYTES};

/// A signature to verify.
#[derive(Clone, Copy, Debug)]
pub struct Item<'a> {
    /// The signer's key, which names the flavour.
    pub key: &'a PublicKey,
    /// What was signed.
    pub message: &'a [u8],
    /// The signature's bytes.
    pub signature: &'a [u8],
}

/// Why a signature is not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Refused {
    /// It does not decode.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// `||s1||^2 + ||s2||^2` is too large.
    #[error("the squared norm {norm_sq} is above {NORM_SQ_MAX}")]
    Norm {
        /// The squared norm.
        norm_sq: u64,
    },
    /// A coefficient of `s1` is beyond the flavour's bound.
    #[error("coefficient {index} of s1 is {value}, beyond 840")]
    Coefficient {
        /// Which coefficient.
        index: usize,
        /// Its value.
        value: i16,
    },
}

/// A signature with all its parts, accepted by plain verification.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opened {
    /// The salt.
    pub salt: [u8; SALT_BYTES],
    /// `s1 = c - s2 h`, centred.
    pub s1: [i16; DEGREE],
    /// `s2`, as the signature holds it.
    pub s2: [i16; DEGREE],
}

/// Verifies one signature.
///
/// # Errors
/// What is wrong with it.
pub fn verify(item: &Item<'_>) -> Result<(), Refused> {
    let mut decoded = [decode(item)?];
    subtract_products::<1>(&[item.key], &mut decoded);
    let [decoded] = decoded;
    decoded.check(item).map(|_| ())
}

/// Verifies many signatures, [`LANES`] at a time; the verdicts are those of [`verify`].
#[must_use]
pub fn verify_batch(items: &[Item<'_>], backend: Backend) -> Vec<Result<(), Refused>> {
    let opened = open_batch(items, backend).into_iter();
    opened.map(|opened| opened.map(|_| ())).collect()
}

/// Verifies many signatures and returns their parts.
#[must_use]
pub fn open_batch(items: &[Item<'_>], backend: Backend) -> Vec<Result<Opened, Refused>> {
    let mut out = Vec::with_capacity(items.len());
    for chunk in items.chunks(LANES) {
        let mut decoded: Vec<Result<Decoded, Refused>> = chunk.iter().map(decode).collect();
        let keys: Vec<&PublicKey> = (chunk.iter().zip(&decoded))
            .filter(|(_, decoded)| decoded.is_ok())
            .map(|(item, _)| item.key)
            .collect();
        let mut good: Vec<&mut Decoded> = decoded.iter_mut().flatten().collect();
        backend.run(Products {
            keys: &keys,
            decoded: &mut good,
        });
        let checked = chunk.iter().zip(decoded);
        out.extend(checked.map(|(item, decoded)| decoded?.check(item)));
    }
    out
}

/// A signature after decoding: `s1` holds the target `c` until products are subtracted.
struct Decoded {
    salt: [u8; SALT_BYTES],
    s1: [i16; DEGREE],
    s2: [i16; DEGREE],
}

fn decode(item: &Item<'_>) -> Result<Decoded, Refused> {
    let flavour = item.key.flavour();
    let (salt, s2) = decode_signature(flavour, item.signature)?;
    let target = flavour.target(item.key.digest(), &salt, item.message);
    Ok(Decoded {
        salt,
        s1: target.map(|c| c as i16),
        s2,
    })
}

impl Decoded {
    fn check(self, item: &Item<'_>) -> Result<Opened, Refused> {
        let square = |c: &i16| u64::from(c.unsigned_abs()).pow(2);
        let norm_sq = self.s1.iter().chain(&self.s2).map(square).sum();
        if norm_sq > NORM_SQ_MAX {
            return Err(Refused::Norm { norm_sq });
        }
        if let Some(max) = item.key.flavour().coefficient_max() {
            let beyond = (self.s1.iter().enumerate()).find(|(_, c)| c.abs() > max);
            if let Some((index, &value)) = beyond {
                return Err(Refused::Coefficient { index, value });
            }
        }
        Ok(Opened {
            salt: self.salt,
            s1: self.s1,
            s2: self.s2,
        })
    }
}

/// `s1 -= s2 h` for up to [`LANES`] signatures.
struct Products<'a, 'b> {
    keys: &'a [&'a PublicKey],
    decoded: &'a mut [&'b mut Decoded],
}

impl Pass for Products<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vectors>(self) {
        subtract_products::<LANES>(self.keys, self.decoded);
    }
}

#[inline(always)]
fn subtract_products<const L: usize>(
    keys: &[&PublicKey],
    decoded: &mut [impl std::borrow::BorrowMut<Decoded>],
) {
    let (mut c, mut s2, mut h) = (Polys::<L>::zero(), Polys::<L>::zero(), Polys::<L>::zero());
    for (lane, (key, decoded)) in keys.iter().zip(decoded.iter()).enumerate() {
        let decoded = decoded.borrow();
        c.load(lane, &decoded.s1);
        s2.load(lane, &decoded.s2);
        h.load(lane, key.values());
    }
    c.reduce();
    s2.reduce();
    s2.forward();
    s2.multiply(&h);
    s2.inverse();
    c.subtract(&s2);
    c.centre();
    for (lane, decoded) in decoded.iter_mut().enumerate() {
        c.store(lane, &mut decoded.borrow_mut().s1);
    }
}
