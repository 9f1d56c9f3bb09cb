//! Decoding, subgroup checks, hashing and batches on each kernel beside blst, one thread:
//! `cargo run --release -p alphorn-bls --example lanes [ITEMS]`.

use std::sync::LazyLock;
use std::time::Instant;

use alphorn_bls::{
    Backend, Exec, G1Affine, G2Affine, PublicKey, Rlc, RlcBits, SIGNATURE_DST, Signature,
    SignatureSet, VartimeInteropSigner, decode_public_keys, decode_signatures, hash_many_to_g2,
    interop_keys, outside_subgroup, peer, sign, vartime_interop_public_keys, verify_sets,
};

/// Seconds this thread has run: on a shared machine the clock on the wall also counts others. Where
/// the kernel does not tell (only Linux does), the wall clock serves.
fn thread_s() -> f64 {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    let ns = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let ns = ns
        .as_ref()
        .and_then(|text| text.split(' ').next()?.parse::<u64>().ok());
    ns.map_or_else(|| START.elapsed().as_secs_f64(), |ns| ns as f64 / 1e9)
}

/// Least time of nine runs of at least 20 ms, in microseconds per item.
fn least<T>(items: usize, mut run: impl FnMut() -> T) -> f64 {
    let times = (0..9).map(|_| {
        let (start, mut runs) = (thread_s(), 0);
        loop {
            std::hint::black_box(run());
            runs += 1;
            let elapsed = thread_s() - start;
            if elapsed > 0.02 {
                return elapsed * 1e6 / (items * runs) as f64;
            }
        }
    });
    times.fold(f64::INFINITY, f64::min)
}

fn main() {
    let items = std::env::args()
        .nth(1)
        .and_then(|items| items.parse().ok())
        .unwrap_or(512usize);
    let exec = Exec::serial();
    let fastest = Backend::measured();
    let keys = interop_keys(0..items as u64, exec);
    let signatures = VartimeInteropSigner::new(b"vote", fastest).vartime_interop_sign(&keys, exec);
    let publics = vartime_interop_public_keys(&keys, fastest, exec);
    let key_bytes: Vec<_> = publics.iter().map(PublicKey::to_bytes).collect();
    let signature_bytes: Vec<_> = signatures.iter().map(Signature::to_bytes).collect();
    let g1: Vec<G1Affine> = publics.iter().map(|key| *key.point()).collect();
    let g2: Vec<G2Affine> = signatures.iter().map(|sig| *sig.point()).collect();
    let messages: Vec<[u8; 32]> = (0..items as u32).map(message).collect();
    let rlc = Rlc::new([1; 32], RlcBits::Bits64);
    let sets: Vec<SignatureSet<'_>> = publics
        .iter()
        .zip(&signatures)
        .map(|(key, signature)| SignatureSet {
            key: *key,
            message: b"vote",
            signature: *signature,
        })
        .collect();

    // Each key's signature of a message of its own.
    let envelopes: Vec<Signature> = keys
        .iter()
        .zip(&messages)
        .map(|(key, message)| sign(&key.to_secret_key(), message))
        .collect();
    let own_sets: Vec<SignatureSet<'_>> = publics
        .iter()
        .zip(&messages)
        .zip(&envelopes)
        .map(|((key, message), signature)| SignatureSet {
            key: *key,
            message,
            signature: *signature,
        })
        .collect();

    let blst = [
        least(items, || {
            key_bytes
                .iter()
                .filter(|b| PublicKey::from_bytes(*b).is_ok())
                .count()
        }),
        least(items, || {
            signature_bytes
                .iter()
                .filter(|b| Signature::from_bytes(*b).is_ok())
                .count()
        }),
        least(items, || g1.iter().filter(|p| peer::in_g1(p)).count()),
        least(items, || g2.iter().filter(|p| peer::in_g2(p)).count()),
        least(items, || {
            hash_many_to_g2(&messages, SIGNATURE_DST, Backend::portable(), exec)
        }),
        least(items, || verify_sets(&sets, &rlc, exec)),
        least(items, || verify_sets(&own_sets, &rlc, exec)),
    ];
    let names = [
        "decode and check a key",
        "decode and check a signature",
        "subgroup check of a key",
        "subgroup check of a signature",
        "hash a message",
        "verify in a batch of one message",
        "verify in a batch, all different",
    ];
    for backend in Backend::available() {
        let ours = [
            least(items, || {
                decode_public_keys(&key_bytes, backend, &rlc, exec)
            }),
            least(items, || {
                decode_signatures(&signature_bytes, backend, &rlc, exec)
            }),
            least(items, || outside_subgroup(backend, &g1, &[1; 32])),
            least(items, || outside_subgroup(backend, &g2, &[1; 32])),
            least(items, || {
                hash_many_to_g2(&messages, SIGNATURE_DST, backend, exec)
            }),
            least(items, || verify_sets(&sets, &rlc.clone().on(backend), exec)),
            least(items, || {
                verify_sets(&own_sets, &rlc.clone().on(backend), exec)
            }),
        ];
        println!("{backend}, {items} items");
        for ((name, blst), ours) in names.iter().zip(blst).zip(ours) {
            println!(
                "{name:32} {ours:8.2} us, blst {blst:8.2} us, {:5.2} times as fast",
                blst / ours
            );
        }
    }
}

fn message(i: u32) -> [u8; 32] {
    let mut message = [7; 32];
    message[..4].copy_from_slice(&i.to_le_bytes());
    message
}
