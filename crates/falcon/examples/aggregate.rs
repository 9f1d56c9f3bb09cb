//! Times an aggregate beside plain verification, step by step: `cargo run --release -p
//! alphorn-falcon --example aggregate -- 1000 auto 2` for 1000 signatures and two threads.

use std::process::ExitCode;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use alphorn_exec::{Backend, Exec, Watch};
use alphorn_falcon::ring::LANES;
use alphorn_falcon::{
    Aggregator, Flavour, Item, KeyForm, PublicKey, SALT_BYTES, SIGNATURE_BYTES, SecretKey, Signed,
    verify_batch,
};
use alphorn_labrador::KERNELS;
use alphorn_labrador::sis::Profile;
use fn_dsa::{DOMAIN_NONE, HASH_ID_RAW, VerifyingKey, VerifyingKey512};

/// The time of each step.
#[derive(Default)]
struct Watched {
    steps: Mutex<Vec<(&'static str, Duration)>>,
    last: Mutex<Option<(&'static str, Instant)>>,
}

impl Watched {
    /// Ends the step that runs, begins another one.
    fn next(&self, name: Option<&'static str>) {
        let (Ok(mut last), Ok(mut steps)) = (self.last.lock(), self.steps.lock()) else {
            return;
        };
        if let Some((name, start)) = last.take() {
            let spent = start.elapsed();
            match steps.iter_mut().find(|(known, _)| *known == name) {
                Some((_, sum)) => *sum += spent,
                None => steps.push((name, spent)),
            }
        }
        *last = name.map(|name| (name, Instant::now()));
    }

    fn print(&self) {
        self.next(None);
        let Ok(steps) = self.steps.lock() else {
            return;
        };
        let total: Duration = steps.iter().map(|(_, spent)| *spent).sum();
        for (name, spent) in steps.iter() {
            let share = 100.0 * spent.as_secs_f64() / total.as_secs_f64();
            println!("  {name:<26}{:>10.4} s {share:>5.1} %", spent.as_secs_f64());
        }
    }
}

impl Watch for Watched {
    fn step(&self, name: &'static str) {
        self.next(Some(name));
    }
}

/// The greatest memory of this process so far, where the system tells it.
fn peak_kilobytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

fn seconds(what: &str, start: Instant) {
    println!("{what:<28}{:>10.4} s", start.elapsed().as_secs_f64());
}

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let n = arguments.next().and_then(|n| n.parse().ok()).unwrap_or(100);
    let level = arguments.next().unwrap_or_else(|| "auto".to_owned());
    let threads = arguments.next().and_then(|t| t.parse().ok()).unwrap_or(1);
    let backend = match KERNELS.parse(&level) {
        Ok(backend) => backend,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::from(2);
        }
    };
    // A few keys sign many messages: what is measured does not depend on it.
    let keys: Vec<SecretKey> = (0..64.min(n as u64)).map(SecretKey::interop).collect();
    let messages: Vec<[u8; 8]> = (0..n as u64).map(u64::to_le_bytes).collect();
    let signatures: Vec<Vec<u8>> = (messages.iter().enumerate())
        .map(|(i, message)| keys[i % keys.len()].sign(message, &[0; 32]))
        .collect();
    let items: Vec<Item<'_>> = (messages.iter().zip(&signatures).enumerate())
        .map(|(i, (message, signature))| Item {
            key: keys[i % keys.len()].public(),
            message,
            signature,
        })
        .collect();
    println!("{n} signatures, kernels {backend}, threads {threads}");
    plainly(&items, backend);
    let pool = match rayon::ThreadPoolBuilder::new().num_threads(threads).build() {
        Ok(pool) => pool,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::from(1);
        }
    };
    match measure(&items, Exec::new(backend, Some(&pool))) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(1)
        }
    }
}

/// Times plain verification from bytes on one thread, here and by the crate `fn-dsa`: the least of
/// five runs each, in turn.
fn plainly(items: &[Item<'_>], backend: Backend) {
    let (mut here, mut peer) = (Duration::MAX, Duration::MAX);
    for _ in 0..5 {
        let start = Instant::now();
        for items in items.chunks(LANES) {
            let keys: Vec<&[u8]> = items.iter().map(|item| item.key.bytes()).collect();
            let exec = Exec::new(backend, None);
            let keys = PublicKey::from_bytes_batch(Flavour::FnDsa, &keys, KeyForm::Values, exec);
            let keys: Vec<PublicKey> = keys.into_iter().flatten().collect();
            let items: Vec<Item<'_>> = (items.iter().zip(&keys))
                .map(|(item, key)| Item { key, ..*item })
                .collect();
            let verdicts = verify_batch(&items, backend);
            assert!(verdicts.iter().all(Result::is_ok));
        }
        here = here.min(start.elapsed());
        let start = Instant::now();
        for item in items {
            let key = VerifyingKey512::decode(item.key.bytes()).expect("a key");
            assert!(key.verify(item.signature, &DOMAIN_NONE, &HASH_ID_RAW, item.message));
        }
        peer = peer.min(start.elapsed());
    }
    for (what, spent) in [("plain, one thread", here), ("fn-dsa, one thread", peer)] {
        println!("{what:<28}{:>10.4} s", spent.as_secs_f64());
    }
}

fn measure(items: &[Item<'_>], exec: Exec<'_>) -> Result<(), alphorn_falcon::AggregateError> {
    let start = Instant::now();
    let aggregator = Aggregator::new(items.len(), Profile::Core128, exec.backend())?;
    seconds("parameters and keys", start);
    let watched = Watched::default();
    let start = Instant::now();
    let (salts, proof) = aggregator.prove_on(items, b"example", exec.with_watch(&watched))?;
    seconds("proof", start);
    watched.print();
    let signed: Vec<Signed<'_>> = (items.iter().zip(&salts))
        .map(|(item, salt)| Signed {
            key: item.key,
            message: item.message,
            salt: Some(salt),
        })
        .collect();
    let watched = Watched::default();
    let start = Instant::now();
    aggregator.verify_on(&signed, b"example", &proof, exec.with_watch(&watched))?;
    seconds("verification", start);
    watched.print();
    println!(
        "proof {} bytes, salts {}",
        proof.len(),
        items.len() * SALT_BYTES
    );
    println!("signatures {} bytes", items.len() * SIGNATURE_BYTES);
    if let Some(peak) = peak_kilobytes() {
        println!("peak memory {} MB", peak / 1000);
    }
    Ok(())
}
