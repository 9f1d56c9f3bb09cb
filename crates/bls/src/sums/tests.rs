//! Checks every method and kernel against one-by-one additions.

use std::sync::LazyLock;

use super::*;
use crate::blst_ffi::curve::{Affine, G1Affine, G2Affine};
use crate::blst_ffi::curve_field::CurveField;
use crate::blst_ffi::field::{Field, Fp2};
use crate::blst_ffi::points::{g1, g2};
use crate::kernel::KERNELS;
use segments::{Entry, Points, SegmentList, SumBuffers, SumKernel, sum_segments};

/// SplitMix64: a small reproducible source of test bits.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    /// One plane whose bits are set with probability `permille` / 1000.
    fn plane(&mut self, positions: usize, permille: usize) -> Vec<u64> {
        let mut plane = vec![0; positions.div_ceil(64)];
        for i in 0..positions {
            plane[i / 64] |= u64::from(self.below(1000) < permille) << (i % 64);
        }
        plane
    }
}

fn full(positions: usize) -> Vec<u64> {
    Random(0).plane(positions, 1000)
}

fn complement(plane: &[u64], positions: usize) -> Vec<u64> {
    plane
        .iter()
        .zip(full(positions))
        .map(|(a, b)| a ^ b)
        .collect()
}

const KEYS: usize = 2048;

/// g, 2g, 3g, ...: P_i + P_j = P_k + P_l whenever i + j = k + l.
static CONSECUTIVE: LazyLock<Vec<G1Affine>> = LazyLock::new(|| {
    let mut keys = vec![g1::generator()];
    while keys.len() < KEYS {
        keys.push(Fp::sum_naive(&[keys[keys.len() - 1], keys[0]]));
    }
    keys
});

/// Unrelated points: multiples of g by 64-bit numbers.
static KEYS_RANDOM: LazyLock<Vec<G1Affine>> = LazyLock::new(|| {
    let mut random = Random(1);
    (0..KEYS)
        .map(|_| g1::mul(&g1::generator(), &random.next().to_le_bytes(), 64))
        .collect()
});

/// Sums `columns` over `keys` (as one committee among others) by every method on every kernel.
fn check(keys: &[G1Affine], columns: &[Vec<u64>]) {
    let expected: Vec<G1Affine> = columns
        .iter()
        .map(|plane| base::plane_naive(keys, plane))
        .collect();
    let mut all: Vec<G1Affine> = KEYS_RANDOM[..7].to_vec();
    all.extend(keys);
    let words: Vec<[&[u64]; 1]> = columns.iter().map(|c| [c.as_slice()]).collect();
    let collections: Vec<Columns<'_>> = words.iter().map(|planes| Columns { planes }).collect();
    for backend in KERNELS.available() {
        let table =
            KeyTable::new(backend, all.clone(), &[7, 0, keys.len()]).expect("a valid table");
        let near = Random(3).plane(keys.len(), 990);
        let bases = [
            Base::compute(&table, 2, &near).expect("a plane of the committee"),
            Base::compute(&table, 2, &columns[0]).expect("a plane of the committee"),
        ];
        let job = CommitteeJob {
            committee: 2,
            collections: &collections,
            bases: &bases,
        };
        let mut workspace = Workspace::default();
        for method in Method::ALL.map(Some).into_iter().chain([None]) {
            let options = SumOptions {
                method,
                ..SumOptions::default()
            };
            let sums = sum_columns(&table, &[job], &options, &mut workspace, Exec::serial())
                .expect("valid jobs");
            assert_eq!(sums.keys, expected, "{method:?} on {backend}");
            assert_eq!(sums.planes, expected, "{method:?} on {backend}");
        }
    }
}

