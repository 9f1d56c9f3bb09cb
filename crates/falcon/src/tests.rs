//! Keys, signatures and verdicts against the crate `fn-dsa`, in its two flavours. The tests of flavour
//! `slot` are next to that module.

mod formats;

use alphorn_exec::{Backend, Exec};
use alphorn_labrador::KERNELS;
use fn_dsa::{DOMAIN_NONE, HASH_ID_RAW, VerifyingKey, VerifyingKeyStandard};
use fn_dsa_original as original;
use proptest::prelude::*;

use crate::codec::{self, DecodeError};
use crate::key::KeyForm;
use crate::plain::open_batch;
use crate::ring::Polys;
use crate::{
    DEGREE, Flavour, Item, Parameters, PublicKey, Refused, SALT_BYTES, SIGNATURE_BYTES, SecretKey,
    verify, verify_batch,
};

/// A generator for the old crate: a counter replaces entropy, which tests do not need.
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
fn original_pair<const N: usize>(seed: u8, message: &[u8]) -> (PublicKey<N>, Vec<u8>) {
    use original::{
        KeyPairGenerator, KeyPairGeneratorStandard, SigningKey, SigningKeyStandard, sign_key_size,
    };
    let mut rng = Counter(seed);
    let mut secret = vec![0; sign_key_size(N.ilog2())];
    let mut public = vec![0; Parameters::of(N).public_key_bytes];
    let mut generator = KeyPairGeneratorStandard::default();
    generator.keygen(N.ilog2(), &mut rng, &mut secret, &mut public);
    let mut key = SigningKeyStandard::decode(&secret).expect("a generated key");
    let mut signature = vec![0; Parameters::of(N).signature_bytes];
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

fn item<'a, const N: usize>(
    key: &'a PublicKey<N>,
    message: &'a [u8],
    signature: &'a [u8],
) -> Item<'a, N> {
    Item {
        key,
        message,
        signature,
    }
}

fn draft_says<const N: usize>(key: &PublicKey<N>, message: &[u8], signature: &[u8]) -> bool {
    let key = VerifyingKeyStandard::decode(key.bytes()).expect("a key");
    key.verify(signature, &DOMAIN_NONE, &HASH_ID_RAW, message)
}

fn original_says<const N: usize>(key: &PublicKey<N>, message: &[u8], signature: &[u8]) -> bool {
    use original::{VerifyingKey, VerifyingKeyStandard};
    let key = VerifyingKeyStandard::decode(key.bytes()).expect("a key");
    let id = &original::HASH_ID_ORIGINAL_FALCON;
    key.verify(signature, &original::DOMAIN_NONE, id, message)
}

fn signatures_of_the_draft<const N: usize>() {
    for i in 0..4u64 {
        let key = SecretKey::<N>::interop(i);
        let message = [i as u8; 32];
        let signature = key.sign(&message, &[0; 32]);
        assert!(draft_says(key.public(), &message, &signature));
        assert_eq!(verify(&item(key.public(), &message, &signature)), Ok(()));
        assert_eq!(signature, key.sign(&message, &[0; 32]));
        assert_ne!(signature, key.sign(&message, &[1; 32]));
        let again = SecretKey::<N>::from_bytes(key.bytes()).expect("an encoded key");
        assert_eq!(again.public(), key.public());
        assert_eq!(again.sign(&message, &[0; 32]), signature);
    }
}

#[test]
fn signatures_of_the_draft_verify_here_and_there() {
    signatures_of_the_draft::<512>();
    signatures_of_the_draft::<1024>();
}

fn signatures_of_original<const N: usize>() {
    for seed in 0..3 {
        let (key, signature) = original_pair::<N>(seed, b"round three");
        assert!(original_says(&key, b"round three", &signature));
        assert_eq!(verify(&item(&key, b"round three", &signature)), Ok(()));
        assert!(verify(&item(&key, b"round four", &signature)).is_err());
    }
}

#[test]
fn signatures_of_original_falcon_verify() {
    signatures_of_original::<512>();
    signatures_of_original::<1024>();
}

fn flavours_are_apart<const N: usize>() {
    let draft = SecretKey::<N>::interop(3);
    let signature = draft.sign(b"m", &[0; 32]);
    let (other, old) = original_pair::<N>(9, b"m");
    let draft_bytes = draft.public().bytes();
    assert!(PublicKey::<N>::from_bytes(Flavour::Original, draft_bytes).is_err());
    assert!(PublicKey::<N>::from_bytes(Flavour::FnDsa, other.bytes()).is_err());
    assert!(verify(&item(draft.public(), b"m", &old)).is_err());
    assert!(verify(&item(&other, b"m", &signature)).is_err());
}

