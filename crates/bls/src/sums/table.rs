//! The key table: the public keys of an epoch in committee order.

use core::ops::Range;

use alphorn_exec::Backend;
use sha2::{Digest, Sha256};
use thiserror::Error;

use super::portable::Portable;
use super::segments::{Entry, Points, SegmentList, SumBuffers, SumKernel, append_sums};
#[cfg(target_arch = "x86_64")]
use super::{kernel_field::KernelField, vector::PointPages};
use crate::blst_ffi::curve::{Affine, G1Affine};
use crate::blst_ffi::field::Fp;
use crate::dispatch::with_multiplier;

/// Why a key table cannot be built.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum KeyTableError {
    /// More keys than a kernel index can address.
    #[error("{got} keys: a key table holds at most {max}")]
    TooManyKeys {
        /// Keys that were given.
        got: usize,
        /// The bound.
        max: usize,
    },
    /// The committee sizes do not add up to the number of keys.
    #[error("the committees have {sum} members, but there are {keys} keys")]
    Sizes {
        /// Sum of the committee sizes.
        sum: usize,
        /// Number of keys.
        keys: usize,
    },
    /// A key is the identity, which is not a valid public key.
    #[error("the key at position {index} is the identity")]
    Infinity {
        /// Position in committee order.
        index: usize,
    },
}

/// The points in the form used by the table's kernel.
#[derive(Debug)]
pub(super) enum Stored {
    /// The affine points themselves.
    Portable,
    /// 52-bit limbs, 128 bytes each.
    #[cfg(target_arch = "x86_64")]
    Vector(PointPages<1>),
}

/// Keys in committee order, affine, 96 bytes each, with the total of each committee.
///
/// A committee is any range of the keys. The ranges of an epoch's table are the committees, followed by their
/// groups and cells, which share the keys. Built once per epoch by a maintenance job and shared by all
/// verification threads.
#[derive(Debug)]
pub struct KeyTable {
    backend: Backend,
    stored: Stored,
    /// The keys, then the totals of the committees.
    points: Vec<G1Affine>,
    /// Number of points that are keys.
    keys: usize,
    /// Positions of each committee.
    ranges: Vec<Range<usize>>,
    digest: [u8; 32],
}

impl KeyTable {
    /// Maximum number of keys in a table: 2^22 validators (the bound of Horn's parameters).
    pub(crate) const KEYS_MAX: usize = 1 << 22;

    /// Builds a table of `keys` in committee order; `sizes[c]` keys belong to committee c.
    ///
    /// The keys must be valid public keys (on the curve and in G1); this is checked where they are decoded, not
    /// here. Equal keys are allowed.
    ///
    /// # Errors
    /// If there are too many keys, the sizes do not add up, or a key is the identity.
    pub fn new(
        backend: Backend,
        keys: Vec<G1Affine>,
        sizes: &[usize],
    ) -> Result<KeyTable, KeyTableError> {
        let sum = sizes
            .iter()
            .fold(0usize, |sum, size| sum.saturating_add(*size));
        if sum != keys.len() {
            return Err(KeyTableError::Sizes {
                sum,
                keys: keys.len(),
            });
        }
        let mut end = 0;
        let range = |size: &usize| {
            end += size;
            end - size..end
        };
        Self::of_ranges(backend, keys, sizes.iter().map(range).collect())
    }

    /// Builds a table of keys with committees that may overlap.
    ///
    /// # Errors
    /// If there are too many keys, or a key is the identity.
    ///
    /// # Panics
    /// If a committee extends past the last key.
    pub(crate) fn of_ranges(
        backend: Backend,
        keys: Vec<G1Affine>,
        ranges: Vec<Range<usize>>,
    ) -> Result<KeyTable, KeyTableError> {
        if keys.len() > Self::KEYS_MAX {
            return Err(KeyTableError::TooManyKeys {
                got: keys.len(),
                max: Self::KEYS_MAX,
            });
        }
        if let Some(index) = keys.iter().position(Affine::is_infinity) {
            return Err(KeyTableError::Infinity { index });
        }
        assert!(
            ranges.iter().all(|range| range.end <= keys.len()),
            "a committee of keys that the table has not"
        );
        let digest = digest(&keys, &ranges);
        let (count, mut points) = (keys.len(), keys);
        let stored = with_multiplier!(
            backend,
            m => {
                let kernel = Fp::vector(m);
                let mut stored = Vec::with_capacity(points.len() + ranges.len());
                kernel.encode(&points, &mut stored);
                append_totals(kernel, &mut stored, &ranges);
                // The totals were computed in stored form only.
                kernel.decode(&stored[points.len()..], &mut points);
                Stored::Vector(PointPages::new(stored))
            },
            _ => {
                append_totals(Portable::default(), &mut points, &ranges);
                Stored::Portable
            },
        );
        Ok(KeyTable {
            backend,
            stored,
            points,
            keys: count,
            ranges,
            digest,
        })
    }

    /// The kernel this table was laid out for.
    pub fn backend(&self) -> Backend {
        self.backend
    }

    /// Number of committees.
    pub fn committees(&self) -> usize {
        self.ranges.len()
    }

    /// The keys of one committee; panics if there is no such committee.
    pub(crate) fn committee(&self, committee: usize) -> &[G1Affine] {
        &self.points[self.range(committee)]
    }

    /// The sum of all keys of a committee; panics if there is no such committee.
    pub(crate) fn total(&self, committee: usize) -> &G1Affine {
        &self.points[self.keys..][committee]
    }

    /// SHA-256 over sizes and keys, to which remembered sums are bound.
    pub(crate) fn digest(&self) -> &[u8; 32] {
        &self.digest
    }

    /// All keys, in committee order.
    pub(crate) fn keys(&self) -> &[G1Affine] {
        &self.points[..self.keys]
    }

    /// The points in the form used by the table's kernel.
    pub(super) fn stored(&self) -> &Stored {
        &self.stored
    }

    /// The keys, then the totals.
    pub(super) fn points(&self) -> &[G1Affine] {
        &self.points
    }

    pub(super) fn range(&self, committee: usize) -> Range<usize> {
        self.ranges[committee].clone()
    }
}

fn digest(keys: &[G1Affine], ranges: &[Range<usize>]) -> [u8; 32] {
    let mut hash = Sha256::new();
    hash.update((ranges.len() as u64).to_le_bytes());
    for bound in ranges.iter().flat_map(|range| [range.start, range.end]) {
        hash.update((bound as u64).to_le_bytes());
    }
    let mut bytes = [0; 96];
    for key in keys {
        // Internal limbs are as unique as an encoding, and need no conversion.
        let limbs = key.x.limbs().iter().chain(key.y.limbs());
        for (out, limb) in bytes.chunks_exact_mut(8).zip(limbs) {
            out.copy_from_slice(&limb.to_le_bytes());
        }
        hash.update(bytes);
    }
    hash.finalize().into()
}

/// Appends the sum of each committee's points.
fn append_totals<K: SumKernel<Field = Fp>>(
    kernel: K,
    points: &mut Vec<K::Point>,
    ranges: &[Range<usize>],
) {
    let mut list = SegmentList::default();
    for range in ranges {
        let keys = range.clone().map(|i| Entry::new(i, false));
        list.entries.extend(keys);
        list.close();
    }
    let mut totals = Vec::new();
    let operands = Points {
        table: points,
        sums: &[],
    };
    append_sums(
        kernel,
        operands,
        &list,
        &mut SumBuffers::default(),
        &mut totals,
    );
    points.append(&mut totals);
}
