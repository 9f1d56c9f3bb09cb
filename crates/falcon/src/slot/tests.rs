//! One signature per target, what two would give away, and signatures against the crate `fn-dsa`.

use alphorn_exec::Backend;
use alphorn_labrador::KERNELS;
use alphorn_labrador::sis::Profile;
use alphorn_scheme::{MemoryWatermark, Refused, SignItem, Watermark};
use alphorn_types::Validator;
use fn_dsa_original::{
    CryptoRng, DOMAIN_NONE, HASH_ID_ORIGINAL_FALCON, RngCore, RngError, VerifyingKey,
    VerifyingKeyStandard,
};
use proptest::prelude::*;

use super::*;
use crate::aggregate::{AggregateError, Aggregator, Signed, split_salts};
use crate::basis::{numbers, short_bytes};
use crate::codec::{decode_key, decode_signature, encode_key, encode_signature};
use crate::plain::open_batch;
use crate::ring::Polys;
use crate::{DEGREE, Item, MODULUS, OriginalKey, SigningKey, verify};

const MESSAGE: [u8; 32] = [7; 32];

/// Bytes of a signature of degree 512.
const SIGNATURE_BYTES: usize = Flavour::Slot.signature_bytes();

fn item(role: Role) -> SignItem {
    SignItem::new(Validator(0), role, MESSAGE)
}

fn permit(slot: u64, role: Role) -> Reservation {
    Reservation::issue(Slot(slot), &item(role))
}

fn holds<const N: usize>(key: &PublicKey<N>, message: &[u8], signature: &[u8]) -> bool {
    let item = Item {
        key,
        message,
        signature,
    };
    verify(&item).is_ok()
}

/// Returns `s1` and `s2` of a valid signature.
fn opened(key: &PublicKey, message: &[u8], signature: &[u8]) -> [[i16; DEGREE]; 2] {
    let item = Item {
        key,
        message,
        signature,
    };
    let opened = open_batch(&[item], Backend::Portable).remove(0);
    let opened = opened.expect("a signature");
    [opened.s1, opened.s2]
}

/// Whether `d1 + d2 h = 0` modulo `q`, that is, whether it is a vector of the key's lattice.
fn is_in_lattice(key: &PublicKey, [d1, d2]: &[[i16; DEGREE]; 2]) -> bool {
    let (mut sum, mut product, mut h) = (Polys::<1, DEGREE>::zero(), Polys::zero(), Polys::zero());
    sum.load(0, &d1.map(|c| -c));
    product.load(0, d2);
    product.reduce();
    product.forward();
    h.load(0, key.values());
    product.multiply(&h);
    product.inverse();
    sum.reduce();
    sum.subtract(&product);
    sum.centre();
    let mut rest = [0; DEGREE];
    sum.store(0, &mut rest);
    rest == [0; DEGREE]
}

fn norm_sq(vector: &[[i16; DEGREE]; 2]) -> u64 {
    let square = |c: &i16| u64::from(c.unsigned_abs()).pow(2);
    vector.as_flattened().iter().map(square).sum()
}

fn difference(a: &[[i16; DEGREE]; 2], b: &[[i16; DEGREE]; 2]) -> [[i16; DEGREE]; 2] {
    std::array::from_fn(|row| std::array::from_fn(|i| a[row][i] - b[row][i]))
}

fn fn_dsa_says<const N: usize>(key: &PublicKey<N>, signed: &[u8], signature: &[u8]) -> bool {
    let Some((signature, message)) = as_original(key, signed, signature) else {
        return false;
    };
    let key = VerifyingKeyStandard::decode(key.bytes()).expect("a key");
    key.verify(&signature, &DOMAIN_NONE, &HASH_ID_ORIGINAL_FALCON, &message)
}

