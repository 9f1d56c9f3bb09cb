use std::io::Write;

use super::*;
use crate::echelon::Echelon;
use crate::error::InvalidSource;
use crate::expand::generator;
use crate::header::{Header, Subject, payload_hash};
use crate::payload;
use curve25519_dalek::ristretto::{CompressedRistretto, RistrettoPoint};
use curve25519_dalek::scalar::Scalar as Dalek;
use curve25519_dalek::traits::VartimeMultiscalarMul;
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

const WINDOWS: [Window; 3] = [Window::Bits4, Window::Bits6, Window::Bits8];

/// Whether this processor has the instructions. If not, prints which test skips the kernel, directly so that passing
/// tests show it too: captured output would go unnoticed.
pub(crate) fn detected(set: InstructionSet) -> bool {
    let missing = KERNELS.parse(set.name()).err();
    if let Some(missing) = &missing {
        let test = std::thread::current();
        let test = test.name().unwrap_or("a test").to_owned();
        let told = writeln!(std::io::stderr(), "rlnc: {test} leaves out: {missing}");
        told.expect("standard error is open");
    }
    missing.is_none()
}

/// The kernels that this processor can run; see [`detected`] for the others.
pub(crate) fn kernels() -> Vec<Backend> {
    let sets = KERNELS.sets.iter().filter(|set| detected(**set));
    let wider = sets.filter_map(|set| set.detect());
    std::iter::once(Backend::Portable).chain(wider).collect()
}

#[test]
fn kernels_under_test_are_named() {
    let names: Vec<&str> = kernels().into_iter().map(Backend::name).collect();
    let told = writeln!(
        std::io::stderr(),
        "rlnc: kernels under test: {} of {}",
        names.join(", "),
        1 + KERNELS.sets.len(),
    );
    told.expect("standard error is open");
    assert_eq!(names[0], "portable");
    for set in KERNELS.sets {
        assert_eq!(names.contains(&set.name()), set.detect().is_some());
    }
}

fn random_row(len: usize, rng: &mut ChaCha20Rng) -> Row {
    Row::from_scalars(&(0..len).map(|_| Scalar::random(rng)).collect::<Vec<_>>())
}

fn dalek(x: Scalar) -> Dalek {
    Dalek::from_canonical_bytes(x.to_bytes()).unwrap()
}

/// Scalars at the ends of every range: digits of both signs and of maximum size, all limbs full.
fn edge_scalars() -> Vec<Scalar> {
    let top = -Scalar::ONE;
    let repeated = |byte: u8| {
        let mut bytes = [byte; 32];
        bytes[31] &= 0x0f;
        Scalar::from_canonical_bytes(&bytes).unwrap()
    };
    vec![
        Scalar::ZERO,
        Scalar::ONE,
        top,
        top - Scalar::ONE,
        Scalar::from(u64::MAX),
        Scalar::from(u128::MAX),
        repeated(0x80),
        repeated(0x7f),
        repeated(0xff),
        repeated(0x88),
        repeated(0x78),
    ]
}

#[test]
fn point_sums_agree_with_dalek() {
    let mut rng = ChaCha20Rng::seed_from_u64(4);
    let points: Vec<Point> = (0..20).map(generator).collect();
    let theirs: Vec<RistrettoPoint> = points
        .iter()
        .map(|p| {
            CompressedRistretto(p.vartime_encode())
                .decompress()
                .unwrap()
        })
        .collect();
    let mut rows: Vec<Row> = [0, 1, 2, 7, 8, 20]
        .map(|len| random_row(len, &mut rng))
        .to_vec();
    rows.push(Row::from_scalars(&edge_scalars()));
    rows.push(Row::zero(20));
    let rows: Vec<&Row> = rows.iter().collect();
    let kernels = kernels();
    for window in WINDOWS {
        let table = Table::new(window, &points);
        for &backend in &kernels {
            for (row, ours) in rows.iter().zip(backend.multiply(&table, &rows)) {
                let scalars: Vec<Dalek> = row.iter().map(dalek).collect();
                let expected =
                    RistrettoPoint::vartime_multiscalar_mul(&scalars, &theirs[..scalars.len()]);
                let expected = expected.compress().to_bytes();
                assert_eq!(
                    ours.vartime_encode(),
                    expected,
                    "{backend} {window:?} {}",
                    row.len()
                );
            }
        }
    }
}