fn typical_columns(positions: usize, random: &mut Random) -> Vec<Vec<u64>> {
    let half = random.plane(positions, 500);
    vec![
        half.clone(),
        complement(&half, positions),
        half,
        random.plane(positions, 0),
        full(positions),
        random.plane(positions, 990),
        random.plane(positions, 950),
        random.plane(positions, 10),
        random.plane(positions, 500),
        random.plane(positions, 500),
        random.plane(positions, 730),
    ]
}

#[test]
fn methods_agree_on_every_shape_of_columns() {
    let mut random = Random(2);
    let columns = typical_columns(KEYS, &mut random);
    check(&KEYS_RANDOM, &columns);
    for count in [1, 2, 3, 5, 8, 9] {
        check(
            &KEYS_RANDOM[..700],
            &typical_columns(700, &mut random)[..count],
        );
    }
    let many: Vec<_> = (0..37).map(|_| random.plane(600, 500)).collect();
    check(&KEYS_RANDOM[..600], &many);
}

#[test]
fn methods_agree_on_sizes_that_are_no_multiples() {
    let mut random = Random(4);
    for positions in [0, 1, 2, 3, 7, 8, 9, 63, 64, 65, 127, 191, 192, 513] {
        check(
            &KEYS_RANDOM[..positions],
            &typical_columns(positions, &mut random),
        );
    }
}

/// Every set of signers of up to five keys, and of equal keys.
#[test]
fn every_subset_of_the_smallest_committees() {
    for positions in 1..=5 {
        let columns: Vec<Vec<u64>> = (0..1 << positions).map(|bits| vec![bits]).collect();
        check(&KEYS_RANDOM[..positions], &columns);
        check(&vec![KEYS_RANDOM[0]; positions], &columns);
        // A single column takes other methods than many columns do.
        columns
            .chunks(1)
            .for_each(|column| check(&KEYS_RANDOM[..positions], column));
    }
}

/// Every size up to the fourth multiple of the vector kernel's lanes, and of a word of bits.
#[test]
fn every_size_up_to_some_multiples_of_the_lanes() {
    let mut random = Random(17);
    for positions in 6..=66 {
        let columns = [
            full(positions),
            random.plane(positions, 500),
            random.plane(positions, 900),
        ];
        check(&KEYS_RANDOM[..positions], &columns);
    }
}

/// Tables of only tiny committees: keys, totals and sums in one call for all of them.
#[test]
fn many_committees_of_one_to_three_keys() {
    for size in 1..=3 {
        let committees = 35;
        let keys = KEYS_RANDOM[..size * committees].to_vec();
        for backend in KERNELS.available() {
            let table =
                KeyTable::new(backend, keys.clone(), &vec![size; committees]).expect("valid");
            let all = full(size);
            let planes: [&[u64]; 1] = [&all];
            let collections = [Columns { planes: &planes }];
            let jobs: Vec<CommitteeJob<'_>> = (0..committees)
                .map(|committee| CommitteeJob {
                    committee,
                    collections: &collections,
                    bases: &[],
                })
                .collect();
            let expected: Vec<G1Affine> = keys.chunks(size).map(Fp::sum_naive).collect();
            let totals: Vec<G1Affine> = (0..committees).map(|c| *table.total(c)).collect();
            assert_eq!(totals, expected, "totals of {size} keys on {backend}");
            for method in Method::ALL.map(Some).into_iter().chain([None]) {
                let options = SumOptions {
                    method,
                    ..SumOptions::default()
                };
                let sums = sum_columns(
                    &table,
                    &jobs,
                    &options,
                    &mut Workspace::default(),
                    Exec::serial(),
                );
                assert_eq!(
                    sums.expect("valid jobs").keys,
                    expected,
                    "{size} keys, {method:?} on {backend}"
                );
            }
        }
    }
}

