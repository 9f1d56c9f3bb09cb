//! Makes `vectors/bls`: every answer comes from two implementations that are not ours, blst's own
//! Rust interface and arkworks, and enters only where they agree.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ark_bls12_381::{
    Bls12_381, Fq, Fq2, Fr, G1Affine, G1Projective, G2Affine, G2Projective, g1, g2,
};
use ark_ec::hashing::HashToCurve;
use ark_ec::hashing::curve_maps::wb::WBMap;
use ark_ec::hashing::map_to_curve_hasher::MapToCurveBasedHasher;
use ark_ec::pairing::Pairing;
use ark_ec::{AffineRepr, CurveGroup};
use ark_ff::field_hashers::DefaultFieldHasher;
use ark_ff::{BigInteger, Field, PrimeField, Zero};
use ark_serialize::{CanonicalDeserialize, CanonicalSerialize};
use blst::{BLST_ERROR, min_pk};
use serde_json::{Value, json};
use sha2_010::Sha256;

const SIGNATURE_TAG: &[u8] = b"BLS_SIG_BLS12381G2_XMD:SHA-256_SSWU_RO_POP_";
const KEYS: [&str; 3] = [
    "263dbd792f5b1be47ed85f8938c0f29586af0d3ac7b977f21c278fe1462040e3",
    "47b8192d77bf871b62e87859d653922725724a5c031afeabc60bcef5ff665138",
    "328388aff0d4a5b7dc9205abd374e7e98f3cd9f3418edb4eafda5fb16473d216",
];
const MESSAGES: [[u8; 32]; 3] = [[0x00; 32], [0x56; 32], [0xab; 32]];

fn hexed(bytes: &[u8]) -> String {
    format!("0x{}", hex::encode(bytes))
}

fn infinity(len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    bytes[0] = 0xc0;
    bytes
}

/// Arkworks' side of each operation.
mod ark {
    use super::*;

    pub(crate) fn hash_g2(message: &[u8], tag: &[u8]) -> G2Affine {
        type Hasher =
            MapToCurveBasedHasher<G2Projective, DefaultFieldHasher<Sha256, 128>, WBMap<g2::Config>>;
        Hasher::new(tag).unwrap().hash(message).unwrap()
    }

    pub(crate) fn hash_g1(message: &[u8], tag: &[u8]) -> G1Affine {
        type Hasher =
            MapToCurveBasedHasher<G1Projective, DefaultFieldHasher<Sha256, 128>, WBMap<g1::Config>>;
        Hasher::new(tag).unwrap().hash(message).unwrap()
    }

    fn encode(point: &impl CanonicalSerialize) -> Vec<u8> {
        let mut out = Vec::new();
        point.serialize_compressed(&mut out).unwrap();
        out
    }

    pub(crate) fn scalar(key: &[u8]) -> Option<Fr> {
        let scalar = Fr::from_be_bytes_mod_order(key);
        let canonical = scalar.into_bigint().to_bytes_be();
        (!scalar.is_zero() && canonical == key).then_some(scalar)
    }

    pub(crate) fn public_key(key: &[u8]) -> Vec<u8> {
        encode(&(G1Affine::generator() * scalar(key).unwrap()).into_affine())
    }

    pub(crate) fn sign(key: &[u8], message: &[u8]) -> Option<Vec<u8>> {
        Some(encode(
            &(hash_g2(message, SIGNATURE_TAG) * scalar(key)?).into_affine(),
        ))
    }

    /// Decodes strictly: the input is used up, the point is in its subgroup.
    pub(crate) fn g1(bytes: &[u8]) -> Option<G1Affine> {
        (bytes.len() == 48)
            .then(|| G1Affine::deserialize_compressed(bytes).ok())
            .flatten()
    }

    pub(crate) fn g2(bytes: &[u8]) -> Option<G2Affine> {
        (bytes.len() == 96)
            .then(|| G2Affine::deserialize_compressed(bytes).ok())
            .flatten()
    }

    pub(crate) fn aggregate(signatures: &[Vec<u8>]) -> Option<Vec<u8>> {
        let points: Option<Vec<G2Affine>> = signatures.iter().map(|s| g2(s)).collect();
        let points = points.filter(|points| !points.is_empty())?;
        Some(encode(&points.iter().sum::<G2Projective>().into_affine()))
    }

