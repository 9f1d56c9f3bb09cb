//! `alphorn lattice params`: the schedule of a proof, its predicted size and its security budget.

use super::{LatticeOptions, degree, flavour_name, preset};
use crate::distinct::distinct;
use crate::error::Result;
use crate::machine::{Machine, cores};
use crate::options::Json;
use crate::report::{Report, table};
use crate::text;
use alphorn_falcon::{COMMITTEE_MAX, DEGREE, Flavour, Preset};
use alphorn_labrador::schedule::{Level, Schedule, Tail};
use anyhow::ensure;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Show the parameters of a proof of N signatures, its predicted size and its security budget
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  alphorn lattice params --n 10000
  alphorn lattice params --n 1000 --security --profile falcon
  alphorn lattice params --n 16,1024,20000 --json -
  alphorn lattice params --n 10000,16384 --flavour slot
  alphorn lattice params --n 1000,3000,20000 --degree 1024

Prover and verifier derive these numbers from N, degree and profile alone; a proof carries none of them.
Nothing is measured: sizes are predictions of the entropy code, security is an estimate. kappa rows commit
to the pieces of a level (r of n ring elements), kappa1 rows to their digits.

--security lists the events that would let a false proof pass, with the probability of each per hash
query (Fiat-Shamir): an attacker that can try 2^60 hashes gains 60 bits.")]
pub(super) struct Args {
    /// Number of signatures, 1 to 20000; several separated by commas
    #[arg(long, value_name = "N", required = true, value_delimiter = ',')]
    n: Vec<u32>,
    /// What proofs optimise: verification time (fast) or bytes (small)
    #[arg(long, value_name = "PRESET", value_parser = preset, default_value = "fast")]
    preset: Preset,
    /// Show the security budget
    #[arg(long)]
    security: bool,
    /// Degree of the signatures: 512 (Falcon-512) or 1024 (Falcon-1024)
    #[arg(long, value_name = "DEGREE", value_parser = degree, default_value_t = DEGREE)]
    degree: usize,
    #[command(flatten)]
    lattice: LatticeOptions,
    #[command(flatten)]
    json: Json,
}

pub(super) fn run(args: &Args) -> Result<()> {
    let report = Report::begin("lattice params", 0);
    let sink = args.json.sink();
    distinct("--n", &args.n)?;
    let (profile, flavour) = (args.lattice.profile(), args.lattice.flavour());
    let degree = args.degree;
    let mut cases = Vec::new();
    for &n in &args.n {
        check_number(n)?;
        let schedule = args.preset.schedule_of(degree, n as usize, profile)?;
        let plain = Plain::of(n, degree, flavour);
        sink.say(&printed(&plain, &schedule));
        if args.security {
            sink.say(&super::security::printed(degree, &schedule));
        }
        cases.push(case(&plain, &schedule, args.security));
    }
    let flavour = flavour_name(flavour);
    let config = json!({
        "n": args.n,
        "profile": profile.name(),
        "flavour": flavour,
        "degree": degree,
        "preset": args.preset.name(),
    });
    let machine = Machine::here(cores(), BTreeMap::new());
    let fields = json!({ "cases": Value::Array(cases) });
    sink.write(&report.object(&machine, "modelled", &config, fields)?)
}

/// Rejects a number of signatures for which no proof exists.
pub fn check_number(n: u32) -> anyhow::Result<()> {
    ensure!(
        (1..=COMMITTEE_MAX).contains(&n),
        "--n {n}: allowed are 1 to {COMMITTEE_MAX}"
    );
    Ok(())
}

/// The signatures that a proof covers.
struct Plain {
    signatures: u32,
    degree: usize,
    /// Bytes of all salts.
    salt_bytes: usize,
    /// Bytes of all signatures.
    bytes: usize,
}

impl Plain {
    fn of(signatures: u32, degree: usize, flavour: Flavour) -> Plain {
        Plain {
            signatures,
            degree,
            salt_bytes: signatures as usize * flavour.salt_bytes(),
            bytes: signatures as usize * flavour.signature_bytes_of(degree),
        }
    }
}

fn case(plain: &Plain, schedule: &Schedule, security: bool) -> Value {
    let mut case = json!({
        "n": plain.signatures,
        "profile": schedule.profile.name(),
        "proof_bytes_predicted": schedule.bytes,
        "salt_bytes": plain.salt_bytes,
        "plain_bytes": plain.bytes,
        "levels": levels_json(schedule),
    });
    if security && let Some(case) = case.as_object_mut() {
        let security = super::security::json(plain.degree, schedule);
        case.insert("security".into(), security);
    }
    case
}

