//! Sums of the keys of a committee: the aggregate keys of sixteen collections, by every method.
//!
//! ```text
//! cargo run --release -p alphorn-bls --example sums -- [committee size]
//! ```
//!
//! `alphorn bench bls sums` measures whole slots, beside blst.

use alphorn_bls::KERNELS;
use std::time::Instant;

use alphorn_bls::{
    Columns, CommitteeJob, Costs, KeyTable, Method, SumOptions, Workspace, interop_keys,
    sum_columns, vartime_interop_public_keys,
};
use alphorn_exec::Exec;

const COLLECTIONS: u64 = 16;

fn main() {
    let size = std::env::args().nth(1).map_or(1 << 12, |size| {
        size.parse().expect("the size of the committee is a number")
    });
    let secrets = interop_keys(0..size, Exec::serial());
    let words = size.div_ceil(64);
    // Half of the committee signs, others in each collection; nobody past its last position.
    let plane = |collection: u64| -> Vec<u64> {
        let word =
            |i: u64| random(collection * words + i) & (u64::MAX >> (64 - (size - 64 * i).min(64)));
        (0..words).map(word).collect()
    };
    let planes: Vec<Vec<u64>> = (0..COLLECTIONS).map(plane).collect();
    let supports: Vec<[&[u64]; 1]> = planes.iter().map(|plane| [plane.as_slice()]).collect();
    let collections: Vec<Columns<'_>> = supports.iter().map(|planes| Columns { planes }).collect();
    let job = CommitteeJob {
        committee: 0,
        collections: &collections,
        bases: &[],
    };
    for backend in KERNELS.available() {
        let keys = vartime_interop_public_keys(&secrets, Exec::new(backend, None));
        let keys = keys.iter().map(|key| *key.point()).collect();
        let table = KeyTable::new(backend, keys, &[secrets.len()]).expect("no key is the identity");
        let costs = Costs::measure(backend);
        let mut expected = None;
        // The first method adds one key after the other; none is the planner's choice.
        for method in Method::ALL.map(Some).into_iter().chain([None]) {
            let start = Instant::now();
            let sums = sum_columns(
                &table,
                &[job],
                &SumOptions { method, costs },
                &mut Workspace::default(),
                Exec::serial(),
            )
            .expect("the planes fit the committee");
            let ms = start.elapsed().as_secs_f64() * 1e3;
            assert_eq!(
                expected.get_or_insert_with(|| sums.keys.clone()),
                &sums.keys
            );
            let name = method.map_or("planned", Method::name);
            let additions = sums.report.additions;
            println!("{backend:8} {name:8} {additions:8} additions {ms:8.2} ms");
        }
    }
}

/// SplitMix64, so that every run sees the same bits.
fn random(seed: u64) -> u64 {
    let state = (seed + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let z = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
