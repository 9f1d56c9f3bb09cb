use alphorn_stark::KERNELS;

use super::*;
use crate::key::{Purpose, SecretKey};
use crate::params::Set;
use crate::proof::Preset;
use crate::signature::Signature;

const SLOT: u32 = 3;
const MESSAGE: [u8; 32] = [9; 32];

/// One more signature than a proof takes.
const MANY: usize = 1473;

/// A registry with the same key at every position, so that one signature serves for all.
fn world() -> (Proofs, ProofRegistry, Signature) {
    let exec = Exec::new(KERNELS.measured(), None);
    let proofs = Proofs::new(Set::Compact, Preset::FAST);
    let slots = u64::from(SLOT)..u64::from(SLOT) + 1;
    let key = SecretKey::interop(Set::Compact, Purpose::Vote, 0, slots, exec).unwrap();
    let signature = key.sign_index(SLOT, &MESSAGE, exec).unwrap();
    let registry = proofs.registry(exec, vec![*key.public_key(); MANY + 7], 0);
    (proofs, registry.unwrap(), signature)
}

fn bits(len: usize, range: std::ops::Range<usize>) -> Bitfield {
    let mut bits = Bitfield::new(len);
    bits.set_range(range);
    bits
}

/// Encoded parts with these signers, with proofs consisting of zeros.
fn hollow(proofs: &Proofs, parts: &[Bitfield]) -> Vec<u8> {
    let mut bytes = vec![TAG_PROOFS];
    for signers in parts {
        let cells = cells(signers.len());
        bytes.extend(code(&cells).encode(&Support::from_bits(signers.clone())));
        let len = proofs.sizes(signers.count_ones()).bytes;
        bytes.extend((len as u32).to_le_bytes());
        bytes.resize(bytes.len() + len, 0);
    }
    bytes
}

#[test]
fn one_signer_more_than_a_proof_takes_makes_two_proofs() {
    let (proofs, registry, signature) = world();
    let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build();
    let pool = pool.unwrap();
    let exec = Exec::new(KERNELS.measured(), Some(&pool));
    let signed = |count: usize| -> Vec<Signed<'_>> {
        let signed = |position| Signed {
            position: position as u32,
            signature: &signature,
        };
        (0..count).map(signed).collect()
    };
    let bytes = proofs
        .prove_evidence(exec, &registry, SLOT, &MESSAGE, &signed(MANY))
        .unwrap();
    assert_eq!(bytes[0], TAG_PROOFS);
    assert!(bytes.len() <= proofs.evidence_bytes_max(MANY));
    let verify = |signers: &Bitfield, bytes: &[u8]| {
        let claimed = Claimed {
            slot: SLOT,
            message: &MESSAGE,
            signers,
        };
        proofs.verify_evidence(exec, &registry, &claimed, bytes)
    };
    let all = bits(registry.len(), 0..MANY);
    assert_eq!(verify(&all, &bytes), Ok(()));
    let mut last = bytes.clone();
    *last.last_mut().unwrap() ^= 1;
    let refused = verify(&all, &last);
    assert!(
        matches!(refused, Err(EvidenceError::Proof { part: 1, .. })),
        "{refused:?}"
    );
    let one_more = bits(registry.len(), 0..MANY + 1);
    assert_eq!(
        verify(&one_more, &bytes),
        Err(EvidenceError::Missing { missing: 1 })
    );
    let one_less = bits(registry.len(), 1..MANY + 1);
    let refused = EvidenceError::Signers { part: 0 };
    assert_eq!(verify(&one_less, &bytes), Err(refused));
}