    fn product_is_one(mut pairs: Vec<(G1Affine, G2Affine)>, signature: G2Affine) -> bool {
        pairs.push((-G1Affine::generator(), signature));
        let (ps, qs): (Vec<_>, Vec<_>) = pairs.into_iter().unzip();
        Bls12_381::multi_pairing(ps, qs).is_zero()
    }

    pub(crate) fn aggregate_verify(
        keys: &[Vec<u8>],
        messages: &[Vec<u8>],
        signature: &[u8],
    ) -> bool {
        let points: Option<Vec<G1Affine>> = keys
            .iter()
            .map(|key| g1(key).filter(|point| !point.is_zero()))
            .collect();
        let (Some(points), Some(signature)) = (points, g2(signature)) else {
            return false;
        };
        if points.is_empty() || points.len() != messages.len() {
            return false;
        }
        let hashes = messages
            .iter()
            .map(|message| hash_g2(message, SIGNATURE_TAG));
        product_is_one(points.into_iter().zip(hashes).collect(), signature)
    }

    pub(crate) fn fast_aggregate_verify(
        keys: &[Vec<u8>],
        message: &[u8],
        signature: &[u8],
    ) -> bool {
        let points: Option<Vec<G1Affine>> = keys
            .iter()
            .map(|key| g1(key).filter(|point| !point.is_zero()))
            .collect();
        let (Some(points), Some(signature)) = (points, g2(signature)) else {
            return false;
        };
        let sum = points.iter().sum::<G1Projective>().into_affine();
        !sum.is_zero() && product_is_one(vec![(sum, hash_g2(message, SIGNATURE_TAG))], signature)
    }
}

/// blst's side of each operation.
mod peer {
    use super::*;

    pub(crate) fn secret(key: &[u8]) -> Option<min_pk::SecretKey> {
        min_pk::SecretKey::from_bytes(key).ok()
    }

    pub(crate) fn sign(key: &[u8], message: &[u8]) -> Option<Vec<u8>> {
        Some(
            secret(key)?
                .sign(message, SIGNATURE_TAG, &[])
                .to_bytes()
                .to_vec(),
        )
    }

    pub(crate) fn g1(bytes: &[u8]) -> Option<min_pk::PublicKey> {
        let point = min_pk::PublicKey::uncompress(bytes).ok()?;
        // The identity is a point of the group; `validate` refuses it.
        (bytes == infinity(48) || point.validate().is_ok()).then_some(point)
    }

    pub(crate) fn g2(bytes: &[u8]) -> Option<min_pk::Signature> {
        let point = min_pk::Signature::uncompress(bytes).ok()?;
        point.subgroup_check().then_some(point)
    }

    pub(crate) fn aggregate(signatures: &[Vec<u8>]) -> Option<Vec<u8>> {
        let points: Option<Vec<min_pk::Signature>> = signatures.iter().map(|s| g2(s)).collect();
        let points = points?;
        let refs: Vec<&min_pk::Signature> = points.iter().collect();
        Some(
            min_pk::AggregateSignature::aggregate(&refs, true)
                .ok()?
                .to_signature()
                .to_bytes()
                .to_vec(),
        )
    }

    fn keys(keys: &[Vec<u8>]) -> Option<Vec<min_pk::PublicKey>> {
        keys.iter()
            .map(|key| min_pk::PublicKey::key_validate(key).ok())
            .collect()
    }

    pub(crate) fn aggregate_verify(
        list: &[Vec<u8>],
        messages: &[Vec<u8>],
        signature: &[u8],
    ) -> bool {
        let (Some(points), Some(signature)) = (keys(list), g2(signature)) else {
            return false;
        };
        let points: Vec<&min_pk::PublicKey> = points.iter().collect();
        let messages: Vec<&[u8]> = messages.iter().map(Vec::as_slice).collect();
        signature.aggregate_verify(true, &messages, SIGNATURE_TAG, &points, true)
            == BLST_ERROR::BLST_SUCCESS
    }

    pub(crate) fn fast_aggregate_verify(
        list: &[Vec<u8>],
        message: &[u8],
        signature: &[u8],
    ) -> bool {
        let (Some(points), Some(signature)) = (keys(list), g2(signature)) else {
            return false;
        };
        let points: Vec<&min_pk::PublicKey> = points.iter().collect();
        signature.fast_aggregate_verify(true, message, SIGNATURE_TAG, &points)
            == BLST_ERROR::BLST_SUCCESS
    }
}