/// More items than may be pending at once: the groups run in parts.
#[test]
fn jobs_with_very_many_columns_run_in_parts() {
    let mut random = Random(16);
    // Some are near a base, whose sum must survive the parts.
    let near = random.plane(KEYS, 500);
    let columns: Vec<_> = (0..1900)
        .map(|i| match i % 200 {
            0 => {
                let mut column = near.clone();
                column[i / 200] ^= 1;
                column
            }
            _ => random.plane(KEYS, 500),
        })
        .collect();
    let words: Vec<[&[u64]; 1]> = columns.iter().map(|c| [c.as_slice()]).collect();
    let collections: Vec<Columns<'_>> = words.iter().map(|planes| Columns { planes }).collect();
    for backend in KERNELS.available() {
        let table = KeyTable::new(backend, KEYS_RANDOM.clone(), &[KEYS]).expect("a valid table");
        let bases = [Base::compute(&table, 0, &near).expect("fits")];
        let job = CommitteeJob {
            committee: 0,
            collections: &collections,
            bases: &bases,
        };
        let options = SumOptions {
            method: Some(Method::Pattern),
            ..SumOptions::default()
        };
        let sums = sum_columns(
            &table,
            &[job],
            &options,
            &mut Workspace::default(),
            Exec::serial(),
        );
        let keys = sums.expect("valid jobs").keys;
        for i in (0..columns.len()).step_by(100) {
            assert_eq!(
                keys[i],
                base::plane_naive(&KEYS_RANDOM, &columns[i]),
                "column {i}"
            );
        }
    }
}

#[test]
fn single_bits_are_single_keys() {
    let columns: Vec<Vec<u64>> = (0..16)
        .map(|i| {
            let mut plane = vec![0; 5];
            plane[(i * 19) / 64] |= 1 << ((i * 19) % 64);
            plane
        })
        .collect();
    check(&KEYS_RANDOM[..300], &columns);
}

#[test]
fn columns_of_equal_and_opposite_keys() {
    let mut random = Random(5);
    let columns = |positions: usize, random: &mut Random| {
        let mut columns = typical_columns(positions, random);
        columns.extend((0..5).map(|_| random.plane(positions, 500)));
        columns
    };
    // Pairs P, -P side by side, and far apart.
    let mut pairs: Vec<G1Affine> = KEYS_RANDOM[..512]
        .iter()
        .flat_map(|p| [*p, p.neg()])
        .collect();
    check(&pairs, &columns(1024, &mut random));
    pairs.sort_by_key(|p| p.y.limbs()[0] & 1);
    check(&pairs, &columns(1024, &mut random));
    // Clones of few keys: P + P at every level.
    let clones: Vec<G1Affine> = (0..1500).map(|i| KEYS_RANDOM[i % 32]).collect();
    check(&clones, &columns(1500, &mut random));
    check(&vec![KEYS_RANDOM[0]; 1024], &columns(1024, &mut random));
    // Clones side by side with their negatives: P + P = 2P next to -P - P.
    let quads: Vec<G1Affine> = KEYS_RANDOM[..256]
        .iter()
        .flat_map(|p| [*p, *p, p.neg(), p.neg()])
        .collect();
    check(&quads, &columns(1024, &mut random));
}

#[test]
fn columns_of_keys_whose_sums_collide() {
    let mut random = Random(6);
    let mut columns = typical_columns(KEYS, &mut random);
    check(&CONSECUTIVE, &columns);
    // i + (n - i) is the same for all i: every pair of neighbours has the same sum.
    let folded: Vec<G1Affine> = (0..KEYS / 2)
        .flat_map(|i| [CONSECUTIVE[i], CONSECUTIVE[KEYS - 1 - i]])
        .collect();
    check(&folded, &columns);
    columns.truncate(2);
    check(&folded, &columns);
}