/// Long sums, in which every accumulator performs hundreds of additions.
#[test]
fn long_point_sums_agree_with_the_oracle() {
    let mut rng = ChaCha20Rng::seed_from_u64(12);
    let points: Vec<Point> = (0..300).map(generator).collect();
    let mut rows: Vec<Row> = (0..5).map(|_| random_row(300, &mut rng)).collect();
    rows.extend(
        edge_scalars()
            .into_iter()
            .map(|x| Row::from_scalars(&[x; 299])),
    );
    let rows: Vec<&Row> = rows.iter().collect();
    let table = Table::new(Window::Bits8, &points);
    let encode = |backend: Backend| -> Vec<[u8; 32]> {
        backend
            .multiply(&table, &rows)
            .iter()
            .map(Point::vartime_encode)
            .collect()
    };
    let oracle = encode(Backend::Portable);
    for backend in kernels() {
        assert_eq!(encode(backend), oracle, "{backend}");
    }
}

/// Any number of lists, so that both pairs and single ones occur, and shifts that repeat.
#[test]
fn weighed_sums_agree_with_the_oracle() {
    let points: Vec<Point> = (0..12).map(generator).collect();
    for shifts in [&[0][..], &[9, 9, 4, 4, 4, 0], &[252, 131, 7], &[]] {
        for count in 0..5 {
            let list = |i: usize| points[i..].iter().take(shifts.len()).collect();
            let lists: Vec<Vec<&Point>> = (0..count).map(list).collect();
            let oracle = Backend::Portable.weigh(shifts, &lists);
            assert_eq!(oracle.len(), count);
            for backend in kernels() {
                for (ours, expected) in backend.weigh(shifts, &lists).iter().zip(&oracle) {
                    assert_eq!(ours.vartime_encode(), expected.vartime_encode());
                    assert!(ours.x.mul(ours.y).vartime_eq(ours.z.mul(ours.t)));
                }
            }
        }
    }
}

/// Sums over two tables, with equal or different window widths.
#[test]
fn sums_over_several_tables_are_those_over_each() {
    let mut rng = ChaCha20Rng::seed_from_u64(14);
    let points: Vec<Point> = (0..9).map(generator).collect();
    let rows = [random_row(9, &mut rng), random_row(5, &mut rng)];
    for (first, second) in WINDOWS.into_iter().zip(WINDOWS.into_iter().rev()) {
        let tables = [Table::new(first, &points), Table::new(second, &points[..5])];
        let parts = [(&tables[0], &rows[0]), (&tables[1], &rows[1])];
        let each = |(table, row): &(&Table, &Row)| Backend::Portable.multiply(table, &[row])[0];
        let expected = each(&parts[0]).add(&each(&parts[1])).vartime_encode();
        for backend in kernels() {
            assert_eq!(backend.multiply_all(&parts).vartime_encode(), expected);
        }
    }
}

/// Trap 20: accumulators at their bound, 64 rows of ℓ-1 times ℓ-1.
#[test]
fn trap_20_combinations_at_the_limb_bounds() {
    let mut rng = ChaCha20Rng::seed_from_u64(5);
    let top = -Scalar::ONE;
    let largest = Row::from_scalars(&[top; 17]);
    for backend in kernels() {
        for count in [1, 2, 10, 63, ROWS_MAX] {
            // (-1)·(-1) summed `count` times is `count`.
            let sum = backend.combine(&vec![top; count], &vec![&largest; count]);
            assert!(
                sum.iter().all(|x| x == Scalar::from(count as u64)),
                "{backend} {count}"
            );
        }
        let short = Short::GREATEST;
        for count in [1, 2, 10, 63, ROWS_MAX] {
            let sum = backend.combine_short(&vec![short; count], &vec![&largest; count]);
            let expected = -(Scalar::from(count as u64) * short.into());
            assert!(sum.iter().all(|x| x == expected), "{backend} {count}");
        }
        // Limbs of all ones, in rows and in factors.
        let edges = edge_scalars();
        let rows: Vec<Row> = edges.iter().map(|x| Row::from_scalars(&[*x; 9])).collect();
        let rows: Vec<&Row> = rows.iter().collect();
        for shift in 0..edges.len() {
            let mut factors = edges.clone();
            factors.rotate_left(shift);
            let expected: Dalek = factors
                .iter()
                .zip(&edges)
                .map(|(a, b)| dalek(*a) * dalek(*b))
                .sum();
            let sum = backend.combine(&factors, &rows);
            assert!(sum.iter().all(|x| dalek(x) == expected), "{backend}");
        }
        let zero = backend.combine(&[Scalar::random(&mut rng)], &[&Row::zero(5)]);
        assert!(zero.is_zero());
        assert!(backend.combine(&[], &[]).is_empty());
    }
}

