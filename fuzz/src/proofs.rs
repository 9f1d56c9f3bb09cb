//! Hash-based proofs: their bytes, the evidence around them, and the verifier.

use std::ops::Range;
use std::sync::OnceLock;

use alphorn_exec::Exec;
use alphorn_scheme::list::{TAG_PROOF, TAG_PROOFS};
use alphorn_stark::Fp;
use alphorn_stark::chains::{Chains, Parameters};
use alphorn_stark::proof::{Statements, SuccinctProof, succinct_elements};
use alphorn_types::{Bitfield, Coding, Support, support_code};
use alphorn_xmss::{
    Claimed, PRESETS, Preset, ProofPart, ProofRegistry, Proofs, PublicKey, Purpose, SecretKey, Set,
    Signature, Signed, preset_of_evidence,
};

/// Members of the registry of evidence: more than one proof takes.
const MEMBERS: usize = 2000;
/// Of whom so many are said to have signed.
const SIGNERS: usize = 1500;
/// Or so few.
const FEW: usize = 5;
/// An edit of a proof: where, and what is changed.
const EDIT_BYTES: usize = 5;

/// Where the header of a merge has its level.
const LEVEL_AT: usize = 10;

const SLOT: u32 = 3;
const MESSAGE: [u8; 32] = [1; 32];

fn chains() -> &'static Chains {
    static CHAINS: OnceLock<Chains> = OnceLock::new();
    CHAINS.get_or_init(|| Chains::new(Parameters::COMPACT))
}

fn proofs(preset: Preset) -> Proofs {
    Proofs::new(Set::Compact, preset)
}

/// The bytes of a base after edits, each `place u32 | change u8`; what is left is appended. Proofs are
/// longer than what a mutation may make, so that an input says only what is different.
fn edited(base: &[u8], data: &[u8]) -> Vec<u8> {
    let mut bytes = base.to_vec();
    let (edits, rest) = data.as_chunks::<EDIT_BYTES>();
    for [a, b, c, d, change] in edits {
        let place = u32::from_le_bytes([*a, *b, *c, *d]) as usize % bytes.len();
        bytes[place] ^= change;
    }
    bytes.extend(rest);
    bytes
}

/// A proof of a preset, of elements that prove nothing.
fn hollow(number: usize) -> &'static [u8] {
    static HOLLOW: OnceLock<Vec<Vec<u8>>> = OnceLock::new();
    let all = HOLLOW.get_or_init(|| {
        let relation = chains().relation();
        let of_preset = |(groups, preset): (usize, &Preset)| {
            let count = succinct_elements(relation, preset, groups) as u32;
            let elements = (0..count).map(|i| Fp::new(i.wrapping_mul(0x9e37_79b9) >> 2));
            let elements = elements.collect();
            SuccinctProof { groups, elements }.to_bytes(relation, preset)
        };
        PRESETS.iter().enumerate().map(of_preset).collect()
    });
    &all[number]
}

/// Decodes a proof after edits; what is accepted is encoded to the same bytes.
///
/// Input: `preset u8 | edits`.
///
/// # Panics
///
/// If accepted bytes are not the ones that the encoder writes.
pub fn stark_proof(data: &[u8]) -> bool {
    let Some((&selector, edits)) = data.split_first() else {
        return false;
    };
    let number = usize::from(selector) % PRESETS.len();
    let (relation, preset) = (chains().relation(), &PRESETS[number]);
    let bytes = edited(hollow(number), edits);
    let Ok(proof) = SuccinctProof::from_bytes(relation, preset, &bytes) else {
        return false;
    };
    let again = proof.to_bytes(relation, preset);
    assert!(again == bytes, "two encodings of one proof");
    true
}

/// Both presets, and an edit of an element.
pub(crate) fn stark_proof_seeds() -> Vec<Vec<u8>> {
    let edit = [1, 0x10, 0x27, 0, 0, 1];
    vec![vec![0], vec![1], edit.to_vec()]
}

