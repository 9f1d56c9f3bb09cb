//! The cost table of XMSS with collections as proofs, or with evidence of cells as proofs as well.

mod cells;

use super::merges::{Case, measure as merge, mergeable};
use super::world::{MESSAGE, SLOT, World};
use super::{Point, measure};
use crate::machine::Machine;
use alphorn_exec::{Backend, Exec};
use alphorn_scheme::model::{
    CostTable, EvidenceBytes, FigureKind, Merged, OpCost, SCHEMA, TableSizes,
};
use alphorn_scheme::{Layer, MemoryWatermark, Op, Role, Scheme, SignItem, Watermark};
use alphorn_types::{Slot, Validator};
use alphorn_xmss::{Proofs, Purpose, SecretKey, Xmss, verify_batch};
use anyhow::{Context, anyhow};

/// Signatures that are verified or made together.
const BATCH: usize = 64;

/// Pieces of evidence on a line.
const MANY: u64 = 100;

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
    let lists = Lists::measure(world, proofs, kernel)?;
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
        let points = proved(world, wanted, proofs.signatures_max())?;
        ops.extend(collections(&scheme, &proofs, &points, &lists));
        let merges = merges(proofs, kernel, wanted.sizes);
        let (merged, rows) = measure_merges(world, &scheme, &merges, &lists, wanted.runs)?;
        ops.extend(rows);
        (merged, evidence(&scheme, &proofs))
    };
    ops.sort_by_key(|row| (row.op, row.n, row.m));
    let own = scheme.sizes();
    let table = CostTable {
        schema: SCHEMA,
        scheme: scheme.name().to_owned(),
        machine: machine.line(),
        kind: FigureKind::Measured,
        abilities: scheme.abilities(),
        sizes: TableSizes {
            public_key: own.public_key_bytes as u64,
            signature: own.signature_bytes as u64,
            duty_signature: own.duty_signature_bytes as u64,
            evidence,
        },
        merged,
        ops,
    };
    table.check().context("this program's own cost table")?;
    Ok(serde_json::to_string_pretty(&table)? + "\n")
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
        let n = case.children as u64;
        rows.push(OpCost {
            op: Op::Merge,
            n,
            m: 0,
            // A merge is verified by whoever made it.
            ns: nanoseconds(figures.merge.median_s()) + verify_ns,
            memory_bytes: scheme.cost(Op::Merge, n, 0).memory_bytes,
        });
    }
    Ok((merged, rows))
}

/// A proof of so many signatures on one thread.
struct Proved {
    signatures: u64,
    prove_ns: u64,
    verify_ns: u64,
    bytes: u64,
}

/// Nanoseconds of one signature.
struct Lists {
    sign_ns: u64,
    verify_one_ns: u64,
    verify_ns: u64,
}

fn nanoseconds(seconds: f64) -> u64 {
    (seconds * 1e9) as u64
}

impl Lists {
    fn measure(world: &World, proofs: Proofs, kernel: Backend) -> anyhow::Result<Lists> {
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
        })
    }

    /// Nanoseconds of verifying so many at once.
    fn verify(&self, count: u64) -> u64 {
        self.verify_one_ns.max(count.saturating_mul(self.verify_ns))
    }

    /// Rows of everything but collections. Memory is what the scheme says.
    fn rows(&self, scheme: &Xmss) -> Vec<OpCost> {
        let mut rows = Vec::new();
        let mut row = |op, n: u64, m: u64, ns| {
            rows.push(OpCost {
                op,
                n,
                m,
                ns,
                memory_bytes: scheme.cost(op, n, m).memory_bytes,
            });
        };
        for n in [1, BATCH as u64, 1000] {
            for op in [Op::Sign, Op::DutySign] {
                row(op, n, 0, n * self.sign_ns);
            }
            for op in [Op::VerifyVotes, Op::DutyVerify, Op::Aggregate] {
                row(op, n, 0, self.verify(n));
            }
            // The registries of committees, by the scheme's own formula.
            row(Op::Prepare, n, 0, scheme.cost(Op::Prepare, n, 0).ns);
        }
        for n in [1, MANY] {
            for m in [n, 1000 * n] {
                // Three signatures stand in a message beside the list.
                row(Op::VerifyAggregates, n, m, self.verify(3 * n + m));
            }
        }
        rows
    }
}

/// Rows of collections: proofs that are measured, and two in the place of one that has no room.
fn collections(scheme: &Xmss, proofs: &Proofs, points: &[Proved], lists: &Lists) -> Vec<OpCost> {
    let mut rows = Vec::new();
    let mut line: Vec<(u64, u64, u64)> = points
        .iter()
        .map(|p| (p.signatures, p.prove_ns, p.verify_ns))
        .collect();
    let most = proofs.signatures_max() as u64;
    if let (Some(first), Some(last)) = (line.first().copied(), line.last().copied())
        && (first.0, last.0) == (1, most)
    {
        line.push((most + 1, last.1 + first.1, last.2 + first.2));
        line.push((2 * most, 2 * last.1, 2 * last.2));
    }
    for (signatures, prove_ns, verify_ns) in line {
        let mut row = |op, n: u64, m: u64, ns| {
            rows.push(OpCost {
                op,
                n,
                m,
                ns,
                memory_bytes: scheme.cost(op, n, m).memory_bytes,
            });
        };
        // A proof is verified by whoever made it.
        row(Op::Collect, 1, signatures, prove_ns + verify_ns);
        for n in [1, MANY] {
            let beside = lists.verify(3 * n);
            row(
                Op::VerifyCollections,
                n,
                n * signatures,
                beside + n * verify_ns,
            );
        }
    }
    rows
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