fn a_signature_holds<const N: usize>() {
    for i in 0..3 {
        let key = SlotKey::<N>::interop(i);
        let signature = key.sign(permit(5, Role::Vote)).expect("a new permit");
        assert_eq!(signature.len(), Flavour::Slot.signature_bytes_of(N));
        let signed = signed_bytes(Slot(5), Role::Vote, &MESSAGE);
        assert!(holds(key.public(), &signed, &signature));
        assert!(fn_dsa_says(key.public(), &signed, &signature));
        for other in [
            signed_bytes(Slot(6), Role::Vote, &MESSAGE),
            signed_bytes(Slot(5), Role::Block, &MESSAGE),
            signed_bytes(Slot(5), Role::Vote, &[8; 32]),
        ] {
            assert!(!holds(key.public(), &other, &signature));
        }
        let stranger = SlotKey::<N>::interop(99);
        assert!(!holds(stranger.public(), &signed, &signature));
        let again = SlotKey::<N>::from_bytes(key.bytes()).expect("an encoded key");
        assert_eq!(again.public(), key.public());
        assert_eq!(again.sign(permit(5, Role::Vote)), Ok(signature));
        // The encodings are those of original Falcon, but everything else differs.
        let original = OriginalKey::<N>::interop(i);
        assert_ne!(key.public().bytes(), original.public().bytes());
    }
}

#[test]
fn a_signature_holds_for_its_key_slot_role_and_message_alone() {
    a_signature_holds::<512>();
    a_signature_holds::<1024>();
}

/// The attack: a signer that ignores the rule signs one target twice. Both signatures are valid, and their
/// difference is a vector of the key's lattice below `2 beta`, which GPV's proof assumes to be
/// impossible. The vector known without them, `(q, 0)`, is longer.
#[test]
fn two_signatures_of_one_target_are_a_short_vector_of_the_lattice() {
    let key = SlotKey::interop(1);
    let signed = signed_bytes(Slot(9), Role::Vote, &MESSAGE);
    let twice = [[0; 32], [1; 32]].map(|entropy| key.preimage(&signed, &[b"careless", &entropy]));
    assert_ne!(twice[0], twice[1]);
    let [a, b] = twice.map(|signature| {
        assert!(holds(key.public(), &signed, &signature));
        opened(key.public(), &signed, &signature)
    });
    let short = difference(&a, &b);
    assert!(is_in_lattice(key.public(), &short));
    assert_ne!(norm_sq(&short), 0);
    assert!(norm_sq(&short) <= 4 * Parameters::of(DEGREE).norm_sq_max);
    assert!(norm_sq(&short) < u64::from(MODULUS).pow(2));
    // Two targets give nothing: their difference is not a vector of the lattice.
    let other = signed_bytes(Slot(10), Role::Vote, &MESSAGE);
    let signature = key.preimage(&other, &[b"careless"]);
    let c = opened(key.public(), &other, &signature);
    assert!(!is_in_lattice(key.public(), &difference(&a, &c)));
}

/// The worse attack: the same seed, and one rounding that came out differently (eprint 2024/1709).
/// The two signatures differ by a row of the secret basis, so an observer of both has the key. The
/// discrepancy is produced here by adding that row; the attacker uses only the signatures.
#[test]
fn one_rounding_that_differs_gives_the_key_away() {
    let key = SlotKey::interop(2);
    let signed = signed_bytes(Slot(9), Role::Vote, &MESSAGE);
    let signature = key.sign(permit(9, Role::Vote)).expect("a new permit");
    let seen = opened(key.public(), &signed, &signature);
    let short = |i: usize| {
        let bytes = &key.bytes()[1 + short_bytes(DEGREE) * i..][..short_bytes(DEGREE)];
        numbers(Flavour::Slot, bytes, Parameters::of(DEGREE).short_bits)
    };
    let (f, g) = (short(0), short(1));
    // The row `(g, -f)` of the basis.
    let mut s2 = seen[1];
    s2.iter_mut().zip(f.iter()).for_each(|(s2, f)| *s2 -= f);
    let other = encode_signature(Flavour::Slot, None, &s2).expect("short");
    assert!(holds(key.public(), &signed, &other), "both hold");
    // The attacker: the difference is so short that it can only be a row, and `h = g / f`.
    let row = difference(&opened(key.public(), &signed, &other), &seen);
    assert!(is_in_lattice(key.public(), &row));
    assert!(norm_sq(&row) < 137 * u64::from(MODULUS) / 100, "1.17^2 q");
    assert_eq!((row[0], row[1].map(|c| -c)), (*g, *f));
}