/// Each flavour rejects data of the other: no byte says which flavour it is.
#[test]
fn flavours_do_not_mix() {
    flavours_are_apart::<512>();
    flavours_are_apart::<1024>();
}

/// The first byte of keys and signatures differs between the degrees, and so does their length.
#[test]
fn degrees_do_not_mix() {
    let (short, long) = (SecretKey::<512>::interop(3), SecretKey::<1024>::interop(3));
    let bytes = long.public().bytes();
    let refused = PublicKey::<512>::from_bytes(Flavour::FnDsa, bytes).err();
    let (bytes, expected) = (1793, 897);
    assert_eq!(refused, Some(DecodeError::Length { bytes, expected }));
    let mut header = short.public().bytes().to_vec();
    header[0] = 10;
    let refused = PublicKey::<512>::from_bytes(Flavour::FnDsa, &header).err();
    let (byte, expected) = (10, 9);
    assert_eq!(refused, Some(DecodeError::Header { byte, expected }));
    let signature = short.sign(b"m", &[0; 32]);
    let refused = verify(&item(long.public(), b"m", &signature)).err();
    let (bytes, expected) = (666, 1280);
    let length = DecodeError::Length { bytes, expected };
    assert_eq!(refused, Some(Refused::Decode(length)));
}

fn batches_agree<const N: usize>() {
    let keys: Vec<SecretKey<N>> = (0..5).map(SecretKey::interop).collect();
    let messages: Vec<[u8; 32]> = (0..70u8).map(|i| [i % 3; 32]).collect();
    let mut signatures: Vec<Vec<u8>> = (0..70)
        .map(|i| keys[i % 5].sign(&messages[i], &[i as u8; 32]))
        .collect();
    signatures[7][100] ^= 1;
    signatures[31][3] ^= 1;
    signatures[32][0] = 0;
    *signatures[69].last_mut().expect("bytes") = 1;
    let items: Vec<Item<'_, N>> = (0..70)
        .map(|i| item(keys[i % 5].public(), &messages[i], &signatures[i]))
        .collect();
    let single: Vec<_> = items.iter().map(verify).collect();
    let bad: Vec<usize> = (0..70).filter(|&i| single[i].is_err()).collect();
    assert_eq!(bad, [7, 31, 32, 69]);
    for backend in KERNELS.available() {
        assert_eq!(verify_batch(&items, backend), single, "{backend}");
    }
    assert!(verify_batch::<N>(&[], Backend::Portable).is_empty());
}

#[test]
fn batches_give_the_verdicts_of_single_signatures() {
    batches_agree::<512>();
    batches_agree::<1024>();
}

fn opened_signatures<const N: usize>() {
    let key = SecretKey::<N>::interop(1);
    let signature = key.sign(b"relation", &[0; 32]);
    let items = [item(key.public(), b"relation", &signature)];
    let opened = open_batch(&items, Backend::Portable).remove(0).unwrap();
    let digest = key.public().digest();
    let target: [u16; N] = Flavour::FnDsa.target(digest, opened.salt.as_ref(), b"relation");
    let mut polys = Polys::<1, N>::zero();
    polys.load(0, key.public().values());
    polys.inverse();
    let mut h = [0; N];
    polys.store(0, &mut h);
    for k in (0..N).step_by(37) {
        let product: i64 = (0..N)
            .map(|j| {
                let s2 = i64::from(opened.s2[j]);
                let (index, sign) = if j <= k { (k - j, 1) } else { (N + k - j, -1) };
                sign * s2 * i64::from(h[index])
            })
            .sum();
        let sum = i64::from(opened.s1[k]) + product - i64::from(target[k]);
        assert_eq!(sum.rem_euclid(12_289), 0, "coefficient {k}");
    }
    let both = opened.s1.iter().chain(&opened.s2);
    let norm_sq: i64 = both.map(|&c| i64::from(c).pow(2)).sum();
    assert!(norm_sq as u64 <= Parameters::of(N).norm_sq_max);
}

#[test]
fn opened_signatures_satisfy_the_relation() {
    opened_signatures::<512>();
    opened_signatures::<1024>();
}

fn coefficients_are_bounded<const N: usize>() {
    let mut s2 = [0; N];
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
    let zero = codec::encode_key(Flavour::FnDsa, &[0; N]);
    let zero = PublicKey::<N>::from_bytes(Flavour::FnDsa, &zero).expect("zero is a key");
    let bytes = codec::encode_signature(Flavour::FnDsa, Some(&salt), &[0; N]).expect("short");
    let verdict = verify(&item(&zero, b"m", &bytes));
    let expected = Parameters::of(N).norm_sq_max;
    assert!(
        matches!(verdict, Err(Refused::Norm { max, .. }) if max == expected),
        "{verdict:?}"
    );
}

