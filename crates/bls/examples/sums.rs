//! Sums of public keys for all collections of a slot, beside blst's naive and bulk sums.
//!
//! ```text
//! cargo run --release -p alphorn-bls --example sums -- [committee size] [committees] [kernel]
//! ```

use std::hint::black_box;
use std::sync::LazyLock;
use std::time::Instant;

use alphorn_bls::{
    Backend, Columns, CommitteeJob, Costs, CurveField, FixedBaseG1, FixedBaseG2, G1Affine,
    G2Affine, KeyTable, Method, SumOptions, Workspace, outside_subgroup, sum_columns,
};

const COLLECTIONS: usize = 16;
const RUNS: usize = 3;
/// Shortest time that is believed.
const SAMPLE_S: f64 = 0.05;
/// Collections that naive and blst's sums are timed on.
const SAMPLE: usize = 4;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let mut number = |default| {
        arguments
            .next()
            .map_or(default, |a| a.parse().expect("a number"))
    };
    let (size, committees) = (number(1 << 15), number(32));
    let kernel = arguments.next();
    for backend in Backend::available() {
        if kernel.as_ref().is_none_or(|name| name == backend.name()) {
            run(backend, size, committees);
        }
    }
}

/// SplitMix64, so that every run sees the same bits.
fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Seconds this thread has run: on a shared machine the clock on the wall also counts others. Where
/// the kernel does not tell (only Linux does), the wall clock serves.
fn thread_s() -> f64 {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    let ns = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let ns = ns
        .as_ref()
        .and_then(|text| text.split(' ').next()?.parse::<u64>().ok());
    ns.map_or_else(|| START.elapsed().as_secs_f64(), |ns| ns as f64 / 1e9)
}

/// Least time of a run. Short runs are repeated: the clock of a thread ticks in milliseconds.
fn least_s<T>(mut run: impl FnMut() -> T) -> (f64, T) {
    let (mut best, mut repeats) = (f64::INFINITY, 1);
    let mut samples = 0;
    loop {
        let start = thread_s();
        let mut last = black_box(run());
        for _ in 1..repeats {
            last = black_box(run());
        }
        let s = thread_s() - start;
        if s < SAMPLE_S && repeats < 1 << 12 {
            repeats *= 2;
            continue;
        }
        best = best.min(s / repeats as f64);
        samples += 1;
        if samples == RUNS {
            return (best, last);
        }
    }
}

fn scalars(count: usize) -> Vec<[u8; 32]> {
    let mut state = 1;
    let scalar = |_| {
        let words: [u64; 4] = std::array::from_fn(|_| random(&mut state) >> 2);
        let mut bytes = [0; 32];
        bytes
            .chunks_exact_mut(8)
            .zip(words)
            .for_each(|(b, w)| b.copy_from_slice(&w.to_le_bytes()));
        bytes
    };
    (0..count).map(scalar).collect()
}

fn run(backend: Backend, size: usize, committees: usize) {
    let keys_total = size * committees;
    println!("\n{keys_total} keys in {committees} committees, kernel {backend}");
    println!("{:?}", Costs::measure(backend));
    let start = thread_s();
    let mut keys = Vec::new();
    let g1 = FixedBaseG1::new(backend, &G1Affine::generator());
    g1.vartime_mul_many(&scalars(keys_total), &mut keys);
    let us = (thread_s() - start) * 1e6 / keys_total as f64;
    println!("fixed base G1: {us:.2} us a key");
    let start = thread_s();
    let mut signatures = Vec::new();
    let g2 = FixedBaseG2::new(backend, &G2Affine::generator());
    g2.vartime_mul_many(&scalars(16_384), &mut signatures);
    println!(
        "fixed base G2: {:.2} us a signature",
        (thread_s() - start) * 1e6 / 16_384.0
    );
    for count in [512, 16_384] {
        let (bulk, bad) = least_s(|| outside_subgroup(backend, &signatures[..count], &[1; 32]));
        let (one, _) = least_s(|| signatures[..64].iter().all(CurveField::in_group));
        assert!(bad.is_empty());
        println!(
            "subgroup of {count} signatures: {:.2} ms, {:.1}x faster than one by one",
            bulk * 1e3,
            one / 64.0 * count as f64 / bulk
        );
    }
    let start = thread_s();
    let table = KeyTable::new(backend, keys, &vec![size; committees]).expect("a valid table");
    println!("key table: {:.0} ms", (thread_s() - start) * 1e3);
    let costs = Costs::measure(backend);
    for (name, participation, correlated) in [
        ("50 % random", 0.5, false),
        ("95 % random", 0.95, false),
        ("99 % random", 0.99, false),
        ("95 % corr", 0.95, true),
        ("99 % corr", 0.99, true),
    ] {
        case(&table, name, participation, correlated, costs);
    }
    // What adversaries may register: the same sums over keys that collide everywhere.
    let keys = table.keys().to_vec();
    let clones = |i: usize| keys[i % size.min(1024)];
    let pairs = |i: usize| [keys[i / 2], keys[i / 2].neg()][i % 2];
    let cases: [(&str, &dyn Fn(usize) -> G1Affine); 2] =
        [("50 % clones", &clones), ("50 % P, -P", &pairs)];
    for (name, key) in cases {
        let keys = (0..keys_total).map(key).collect();
        let table = KeyTable::new(backend, keys, &vec![size; committees]).expect("a valid table");
        case(&table, name, 0.5, false, costs);
    }
}

