//! Signers and their multiplicities: the support of an aggregate or a collection.

use thiserror::Error;

use crate::Bitfield;

/// Largest multiplicity that a support can hold, four bits (the "uint4" of Horn, ethresear.ch).
pub const MULTIPLICITY_LIMIT: u8 = 15;

/// A multiplicity above [`MULTIPLICITY_LIMIT`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("multiplicity {value} at position {position}, must be at most {max}")]
pub struct SupportError {
    /// The position.
    pub position: usize,
    /// The multiplicity.
    pub value: u8,
    /// The largest legal one.
    pub max: u8,
}

/// A sum of supports that exceeds the given bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("sum of multiplicities at position {position} is above {max}")]
pub struct Overflow {
    /// The first position whose sum is too large.
    pub position: usize,
    /// The bound.
    pub max: u8,
}

/// A vector of multiplicities 0..=15, one per position of a cell or a committee.
///
/// Stored as p bitfields ("planes"): m = Σ 2^j·plane_j. The form is canonical: p is the number of
/// bits of the largest multiplicity, at least 1, so equal supports compare equal. The *signers* are
/// the positions with m > 0; a signer's weight counts once, whatever its multiplicity.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Support {
    planes: Vec<Bitfield>,
}

impl Support {
    /// The empty support over `len` positions.
    #[must_use]
    pub fn new(len: usize) -> Self {
        Self::from_bits(Bitfield::new(len))
    }

    /// Each position of `bits` once.
    #[must_use]
    pub fn from_bits(bits: Bitfield) -> Self {
        Self { planes: vec![bits] }
    }

    /// A support from the multiplicity of each position.
    ///
    /// # Errors
    ///
    /// Names the first position above [`MULTIPLICITY_LIMIT`].
    pub fn from_multiplicities(multiplicities: &[u8]) -> Result<Self, SupportError> {
        let mut planes = vec![Bitfield::new(multiplicities.len()); 4];
        for (position, &value) in multiplicities.iter().enumerate() {
            if value > MULTIPLICITY_LIMIT {
                return Err(SupportError {
                    position,
                    value,
                    max: MULTIPLICITY_LIMIT,
                });
            }
            for (j, plane) in planes.iter_mut().enumerate() {
                if value >> j & 1 == 1 {
                    plane.set(position);
                }
            }
        }
        Ok(Self::canonical(planes))
    }

    /// A support from its planes; `None` if they are not canonical: 1 to 4 planes of one length,
    /// the last one not empty unless it is the only one.
    #[must_use]
    pub fn from_planes(planes: Vec<Bitfield>) -> Option<Self> {
        let first_len = planes.first()?.len();
        let top_is_used = planes.len() == 1 || planes.last()?.any();
        let legal =
            planes.len() <= 4 && top_is_used && planes.iter().all(|plane| plane.len() == first_len);
        legal.then_some(Self { planes })
    }

    /// Number of positions.
    #[must_use]
    pub fn len(&self) -> usize {
        self.planes[0].len()
    }

