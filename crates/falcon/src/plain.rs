//! Verification without any proof, for one signature or many: the baseline of every aggregate, and
//! the check that a prover makes of each signature before it begins.

use std::any::Any;

use alphorn_exec::Backend;
use alphorn_labrador::{Dispatch, Pass, Vectors};
use thiserror::Error;

use crate::codec::{DecodeError, decode_signature};
use crate::hash::{Hashed, targets};
use crate::key::KeyForm;
use crate::ring::{LANES, Polys};
use crate::{DEGREE, Flavour, Parameters, PublicKey, SALT_BYTES};

/// A signature to verify, of degree 512 or 1024.
#[derive(Clone, Copy, Debug)]
pub struct Item<'a, const N: usize = DEGREE> {
    /// The signer's key, which names the flavour.
    pub key: &'a PublicKey<N>,
    /// The signed message; in flavour `slot` the bytes of [`crate::slot::signed_bytes`].
    pub message: &'a [u8],
    /// The encoded signature.
    pub signature: &'a [u8],
}

/// Reason why a signature is not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Refused {
    /// It does not decode.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// `||s1||^2 + ||s2||^2` is too large.
    #[error("the squared norm {norm_sq} is above {max}")]
    Norm {
        /// The squared norm.
        norm_sq: u64,
        /// The bound of the degree.
        max: u64,
    },
    /// A coefficient of `s1` exceeds the flavour's bound.
    #[error("coefficient {index} of s1 is {value}, beyond 840")]
    Coefficient {
        /// Index of the coefficient.
        index: usize,
        /// Its value.
        value: i16,
    },
}

/// A signature with all its parts, accepted by plain verification.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Opened<const N: usize> {
    /// The salt, if the flavour sends one.
    pub salt: Option<[u8; SALT_BYTES]>,
    /// `c`, the hashed message, centred.
    pub target: [i16; N],
    /// `s1 = c - s2 h`, centred.
    pub s1: [i16; N],
    /// `s2`, as encoded in the signature.
    pub s2: [i16; N],
}

/// Verifies one signature.
///
/// # Errors
/// The reason for the refusal.
pub fn verify<const N: usize>(item: &Item<'_, N>) -> Result<(), Refused> {
    let flavour = item.key.flavour();
    let (salt, s2) = decode_signature(flavour, item.signature)?;
    let target = flavour.centred_target(item.key, salt.as_ref(), item.message);
    let (mut c, mut product, mut h) = (Polys::<1, N>::zero(), Polys::zero(), Polys::zero());
    c.load(0, &target);
    product.load(0, &s2);
    // A key keeps its values, so only `s2` is transformed here.
    h.load(0, item.key.values());
    subtract_product(&mut c, &mut product, &h);
    // Only a buffer: every coefficient is overwritten.
    let mut s1 = target;
    c.store(0, &mut s1);
    let opened = Opened {
        salt,
        target,
        s1,
        s2,
    };
    opened.check(flavour)
}

