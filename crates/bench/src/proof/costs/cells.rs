//! Evidence of cells as proofs: those of groups and committees are merges, that of a block is a bundle.
//!
//! Each is measured as it is made: a cell of signatures, a group of proofs of cells, a committee of
//! merges, a
//! block of merges of committees of 32,768 keys. Costs between the measured sizes are interpolated
//! linearly.

use super::super::bundles::{self, SIGNATURES};
use super::super::fixture::Fixture;
use super::super::merges::{Case, measure as merge};
use super::{CHILD, Joined, Wanted, proved};
use crate::costs::{Lists, MANY, Proved, row};
use alphorn_lab::error::Result;
use alphorn_scheme::model::{EvidenceBytes, Merged, OpCost};
use alphorn_scheme::{Layer, Op};
use alphorn_xmss::{COMMITTEE_MAX, Xmss};

/// Numbers of proofs in a merge: the minimum, the maximum that one takes, and both sides of the step to
/// two levels.
const MERGES: [usize; 4] = [2, 7, 8, 14];

/// Returns the merges that are measured: of proofs of cells, and of merges.
pub(super) fn merges(wanted: &Wanted<'_>) -> Vec<Case> {
    let leaf = wanted.point(wanted.child());
    // Merges are all alike, however many signed.
    let merge = wanted.point(wanted.child().min(SIGNATURES as usize));
    let both = |children| {
        [(leaf, false), (merge, true)].map(|(child, of_merges)| Case {
            child,
            children,
            of_merges,
        })
    };
    MERGES.into_iter().flat_map(both).collect()
}

/// Whether the rows of an operation come from this module.
pub(super) fn replaces(op: Op) -> bool {
    matches!(op, Op::Aggregate | Op::VerifyAggregates)
}

/// The measurements.
pub(super) struct Measured {
    /// Maximum number of signatures in a proof that merges.
    leaf_max: u64,
    leaves: Vec<Proved>,
    merges: Vec<Joined>,
    bundles: Vec<Joined>,
    merge_bytes_max: u64,
}

impl Measured {
    pub(super) fn of(fixture: &Fixture, wanted: &Wanted<'_>) -> Result<Measured> {
        let proofs = wanted.proofs;
        let leaf_max = proofs.mergeable_max();
        let merge = |case: Case| {
            let made = merge(fixture, case, wanted.runs)?;
            // A part of a committee is a merge of seven cells, that of a group is a cell.
            let part = match case.of_merges {
                true => proofs.children_max() * CHILD,
                false => case.child.signatures,
            };
            Ok(Joined::of(&made, case.children, case.children * part))
        };
        let mut entries: Vec<usize> = wanted.entries.iter().map(|n| usize::from(*n)).collect();
        entries.sort_unstable();
        let bundle = |entries| {
            let point = wanted.point(SIGNATURES as usize);
            let made = bundles::measure(fixture, point, entries, wanted.runs)?;
            Ok(Joined::of(&made, entries, entries * COMMITTEE_MAX as usize))
        };
        Ok(Measured {
            leaf_max: leaf_max as u64,
            merges: merges(wanted)
                .into_iter()
                .map(merge)
                .collect::<Result<_>>()?,
            bundles: entries.into_iter().map(bundle).collect::<Result<_>>()?,
            leaves: proved(fixture, wanted, leaf_max)?,
            merge_bytes_max: proofs.merge_bytes_max() as u64,
        })
    }

    /// Returns the nanoseconds to verify a merge, the slowest of those made.
    fn verify_ns(&self) -> u64 {
        let merges = self.merges.iter().map(|made| made.verify_ns);
        merges.max().unwrap_or(0)
    }

    /// Returns the cost of merged evidence, including the signatures in its message.
    pub(super) fn merged(&self, lists: &Lists) -> Merged {
        let bytes = self.bundles.iter().map(|made| made.bytes).max();
        Merged {
            bytes: 1 + self.merge_bytes_max.max(bytes.unwrap_or(0)),
            verify_ns: lists.verify(3) + self.verify_ns(),
        }
    }

    /// Returns sizes in bytes: for cells those that were made, above them the maximum of a merge.
    pub(super) fn evidence(&self) -> Vec<EvidenceBytes> {
        let of = |layer, n, bytes| EvidenceBytes { layer, n, bytes };
        let leaves = self.leaves.iter();
        let mut sizes: Vec<EvidenceBytes> = leaves
            .map(|leaf| of(Layer::Aggregate, leaf.signatures, 1 + leaf.bytes))
            .collect();
        let most = 1 + self.merge_bytes_max;
        sizes.extend([1, COMMITTEE_MAX.into()].map(|n| of(Layer::Collection, n, most)));
        sizes
    }

    pub(super) fn rows(&self, scheme: &Xmss, lists: &Lists) -> Vec<OpCost> {
        let mut rows = Vec::new();
        let mut row = |op, n: u64, m: u64, ns| rows.push(row(scheme, op, n, m, ns));
        let committee = u64::from(COMMITTEE_MAX);
        for leaf in &self.leaves {
            // A proof is verified by its maker.
            row(
                Op::Aggregate,
                leaf.signatures,
                0,
                leaf.prove_ns + leaf.verify_ns,
            );
        }
        for n in [1, MANY] {
            // A message has three signatures and the proof.
            let beside = lists.verify(3 * n);
            for leaf in &self.leaves {
                let ns = beside + n * leaf.verify_ns;
                row(Op::VerifyAggregates, n, n * leaf.signatures, ns);
            }
            // Evidence of more signers than a proof of a cell takes is a merge.
            let merged_ns = beside + n * self.verify_ns();
            for signers in [self.leaf_max + 1, committee] {
                row(Op::VerifyAggregates, n, n * signers, merged_ns);
            }
            for signers in [1, committee] {
                row(Op::VerifyCollections, n, n * signers, merged_ns);
            }
        }
        // A single piece is only checked.
        row(Op::Collect, 1, 0, self.verify_ns());
        for made in &self.merges {
            let ns = made.make_ns + made.verify_ns;
            row(Op::Collect, made.pieces, made.signers, ns);
            if made.signers < made.pieces * (self.leaf_max + 1) {
                row(Op::Merge, made.pieces, 0, ns);
            }
        }
        for made in &self.bundles {
            let ns = made.make_ns + made.verify_ns;
            row(Op::Bundle, made.pieces, made.signers, ns);
            row(Op::VerifyBundle, made.pieces, made.signers, made.verify_ns);
        }
        rows
    }
}
