//! What it costs to have jobs done by the worker, and what an accident costs: `cargo bench --package
//! alphorn-worker`.
//!
//! Jobs that do nothing but pass time, so every figure is the worker's own. start is the time from
//! the return of submit to the first instruction of the job, finish that from its last to the result
//! in the caller's hands. busy is the share of the time that the prove lane runs jobs of 80 ms while
//! some wait, late the results of jobs that ended after they were wanted and did not come. restart is
//! the time from the end of an accident to the end of the next job, which does nothing, on the same
//! lane; child: in a process that stands by. lag is how late a timer of 2 ms wakes a thread, idle and
//! while the prove lane computes. Takes about ten seconds; fails if a search takes more checks than
//! its bound.

mod measure;
mod task;

use alphorn_worker::{ChildCommand, serve_child};
use std::process::ExitCode;
use task::{Action, BenchTask};

/// Why a measurement did not end, in words.
type Result<T> = std::result::Result<T, String>;

/// Bad inputs of 1,024 for which searches are counted, and how many checks they may take.
const BAD: [(u32, u32); 6] = [
    (0, 1),
    (1, 31),
    (8, 95),
    (64, 390),
    (512, 1050),
    (1024, 1050),
];
/// Jobs whose result comes after it was wanted.
const LATE_JOBS: u32 = 20;

/// Jobs of which the overhead is taken.
const JOBS: u32 = 5000;
/// Milliseconds of each measurement of lag.
const LAG_MS: u64 = 2000;
/// Threads of the prove lane under which lag is measured.
const PROVE_THREADS: u16 = 2;
/// Seed of searches and samples.
const SEED: u64 = 1;
/// The word with which this program is a child of itself.
const CHILD: &str = "--serve-child";

fn row(name: &str, figure: &str, note: &str) {
    println!("{name:26} {figure:>12}  {note}");
}

fn overhead() -> Result<()> {
    let parts = measure::overhead_us(JOBS)?;
    for (name, part) in ["submit", "start", "finish"].into_iter().zip(&parts) {
        let note = format!("least {:.1}", part.min);
        row(name, &format!("{:.1} us", part.p50), &note);
    }
    Ok(())
}

fn restarts() -> Result<()> {
    let program = std::env::current_exe().map_err(|error| format!("no path to this: {error}"))?;
    let child = ChildCommand {
        program,
        args: [CHILD].map(Into::into).to_vec(),
        setup: [].into(),
    };
    let accidents = [
        ("panic in a thread", Action::Panic, None),
        ("panic in a child", Action::Panic, Some(&child)),
        ("abort of a child", Action::Abort, Some(&child)),
        ("hang of a child", Action::Hang, Some(&child)),
    ];
    for (name, action, child) in accidents {
        let spread = measure::restart_ms(action, child, 5)?;
        let note = format!("least {:.2}, most {:.2}", spread.min, spread.max);
        row(name, &format!("{:.2} ms", spread.p50), &note);
    }
    Ok(())
}

fn use_of_lanes() -> Result<()> {
    let busy = format!("{:.1} %", measure::busy_ratio(3000)? * 100.0);
    row("prove lane busy", &busy, "jobs of 80 ms");
    let lost = measure::late_lost(LATE_JOBS)?.to_string();
    let note = format!("of {LATE_JOBS} that ended after they were wanted");
    row("late results lost", &lost, &note);
    Ok(())
}

fn searches() -> Result<()> {
    for (bad, bound) in BAD {
        let (mean, most, ms) = measure::bisect(1024, bad, SEED);
        if most > bound {
            return Err(format!(
                "{bad} bad of 1,024 took {most} checks, at most {bound} allowed"
            ));
        }
        let note = format!(
            "mean {mean:.1}, at most {bound}, {:.0} us without the checks",
            ms * 1e3
        );
        row(
            &format!("{bad} bad of 1,024"),
            &format!("{most} checks"),
            &note,
        );
    }
    Ok(())
}

fn costs() {
    let (coverage90, recover_jobs) = measure::cost(SEED);
    let coverage = format!("{:.1} %", coverage90 * 100.0);
    row("within the 90 % prediction", &coverage, "500 jobs");
    row(
        "three times slower",
        &format!("{recover_jobs} jobs"),
        "until learned",
    );
}

fn lags() -> Result<()> {
    for (name, load) in [("lag, idle", false), ("lag, loaded", true)] {
        let [p50, p99, p999, max] = measure::lag_ms(LAG_MS, load, PROVE_THREADS)?;
        let note = format!("p99 {p99:.2}, p99.9 {p999:.2}, most {max:.2}");
        row(name, &format!("{p50:.2} ms"), &note);
    }
    Ok(())
}

fn all() -> Result<()> {
    overhead()?;
    let plan_op = format!("{:.0} ns", measure::plan_op_ns(100_000));
    row("operation of the plan", &plan_op, "1,023 wait");
    use_of_lanes()?;
    restarts()?;
    searches()?;
    costs();
    lags()
}

fn main() -> ExitCode {
    let is = |asked: &str| std::env::args().any(|word| word == asked);
    if is(CHILD) {
        return serve_child::<BenchTask>(|_| Ok(()));
    }
    // `cargo test --benches` wants to know that it starts, not the figures.
    if !is("--bench") {
        return ExitCode::SUCCESS;
    }
    match all() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
