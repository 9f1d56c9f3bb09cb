//! `alphorn doctor`: what this host offers, and what it means for a duty.

mod disk;
mod lacking;

use crate::calibration::{self, Kernel};
use crate::error::{Error, Result};
use crate::keycache;
use crate::machine::Machine;
use crate::options::Common;
use crate::report::{Report, table};
use crate::{machine, text};
use alphorn_node::engine::RESERVE_AHEAD_NS;
use disk::DiskLag;
use lacking::Lacking;
use serde::Serialize;
use serde_json::json;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Show what this host offers: cores, memory, instruction sets, kernels measured and chosen
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  alphorn doctor\n  alphorn doctor --json -\n  alphorn doctor --kernel bls=portable\n  alphorn doctor --data-dir /var/lib/alphorn"
)]
pub(crate) struct Args {
    #[command(flatten)]
    common: Common,
    /// Data folder of a node: measure how long its disk takes to persist the mark that precedes signing
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
}

/// Sleep time of a timer thread between two wake-ups.
const TIMER: Duration = Duration::from_millis(2);
/// Wake-ups of the timer: half a second in all.
const WAKE_UPS: usize = 250;

/// How late a sleeping thread wakes up.
#[derive(Serialize)]
struct TimerLag {
    p50_us: f64,
    p99_us: f64,
    max_us: f64,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let report = Report::begin("doctor", args.common.seed);
    let kernels = calibration::all(&args.common)?;
    let machine = Machine::here(args.common.threads()?, calibration::chosen(&kernels));
    let lag = timer_lag();
    let disk = args.data_dir.as_deref().map(DiskLag::measure).transpose()?;
    let cache = keycache::folder()?;

    let sink = args.common.sink();
    let mut rows = vec![
        vec!["processor".into(), machine.cpu.clone()],
        vec!["cores for this process".into(), machine.cores.to_string()],
        vec!["memory".into(), text::bytes(machine.memory_bytes)],
        vec!["instruction sets".into(), machine.features.join(" ")],
        vec![
            "timer lag p50 / p99 / max".into(),
            format!(
                "{:.0} / {:.0} / {:.0} us",
                lag.p50_us, lag.p99_us, lag.max_us
            ),
        ],
        vec!["open files at most".into(), open_files()],
        vec!["key cache".into(), cache.display().to_string()],
        vec!["commit".into(), machine::commit().into()],
    ];
    rows.extend(disk.iter().map(DiskLag::row));
    for kernel in &kernels {
        let why = kernel.why.as_ref();
        let mark = why.map_or_else(String::new, |why| format!(", chosen: {why}"));
        rows.push(vec![
            Kernel::title(kernel.krate, kernel.level),
            format!("{:.0} ns {}{mark}", kernel.ns, kernel.of),
        ]);
    }
    rows.extend(sums_of_signs());
    let lacking = Lacking::with(&machine.features);
    rows.extend(lacking.iter().map(Lacking::row));
    sink.say(&table(&["", "this machine"], &rows));
    sink.say(&format!("\n{}", verdict(&kernels)));

    let fields = json!({ "kernels": kernels, "kernels_lacking": lacking, "timer_lag": lag, "disk_lag": disk, "key_cache": cache.display().to_string() });
    sink.write(&report.object(
        &machine,
        "measured",
        &json!({ "kernels": machine.kernels }),
        fields,
    )?)?;
    match disk.and_then(|disk| disk.complaint(RESERVE_AHEAD_NS)) {
        Some(complaint) => Err(Error::Check(complaint)),
        None => Ok(()),
    }
}

/// Returns the number of files and connections this process may have open.
fn open_files() -> String {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    limit.map_or_else(|| "any number".into(), |limit| limit.to_string())
}

/// Returns which of two methods sums the signs of projections, where a processor supports both.
fn sums_of_signs() -> Option<Vec<String>> {
    let widest = alphorn_labrador::KERNELS.available().pop()?;
    let times = alphorn_labrador::kernel::sign_times(widest)?;
    let chosen = match times.subsets_win() {
        true => "subsets",
        false => "bytes",
    };
    let (subsets, bytes) = (times.subsets.as_nanos(), times.bytes.as_nanos());
    let text =
        format!("{subsets} ns an element by subsets of rows, {bytes} by bytes, chosen: {chosen}");
    Some(vec!["labrador sums of signs".into(), text])
}

fn verdict(kernels: &[Kernel]) -> String {
    // 512 collections of 2^15 keys at half participation need 2.07 million additions by patterns
    // of eight columns: (1 - 2^-8) additions a key and group of eight, 64 groups.
    const ADDITIONS: f64 = 64.0 * 32768.0 * 255.0 / 256.0;
    let mut bls = kernels.iter().filter(|kernel| kernel.krate == "bls");
    match bls.find(|kernel| kernel.chosen) {
        Some(kernel) => format!(
            "The keys of 512 collections at 50 % participation: {} on one thread [modelled from the measured addition].",
            text::seconds(ADDITIONS * kernel.ns * 1e-9)
        ),
        None => "The chosen kernel is not available here.".into(),
    }
}

fn timer_lag() -> TimerLag {
    let mut lags_us: Vec<f64> = (0..WAKE_UPS)
        .map(|_| {
            let start = Instant::now();
            std::thread::sleep(TIMER);
            start.elapsed().saturating_sub(TIMER).as_secs_f64() * 1e6
        })
        .collect();
    lags_us.sort_by(f64::total_cmp);
    let at = |share: f64| lags_us[((WAKE_UPS - 1) as f64 * share) as usize];
    TimerLag {
        p50_us: at(0.5),
        p99_us: at(0.99),
        max_us: at(1.0),
    }
}