/// Verifies many signatures, [`LANES`] at a time; the verdicts are those of [`verify`].
#[must_use]
pub fn verify_batch<const N: usize>(
    items: &[Item<'_, N>],
    backend: Backend,
) -> Vec<Result<(), Refused>> {
    let verdicts = opened(items, backend).map(|opened| opened.map(|_| ()));
    verdicts.collect()
}

/// Verifies many signatures and returns their parts.
#[must_use]
pub(crate) fn open_batch<const N: usize>(
    items: &[Item<'_, N>],
    backend: Backend,
) -> Vec<Result<Opened<N>, Refused>> {
    opened(items, backend).collect()
}

/// Opens many signatures lazily; the parts of at most [`LANES`] are in memory at a time.
fn opened<const N: usize>(
    items: &[Item<'_, N>],
    backend: Backend,
) -> impl Iterator<Item = Result<Opened<N>, Refused>> {
    let few = items.chunks(LANES);
    few.flat_map(move |items| open_few(items, backend))
}

impl<const N: usize> Opened<N> {
    fn check(&self, flavour: Flavour) -> Result<(), Refused> {
        let square = |c: &i16| u64::from(c.unsigned_abs()).pow(2);
        let norm_sq = self.s1.iter().chain(&self.s2).map(square).sum();
        let max = const { Parameters::of(N) }.norm_sq_max;
        if norm_sq > max {
            return Err(Refused::Norm { norm_sq, max });
        }
        if let Some(max) = flavour.coefficient_max() {
            // The decoder has already held s2 to this bound.
            let beyond = (self.s1.iter().enumerate()).find(|(_, c)| c.abs() > max);
            if let Some((index, &value)) = beyond {
                return Err(Refused::Coefficient { index, value });
            }
        }
        Ok(())
    }
}

/// A signature to verify, with its key prepared.
struct Ready<'a> {
    flavour: Flavour,
    /// The digest of the key.
    digest: &'a [u8; 64],
    /// The values of `h`.
    values: &'a [i16],
    message: &'a [u8],
    signature: &'a [u8],
}

/// Verifies up to [`LANES`] signatures. Generic code is compiled at the optimisation level of the crate that names
/// the degree, so the slow part, here and elsewhere, is not generic.
fn open_few<const N: usize>(
    items: &[Item<'_, N>],
    backend: Backend,
) -> Vec<Result<Opened<N>, Refused>> {
    let keys: Vec<&PublicKey<N>> = items.iter().map(|item| item.key).collect();
    PublicKey::prepare_few(&keys, KeyForm::Values, backend);
    let ready = items.iter().map(|item| Ready {
        flavour: item.key.flavour(),
        digest: item.key.digest(),
        values: item.key.values(),
        message: item.message,
        signature: item.signature,
    });
    let opened = open_any(N, &ready.collect::<Vec<_>>(), backend).downcast();
    *opened.expect("parts of the degree")
}

fn open_any(degree: usize, items: &[Ready<'_>], backend: Backend) -> Box<dyn Any> {
    match degree {
        512 => Box::new(open_of::<512>(items, backend)),
        _ => Box::new(open_of::<1024>(items, backend)),
    }
}

fn open_of<const N: usize>(
    items: &[Ready<'_>],
    backend: Backend,
) -> Vec<Result<Opened<N>, Refused>> {
    let decode = |item: &Ready<'_>| decode_signature::<N>(item.flavour, item.signature);
    let decoded: Vec<_> = items.iter().map(decode).collect();
    let good = (items.iter().zip(&decoded))
        .filter_map(|(item, decoded)| Some((item, decoded.as_ref().ok()?)));
    let hashed = good.clone().map(|(item, (salt, _))| Hashed {
        flavour: item.flavour,
        digest: item.digest,
        salt: salt.as_ref(),
        message: item.message,
    });
    let targets = targets(N, &hashed.collect::<Vec<_>>(), backend);
    let mut s1 = targets.clone();
    let h = good.clone().map(|(item, _)| item.values.first_chunk());
    backend.run(Subtract::<N> {
        s1: s1.as_chunks_mut().0,
        s2: &good.clone().map(|(_, (_, s2))| s2).collect::<Vec<_>>(),
        h: &h.map(|h| h.expect("of the degree")).collect::<Vec<_>>(),
    });
    let (targets, s1) = (targets.as_chunks().0, s1.as_chunks().0);
    let mut parts = targets.iter().zip(s1);
    (items.iter().zip(decoded))
        .map(|(item, decoded)| {
            let (salt, s2) = decoded?;
            // Items that did not decode have no target: both sequences have only those that did.
            let (&target, &s1) = parts.next().expect("a target for each that decodes");
            let opened = Opened {
                salt,
                target,
                s1,
                s2,
            };
            opened.check(item.flavour).map(|()| opened)
        })
        .collect()
}

/// Computes `s1 - s2 h` of up to [`LANES`] signatures, from centred `s1`; centred.
struct Subtract<'a, const N: usize> {
    s1: &'a mut [[i16; N]],
    s2: &'a [&'a [i16; N]],
    h: &'a [&'a [i16; N]],
}

impl<const N: usize> Pass for Subtract<'_, N> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vectors>(self) {
        let (mut c, mut product) = (Polys::<LANES, N>::zero(), Polys::zero());
        let mut h = Polys::zero();
        c.load_all::<V>(&self.s1.iter().collect::<Vec<_>>());
        product.load_all::<V>(self.s2);
        h.load_all::<V>(self.h);
        subtract_product(&mut c, &mut product, &h);
        c.store_all::<V>(&mut self.s1.iter_mut().collect::<Vec<_>>());
    }
}

/// Computes `c - s2 h`, centred, from centred `c`, any `s2` and the values of `h`.
#[inline(always)]
fn subtract_product<const L: usize, const N: usize>(
    c: &mut Polys<L, N>,
    s2: &mut Polys<L, N>,
    h: &Polys<L, N>,
) {
    s2.reduce();
    s2.forward();
    s2.multiply(h);
    s2.inverse();
    c.subtract(s2);
    c.centre();
}
