//! The cost table of XMSS with collections as proofs, or with evidence of cells as proofs as well.

mod cells;

use super::merges::{Case, measure as merge, mergeable};
use super::world::{MESSAGE, SLOT, World};
use super::{Point, measure};
use crate::bench::costs::{self, BATCH, Lists, Proved, nanoseconds, row};
use crate::machine::Machine;
use alphorn_exec::{Backend, Exec};
use alphorn_scheme::model::{EvidenceBytes, Merged, OpCost};
use alphorn_scheme::{Layer, MemoryWatermark, Op, Role, Scheme, SignItem, Watermark};
use alphorn_types::{Slot, Validator};
use alphorn_xmss::{Proofs, Purpose, SecretKey, Xmss, verify_batch};
use anyhow::anyhow;

/// Runs of each proof; the median counts.
const RUNS: usize = 3;

/// Proofs of a merge: the fewest, and as many as one takes. Between them its time is a line.
const MERGES: [usize; 2] = [2, 7];
/// Signatures of each of them at most.
const CHILD: usize = 512;

/// What a table is measured with.
#[derive(Clone, Copy)]
pub(super) struct Wanted<'a> {
    pub(super) proofs: Proofs,
    pub(super) kernel: Backend,
    /// Numbers of signatures of a proof.
    pub(super) sizes: &'a [u32],
    /// Numbers of collections of a bundle; if there are any, evidence of cells is proofs as well.
    pub(super) entries: &'a [u16],
    /// Runs of what merges; the median counts.
    pub(super) runs: usize,
}

impl Wanted<'_> {
    /// Whether the table is that of evidence of cells as proofs.
    fn has_cells(&self) -> bool {
        !self.entries.is_empty()
    }

    /// Validators that the table needs.
    pub(super) fn validators(&self) -> usize {
        let cases = match self.has_cells() {
            true => cells::merges(self),
            false => merges(self.proofs, self.kernel, self.sizes),
        };
        let bundled = match self.has_cells() {
            true => super::bundles::SIGNATURES as usize,
            false => 0,
        };
        let cases = cases.iter().map(Case::validators);
        cases.max().unwrap_or(0).max(bundled)
    }
}

fn merges(proofs: Proofs, kernel: Backend, sizes: &[u32]) -> Vec<Case> {
    let largest = sizes.iter().map(|n| *n as usize).max();
    let child = Point {
        proofs,
        kernel,
        threads: 1,
        signatures: largest.unwrap_or(1).min(CHILD),
    };
    let case = |children| Case {
        child,
        children,
        of_merges: false,
    };
    match mergeable(&proofs) {
        true => MERGES.map(case).into(),
        false => Vec::new(),
    }
}

/// Measures on one thread and writes the table as JSON. Proofs have points on both sides of the
/// steps: of the first group, and of the first proof, of which two are made one after the other.
pub(super) fn table(
    world: &World,
    wanted: &Wanted<'_>,
    machine: &Machine,
) -> crate::error::Result<String> {
    let (proofs, kernel) = (wanted.proofs, wanted.kernel);
    let lists = lists(world, proofs, kernel)?;
    let scheme = match wanted.has_cells() {
        true => Xmss::with_proofs_of_cells(proofs, kernel),
        false => Xmss::with_proofs(proofs, kernel),
    };
    let mut ops = lists.rows(&scheme);
    let (merged, evidence) = if wanted.has_cells() {
        let measured = cells::Measured::of(world, wanted)?;
        ops.retain(|row| !cells::replaces(row.op));
        ops.extend(measured.rows(&scheme, &lists));
        (Some(measured.merged(&lists)), measured.evidence())
    } else {
        let mut points = proved(world, wanted, proofs.signatures_max())?;
        points.extend(doubled(&proofs, &points));
        ops.extend(lists.collections(&scheme, &points));
        let merges = merges(proofs, kernel, wanted.sizes);
        let (merged, rows) = measure_merges(world, &scheme, &merges, &lists, wanted.runs)?;
        ops.extend(rows);
        (merged, evidence(&scheme, &proofs))
    };
    costs::table(&scheme, machine.line(), evidence, merged, ops)
}

