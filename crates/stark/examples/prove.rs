//! Times a proof of openings of the compact set: `prove [openings] [threads] [kernel] [fast|small]`.
//!
//! Also prints the time of each step of one more proof. The openings have keys made up for them, each
//! with its own tree path; nothing is signed.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use alphorn_exec::{Backend, Exec, Watch};
use alphorn_stark::chains::{Chains, Opening, Parameters};
use alphorn_stark::field::P;
use alphorn_stark::proof::{Registry, Statements, prove_succinct, verify_succinct};
use alphorn_stark::statement::{Statement, registry_digest};
use alphorn_stark::whir::Preset;
use alphorn_stark::{Fp, KERNELS, Permutations};

type Failure = Box<dyn std::error::Error>;

const SLOT: u32 = 123_456_789;
const MESSAGE: [Fp; 8] = [Fp::new(5); 8];

/// The compression that signatures hash with: Poseidon, not the Poseidon2 of a proof's own hashes.
fn compress(left: [Fp; 8], right: [Fp; 8]) -> [Fp; 8] {
    let mut states = [std::array::from_fn(|i| {
        if i < 8 { left[i] } else { right[i - 8] }
    })];
    Backend::Portable.compress_16(&mut states);
    std::array::from_fn(|i| states[0][i])
}

/// An opening whose digits ask for the set's number of steps; its root is not computed yet.
fn opening(chains: &Chains, index: usize) -> Opening {
    let parameters = chains.parameters();
    let publics = chains.publics(SLOT, &MESSAGE);
    let mut state = [Fp::new(index as u32); 8];
    let mut half = || {
        state = compress(state, [Fp::ONE; 8]);
        [state[0], state[1], state[2], state[3]]
    };
    let mut opening = Opening {
        index,
        root: [Fp::ZERO; 4],
        parameter: half(),
        randomness: [Fp::ZERO; 6],
        tips: (0..parameters.chains).map(|_| half()).collect(),
        path: (0..parameters.levels).map(|_| half()).collect(),
    };
    let mut key = [Fp::ZERO; 8];
    key[..4].copy_from_slice(&opening.parameter);
    for counter in 0.. {
        opening.randomness[0] = Fp::new(counter);
        let mut right = [Fp::ZERO; 8];
        right[..6].copy_from_slice(&opening.randomness);
        right[6..].copy_from_slice(&publics[12..14]);
        let lanes = compress(compress(MESSAGE, right), key).map(Fp::canonical);
        let digit = |i: usize| lanes[i / 8] >> (3 * (i % 8)) & 7;
        let steps: u32 = (0..parameters.chains).map(|i| 7 - digit(i)).sum();
        if steps as usize == parameters.steps && !lanes.contains(&(P - 1)) {
            break;
        }
    }
    opening
}

/// Remembers when steps begin.
#[derive(Default)]
struct Steps(Mutex<Vec<(&'static str, Instant)>>);

impl Watch for Steps {
    fn step(&self, name: &'static str) {
        let mut begun = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        begun.push((name, Instant::now()));
    }
}

impl Steps {
    /// Adds up the steps of one name, which end now.
    fn print(self) {
        let begun = self.0.into_inner().unwrap_or_else(PoisonError::into_inner);
        let ends = begun.iter().skip(1).map(|(_, at)| *at);
        let ends = ends.chain([Instant::now()]);
        let mut sums: Vec<(&str, Duration)> = Vec::new();
        for ((name, at), end) in begun.iter().zip(ends) {
            match sums.iter_mut().find(|(known, _)| known == name) {
                Some((_, sum)) => *sum += end - *at,
                None => sums.push((name, end - *at)),
            }
        }
        for (name, sum) in sums {
            println!("{name:20} {:8.1} ms", sum.as_secs_f64() * 1e3);
        }
    }
}

/// The value, and the least time of some runs.
fn timed<T>(
    runs: usize,
    mut f: impl FnMut() -> Result<T, Failure>,
) -> Result<(T, Duration), Failure> {
    let (mut value, mut least) = (None, Duration::MAX);
    for _ in 0..runs {
        let start = Instant::now();
        value = Some(f()?);
        least = least.min(start.elapsed());
    }
    Ok((value.ok_or("no repetition")?, least))
}

fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let count: usize = arguments.next().map_or(Ok(64), |x| x.parse())?;
    let threads: usize = arguments.next().map_or(Ok(2), |x| x.parse())?;
    let backend = KERNELS.parse(arguments.next().as_deref().unwrap_or("auto"))?;
    let preset = match arguments.next().as_deref() {
        Some("small") => Preset::SMALL,
        _ => Preset::FAST,
    };
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(threads)
        .build()?;
    prove(Exec::new(backend, Some(&pool)), count, &preset, 3)
}

/// Proves so many openings, so many times.
fn prove(exec: Exec<'_>, count: usize, preset: &Preset, runs: usize) -> Result<(), Failure> {
    let chains = Chains::new(Parameters::COMPACT);
    let relation = chains.relation();
    let mut openings = exec.map(count, |index| opening(&chains, index));
    let roots = chains.roots(exec, SLOT, &MESSAGE, &openings)?;
    let mut rows = Vec::new();
    for (opening, root) in openings.iter_mut().zip(roots) {
        opening.root = root;
        let [a, b, c, d] = root;
        let [e, f, g, h] = opening.parameter;
        rows.push([a, b, c, d, e, f, g, h]);
    }
    let log2 = relation.column_log2();
    let registry = Registry::new(&rows, 8, log2)?;
    let id = chains.parameters().id;
    let statement = Statement {
        set: id,
        slot: SLOT,
        message: MESSAGE.to_vec(),
        committee: 0,
        level: 0,
        registry: registry_digest(exec, &registry, id, 0),
        bitfield: (0..1 << log2).map(|i| i < count).collect(),
    };
    let public = chains.public(&statement, &registry);
    let (opened, filled) = timed(runs, || Ok(chains.opened(exec, SLOT, &MESSAGE, &openings)?))?;
    if opened.holds.contains(&false) {
        return Err("an opening does not lead to its key".into());
    }
    let (proof, proved) = timed(runs, || {
        Ok(prove_succinct(
            exec,
            relation,
            preset,
            &public,
            &opened.witness,
        )?)
    })?;
    let ((), verified) = timed(runs, || {
        Ok(verify_succinct(exec, relation, preset, &public, &proof)?)
    })?;
    let bytes = proof.to_bytes(relation, preset).len();
    let rate = count as f64 / (filled + proved).as_secs_f64();
    let steps = Steps::default();
    let watched = exec.with_watch(&steps);
    prove_succinct(watched, relation, preset, &public, &opened.witness)?;
    steps.print();
    println!(
        "{count} openings, {} threads, {}, {}: witness {filled:.1?}, proof {proved:.1?} \
         ({rate:.0}/s), {bytes} bytes, verified in {verified:.1?}",
        exec.threads(),
        exec.backend(),
        preset.name
    );
    Ok(())
}

/// The one opening is proved and the proof verified, as whoever begins with this crate would.
#[test]
fn the_example_ends_in_a_proof() {
    let exec = Exec::new(KERNELS.measured(), None);
    prove(exec, 1, &Preset::FAST, 1).unwrap();
}