/// A signature that the draft refuses for a single coefficient, and the original accepts.
#[test]
fn the_bound_of_coefficients_belongs_to_the_flavour() {
    coefficients_are_bounded::<512>();
    coefficients_are_bounded::<1024>();
}

/// Makes a key and a signature of original Falcon over the message with this squared norm: `h = (c - s1) / s2`.
fn of_norm<const N: usize>(norm_sq: u64, message: &[u8]) -> (PublicKey<N>, Vec<u8>) {
    let (flavour, salt) = (Flavour::Original, [3; SALT_BYTES]);
    let values = |polynomial: &[i16; N]| {
        let mut polys = Polys::<1, N>::zero();
        polys.load(0, polynomial);
        polys.reduce();
        polys.forward();
        polys.centre();
        polys
    };
    // The first `s2` that has an inverse.
    let candidates = (1..).map(|k| std::array::from_fn(|i| ((i * i + k) % 7) as i16 - 3));
    let found = candidates.map(|s2: [i16; N]| (s2, values(&s2)));
    let mut found = found.filter(|(_, values)| !values.0.as_flattened().contains(&0));
    let (s2, mut inverses) = found.next().expect("most have one");
    for value in inverses.0.as_flattened_mut() {
        let base = i64::from(*value);
        let power = (0..12_287).fold(1, |product, _| product * base % 12_289);
        *value = power as i16;
    }
    // The rest of the norm, in a few coefficients.
    let mut s1 = [0i16; N];
    let square = |c: i16| u64::from(c.unsigned_abs()).pow(2);
    let mut left = norm_sq - s2.iter().map(|&c| square(c)).sum::<u64>();
    for c in &mut s1 {
        *c = left.isqrt().min(6000) as i16;
        left -= square(*c);
    }
    assert_eq!(left, 0);
    // The target of this flavour does not depend on the key.
    let target: [u16; N] = flavour.target(&[0; 64], Some(&salt), message);
    let mut h = values(&std::array::from_fn(|i| target[i] as i16 - s1[i]));
    inverses.reduce();
    h.multiply(&inverses);
    h.inverse();
    h.centre();
    let mut coefficients = [0; N];
    h.store(0, &mut coefficients);
    let residues = coefficients.map(|c| c.rem_euclid(12_289) as u16);
    let key = PublicKey::from_bytes(flavour, &codec::encode_key(flavour, &residues));
    let signature = codec::encode_signature(flavour, Some(&salt), &s2);
    (key.expect("a key"), signature.expect("short"))
}

fn the_norm_is_bounded<const N: usize>() {
    let max = Parameters::of(N).norm_sq_max;
    for norm_sq in [max - 1, max, max + 1] {
        let (key, signature) = of_norm::<N>(norm_sq, b"m");
        let item = item(&key, b"m", &signature);
        let expected = if norm_sq <= max {
            Ok(())
        } else {
            Err(Refused::Norm { norm_sq, max })
        };
        assert_eq!(verify(&item), expected, "degree {N}");
        assert_eq!(original_says(&key, b"m", &signature), norm_sq <= max);
        for backend in KERNELS.available() {
            assert_eq!(verify_batch(&[item], backend), [expected], "{backend}");
        }
    }
}

/// The largest norm is accepted and one more is not, here and by the crate `fn-dsa`.
#[test]
fn the_bound_of_the_norm_is_exact() {
    the_norm_is_bounded::<512>();
    the_norm_is_bounded::<1024>();
}

