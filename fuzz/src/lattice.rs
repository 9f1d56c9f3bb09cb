//! The proofs of `alphorn-labrador`.

use std::sync::OnceLock;

use alphorn_labrador::ring::{DEGREE, Small};
use alphorn_labrador::schedule::Projections;
use alphorn_labrador::sis::Profile;
use alphorn_labrador::{Columns, HEADER_BYTES, Relation, System, Targets};

const MODULUS: i64 = 12_289;

/// Those of most proofs of few signatures.
const PROJECTIONS: Projections = Projections {
    block_levels: 0,
    parts: 2,
};

/// Two columns under a relation, and the proof of an honest prover.
struct World {
    statement: Columns<'static>,
    system: System,
    proof: Vec<u8>,
}

fn centred(x: i64) -> i16 {
    let half = MODULUS / 2;
    ((x + half).rem_euclid(MODULUS) - half) as i16
}

/// `s1 + h s2`.
fn target(h: &[i16], s: &[Small]) -> Vec<i16> {
    let mut sums = s[0].0.map(i64::from);
    for (i, &h) in h.iter().enumerate() {
        for (j, &c) in s[1].0.iter().enumerate() {
            let sign = if i + j < DEGREE { 1 } else { -1 };
            sums[(i + j) % DEGREE] += sign * i64::from(h) * i64::from(c);
        }
    }
    sums.map(centred).to_vec()
}

fn world() -> &'static World {
    static WORLD: OnceLock<World> = OnceLock::new();
    WORLD.get_or_init(|| {
        let short = |factor: usize| Small(core::array::from_fn(|i| (i * factor % 7) as i16 - 3));
        let witness = [short(3), short(5), short(2), short(4)];
        // The polynomials live as long as the program.
        let factors = [1, 2].map(|column| -> &'static [i16] {
            let number = |k: usize| (k * k * 613 + column * 211) as i64;
            Vec::leak((0..DEGREE).map(|k| centred(number(k))).collect())
        });
        let pairs = witness.chunks_exact(2);
        let targets = factors.iter().zip(pairs).map(|(h, s)| target(h, s));
        let targets = targets.map(|c| -> &'static [i16] { Vec::leak(c) });
        let targets = Targets::Given(targets.collect());
        let relation = Relation::of_centred(DEGREE, MODULUS as u64, factors.to_vec(), targets);
        let relation = Box::leak(Box::new(relation.expect("centred polynomials")));
        let statement = Columns::new(1000, Profile::Core128, PROJECTIONS, relation, Vec::new())
            .expect("numbers within their limits");
        let system = System::new(&statement.bounds()).expect("the witness is short");
        let proof = system
            .prove(&statement, &witness[..])
            .expect("the statement is true");
        World {
            statement,
            system,
            proof,
        }
    })
}

/// Verifies a proof; only the prover's own is accepted.
///
/// Input: `kind u8 | bytes`. Kind 0: the bytes are a proof. Kind 1: the rest of a proof, behind the
/// right header. Others: places of the honest proof, two bytes each, and what is written there.
///
/// # Panics
///
/// If another proof is accepted.
pub fn lattice_proof(data: &[u8]) -> bool {
    let Some((&kind, bytes)) = data.split_first() else {
        return false;
    };
    let world = world();
    let proof = match kind {
        0 => bytes.to_vec(),
        1 => [&world.proof[..HEADER_BYTES], bytes].concat(),
        _ => {
            let mut proof = world.proof.clone();
            for edit in bytes.chunks_exact(3) {
                let place = usize::from(u16::from_le_bytes([edit[0], edit[1]])) % proof.len();
                proof[place] = edit[2];
            }
            proof
        }
    };
    let accepted = world.system.verify(&world.statement, &proof).is_ok();
    assert!(!accepted || proof == world.proof, "a forged proof verifies");
    accepted
}

/// The honest proof, whole and by no edits.
pub(crate) fn lattice_proof_seeds() -> Vec<Vec<u8>> {
    let proof = &world().proof;
    vec![
        [&[0], &proof[..]].concat(),
        [&[1], &proof[HEADER_BYTES..]].concat(),
        vec![2],
    ]
}
