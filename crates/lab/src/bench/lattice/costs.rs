//! The cost table of Falcon with aggregates as lists and collections as proofs.

use super::world::World;
use super::{Point, prove, verify};
use crate::error::Result;
use crate::machine::Machine;
use crate::options;
use alphorn_exec::{Backend, Exec};
use alphorn_falcon::{Collections, Falcon, Preset, verify_batch};
use alphorn_labrador::sis::Profile;
use alphorn_scheme::model::{CostTable, EvidenceBytes, FigureKind, OpCost, SCHEMA, TableSizes};
use alphorn_scheme::{Layer, Op, Scheme};
use anyhow::Context;
use std::hint::black_box;

/// Signatures that are verified or made together.
const BATCH: usize = 64;

/// Pieces of evidence on a line.
const MANY: u64 = 100;

/// Runs of what is short; the least counts.
const RUNS: usize = 3;

/// Measures on one thread and writes the table as JSON.
pub(super) fn table(
    world: &World,
    profile: Profile,
    kernel: Backend,
    sizes: &[u32],
    machine: &Machine,
) -> Result<String> {
    let scheme = Falcon::new(Collections::Proofs, kernel)
        .with_profile(profile)
        .with_flavour(world.flavour);
    let pool = options::pool(1)?;
    let mut sizes: Vec<usize> = sizes.iter().map(|n| *n as usize).collect();
    sizes.push(1);
    sizes.sort_unstable();
    sizes.dedup();
    let points = sizes.into_iter().map(|signatures| {
        let point = Point {
            preset: Preset::default(),
            signatures,
            profile,
            kernel,
            threads: 1,
            runs: 1,
        };
        proved(world, &point, &pool)
    });
    let points: Vec<Proved> = points.collect::<Result<_>>()?;
    let lists = Lists::measure(world, kernel)?;
    let mut ops = lists.rows(&scheme);
    ops.extend(collections(&scheme, &points, &lists));
    ops.sort_by_key(|row| (row.op, row.n, row.m));
    let own = scheme.sizes();
    let table = CostTable {
        schema: SCHEMA,
        scheme: scheme.name().to_owned(),
        machine: format!("{}; operations on one thread", machine.line()),
        kind: FigureKind::Measured,
        abilities: scheme.abilities(),
        sizes: TableSizes {
            public_key: own.public_key_bytes as u64,
            signature: own.signature_bytes as u64,
            duty_signature: own.duty_signature_bytes as u64,
            evidence: evidence(&scheme, &points),
        },
        merged: None,
        ops,
    };
    table.check().context("this program's own cost table")?;
    Ok(serde_json::to_string_pretty(&table)? + "\n")
}

/// A proof of so many signatures.
struct Proved {
    signatures: u64,
    prove_ns: u64,
    verify_ns: u64,
    bytes: u64,
}

fn nanoseconds(seconds: f64) -> u64 {
    (seconds * 1e9) as u64
}

fn proved(world: &World, point: &Point, pool: &rayon::ThreadPool) -> Result<Proved> {
    let keys = world.decode_keys(point.signatures, Exec::new(point.kernel, None))?;
    let made = prove(&world.items(&keys), point, pool)?;
    let verified = verify(
        world,
        &made,
        &keys,
        RUNS,
        Exec::new(point.kernel, Some(pool)),
    )?;
    let beside = 1 + made.salts.as_flattened().len();
    Ok(Proved {
        signatures: point.signatures as u64,
        prove_ns: nanoseconds(made.steps.total_s),
        verify_ns: nanoseconds(verified.total_s),
        bytes: (beside + made.proof.len()) as u64,
    })
}

/// Nanoseconds of one signature.
struct Lists {
    sign_ns: u64,
    verify_one_ns: u64,
    verify_ns: u64,
    decode_ns: u64,
}

impl Lists {
    fn measure(world: &World, kernel: Backend) -> Result<Lists> {
        let count = BATCH.min(world.len());
        let (decode_s, keys) =
            super::least(RUNS, || world.decode_keys(count, Exec::new(kernel, None)));
        let keys = keys?;
        let items = world.items(&keys);
        let each = |count: usize| {
            let batch = || verify_batch(&items[..count], kernel);
            nanoseconds(super::least(10 * RUNS, batch).0 / count as f64)
        };
        let all = || (0..count).try_for_each(|i| world.sign(i).map(|made| drop(black_box(made))));
        let (sign_s, signed) = super::least(RUNS, all);
        signed?;
        Ok(Lists {
            sign_ns: nanoseconds(sign_s / count as f64),
            verify_one_ns: each(1),
            verify_ns: each(count),
            decode_ns: nanoseconds(decode_s / count as f64),
        })
    }

    /// Nanoseconds of verifying so many at once.
    fn verify(&self, count: u64) -> u64 {
        self.verify_one_ns.max(count.saturating_mul(self.verify_ns))
    }

    /// Rows of everything but collections. Memory is what the scheme says.
    fn rows(&self, scheme: &Falcon) -> Vec<OpCost> {
        let mut rows = Vec::new();
        let mut row = |op, n: u64, m: u64, ns| rows.push(row(scheme, op, n, m, ns));
        for n in [1, BATCH as u64, 1000] {
            for op in [Op::Sign, Op::DutySign] {
                row(op, n, 0, n * self.sign_ns);
            }
            for op in [Op::VerifyVotes, Op::DutyVerify, Op::Aggregate] {
                row(op, n, 0, self.verify(n));
            }
            row(Op::Prepare, n, 0, n * self.decode_ns);
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

/// A row with the memory that the scheme says.
fn row(scheme: &Falcon, op: Op, n: u64, m: u64, ns: u64) -> OpCost {
    OpCost {
        op,
        n,
        m,
        ns,
        memory_bytes: scheme.cost(op, n, m).memory_bytes,
    }
}

/// Rows of collections: proofs do not merge, so there is no row of it.
fn collections(scheme: &Falcon, points: &[Proved], lists: &Lists) -> Vec<OpCost> {
    let mut rows = Vec::new();
    for point in points {
        let signers = point.signatures;
        // A proof is verified by whoever made it.
        let ns = point.prove_ns + point.verify_ns;
        rows.push(row(scheme, Op::Collect, 1, signers, ns));
        for n in [1, MANY] {
            let ns = lists.verify(3 * n) + n * point.verify_ns;
            rows.push(row(scheme, Op::VerifyCollections, n, n * signers, ns));
        }
    }
    rows
}

/// Bytes of aggregates by their formula, of collections as measured.
fn evidence(scheme: &Falcon, points: &[Proved]) -> Vec<EvidenceBytes> {
    let list = |n: u64| EvidenceBytes {
        layer: Layer::Aggregate,
        n,
        bytes: scheme
            .evidence_length(Layer::Aggregate, n as u32)
            .max_bytes() as u64,
    };
    let proof = |point: &Proved| EvidenceBytes {
        layer: Layer::Collection,
        n: point.signatures,
        bytes: point.bytes,
    };
    let lists = [1, 1000].map(list);
    lists.into_iter().chain(points.iter().map(proof)).collect()
}
