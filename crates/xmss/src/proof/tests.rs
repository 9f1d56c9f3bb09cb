use super::*;
use crate::key::{Purpose, SecretKey};
use crate::signature::PublicKey;
use alphorn_stark::field::P;
use alphorn_stark::merge::ChildKind;
use alphorn_stark::proof::DecodeError;
use alphorn_stark::{Fp, KERNELS, VerifyError};
use sha2::{Digest as _, Sha256};
use std::sync::LazyLock;

const SLOT: u32 = 5;
const MESSAGE: [u8; 32] = [0x56; 32];

/// Number of members in the test's registry: two groups, and some that do not sign.
const MEMBERS: u32 = 72;

/// Keys and signatures of all members at one slot.
struct World {
    proofs: Proofs,
    keys: Vec<PublicKey>,
    signatures: Vec<Signature>,
    registry: ProofRegistry,
}

fn exec() -> Exec<'static> {
    Exec::new(KERNELS.measured(), None)
}

fn portable() -> Exec<'static> {
    Exec::new(Backend::Portable, None)
}

static WORLD: LazyLock<World> = LazyLock::new(|| {
    let proofs = Proofs::new(Set::Compact, Preset::FAST);
    let slots = u64::from(SLOT)..u64::from(SLOT) + 2;
    let secrets: Vec<SecretKey> = (0..MEMBERS)
        .map(|i| SecretKey::interop(Set::Compact, Purpose::Vote, i, slots.clone(), exec()).unwrap())
        .collect();
    let sign = |key: &SecretKey| key.sign_index(SLOT, &MESSAGE, exec()).unwrap();
    let keys: Vec<PublicKey> = secrets.iter().map(|key| *key.public_key()).collect();
    World {
        proofs,
        signatures: secrets.iter().map(sign).collect(),
        registry: proofs.registry(exec(), keys.clone(), 7).unwrap(),
        keys,
    }
});

/// A proof of three signers, 1, 4 and 71.
static THREE: LazyLock<Vec<u8>> = LazyLock::new(|| WORLD.prove(&[1, 4, 71]).unwrap());

impl World {
    fn signed(&self, positions: &[u32]) -> Vec<Signed<'_>> {
        let signed = |position: &u32| Signed {
            position: *position,
            signature: &self.signatures[*position as usize],
        };
        positions.iter().map(signed).collect()
    }

    fn prove(&self, positions: &[u32]) -> Result<Vec<u8>, ProveError> {
        let signed = self.signed(positions);
        self.prove_these(&signed)
    }

    fn prove_these(&self, signed: &[Signed<'_>]) -> Result<Vec<u8>, ProveError> {
        self.proofs
            .prove(exec(), &self.registry, SLOT, &MESSAGE, signed)
    }

    fn verify(&self, positions: &[u32], bytes: &[u8]) -> Result<(), ProofError> {
        self.verify_of(&self.registry, SLOT, &MESSAGE, positions, bytes)
    }

    fn verify_of(
        &self,
        registry: &ProofRegistry,
        slot: u32,
        message: &[u8; 32],
        positions: &[u32],
        bytes: &[u8],
    ) -> Result<(), ProofError> {
        let mut signers = Bitfield::new(registry.len());
        positions.iter().for_each(|i| signers.set(*i as usize));
        let claimed = Claimed {
            slot,
            message,
            signers: &signers,
        };
        self.proofs.verify(exec(), registry, &claimed, bytes)
    }
}

/// The first error in a proof of another statement: every challenge differs, so the first layer of the bus that
/// has rounds does not follow from the previous one.
const OTHER_STATEMENT: ProofError = ProofError::Refused(VerifyError::BusLayer(1));

/// Whether a proof has at most this many bytes, and at most a tenth less.
fn about(bytes: usize, most: usize) -> bool {
    (most - most / 10..=most).contains(&bytes)
}

#[test]
fn groups_are_filled_up_and_proofs_have_at_most_the_size_that_is_said() {
    for count in [1, 64, 65] {
        let positions: Vec<u32> = (0..count).collect();
        let bytes = WORLD.prove(&positions).unwrap();
        assert_eq!(WORLD.verify(&positions, &bytes), Ok(()), "{count}");
        let sizes = WORLD.proofs.sizes(count as usize);
        assert!(about(bytes.len(), sizes.bytes), "{count}: {}", bytes.len());
        assert_eq!(sizes.groups, (count as usize).div_ceil(64));
    }
    assert_eq!(WORLD.proofs.signatures_max(), 1472);
    assert_eq!(WORLD.proofs.registry_max(), 1 << 15);
    assert!(WORLD.proofs.sizes(1472).bytes < 1 << 18);
}

