//! Keys, signatures and verdicts against the crate `fn-dsa`, in its two flavours; those of flavour
//! `slot` are beside it.

mod formats;

use alphorn_exec::{Backend, Exec};
use alphorn_labrador::KERNELS;
use fn_dsa::{DOMAIN_NONE, HASH_ID_RAW, VerifyingKey, VerifyingKey512};
use fn_dsa_original as original;
use proptest::prelude::*;

use crate::codec::{self, DecodeError};
use crate::key::KeyForm;
use crate::plain::open_batch;
use crate::ring::Polys;
use crate::{
    DEGREE, Flavour, Item, NORM_SQ_MAX, PUBLIC_KEY_BYTES, PublicKey, Refused, SALT_BYTES,
    SIGNATURE_BYTES, SecretKey, verify, verify_batch,
};

/// A generator of the old crate: a counter stands for entropy, since tests need none.
struct Counter(u8);

impl original::CryptoRng for Counter {}

impl original::RngCore for Counter {
    fn next_u32(&mut self) -> u32 {
        u32::from(self.0)
    }

    fn next_u64(&mut self) -> u64 {
        u64::from(self.0)
    }

    fn fill_bytes(&mut self, out: &mut [u8]) {
        for byte in out {
            self.0 = self.0.wrapping_add(1);
            *byte = self.0;
        }
    }

    fn try_fill_bytes(&mut self, out: &mut [u8]) -> Result<(), original::RngError> {
        self.fill_bytes(out);
        Ok(())
    }
}

/// A key and a signature of original Falcon.
fn original_pair(seed: u8, message: &[u8]) -> (PublicKey, Vec<u8>) {
    use original::{
        KeyPairGenerator, KeyPairGenerator512, SigningKey, SigningKey512, sign_key_size,
    };
    let mut rng = Counter(seed);
    let mut secret = vec![0; sign_key_size(original::FN_DSA_LOGN_512)];
    let mut public = [0; PUBLIC_KEY_BYTES];
    KeyPairGenerator512::default().keygen(9, &mut rng, &mut secret, &mut public);
    let mut key = SigningKey512::decode(&secret).expect("a generated key");
    let mut signature = vec![0; SIGNATURE_BYTES];
    key.sign(
        &mut rng,
        &original::DOMAIN_NONE,
        &original::HASH_ID_ORIGINAL_FALCON,
        message,
        &mut signature,
    );
    let public = PublicKey::from_bytes(Flavour::Original, &public);
    (public.expect("a generated key"), signature)
}

fn item<'a>(key: &'a PublicKey, message: &'a [u8], signature: &'a [u8]) -> Item<'a> {
    Item {
        key,
        message,
        signature,
    }
}

fn draft_says(key: &PublicKey, message: &[u8], signature: &[u8]) -> bool {
    let key = VerifyingKey512::decode(key.bytes()).expect("a key");
    key.verify(signature, &DOMAIN_NONE, &HASH_ID_RAW, message)
}

#[test]
fn signatures_of_the_draft_verify_here_and_there() {
    for i in 0..6u64 {
        let key = SecretKey::interop(i);
        let message = [i as u8; 32];
        let signature = key.sign(&message, &[0; 32]);
        assert!(draft_says(key.public(), &message, &signature));
        assert_eq!(verify(&item(key.public(), &message, &signature)), Ok(()));
        assert_eq!(signature, key.sign(&message, &[0; 32]));
        assert_ne!(signature, key.sign(&message, &[1; 32]));
        let again = SecretKey::from_bytes(key.bytes()).expect("an encoded key");
        assert_eq!(again.public(), key.public());
        assert_eq!(again.sign(&message, &[0; 32]), signature);
    }
}

#[test]
fn signatures_of_original_falcon_verify() {
    for seed in 0..4 {
        let (key, signature) = original_pair(seed, b"round three");
        assert_eq!(verify(&item(&key, b"round three", &signature)), Ok(()));
        assert!(verify(&item(&key, b"round four", &signature)).is_err());
    }
}

/// Each flavour rejects what belongs to the other: no byte says which it is.
#[test]
fn flavours_do_not_mix() {
    let draft = SecretKey::interop(3);
    let signature = draft.sign(b"m", &[0; 32]);
    let (other, old) = original_pair(9, b"m");
    assert!(PublicKey::from_bytes(Flavour::Original, draft.public().bytes()).is_err());
    assert!(PublicKey::from_bytes(Flavour::FnDsa, other.bytes()).is_err());
    assert!(verify(&item(draft.public(), b"m", &old)).is_err());
    assert!(verify(&item(&other, b"m", &signature)).is_err());
}