fn planes(size: usize, participation: f64, correlated: bool, state: &mut u64) -> Vec<Vec<u64>> {
    let mut plane = |density: f64| {
        let mut plane = vec![0u64; size.div_ceil(64)];
        for i in 0..size {
            plane[i / 64] |=
                u64::from((random(state) as f64) < density * 2f64.powi(64)) << (i % 64);
        }
        plane
    };
    if !correlated {
        return (0..COLLECTIONS).map(|_| plane(participation)).collect();
    }
    let online = plane(participation);
    let own = |_| {
        plane(0.998)
            .iter()
            .zip(&online)
            .map(|(a, b)| a & b)
            .collect()
    };
    (0..COLLECTIONS).map(own).collect()
}

fn case(table: &KeyTable, name: &str, participation: f64, correlated: bool, costs: Costs) {
    let (committees, size) = (table.committees(), table.committee(0).len());
    let mut state = 7;
    let all: Vec<Vec<Vec<u64>>> = (0..committees)
        .map(|_| planes(size, participation, correlated, &mut state))
        .collect();
    let views: Vec<Vec<[&[u64]; 1]>> = all
        .iter()
        .map(|c| c.iter().map(|p| [p.as_slice()]).collect())
        .collect();
    let collections: Vec<Vec<Columns<'_>>> = views
        .iter()
        .map(|c| c.iter().map(|planes| Columns { planes }).collect())
        .collect();
    let jobs: Vec<CommitteeJob<'_>> = collections
        .iter()
        .enumerate()
        .map(|(committee, collections)| CommitteeJob {
            committee,
            collections,
            bases: &[],
        })
        .collect();
    let mut workspace = Workspace::default();
    let mut sum = |jobs: &[CommitteeJob<'_>], method| {
        let options = SumOptions { method, costs };
        sum_columns(table, jobs, &options, &mut workspace, None).expect("valid jobs")
    };
    let (ours, sums) = least_s(|| sum(&jobs, None));
    let (subtract, _) = least_s(|| sum(&jobs, Some(Method::Subtract)));
    // Naive and blst's bulk sums take seconds: a few collections stand for all.
    let keys = table.committee(0);
    let members = |column: &Vec<u64>| -> Vec<G1Affine> {
        let set = |i: &usize| column[i / 64] >> (i % 64) & 1 == 1;
        (0..size).filter(set).map(|i| keys[i]).collect()
    };
    let sample: Vec<Vec<G1Affine>> = all[0][..SAMPLE].iter().map(members).collect();
    let references: Vec<Vec<&G1Affine>> = sample.iter().map(|m| m.iter().collect()).collect();
    let sum_all = || {
        sample
            .iter()
            .map(|m| CurveField::sum_naive(m))
            .collect::<Vec<G1Affine>>()
    };
    let (naive, naive_sums) = least_s(sum_all);
    let (bulk, _) = least_s(|| {
        references
            .iter()
            .map(|m| CurveField::sum_blst(m))
            .collect::<Vec<G1Affine>>()
    });
    assert_eq!(naive_sums, sums.keys[..SAMPLE], "equal to the naive sums");
    let count = (committees * COLLECTIONS / SAMPLE) as f64;
    let report = &sums.report;
    let used: Vec<String> = Method::ALL
        .iter()
        .filter(|method| report.methods.get(**method) > 0)
        .map(|method| format!("{} {}", method.name(), report.methods.get(*method)))
        .collect();
    println!(
        "{name:12} ours {:7.1} ms ({:5.1} ns/addition, {:8} additions, plan {:.1} buckets {:.1} ms, {})  \
         subtract {:7.1}  blst bulk {:7.1} ({:.1}x)  naive {:7.1} ({:.1}x)",
        ours * 1e3,
        ours * 1e9 / report.additions.max(1) as f64,
        report.additions,
        report.plan_ns as f64 / 1e6,
        report.buckets_ns as f64 / 1e6,
        used.join(", "),
        subtract * 1e3,
        bulk * count * 1e3,
        bulk * count / ours,
        naive * count * 1e3,
        naive * count / ours,
    );
}
