//! Runs every target over its seeds, its corpus and mutations of both, on stable Rust and without
//! libFuzzer: a decoder that a corpus file once broke stays whole.
#![forbid(unsafe_code)]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use alphorn_fuzz::{Mutator, TARGETS, Target};

/// How many times the mutations of a target are run.
const ROUNDS: u32 = if cfg!(feature = "soak") { 100 } else { 1 };

/// What an input may take. So much more than any of them needs that no machine fails for being slow or
/// busy: it finds work without bound, nothing else.
const INPUT_TIME_MAX: Duration = Duration::from_secs(60);

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// The files of a folder, sorted by name.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder)
        .unwrap_or_else(|error| panic!("cannot read {}: {error}", folder.display()));
    let mut files: Vec<_> = entries
        .map(|entry| entry.expect("readable entry").path())
        .collect();
    files.sort();
    files
}

/// Runs one input and says whether it was accepted; a failure prints the input.
fn run(target: &Target, origin: &str, input: &[u8]) -> bool {
    let name = target.name;
    let start = Instant::now();
    let Ok(accepted) = std::panic::catch_unwind(|| (target.run)(input)) else {
        panic!("{name} failed on {origin}: {input:02x?}");
    };
    let elapsed = start.elapsed();
    assert!(
        elapsed < INPUT_TIME_MAX,
        "{name} took {elapsed:?} on {origin}"
    );
    accepted
}

#[test]
fn every_target_survives_seeds_corpus_and_mutations() {
    for target in TARGETS {
        let name = target.name;
        let start = Instant::now();
        let mut inputs = (target.seeds)();
        assert!(!inputs.is_empty(), "{name} has no seeds");
        for (index, input) in inputs.iter().enumerate() {
            let origin = format!("seed {index}");
            assert!(
                run(target, &origin, input),
                "{name} refuses {origin}: {input:02x?}"
            );
        }
        for path in files(&folder("corpus").join(name)) {
            let input = std::fs::read(&path).expect("readable corpus file");
            run(target, &path.display().to_string(), &input);
            inputs.push(input);
        }
        let mut mutator = Mutator::new(0x616c_7068_6f72_6e00);
        let mutations = target.mutations * ROUNDS;
        let accepted = (0..mutations)
            .filter(|index| {
                run(
                    target,
                    &format!("mutation {index}"),
                    &mutator.mutate(&inputs),
                )
            })
            .count();
        println!(
            "{name}: {accepted} of {mutations} mutations accepted, {:?}",
            start.elapsed()
        );
    }
}

#[test]
fn every_target_has_its_binary_and_its_corpus() {
    let names: BTreeSet<_> = TARGETS
        .iter()
        .map(|target| target.name.to_owned())
        .collect();
    let stems = |name: &str| -> BTreeSet<String> {
        let stem = |path: PathBuf| {
            path.file_stem()
                .map(|stem| stem.to_string_lossy().into_owned())
        };
        files(&folder(name)).into_iter().filter_map(stem).collect()
    };
    assert_eq!(stems("fuzz_targets"), names);
    assert_eq!(stems("corpus"), names);
}
