//! Proofs of aggregate keys, a research topic, beside adding the keys of the same signers.

use alphorn_bls::ipa::{Bases, Claim, Committee, Proof, prove, verify, verify_batch};
use alphorn_bls::{
    Columns, CommitteeJob, Costs, KERNELS, KeyTable, PublicKey, Rlc, RlcBits, SumOptions,
    Workspace, interop_keys, sum_columns, vartime_interop_public_keys,
};
use alphorn_exec::Exec;
use alphorn_types::Bitfield;
use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// Proofs of a batch, all of one committee.
const BATCH: usize = 16;
/// Planes of the multiplicities 0 to 3.
const PLANES: usize = 2;

/// Multiplicities 1 to 3 for 95 % of the positions.
fn draw(n: usize) -> Vec<u32> {
    let mut rng = ChaCha20Rng::seed_from_u64(1);
    let mut multiplicities: Vec<u32> = (0..n)
        .map(|_| match rng.next_u32() % 20 {
            0 => 0,
            _ => 1 + rng.next_u32() % 3,
        })
        .collect();
    // Nobody is no signer set.
    multiplicities[0] = multiplicities[0].max(1);
    multiplicities
}

/// Positions whose multiplicity is as asked.
fn field(multiplicities: &[u32], holds: impl Fn(u32) -> bool) -> Bitfield {
    let mut bits = Bitfield::new(multiplicities.len());
    (0..multiplicities.len())
        .filter(|i| holds(multiplicities[*i]))
        .for_each(|i| bits.set(i));
    bits
}

/// Adding the keys of a batch's collections, whose first sum must be the proven key.
fn direct(
    criterion: &mut Criterion,
    keys: &[PublicKey],
    multiplicities: &[u32],
    proven: &PublicKey,
) {
    let kernel = KERNELS.measured();
    let points = keys.iter().map(|key| *key.point()).collect();
    let table = KeyTable::new(kernel, points, &[keys.len()]).expect("no key is the identity");
    let planes: Vec<Bitfield> = (0..PLANES)
        .map(|j| field(multiplicities, |m| m >> j & 1 == 1))
        .collect();
    let words: Vec<&[u64]> = planes.iter().map(Bitfield::words).collect();
    let columns: Vec<Columns<'_>> = (0..BATCH).map(|_| Columns { planes: &words }).collect();
    let jobs = [CommitteeJob {
        committee: 0,
        collections: &columns,
        bases: &[],
    }];
    let options = SumOptions {
        method: None,
        costs: Costs::measure(kernel),
    };
    let mut workspace = Workspace::default();
    let mut sum = || {
        let sums = sum_columns(
            &table,
            &jobs,
            &options,
            &mut workspace,
            Exec::new(kernel, None),
        );
        sums.expect("supports fit the table").keys[0]
    };
    assert_eq!(sum(), *proven.point(), "a direct sum is the proven key");
    criterion.bench_function(&format!("sum {BATCH}/{}", keys.len()), |b| b.iter(&mut sum));
}

fn proofs(criterion: &mut Criterion) {
    let exec = Exec::serial();
    for n in [256, 1024] {
        let secrets = interop_keys(0..n as u64, exec);
        let keys = vartime_interop_public_keys(&secrets, exec);
        let committee = Committee::new(&keys).expect("a committee of that size");
        let bases = Bases::derive(n, exec).expect("bases of that number");
        let multiplicities = draw(n);
        let signers = field(&multiplicities, |m| m != 0);
        let make = || prove(&bases, &committee, &multiplicities, &signers, exec);
        let (aggregate, proof): (PublicKey, Proof) = make().expect("signers of this committee");
        let claim = || Claim::new(&committee, &signers, aggregate, &proof).expect("it fits");
        let claims: Vec<Claim<'_>> = (0..BATCH).map(|_| claim()).collect();
        let rlc = Rlc::new([7; 32], RlcBits::Bits64);
        assert!(verify_batch(&bases, &claims, &rlc, exec).is_ok());

        let mut group = criterion.benchmark_group(format!("{} bytes", Proof::bytes_len(n)));
        group.sample_size(10);
        let id = |name: &str| BenchmarkId::new(name, n);
        group.bench_function(id("bases"), |b| b.iter(|| Bases::derive(n, exec)));
        group.bench_function(id("prove"), |b| b.iter(make));
        group.bench_function(id("verify"), |b| {
            b.iter(|| verify(&bases, &claims[0], exec));
        });
        group.bench_function(id("verify 16"), |b| {
            b.iter(|| verify_batch(&bases, &claims, &rlc, exec));
        });
        group.finish();
        direct(criterion, &keys, &multiplicities, &aggregate);
    }
}

criterion_group!(benches, proofs);
criterion_main!(benches);
