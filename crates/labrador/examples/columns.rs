//! Proves that secret pairs of short polynomials satisfy public relations and that none is longer than the longest:
//! `cargo run --release -p alphorn-labrador --example columns -- 100` for 100 pairs.

use std::error::Error;

use alphorn_exec::Exec;
use alphorn_labrador::ring::{Small, norm_sq};
use alphorn_labrador::schedule::Projections;
use alphorn_labrador::sis::Profile;
use alphorn_labrador::{Columns, Relation, System};

/// Polynomials are of `Z[X]/(X^64 + 1)`.
const DEGREE: usize = 64;

const MODULUS: i64 = 12_289;

/// `s1 + h s2` modulo `X^64 + 1` and the modulus, centred.
fn target(h: &[i16], s1: &Small, s2: &Small) -> Vec<i16> {
    let mut sums: [i64; DEGREE] = s1.0.map(i64::from);
    for (i, &h) in h.iter().enumerate() {
        for (j, &s) in s2.0.iter().enumerate() {
            let product = i64::from(h) * i64::from(s);
            // X^64 = -1.
            let sign = if i + j < DEGREE { 1 } else { -1 };
            sums[(i + j) % DEGREE] += sign * product;
        }
    }
    let half = MODULUS / 2;
    let centred = |x: i64| ((x + half).rem_euclid(MODULUS) - half) as i16;
    sums.map(centred).to_vec()
}

fn main() -> Result<(), Box<dyn Error>> {
    let columns: usize = std::env::args()
        .nth(1)
        .map_or(Ok(100), |text| text.parse())?;
    let number = |i: usize, range: usize| (i * i * 31 + i * 7) % range;
    let element = |e: usize| Small(std::array::from_fn(|k| number(e + k, 101) as i16 - 50));
    let witness: Vec<Small> = (0..2 * columns).map(element).collect();

    // What is public: a polynomial h for each pair, what s1 + h s2 is, and how long a pair may be.
    let coefficient = |i: usize| number(i, MODULUS as usize) as i16 - (MODULUS / 2) as i16;
    let factors: Vec<i16> = (0..columns * DEGREE).map(coefficient).collect();
    let factors: Vec<&[i16]> = factors.chunks_exact(DEGREE).collect();
    let pairs = witness.chunks_exact(2);
    let targets: Vec<Vec<i16>> = (factors.iter().zip(pairs.clone()))
        .map(|(h, pair)| target(h, &pair[0], &pair[1]))
        .collect();
    let targets: Vec<&[i16]> = targets.iter().map(|c| &c[..]).collect();
    let longest = pairs.map(norm_sq).max().ok_or("no pairs")?;

    // The context names the polynomials; a caller with many takes a digest of them.
    let polynomials = factors.iter().chain(&targets).copied().flatten();
    let context: Vec<u8> = polynomials.flat_map(|c| c.to_le_bytes()).collect();
    let relation = Relation::new(DEGREE, MODULUS as u64, factors, targets, Exec::serial())?;
    let smallest = Projections::SMALLEST;
    let statement = |bound| {
        Columns::new(
            bound,
            Profile::Core128,
            smallest,
            &relation,
            context.clone(),
        )
    };
    let longest = u64::try_from(longest)?;
    let truth = statement(longest)?;
    let system = System::new(&truth.bounds())?;
    let proof = system.prove(&truth, &witness)?;
    system.verify(&truth, &proof)?;
    println!(
        "{columns} pairs, norm² <= {longest} each: proven in {} bytes",
        proof.len()
    );

    let shorter = statement(longest - 1)?;
    let system = System::new(&shorter.bounds())?;
    match system.prove(&shorter, &witness) {
        Ok(_) => return Err("a false statement was proven".into()),
        Err(error) => println!("norm² <= {}: {error}", longest - 1),
    }
    match system.verify(&shorter, &proof) {
        Ok(()) => Err("a false statement was accepted".into()),
        Err(reject) => {
            println!("the proof of the true one: {reject}");
            Ok(())
        }
    }
}