#[test]
fn multiplicities_are_planes_with_their_weights() {
    let mut random = Random(7);
    let positions = 900;
    let planes: Vec<Vec<Vec<u64>>> = [4, 1, 2, 3, 4, 2]
        .iter()
        .map(|count| {
            (0..*count)
                .map(|j| random.plane(positions, 900 - 250 * j))
                .collect()
        })
        .collect();
    let views: Vec<Vec<&[u64]>> = planes
        .iter()
        .map(|c| c.iter().map(Vec::as_slice).collect())
        .collect();
    let collections: Vec<Columns<'_>> = views.iter().map(|planes| Columns { planes }).collect();
    let keys = &KEYS_RANDOM[..positions];
    let of_planes: Vec<G1Affine> = planes
        .iter()
        .flatten()
        .map(|plane| base::plane_naive(keys, plane))
        .collect();
    let expected: Vec<G1Affine> = planes
        .iter()
        .map(|planes| {
            let weighted = planes.iter().enumerate().flat_map(|(j, plane)| {
                let sum = base::plane_naive(keys, plane);
                core::iter::repeat_n(sum, 1 << j)
            });
            Fp::sum_naive(&weighted.collect::<Vec<_>>())
        })
        .collect();
    for backend in KERNELS.available() {
        let table = KeyTable::new(backend, keys.to_vec(), &[positions]).expect("a valid table");
        let job = CommitteeJob {
            committee: 0,
            collections: &collections,
            bases: &[],
        };
        for method in Method::ALL.map(Some).into_iter().chain([None]) {
            let options = SumOptions {
                method,
                ..SumOptions::default()
            };
            let sums = sum_columns(
                &table,
                &[job],
                &options,
                &mut Workspace::default(),
                Exec::serial(),
            );
            let sums = sums.expect("valid jobs");
            assert_eq!(sums.keys, expected, "{method:?} on {backend}");
            assert_eq!(sums.planes, of_planes, "{method:?} on {backend}");
        }
    }
}

#[test]
fn threads_and_batches_do_not_change_the_result() {
    let mut random = Random(8);
    let sizes = [700, 0, 1, 64, 300, 983];
    let planes: Vec<Vec<Vec<u64>>> = sizes
        .iter()
        .map(|n| {
            (0..5)
                .map(|j| random.plane(*n, [500, 990, 10, 1000, 0][j]))
                .collect()
        })
        .collect();
    let words: Vec<Vec<[&[u64]; 1]>> = planes
        .iter()
        .map(|c| c.iter().map(|p| [p.as_slice()]).collect())
        .collect();
    let collections: Vec<Vec<Columns<'_>>> = words
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
    for backend in KERNELS.available() {
        let table = KeyTable::new(backend, KEYS_RANDOM.clone(), &sizes).expect("a valid table");
        let options = SumOptions::default();
        let mut workspace = Workspace::default();
        let alone = sum_columns(&table, &jobs, &options, &mut workspace, Exec::serial())
            .expect("valid jobs");
        let expected: Vec<G1Affine> = planes
            .iter()
            .enumerate()
            .flat_map(|(c, planes)| {
                planes
                    .iter()
                    .map(|plane| base::plane_naive(table.committee(c), plane))
                    .collect::<Vec<_>>()
            })
            .collect();
        assert_eq!(alone.keys, expected);
        for threads in [1, 2, 5] {
            let pool = rayon::ThreadPoolBuilder::new()
                .num_threads(threads)
                .build()
                .expect("threads");
            let sums = sum_columns(
                &table,
                &jobs,
                &options,
                &mut workspace,
                Exec::new(Backend::Portable, Some(&pool)),
            );
            assert_eq!(
                sums.expect("valid jobs").keys,
                expected,
                "{threads} threads"
            );
        }
    }
}

#[test]
fn nothing_more_is_summed_for_a_task_that_is_asked_to_end() {
    let table = KeyTable::new(Backend::Portable, KEYS_RANDOM[..64].to_vec(), &[64]);
    let table = table.expect("a valid table");
    let plane = full(64);
    let planes: [&[u64]; 1] = [&plane];
    let job = CommitteeJob {
        committee: 0,
        collections: &[Columns { planes: &planes }],
        bases: &[],
    };
    let (stop, mut scratch) = (alphorn_exec::Stop::default(), ());
    let pulse = alphorn_scheme::Ctx::alone(stop.clone(), Default::default(), &mut scratch).pulse();
    let mut workspace = Workspace::default();
    let mut sum = || {
        let exec = Exec::serial().with_watch(&pulse);
        let sums = sum_columns(&table, &[job], &SumOptions::default(), &mut workspace, exec);
        sums.expect("a valid job").keys
    };
    assert_eq!(sum(), [*table.total(0)]);
    stop.stop();
    assert_eq!(sum(), [G1Affine::INFINITY]);
}