#[test]
fn batches_give_the_verdicts_of_single_signatures() {
    let keys: Vec<SecretKey> = (0..5).map(SecretKey::interop).collect();
    let messages: Vec<[u8; 32]> = (0..70u8).map(|i| [i % 3; 32]).collect();
    let mut signatures: Vec<[u8; SIGNATURE_BYTES]> = (0..70)
        .map(|i| keys[i % 5].sign(&messages[i], &[i as u8; 32]))
        .collect();
    signatures[7][100] ^= 1;
    signatures[31][3] ^= 1;
    signatures[32][0] = 0;
    signatures[69][SIGNATURE_BYTES - 1] = 1;
    let items: Vec<Item<'_>> = (0..70)
        .map(|i| item(keys[i % 5].public(), &messages[i], &signatures[i]))
        .collect();
    let single: Vec<_> = items.iter().map(verify).collect();
    let bad: Vec<usize> = (0..70).filter(|&i| single[i].is_err()).collect();
    assert_eq!(bad, [7, 31, 32, 69]);
    for backend in KERNELS.available() {
        assert_eq!(verify_batch(&items, backend), single, "{backend}");
    }
    assert!(verify_batch(&[], Backend::Portable).is_empty());
}

#[test]
fn opened_signatures_satisfy_the_relation() {
    let key = SecretKey::interop(1);
    let signature = key.sign(b"relation", &[0; 32]);
    let items = [item(key.public(), b"relation", &signature)];
    let opened = open_batch(&items, Backend::Portable).remove(0).unwrap();
    let target = Flavour::FnDsa.target(key.public().digest(), opened.salt.as_ref(), b"relation");
    let mut polys = Polys::<1>::zero();
    polys.load(0, key.public().values());
    polys.inverse();
    let mut h = [0; DEGREE];
    polys.store(0, &mut h);
    for k in (0..DEGREE).step_by(37) {
        let product: i64 = (0..DEGREE)
            .map(|j| {
                let s2 = i64::from(opened.s2[j]);
                let (index, sign) = if j <= k {
                    (k - j, 1)
                } else {
                    (DEGREE + k - j, -1)
                };
                sign * s2 * i64::from(h[index])
            })
            .sum();
        let sum = i64::from(opened.s1[k]) + product - i64::from(target[k]);
        assert_eq!(sum.rem_euclid(12_289), 0, "coefficient {k}");
    }
    let norm = opened
        .s1
        .iter()
        .chain(&opened.s2)
        .map(|&c| i64::from(c).pow(2));
    assert!((norm.sum::<i64>() as u64) <= NORM_SQ_MAX);
}

/// A signature that the draft refuses for one coefficient alone, and the original takes.
#[test]
fn the_bound_of_coefficients_belongs_to_the_flavour() {
    let mut s2 = [0; DEGREE];
    s2[5] = 841;
    let salt = [1; SALT_BYTES];
    assert_eq!(
        codec::encode_signature(Flavour::FnDsa, Some(&salt), &s2),
        None
    );
    let bytes = codec::encode_signature(Flavour::Original, Some(&salt), &s2).expect("below 2048");
    let decoded = codec::decode_signature(Flavour::Original, &bytes);
    assert_eq!(decoded, Ok((Some(salt), s2)));
    // s1 = c is far too long.
    let zero = PublicKey::from_bytes(
        Flavour::FnDsa,
        &codec::encode_key(Flavour::FnDsa, &[0; DEGREE]),
    )
    .expect("zero is a key");
    let bytes = codec::encode_signature(Flavour::FnDsa, Some(&salt), &[0; DEGREE]).expect("short");
    let verdict = verify(&item(&zero, b"m", &bytes));
    assert!(matches!(verdict, Err(Refused::Norm { .. })), "{verdict:?}");
}

