use super::*;
use crate::kernel::Dispatch;
use crate::known;
use crate::point::tests::four_torsion;
use proptest::prelude::*;

const ELEMENTS: u32 = 4;
const CHUNKS: usize = 3;

fn generators() -> Generators {
    Generators::new(Backend::Portable, ELEMENTS)
}

fn weights(counter: u64) -> Weights {
    Weights::new(&[7; 32], &Id([1; 32]), counter)
}

fn source(seed: u64) -> Vec<Row> {
    let mut rng = ChaCha20Rng::seed_from_u64(seed);
    let row = |_| {
        (0..ELEMENTS)
            .map(|_| Scalar::random(&mut rng))
            .collect::<Vec<_>>()
    };
    (0..CHUNKS)
        .map(row)
        .map(|scalars| Row::from_scalars(&scalars))
        .collect()
}

fn commit(generators: &Generators, rows: &[Row]) -> CommitmentTable {
    let encoded = generators.commit(&rows.iter().collect::<Vec<_>>());
    CommitmentTable::decode(encoded.as_flattened(), rows.len() as u16).unwrap()
}

fn combine(rows: &[Row], factors: &[Scalar]) -> Chunk {
    Chunk {
        generation: 0,
        hop: 1,
        sender_rank: 1,
        coefficients: Row::from_scalars(factors),
        data: Backend::Portable.combine(factors, &rows.iter().collect::<Vec<_>>()),
    }
}

fn random_chunk(rows: &[Row], rng: &mut ChaCha20Rng) -> Chunk {
    let factors: Vec<Scalar> = rows.iter().map(|_| Scalar::random(rng)).collect();
    combine(rows, &factors)
}

fn shift(chunk: &mut Chunk, element: usize, by: Scalar) {
    let value = chunk.data.get(element) + by;
    chunk.data.set(element, value);
}

#[test]
fn commitments_are_the_known_answers() {
    let generators = generators();
    let v = Row::from_payload(&known::counting_payload()[..124], 4);
    let largest = Row::from_payload(&[0xff; 124], 4);
    let three = Scalar::from(3_u64);
    let difference = Backend::Portable.combine(&[three, -Scalar::ONE], &[&v, &largest]);
    let second = Row::from_payload(&known::counting_payload()[124..], 4);
    let found = generators.commit(&[&v, &second, &largest, &difference]);
    assert_eq!(found[0], known::hash("commitment_0"));
    assert_eq!(found[1], known::hash("commitment_1"));
    assert_eq!(found[2], known::hash("commitment_largest"));
    assert_eq!(found[3], known::hash("commitment_3v_less_largest"));
}

#[test]
fn both_table_widths_commit_alike() {
    let mut rng = ChaCha20Rng::seed_from_u64(11);
    let points: Vec<Point> = (0..ELEMENTS_WIDE_MAX as u32 + 3)
        .map(|j| generator(j % 7))
        .collect();
    let [narrow, wide] = [&points[..], &points[..7]]
        .map(|points| Generators::from_points(Backend::Portable, points));
    let scalars: Vec<Scalar> = points.iter().map(|_| Scalar::random(&mut rng)).collect();
    let long = Row::from_scalars(&scalars);
    let mut folded = [Scalar::ZERO; 7];
    for (j, scalar) in scalars.iter().enumerate() {
        folded[j % 7] = folded[j % 7] + *scalar;
    }
    let short = Row::from_scalars(&folded);
    assert_eq!(narrow.table.window, Window::Bits6);
    assert_eq!(wide.table.window, Window::Bits8);
    assert_eq!(narrow.commit(&[&long]), wide.commit(&[&short]));
}

#[test]
fn valid_chunks_pass_alone_and_together() {
    let (generators, rows) = (generators(), source(1));
    let commitments = commit(&generators, &rows);
    let mut rng = ChaCha20Rng::seed_from_u64(2);
    let chunks: Vec<Chunk> = (0..VERIFY_BATCH_MAX)
        .map(|_| random_chunk(&rows, &mut rng))
        .collect();
    let chunks: Vec<&Chunk> = chunks.iter().collect();
    for count in [0, 1, 2, 10, VERIFY_BATCH_MAX] {
        let verdicts = generators.verify(&commitments, &chunks[..count], &mut weights(0));
        assert!(verdicts.valid.iter().all(|&valid| valid));
        assert_eq!((verdicts.valid.len(), verdicts.sums), (count, count.min(1)));
    }
}

