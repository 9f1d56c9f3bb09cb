//! `alphorn lattice estimate`: the estimated cost of proofs by other front ends of LaBRADOR.

use super::params::check_number;
use super::{ProfileOptions, degree};
use crate::distinct::distinct;
use crate::error::Result;
use crate::machine::{Machine, cores};
use crate::options::Json;
use crate::report::{Report, table};
use crate::text;
use alphorn_falcon::{DEGREE, Parameters};
use alphorn_labrador::schedule::estimate::{Batch, Estimate, FrontEnd};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Sizes in the study on the Ethereum research forum (topic 24431).
const DEFAULT: &str = "3000,4000,5000,6000,7000,8000,9000,10000";

/// Estimate proofs of N signatures by other front ends of LaBRADOR, in ring elements and bytes
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  alphorn lattice estimate
  alphorn lattice estimate --n 100,1000,10000 --profile peer --json -

columns is the front end used by the proofs here, in preset small. dachshund (lattice-dogs/labrador) and
chihuahua (eprint 2024/311) are alternatives, whose first level is planned under the same soundness
conditions; all levels after the first are the same. The first witness is r vectors of n ring elements,
most of them zero for chihuahua; a prover computes the products for the garbage. The second witness is what
remains after the first level: the verifier's work after that level grows with it. Nothing is measured:
sizes are predictions of the entropy code.")]
pub(super) struct Args {
    /// Numbers of signatures, 1 to 20000
    #[arg(long, value_name = "N", default_value = DEFAULT, value_delimiter = ',')]
    n: Vec<u32>,
    /// Degree of the signatures: 512 or 1024
    #[arg(long, value_name = "DEGREE", value_parser = degree, default_value_t = DEGREE)]
    degree: usize,
    #[command(flatten)]
    profile: ProfileOptions,
    #[command(flatten)]
    json: Json,
}

pub(super) fn run(args: &Args) -> Result<()> {
    let report = Report::begin("lattice estimate", 0);
    let sink = args.json.sink();
    distinct("--n", &args.n)?;
    args.n.iter().try_for_each(|&n| check_number(n))?;
    let (profile, degree) = (args.profile.profile(), args.degree);
    let norm_sq = Parameters::of(degree).norm_sq_max;
    let (mut cases, mut rows) = (Vec::new(), Vec::new());
    for &n in &args.n {
        let batch = Batch::new(n as usize, degree, norm_sq, profile)?;
        for front_end in FrontEnd::ALL {
            let estimate = front_end.estimate(&batch)?;
            rows.push(row(n, front_end, &estimate));
            cases.push(case(n, front_end, &estimate));
        }
    }
    let header = [
        "signatures",
        "front end",
        "r",
        "n",
        "elements",
        "garbage",
        "products",
        "second witness",
        "proof",
    ];
    sink.say(&table(&header, &rows));
    let config = json!({ "n": args.n, "degree": degree, "profile": profile.name() });
    let machine = Machine::here(cores(), BTreeMap::new());
    let fields = json!({ "cases": Value::Array(cases) });
    sink.write(&report.object(&machine, "modelled", &config, fields)?)
}

fn row(n: u32, front_end: FrontEnd, estimate: &Estimate) -> Vec<String> {
    let count = |number: usize| text::count(number as u64);
    vec![
        text::count(u64::from(n)),
        front_end.name().into(),
        count(estimate.pieces),
        count(estimate.rank),
        count(estimate.elements),
        count(estimate.garbage),
        text::count(estimate.products),
        count(estimate.second),
        text::bytes(estimate.bytes),
    ]
}

fn case(n: u32, front_end: FrontEnd, estimate: &Estimate) -> Value {
    json!({
        "n": n,
        "front_end": front_end.name(),
        "r": estimate.pieces,
        "rank": estimate.rank,
        "elements": estimate.elements,
        "garbage": estimate.garbage,
        "products": estimate.products,
        "second_elements": estimate.second,
        "proof_bytes_predicted": estimate.bytes,
    })
}