#[test]
fn the_small_preset_makes_smaller_proofs_that_the_other_refuses() {
    let small = Proofs::new(Set::Compact, Preset::SMALL);
    assert!(small.sizes(3).bytes < WORLD.proofs.sizes(3).bytes);
    let signed = WORLD.signed(&[1, 4, 71]);
    let bytes = small.prove(exec(), &WORLD.registry, SLOT, &MESSAGE, &signed);
    let bytes = bytes.unwrap();
    let mut signers = Bitfield::new(MEMBERS as usize);
    [1, 4, 71].iter().for_each(|i| signers.set(*i));
    let claimed = Claimed {
        slot: SLOT,
        message: &MESSAGE,
        signers: &signers,
    };
    let verified = small.verify(portable(), &WORLD.registry, &claimed, &bytes);
    assert_eq!(verified, Ok(()));
    let refused = WORLD.verify(&[1, 4, 71], &bytes);
    assert!(
        matches!(
            refused,
            Err(ProofError::Decode(DecodeError::Header { index: 5, .. }))
        ),
        "{refused:?}"
    );
}

#[test]
fn a_proof_is_of_one_slot_message_and_registry() {
    let three = [1, 4, 71];
    assert_eq!(WORLD.verify(&three, &THREE), Ok(()));
    let of = |registry: &ProofRegistry, slot, message: &[u8; 32]| {
        WORLD.verify_of(registry, slot, message, &three, &THREE)
    };
    let registry = &WORLD.registry;
    assert_eq!(of(registry, SLOT + 1, &MESSAGE), Err(OTHER_STATEMENT));
    assert_eq!(of(registry, SLOT | 1 << 20, &MESSAGE), Err(OTHER_STATEMENT));
    for byte in [0, 13, 31] {
        let mut message = MESSAGE;
        message[byte] ^= 1;
        assert_eq!(of(registry, SLOT, &message), Err(OTHER_STATEMENT));
    }
    let changed = |change: fn(&mut Vec<PublicKey>), number| {
        let mut keys = WORLD.keys.clone();
        change(&mut keys);
        let registry = WORLD.proofs.registry(exec(), keys, number).unwrap();
        of(&registry, SLOT, &MESSAGE)
    };
    assert_eq!(changed(|_| {}, 7), Ok(()));
    assert_eq!(changed(|_| {}, 8), Err(OTHER_STATEMENT), "its number");
    // Keys of members that did not sign are bound as well.
    let swap: fn(&mut Vec<PublicKey>) = |keys| keys.swap(2, 3);
    assert_eq!(changed(swap, 7), Err(OTHER_STATEMENT));
    assert_eq!(changed(|keys| keys.swap(1, 4), 7), Err(OTHER_STATEMENT));
    assert_eq!(changed(|keys| keys.push(keys[0]), 7), Err(OTHER_STATEMENT));
}

#[test]
fn a_proof_is_of_its_signers() {
    let lies: [&[u32]; 6] = [
        &[1, 4],
        &[1],
        &[1, 4, 70],
        &[0, 4, 71],
        &[1, 4, 5, 71],
        &[0],
    ];
    for lie in lies {
        assert_eq!(WORLD.verify(lie, &THREE), Err(OTHER_STATEMENT), "{lie:?}");
    }
    assert_eq!(WORLD.verify(&[], &THREE), Err(ProofError::EmptySet));
    let all: Vec<u32> = (0..65).collect();
    let groups = ProofError::Groups { got: 1, want: 2 };
    assert_eq!(WORLD.verify(&all, &THREE), Err(groups));
    let mut longer = Bitfield::new(MEMBERS as usize + 1);
    longer.set(1);
    let claimed = Claimed {
        slot: SLOT,
        message: &MESSAGE,
        signers: &longer,
    };
    let refused = WORLD
        .proofs
        .verify(portable(), &WORLD.registry, &claimed, &THREE);
    assert_eq!(refused, Err(ProofError::Bitfield { got: 73, want: 72 }));
}

/// Verifies a proof with one byte changed.
fn with_byte(index: usize, change: u8) -> Result<(), ProofError> {
    let mut bytes = THREE.clone();
    bytes[index] ^= change;
    WORLD.verify(&[1, 4, 71], &bytes)
}

