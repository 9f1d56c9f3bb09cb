//! What it takes to verify a collection of a committee of 32,768, half of whom voted, on one thread and called from
//! Rust. `tools/call_overhead.py` compares calls from other languages with it.
//!
//! Writes the collection into a folder, if it is not there, and prints the nanoseconds of each call.
//!
//! ```sh
//! cargo run --release --package alphorn-bindings --example calls -- FOLDER
//! ```

use alphorn_bindings::committees::{Collection, Committees, Registry, Verdict};
use alphorn_bindings::{Context, bls};
use rayon::prelude::*;
use std::error::Error;
use std::path::Path;
use std::time::Instant;

const MEMBERS: usize = 32_768;
const CALLS: usize = 60;
const MESSAGE: &[u8] = b"head of slot 7";

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args_os().nth(1).ok_or("usage: calls FOLDER")?;
    let folder = Path::new(&folder);
    if !folder.join("signature").exists() {
        write(folder)?;
    }
    let read = |name: &str| std::fs::read(folder.join(name));
    let (keys, signers, signature) = (read("keys")?, read("signers")?, read("signature")?);
    let context = Context::new(1)?;
    let registry = Registry::proven(&context, &keys)?;
    let committees = Committees::new(&registry, None, &[MEMBERS])?;
    for _ in 0..CALLS {
        let began = Instant::now();
        let collection = Collection {
            committee: 0,
            signers: &signers,
            message: MESSAGE,
            signature: &signature,
        };
        let verdicts = committees.verify(&[collection])?;
        let took = began.elapsed();
        if verdicts != [Verdict::Valid] {
            return Err("the collection does not hold".into());
        }
        println!("{}", took.as_nanos());
    }
    Ok(())
}

/// Whether the owner of a key is one of those who voted: about half of them.
fn votes(secret: &[u8; 32]) -> bool {
    secret[31].is_multiple_of(2)
}

/// Keys in the order of the positions, the bitfield of those who voted, and the sum of their signatures.
fn write(folder: &Path) -> Result<(), Box<dyn Error>> {
    std::fs::create_dir_all(folder)?;
    let secrets = (0..MEMBERS as u64).into_par_iter();
    let secrets = secrets.map(bls::interop_secret_key);
    let keys = secrets.clone().map(|secret| bls::public_key(&secret));
    let keys: Vec<_> = keys.collect::<Result<_, _>>()?;
    let signatures = secrets.filter_map(|secret| {
        let is_voter = votes(&secret);
        is_voter.then(|| bls::sign(&secret, MESSAGE))
    });
    let signatures: Vec<_> = signatures.collect::<Result<_, _>>()?;
    let mut signers = vec![0_u8; MEMBERS / 8];
    for position in 0..MEMBERS {
        let is_voter = votes(&bls::interop_secret_key(position as u64));
        signers[position / 8] |= u8::from(is_voter) << (position % 8);
    }
    std::fs::write(folder.join("keys"), keys.as_flattened())?;
    std::fs::write(folder.join("signers"), signers)?;
    std::fs::write(
        folder.join("signature"),
        bls::aggregate(signatures.as_flattened())?,
    )?;
    Ok(())
}