#[test]
fn signatures_have_one_encoding() {
    for flavour in Flavour::ALL {
        let bytes = flavour.signature_bytes();
        let mut s2 = [0i16; DEGREE];
        for (i, c) in s2.iter_mut().enumerate() {
            *c = (i as i16 - 256) / 3;
        }
        let salt = flavour.is_salted().then_some([7; SALT_BYTES]);
        let other = (!flavour.is_salted()).then_some(&[7; SALT_BYTES]);
        assert_eq!(codec::encode_signature(flavour, other, &s2), None);
        let good = codec::encode_signature(flavour, salt.as_ref(), &s2).expect("short");
        assert_eq!(codec::decode_signature(flavour, &good), Ok((salt, s2)));
        let decode = |bytes: &[u8]| codec::decode_signature(flavour, bytes);
        let length = DecodeError::Length {
            bytes: bytes - 1,
            expected: bytes,
        };
        assert_eq!(decode(&good[1..]), Err(length));
        let mut padded = good.clone();
        padded[bytes - 1] |= 1;
        assert_eq!(decode(&padded), Err(DecodeError::Padding));
        let mut header = good.clone();
        header[0] = 0x29;
        assert!(matches!(decode(&header), Err(DecodeError::Header { .. })));
        // s2[256] = 0 was written as one byte and a bit somewhere; write a first coefficient of
        // minus zero instead.
        let zeros = codec::encode_signature(flavour, salt.as_ref(), &[0; DEGREE]);
        let mut negative = zeros.expect("short");
        negative[1 + flavour.salt_bytes()] |= if flavour == Flavour::FnDsa { 1 } else { 0x80 };
        let expected = DecodeError::NegativeZero { index: 0 };
        assert_eq!(decode(&negative), Err(expected));
        let mut empty = vec![0; bytes];
        empty[0] = good[0];
        assert!(matches!(
            decode(&empty),
            Err(DecodeError::Coefficient { index: 0 })
        ));
    }
}

#[test]
fn numbers_of_keys_are_residues() {
    for flavour in Flavour::ALL {
        let mut h = [12_288u16; DEGREE];
        h[0] = 0;
        let good = codec::encode_key(flavour, &h);
        assert_eq!(codec::decode_key(flavour, &good), Ok(h));
        h[511] = 12_289;
        let bad = codec::encode_key(flavour, &h);
        let expected = DecodeError::Residue {
            index: 511,
            value: 12_289,
        };
        assert_eq!(codec::decode_key(flavour, &bad), Err(expected));
    }
}

#[test]
fn batches_of_keys_are_those_of_single_ones() {
    let draft: Vec<PublicKey> = (0..3)
        .map(|i| SecretKey::interop(i).public().clone())
        .collect();
    let original: Vec<PublicKey> = (0..3).map(|i| original_pair(i, b"m").0).collect();
    for (flavour, keys) in [(Flavour::FnDsa, draft), (Flavour::Original, original)] {
        let mut cut = keys[0].bytes().to_vec();
        cut.pop();
        let mut large = keys[1].bytes().to_vec();
        large[1..8].fill(0xff);
        let bytes: Vec<&[u8]> = (0..70)
            .map(|i| match i % 7 {
                3 => &cut[..],
                5 => &large[..],
                k => &keys[k % 3].bytes()[..],
            })
            .collect();
        for backend in KERNELS.available() {
            for count in [0, 1, 32, 70] {
                let bytes = &bytes[..count];
                let alone = bytes.iter().map(|b| PublicKey::from_bytes(flavour, b));
                let alone: Vec<_> = alone.collect();
                for form in [KeyForm::Values, KeyForm::Coefficients] {
                    let exec = Exec::new(backend, None);
                    let batch = PublicKey::from_bytes_batch(flavour, bytes, form, exec);
                    assert_eq!(batch, alone, "{backend}");
                    for (one, other) in batch.iter().flatten().zip(alone.iter().flatten()) {
                        assert_eq!(one.values(), other.values(), "{backend}");
                        assert_eq!(one.coefficients(), other.coefficients(), "{backend}");
                        assert_eq!(one.digest(), other.digest(), "{backend}");
                    }
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Every flip of a bit gets the verdict of the crate `fn-dsa`.
    #[test]
    fn verdicts_of_changed_signatures_agree(byte in 0..SIGNATURE_BYTES, bit in 0..8, s in 0..4u8) {
        let key = SecretKey::interop(2);
        let mut signature = key.sign(b"m", &[s; 32]);
        signature[byte] ^= 1u8 << bit;
        let here = verify(&item(key.public(), b"m", &signature)).is_ok();
        prop_assert_eq!(here, draft_says(key.public(), b"m", &signature));
    }

    /// What decodes is encoded to the same bytes, whatever the bytes.
    #[test]
    fn what_decodes_is_encoded_the_same(seed in any::<[u8; 64]>(), flavour in 0..3usize) {
        let flavour = Flavour::ALL[flavour];
        let mut bytes = vec![0; flavour.signature_bytes()];
        bytes[0] = codec::SIGNATURE_HEADER;
        for (i, byte) in bytes[1..600].iter_mut().enumerate() {
            // Dense in ones, so that few codes run long.
            *byte = seed[i % 64] | seed[(i * 7 + 3) % 64] | (i as u8).reverse_bits() >> 3;
        }
        if let Ok((salt, s2)) = codec::decode_signature(flavour, &bytes) {
            prop_assert_eq!(codec::encode_signature(flavour, salt.as_ref(), &s2), Some(bytes));
        }
    }
}