/// Trap 20: the same for several results, which a kernel may compute from sums of rows and factors.
#[test]
fn trap_20_several_combinations_at_the_limb_bounds() {
    let top = -Scalar::ONE;
    let edges = edge_scalars();
    for backend in kernels() {
        for count in [0, 1, 2, 3, 10, 63, ROWS_MAX] {
            let rows = vec![Row::from_scalars(&[top; 9]); count];
            let rows: Vec<&Row> = rows.iter().collect();
            let factors = [top, Scalar::ONE, top, Scalar::ZERO, top].map(|x| vec![x; count]);
            let factors: Vec<&[Scalar]> = factors.iter().map(Vec::as_slice).collect();
            let mut out = vec![Row::zero(9); factors.len()];
            backend.combine_into(&factors, &rows, &mut out);
            let sum = Scalar::from(count as u64);
            for (row, expected) in out.iter().zip([sum, -sum, sum, Scalar::ZERO, sum]) {
                assert!(row.iter().all(|x| x == expected), "{backend} {count}");
            }
        }
        // Every edge with every other one, as factor, as element, and as the other row of a pair.
        let rotated = |by: usize| {
            let mut list = edges.clone();
            list.rotate_left(by);
            list
        };
        let lists: Vec<Vec<Scalar>> = (0..edges.len()).map(rotated).collect();
        let rows: Vec<Row> = lists.iter().map(|list| Row::from_scalars(list)).collect();
        let rows: Vec<&Row> = rows.iter().collect();
        let factors: Vec<&[Scalar]> = lists.iter().map(Vec::as_slice).collect();
        let mut out = vec![Row::zero(edges.len()); lists.len()];
        backend.combine_into(&factors, &rows, &mut out);
        for (row, factors) in out.iter().zip(&lists) {
            for (i, element) in row.iter().enumerate() {
                let products = factors.iter().zip(&lists);
                let expected: Dalek = products.map(|(f, list)| dalek(*f) * dalek(list[i])).sum();
                assert_eq!(dalek(element), expected, "{backend} {i}");
            }
        }
    }
}

/// Trap 20: all limbs at their maximum, of rows, and of factors after multiplication by the radix of a kernel.
#[test]
fn trap_20_limbs_of_ones() {
    let ones = edge_scalars()[8];
    assert_eq!(ones.0, [u64::MAX, u64::MAX, u64::MAX, u64::MAX >> 4]);
    let row = Row::from_scalars(&[ones; 9]);
    for radix in [256, 260, 306] {
        let power = (0..radix).fold(Scalar::ONE, |x, _| x + x);
        let factor = ones * power.vartime_invert();
        for count in [1, 2, 11, 63, ROWS_MAX] {
            let expected = Scalar::from(count as u64) * ones * factor;
            let (list, rows) = (vec![factor; count], vec![&row; count]);
            for (backend, results) in kernels().into_iter().flat_map(|k| [(k, 1), (k, 5)]) {
                let mut out = vec![Row::zero(9); results];
                backend.combine_into(&vec![list.as_slice(); results], &rows, &mut out);
                let mut elements = out.iter().flat_map(Row::iter);
                assert!(elements.all(|x| x == expected), "{backend} {radix} {count}");
            }
        }
    }
}