#[test]
fn each_byte_of_the_header_is_fixed() {
    let header = WORLD.proofs.sizes(3).header_bytes;
    for index in 0..header {
        let refused = with_byte(index, 0x10).unwrap_err();
        let ProofError::Decode(error) = refused else {
            panic!("byte {index}: {refused:?}");
        };
        match index {
            // The number of groups determines which slices are listed.
            8 => assert!(
                matches!(
                    error,
                    DecodeError::Length { .. } | DecodeError::Header { .. }
                ),
                "{error:?}"
            ),
            _ => assert!(
                matches!(error, DecodeError::Header { index: at, .. } if at == index),
                "byte {index}: {error:?}"
            ),
        }
    }
    assert!(matches!(
        with_byte(8, 0xff),
        Err(ProofError::Decode(DecodeError::Groups { max: 23, .. }))
    ));
    let cut = WORLD.verify(&[1, 4, 71], &THREE[..THREE.len() - 1]);
    assert!(matches!(
        cut,
        Err(ProofError::Decode(DecodeError::Length { .. }))
    ));
    assert!(WORLD.verify(&[1, 4, 71], &[]).is_err());
}

/// A sample of all bytes after the header; `soak` covers all of them.
#[test]
fn each_byte_of_a_proof_counts() {
    let header = WORLD.proofs.sizes(3).header_bytes;
    let step = if cfg!(feature = "soak") { 1 } else { 1999 };
    for index in (header..THREE.len()).step_by(step) {
        let change = 1 << (index % 8);
        assert!(with_byte(index, change).is_err(), "byte {index}");
    }
    let last = THREE.len() - 1;
    let padding = ProofError::Decode(DecodeError::Padding);
    let elements = (THREE.len() - header) * 8 / 31;
    let bits = 31 * elements % 8;
    match bits {
        0 => assert!(with_byte(last, 0x80).is_err()),
        used => assert_eq!(with_byte(last, 1 << used), Err(padding)),
    }
    // The root of the commitment comes first, the opening of all claims last.
    assert_eq!(with_byte(header, 1), Err(OTHER_STATEMENT));
}

#[test]
fn what_cannot_be_proved_is_named_before_any_proof() {
    assert_eq!(WORLD.prove(&[]), Err(ProveError::Empty));
    let order = |before, position| Err(ProveError::Order { before, position });
    assert_eq!(WORLD.prove(&[3, 3]), order(3, 3), "no member counts twice");
    assert_eq!(WORLD.prove(&[3, 2]), order(3, 2));
    let mut signed = WORLD.signed(&[1, 2, 3, 9]);
    signed[1].signature = &WORLD.signatures[3];
    signed[3].signature = &WORLD.signatures[8];
    let positions = vec![2, 9];
    let invalid = Err(ProveError::InvalidSignatures { positions });
    assert_eq!(WORLD.prove_these(&signed), invalid);
    let mut outside = WORLD.signed(&[1]);
    outside[0].position = MEMBERS;
    let (position, size) = (MEMBERS, MEMBERS as usize);
    let refused = Err(ProveError::NotAMember { position, size });
    assert_eq!(WORLD.prove_these(&outside), refused);
    let signature = &WORLD.signatures[0];
    let many: Vec<Signed<'_>> = (0..1473)
        .map(|position| Signed {
            position,
            signature,
        })
        .collect();
    let (got, max) = (1473, 1472);
    let refused = Err(ProveError::Signatures { got, max });
    assert_eq!(WORLD.prove_these(&many), refused);
}

/// Building the witness verifies signatures: it reports those that individual verification rejects.
#[test]
fn what_the_witness_refuses_is_what_verification_refuses() {
    let mut signatures: Vec<Signature> = (0..40).map(|i| WORLD.signatures[i].clone()).collect();
    for (i, signature) in signatures.iter_mut().enumerate() {
        match i % 8 {
            0 => signature.randomness[i % 6] += Fp::ONE,
            1 => signature.hashes[i][i % 4] += Fp::ONE,
            2 => signature.path[i % 7][i % 4] += Fp::ONE,
            3 => signature.hashes.swap(i % 5, 7),
            _ => {}
        }
    }
    let signed: Vec<Signed<'_>> = (0..40)
        .map(|position: u32| Signed {
            position,
            signature: &signatures[position as usize],
        })
        .collect();
    let items: Vec<Item<'_>> = signed
        .iter()
        .map(|signed| Item {
            key: WORLD.registry.key(signed.position).unwrap(),
            index: SLOT,
            message: &MESSAGE,
            signature: signed.signature,
        })
        .collect();
    let verdicts = verify_batch(Set::Compact, &items, exec());
    let refused = (0..40).filter(|position| !verdicts[*position as usize]);
    let positions: Vec<u32> = refused.collect();
    assert_eq!(positions.len(), 20);
    let mut sets = signed.clone();
    let invalid = Err(ProveError::InvalidSignatures { positions });
    assert_eq!(WORLD.prove_these(&signed), invalid);
    // A signature of another set has other sizes, and is reported as well.
    let key = SecretKey::interop(Set::Test, Purpose::Vote, 0, 0..8, exec()).unwrap();
    let other = key.sign_index(5, &MESSAGE, exec()).unwrap();
    sets.truncate(8);
    sets[6].signature = &other;
    let positions = vec![0, 1, 2, 3, 6];
    let invalid = Err(ProveError::InvalidSignatures { positions });
    assert_eq!(WORLD.prove_these(&sets), invalid);
}

