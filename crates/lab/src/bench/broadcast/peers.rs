//! What others do: curve25519-dalek on the same sums, published figures.

use super::clock::{Times, measure};
use super::{Shape, ristretto::BATCH};
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

/// Measured or published time of a peer.
#[derive(Clone, Debug)]
pub(super) struct Baseline {
    pub(super) op: &'static str,
    pub(super) name: &'static str,
    pub(super) median_ns: f64,
    pub(super) least_ns: f64,
    pub(super) kind: &'static str,
}

impl Baseline {
    fn measured(op: &'static str, name: &'static str, times: Times) -> Baseline {
        Baseline {
            op,
            name,
            median_ns: times.median_ns,
            least_ns: times.least_ns,
            kind: "measured",
        }
    }
}

/// The proof of concept behind the proposal (potuz/rlnc_poc, with curve25519-dalek 4.1.3), 10 chunks
/// of 380 elements on one thread of a Zen 5: nanoseconds. Not measured in this run.
const PROOF_OF_CONCEPT: [(&str, f64); 6] = [
    ("propose", 26_500_000.0),
    ("verify_single", 2_810_000.0),
    ("verify_batch_10", 2_810_000.0),
    ("recode", 332_000.0),
    ("decode", 3_540_000.0),
    ("receive_all", 31_000_000.0),
];

/// What the proof of concept takes, for the one shape that it was measured with.
pub(super) fn proof_of_concept(shape: &Shape) -> Vec<Baseline> {
    if (shape.cut.chunks, shape.elements) != (10, 380) {
        return Vec::new();
    }
    let cited = |(op, ns)| Baseline {
        op,
        name: "rlnc_poc",
        median_ns: ns,
        least_ns: ns,
        kind: "cited",
    };
    PROOF_OF_CONCEPT.map(cited).to_vec()
}

/// The same sums of points and scalars by curve25519-dalek, every operation timed as a whole: by its
/// multiscalar multiplication in variable time, and over its precomputed tables where points are fixed.
///
/// # Errors
/// If its commitments differ from ours: then the columns would not compare like with like.
pub(super) fn dalek(shape: &Shape, seed: u64) -> Result<Vec<Baseline>> {
    let (chunks, elements) = (usize::from(shape.cut.chunks), shape.elements as usize);
    let points = generators(shape.elements, seed)?;
    let mut rng = ChaCha20Rng::seed_from_u64(seed);
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
    let pieces: Vec<Vec<DalekScalar>> = (0..shape.pieces()).map(|_| scalars(elements)).collect();
    let rows: Vec<Vec<DalekScalar>> = (0..BATCH).map(|_| scalars(elements + chunks)).collect();
    let (vartime, precomputed) = ("dalek5_vartime", "dalek5_precomputed");

    let propose = |commit: &dyn Fn(&[DalekScalar]) -> RistrettoPoint| {
        measure(
            || (),
            |()| -> Vec<RistrettoPoint> { pieces.iter().map(|row| commit(row)).collect() },
        )
    };
    let propose = [
        Baseline::measured("propose", vartime, propose(&plain)),
        Baseline::measured("propose", precomputed, propose(&fixed)),
    ];
    let commit_one = [
        Baseline::measured(
            "commit_one",
            vartime,
            measure(|| scalars(elements), |s| plain(s)),
        ),
        Baseline::measured(
            "commit_one",
            precomputed,
            measure(|| scalars(elements), |s| fixed(s)),
        ),
    ];
    let verify = [
        Baseline::measured(
            "verify_single",
            vartime,
            measure(
                || scalars(elements + chunks),
                |s| RistrettoPoint::vartime_multiscalar_mul(s, &all),
            ),
        ),
        Baseline::measured(
            "verify_single",
            precomputed,
            measure(|| scalars(elements + chunks), |s| mixed(s)),
        ),
    ];
    let batch = measure(
        || scalars(BATCH),
        |weights| mixed(&combined(weights, &rows)),
    );
    // Factors of the size that ours have.
    let factors = |full: Vec<DalekScalar>| match Mode::of(shape.cut.chunks, shape.elements) {
        Mode::Full => full,
        Mode::Small => full
            .iter()
            .map(|scalar| scalar.as_bytes()[0].into())
            .collect(),
    };
    let recode = measure(
        || factors(scalars(chunks)),
        |factors| combined(factors, &pieces),
    );
    // Decoding is the product of an inverse with the rows; the inverse itself is small beside it.
    let decode = measure(
        || (0..chunks).map(|_| scalars(chunks)).collect::<Vec<_>>(),
        |inverse| -> Vec<Vec<DalekScalar>> {
            let generations = pieces.chunks(chunks);
            let row = |rows| inverse.iter().map(move |factors| combined(factors, rows));
            generations.flat_map(row).collect()
        },
    );
    let each = batch.scaled(1.0 / BATCH as f64);
    Ok([propose, commit_one, verify]
        .concat()
        .into_iter()
        .chain([
            Baseline::measured("verify_batch_10", precomputed, each),
            Baseline::measured("recode", "dalek5_scalars", recode),
            Baseline::measured("decode", "dalek5_scalars", decode),
        ])
        .collect())
}

/// The combination of rows with these factors.
fn combined(factors: &[DalekScalar], rows: &[Vec<DalekScalar>]) -> Vec<DalekScalar> {
    let mut sum = vec![DalekScalar::ZERO; rows[0].len()];
    for (factor, row) in factors.iter().zip(rows) {
        for (sum, element) in sum.iter_mut().zip(row) {
            *sum += factor * element;
        }
    }
    sum
}

/// Our generators as points of dalek, and a check that both commit alike.
fn generators(elements: u32, seed: u64) -> Result<Vec<RistrettoPoint>> {
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
    let mut rng = ChaCha20Rng::seed_from_u64(seed ^ 1);
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
