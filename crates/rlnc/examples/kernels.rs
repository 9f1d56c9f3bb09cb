//! The same broadcast on every kernel of this processor: `cargo run --release -p alphorn-rlnc --example
//! kernels -- 117800` for that many bytes.
//!
//! `alphorn bench broadcast` measures more, and curve25519-dalek in the same run.

use alphorn_rlnc::{
    Coding, Cut, Distribution, Generators, Id, KERNELS, PAYLOAD_BYTES_MAX, Ristretto, Subject,
    Weights,
};
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng;
use std::error::Error;
use std::time::Instant;

/// Source chunks.
const CHUNKS: u16 = 10;
/// Runs of each step, on all kernels in turn: the least time counts.
const RUNS: u64 = 40;
const STEPS: [&str; 5] = ["publish", "recode", "verify one", "verify all", "decode"];

fn main() -> Result<(), Box<dyn Error>> {
    let len: usize = std::env::args()
        .nth(1)
        .map_or(Ok(117_800), |text| text.parse())?;
    let payload: Vec<u8> = (0..len).map(|i| (i * 31 + i / 7) as u8).collect();
    let cut = Cut::rlnc(CHUNKS);
    let subject = Subject {
        kind: 1,
        slot: 7,
        source: 3,
        index: 0,
    };
    let elements = len.div_ceil(31 * usize::from(CHUNKS)).try_into()?;
    let codes = KERNELS.available().into_iter().map(|backend| {
        let generators = Generators::new(backend, elements);
        (backend, Ristretto::new(generators, PAYLOAD_BYTES_MAX))
    });
    let codes: Vec<_> = codes.collect();
    let mut least = vec![[f64::INFINITY; STEPS.len()]; codes.len()];
    for run in 0..RUNS {
        let mut expected = None;
        for ((_, code), least) in codes.iter().zip(&mut least) {
            let [publish, recode, verify_one, verify_all, decode] = least;
            let source = timed(publish, || code.publish(subject, &payload, cut))?;
            let (header, commitments) = (&source.header, &source.commitments[0]);
            let mut rng = ChaCha20Rng::seed_from_u64(run);
            let mut drawn = || code.draw(&source.decoder, 0, Distribution::Fresh, &mut rng);
            let first = drawn().ok_or("a source has all chunks")?;
            let pieces: Vec<_> = std::iter::from_fn(drawn).take(CHUNKS.into()).collect();
            let mut weights = Weights::new(&[0; 32], &Id([0; 32]), run);
            timed(verify_one, || {
                code.verify(header, commitments, &[first], &mut weights)
            });
            let verdicts = timed(verify_all, || {
                code.verify(header, commitments, &pieces, &mut weights)
            });
            assert!(verdicts.valid.iter().all(|valid| *valid), "all are valid");
            let mut decoder = code.decoder(header);
            for piece in pieces {
                code.accept(&mut decoder, piece);
            }
            timed(recode, || {
                code.draw(&decoder, 0, Distribution::Fresh, &mut rng)
            });
            // Rows of small coefficients may depend on one another: then nothing is decoded.
            let decoded = match code.is_full(&decoder) {
                true => Some(timed(decode, || code.decode(header, &decoder))?.0),
                false => None,
            };
            let found = (source.header, decoded);
            let expected = expected.get_or_insert_with(|| found.clone());
            assert!(*expected == found, "kernels differ");
        }
    }
    for (i, step) in STEPS.iter().enumerate() {
        print!("{step:12}");
        for ((backend, _), least) in codes.iter().zip(&least) {
            print!("{backend:>10} {:9.1} µs", least[i]);
        }
        println!();
    }
    Ok(())
}

/// Lowers `least` to the microseconds that the work takes.
fn timed<T>(least: &mut f64, work: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let out = work();
    *least = least.min(start.elapsed().as_secs_f64() * 1e6);
    out
}
