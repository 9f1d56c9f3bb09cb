//! The cost table of Falcon with aggregates as lists and collections as proofs.

use super::fixture::Fixture;
use super::{Point, prove, verify};
use crate::costs::{self, BATCH, Lists, Proved, nanoseconds};
use crate::harness::Bench;
use alphorn_exec::{Backend, Exec};
use alphorn_falcon::{Collections, DEGREE, Falcon, verify_batch};
use alphorn_lab::error::Result;
use alphorn_lab::options;
use alphorn_lab::timing::least;
use alphorn_scheme::model::EvidenceBytes;
use alphorn_scheme::{Layer, Scheme};
use std::hint::black_box;

/// Runs of short operations; the least time is used.
const RUNS: usize = 3;

/// Measures on one thread and writes the table as JSON.
pub(super) fn table(
    fixture: &Fixture<DEGREE>,
    point: &Point,
    sizes: &[u32],
    bench: &Bench,
) -> Result<String> {
    let scheme = Falcon::new(Collections::Proofs, point.kernel)
        .with_profile(point.profile)
        .with_flavour(fixture.flavour);
    let pool = options::pool(1)?;
    let mut sizes: Vec<usize> = sizes.iter().map(|n| *n as usize).collect();
    sizes.push(1);
    sizes.sort_unstable();
    sizes.dedup();
    let points = sizes.into_iter().map(|signatures| {
        let point = Point {
            signatures,
            runs: 1,
            ..*point
        };
        proved(fixture, &point, &pool)
    });
    let points: Vec<Proved> = points.collect::<Result<_>>()?;
    let lists = lists(fixture, point.kernel)?;
    let mut ops = lists.rows(&scheme);
    // Proofs do not merge, so there is no row for merging.
    ops.extend(lists.collections(&scheme, &points));
    let machine = format!("{}; operations on one thread", bench.machine.line());
    costs::table(&scheme, machine, evidence(&scheme, &points), None, ops)
}

fn proved(fixture: &Fixture<DEGREE>, point: &Point, pool: &rayon::ThreadPool) -> Result<Proved> {
    let keys = fixture.decode_keys(point.signatures, Exec::new(point.kernel, None))?;
    let made = prove(&fixture.items(&keys), point, pool)?;
    let exec = Exec::new(point.kernel, Some(pool));
    let verified = verify(fixture, &made, &keys, RUNS, exec)?;
    let salts = 1 + made.salts.as_flattened().len();
    Ok(Proved {
        signatures: point.signatures as u64,
        prove_ns: nanoseconds(made.runs.steps().total_s),
        verify_ns: nanoseconds(verified.total_s),
        bytes: (salts + made.runs.bytes.len()) as u64,
    })
}

fn lists(fixture: &Fixture<DEGREE>, kernel: Backend) -> Result<Lists> {
    let count = BATCH.min(fixture.len());
    let (decode_s, keys) = least(RUNS, || fixture.decode_keys(count, Exec::new(kernel, None)));
    let keys = keys?;
    let items = fixture.items(&keys);
    let each = |count: usize| {
        let batch = || verify_batch(&items[..count], kernel);
        nanoseconds(least(10 * RUNS, batch).0 / count as f64)
    };
    let all = || (0..count).try_for_each(|i| fixture.sign(i).map(|made| drop(black_box(made))));
    let (sign_s, signed) = least(RUNS, all);
    signed?;
    Ok(Lists {
        sign_ns: nanoseconds(sign_s / count as f64),
        verify_one_ns: each(1),
        verify_ns: each(count),
        prepare_ns: Some(nanoseconds(decode_s / count as f64)),
    })
}

/// Returns the bytes of aggregates by formula, and of collections as measured.
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