/// Evidence of few signers and of many, of zeros behind the headers' beginnings.
fn hollow_evidence() -> &'static [Vec<u8>; 2] {
    static EVIDENCE: OnceLock<[Vec<u8>; 2]> = OnceLock::new();
    EVIDENCE.get_or_init(|| {
        let proof = |signers: usize| {
            let mut bytes = b"AHP3\x03\x01".to_vec();
            bytes.resize(proofs(Preset::FAST).sizes(signers).bytes, 0);
            bytes
        };
        let part = |range: std::ops::Range<usize>| {
            let mut signers = Bitfield::new(MEMBERS);
            signers.set_range(range.clone());
            let code = support_code::encode(&Support::from_bits(signers), Coding::Rice, None);
            let proof = proof(range.len());
            let length = (proof.len() as u32).to_le_bytes();
            [code, length.to_vec(), proof].concat()
        };
        let two = [vec![TAG_PROOFS], part(0..700), part(700..SIGNERS)].concat();
        [[vec![TAG_PROOF], proof(FEW)].concat(), two]
    })
}

/// Takes evidence apart after edits: supports are disjoint and make up all signers.
///
/// Input: `few or many u8 | edits`; the places of edits of the upper half are within the first 64 bytes,
/// where tag and support stand.
///
/// # Panics
///
/// If parts that are accepted do not make up the signers.
pub fn xmss_evidence(data: &[u8]) -> bool {
    let Some((&selector, edits)) = data.split_first() else {
        return false;
    };
    let many = usize::from(selector % 2);
    let mut signers = Bitfield::new(MEMBERS);
    signers.set_range(0..[FEW, SIGNERS][many]);
    let base = &hollow_evidence()[many];
    let evidence = match selector < 128 {
        true => edited(base, edits),
        false => [edited(&base[..64], edits), base[64..].to_vec()].concat(),
    };
    let preset = preset_of_evidence(MEMBERS, &evidence).unwrap_or(Preset::FAST);
    let Ok(parts) = proofs(preset).evidence_parts(&signers, &evidence) else {
        return false;
    };
    let mut left = signers;
    for part in parts {
        assert!(part.signers.any() && part.signers.is_subset_of(&left));
        left.subtract(&part.signers);
    }
    assert!(left.none(), "signers in no part");
    true
}

/// Both, with edits anywhere or at the beginning.
pub(crate) fn xmss_evidence_seeds() -> Vec<Vec<u8>> {
    [0, 1, 128, 129].map(|selector| vec![selector]).to_vec()
}

/// Members of a registry who signed.
struct Voters {
    registry: ProofRegistry,
    signatures: Vec<Signature>,
}

fn voters() -> &'static Voters {
    static VOTERS: OnceLock<Voters> = OnceLock::new();
    VOTERS.get_or_init(|| {
        let exec = Exec::new(alphorn_stark::KERNELS.measured(), None);
        let slots = u64::from(SLOT)..u64::from(SLOT) + 1;
        let key = |i| {
            SecretKey::interop(Set::Compact, Purpose::Vote, i, slots.clone(), exec)
                .expect("a legal range")
        };
        let secrets: Vec<SecretKey> = (0..3).map(key).collect();
        let keys: Vec<PublicKey> = secrets.iter().map(|key| *key.public_key()).collect();
        let registry = proofs(Preset::FAST).registry(exec, keys, 0);
        Voters {
            registry: registry.expect("three keys"),
            signatures: secrets
                .iter()
                .map(|key| crate::xmss::vote(key, SLOT))
                .collect(),
        }
    })
}

impl Voters {
    fn bits(&self, range: Range<usize>) -> Bitfield {
        let mut bits = Bitfield::new(self.registry.len());
        bits.set_range(range);
        bits
    }

    /// Evidence that a range of them signed: a tag and a proof.
    fn evidence(&self, range: Range<usize>) -> Vec<u8> {
        let signed: Vec<Signed<'_>> = range
            .map(|i| Signed {
                position: i as u32,
                signature: &self.signatures[i],
            })
            .collect();
        let exec = Exec::new(alphorn_stark::KERNELS.measured(), None);
        proofs(Preset::FAST)
            .prove_evidence(exec, &self.registry, SLOT, &MESSAGE, &signed)
            .expect("valid signatures")
    }
}