/// Proofs of the sizes that are wanted and of those at the steps, at most of so many signatures.
fn proved(world: &World, wanted: &Wanted<'_>, most: usize) -> crate::error::Result<Vec<Proved>> {
    let proofs = wanted.proofs;
    let mut sizes: Vec<usize> = wanted.sizes.iter().map(|n| *n as usize).collect();
    sizes.extend([1, proofs.group(), proofs.group() + 1]);
    sizes.retain(|n| *n <= world.keys.len().min(most));
    sizes.sort_unstable();
    sizes.dedup();
    let mut points = Vec::new();
    for signatures in sizes {
        let point = Point {
            proofs,
            kernel: wanted.kernel,
            threads: 1,
            signatures,
        };
        let figures = measure(world, point, RUNS)?;
        points.push(Proved {
            signatures: signatures as u64,
            prove_ns: nanoseconds(figures.prove.median_s()),
            verify_ns: nanoseconds(figures.verify_s),
            bytes: figures.prove.bytes.len() as u64,
        });
    }
    Ok(points)
}

/// Rows of merges, and what merged evidence takes: its most bytes, and its slowest verification.
fn measure_merges(
    world: &World,
    scheme: &Xmss,
    merges: &[Case],
    lists: &Lists,
    runs: usize,
) -> crate::error::Result<(Option<Merged>, Vec<OpCost>)> {
    let (mut merged, mut rows): (Option<Merged>, _) = (None, Vec::new());
    for case in merges {
        let figures = merge(world, *case, runs)?;
        let verify_ns = nanoseconds(figures.verify_s);
        let slowest = merged.map_or(0, |merged| merged.verify_ns);
        merged = Some(Merged {
            bytes: 1 + case.child.proofs.merge_bytes_max() as u64,
            // Three signatures stand in a message beside the merge.
            verify_ns: slowest.max(lists.verify(3) + verify_ns),
        });
        // A merge is verified by whoever made it.
        let ns = nanoseconds(figures.merge.median_s()) + verify_ns;
        rows.push(row(scheme, Op::Merge, case.children as u64, 0, ns));
    }
    Ok((merged, rows))
}

fn lists(world: &World, proofs: Proofs, kernel: Backend) -> anyhow::Result<Lists> {
    let one_thread = Exec::new(kernel, None);
    let set = proofs.set();
    let each = |count: usize| {
        let items = world.items(count.min(world.keys.len()));
        let (seconds, _) = super::super::least(RUNS, || verify_batch(set, &items, one_thread));
        nanoseconds(seconds / items.len() as f64)
    };
    let first = u64::from(SLOT);
    let slots = first..first + BATCH as u64;
    let key = SecretKey::interop(set, Purpose::Vote, 0, slots.clone(), one_thread)?;
    let store = MemoryWatermark::new(1);
    let sign = |slot| -> anyhow::Result<()> {
        let permit = store
            .reserve(
                Slot(slot),
                &SignItem::new(Validator(0), Role::Vote, MESSAGE),
            )
            .map_err(|refused| anyhow!("slot {slot}: {refused}"))?;
        key.sign(permit, one_thread)?;
        Ok(())
    };
    // Tries differ from slot to slot: the mean counts.
    let (seconds, signed) = super::super::least(1, || slots.clone().try_for_each(sign));
    signed?;
    Ok(Lists {
        sign_ns: nanoseconds(seconds / BATCH as f64),
        verify_one_ns: each(1),
        verify_ns: each(BATCH),
        // The registries of committees.
        prepare_ns: None,
    })
}

/// Two proofs in the place of one that has no room, if the smallest and the largest are measured.
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

/// Bytes of aggregates and collections on both sides of their steps.
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