fn encodings_are_unique<const N: usize>() {
    for flavour in Flavour::ALL {
        let bytes = flavour.signature_bytes_of(N);
        let mut s2 = [0i16; N];
        for (i, c) in s2.iter_mut().enumerate() {
            *c = (i as i16 % 512 - 256) / 3;
        }
        let salt = flavour.is_salted().then_some([7; SALT_BYTES]);
        let other = (!flavour.is_salted()).then_some(&[7; SALT_BYTES]);
        assert_eq!(codec::encode_signature(flavour, other, &s2), None);
        let good = codec::encode_signature(flavour, salt.as_ref(), &s2).expect("short");
        assert_eq!(codec::decode_signature(flavour, &good), Ok((salt, s2)));
        let decode = |bytes: &[u8]| codec::decode_signature::<N>(flavour, bytes);
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
        // s2[256] = 0 was written as one byte and one bit somewhere; write a first coefficient of
        // minus zero instead.
        let zeros = codec::encode_signature(flavour, salt.as_ref(), &[0; N]);
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
fn signatures_have_one_encoding() {
    encodings_are_unique::<512>();
    encodings_are_unique::<1024>();
}

fn numbers_are_residues<const N: usize>() {
    for flavour in Flavour::ALL {
        // All numbers differ, so that none can be mistaken for another.
        let mut h: [u16; N] = std::array::from_fn(|i| 12_288 - i as u16);
        h[0] = 0;
        let good = codec::encode_key(flavour, &h);
        assert_eq!(codec::decode_key(flavour, &good), Ok(h));
        h[N - 1] = 12_289;
        let bad = codec::encode_key(flavour, &h);
        let expected = DecodeError::Residue {
            index: N - 1,
            value: 12_289,
        };
        assert_eq!(codec::decode_key::<N>(flavour, &bad), Err(expected));
    }
}

#[test]
fn numbers_of_keys_are_residues() {
    numbers_are_residues::<512>();
    numbers_are_residues::<1024>();
}

fn batches_of_keys<const N: usize>() {
    let draft: Vec<PublicKey<N>> = (0..3)
        .map(|i| SecretKey::<N>::interop(i).public().clone())
        .collect();
    let original: Vec<PublicKey<N>> = (0..3).map(|i| original_pair(i, b"m").0).collect();
    for (flavour, keys) in [(Flavour::FnDsa, draft), (Flavour::Original, original)] {
        let mut cut = keys[0].bytes().to_vec();
        cut.pop();
        let mut large = keys[1].bytes().to_vec();
        large[1..8].fill(0xff);
        let bytes: Vec<&[u8]> = (0..70)
            .map(|i| match i % 7 {
                3 => &cut[..],
                5 => &large[..],
                k => keys[k % 3].bytes(),
            })
            .collect();
        for backend in KERNELS.available() {
            for count in [0, 1, 32, 70] {
                let bytes = &bytes[..count];
                let alone = bytes.iter().map(|b| PublicKey::<N>::from_bytes(flavour, b));
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

#[test]
fn batches_of_keys_are_those_of_single_ones() {
    batches_of_keys::<512>();
    batches_of_keys::<1024>();
}

/// Changing a bit gives the verdict of the crate `fn-dsa`, which is consulted in both flavours that it has.
fn verdicts_agree<const N: usize>(byte: usize, bit: u8, seed: u8) {
    let byte = byte * Parameters::of(N).signature_bytes / SIGNATURE_BYTES;
    let key = SecretKey::<N>::interop(2);
    let mut signature = key.sign(b"m", &[seed; 32]);
    signature[byte] ^= 1u8 << bit;
    let here = verify(&item(key.public(), b"m", &signature)).is_ok();
    assert_eq!(here, draft_says(key.public(), b"m", &signature));
    let (key, mut signature) = original_pair::<N>(seed, b"m");
    signature[byte] ^= 1u8 << bit;
    let here = verify(&item(&key, b"m", &signature)).is_ok();
    assert_eq!(here, original_says(&key, b"m", &signature));
}

fn decoded_is_encoded<const N: usize>(seed: &[u8; 64], flavour: Flavour) {
    let mut bytes = vec![0; flavour.signature_bytes_of(N)];
    let end = bytes.len() - 66;
    bytes[0] = Parameters::of(N).signature_header();
    for (i, byte) in bytes[1..end].iter_mut().enumerate() {
        // Mostly ones, so that few codes are long.
        *byte = seed[i % 64] | seed[(i * 7 + 3) % 64] | (i as u8).reverse_bits() >> 3;
    }
    if let Ok((salt, s2)) = codec::decode_signature::<N>(flavour, &bytes) {
        let again = codec::encode_signature(flavour, salt.as_ref(), &s2);
        assert_eq!(again, Some(bytes));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Every bit flip gets the verdict of the crate `fn-dsa`.
    #[test]
    fn verdicts_of_changed_signatures_agree(byte in 0..SIGNATURE_BYTES, bit in 0..8u8, s in 0..4u8) {
        verdicts_agree::<512>(byte, bit, s);
        verdicts_agree::<1024>(byte, bit, s);
    }

    /// Whatever decodes is encoded to the same bytes again.
    #[test]
    fn what_decodes_is_encoded_the_same(seed in any::<[u8; 64]>(), flavour in 0..3usize) {
        decoded_is_encoded::<512>(&seed, Flavour::ALL[flavour]);
        decoded_is_encoded::<1024>(&seed, Flavour::ALL[flavour]);
    }
}