#[test]
fn jobs_that_do_not_fit_are_refused() {
    let table = KeyTable::new(Backend::Portable, KEYS_RANDOM[..70].to_vec(), &[70]).expect("valid");
    let sum = |committee, planes: &[&[u64]]| {
        let job = CommitteeJob {
            committee,
            collections: &[Columns { planes }],
            bases: &[],
        };
        sum_columns(
            &table,
            &[job],
            &SumOptions::default(),
            &mut Workspace::default(),
            Exec::serial(),
        )
        .map(|sums| sums.keys.len())
    };
    assert_eq!(sum(0, &[&[!0, 63]]), Ok(1));
    assert_eq!(
        sum(1, &[&[!0, 63]]),
        Err(SumError::Committee {
            committee: 1,
            committees: 1
        })
    );
    assert_eq!(sum(0, &[]), Err(SumError::Planes { got: 0 }));
    assert_eq!(
        sum(0, &[[0, 0].as_slice(); 5]),
        Err(SumError::Planes { got: 5 })
    );
    assert_eq!(
        sum(0, &[&[0]]),
        Err(SumError::Words {
            got: 1,
            expected: 2,
            positions: 70
        })
    );
    assert_eq!(
        sum(0, &[&[0, 64]]),
        Err(SumError::Padding { positions: 70 })
    );
}

/// The units of a layout: a committee and parts of it over the same keys.
#[test]
fn committees_that_share_keys_are_summed_as_if_they_did_not() {
    let keys = KEYS_RANDOM[..130].to_vec();
    let ranges = [0..130, 0..65, 65..130, 65..66, 66..130, 70..70];
    for backend in KERNELS.available() {
        let table = KeyTable::of_ranges(backend, keys.clone(), ranges.to_vec()).expect("valid");
        assert_eq!(table.keys().len(), 130);
        for (committee, range) in ranges.iter().enumerate() {
            let own = &keys[range.clone()];
            assert_eq!(table.committee(committee), own);
            assert_eq!(*table.total(committee), Fp::sum_naive(own));
            let planes = [full(own.len()), Random(5).plane(own.len(), 600)];
            for method in Method::ALL.map(Some).into_iter().chain([None]) {
                let columns: Vec<[&[u64]; 1]> = planes.iter().map(|p| [&p[..]]).collect();
                let collections: Vec<Columns<'_>> =
                    columns.iter().map(|planes| Columns { planes }).collect();
                let job = CommitteeJob {
                    committee,
                    collections: &collections,
                    bases: &[],
                };
                let options = SumOptions {
                    method,
                    ..SumOptions::default()
                };
                let mut workspace = Workspace::default();
                let sums = sum_columns(&table, &[job], &options, &mut workspace, Exec::serial());
                let expected = planes.each_ref().map(|p| base::plane_naive(own, p));
                assert_eq!(sums.expect("fits").keys, expected, "{range:?} {method:?}");
            }
        }
    }
}

#[test]
fn tables_that_are_inconsistent_are_refused() {
    let new = |keys: Vec<G1Affine>, sizes: &[usize]| {
        KeyTable::new(Backend::Portable, keys, sizes).map(|table| table.committees())
    };
    let keys = KEYS_RANDOM[..3].to_vec();
    assert_eq!(new(keys.clone(), &[1, 2]), Ok(2));
    assert_eq!(
        new(keys.clone(), &[1, 1]),
        Err(KeyTableError::Sizes { sum: 2, keys: 3 })
    );
    assert_eq!(
        new(keys.clone(), &[usize::MAX, 4]),
        Err(KeyTableError::Sizes {
            sum: usize::MAX,
            keys: 3
        })
    );
    let infinite = vec![keys[0], Affine::INFINITY];
    assert_eq!(
        new(infinite, &[2]),
        Err(KeyTableError::Infinity { index: 1 })
    );
}