/// Evidence of the first two.
fn proved() -> &'static [u8] {
    static PROVED: OnceLock<Vec<u8>> = OnceLock::new();
    PROVED.get_or_init(|| voters().evidence(0..2))
}

/// The merge of proofs of the first two and of the last two.
fn merged() -> &'static [u8] {
    static MERGED: OnceLock<Vec<u8>> = OnceLock::new();
    MERGED.get_or_init(|| {
        let voters = voters();
        let (first, last) = (voters.bits(0..2), voters.bits(1..3));
        let other = voters.evidence(1..3);
        // Evidence of one proof is a tag and the proof.
        let parts = [(&first, proved()), (&last, &other[..])];
        let parts = parts.map(|(signers, evidence)| ProofPart {
            signers,
            proof: &evidence[1..],
        });
        let exec = Exec::new(alphorn_stark::KERNELS.measured(), None);
        proofs(Preset::FAST)
            .merge(exec, &voters.registry, SLOT, &MESSAGE, &parts)
            .expect("two proofs of the statement")
    })
}

/// Verifies a proof after edits: it holds if and only if nothing is changed.
///
/// Input: edits.
///
/// # Panics
///
/// If an edited proof is accepted, or the untouched one refused.
pub fn xmss_proof(data: &[u8]) -> bool {
    let (voters, evidence) = (voters(), proved());
    let bytes = edited(evidence, data);
    let signers = voters.bits(0..2);
    let claimed = Claimed {
        slot: SLOT,
        message: &MESSAGE,
        signers: &signers,
    };
    let exec = Exec::new(alphorn_stark::KERNELS.measured(), None);
    let verdict = proofs(Preset::FAST).verify_evidence(exec, &voters.registry, &claimed, &bytes);
    assert_eq!(verdict.is_ok(), bytes == *evidence, "{verdict:?}");
    verdict.is_ok()
}

/// No edit, and two that cancel.
pub(crate) fn xmss_proof_seeds() -> Vec<Vec<u8>> {
    let edit = [0x10, 0x27, 0, 0, 0x41];
    vec![Vec::new(), [edit, edit].concat()]
}

/// Decodes and verifies a merge after edits, for what it proves or for something else: it holds if and only
/// if nothing is changed.
///
/// Input: `claim u8 | edits`, where the claim is the honest one, of one signer less, or of another slot or
/// message.
///
/// # Panics
///
/// If an edited merge or another claim is accepted, or the untouched one refused; or if a merge is decoded
/// of another length, or to another level than its header's.
pub fn xmss_merge(data: &[u8]) -> bool {
    let Some((&claim, edits)) = data.split_first() else {
        return false;
    };
    let (voters, merge) = (voters(), merged());
    let bytes = edited(merge, edits);
    let proofs = proofs(Preset::FAST);
    if let Ok(Some(shape)) = proofs.merge_shape(&bytes) {
        assert_eq!(bytes.len(), merge.len(), "{shape:?}");
        assert_eq!(shape.level, u32::from(bytes[LEVEL_AT]), "{shape:?}");
    }
    let claim = claim % 4;
    let signers = voters.bits(usize::from(claim == 1)..3);
    let claimed = Claimed {
        slot: SLOT + u32::from(claim == 2),
        message: &[MESSAGE[0] + u8::from(claim == 3); 32],
        signers: &signers,
    };
    let verdict = proofs.verify(
        Exec::new(alphorn_stark::KERNELS.measured(), None),
        &voters.registry,
        &claimed,
        &bytes,
    );
    let honest = claim == 0 && bytes == merge;
    assert_eq!(verdict.is_ok(), honest, "claim {claim}: {verdict:?}");
    honest
}

/// The honest claim, without an edit and with two that cancel.
pub(crate) fn xmss_merge_seeds() -> Vec<Vec<u8>> {
    let edit = [0x10, 0x27, 0, 0, 0x41];
    vec![vec![0], [&[0], &edit[..], &edit].concat()]
}