#[test]
fn signatures_of_another_slot_or_message_are_not_proved() {
    let signed = WORLD.signed(&[1, 4]);
    let positions = vec![1, 4];
    let invalid = Err(ProveError::InvalidSignatures { positions });
    let prove = |slot, message: [u8; 32]| {
        WORLD
            .proofs
            .prove(exec(), &WORLD.registry, slot, &message, &signed)
    };
    assert_eq!(prove(SLOT + 1, MESSAGE), invalid);
    assert_eq!(prove(SLOT, [1; 32]), invalid);
}

/// The same front for the sets of the lean specification: at slot 711 · 127 the upper limb of
/// production tweaks grows inside a chain.
#[test]
fn the_lean_sets_are_proved_by_the_same_front() {
    for (set, slot) in [(Set::Test, 5), (Set::Prod, 711 * 127)] {
        let proofs = Proofs::new(set, Preset::FAST);
        let slots = u64::from(slot)..u64::from(slot) + 1;
        let secret = |i| SecretKey::interop(set, Purpose::Vote, i, slots.clone(), exec()).unwrap();
        let secrets: Vec<SecretKey> = (0..3).map(secret).collect();
        let keys: Vec<PublicKey> = secrets.iter().map(|key| *key.public_key()).collect();
        let registry = proofs.registry(exec(), keys.clone(), 7).unwrap();
        let sign = |key: &SecretKey| key.sign_index(slot, &MESSAGE, exec()).unwrap();
        let signatures: Vec<Signature> = secrets.iter().map(sign).collect();
        let signed = [0, 2].map(|position: u32| Signed {
            position,
            signature: &signatures[position as usize],
        });
        let proof = proofs.prove(exec(), &registry, slot, &MESSAGE, &signed);
        let proof = proof.unwrap();
        let most = proofs.sizes(2).bytes;
        assert!(about(proof.len(), most), "{set}: {}", proof.len());
        if set == Set::Prod {
            assert_pinned("proof.prod.fast.2", &proof);
        }
        let verify = |slot, message: &[u8; 32], positions: &[usize], registry: &ProofRegistry| {
            let mut signers = Bitfield::new(registry.len());
            positions.iter().for_each(|i| signers.set(*i));
            let claimed = Claimed {
                slot,
                message,
                signers: &signers,
            };
            proofs.verify(exec(), registry, &claimed, &proof)
        };
        assert_eq!(verify(slot, &MESSAGE, &[0, 2], &registry), Ok(()), "{set}");
        if set == Set::Test {
            let refused = verify(256, &MESSAGE, &[0, 2], &registry);
            let (got, end) = (256, 256);
            assert_eq!(refused, Err(ProofError::Slot { got, end }));
        }
        let other = Err(OTHER_STATEMENT);
        assert_eq!(verify(slot + 1, &MESSAGE, &[0, 2], &registry), other);
        assert_eq!(verify(slot, &[1; 32], &[0, 2], &registry), other);
        assert_eq!(verify(slot, &MESSAGE, &[0, 1], &registry), other);
        let swapped = vec![keys[1], keys[0], keys[2]];
        let swapped = proofs.registry(exec(), swapped, 7).unwrap();
        assert_eq!(verify(slot, &MESSAGE, &[0, 2], &swapped), other);
        let second = [1, 2].map(|position: u32| Signed {
            position,
            signature: &signatures[position as usize],
        });
        let second = proofs.prove(exec(), &registry, slot, &MESSAGE, &second);
        let second = second.unwrap();
        let of = |positions: &[usize]| {
            let mut signers = Bitfield::new(registry.len());
            positions.iter().for_each(|i| signers.set(*i));
            signers
        };
        let parts = [(of(&[0, 2]), &proof), (of(&[1, 2]), &second)];
        let parts = parts
            .each_ref()
            .map(|(signers, proof)| ProofPart { signers, proof });
        let merged = proofs.merge(exec(), &registry, slot, &MESSAGE, &parts);
        let merged = merged.unwrap();
        assert!(merged.len() <= proofs.merge_bytes_max(), "{set}");
        let all = of(&[0, 1, 2]);
        let claim = |slot, signers| Claimed {
            slot,
            message: &MESSAGE,
            signers,
        };
        let verify_merge =
            |slot, signers| proofs.verify(exec(), &registry, &claim(slot, signers), &merged);
        assert_eq!(verify_merge(slot, &all), Ok(()), "{set}");
        assert!(verify_merge(slot + 1, &all).is_err());
        assert!(verify_merge(slot, &of(&[0, 2])).is_err());
        let wrong = [Signed {
            position: 1,
            signature: &signatures[0],
        }];
        let refused = proofs.prove(exec(), &registry, slot, &MESSAGE, &wrong);
        let positions = vec![1];
        assert_eq!(refused, Err(ProveError::InvalidSignatures { positions }));
    }
    assert_eq!(Proofs::new(Set::Prod, Preset::FAST).signatures_max(), 1024);
    assert_eq!(Proofs::new(Set::Test, Preset::FAST).signatures_max(), 1536);
}

