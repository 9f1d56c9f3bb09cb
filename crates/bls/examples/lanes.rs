//! Decoding, subgroup checks, hashing and batches on each kernel beside blst, one thread:
//! `cargo run --release -p alphorn-bls --example lanes [ITEMS]`.

use std::sync::LazyLock;
use std::time::Instant;

use alphorn_bls::{
    Backend, Exec, G1Affine, G2Affine, PublicKey, Rlc, RlcBits, SIGNATURE_DST, Signature,
    SignatureSet, VartimeInteropSigner, decode_public_keys, decode_signatures, hash_many_to_g2,
    hash_to_g2, interop_keys, outside_subgroup, peer, sign, vartime_interop_public_keys,
    verify_sets,
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

const OPERATIONS: [&str; 7] = [
    "decode and check a key",
    "decode and check a signature",
    "subgroup check of a key",
    "subgroup check of a signature",
    "hash a message",
    "verify in a batch of one message",
    "verify in a batch, all different",
];

struct World {
    publics: Vec<PublicKey>,
    keys: Vec<[u8; 48]>,
    /// Of one message.
    votes: Vec<Signature>,
    votes_bytes: Vec<[u8; 96]>,
    /// A message for each key, and its signature.
    messages: Vec<[u8; 32]>,
    envelopes: Vec<Signature>,
    g1: Vec<G1Affine>,
    g2: Vec<G2Affine>,
    rlc: Rlc,
}

impl World {
    fn new(items: usize) -> World {
        let (exec, fastest) = (Exec::serial(), Backend::measured());
        let keys = interop_keys(0..items as u64, exec);
        let publics = vartime_interop_public_keys(&keys, fastest, exec);
        let votes = VartimeInteropSigner::new(b"vote", fastest).vartime_interop_sign(&keys, exec);
        let messages: Vec<[u8; 32]> = (0..items as u32).map(message).collect();
        let own = keys.iter().zip(&messages);
        World {
            keys: publics.iter().map(PublicKey::to_bytes).collect(),
            votes_bytes: votes.iter().map(Signature::to_bytes).collect(),
            envelopes: own
                .map(|(key, message)| sign(&key.to_secret_key(), message))
                .collect(),
            g1: publics.iter().map(|key| *key.point()).collect(),
            g2: votes.iter().map(|vote| *vote.point()).collect(),
            rlc: Rlc::new([1; 32], RlcBits::Bits64),
            publics,
            votes,
            messages,
        }
    }

    /// Time of batches of one message and of different messages.
    fn batches(&self, backend: Backend) -> [f64; 2] {
        let rlc = self.rlc.clone().on(backend);
        let set = |i: usize| SignatureSet {
            key: self.publics[i],
            message: b"vote",
            signature: self.votes[i],
        };
        let own = |i: usize| SignatureSet {
            message: &self.messages[i],
            signature: self.envelopes[i],
            ..set(i)
        };
        let items = self.keys.len();
        let (same, different): (Vec<_>, Vec<_>) = (0..items).map(|i| (set(i), own(i))).unzip();
        [same, different].map(|sets| least(items, || verify_sets(&sets, &rlc, Exec::serial())))
    }

    /// One item after the other; batches as blst's functions combine them.
    fn blst(&self) -> [f64; 7] {
        let items = self.keys.len();
        let count = |holds: &dyn Fn(usize) -> bool| {
            least(items, || (0..items).filter(|i| holds(*i)).count())
        };
        let [same, different] = self.batches(Backend::portable());
        [
            count(&|i| PublicKey::from_bytes(&self.keys[i]).is_ok()),
            count(&|i| Signature::from_bytes(&self.votes_bytes[i]).is_ok()),
            count(&|i| peer::in_g1(&self.g1[i])),
            count(&|i| peer::in_g2(&self.g2[i])),
            count(&|i| !hash_to_g2(&self.messages[i], SIGNATURE_DST).is_infinity()),
            same,
            different,
        ]
    }

    fn ours(&self, backend: Backend) -> [f64; 7] {
        let (items, exec, seed) = (self.keys.len(), Exec::serial(), [1; 32]);
        let [same, different] = self.batches(backend);
        [
            least(items, || {
                decode_public_keys(&self.keys, backend, &self.rlc, exec)
            }),
            least(items, || {
                decode_signatures(&self.votes_bytes, backend, &self.rlc, exec)
            }),
            least(items, || outside_subgroup(backend, &self.g1, &seed)),
            least(items, || outside_subgroup(backend, &self.g2, &seed)),
            least(items, || {
                hash_many_to_g2(&self.messages, SIGNATURE_DST, backend, exec)
            }),
            same,
            different,
        ]
    }
}

fn main() {
    let items = std::env::args()
        .nth(1)
        .map_or(512, |items| items.parse().expect("a number of items"));
    let world = World::new(items);
    let blst = world.blst();
    for backend in Backend::available() {
        println!("{backend}, {items} items");
        for ((name, blst), ours) in OPERATIONS.iter().zip(blst).zip(world.ours(backend)) {
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
