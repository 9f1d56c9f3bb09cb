//! The cost table of XMSS with collections as proofs, or with evidence of cells as proofs as well.

mod cells;

use super::bundles::SIGNATURES;
use super::fixture::{Fixture, MESSAGE, SLOT};
use super::merges::{Case, measure as merge};
use super::{Made, Point, measure, mergeable};
use crate::costs::{self, BATCH, Lists, Proved, nanoseconds, row};
use crate::harness::Bench;
use crate::xmss::sign;
use alphorn_exec::{Backend, Exec};
use alphorn_lab::error::Result;
use alphorn_lab::timing::least;
use alphorn_scheme::model::{EvidenceBytes, Merged};
use alphorn_scheme::{Layer, Op, Scheme};
use alphorn_xmss::{Proofs, Purpose, SecretKey, Xmss, verify_batch};

/// Runs of each proof; the median is used.
const RUNS: usize = 3;

/// Numbers of proofs in a merge: the minimum, and the maximum that one takes. In between, its time is
/// linear.
const MERGES: [usize; 2] = [2, 7];
/// Maximum number of signatures of each of them.
const CHILD: usize = 512;

/// What a table is measured with.
#[derive(Clone, Copy)]
pub(super) struct Wanted<'a> {
    pub(super) proofs: Proofs,
    pub(super) kernel: Backend,
    /// Numbers of signatures in a proof.
    pub(super) sizes: &'a [u32],
    /// Numbers of collections in a bundle; if there are any, evidence of cells is proofs as well.
    pub(super) entries: &'a [u16],
    /// Runs of merging steps; the median is used.
    pub(super) runs: usize,
}

impl Wanted<'_> {
    /// Whether the table covers evidence of cells as proofs.
    fn has_cells(&self) -> bool {
        !self.entries.is_empty()
    }

    /// Returns a proof of this many signatures on one thread.
    fn point(&self, signatures: usize) -> Point {
        Point {
            proofs: self.proofs,
            kernel: self.kernel,
            threads: 1,
            signatures,
        }
    }

    /// Returns the maximum number of signatures in a proof that is merged.
    fn child(&self) -> usize {
        let largest = self.sizes.iter().map(|n| *n as usize).max();
        largest.unwrap_or(1).min(CHILD)
    }

    /// Returns the merges that are measured.
    fn merges(&self) -> Vec<Case> {
        let case = |children| Case::new(self.point(self.child()), children);
        match (self.has_cells(), mergeable(&self.proofs)) {
            (true, _) => cells::merges(self),
            (false, true) => MERGES.map(case).into(),
            (false, false) => Vec::new(),
        }
    }

    /// Returns the number of validators that the table needs.
    pub(super) fn validators(&self) -> usize {
        let cases = self.merges();
        let cases = cases.iter().map(Case::validators);
        cases.max().unwrap_or(0).max(SIGNATURES as usize)
    }
}

/// A merge of this many pieces, or a bundle.
struct Joined {
    pieces: u64,
    /// Signers that are charged: those of all pieces, each as large as a unit of its level can be.
    signers: u64,
    make_ns: u64,
    verify_ns: u64,
    bytes: u64,
}

impl Joined {
    fn of(made: &Made, pieces: usize, signers: usize) -> Self {
        Joined {
            pieces: pieces as u64,
            signers: signers as u64,
            make_ns: nanoseconds(made.runs.median_s()),
            verify_ns: nanoseconds(made.verify_s),
            bytes: made.runs.bytes.len() as u64,
        }
    }
}