/// The files, by path below `vectors/bls`.
#[derive(Default)]
struct Cases(BTreeMap<String, Value>);

impl Cases {
    fn add(&mut self, category: &str, name: &str, input: Value, output: Value) {
        let path = format!("{category}/{name}.json");
        assert!(
            self.0
                .insert(path, json!({ "input": input, "output": output }))
                .is_none(),
            "{name} twice"
        );
    }

    /// Adds what both say, if they say the same.
    fn agreed<T: PartialEq + std::fmt::Debug + Into<Value>>(
        &mut self,
        category: &str,
        name: &str,
        input: Value,
        answers: [T; 2],
    ) {
        let [ark, blst] = answers;
        assert_eq!(ark, blst, "arkworks and blst differ on {category}/{name}");
        self.add(category, name, input, ark.into());
    }
}

fn keys() -> Vec<Vec<u8>> {
    KEYS.iter().map(|key| hex::decode(key).unwrap()).collect()
}

fn publics() -> Vec<Vec<u8>> {
    keys().iter().map(|key| ark::public_key(key)).collect()
}

fn signature(key: &[u8], message: &[u8]) -> Vec<u8> {
    ark::sign(key, message).unwrap()
}

fn tampered(signature: &[u8]) -> Vec<u8> {
    let mut bytes = signature.to_vec();
    bytes[92..].fill(0xff);
    bytes
}

fn hex_list(list: &[Vec<u8>]) -> Vec<String> {
    list.iter().map(|bytes| hexed(bytes)).collect()
}

fn signing(cases: &mut Cases) {
    let some_hex = |bytes: Option<Vec<u8>>| bytes.map(|bytes| hexed(&bytes));
    for (k, key) in keys().iter().enumerate() {
        for (m, message) in MESSAGES.iter().enumerate() {
            let input = json!({ "privkey": hexed(key), "message": hexed(message) });
            let answers = [ark::sign(key, message), peer::sign(key, message)].map(some_hex);
            cases.agreed("sign", &format!("sign_key{k}_message{m}"), input, answers);
        }
    }
    let order = "73eda753299d7d483339d80809a1d80553bda402fffe5bfeffffffff00000001";
    for (name, key) in [
        ("zero_privkey", vec![0; 32]),
        ("privkey_is_the_order", hex::decode(order).unwrap()),
    ] {
        let input = json!({ "privkey": hexed(&key), "message": hexed(&MESSAGES[2]) });
        let answers = [
            ark::sign(&key, &MESSAGES[2]),
            peer::sign(&key, &MESSAGES[2]),
        ]
        .map(some_hex);
        cases.agreed("sign", &format!("sign_{name}"), input, answers);
    }
}

fn verifying(cases: &mut Cases) {
    let mut add = |name: &str, key: &[u8], message: &[u8], signature: &[u8]| {
        let input = json!({ "pubkey": hexed(key), "message": hexed(message), "signature": hexed(signature) });
        let list = [key.to_vec()];
        let answers = [
            ark::fast_aggregate_verify(&list, message, signature),
            peer::fast_aggregate_verify(&list, message, signature),
        ];
        cases.agreed("verify", name, input, answers);
    };
    let publics = publics();
    for (k, key) in keys().iter().enumerate() {
        for (m, message) in MESSAGES.iter().enumerate() {
            let signature = signature(key, message);
            add(
                &format!("verify_valid_key{k}_message{m}"),
                &publics[k],
                message,
                &signature,
            );
            add(
                &format!("verify_wrong_pubkey_key{k}_message{m}"),
                &publics[(k + 1) % 3],
                message,
                &signature,
            );
            add(
                &format!("verify_tampered_signature_key{k}_message{m}"),
                &publics[k],
                message,
                &tampered(&signature),
            );
        }
    }
    let one = [vec![0; 31], vec![1]].concat();
    add(
        "verify_one_privkey",
        &ark::public_key(&one),
        &MESSAGES[2],
        &signature(&one, &MESSAGES[2]),
    );
    add(
        "verify_infinity_pubkey_and_infinity_signature",
        &infinity(48),
        &MESSAGES[1],
        &infinity(96),
    );
    add(
        "verify_infinity_signature",
        &publics[0],
        &MESSAGES[1],
        &infinity(96),
    );
}

