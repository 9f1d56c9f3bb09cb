//! Times an aggregate beside plain verification: `cargo run --release -p alphorn-falcon --example
//! aggregate -- 1000 auto`.

use std::process::ExitCode;
use std::time::Instant;

use alphorn_falcon::{
    Aggregator, Item, SALT_BYTES, SIGNATURE_BYTES, SecretKey, Signed, verify_batch,
};
use alphorn_labrador::Backend;
use alphorn_labrador::sis::Profile;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let n = arguments.next().and_then(|n| n.parse().ok()).unwrap_or(100);
    let level = arguments.next().unwrap_or_else(|| "auto".to_owned());
    let backend: Backend = match level.parse() {
        Ok(backend) => backend,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::from(2);
        }
    };
    // A few keys sign many messages: what is measured does not depend on it.
    let keys: Vec<SecretKey> = (0..64.min(n as u64)).map(SecretKey::interop).collect();
    let messages: Vec<[u8; 8]> = (0..n as u64).map(u64::to_le_bytes).collect();
    let signatures: Vec<[u8; SIGNATURE_BYTES]> = (messages.iter().enumerate())
        .map(|(i, message)| keys[i % keys.len()].sign(message, &[0; 32]))
        .collect();
    let items: Vec<Item<'_>> = (messages.iter().zip(&signatures).enumerate())
        .map(|(i, (message, signature))| Item {
            key: keys[i % keys.len()].public(),
            message,
            signature,
        })
        .collect();
    let seconds = |what: &str, start: Instant| {
        println!("{what:<28}{:>10.3} s", start.elapsed().as_secs_f64());
    };
    println!("{n} signatures, kernels {backend}, one thread");
    let start = Instant::now();
    let plain = verify_batch(&items, backend);
    seconds("plain verification", start);
    assert!(plain.iter().all(Result::is_ok));
    let start = Instant::now();
    let aggregator = match Aggregator::new(n, Profile::Core128, backend) {
        Ok(aggregator) => aggregator,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::from(2);
        }
    };
    seconds("parameters and keys", start);
    let start = Instant::now();
    let proved = aggregator.prove(&items, b"example");
    seconds("proof", start);
    let (salts, proof) = match proved {
        Ok(proved) => proved,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::from(1);
        }
    };
    let signed: Vec<Signed<'_>> = (items.iter().zip(&salts))
        .map(|(item, salt)| Signed {
            key: item.key,
            message: item.message,
            salt,
        })
        .collect();
    let start = Instant::now();
    let verdict = aggregator.verify(&signed, b"example", &proof);
    seconds("verification", start);
    println!("proof {} bytes, salts {}", proof.len(), n * SALT_BYTES);
    println!("signatures {} bytes", n * SIGNATURE_BYTES);
    match verdict {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(1)
        }
    }
}
