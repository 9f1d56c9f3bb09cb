//! Points and encodings against arkworks, an independent implementation.

use alphorn_bls::{
    SecretKey, decode_g1, decode_g1_uncompressed, decode_g2, decode_g2_uncompressed, encode_g1,
    encode_g1_uncompressed, encode_g2, encode_g2_uncompressed, g1_generator, g2_generator,
    hash_to_g1, hash_to_g2,
};
use ark_bls12_381::{Fr, G1Affine, G1Projective, G2Affine, G2Projective, g1, g2};
use ark_ec::hashing::HashToCurve;
use ark_ec::hashing::curve_maps::wb::WBMap;
use ark_ec::hashing::map_to_curve_hasher::MapToCurveBasedHasher;
use ark_ec::{AffineRepr, CurveGroup};
use ark_ff::PrimeField;
use ark_ff::field_hashers::DefaultFieldHasher;
use ark_serialize::CanonicalSerialize;
use sha2_010::Sha256;

fn both(point: &impl CanonicalSerialize) -> [Vec<u8>; 2] {
    let (mut compressed, mut uncompressed) = (Vec::new(), Vec::new());
    point.serialize_compressed(&mut compressed).unwrap();
    point.serialize_uncompressed(&mut uncompressed).unwrap();
    [compressed, uncompressed]
}

#[test]
fn a_thousand_multiples_of_each_generator_have_the_same_encodings() {
    let (mut g1, mut g2) = (G1Projective::default(), G2Projective::default());
    for i in 0u16..1000 {
        let [compressed, uncompressed] = both(&g1.into_affine());
        let point = decode_g1(&compressed).unwrap();
        assert_eq!(decode_g1_uncompressed(&uncompressed), Ok(point));
        assert_eq!(encode_g1(&point)[..], compressed);
        assert_eq!(encode_g1_uncompressed(&point)[..], uncompressed);
        if i > 0 {
            let mut scalar = [0; 32];
            scalar[30..].copy_from_slice(&i.to_be_bytes());
            assert_eq!(
                *SecretKey::from_bytes(&scalar).unwrap().public_key().point(),
                point
            );
        }
        let [compressed, uncompressed] = both(&g2.into_affine());
        let point = decode_g2(&compressed).unwrap();
        assert_eq!(decode_g2_uncompressed(&uncompressed), Ok(point));
        assert_eq!(encode_g2(&point)[..], compressed);
        assert_eq!(encode_g2_uncompressed(&point)[..], uncompressed);
        g1 += G1Affine::generator();
        g2 += G2Affine::generator();
    }
    assert_eq!(
        encode_g1(&g1_generator())[..],
        both(&G1Affine::generator())[0]
    );
    assert_eq!(
        encode_g2(&g2_generator())[..],
        both(&G2Affine::generator())[0]
    );
}

#[test]
fn keys_from_material_give_the_public_keys_of_arkworks() {
    for seed in 0..20 {
        let secret = SecretKey::key_gen(&[seed; 40]).unwrap();
        let scalar = Fr::from_be_bytes_mod_order(&secret.to_bytes());
        let expected = both(&(G1Affine::generator() * scalar).into_affine());
        assert_eq!(secret.public_key().to_bytes()[..], expected[0]);
        assert_eq!(
            SecretKey::from_bytes(&secret.to_bytes())
                .unwrap()
                .to_bytes(),
            secret.to_bytes()
        );
    }
}

/// Tags longer than 255 bytes are hashed first (RFC 9380, section 5.3.3).
#[test]
fn hashes_under_short_and_oversized_tags_are_those_of_arkworks() {
    type Hasher1 =
        MapToCurveBasedHasher<G1Projective, DefaultFieldHasher<Sha256, 128>, WBMap<g1::Config>>;
    type Hasher2 =
        MapToCurveBasedHasher<G2Projective, DefaultFieldHasher<Sha256, 128>, WBMap<g2::Config>>;
    for length in [1, 43, 255, 256, 300] {
        let tag = vec![b't'; length];
        for message in [&b""[..], b"m", &[0xab; 200]] {
            let expected = both(&Hasher1::new(&tag).unwrap().hash(message).unwrap());
            assert_eq!(
                encode_g1(&hash_to_g1(message, &tag))[..],
                expected[0],
                "tag of {length}"
            );
            let expected = both(&Hasher2::new(&tag).unwrap().hash(message).unwrap());
            assert_eq!(
                encode_g2(&hash_to_g2(message, &tag))[..],
                expected[0],
                "tag of {length}"
            );
        }
    }
}

/// Every single-bit change of an encoding decodes to another point or is refused, and whatever
/// decodes encodes back to the same bytes: no point has two encodings.
#[test]
fn encodings_are_unique_under_every_bit_flip() {
    let secret = SecretKey::key_gen(&[5; 32]).unwrap();
    let key = secret.public_key().to_bytes();
    let signature = alphorn_bls::sign(&secret, b"m").to_bytes();
    for bit in 0..8 * key.len() {
        let mut flipped = key;
        flipped[bit / 8] ^= 1 << (bit % 8);
        if let Ok(point) = decode_g1(&flipped) {
            assert_eq!(encode_g1(&point), flipped);
        }
    }
    for bit in 0..8 * signature.len() {
        let mut flipped = signature;
        flipped[bit / 8] ^= 1 << (bit % 8);
        if let Ok(point) = decode_g2(&flipped) {
            assert_eq!(encode_g2(&point), flipped);
        }
    }
}