#[test]
fn a_base_of_another_table_is_not_used() {
    let keys = KEYS_RANDOM[..200].to_vec();
    let mut changed = keys.clone();
    changed[77] = KEYS_RANDOM[300];
    let mut shuffled = keys.clone();
    shuffled.swap(3, 150);
    let plane = Random(9).plane(200, 600);
    let table = KeyTable::new(Backend::Portable, keys.clone(), &[200]).expect("valid");
    let base = Base::compute(&table, 0, &plane).expect("fits");
    assert!(base.fits(&table, 0) && !base.fits(&table, 1));
    let resized = KeyTable::new(Backend::Portable, keys, &[100, 100]).expect("valid");
    assert!(!base.fits(&resized, 0));
    for other in [changed, shuffled] {
        let other = KeyTable::new(Backend::Portable, other, &[200]).expect("valid");
        assert!(!base.fits(&other, 0));
        let planes: [&[u64]; 1] = [&plane];
        let (collections, bases) = ([Columns { planes: &planes }], [base.clone()]);
        let job = CommitteeJob {
            committee: 0,
            collections: &collections,
            bases: &bases,
        };
        let options = SumOptions {
            method: Some(Method::Delta),
            ..SumOptions::default()
        };
        let sums = sum_columns(
            &other,
            &[job],
            &options,
            &mut Workspace::default(),
            Exec::serial(),
        );
        let expected = base::plane_naive(other.committee(0), &plane);
        assert_eq!(sums.expect("valid").keys, [expected]);
    }
}

#[test]
fn measured_costs_are_plausible_and_change_no_result() {
    for backend in KERNELS.available() {
        let costs = Costs::measure(backend);
        let Costs {
            naive_add_ns,
            naive_ns,
            add_ns,
            item_ns,
            group_ns,
            job_ns,
        } = costs;
        assert!(
            [naive_add_ns, naive_ns, add_ns, item_ns]
                .iter()
                .all(|ns| *ns > 0.0),
            "{costs:?}"
        );
        assert!(
            group_ns >= 0.0 && job_ns >= 0.0 && item_ns < add_ns,
            "{costs:?}"
        );
        let table = KeyTable::new(backend, KEYS_RANDOM.clone(), &[KEYS]).expect("valid");
        let plane = Random(10).plane(KEYS, 400);
        let planes: [&[u64]; 1] = [&plane];
        let job = CommitteeJob {
            committee: 0,
            collections: &[Columns { planes: &planes }],
            bases: &[],
        };
        let options = SumOptions {
            method: None,
            costs,
        };
        let sums = sum_columns(
            &table,
            &[job],
            &options,
            &mut Workspace::default(),
            Exec::serial(),
        );
        assert_eq!(
            sums.expect("valid").keys,
            [base::plane_naive(&KEYS_RANDOM, &plane)]
        );
    }
}

