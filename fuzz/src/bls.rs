//! Targets of `alphorn-bls`.

use alphorn_bls::{ProofOfPossession, PublicKey, SecretKey, Signature};

/// Decodes keys and signatures; what is accepted must encode to itself.
///
/// # Panics
///
/// If a key or a signature has a second encoding.
pub fn bls_bytes(data: &[u8]) -> bool {
    let secret = SecretKey::from_bytes(data).map(|key| key.to_bytes().to_vec());
    let public = PublicKey::from_bytes(data).map(|key| key.to_bytes().to_vec());
    let signature = Signature::from_bytes(data).map(|signature| signature.to_bytes().to_vec());
    let proof = ProofOfPossession::from_bytes(data).map(|proof| proof.to_bytes().to_vec());
    assert_eq!(proof, signature);
    let mut accepted = false;
    for bytes in [secret, public, signature].into_iter().flatten() {
        assert_eq!(bytes, data);
        accepted = true;
    }
    accepted
}

/// A key pair, a signature and the identity among signatures.
pub(crate) fn bls_bytes_seeds() -> Vec<Vec<u8>> {
    let secret = SecretKey::key_gen(&[7; 32]).expect("32 bytes are enough for a key");
    let mut identity = vec![0; 96];
    identity[0] = 0xc0;
    vec![
        secret.to_bytes().to_vec(),
        secret.public_key().to_bytes().to_vec(),
        alphorn_bls::sign(&secret, b"alphorn").to_bytes().to_vec(),
        identity,
    ]
}