/// Trap 1: against generators k_j·B with known k_j, the chunk w + (k_2, -k_1) has the commitment of w. The same shift
/// fails here, where no such relation is known.
#[test]
fn trap_01_generators_with_known_logarithms_bind_nothing() {
    let base = generator(0);
    let logs: Vec<u64> = vec![5, 9, 11, 2];
    let multiple = |k: u64| (0..k).fold(Point::IDENTITY, |sum, _| sum.add(&base));
    let affine = |p: Point| Point::vartime_decode(&p.vartime_encode()).unwrap();
    let points: Vec<Point> = logs.iter().map(|&k| affine(multiple(k))).collect();
    let broken = Generators::from_points(Backend::Portable, &points);
    let rows = source(3);
    let mut forged = combine(&rows, &[Scalar::ONE; CHUNKS]);
    shift(&mut forged, 0, Scalar::from(logs[1]));
    shift(&mut forged, 1, -Scalar::from(logs[0]));
    for (generators, accepted) in [(&broken, true), (&generators(), false)] {
        let commitments = commit(generators, &rows);
        let verdicts = generators.verify(&commitments, &[&forged], &mut weights(0));
        assert_eq!(verdicts.valid, [accepted]);
    }
}

/// Trap 7: replacing the representative of a commitment by another of its coset changes no verdict.
#[test]
fn trap_07_cosets_decide_not_coordinates() {
    let (generators, rows) = (generators(), source(4));
    let honest = commit(&generators, &rows);
    let mut rng = ChaCha20Rng::seed_from_u64(5);
    let good = random_chunk(&rows, &mut rng);
    let mut bad = good.clone();
    shift(&mut bad, 2, Scalar::ONE);
    for torsion in four_torsion() {
        let moved = |encoding: &[u8; 32]| {
            let point = Point::vartime_decode(encoding).unwrap().add(&torsion);
            point.neg()
        };
        let points: Vec<Point> = honest.encoded().iter().map(moved).collect();
        let negated = Arc::new(Table::new(Window::Bits4, &points));
        let commitments = CommitmentTable {
            encoded: honest.encoded.clone(),
            negated,
        };
        let verdicts = generators.verify(&commitments, &[&good], &mut weights(0));
        assert_eq!(verdicts.valid, [true]);
        let verdicts = generators.verify(&commitments, &[&bad, &good], &mut weights(0));
        assert_eq!(verdicts.valid, [false, true]);
    }
}

/// Trap 8: errors that cancel in a plain sum are found. With equal weights they are not, which shows that the test can
/// detect them.
#[test]
fn trap_08_weights_must_be_random() {
    let (generators, rows) = (generators(), source(6));
    let commitments = commit(&generators, &rows);
    let mut rng = ChaCha20Rng::seed_from_u64(7);
    let (mut first, mut second) = (random_chunk(&rows, &mut rng), random_chunk(&rows, &mut rng));
    let delta = Scalar::random(&mut rng);
    shift(&mut first, 1, delta);
    shift(&mut second, 1, -delta);
    let chunks = [&first, &second];
    let verdicts = generators.verify(&commitments, &chunks, &mut weights(0));
    assert_eq!(verdicts.valid, [false, false]);
    let fooled = generators.verify(&commitments, &chunks, &mut Weights::equal());
    assert_eq!(fooled.valid, [true, true]);
}

#[test]
fn weights_depend_on_secret_broadcast_and_counter() {
    let draw =
        |secret: u8, id: u8, counter| Weights::new(&[secret; 32], &Id([id; 32]), counter).draw();
    let first = draw(1, 1, 0);
    assert_eq!(first, draw(1, 1, 0));
    assert!(
        [draw(2, 1, 0), draw(1, 2, 0), draw(1, 1, 1)]
            .iter()
            .all(|other| *other != first)
    );
    assert_eq!(first.0[2..], [0, 0]);
}