/// Payloads that end in zeros, cut into any number of chunks of any length: few elements, many, and so many that all
/// results are found together. Blocks of the hash extend from one generation into the next.
#[test]
fn joined_results_are_the_payload() {
    let mut rng = ChaCha20Rng::seed_from_u64(16);
    let subject = Subject {
        kind: 1,
        slot: 7,
        source: 3,
        index: 0,
    };
    for (chunks, generations, elements) in [
        (2, 1, 9),
        (4, 3, 1),
        (4, 1, 40),
        (5, 2, 33),
        (9, 1, 12),
        (10, 1, 380),
        (11, 2, 21),
        (17, 1, 20),
        (64, 1, 220),
    ] {
        let mut payload = vec![0; 31 * (chunks * generations * elements - 1) + 1];
        let end = payload.len() * 3 / 4;
        rng.fill_bytes(&mut payload[..end]);
        let (cut, parts) = (chunks as u16, generations as u16);
        let mut header = Header::rlnc(subject, payload.len(), cut, parts, 1 << 20).unwrap();
        assert_eq!(header.unit as usize, elements);
        header.payload_hash = payload_hash(&payload);
        let honest = payload::split(&header, &payload);
        let mut wide = honest.clone();
        let last = (generations - 1, chunks - 1, elements - 1);
        wide[last.0][last.1].set(last.2, Scalar([0, 0, 0, 1 << 56]));
        let element = InvalidSource::Element {
            chunk: last.0 * chunks + last.1,
            element: last.2,
        };
        for (source, expected) in [(honest, Ok(payload)), (wide, Err(element))] {
            let mut received: Vec<Vec<Row>> = Vec::new();
            let mut inverses = Vec::new();
            for rows in &source {
                let mut echelon = Echelon::new(Backend::Portable, chunks);
                let rows: Vec<&Row> = rows.iter().collect();
                received.push(Vec::new());
                while !echelon.is_full() {
                    let row = random_row(chunks, &mut rng);
                    if echelon.insert(&row) {
                        let factors: Vec<Scalar> = row.iter().collect();
                        let rows_of_it = received.last_mut().unwrap();
                        rows_of_it.push(Backend::Portable.combine(&factors, &rows));
                    }
                }
                inverses.push(echelon.inverse().unwrap());
            }
            for backend in kernels() {
                let mut joiner = Joiner::new(&header);
                let mut found = Vec::new();
                for (rows, inverse) in received.iter().zip(&inverses) {
                    let rows: Vec<&Row> = rows.iter().collect();
                    let factors: Vec<&[Scalar]> = inverse.iter().map(Vec::as_slice).collect();
                    let mut out = vec![Row::zero(elements); chunks];
                    backend.combine_and_join(&factors, &rows, &mut out, Some(&mut joiner));
                    found.push(out);
                }
                assert_eq!(found, source, "{backend} {chunks} chunks of {elements}");
                let joined = joiner.finish(&header, found.iter().flatten());
                assert_eq!(joined, expected, "{backend} {chunks} chunks of {elements}");
            }
        }
    }
}

#[test]
#[should_panic(expected = "overflow the accumulators")]
fn trap_20_more_rows_than_the_bound_are_refused() {
    let row = Row::zero(1);
    Backend::Portable.combine(&[Scalar::ONE; ROWS_MAX + 1], &[&row; ROWS_MAX + 1]);
}

/// 10^5 random elements: every backend against the portable oracle, and that against dalek.
#[test]
fn combinations_agree_with_the_oracle() {
    let mut rng = ChaCha20Rng::seed_from_u64(6);
    let kernels = kernels();
    for (count, len, outputs) in [
        (1, 1, 1),
        (3, 8, 2),
        (10, 380, 10),
        (64, 1000, 2),
        (5, 30, 64),
        (64, 40, 4),
        (1, 9, 5),
    ] {
        let rows: Vec<Row> = (0..count).map(|_| random_row(len, &mut rng)).collect();
        let rows: Vec<&Row> = rows.iter().collect();
        let factors: Vec<Vec<Scalar>> = (0..outputs)
            .map(|_| (0..count).map(|_| Scalar::random(&mut rng)).collect())
            .collect();
        let factors: Vec<&[Scalar]> = factors.iter().map(Vec::as_slice).collect();
        let mut oracle = vec![Row::zero(len); outputs];
        Backend::Portable.combine_into(&factors, &rows, &mut oracle);
        for element in [0, len / 2, len - 1] {
            let products = rows.iter().zip(factors[0]);
            let expected: Dalek = products
                .map(|(row, f)| dalek(row.get(element)) * dalek(*f))
                .sum();
            assert_eq!(dalek(oracle[0].get(element)), expected);
        }
        for &backend in &kernels {
            let mut out = vec![Row::zero(len); outputs];
            backend.combine_into(&factors, &rows, &mut out);
            assert_eq!(out, oracle, "{backend} {count} rows of {len}");
        }
    }
}

/// A relay's combinations, of rows that may be longer than the first one.
#[test]
fn short_combinations_agree_with_the_oracle() {
    let mut rng = ChaCha20Rng::seed_from_u64(17);
    for (count, len) in [(1, 1), (3, 8), (10, 380), (64, 100), (2, 13)] {
        let rows: Vec<Row> = (0..count)
            .map(|i| random_row(len + i % 2, &mut rng))
            .collect();
        let rows: Vec<&Row> = rows.iter().collect();
        let short: Vec<Short> = (0..count).map(|_| Short::random(&mut rng)).collect();
        let factors: Vec<Scalar> = short.iter().map(|&short| short.into()).collect();
        let oracle = Backend::Portable.combine(&factors, &rows);
        for backend in kernels() {
            let sum = backend.combine_short(&short, &rows);
            assert_eq!(sum, oracle, "{backend} {count} rows of {len}");
        }
    }
    for backend in kernels() {
        assert!(backend.combine_short(&[], &[]).is_empty());
    }
}