#[test]
fn other_keys_than_those_of_the_set_are_refused() {
    let key = SecretKey::interop(Set::Test, Purpose::Vote, 0, 0..1, exec()).unwrap();
    let keys = vec![WORLD.keys[0], *key.public_key()];
    let want = Set::Compact;
    let refused = WORLD.proofs.registry(exec(), keys, 0).unwrap_err();
    assert_eq!(refused, ProveError::KeySet { position: 1, want });
    let keys = vec![WORLD.keys[0]; (1 << 15) + 1];
    let (got, max) = ((1 << 15) + 1, 1 << 15);
    let refused = WORLD.proofs.registry(exec(), keys, 0).unwrap_err();
    assert_eq!(refused, ProveError::RegistrySize { got, max });
    // The number of another committee, modulo p.
    let (got, end) = (P + 7, P);
    for number in [P, P + 7, u32::MAX] {
        let refused = WORLD.proofs.registry(exec(), WORLD.keys.clone(), number);
        let refused = refused.unwrap_err();
        assert!(matches!(refused, ProveError::RegistryNumber { got, .. } if got == number));
    }
    assert_eq!(
        ProveError::RegistryNumber { got, end }.to_string(),
        "registry number 2130706440, must be below 2130706433"
    );
    let last = WORLD.proofs.registry(exec(), WORLD.keys.clone(), P - 1);
    assert!(last.is_ok());
}

#[test]
fn threads_and_kernels_do_not_change_a_proof() {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(3).build();
    let pool = pool.unwrap();
    let signed = WORLD.signed(&[1, 4, 71]);
    let prove = |exec| {
        WORLD
            .proofs
            .prove(exec, &WORLD.registry, SLOT, &MESSAGE, &signed)
    };
    let pooled = prove(Exec::new(KERNELS.measured(), Some(&pool)));
    assert!(pooled.as_ref() == Ok(&*THREE));
    // The battery proves on the portable kernel, which takes ten times as long.
    if cfg!(feature = "soak") {
        for kernel in KERNELS.available() {
            let again = prove(Exec::new(kernel, Some(&pool)));
            assert!(again.as_ref() == Ok(&*THREE), "{kernel}");
        }
    }
}

/// A change in a proof's bytes is a protocol change.
fn assert_pinned(name: &str, proof: &[u8]) {
    let pinned = include_str!("../../../../conformance.toml");
    let digest = hex::encode(Sha256::digest(proof));
    let bytes = proof.len();
    let line = format!("{{ name = \"{name}\", bytes = {bytes}, sha256 = \"{digest}\" }}");
    assert!(pinned.contains(&line), "conformance.toml lacks {line}");
}

#[test]
fn a_small_proof_has_its_pinned_bytes() {
    assert_pinned("proof.compact.fast.3", &THREE);
}

/// A watch that stops when it is notified of a step.
struct StopAt {
    step: &'static str,
    heard: std::sync::atomic::AtomicBool,
}

impl alphorn_exec::Watch for StopAt {
    fn stopped(&self) -> bool {
        self.heard.load(std::sync::atomic::Ordering::Relaxed)
    }

    fn step(&self, name: &'static str) {
        if name == self.step {
            self.heard.store(true, std::sync::atomic::Ordering::Relaxed);
        }
    }
}

#[test]
fn a_proof_ends_in_the_step_that_it_is_stopped_in() {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build();
    let pool = pool.unwrap();
    let signed = WORLD.signed(&[1, 4, 71]);
    let steps = ["witness", "trace", "rows", "bus", "permutations"];
    for step in steps.into_iter().chain(["proof of work", "later rows"]) {
        let watch = StopAt {
            step,
            heard: false.into(),
        };
        let exec = Exec::new(KERNELS.measured(), Some(&pool)).with_watch(&watch);
        let proof = WORLD
            .proofs
            .prove(exec, &WORLD.registry, SLOT, &MESSAGE, &signed);
        assert_eq!(proof, Err(ProveError::Stopped), "{step}");
        assert!(alphorn_exec::Watch::stopped(&watch), "{step} is no step");
    }
}