fn aggregating(cases: &mut Cases) {
    let mut add = |name: &str, signatures: &[Vec<u8>]| {
        let answers = [ark::aggregate(signatures), peer::aggregate(signatures)];
        let answers = answers.map(|bytes| bytes.map(|bytes| hexed(&bytes)));
        cases.agreed("aggregate", name, json!(hex_list(signatures)), answers);
    };
    for (m, message) in MESSAGES.iter().enumerate() {
        let signatures: Vec<Vec<u8>> = keys().iter().map(|key| signature(key, message)).collect();
        add(&format!("aggregate_message{m}"), &signatures);
    }
    let single = signature(&keys()[0], &MESSAGES[0]);
    add("aggregate_single_signature", std::slice::from_ref(&single));
    add("aggregate_infinity_signature", &[infinity(96)]);
    add("aggregate_na_signatures", &[]);
    add("aggregate_one_infinity_among_good", &[single, infinity(96)]);
}

fn aggregate_verifying(cases: &mut Cases) {
    let messages: Vec<Vec<u8>> = MESSAGES.iter().map(|message| message.to_vec()).collect();
    let parts: Vec<Vec<u8>> = keys()
        .iter()
        .zip(&messages)
        .map(|(key, message)| signature(key, message))
        .collect();
    let sum = ark::aggregate(&parts).unwrap();
    let mut add = |name: &str, keys: &[Vec<u8>], messages: &[Vec<u8>], signature: &[u8]| {
        let input = json!({ "pubkeys": hex_list(keys), "messages": hex_list(messages), "signature": hexed(signature) });
        let answers = [
            ark::aggregate_verify(keys, messages, signature),
            peer::aggregate_verify(keys, messages, signature),
        ];
        cases.agreed(
            "aggregate_verify",
            &format!("aggregate_verify_{name}"),
            input,
            answers,
        );
    };
    let publics = publics();
    add("valid", &publics, &messages, &sum);
    add("tampered_signature", &publics, &messages, &tampered(&sum));
    add("na_pubkeys_and_infinity_signature", &[], &[], &infinity(96));
    add("na_pubkeys_and_na_signature", &[], &[], &[0; 96]);
    let with_infinity = [publics.clone(), vec![infinity(48)]].concat();
    let more_messages = [messages.clone(), vec![vec![0x12; 32]]].concat();
    add("infinity_pubkey", &with_infinity, &more_messages, &sum);
}

fn fast_aggregate_verifying(cases: &mut Cases) {
    let mut add = |name: &str, keys: &[Vec<u8>], message: &[u8], signature: &[u8]| {
        let input = json!({ "pubkeys": hex_list(keys), "message": hexed(message), "signature": hexed(signature) });
        let answers = [
            ark::fast_aggregate_verify(keys, message, signature),
            peer::fast_aggregate_verify(keys, message, signature),
        ];
        cases.agreed(
            "fast_aggregate_verify",
            &format!("fast_aggregate_verify_{name}"),
            input,
            answers,
        );
    };
    let publics = publics();
    for (m, message) in MESSAGES.iter().enumerate() {
        let count = m + 1;
        let parts: Vec<Vec<u8>> = keys()[..count]
            .iter()
            .map(|key| signature(key, message))
            .collect();
        let sum = ark::aggregate(&parts).unwrap();
        add(&format!("valid_{m}"), &publics[..count], message, &sum);
        let extra = [publics[..count].to_vec(), vec![publics[2].clone()]].concat();
        add(&format!("extra_pubkey_{m}"), &extra, message, &sum);
        add(
            &format!("tampered_signature_{m}"),
            &publics[..count],
            message,
            &tampered(&sum),
        );
    }
    add(
        "na_pubkeys_and_infinity_signature",
        &[],
        &MESSAGES[2],
        &infinity(96),
    );
    add("na_pubkeys_and_na_signature", &[], &MESSAGES[2], &[0; 96]);
    let parts: Vec<Vec<u8>> = keys()
        .iter()
        .map(|key| signature(key, &MESSAGES[1]))
        .collect();
    let with_infinity = [publics, vec![infinity(48)]].concat();
    add(
        "infinity_pubkey",
        &with_infinity,
        &MESSAGES[1],
        &ark::aggregate(&parts).unwrap(),
    );
}

/// Either implementation's check of one message under some keys.
type FastAggregateVerify = fn(&[Vec<u8>], &[u8], &[u8]) -> bool;

