//! The proofs of `alphorn-labrador`.

use std::sync::OnceLock;

use alphorn_labrador::ring::{Ntt, Rq, Small};
use alphorn_labrador::sis::Profile;
use alphorn_labrador::{Equation, HEADER_BYTES, Kind, QuadraticTerm, Statement, System};

/// A product of two short elements, and the proof of an honest prover.
struct World {
    statement: Statement,
    system: System,
    proof: Vec<u8>,
}

fn world() -> &'static World {
    static WORLD: OnceLock<World> = OnceLock::new();
    WORLD.get_or_init(|| {
        let short = |factor: usize| Small(core::array::from_fn(|i| (i * factor % 7) as i16 - 3));
        let witness = [short(3), short(5)];
        let [a, b] = witness.each_ref().map(Ntt::from_small);
        let equation = Equation {
            kind: Kind::Ring,
            quadratic: vec![QuadraticTerm {
                i: 0,
                j: 1,
                coefficient: Rq::constant(1),
            }],
            linear: Vec::new(),
            target: a.times(&b).to_rq(),
        };
        let norm_sq = witness.iter().map(Small::norm_sq).sum();
        let statement = Statement::new(2, 1, norm_sq, Profile::Core128, vec![equation])
            .expect("the equation names what there is");
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