/// Measures on one thread and writes the table as JSON. Proofs have points on both sides of the steps:
/// at the first group, and at the first proof, beyond which two are made in sequence.
pub(super) fn table(fixture: &Fixture, wanted: &Wanted<'_>, bench: &Bench) -> Result<String> {
    let (proofs, kernel) = (wanted.proofs, wanted.kernel);
    let lists = lists(fixture, proofs, kernel)?;
    let machine = bench.machine.line();
    if wanted.has_cells() {
        let scheme = Xmss::with_proofs_of_cells(proofs, kernel);
        let measured = cells::Measured::of(fixture, wanted)?;
        let mut ops = lists.rows(&scheme);
        ops.retain(|row| !cells::replaces(row.op));
        ops.extend(measured.rows(&scheme, &lists));
        let merged = Some(measured.merged(&lists));
        return costs::table(&scheme, machine, measured.evidence(), merged, ops);
    }
    let scheme = Xmss::with_proofs(proofs, kernel);
    let mut ops = lists.rows(&scheme);
    let mut points = proved(fixture, wanted, proofs.signatures_max())?;
    points.extend(doubled(&proofs, &points));
    ops.extend(lists.collections(&scheme, &points));
    let merge = |case: Case| {
        let made = merge(fixture, case, wanted.runs)?;
        Ok(Joined::of(&made, case.children, 0))
    };
    let merges: Vec<Joined> = wanted
        .merges()
        .into_iter()
        .map(merge)
        .collect::<Result<_>>()?;
    // A merge is verified by its maker.
    let row = |made: &Joined| {
        row(
            &scheme,
            Op::Merge,
            made.pieces,
            0,
            made.make_ns + made.verify_ns,
        )
    };
    ops.extend(merges.iter().map(row));
    let slowest = merges.iter().map(|made| made.verify_ns).max();
    let merged = slowest.map(|verify_ns| Merged {
        bytes: 1 + proofs.merge_bytes_max() as u64,
        // Three signatures come in a message with the merge.
        verify_ns: lists.verify(3) + verify_ns,
    });
    costs::table(&scheme, machine, evidence(&scheme, &proofs), merged, ops)
}

/// Proves the wanted sizes and those at the steps, up to this many signatures.
fn proved(fixture: &Fixture, wanted: &Wanted<'_>, most: usize) -> Result<Vec<Proved>> {
    let proofs = wanted.proofs;
    let mut sizes: Vec<usize> = wanted.sizes.iter().map(|n| *n as usize).collect();
    sizes.extend([1, proofs.group(), proofs.group() + 1]);
    sizes.retain(|n| *n <= fixture.keys.len().min(most));
    sizes.sort_unstable();
    sizes.dedup();
    let proved = |signatures| {
        let made = measure(fixture, wanted.point(signatures), RUNS)?;
        Ok(Proved {
            signatures: signatures as u64,
            prove_ns: nanoseconds(made.runs.median_s()),
            verify_ns: nanoseconds(made.verify_s),
            bytes: made.runs.bytes.len() as u64,
        })
    };
    sizes.into_iter().map(proved).collect()
}

fn lists(fixture: &Fixture, proofs: Proofs, kernel: Backend) -> Result<Lists> {
    let one_thread = Exec::new(kernel, None);
    let set = proofs.set();
    let each = |count: usize| {
        let items = fixture.items(count.min(fixture.keys.len()));
        let (seconds, _) = least(RUNS, || verify_batch(set, &items, one_thread));
        nanoseconds(seconds / items.len() as f64)
    };
    let first = u64::from(SLOT);
    let slots = first..first + BATCH as u64;
    let key = SecretKey::interop(set, Purpose::Vote, 0, slots.clone(), one_thread)?;
    // The number of tries differs between slots, so the mean is used.
    let (seconds, signed) = least(1, || sign(&key, &MESSAGE, slots.clone(), one_thread));
    signed?;
    Ok(Lists {
        sign_ns: nanoseconds(seconds / BATCH as f64),
        verify_one_ns: each(1),
        verify_ns: each(BATCH),
        // The registries of committees.
        prepare_ns: None,
    })
}

/// Returns pairs of proofs for sizes that do not fit into one, if the smallest and the largest sizes
/// are measured.
fn doubled(proofs: &Proofs, points: &[Proved]) -> Vec<Proved> {
    let most = proofs.signatures_max() as u64;
    let (Some(first), Some(last)) = (points.first(), points.last()) else {
        return Vec::new();
    };
    if (first.signatures, last.signatures) != (1, most) {
        return Vec::new();
    }
    let both = |other: &Proved| Proved {
        signatures: last.signatures + other.signatures,
        prove_ns: last.prove_ns + other.prove_ns,
        verify_ns: last.verify_ns + other.verify_ns,
        bytes: last.bytes + other.bytes,
    };
    vec![both(first), both(last)]
}

/// Returns the bytes of aggregates and collections on both sides of their steps.
fn evidence(scheme: &Xmss, proofs: &Proofs) -> Vec<EvidenceBytes> {
    let (group, most) = (proofs.group() as u64, proofs.signatures_max() as u64);
    let bytes = |layer, n: u64| EvidenceBytes {
        layer,
        n,
        bytes: scheme.evidence_length(layer, n as u32).max_bytes() as u64,
    };
    let lists = [1, 1000].map(|n| bytes(Layer::Aggregate, n));
    let collections = [1, group, group + 1, most, most + 1, 2 * most];
    let collections = collections.map(|n| bytes(Layer::Collection, n));
    lists.into_iter().chain(collections).collect()
}