fn batch_verifying(cases: &mut Cases) {
    let messages: Vec<Vec<u8>> = MESSAGES.iter().map(|message| message.to_vec()).collect();
    let good: Vec<Vec<u8>> = keys()
        .iter()
        .zip(&messages)
        .map(|(key, message)| signature(key, message))
        .collect();
    let mut forged = good.clone();
    forged.swap(0, 1);
    let mut infinite = good.clone();
    infinite[1] = infinity(96);
    let sets = [
        ("valid_simple_signature_set", good),
        ("invalid_forged_signature_set", forged),
        ("invalid_infinity_among_good", infinite),
    ];
    for (name, signatures) in sets {
        let input = json!({ "pubkeys": hex_list(&publics()), "messages": hex_list(&messages), "signatures": hex_list(&signatures) });
        let each = |verify: FastAggregateVerify| {
            let keys = publics();
            (0..3).all(|i| verify(&keys[i..=i], &messages[i], &signatures[i]))
        };
        let answers = [
            each(ark::fast_aggregate_verify),
            each(peer::fast_aggregate_verify),
        ];
        cases.agreed(
            "batch_verify",
            &format!("batch_verify_{name}"),
            input,
            answers,
        );
    }
}

fn hashing(cases: &mut Cases) {
    let messages: [(&str, String); 5] = [
        ("empty", String::new()),
        ("abc", "abc".into()),
        ("abcdef0123456789", "abcdef0123456789".into()),
        ("q128", format!("q128_{}", "q".repeat(128))),
        ("a512", format!("a512_{}", "a".repeat(512))),
    ];
    let fp = |value: &Fq| hexed(&value.into_bigint().to_bytes_be());
    let fp2 = |value: &Fq2| format!("{},{}", fp(&value.c0), fp(&value.c1));
    for (name, message) in messages {
        let tag = "QUUX-V01-CS02-with-BLS12381G2_XMD:SHA-256_SSWU_RO_";
        let point = ark::hash_g2(message.as_bytes(), tag.as_bytes());
        // blst shows no hash: the signature of the secret key 1 is the hash itself.
        let one = peer::secret(&[vec![0; 31], vec![1]].concat()).unwrap();
        let same = one.sign(message.as_bytes(), tag.as_bytes(), &[]).to_bytes();
        assert_eq!(ark::g2(&same), Some(point));
        let output = json!({ "x": fp2(&point.x), "y": fp2(&point.y) });
        cases.add(
            "hash_to_G2",
            &format!("hash_to_G2_{name}"),
            json!({ "msg": message, "dst": tag }),
            output,
        );

        let tag = "QUUX-V01-CS02-with-BLS12381G1_XMD:SHA-256_SSWU_RO_";
        let point = ark::hash_g1(message.as_bytes(), tag.as_bytes());
        let one = blst::min_sig::SecretKey::from_bytes(&[vec![0; 31], vec![1]].concat()).unwrap();
        let same = one.sign(message.as_bytes(), tag.as_bytes(), &[]).to_bytes();
        assert_eq!(ark::g1(&same), Some(point));
        let output = json!({ "x": fp(&point.x), "y": fp(&point.y) });
        cases.add(
            "hash_to_G1",
            &format!("hash_to_G1_{name}"),
            json!({ "msg": message, "dst": tag }),
            output,
        );
    }
}

/// x-coordinates, big-endian, of a point of the curve outside the subgroup and of none.
fn bad_coordinates<F: Field, P>(
    from: impl Fn(u64) -> F,
    point: impl Fn(F) -> Option<P>,
    inside: impl Fn(&P) -> bool,
) -> (F, F) {
    let outside = (1..)
        .map(&from)
        .find(|&x| point(x).is_some_and(|p| !inside(&p)))
        .unwrap();
    let none = (1..).map(&from).find(|&x| point(x).is_none()).unwrap();
    (outside, none)
}

/// The prime p, and p + 1, 48 bytes big-endian.
fn moduli() -> (Vec<u8>, Vec<u8>) {
    let modulus = Fq::MODULUS.to_bytes_be();
    let mut greater = modulus.clone();
    greater[47] += 1;
    (modulus, greater)
}

fn flagged(mut bytes: Vec<u8>, set: u8, clear: u8) -> Vec<u8> {
    bytes[0] = bytes[0] & !clear | set;
    bytes
}