#[test]
fn parts_are_disjoint_in_order_and_complete() {
    let (proofs, registry, _) = world();
    let len = registry.len();
    let all = bits(len, 0..MANY);
    let parts = |parts: &[Bitfield]| {
        let bytes = hollow(&proofs, parts);
        let found = proofs.evidence_parts(&all, &bytes);
        found.map(|parts| parts.iter().map(|p| p.signers.clone()).collect::<Vec<_>>())
    };
    let (low, high) = (bits(len, 0..700), bits(len, 700..MANY));
    let both = vec![low.clone(), high.clone()];
    assert_eq!(parts(&both), Ok(both.clone()), "any way to divide them");
    let wrong = |part| Err(EvidenceError::Signers { part });
    assert_eq!(parts(&[high.clone(), low.clone()]), wrong(1), "order");
    let overlap = bits(len, 699..MANY);
    assert_eq!(parts(&[low.clone(), overlap]), wrong(1), "overlap");
    let beyond = bits(len, 700..MANY + 1);
    assert_eq!(parts(&[low.clone(), beyond]), wrong(1), "not claimed");
    assert_eq!(parts(&[Bitfield::new(len), high.clone()]), wrong(0));
    assert_eq!(parts(&[all.clone(), low.clone()]), wrong(0), "too many");
    let gap = bits(len, 702..MANY);
    let missing = Err(EvidenceError::Missing { missing: 2 });
    assert_eq!(parts(&[low.clone(), gap]), missing);
    let third = bits(len, 1400..MANY);
    let three = parts(&[low.clone(), bits(len, 700..1400), third]);
    assert!(matches!(three, Err(EvidenceError::Decode { part: 1, .. })));
    let mut cut = hollow(&proofs, &both);
    cut.pop();
    let refused = proofs.evidence_parts(&all, &cut).map(|_| ());
    assert!(matches!(
        refused,
        Err(EvidenceError::Decode { part: 1, .. })
    ));
}

#[test]
fn the_first_proof_names_the_preset() {
    let (proofs, registry, _) = world();
    let len = registry.len();
    let mut many = hollow(&proofs, &[bits(len, 0..700), bits(len, 700..MANY)]);
    assert_eq!(preset_of_evidence(len, &many), None, "0 is no preset");
    let cells = cells(len);
    let support = code(&cells).encode(&Support::from_bits(bits(len, 0..700)));
    many[1 + support.len() + 4 + 5] = 2;
    assert_eq!(preset_of_evidence(len, &many), Some(Preset::SMALL));
    let one = [TAG_PROOF, b'A', b'H', b'P', b'1', 3, 1, 0];
    assert_eq!(preset_of_evidence(len, &one), Some(Preset::FAST));
    for bytes in [&one[..6], &[0; 9], &[], &[TAG_PROOFS]] {
        assert_eq!(preset_of_evidence(len, bytes), None);
    }
}

#[test]
fn the_number_of_signers_fixes_the_tag() {
    let (proofs, registry, _) = world();
    let tag = |signers: usize, bytes: &[u8]| {
        let signers = bits(registry.len(), 0..signers);
        proofs
            .evidence_parts(&signers, bytes)
            .map(|parts| parts.len())
    };
    let refused = |got, want, signers| Err(EvidenceError::Tag { got, want, signers });
    assert_eq!(tag(5, &[]), refused(None, 1, 5));
    assert_eq!(tag(5, &[0, 1]), refused(Some(0), 1, 5));
    assert_eq!(tag(1472, &[2, 1]), refused(Some(2), 1, 1472));
    assert_eq!(tag(MANY, &[1, 1]), refused(Some(1), 2, MANY));
    assert_eq!(tag(1472, &[1]), Ok(1), "what is in a proof comes later");
}

#[test]
fn the_largest_evidence_has_room_for_a_whole_committee() {
    let proofs = Proofs::new(Set::Compact, Preset::FAST);
    for signers in [1usize, 64, 65, 1472, 1473, 4000, 1 << 15] {
        let parts = signers.div_ceil(1472);
        let full = (parts - 1) * proofs.sizes(1472).bytes;
        let rest = proofs.sizes(signers - (parts - 1) * 1472).bytes;
        let max = proofs.evidence_bytes_max(signers);
        assert!(max > full + rest, "{signers}: {max}");
        let supports = if parts > 1 { parts * 4102 } else { 0 };
        // A merge has room for any signers.
        let proved = full + rest + supports + 2500 * parts;
        assert!(
            max < proved.max(2 + proofs.merge_bytes_max()),
            "{signers}: {max}"
        );
    }
    for set in Set::ALL {
        for preset in crate::proof::PRESETS {
            let proofs = Proofs::new(set, preset);
            assert!(
                proofs.evidence_bytes_max(1 << 15) <= EVIDENCE_BYTES_MAX,
                "{set}"
            );
        }
    }
}