/// The rule: a store gives a slot out once, a permit allows one signature, and a permit given out
/// again is refused, even for the same message.
#[test]
fn exactly_one_signature_of_a_target_leaves() {
    let key = SigningKey::<512>::interop(Flavour::Slot, 3);
    let store = MemoryWatermark::new(1);
    let reserve = |slot, role| store.reserve(Slot(slot), &item(role));
    // The permit is consumed: the compiler refuses a second use.
    let sign = |permit| key.sign(permit, &[0; 32]);
    let signature = sign(reserve(5, Role::Vote).expect("free"));
    assert!(signature.is_ok());
    assert!(matches!(reserve(5, Role::Vote), Err(Refused::Used { .. })));
    assert!(matches!(reserve(4, Role::Vote), Err(Refused::Used { .. })));
    // Another role of the slot is another target.
    assert!(sign(reserve(5, Role::Block).expect("free")).is_ok());
    let again = || Reservation::issue_again(Slot(5), &item(Role::Vote));
    let refused = SignError::Again {
        slot: 5,
        role: Role::Vote,
    };
    assert_eq!(sign(again()), Err(refused));
    // A flavour with salts has no such rule: a message has a new target for each entropy, and with the same entropy
    // the same signature.
    for flavour in [Flavour::FnDsa, Flavour::Original] {
        let key = SigningKey::<512>::interop(flavour, 3);
        let twice = [0, 1].map(|entropy| key.sign(again(), &[entropy; 32]).expect("no rule"));
        assert_ne!(twice[0], twice[1]);
        assert_eq!(key.sign(again(), &[1; 32]).as_ref(), Ok(&twice[1]));
    }
}

/// A generator that records how much was drawn at a time.
struct Remembering(Drawn, Vec<usize>);

impl CryptoRng for Remembering {}

impl RngCore for Remembering {
    fn next_u32(&mut self) -> u32 {
        unreachable!("the signer draws bytes")
    }

    fn next_u64(&mut self) -> u64 {
        unreachable!("the signer draws bytes")
    }

    fn fill_bytes(&mut self, out: &mut [u8]) {
        self.1.push(out.len());
        self.0.fill_bytes(out);
    }

    fn try_fill_bytes(&mut self, out: &mut [u8]) -> Result<(), RngError> {
        self.fill_bytes(out);
        Ok(())
    }
}

/// Behaviour on which we rely in the library's signer: it draws one salt, before anything else, and then
/// a seed for each attempt, so all attempts have the same target.
#[test]
fn the_signer_draws_one_salt_and_a_seed_for_each_attempt() {
    let key = SlotKey::<512>::interop(6);
    for slot in 0..64 {
        let signed = signed_bytes(Slot(slot), Role::Vote, &MESSAGE);
        let expanded = expand(key.public().digest(), &signed);
        let (salt, representative) = expanded.split_at(SALT_BYTES);
        let parts = [SIGN_LABEL, key.bytes(), &expanded];
        let drawn = Drawn::of(salt.first_chunk().copied(), &parts);
        let mut rng = Remembering(drawn, Vec::new());
        let original = key.draw(&mut rng, representative);
        assert_eq!(&original[1..=SALT_BYTES], salt, "another target");
        assert_eq!(rng.1[0], SALT_BYTES);
        assert!(!rng.1[1..].is_empty() && rng.1[1..].iter().all(|&bytes| bytes == 56));
        let signature = key.sign(permit(slot, Role::Vote)).expect("a new permit");
        assert_eq!(original[1 + SALT_BYTES..], signature[1..]);
    }
}

