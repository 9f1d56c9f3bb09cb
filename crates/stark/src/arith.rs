//! The arithmetic over which a verifier is written.
//!
//! A verifier here has a single source: it reads, hashes, computes and asserts through [`Arith`], and never
//! branches on a value. `Native` runs it on field elements. An interpreter that records the same calls as rows of
//! a circuit is, by construction, the circuit of the verifier.

use std::ops::{Add, Mul, Sub};

use alphorn_exec::Backend;

use crate::error::VerifyError;
use crate::extension::{DEGREE, Ext};
use crate::field::Fp;
use crate::hash::{DIGEST, compress};
use crate::merkle::{Opened, Sent, Shown};

/// The results of a verifier for one of many lanes: elements of F_p and of the extension.
pub(crate) type OfLane<A> = (Vec<<A as Arith>::Base>, Vec<<A as Arith>::Ext>);

/// The operations available to a verifier.
pub(crate) trait Arith: Sized {
    /// An element of F_p, or its representation.
    type Base: Copy + Add<Output = Self::Base> + Sub<Output = Self::Base> + Mul<Output = Self::Base>;

    /// An element of the extension, or its representation.
    type Ext: Copy
        + Add<Output = Self::Ext>
        + Sub<Output = Self::Ext>
        + Mul<Output = Self::Ext>
        + Mul<Self::Base, Output = Self::Ext>;

    /// A constant of F_p.
    fn base(&self, value: Fp) -> Self::Base;

    /// A constant of the extension.
    fn ext(&self, value: Ext) -> Self::Ext;

    /// The element of the extension with these coefficients.
    fn join(&self, coefficients: [Self::Base; DEGREE]) -> Self::Ext;

    /// C(left, right): the first half of the compression of a proof's own hash.
    fn compress(
        &mut self,
        left: [Self::Base; DIGEST],
        right: [Self::Base; DIGEST],
    ) -> [Self::Base; DIGEST];

    /// Reads the next element of the proof.
    ///
    /// # Errors
    /// [`VerifyError::Length`] if the proof ends here.
    fn read(&mut self) -> Result<Self::Base, VerifyError>;

    /// Reads the next element of the proof if a flag is one. If the flag is zero, the result is zero and the proof
    /// has no such element.
    ///
    /// # Errors
    /// [`VerifyError::Length`] if the proof ends here.
    fn read_where(&mut self, flag: Self::Base) -> Result<Self::Base, VerifyError>;

    /// Reads rows of a tree, and the nodes needed to follow the path of each, as laid out by
    /// [`crate::merkle::Opened`]; asserts that each path leads to the cap. An index is given as its bits from the
    /// lowest.
    ///
    /// # Errors
    /// [`VerifyError::Length`] if the proof ends, the tree's error if a path leads elsewhere.
    fn open(
        &mut self,
        tree: &Opened<'_, Self::Base>,
        indices: &[Vec<Self::Base>],
    ) -> Result<Vec<Vec<Self::Base>>, VerifyError>;

    /// Elements each of which belongs to a lane of [`Arith::each`]; their values do not change.
    fn in_lanes(&mut self, elements: Vec<Self::Base>) -> Vec<Self::Base> {
        elements
    }

    /// Runs the same computation for each of `lanes` lanes, by number; a circuit lays it out once, side by side.
    /// In addition to what all lanes share, a lane may use results for the same lane of other calls with as many
    /// lanes, made by [`Arith::in_lanes`], [`Arith::open`] or this method. Everything it returns must be newly
    /// made.
    fn each(
        &mut self,
        lanes: usize,
        mut one: impl FnMut(&mut Self, usize) -> OfLane<Self>,
    ) -> Vec<OfLane<Self>> {
        (0..lanes).map(|lane| one(self, lane)).collect()
    }

    /// The lowest `count` bits of the canonical integer of a value.
    fn low_bits(&mut self, value: Self::Base, count: usize) -> Vec<Self::Base>;

    /// Asserts that a value is zero.
    ///
    /// # Errors
    /// The given error if it is not.
    fn assert_zero(&mut self, value: Self::Ext, error: VerifyError) -> Result<(), VerifyError>;

    /// Asserts that a value is nonzero.
    ///
    /// # Errors
    /// The given error if it is zero.
    fn assert_nonzero(&mut self, value: Self::Ext, error: VerifyError) -> Result<(), VerifyError>;
}