    /// True if there are no signers.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.planes.iter().all(Bitfield::none)
    }

    /// The binary planes, at least one; plane j holds bit j of each multiplicity.
    #[must_use]
    pub fn planes(&self) -> &[Bitfield] {
        &self.planes
    }

    /// Number of binary planes p, 1 to 4.
    #[must_use]
    pub fn planes_count(&self) -> usize {
        self.planes.len()
    }

    /// The multiplicity at position `i`.
    ///
    /// # Panics
    ///
    /// If `i` is not below the length.
    #[must_use]
    pub fn multiplicity(&self, i: usize) -> u8 {
        let bit = |(j, plane): (usize, &Bitfield)| u8::from(plane.get(i)) << j;
        self.planes.iter().enumerate().map(bit).sum()
    }

    /// The largest multiplicity, 0 if there are no signers.
    #[must_use]
    pub fn max_multiplicity(&self) -> u8 {
        // Fix the bits from the top: a bit of the maximum is one if it is set in a position that
        // agrees with the bits fixed so far.
        let mut candidates = Bitfield::ones(self.len());
        let mut max = 0;
        for (j, plane) in self.planes.iter().enumerate().rev() {
            if candidates.count_and(plane) > 0 {
                candidates.intersect_with(plane);
                max |= 1 << j;
            }
        }
        max
    }

    /// The positions with a multiplicity above 0.
    #[must_use]
    pub fn signers(&self) -> Bitfield {
        let mut signers = self.planes[0].clone();
        for plane in &self.planes[1..] {
            signers.union_with(plane);
        }
        signers
    }

    /// Number of signers.
    #[must_use]
    pub fn signer_count(&self) -> usize {
        (0..self.planes[0].words().len())
            .map(|w| self.signer_word(w).count_ones() as usize)
            .sum()
    }

    /// True if position `i` signed.
    ///
    /// # Panics
    ///
    /// If `i` is not below the length.
    #[must_use]
    pub fn contains(&self, i: usize) -> bool {
        self.planes.iter().any(|plane| plane.get(i))
    }

    /// True if every signer here is a signer of `other`.
    ///
    /// # Panics
    ///
    /// If the lengths differ.
    #[must_use]
    pub fn is_subset_of(&self, other: &Self) -> bool {
        assert_eq!(self.len(), other.len(), "supports of different length");
        (0..self.planes[0].words().len()).all(|w| self.signer_word(w) & !other.signer_word(w) == 0)
    }

    /// The signers and their multiplicities, by ascending position.
    pub fn iter(&self) -> impl Iterator<Item = (usize, u8)> + '_ {
        let signers = self.signers();
        let ones: Vec<usize> = signers.iter_ones().collect();
        ones.into_iter().map(|i| (i, self.multiplicity(i)))
    }

    /// The sum of both, by position.
    ///
    /// # Errors
    ///
    /// Names the first position whose sum is above `max`.
    ///
    /// # Panics
    ///
    /// If the lengths differ, or `max` is above [`MULTIPLICITY_LIMIT`].
    pub fn add(&self, other: &Self, max: u8) -> Result<Self, Overflow> {
        assert_eq!(self.len(), other.len(), "supports of different length");
        assert!(max <= MULTIPLICITY_LIMIT, "bound {max} of a multiplicity");
        let word = |support: &Self, j: usize, w: usize| {
            support.planes.get(j).map_or(0, |plane| plane.words()[w])
        };
        let words_count = self.planes[0].words().len();
        let mut sums = [(); 4].map(|()| Vec::with_capacity(words_count));
        for w in 0..words_count {
            // Sixty-four ripple-carry adders at once, one in each bit of the word.
            let mut carry = 0;
            let mut sum = [0u64; 5];
            for (j, out) in sum.iter_mut().take(4).enumerate() {
                let (a, b) = (word(self, j, w), word(other, j, w));
                *out = a ^ b ^ carry;
                carry = (a & b) | (carry & (a ^ b));
            }
            // Two multiplicities of four bits may need a fifth.
            sum[4] = carry;
            let above = above_mask(&sum, max);
            if above != 0 {
                return Err(Overflow {
                    position: w * 64 + above.trailing_zeros() as usize,
                    max,
                });
            }
            // The fifth bit is zero here, as `max` is at most 15.
            for (plane, &out) in sums.iter_mut().zip(&sum) {
                plane.push(out);
            }
        }
        let planes = sums
            .into_iter()
            .map(|words| {
                Bitfield::from_words(words, self.len()).expect("a sum of zeros has zero padding")
            })
            .collect();
        Ok(Self::canonical(planes))
    }

    /// This support moved to positions `offset` onwards of a support over `len` positions: a cell's
    /// support within its committee.
    ///
    /// # Panics
    ///
    /// If it ends beyond `len`.
    #[must_use]
    pub fn place(&self, len: usize, offset: usize) -> Self {
        let planes = self
            .planes
            .iter()
            .map(|plane| {
                let mut out = Bitfield::new(len);
                out.write_range(offset, plane);
                out
            })
            .collect();
        // Canonical as before: the top plane keeps its bits.
        Self { planes }
    }

    /// The positions with a multiplicity of at least `least`.
    ///
    /// # Panics
    ///
    /// If `least` is 0 or above [`MULTIPLICITY_LIMIT`].
    #[must_use]
    pub(crate) fn at_least(&self, least: u8) -> Bitfield {
        assert!(
            (1..=MULTIPLICITY_LIMIT).contains(&least),
            "threshold {least} of a multiplicity"
        );
        // Compare with `least - 1` from the top bit down, on whole planes so that the compiler can
        // use wide registers.
        let bound = least - 1;
        // No multiplicity of p planes is above 2^p - 1.
        if u32::from(bound) >> self.planes.len() != 0 {
            return Bitfield::new(self.len());
        }
        let mut above = Bitfield::new(self.len());
        let mut equal = Bitfield::ones(self.len());
        for (j, plane) in self.planes.iter().enumerate().rev() {
            if bound >> j & 1 == 1 {
                equal.intersect_with(plane);
            } else {
                let mut larger = equal.clone();
                larger.intersect_with(plane);
                above.union_with(&larger);
                equal.subtract(plane);
            }
        }
        above
    }

    /// Drops empty top planes, but keeps the first one.
    fn canonical(mut planes: Vec<Bitfield>) -> Self {
        while planes.len() > 1 && planes.last().is_some_and(Bitfield::none) {
            planes.pop();
        }
        Self { planes }
    }

    fn signer_word(&self, w: usize) -> u64 {
        self.planes
            .iter()
            .fold(0, |or, plane| or | plane.words()[w])
    }
}

