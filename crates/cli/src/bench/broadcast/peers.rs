//! What others do: curve25519-dalek on the same sums, codes without authentication, published figures.

use super::clock::{Times, measure};
use super::{Shape, ristretto::BATCH};
use alphorn_rlnc::{Backend, Generators, Row, Scalar};
use anyhow::{Context, Result, ensure};
use curve25519_dalek::ristretto::{
    CompressedRistretto, RistrettoPoint, VartimeRistrettoPrecomputation,
};
use curve25519_dalek::scalar::Scalar as DalekScalar;
use curve25519_dalek::traits::{MultiscalarMul, VartimePrecomputedMultiscalarMul};
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng;
use rand_old::SeedableRng as _;
use rand_old::rngs::StdRng;

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

/// The same sums of points and scalars by plain calls of curve25519-dalek.
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

    let plain = measure(
        || scalars(elements),
        |s| RistrettoPoint::multiscalar_mul(s, &points),
    );
    let with_table = measure(|| scalars(elements), |s| table.vartime_multiscalar_mul(s));
    let verify_plain = measure(
        || scalars(elements + chunks),
        |s| RistrettoPoint::multiscalar_mul(s, &all),
    );
    let verify_table = measure(
        || scalars(elements + chunks),
        |s| table.vartime_mixed_multiscalar_mul(&s[..elements], &s[elements..], &commitments),
    );
    let rows: Vec<Vec<DalekScalar>> = (0..chunks).map(|_| scalars(elements)).collect();
    let combine = |factors: &Vec<DalekScalar>| -> Vec<DalekScalar> {
        let element = |j| factors.iter().zip(&rows).map(|(f, row)| f * row[j]).sum();
        (0..elements).map(element).collect()
    };
    let recode = measure(|| scalars(chunks), combine);

    let each = |op, plain: Times, table: Times| {
        [
            Baseline::measured(op, "dalek5_plain", plain),
            Baseline::measured(op, "dalek5_precomputed", table),
        ]
    };
    let proposals = shape.pieces() as f64;
    // A batch of chunks by dalek: the weighted rows (as costly as so many recodings of one row each,
    // together one recoding of all), then one sum.
    let weighed = recode.scaled(BATCH as f64 / chunks as f64);
    let batch = verify_table.plus(weighed).scaled(1.0 / BATCH as f64);
    let decode = recode.scaled(proposals);
    Ok([
        each(
            "propose",
            plain.scaled(proposals),
            with_table.scaled(proposals),
        ),
        each("commit_one", plain, with_table),
        each("verify_single", verify_plain, verify_table),
        each("verify_batch_10", verify_plain, batch),
    ]
    .concat()
    .into_iter()
    .chain([
        Baseline::measured("recode", "dalek5_scalars", recode),
        Baseline::measured("decode", "dalek5_scalars", decode),
    ])
    .collect())
}

/// Our generators as points of dalek, and a check that both commit alike.
fn generators(elements: u32, seed: u64) -> Result<Vec<RistrettoPoint>> {
    let ours = Generators::new(Backend::portable(), elements);
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
    let theirs = RistrettoPoint::multiscalar_mul(scalars.iter().copied().map(foreign), &points);
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

/// The public crate `rlnc` over GF(2^8): the same coding, but no chunk can be verified.
pub(super) fn gf256(shape: &Shape, seed: u64) -> Result<Vec<Baseline>> {
    use rlnc_gf256::full::{Decoder, Encoder, Recoder};
    let name = "rlnc_gf256_unauthenticated";
    let pieces = shape.pieces();
    let payload = vec![7; shape.payload_bytes];
    let encoder = Encoder::new(payload.clone(), pieces).context("rlnc 0.8.7")?;
    let mut rng = StdRng::seed_from_u64(seed);
    let mut buffer = vec![0; encoder.get_full_coded_piece_byte_len()];
    let encode = measure(
        || (),
        |()| encoder.code_with_buf(&mut rng, &mut buffer).is_ok(),
    );
    let coded: Vec<u8> = (0..pieces).flat_map(|_| encoder.code(&mut rng)).collect();
    let mut recoder = Recoder::new(coded, encoder.get_full_coded_piece_byte_len(), pieces)
        .context("rlnc 0.8.7")?;
    let recode = measure(
        || (),
        |()| recoder.recode_with_buf(&mut rng, &mut buffer).is_ok(),
    );
    let decoded = |pieces: &Vec<Vec<u8>>| {
        let mut decoder = Decoder::new(encoder.get_piece_byte_len(), shape.pieces()).ok()?;
        for piece in pieces {
            // A dependent piece is an error of this crate; there are pieces to spare.
            if decoder.decode(piece).is_err() && decoder.is_already_decoded() {
                break;
            }
        }
        decoder.get_decoded_data().ok()
    };
    let mut draw = || -> Vec<Vec<u8>> { (0..2 * pieces).map(|_| encoder.code(&mut rng)).collect() };
    ensure!(
        decoded(&draw()) == Some(payload),
        "rlnc 0.8.7 decodes another payload"
    );
    let receive = measure(draw, decoded);
    Ok(vec![
        Baseline::measured("commit_one", name, encode),
        Baseline::measured("recode", name, recode),
        Baseline::measured("receive_all", name, receive),
    ])
}
