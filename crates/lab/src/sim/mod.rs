//! `alphorn sim`: the protocols in a simulated network.

mod chart;
mod compare;
mod folder;
mod list;
mod merge;
mod page;
mod pictures;
mod plan;
mod plot;
pub(crate) mod presets;
mod print;
mod replay;
mod run;
pub mod source;
mod sweep_page;
pub(crate) mod table;
mod trace;
mod work;

use crate::error::Result;
use clap::Subcommand;

/// Run the protocols in a simulated network
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand, Debug)]
enum What {
    /// Run a scenario with its seeds and its sweep, a preset by name, or the runs of a plan
    #[command(after_help = "Examples:
  alphorn sim run regress-gossip
  alphorn sim run classes-mixed --seed 7 --out run7
  alphorn sim run broadcast-20 --set sim.nodes=500 --seeds 1..5 --jobs 2 --out sweep
  alphorn sim run scenario.toml --json -
  alphorn sim run --plan plan.jsonl --index 3 --out sweep

Exit codes: 0 all expectations of the scenario hold, 1 one does not (the command that replays the run is
printed), 2 wrong usage or scenario. All times and bytes are modelled.")]
    Run(run::Args),
    /// Write the runs of a scenario as lines that any host can process
    #[command(after_help = "Examples:
  alphorn sim plan broadcast-20 --set sim.nodes=500 --out plan.jsonl
  alphorn sim run --plan plan.jsonl --shard 0/8 --out shard0
  alphorn sim merge sweep shard0 shard1")]
    Plan(plan::Args),
    /// Write the tables and the page of a sweep from its runs
    #[command(after_help = "Example:
  alphorn sim merge sweep")]
    Merge(merge::Args),
    /// Compare two runs side by side, and fail if their times are too far apart
    #[command(after_help = "Example:
  alphorn sim compare run7 run8 --within 5")]
    Compare(compare::Args),
    /// Repeat a run, and fail if any event differs
    #[command(after_help = "Examples:
  alphorn sim replay run7
  alphorn sim replay run7 --until 100000 --node 12")]
    Replay(replay::Args),
    /// Draw the deliveries of several runs over time in one picture
    #[command(after_help = "Examples:
  alphorn sim plot gossip=run1 rlnc=run2 --out cdf.svg --title 'A block of 119 kB'
  alphorn sim plot sweep --out cdf.svg")]
    Plot(plot::Args),
    /// Draw columns of a table: of a sweep, of `explore`, or of any JSON report
    #[command(after_help = "Examples:
  alphorn sim chart sweep/points.csv --x protocol.collectors --y t99_ms_mean --by protocol.selection \
      --y-label 'ms' --title 'How few collectors?' --out collectors.svg
  alphorn horn griefing --json griefing.json
  alphorn sim chart griefing.json --x malicious --y loss.best1,loss.quorum3 --only eve=0.1 \
      --only misses=0.01 --y-label 'share of honest votes lost' --title 'Griefing' --out griefing.svg")]
    Chart(chart::Args),
    /// List the presets and what each of them shows
    List(list::Args),
}

/// Runs the command.
///
/// # Errors
/// If it cannot be run, or if a check fails.
pub fn run(args: &Args) -> Result<()> {
    match &args.what {
        What::Run(args) => run::run(args),
        What::Plan(args) => plan::run(args),
        What::Merge(args) => merge::run(args),
        What::Compare(args) => compare::run(args),
        What::Replay(args) => replay::run(args),
        What::Plot(args) => plot::run(args),
        What::Chart(args) => chart::run(args),
        What::List(args) => list::run(args),
    }
}
