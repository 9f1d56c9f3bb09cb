//! Peers measured in the same run: curve25519-dalek on the same sums.

use super::{Peer, SEED, Shape, ristretto::BATCH};
use crate::timing::median_ns;
use alphorn_exec::Backend;
use alphorn_rlnc::{Generators, Mode, Row, Scalar};
use anyhow::{Context, Result, ensure};
use curve25519_dalek::ristretto::{
    CompressedRistretto, RistrettoPoint, VartimeRistrettoPrecomputation,
};
use curve25519_dalek::scalar::Scalar as DalekScalar;
use curve25519_dalek::traits::{VartimeMultiscalarMul, VartimePrecomputedMultiscalarMul};
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng;

/// Its variable-time multiscalar multiplication.
const PLAIN: &str = "dalek5_vartime";
/// The same over its precomputed tables, where points are fixed.
const TABLES: &str = "dalek5_precomputed";
/// Its scalar arithmetic.
const SCALARS: &str = "dalek5_scalars";

/// The same sums of points and scalars by curve25519-dalek, every step timed as a whole.
///
/// # Errors
/// If its commitments differ from ours: then the columns would not compare like with like.
pub(super) fn dalek(shape: &Shape) -> Result<Vec<Peer>> {
    let (chunks, elements) = (usize::from(shape.cut.chunks), shape.elements as usize);
    let points = generators(shape.elements)?;
    let mut rng = ChaCha20Rng::seed_from_u64(SEED);
    let mut scalars = |count: usize| -> Vec<DalekScalar> {
        (0..count)
            .map(|_| foreign(Scalar::random(&mut rng)))
            .collect()
    };
    let commitments: Vec<RistrettoPoint> = scalars(chunks)
        .iter()
        .map(RistrettoPoint::mul_base)
        .collect();
    let table = VartimeRistrettoPrecomputation::new(&points);
    let all: Vec<RistrettoPoint> = points.iter().chain(&commitments).copied().collect();
    let plain = |s: &[DalekScalar]| RistrettoPoint::vartime_multiscalar_mul(s, &points);
    let fixed = |s: &[DalekScalar]| table.vartime_multiscalar_mul(s);
    let mixed = |s: &[DalekScalar]| {
        table.vartime_mixed_multiscalar_mul(&s[..elements], &s[elements..], &commitments)
    };
    let all_chunks = chunks * usize::from(shape.cut.generations);
    let pieces: Vec<Vec<DalekScalar>> = (0..all_chunks).map(|_| scalars(elements)).collect();
    let rows: Vec<Vec<DalekScalar>> = (0..BATCH).map(|_| scalars(elements + chunks)).collect();
    let propose = |commit: &dyn Fn(&[DalekScalar]) -> RistrettoPoint| {
        let each = |()| -> Vec<RistrettoPoint> { pieces.iter().map(|row| commit(row)).collect() };
        median_ns(|| (), |()| each(()))
    };
    let (propose_plain, propose_fixed) = (propose(&plain), propose(&fixed));
    let one_plain = median_ns(
        || scalars(elements + chunks),
        |s| RistrettoPoint::vartime_multiscalar_mul(s, &all),
    );
    let one_fixed = median_ns(|| scalars(elements + chunks), |s| mixed(s));
    let batch = median_ns(
        || scalars(BATCH),
        |weights| mixed(&combined(weights, &rows)),
    );
    // Factors of the same size as ours.
    let factors = |full: Vec<DalekScalar>| match Mode::of(shape.cut.chunks, shape.elements) {
        Mode::Full => full,
        Mode::Small => full
            .iter()
            .map(|scalar| scalar.as_bytes()[0].into())
            .collect(),
    };
    let recode = median_ns(
        || factors(scalars(chunks)),
        |factors| combined(factors, &pieces),
    );
    // Decoding is the product of an inverse with the rows; computing the inverse is cheap by comparison.
    let decode = median_ns(
        || (0..chunks).map(|_| scalars(chunks)).collect::<Vec<_>>(),
        |inverse| -> Vec<Vec<DalekScalar>> {
            let generations = pieces.chunks(chunks);
            let row = |rows| inverse.iter().map(move |factors| combined(factors, rows));
            generations.flat_map(row).collect()
        },
    );
    Ok(vec![
        ("propose", PLAIN, propose_plain),
        ("propose", TABLES, propose_fixed),
        ("verify_single", PLAIN, one_plain),
        ("verify_single", TABLES, one_fixed),
        ("verify_batch_10", TABLES, batch / BATCH as f64),
        ("recode", SCALARS, recode),
        ("decode", SCALARS, decode),
    ])
}

/// Returns the combination of rows with these factors.
fn combined(factors: &[DalekScalar], rows: &[Vec<DalekScalar>]) -> Vec<DalekScalar> {
    let mut sum = vec![DalekScalar::ZERO; rows[0].len()];
    for (factor, row) in factors.iter().zip(rows) {
        for (sum, element) in sum.iter_mut().zip(row) {
            *sum += factor * element;
        }
    }
    sum
}

/// Returns our generators as dalek points, and checks that both commit alike.
fn generators(elements: u32) -> Result<Vec<RistrettoPoint>> {
    let ours = Generators::new(Backend::Portable, elements);
    let unit = |j: usize| {
        let mut row = Row::zero(elements as usize);
        row.set(j, Scalar::ONE);
        row
    };
    let units: Vec<Row> = (0..elements as usize).map(unit).collect();
    let mut points = Vec::with_capacity(units.len());
    for rows in units.chunks(64) {
        for encoded in ours.commit(&rows.iter().collect::<Vec<_>>()) {
            let point = CompressedRistretto(encoded).decompress();
            points.push(point.context("a commitment is no point")?);
        }
    }
    let mut rng = ChaCha20Rng::seed_from_u64(SEED ^ 1);
    let scalars: Vec<Scalar> = (0..elements).map(|_| Scalar::random(&mut rng)).collect();
    let theirs =
        RistrettoPoint::vartime_multiscalar_mul(scalars.iter().copied().map(foreign), &points);
    let commitment = ours.commit(&[&Row::from_scalars(&scalars)])[0];
    ensure!(
        theirs.compress().to_bytes() == commitment,
        "curve25519-dalek and this program commit differently"
    );
    Ok(points)
}

fn foreign(scalar: Scalar) -> DalekScalar {
    DalekScalar::from_bytes_mod_order(scalar.to_bytes())
}
