//! `alphorn sim plan`: the runs of a scenario as lines that any host can process.

use super::source::Asked;
use crate::error::Result;
use crate::machine::commit;
use crate::overwrite::check_apart;
use crate::report::write_whole;
use alphorn_sim::sweep::Plan;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Write the runs of a scenario as JSON lines: first what they share, then one run per line
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    #[command(flatten)]
    asked: Asked,
    /// File for the plan, - for standard output
    #[arg(long, short, value_name = "FILE", default_value = "-")]
    out: PathBuf,
}

pub(super) fn run(args: &Args) -> Result<()> {
    let scenario = args.asked.load()?;
    let inputs = args.asked.files(&scenario);
    check_apart(inputs.iter().map(PathBuf::as_path), [args.out.as_path()])?;
    let lines = Plan::of(&scenario, commit())?.to_lines()?;
    if args.out != Path::new("-") {
        return write_whole(&args.out, lines.as_bytes());
    }
    match io::stdout().write_all(lines.as_bytes()) {
        // A closed pipe is not an error.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}