/// The malformed forms that both groups share, from one good encoding.
fn malformed(good: &[u8]) -> Vec<(&'static str, Vec<u8>)> {
    let zeros = vec![0; good.len()];
    vec![
        ("succeeds_correct_point", good.to_vec()),
        ("succeeds_infinity_with_true_b_flag", infinity(good.len())),
        (
            "fails_infinity_with_false_b_flag",
            flagged(zeros.clone(), 0x80, 0),
        ),
        ("fails_infinity_with_wrong_c_flag", flagged(zeros, 0x40, 0)),
        ("fails_too_few_bytes", good[..good.len() - 1].to_vec()),
        ("fails_too_many_bytes", [good, &[0]].concat()),
        (
            "fails_with_b_flag_and_a_flag_true",
            flagged(infinity(good.len()), 0x20, 0),
        ),
        (
            "fails_with_b_flag_and_x_nonzero",
            flagged(good.to_vec(), 0x40, 0),
        ),
        ("fails_with_wrong_c_flag", flagged(good.to_vec(), 0, 0x80)),
        ("fails_empty", vec![]),
    ]
}

fn decoding(cases: &mut Cases) {
    let (modulus, greater) = moduli();
    let be = |value: &Fq| value.into_bigint().to_bytes_be();
    let compressed = |x: Vec<u8>| flagged(x, 0x80, 0);
    let (outside, none) = bad_coordinates(
        Fq::from,
        |x| G1Affine::get_point_from_x_unchecked(x, false),
        |p| p.is_in_correct_subgroup_assuming_on_curve(),
    );
    let mut list = malformed(&publics()[0]);
    list.push(("fails_not_in_G1", compressed(be(&outside))));
    list.push(("fails_not_in_curve", compressed(be(&none))));
    list.push(("fails_x_equal_to_modulus", compressed(modulus.clone())));
    list.push(("fails_x_greater_than_modulus", compressed(greater.clone())));
    for (name, bytes) in list {
        let answers = [ark::g1(&bytes).is_some(), peer::g1(&bytes).is_some()];
        let input = json!({ "pubkey": hex::encode(&bytes) });
        cases.agreed(
            "deserialization_G1",
            &format!("deserialization_{name}"),
            input,
            answers,
        );
    }
    let (outside, none) = bad_coordinates(
        |x| Fq2::new(Fq::from(x), Fq::from(1u64)),
        |x| G2Affine::get_point_from_x_unchecked(x, false),
        |p| p.is_in_correct_subgroup_assuming_on_curve(),
    );
    // x = c1 || c0, the imaginary part first.
    let be2 = |value: &Fq2| [be(&value.c1), be(&value.c0)].concat();
    let good = signature(&keys()[0], &MESSAGES[0]);
    let (imaginary, real) = (&flagged(good[..48].to_vec(), 0, 0xe0), &good[48..]);
    let mut list = malformed(&good);
    list.push(("fails_not_in_G2", compressed(be2(&outside))));
    list.push(("fails_not_in_curve", compressed(be2(&none))));
    list.push((
        "fails_xim_equal_to_modulus",
        compressed([&modulus, real].concat()),
    ));
    list.push((
        "fails_xim_greater_than_modulus",
        compressed([&greater, real].concat()),
    ));
    list.push((
        "fails_xre_equal_to_modulus",
        compressed([imaginary, &modulus[..]].concat()),
    ));
    list.push((
        "fails_xre_greater_than_modulus",
        compressed([imaginary, &greater[..]].concat()),
    ));
    for (name, bytes) in list {
        let answers = [ark::g2(&bytes).is_some(), peer::g2(&bytes).is_some()];
        let input = json!({ "signature": hex::encode(&bytes) });
        cases.agreed(
            "deserialization_G2",
            &format!("deserialization_{name}"),
            input,
            answers,
        );
    }
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vectors/bls")
}

#[test]
fn committed_vectors_are_what_two_other_implementations_say() {
    let mut cases = Cases::default();
    signing(&mut cases);
    verifying(&mut cases);
    aggregating(&mut cases);
    aggregate_verifying(&mut cases);
    fast_aggregate_verifying(&mut cases);
    batch_verifying(&mut cases);
    hashing(&mut cases);
    decoding(&mut cases);
    let write = std::env::var_os("ALPHORN_WRITE_VECTORS").is_some();
    for (path, case) in &cases.0 {
        let path = folder().join(path);
        let text = format!("{}\n", serde_json::to_string_pretty(case).unwrap());
        if write {
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, text).unwrap();
        } else {
            assert_eq!(
                std::fs::read_to_string(&path).unwrap(),
                text,
                "{}",
                path.display()
            );
        }
    }
}