pub(crate) fn sum<A: Arith>(arith: &A, terms: impl IntoIterator<Item = A::Ext>) -> A::Ext {
    terms
        .into_iter()
        .fold(arith.ext(Ext::ZERO), |sum, x| sum + x)
}

/// Reads rows with these indices, of `bits` bits each, starting at an element of a proof; returns also where they
/// end.
///
/// # Errors
/// See [`Arith::open`].
pub(crate) fn show<'a>(
    backend: Backend,
    proof: &'a [Fp],
    start: usize,
    tree: &Opened<'_, Fp>,
    indices: &[usize],
    bits: usize,
) -> Result<(Shown<'a>, usize), VerifyError> {
    let height = bits.saturating_sub(tree.cap.len().ilog2() as usize);
    let sent = Sent::new(indices, height);
    let end = start + sent.elements(tree.width);
    // The indices determine how much is sent, so the length is checked before anything is hashed.
    let part = proof.get(start..end).ok_or(VerifyError::Length {
        want: end,
        got: proof.len(),
    })?;
    Ok((Shown::new(backend, tree, sent, part)?, end))
}

/// Runs a verifier on the elements of a proof.
#[derive(Debug)]
pub(crate) struct Native<'a> {
    backend: Backend,
    proof: &'a [Fp],
    read: usize,
}

impl<'a> Native<'a> {
    /// An arithmetic that reads these elements.
    pub(crate) fn new(proof: &'a [Fp]) -> Native<'a> {
        // The kernel is for opened rows only: the transcript's own hashes run on `ONE_STATE`.
        Native::on(Backend::Portable, proof)
    }

    /// The same with a kernel for hashes that can be computed together.
    pub(crate) fn on(backend: Backend, proof: &'a [Fp]) -> Native<'a> {
        Native {
            backend,
            proof,
            read: 0,
        }
    }

    /// Asserts that the whole proof has been read.
    ///
    /// # Errors
    /// [`VerifyError::Length`] if elements are left.
    pub(crate) fn finish(&self) -> Result<(), VerifyError> {
        match self.read == self.proof.len() {
            true => Ok(()),
            false => Err(VerifyError::Length {
                want: self.read,
                got: self.proof.len(),
            }),
        }
    }
}

impl Arith for Native<'_> {
    type Base = Fp;
    type Ext = Ext;

    fn base(&self, value: Fp) -> Fp {
        value
    }

    fn ext(&self, value: Ext) -> Ext {
        value
    }

    fn join(&self, coefficients: [Fp; DEGREE]) -> Ext {
        Ext(coefficients)
    }

    fn compress(&mut self, left: [Fp; DIGEST], right: [Fp; DIGEST]) -> [Fp; DIGEST] {
        compress(left, right)
    }

    fn read(&mut self) -> Result<Fp, VerifyError> {
        let element = self.proof.get(self.read).ok_or(VerifyError::Length {
            want: self.read + 1,
            got: self.proof.len(),
        })?;
        self.read += 1;
        Ok(*element)
    }

    fn read_where(&mut self, flag: Fp) -> Result<Fp, VerifyError> {
        match flag == Fp::ONE {
            true => self.read(),
            false => Ok(Fp::ZERO),
        }
    }

    fn open(
        &mut self,
        tree: &Opened<'_, Fp>,
        indices: &[Vec<Fp>],
    ) -> Result<Vec<Vec<Fp>>, VerifyError> {
        let number = |bits: &Vec<Fp>| {
            let bits = bits.iter().rev().map(|bit| usize::from(*bit == Fp::ONE));
            bits.fold(0, |number, bit| 2 * number + bit)
        };
        let coordinates = indices.first().map_or(0, Vec::len);
        let indices: Vec<usize> = indices.iter().map(number).collect();
        let (shown, end) = show(
            self.backend,
            self.proof,
            self.read,
            tree,
            &indices,
            coordinates,
        )?;
        self.read = end;
        Ok(indices.iter().map(|i| shown.row(*i).to_vec()).collect())
    }

    fn low_bits(&mut self, value: Fp, count: usize) -> Vec<Fp> {
        let value = value.canonical();
        (0..count).map(|i| Fp::new(value >> i & 1)).collect()
    }

    fn assert_zero(&mut self, value: Ext, error: VerifyError) -> Result<(), VerifyError> {
        match value == Ext::ZERO {
            true => Ok(()),
            false => Err(error),
        }
    }

    fn assert_nonzero(&mut self, value: Ext, error: VerifyError) -> Result<(), VerifyError> {
        match value == Ext::ZERO {
            true => Err(error),
            false => Ok(()),
        }
    }
}