/// The signers 1, 4, 5 and 71 as a bitfield, or others.
fn signers(positions: &[u32]) -> Bitfield {
    let mut signers = Bitfield::new(WORLD.registry.len());
    positions.iter().for_each(|i| signers.set(*i as usize));
    signers
}

fn merged_on(exec: Exec<'_>, parts: &[(&[u32], &[u8])]) -> Result<Vec<u8>, ProveError> {
    let named: Vec<(Bitfield, &[u8])> = parts.iter().map(|(s, p)| (signers(s), *p)).collect();
    let parts: Vec<ProofPart<'_>> = named
        .iter()
        .map(|(signers, proof)| ProofPart { signers, proof })
        .collect();
    WORLD
        .proofs
        .merge(exec, &WORLD.registry, SLOT, &MESSAGE, &parts)
}

fn merged(parts: &[(&[u32], &[u8])]) -> Result<Vec<u8>, ProveError> {
    merged_on(exec(), parts)
}

/// A proof of two signers, 4 and 5.
static TWO: LazyLock<Vec<u8>> = LazyLock::new(|| WORLD.prove(&[4, 5]).unwrap());

/// The merge of both proofs, which overlap.
static UNION: LazyLock<Vec<u8>> =
    LazyLock::new(|| merged(&[(&[1, 4, 71], &THREE), (&[4, 5], &TWO)]).unwrap());

#[test]
fn proofs_merge_to_the_union_of_their_signers() {
    assert_eq!(WORLD.verify(&[1, 4, 5, 71], &UNION), Ok(()));
    for other in [&[1, 4, 71][..], &[1, 4, 5], &[1, 4, 5, 6, 71]] {
        assert!(WORLD.verify(other, &UNION).is_err(), "{other:?}");
    }
    let again = merged(&[(&[1, 4, 5, 71], &UNION), (&[4, 5], &TWO)]).unwrap();
    assert_eq!(WORLD.verify(&[1, 4, 5, 71], &again), Ok(()));
    assert!(again.len() <= WORLD.proofs.merge_bytes_max());
    // Eight parts take two levels.
    let parts = [(&[4, 5][..], &TWO[..]); 8];
    let eight = merged(&parts).unwrap();
    assert_eq!(WORLD.verify(&[4, 5], &eight), Ok(()));
    let error = merged(&[]);
    assert_eq!(error, Err(ProveError::Empty));
}

#[test]
fn too_many_levels_are_refused_before_anything_is_proved() {
    // The header states the level, which nothing but a proof can justify.
    let level = |level: u8| {
        let mut bytes = UNION.clone();
        let shape = |bytes: &[u8]| WORLD.proofs.merge_shape(bytes).ok().flatten();
        let at = (0..64).find(|at| {
            bytes[*at] = level;
            let is_found = shape(&bytes).is_some_and(|shape| shape.level == u32::from(level));
            bytes[*at] = if is_found { level } else { UNION[*at] };
            is_found
        });
        at.expect("the header has the level");
        bytes
    };
    let refused = Err(ProveError::Levels { max: 8 });
    let highest = level(8);
    let part = (&[1, 4, 5, 71][..], &highest[..]);
    assert_eq!(merged(&[part, (&[4, 5], &TWO)]), refused);
    // Of eight parts, seven make one of level 8, which cannot be merged with the eighth. Only if they were merged
    // first would the part be named that is not what its header states.
    let high = level(7);
    let mut parts = [(&[4, 5][..], &TWO[..]); 8];
    parts[2] = (&[1, 4, 5, 71], &high);
    assert_eq!(merged(&parts), refused);
    let named = merged(&[parts[2], parts[0]]);
    assert!(
        matches!(named, Err(ProveError::Part { part: 0, .. })),
        "{named:?}"
    );
}

/// The quick tier merges once more, on the kernel after the portable one, which takes ten times as long.
#[test]
fn a_merge_has_its_pinned_bytes_on_every_kernel() {
    assert_pinned("proof.compact.merge.2", &UNION);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build();
    let pool = pool.unwrap();
    let kernels = KERNELS.available();
    let skipped = match kernels.len() {
        1 => 0,
        _ if cfg!(feature = "soak") => 0,
        _ => 1,
    };
    let count = if cfg!(feature = "soak") {
        kernels.len()
    } else {
        1
    };
    for kernel in kernels.iter().skip(skipped).take(count) {
        let exec = Exec::new(*kernel, Some(&pool));
        let again = merged_on(exec, &[(&[1, 4, 71], &THREE), (&[4, 5], &TWO)]);
        assert!(again.as_ref() == Ok(&*UNION), "{kernel}");
    }
}