/// Sums of random signed segments of one kernel against one-by-one additions.
fn check_segments<K: SumKernel>(
    kernel: K,
    points: &[Affine<K::Field>],
    lengths: &[usize],
    seed: u64,
) {
    let mut random = Random(seed);
    let mut list = SegmentList::default();
    for length in lengths {
        for _ in 0..*length {
            list.entries.push(Entry::new(
                random.below(points.len()),
                random.next() & 1 == 1,
            ));
        }
        list.close();
    }
    let mut stored = Vec::new();
    kernel.encode(points, &mut stored);
    // The second half of the points stands in for sums made earlier.
    let (table, sums) = stored.split_at(points.len() / 2);
    // The previous contents of the slots are overwritten, whatever the sum.
    let (mut out, mut affine) = (vec![stored[0]; list.len()], Vec::new());
    sum_segments(
        kernel,
        Points { table, sums },
        &list,
        &mut SumBuffers::default(),
        &mut out,
    );
    kernel.decode(&out, &mut affine);
    for (i, segment) in list.iter().enumerate() {
        let summands: Vec<_> = segment
            .iter()
            .map(|e| {
                if e.is_negative() {
                    points[e.index()].neg()
                } else {
                    points[e.index()]
                }
            })
            .collect();
        assert_eq!(
            affine[i],
            K::Field::sum_naive(&summands),
            "segment {i} of {}",
            segment.len()
        );
        assert_eq!(K::is_infinity(&out[i]), affine[i].is_infinity());
    }
}

/// The same on every kernel that this processor can run.
fn check_kernels<F: KernelField>(points: &[Affine<F>], lengths: &[usize], seed: u64) {
    for backend in KERNELS.available() {
        with_multiplier!(
            backend,
            m => check_segments(F::vector(m), points, lengths, seed),
            _ => check_segments(Portable::<F>::default(), points, lengths, seed),
        );
    }
    #[cfg(target_arch = "x86_64")]
    crate::kernel::tests::vector_backends();
}

const LENGTHS: [usize; 24] = [
    0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 63, 64, 65, 100, 0, 1, 1, 127, 255, 1000,
];

#[test]
fn segments_of_g1() {
    for seed in 0..3 {
        check_kernels(&KEYS_RANDOM, &LENGTHS, seed);
        check_kernels(&CONSECUTIVE[..16], &LENGTHS, seed);
    }
    check_kernels(&KEYS_RANDOM, &[1 << 16, 3, 20_000], 4);
}

/// Points of the whole of E'(Fp2), most of them outside G2: decompressed from small x.
fn g2_curve_points(count: usize) -> Vec<G2Affine> {
    let mut points = Vec::new();
    for x in 1..=u8::MAX {
        let mut bytes = [0; g2::COMPRESSED_BYTES];
        (bytes[0], bytes[95]) = (0x80, x);
        points.extend(g2::decompress(&bytes));
    }
    points.truncate(count);
    points
}

#[test]
fn segments_of_the_whole_curve_over_fp2() {
    let mut points = g2_curve_points(60);
    let order_13 = crate::subgroup::tests::point_of_order_13();
    let multiples: Vec<G2Affine> = (1..13)
        .map(|k| Fp2::sum_naive(&vec![order_13; k]))
        .collect();
    assert!(Fp2::sum_naive(&[order_13; 13]).is_infinity());
    points.extend(multiples.iter().cycle().take(40));
    check_kernels(&points, &LENGTHS, 11);
    check_kernels(&multiples, &LENGTHS, 12);
}

#[test]
fn segments_of_points_of_order_3() {
    // (0, 2) and (0, -2) are on y² = x³ + 4 and have order 3.
    let two = Fp::ONE.add(&Fp::ONE);
    let torsion = Affine {
        x: Fp::ZERO,
        y: two,
    };
    assert!(Fp::sum_naive(&[torsion; 3]).is_infinity());
    let mut points = vec![torsion, torsion.neg()];
    check_kernels(&points, &LENGTHS, 13);
    points.extend(&KEYS_RANDOM[..6]);
    check_kernels(&points, &LENGTHS, 14);
}

#[test]
#[cfg(feature = "soak")]
fn a_whole_committee_of_clones() {
    let clones: Vec<G1Affine> = (0..1 << 15).map(|i| KEYS_RANDOM[i % 1024]).collect();
    let mut random = Random(15);
    let columns: Vec<_> = (0..16).map(|_| random.plane(1 << 15, 500)).collect();
    check(&clones, &columns);
    check(&clones, &[full(1 << 15)]);
}
