//! The proofs of aggregate keys of `alphorn-bls`.

use std::sync::OnceLock;

use alphorn_bls::ipa::{Bases, Claim, Committee, Proof, prove, verify};
use alphorn_bls::{InteropKey, PublicKey};
use alphorn_exec::Exec;
use alphorn_types::Bitfield;

/// Keys of the committee whose proofs are verified, not only decoded.
const KEYS: usize = 4;
/// Keys of a committee at most: 1 to 256, so that a proof has up to 8 halvings.
const KEYS_MAX: usize = 256;

/// A committee with the proof of an honest prover.
struct World {
    bases: Bases,
    committee: Committee,
    signers: Bitfield,
    aggregate: PublicKey,
    proof: Vec<u8>,
}

/// A proof over a committee of so many interop keys.
fn world(keys: usize) -> World {
    let exec = Exec::serial();
    let public: Vec<PublicKey> = (0..keys as u64)
        .map(|i| InteropKey::new(i).to_secret_key().public_key())
        .collect();
    let bases = Bases::derive(keys, exec).expect("so many bases are allowed");
    let committee = Committee::new(&public).expect("so many keys are allowed");
    let mut signers = Bitfield::new(keys);
    (0..keys).step_by(2).for_each(|i| signers.set(i));
    let multiplicities: Vec<u32> = (0..keys as u32).map(|i| 1 + i % 3).collect();
    let (aggregate, proof) = prove(&bases, &committee, &multiplicities, &signers, exec)
        .expect("every signer has a multiplicity");
    World {
        bases,
        committee,
        signers,
        aggregate,
        proof: proof.to_bytes(),
    }
}

fn small() -> &'static World {
    static SMALL: OnceLock<World> = OnceLock::new();
    SMALL.get_or_init(|| world(KEYS))
}

/// Decodes a proof; what is accepted must encode to itself, and of one committee only the prover's
/// own proof verifies.
///
/// Input: `number of keys - 1 u8 | proof`.
///
/// # Panics
///
/// If a proof has a second encoding, or a forged one verifies.
pub fn ipa_proof(data: &[u8]) -> bool {
    let Some((&keys, bytes)) = data.split_first() else {
        return false;
    };
    let keys = 1 + usize::from(keys) % KEYS_MAX;
    let Ok(proof) = Proof::from_bytes(bytes, keys) else {
        return false;
    };
    assert_eq!(proof.to_bytes(), bytes, "a second encoding was accepted");
    assert_eq!(bytes.len(), Proof::bytes_len(keys));
    if keys == KEYS {
        let world = small();
        let claim = Claim::new(&world.committee, &world.signers, world.aggregate, &proof)
            .expect("the proof has the halvings of the committee");
        let holds = verify(&world.bases, &claim, Exec::serial()).is_ok();
        assert_eq!(holds, bytes == world.proof, "a forged proof, or a lost one");
    }
    true
}

/// Proofs over committees of several sizes.
pub(crate) fn ipa_proof_seeds() -> Vec<Vec<u8>> {
    let seed = |keys: usize, proof: &[u8]| [&[(keys - 1) as u8], proof].concat();
    let mut seeds = vec![seed(KEYS, &small().proof)];
    seeds.extend([1, 2, 7, 33].map(|keys| seed(keys, &world(keys).proof)));
    seeds
}