#[test]
fn parts_that_are_no_proofs_of_their_signers_are_named() {
    let mut broken = TWO.clone();
    broken[90_000] ^= 1;
    for (signers, proof) in [
        (&[4, 5][..], &broken[..]),
        (&[4, 6], &TWO),
        (&[4, 5], &TWO[..9]),
    ] {
        let error = merged(&[(&[1, 4, 71], &THREE), (signers, proof)]);
        assert!(
            matches!(error, Err(ProveError::Part { part: 1, .. })),
            "{error:?}"
        );
    }
    let small = Proofs::new(Set::Compact, Preset::SMALL);
    let signed = WORLD.signed(&[4, 5]);
    let small = small
        .prove(exec(), &WORLD.registry, SLOT, &MESSAGE, &signed)
        .unwrap();
    let error = merged(&[(&[4, 5], &small)]);
    assert!(
        matches!(error, Err(ProveError::Part { part: 0, .. })),
        "{error:?}"
    );
    let wide = Proofs::wide();
    assert_eq!(wide.merge_bytes_max(), 0);
    assert_eq!(wide.merge_security(), None);
    assert_eq!(wide.mergeable_max(), 0);
    let watch = StopAt {
        step: "rows",
        heard: false.into(),
    };
    let stopped = merged_on(exec().with_watch(&watch), &[(&[4, 5], &TWO)]);
    assert_eq!(stopped, Err(ProveError::Stopped));
}

#[test]
fn evidence_merges_with_its_tag() {
    let evidence = |proof: &[u8]| [&[1], proof].concat();
    let (three, two) = (evidence(&THREE), evidence(&TWO));
    let (s3, s2) = (signers(&[1, 4, 71]), signers(&[4, 5]));
    let pieces = [(&s3, &three[..]), (&s2, &two[..])];
    let merged = WORLD
        .proofs
        .merge_evidence(exec(), &WORLD.registry, SLOT, &MESSAGE, &pieces)
        .unwrap();
    assert_eq!(merged, [&[3], &UNION[..]].concat());
    let all = signers(&[1, 4, 5, 71]);
    let claimed = Claimed {
        slot: SLOT,
        message: &MESSAGE,
        signers: &all,
    };
    let verified = WORLD
        .proofs
        .verify_evidence(exec(), &WORLD.registry, &claimed, &merged);
    assert_eq!(verified, Ok(()));
    assert!(merged.len() <= WORLD.proofs.evidence_bytes_max(4));
    assert_eq!(preset_of_evidence(72, &merged), Some(Preset::FAST));
    // Neither is evidence under the other tag: a claim has a unique encoding.
    let other_tags = [
        ([&[1], &UNION[..]].concat(), &all),
        ([&[3], &TWO[..]].concat(), &s2),
    ];
    for (bytes, signers) in &other_tags {
        let parts = WORLD.proofs.evidence_parts(signers, bytes);
        assert_eq!(parts, Err(EvidenceError::Kind { part: 0 }));
    }
    let wrong = [(&s3, &three[..]), (&s2, &[9][..])];
    let error = WORLD
        .proofs
        .merge_evidence(exec(), &WORLD.registry, SLOT, &MESSAGE, &wrong);
    assert!(
        matches!(error, Err(ProveError::Evidence { piece: 1, .. })),
        "{error:?}"
    );
}