/// Trap 9: bisecting gives each chunk the same verdict as checking it alone, for every subset of bad ones, and is never
/// more expensive than single checks.
#[test]
fn trap_09_bisecting_blames_exactly_the_bad() {
    let (generators, rows) = (generators(), source(8));
    let commitments = commit(&generators, &rows);
    let mut rng = ChaCha20Rng::seed_from_u64(9);
    for count in [1, 2, 3, 10] {
        let good: Vec<Chunk> = (0..count).map(|_| random_chunk(&rows, &mut rng)).collect();
        for subset in 0_u32..1 << count {
            let mut chunks = good.clone();
            for (i, chunk) in chunks
                .iter_mut()
                .enumerate()
                .filter(|(i, _)| subset >> i & 1 == 1)
            {
                shift(chunk, i % 4, Scalar::from(1 + i as u64));
            }
            let chunks: Vec<&Chunk> = chunks.iter().collect();
            let verdicts = generators.verify(&commitments, &chunks, &mut weights(subset.into()));
            let expected: Vec<bool> = (0..count).map(|i| subset >> i & 1 == 0).collect();
            assert_eq!(verdicts.valid, expected);
            assert!(
                verdicts.sums <= count,
                "{} sums for {count} chunks",
                verdicts.sums
            );
        }
    }
}

#[test]
fn one_bad_chunk_costs_a_logarithm_of_sums() {
    let (generators, rows) = (generators(), source(10));
    let commitments = commit(&generators, &rows);
    let mut rng = ChaCha20Rng::seed_from_u64(11);
    for bad in 0..10 {
        let mut chunks: Vec<Chunk> = (0..10).map(|_| random_chunk(&rows, &mut rng)).collect();
        shift(&mut chunks[bad], 3, Scalar::ONE);
        let chunks: Vec<&Chunk> = chunks.iter().collect();
        let verdicts = generators.verify(&commitments, &chunks, &mut weights(bad as u64));
        assert!((0..10).all(|i| verdicts.valid[i] == (i != bad)));
        assert!(verdicts.sums <= 5, "1 + ceil(log2 10)");
    }
}

/// Trap 4: commitments with the high bit set, with odd s, and not on the curve.
#[test]
fn trap_04_commitments_must_be_canonical() {
    let good = generator(0).vartime_encode();
    let mut high_bit = good;
    high_bit[31] |= 0x80;
    let mut odd = good;
    odd[0] |= 1;
    for (bad, encoding) in [high_bit, odd, [0xff; 32]].into_iter().enumerate() {
        let bytes = [good, good, encoding].concat();
        let error = CommitmentTable::decode(&bytes, 3).unwrap_err();
        assert_eq!(
            error,
            PieceError::NonCanonicalPoint { index: 2 },
            "case {bad}"
        );
    }
    assert_eq!(
        CommitmentTable::decode(&good, 2).unwrap_err(),
        PieceError::Length {
            found: 32,
            expected: 64
        }
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn verdicts_of_a_batch_are_those_of_singles(
        seed in any::<u64>(),
        bad in proptest::collection::vec(any::<bool>(), 1..16),
    ) {
        let (generators, rows) = (generators(), source(seed));
        let commitments = commit(&generators, &rows);
        let mut rng = ChaCha20Rng::seed_from_u64(seed);
        let chunks: Vec<Chunk> = bad.iter().map(|&bad| {
            let mut chunk = random_chunk(&rows, &mut rng);
            if bad {
                let mut coefficient = chunk.coefficients.get(0);
                coefficient = coefficient + Scalar::ONE;
                chunk.coefficients.set(0, coefficient);
            }
            chunk
        }).collect();
        let chunks: Vec<&Chunk> = chunks.iter().collect();
        let batch = generators.verify(&commitments, &chunks, &mut weights(seed)).valid;
        for (i, chunk) in chunks.iter().enumerate() {
            let single = generators.verify(&commitments, &[chunk], &mut weights(seed)).valid;
            prop_assert_eq!(single[0], batch[i]);
            prop_assert_eq!(batch[i], !bad[i]);
        }
    }
}