/// Returns the levels of a schedule, including the last one.
pub(crate) fn levels_json(schedule: &Schedule) -> Value {
    // As text, since they have more digits than a JSON number keeps.
    let variances = |all: &[u128]| all.iter().map(u128::to_string).collect::<Vec<_>>();
    let level = |level: &Level| {
        json!({
            "r": level.cut.pieces,
            "n": level.cut.rank,
            "kappa": level.kappa,
            "kappa1": level.kappa_outer,
            "f": 2,
            "b": level.z_base,
            "fu": level.t_digits,
            "families": level.families,
            "blocks": level.images.is_some(),
            "parts": level.images_sent(),
            "projection_variances": variances(&level.projection_variances()),
            "m": level.digits(),
            "norm_sq_max": level.norm_sq.to_string(),
        })
    };
    let tail = |tail: &Tail| {
        json!({
            "r": tail.cut.pieces,
            "n": tail.cut.rank,
            "kappa": tail.kappa,
            "f": 1,
            "parts": tail.parts.count,
            "projection_variances": variances(&[tail.projection_variance()]),
            "z_variance": tail.z_variance.to_string(),
            "norm_sq_max": tail.norm_sq.to_string(),
        })
    };
    let levels = schedule.levels.iter().map(level);
    Value::Array(levels.chain([tail(&schedule.tail)]).collect())
}

/// Returns the scheme of the signatures as a suffix, if it is not the default.
pub(crate) fn scheme_of(degree: usize) -> String {
    match degree {
        DEGREE => String::new(),
        degree => format!(" of Falcon-{degree}"),
    }
}

fn printed(plain: &Plain, schedule: &Schedule) -> String {
    let log = |norm_sq: u128| format!("{:.1}", (norm_sq as f64).log2() / 2.0);
    let mut rows: Vec<Vec<String>> = Vec::new();
    for (i, level) in schedule.levels.iter().enumerate() {
        rows.push(vec![
            (i + 1).to_string(),
            level.cut.pieces.to_string(),
            level.cut.rank.to_string(),
            level.kappa.to_string(),
            level.kappa_outer.to_string(),
            level.z_base.to_string(),
            level.t_digits.to_string(),
            level.digits().to_string(),
            log(level.norm_sq),
        ]);
    }
    let tail = &schedule.tail;
    rows.push(vec![
        "last".into(),
        tail.cut.pieces.to_string(),
        tail.cut.rank.to_string(),
        tail.kappa.to_string(),
        "-".into(),
        "-".into(),
        "-".into(),
        "-".into(),
        log(tail.norm_sq),
    ]);
    let header = [
        "level",
        "r",
        "n",
        "kappa",
        "kappa1",
        "b",
        "fu",
        "m",
        "log2 norm",
    ];
    let salts = match plain.salt_bytes {
        0 => "no salts".to_owned(),
        bytes => format!("{} of salts", text::bytes(bytes as u64)),
    };
    let scheme = scheme_of(plain.degree);
    format!(
        "{} signature{}{scheme}, profile {}: proof {} (predicted) and {}, against {} of signatures\n\n{}\n",
        text::count(u64::from(plain.signatures)),
        if plain.signatures == 1 { "" } else { "s" },
        schedule.profile.name(),
        text::bytes(schedule.bytes),
        salts,
        text::bytes(plain.bytes as u64),
        table(&header, &rows)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use alphorn_labrador::sis::Profile;

    /// `--json` prints what a decoder must know: docs/formats.md.
    #[test]
    fn printed_parameters_are_those_of_the_vectors() {
        let path = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../vectors/formats/lattice.json"
        );
        let file: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        let given = file["given"].as_object().unwrap();
        assert_eq!(given.len(), 2);
        for given in given.values() {
            let n = given["n"].as_u64().unwrap() as usize;
            let schedule = Preset::Fast.schedule(n, Profile::Core128).unwrap();
            assert_eq!(given["profile"], schedule.profile.name());
            let printed = levels_json(&schedule);
            let (printed, levels) = (
                printed.as_array().unwrap(),
                given["levels"].as_array().unwrap(),
            );
            assert_eq!(printed.len(), levels.len(), "{n}");
            for (printed, level) in printed.iter().zip(levels) {
                for (name, value) in level.as_object().unwrap() {
                    assert_eq!(&printed[name], value, "{n}: {name}");
                }
            }
        }
    }
}