/// The entries of a bundle: members of the same registry over the same message, in one slot.
fn with_entries<T>(of: &[&[u32]], run: impl FnOnce(&[BundleEntry<'_>]) -> T) -> T {
    let signers: Vec<Bitfield> = of.iter().map(|positions| signers(positions)).collect();
    let entry = |signers| BundleEntry {
        registry: &WORLD.registry,
        claimed: Claimed {
            slot: SLOT,
            message: &MESSAGE,
            signers,
        },
    };
    let entries: Vec<BundleEntry<'_>> = signers.iter().map(entry).collect();
    run(&entries)
}

#[test]
fn proofs_are_bundled_split_and_merged_again() {
    let proofs = &WORLD.proofs;
    let all: [&[u32]; 2] = [&[1, 4, 71], &[4, 5]];
    let bundle = with_entries(&all, |entries| {
        let parts = [(entries[0], &THREE[..]), (entries[1], &TWO[..])];
        proofs.bundle(exec(), &parts).unwrap()
    });
    assert_pinned("proof.compact.bundle.2", &bundle);
    let shape = proofs.bundle_shape(&bundle).unwrap().unwrap();
    assert_eq!((shape.level, shape.kinds), (1, vec![ChildKind::Leaf; 2]));
    assert_eq!(proofs.bundle_shape(&TWO), Ok(None));
    let verify =
        |of: &[&[u32]]| with_entries(of, |entries| proofs.verify_bundle(exec(), entries, &bundle));
    assert_eq!(verify(&all), Ok(()));
    let others: [&[&[u32]]; 4] = [
        &[&[4, 5], &[1, 4, 71]],
        &[&[1, 4, 71]],
        &[&[1, 4], &[4, 5]],
        &[&[1, 4, 71], &[4, 5], &[4, 5]],
    ];
    for other in others {
        assert!(verify(other).is_err(), "{other:?}");
    }
    assert_eq!(verify(&[&[], &[4, 5]]), Err(ProofError::EmptySet));
    let split =
        |kept: usize| with_entries(&all, |entries| proofs.split(exec(), entries, &bundle, kept));
    let second = split(1).unwrap();
    assert_eq!(WORLD.verify(&[4, 5], &second), Ok(()));
    assert!(WORLD.verify(&[1, 4, 71], &second).is_err());
    let again = merged(&[(&[4, 5], &second), (&[1, 4, 71], &THREE)]).unwrap();
    assert_eq!(WORLD.verify(&[1, 4, 5, 71], &again), Ok(()));
    let error = split(2);
    assert_eq!(error, Err(ProveError::Entry { got: 2, entries: 2 }));
    // The bundle of other entries cannot be split, and a bundle with a broken proof is not made.
    let wrong = with_entries(&[&[1, 4, 71], &[4, 6]], |entries| {
        proofs.split(exec(), entries, &bundle, 0)
    });
    assert!(
        matches!(wrong, Err(ProveError::Part { part: 0, .. })),
        "{wrong:?}"
    );
    let broken = with_entries(&all, |entries| {
        let parts = [(entries[0], &THREE[..]), (entries[1], &THREE[..])];
        proofs.bundle(exec(), &parts)
    });
    assert!(
        matches!(broken, Err(ProveError::Part { part: 1, .. })),
        "{broken:?}"
    );
    assert_eq!(proofs.bundle(exec(), &[]), Err(ProveError::Empty));
    // A merge does not accept a bundle as a part, and nothing else is a bundle.
    assert!(merged(&[(&[4, 5], &bundle)]).is_err());
    let refused = with_entries(&all, |entries| {
        proofs.verify_bundle(exec(), entries, &UNION)
    });
    assert!(matches!(refused, Err(ProofError::Decode(_))), "{refused:?}");
}

#[test]
fn many_proofs_are_a_bundle_of_bundles() {
    let proofs = &WORLD.proofs;
    let of: [&[u32]; 2] = [&[1, 4, 71], &[4, 5]];
    let all: Vec<&[u32]> = (0..8).map(|i| of[i % 2]).collect();
    let bundle = |of: &[&[u8]]| {
        with_entries(&all[..of.len()], |entries| {
            let parts: Vec<_> = entries.iter().zip(of).map(|(e, p)| (*e, *p)).collect();
            proofs.bundle(exec(), &parts)
        })
    };
    let mut parts: Vec<&[u8]> = (0..8).map(|i| [&THREE[..], &TWO[..]][i % 2]).collect();
    let made = bundle(&parts).unwrap();
    let shape = proofs.bundle_shape(&made).unwrap().unwrap();
    assert_eq!((shape.level, shape.kinds), (2, vec![ChildKind::Bundle; 2]));
    assert!(made.len() <= proofs.bundle_bytes_max(8));
    let verify =
        |of: &[&[u32]]| with_entries(of, |entries| proofs.verify_bundle(exec(), entries, &made));
    assert_eq!(verify(&all), Ok(()));
    let mut swapped = all.clone();
    swapped.swap(3, 4);
    for other in [&all[1..], &swapped[..]] {
        assert!(verify(other).is_err(), "{other:?}");
    }
    let split = with_entries(&all, |entries| proofs.split(exec(), entries, &made, 5));
    assert_eq!(WORLD.verify(&[4, 5], &split.unwrap()), Ok(()));
    // A part that does not hold is reported by its number among all.
    parts[6] = &TWO;
    let broken = bundle(&parts);
    assert!(
        matches!(broken, Err(ProveError::Part { part: 6, .. })),
        "{broken:?}"
    );
    let (got, max) = (proofs.entries_max() + 1, proofs.entries_max());
    let entry =
        |entries: &[BundleEntry<'_>]| proofs.bundle(exec(), &vec![(entries[0], &TWO[..]); got]);
    let many = with_entries(&[&[4, 5]], entry);
    assert_eq!(many, Err(ProveError::Entries { got, max }));
}
