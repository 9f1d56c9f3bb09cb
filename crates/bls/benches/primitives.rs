//! Single operations on one thread, by each kernel, beside blst's where it has the same.

use alphorn_bls::{
    G1Affine, KERNELS, PublicKey, Rlc, RlcBits, SIGNATURE_DST, Signature, SignatureSet,
    VartimeInteropSigner, decode_public_keys, decode_signatures, encode_g1, encode_g2,
    hash_many_to_g2, hash_to_g2, interop_keys, outside_subgroup, peer, sign,
    vartime_interop_public_keys, verify, verify_sets,
};
use alphorn_exec::{Backend, Exec};
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};

/// Votes of a cell: as many items has an operation in bulk.
const CELL: usize = 512;
const MESSAGE: &[u8] = b"vote";

/// Keys and signatures of a cell, decoded and as bytes.
struct Cell {
    publics: Vec<PublicKey>,
    signatures: Vec<Signature>,
    key_bytes: Vec<[u8; 48]>,
    signature_bytes: Vec<[u8; 96]>,
}

impl Cell {
    fn new() -> Self {
        let exec = Exec::serial();
        let keys = interop_keys(0..CELL as u64, exec);
        let publics = vartime_interop_public_keys(&keys, exec);
        let signatures = VartimeInteropSigner::new(MESSAGE, keys.len(), Backend::Portable)
            .vartime_interop_sign(&keys, exec);
        Cell {
            key_bytes: publics.iter().map(|key| encode_g1(key.point())).collect(),
            signature_bytes: signatures.iter().map(|s| encode_g2(s.point())).collect(),
            publics,
            signatures,
        }
    }
}

/// A cell's items at once.
fn bulk(criterion: &mut Criterion) {
    let cell = Cell::new();
    let exec = Exec::serial();
    let keys = interop_keys(0..CELL as u64, exec);
    let g1: Vec<G1Affine> = cell.publics.iter().map(|key| *key.point()).collect();
    let g2: Vec<_> = cell.signatures.iter().map(|s| *s.point()).collect();
    let sets: Vec<SignatureSet<'_>> = (cell.publics.iter().zip(&cell.signatures))
        .map(|(key, signature)| SignatureSet {
            key: *key,
            message: MESSAGE,
            signature: *signature,
        })
        .collect();
    let messages: Vec<[u8; 2]> = (0..CELL as u16).map(u16::to_le_bytes).collect();
    let signed: Vec<Signature> = (keys.iter().zip(&messages))
        .map(|(key, message)| sign(&key.to_secret_key(), message))
        .collect();
    let different: Vec<SignatureSet<'_>> = (sets.iter().zip(&messages).zip(&signed))
        .map(|((set, message), signature)| SignatureSet {
            message,
            signature: *signature,
            ..*set
        })
        .collect();
    let seed = [9; 32];
    let mut group = criterion.benchmark_group("of a cell");
    group.throughput(Throughput::Elements(CELL as u64));
    for kernel in KERNELS.available() {
        let rlc = Rlc::new(seed, RlcBits::Bits64);
        let exec = Exec::new(kernel, None);
        let signer = VartimeInteropSigner::new(MESSAGE, keys.len(), kernel);
        let id = |name: &str| BenchmarkId::new(name, kernel.name());
        group.bench_function(id("decode keys"), |b| {
            b.iter(|| decode_public_keys(&cell.key_bytes, &rlc, exec));
        });
        group.bench_function(id("decode signatures"), |b| {
            b.iter(|| decode_signatures(&cell.signature_bytes, &rlc, exec));
        });
        group.bench_function(id("subgroup of keys"), |b| {
            b.iter(|| outside_subgroup(kernel, &g1, &seed));
        });
        group.bench_function(id("subgroup of signatures"), |b| {
            b.iter(|| outside_subgroup(kernel, &g2, &seed));
        });
        group.bench_function(id("hash messages"), |b| {
            b.iter(|| hash_many_to_g2(&messages, SIGNATURE_DST, exec));
        });
        group.bench_function(id("sign with interop keys"), |b| {
            b.iter(|| signer.vartime_interop_sign(&keys, exec));
        });
        group.bench_function(id("verify votes of one message"), |b| {
            b.iter(|| verify_sets(&sets, &rlc, exec));
        });
        group.bench_function(id("verify votes of as many messages"), |b| {
            b.iter(|| verify_sets(&different, &rlc, exec));
        });
    }
    group.finish();
}

/// The same one by one, which is blst's.
fn alone(criterion: &mut Criterion) {
    let cell = Cell::new();
    let secret = interop_keys(0..1, Exec::serial())[0].to_secret_key();
    let (public, signature) = (&cell.publics[0], &cell.signatures[0]);
    let mut group = criterion.benchmark_group("blst, one");
    group.bench_function("decode key", |b| {
        b.iter(|| PublicKey::from_bytes(&cell.key_bytes[0]));
    });
    group.bench_function("decode signature", |b| {
        b.iter(|| Signature::from_bytes(&cell.signature_bytes[0]));
    });
    group.bench_function("subgroup of key", |b| {
        b.iter(|| peer::in_g1(public.point()))
    });
    group.bench_function("subgroup of signature", |b| {
        b.iter(|| peer::in_g2(signature.point()));
    });
    group.bench_function("hash message", |b| {
        b.iter(|| hash_to_g2(MESSAGE, SIGNATURE_DST));
    });
    group.bench_function("sign", |b| b.iter(|| sign(&secret, MESSAGE)));
    group.bench_function("verify", |b| b.iter(|| verify(public, MESSAGE, signature)));
    group.finish();
}

criterion_group!(benches, bulk, alone);
criterion_main!(benches);
