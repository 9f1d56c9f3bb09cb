//! The sums of keys of `alphorn-bls`: every method on every kernel.

use std::sync::OnceLock;

use alphorn_bls::{
    Columns, CommitteeJob, CurveField, Fp, G1Affine, KeyTable, Method, SumOptions, Workspace,
    g1_generator, sum_columns,
};
use alphorn_exec::Exec;

/// Different keys: 1·g to 16·g and their negatives, so that equal keys, opposite ones and equal sums
/// of different ones are everywhere.
const KEYS: usize = 32;
/// Positions of a committee at most.
const POSITIONS_MAX: usize = 160;
/// Columns at most: more than one group of sixteen.
const COLUMNS_MAX: usize = 20;

fn keys() -> &'static [G1Affine] {
    static POINTS: OnceLock<Vec<G1Affine>> = OnceLock::new();
    POINTS.get_or_init(|| {
        let mut points = vec![g1_generator()];
        while points.len() < KEYS / 2 {
            points.push(Fp::sum_naive(&[points[points.len() - 1], points[0]]));
        }
        let negatives: Vec<G1Affine> = points.iter().map(G1Affine::neg).collect();
        points.extend(negatives);
        points
    })
}

/// Bit i of the bytes; 0 beyond their end.
fn bit(bytes: &[u8], i: usize) -> bool {
    bytes
        .get(i / 8)
        .is_some_and(|byte| byte >> (i % 8) & 1 == 1)
}

/// Sums columns of bits over keys that collide; all methods on all kernels give the same keys.
///
/// Input: `positions u8 | columns u8 | key of each position u8 | bits of the columns`; what is missing
/// counts as zeros.
///
/// # Panics
///
/// If a method disagrees with additions one by one.
pub fn sum_methods(data: &[u8]) -> bool {
    let [positions, columns, rest @ ..] = data else {
        return false;
    };
    let positions = 1 + usize::from(*positions) % POSITIONS_MAX;
    let columns = 1 + usize::from(*columns) % COLUMNS_MAX;
    let key = |i: usize| keys()[usize::from(*rest.get(i).unwrap_or(&0)) % KEYS];
    let members: Vec<G1Affine> = (0..positions).map(key).collect();
    let bits = rest.get(positions..).unwrap_or_default();
    let words: Vec<Vec<u64>> = (0..columns)
        .map(|column| {
            let mut words = vec![0u64; positions.div_ceil(64)];
            for i in 0..positions {
                words[i / 64] |= u64::from(bit(bits, column * positions + i)) << (i % 64);
            }
            words
        })
        .collect();
    let planes: Vec<[&[u64]; 1]> = words.iter().map(|words| [words.as_slice()]).collect();
    let collections: Vec<Columns<'_>> = planes.iter().map(|planes| Columns { planes }).collect();
    let job = CommitteeJob {
        committee: 0,
        collections: &collections,
        bases: &[],
    };
    let mut expected: Option<Vec<G1Affine>> = None;
    for backend in alphorn_bls::KERNELS.available() {
        let table =
            KeyTable::new(backend, members.clone(), &[positions]).expect("no key is the identity");
        let mut workspace = Workspace::default();
        for method in Method::ALL.map(Some).into_iter().chain([None]) {
            let options = SumOptions {
                method,
                ..SumOptions::default()
            };
            let sums = sum_columns(&table, &[job], &options, &mut workspace, Exec::serial())
                .expect("the job fits its table");
            // The first method is one addition after the other.
            let expected = expected.get_or_insert_with(|| sums.keys.clone());
            assert_eq!(&sums.keys, expected, "{method:?} on {backend}");
        }
    }
    true
}

/// Sparse, dense and equal columns over keys that differ, are equal, and cancel.
pub(crate) fn sum_methods_seeds() -> Vec<Vec<u8>> {
    let seed = |positions: u8, columns: u8, key: fn(u8) -> u8, bits: fn(usize) -> u8| {
        let mut bytes = vec![positions - 1, columns - 1];
        bytes.extend((0..positions).map(key));
        let count = (usize::from(positions) * usize::from(columns)).div_ceil(8);
        bytes.extend((0..count).map(bits));
        bytes
    };
    vec![
        seed(1, 1, |_| 0, |_| 1),
        seed(64, 16, |i| i, |i| (i * 37 + 11) as u8),
        seed(130, 17, |i| i % 2 * 16, |i| (i * 151 + i / 7) as u8),
        seed(160, 20, |_| 3, |_| 0xff),
        seed(100, 9, |i| i / 3, |i| if i % 9 == 0 { 4 } else { 0 }),
    ]
}