/// The second line of defence: a store that forgot allows the same target to be signed again, and as long as
/// the arithmetic is the same, so is the signature.
#[test]
fn a_store_that_forgot_gives_the_same_signature_again() {
    let key = SlotKey::interop(3);
    let sign = |store: MemoryWatermark, message| {
        let item = SignItem::new(Validator(0), Role::Vote, message);
        let permit = store.reserve(Slot(5), &item).expect("the store is new");
        key.sign(permit).expect("a new permit")
    };
    let first = sign(MemoryWatermark::new(1), MESSAGE);
    assert_eq!(sign(MemoryWatermark::new(1), MESSAGE), first);
    // Another message in the slot is an equivocation, and another target.
    let other = sign(MemoryWatermark::new(1), [8; 32]);
    let opened = |message, signature: &[u8]| {
        opened(
            key.public(),
            &signed_bytes(Slot(5), Role::Vote, message),
            signature,
        )
    };
    let both = difference(&opened(&MESSAGE, &first), &opened(&[8; 32], &other));
    assert!(!is_in_lattice(key.public(), &both));
}

/// Why the key is in the hash. Otherwise `-h` is a key for which `(s1, -s2)` is a signature of
/// the same target: a validator that registers it copies each vote of `h` and holds no secret.
#[test]
fn a_key_made_of_another_has_no_signature() {
    let negated = |key: &PublicKey| {
        let h: [u16; DEGREE] = decode_key(key.flavour(), key.bytes()).expect("a key");
        let bytes = encode_key(key.flavour(), &h.map(|c| (MODULUS - c) % MODULUS));
        PublicKey::<DEGREE>::from_bytes(key.flavour(), &bytes).expect("a key")
    };
    let mirrored = |flavour: Flavour, signature: &[u8]| {
        let (salt, s2) = decode_signature::<512>(flavour, signature).expect("a signature");
        encode_signature(flavour, salt.as_ref(), &s2.map(|c| -c)).expect("as short")
    };
    let victim = OriginalKey::interop(4);
    let signature = victim.sign(&MESSAGE, &[0; 32]);
    let copied = mirrored(Flavour::Original, &signature);
    assert!(
        holds(&negated(victim.public()), &MESSAGE, &copied),
        "the attack"
    );
    let victim = SlotKey::interop(4);
    let signature = victim.sign(permit(1, Role::Vote)).expect("a new permit");
    let signed = signed_bytes(Slot(1), Role::Vote, &MESSAGE);
    let copied = mirrored(Flavour::Slot, &signature);
    assert!(!holds(&negated(victim.public()), &signed, &copied));
}

/// Returns what a proof states about signatures of one message.
fn claimed<'a, const N: usize>(keys: &'a [SlotKey<N>], message: &'a [u8]) -> Vec<Signed<'a, N>> {
    let keys = keys.iter().map(SlotKey::public);
    keys.map(|key| Signed {
        key,
        message,
        salt: None,
    })
    .collect()
}

/// Returns the vote of each key in slot 5.
fn signatures<const N: usize>(keys: &[SlotKey<N>]) -> Vec<Vec<u8>> {
    let sign = |key: &SlotKey<N>| key.sign(permit(5, Role::Vote)).expect("a new permit");
    keys.iter().map(sign).collect()
}

fn items<'a, const N: usize>(
    keys: &'a [SlotKey<N>],
    message: &'a [u8],
    signatures: &'a [Vec<u8>],
) -> Vec<Item<'a, N>> {
    let item = |(key, signature): (&'a SlotKey<N>, &'a Vec<u8>)| Item {
        key: key.public(),
        message,
        signature,
    };
    keys.iter().zip(signatures).map(item).collect()
}