/// The lanes whose five-bit number (bit j in `sum[j]`) is above `max`.
fn above_mask(sum: &[u64; 5], max: u8) -> u64 {
    let mut above = 0;
    let mut equal = u64::MAX;
    for (j, &bits) in sum.iter().enumerate().rev() {
        if max >> j & 1 == 1 {
            equal &= bits;
        } else {
            above |= equal & bits;
            equal &= !bits;
        }
    }
    above
}

#[cfg(test)]
mod tests {
    use super::{Overflow, Support};
    use crate::Bitfield;
    use proptest::prelude::*;

    fn multiplicities(support: &Support) -> Vec<u8> {
        (0..support.len())
            .map(|i| support.multiplicity(i))
            .collect()
    }

    fn two() -> impl Strategy<Value = (Vec<u8>, Vec<u8>)> {
        (0usize..200, 1u8..=15).prop_flat_map(|(n, m)| {
            let list = || proptest::collection::vec(0..=m, n);
            (list(), list())
        })
    }

    proptest! {
        #[test]
        fn sums_equal_the_naive_ones((a, b) in two(), max in 0u8..=15) {
            let (x, y) = (
                Support::from_multiplicities(&a).unwrap(),
                Support::from_multiplicities(&b).unwrap(),
            );
            let naive: Vec<u8> = a.iter().zip(&b).map(|(p, q)| p + q).collect();
            match (naive.iter().position(|&m| m > max), x.add(&y, max)) {
                (Some(position), sum) => prop_assert_eq!(sum, Err(Overflow { position, max })),
                (None, sum) => {
                    prop_assert_eq!(sum, Ok(Support::from_multiplicities(&naive).unwrap()));
                }
            }
        }

        #[test]
        fn accessors_equal_the_naive_ones((a, b) in two(), cut in 0usize..200, end in 0usize..200) {
            let x = Support::from_multiplicities(&a).unwrap();
            let y = Support::from_multiplicities(&b).unwrap();
            prop_assert_eq!(&multiplicities(&x), &a);
            let max = a.iter().copied().max().unwrap_or(0);
            prop_assert_eq!(x.max_multiplicity(), max);
            prop_assert_eq!(x.planes_count() as u32, (8 - max.leading_zeros()).max(1));
            let signers: Vec<(usize, u8)> =
                a.iter().copied().enumerate().filter(|&(_, m)| m > 0).collect();
            prop_assert_eq!(x.signer_count(), signers.len());
            prop_assert_eq!(x.is_empty(), signers.is_empty());
            prop_assert!(signers.iter().all(|&(i, _)| x.contains(i) && x.signers().get(i)));
            prop_assert_eq!(x.iter().collect::<Vec<_>>(), signers);
            prop_assert_eq!(
                x.is_subset_of(&y),
                a.iter().zip(&b).all(|(&p, &q)| p == 0 || q > 0)
            );
            prop_assert_eq!(Support::from_planes(x.planes().to_vec()), Some(x.clone()));
            for least in 1..=15 {
                let expected: Vec<usize> = (0..a.len()).filter(|&i| a[i] >= least).collect();
                prop_assert_eq!(x.at_least(least).iter_ones().collect::<Vec<_>>(), expected);
            }
            let end = end.min(a.len());
            let cut = cut.min(end);
            let part = Support::from_multiplicities(&a[cut..end]).unwrap();
            let placed = part.place(a.len(), cut);
            let expected: Vec<u8> =
                (0..a.len()).map(|i| if (cut..end).contains(&i) { a[i] } else { 0 }).collect();
            prop_assert_eq!(multiplicities(&placed), expected);
        }
    }

    #[test]
    fn multiplicities_above_the_limit_are_named() {
        let error = Support::from_multiplicities(&[1, 16]).unwrap_err();
        assert_eq!((error.position, error.value, error.max), (1, 16, 15));
    }

    #[test]
    fn planes_that_are_not_canonical_are_refused() {
        let (none, ones) = (Bitfield::new(3), Bitfield::ones(3));
        assert!(Support::from_planes(vec![]).is_none());
        assert!(Support::from_planes(vec![ones.clone(), none.clone()]).is_none());
        assert!(Support::from_planes(vec![none.clone(), Bitfield::ones(4)]).is_none());
        assert!(Support::from_planes(vec![ones.clone(); 5]).is_none());
        assert!(Support::from_planes(vec![none.clone()]).is_some());
        assert!(Support::from_planes(vec![none, ones]).is_some());
    }
}