fn a_proof_without_salts<const N: usize>() {
    let keys: Vec<SlotKey<N>> = (0..6).map(SlotKey::interop).collect();
    let signed = signed_bytes(Slot(5), Role::Vote, &MESSAGE);
    let signatures = signatures(&keys);
    let items = items(&keys, &signed, &signatures);
    let aggregator = Aggregator::new(6, Profile::Core128, KERNELS.measured()).expect("legal");
    let (salts, proof) = aggregator.prove(&items, b"c").expect("valid");
    assert!(salts.is_empty());
    let (none, behind) = split_salts(Flavour::Slot, 6, &proof).expect("no salts");
    assert_eq!((none, behind), (vec![None; 6], &proof[..]));
    assert_eq!(
        aggregator.verify(&claimed(&keys, &signed), b"c", &proof),
        Ok(())
    );
    for other in [
        signed_bytes(Slot(6), Role::Vote, &MESSAGE),
        signed_bytes(Slot(5), Role::Aggregate, &MESSAGE),
        signed_bytes(Slot(5), Role::Vote, &[8; 32]),
    ] {
        let verdict = aggregator.verify(&claimed(&keys, &other), b"c", &proof);
        assert!(
            matches!(verdict, Err(AggregateError::Reject(_))),
            "{verdict:?}"
        );
    }
    let mut salted = claimed(&keys, &signed);
    salted[2].salt = Some(&[0; SALT_BYTES]);
    let refused = AggregateError::Salt {
        index: 2,
        flavour: "slot",
        found: 40,
        expected: 0,
    };
    assert_eq!(aggregator.verify(&salted, b"c", &proof), Err(refused));
}

/// Proofs without salts: only the existence of the signatures is on the wire, and each part of the signed
/// data is bound.
#[test]
fn a_proof_needs_no_salts() {
    a_proof_without_salts::<512>();
    a_proof_without_salts::<1024>();
}

/// The bytes of a signature and of a small proof: changing them changes the protocol. A signature
/// that differs on some host means that a rounding differs, of which the module's text warns.
#[test]
fn a_signature_and_a_small_proof_have_their_pinned_bytes() {
    let keys: Vec<SlotKey> = (0..3).map(SlotKey::interop).collect();
    let signed = signed_bytes(Slot(5), Role::Vote, &MESSAGE);
    let signatures = signatures(&keys);
    let items = items(&keys, &signed, &signatures);
    let aggregator = Aggregator::new(3, Profile::Core128, KERNELS.measured()).expect("legal");
    let (_, proof) = aggregator.prove(&items, b"c").expect("valid");
    let pinned = include_str!("../../../../conformance.toml");
    for (name, bytes) in [
        ("slot.signature", &signatures[0][..]),
        ("slot.proof.core128.3", &proof),
    ] {
        let digest: String = (<sha2::Sha256 as sha2::Digest>::digest(bytes).iter())
            .map(|byte| format!("{byte:02x}"))
            .collect();
        let length = bytes.len();
        let line = format!("{{ name = \"{name}\", bytes = {length}, sha256 = \"{digest}\" }}");
        assert!(pinned.contains(&line), "conformance.toml lacks {line}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Every bit flip gets the verdict of the crate `fn-dsa`.
    #[test]
    fn verdicts_of_changed_signatures_agree(byte in 0..SIGNATURE_BYTES, bit in 0..8, s in 0..4u64) {
        let key = SlotKey::<512>::interop(2);
        let mut signature = key.sign(permit(s, Role::Vote)).expect("a new permit");
        signature[byte] ^= 1u8 << bit;
        let signed = signed_bytes(Slot(s), Role::Vote, &MESSAGE);
        let here = holds(key.public(), &signed, &signature);
        prop_assert_eq!(here, fn_dsa_says(key.public(), &signed, &signature));
    }
}
