//! The kernels of each crate, measured on this machine on all threads at once: a wide unit can slow
//! the whole processor down, which one thread alone does not show.

use crate::error::Result;
use crate::options::Common;
use alphorn_exec::{Backend, Kernels};
use serde::Serialize;
use std::collections::BTreeMap;

/// Rounds of a measurement; the best one counts.
const ROUNDS: usize = 3;

/// One kernel of one crate.
#[derive(Clone, Debug, Serialize)]
pub struct Kernel {
    /// The crate.
    #[serde(rename = "crate")]
    pub krate: &'static str,
    /// The instruction sets that it needs.
    pub level: &'static str,
    /// What the time is of.
    pub of: &'static str,
    /// Nanoseconds.
    pub ns: f64,
    /// Whether it is the one in use.
    pub chosen: bool,
}

impl Kernel {
    /// How tables name a kernel.
    pub fn title(krate: &str, level: &str) -> String {
        format!("{krate} kernel {level}")
    }
}

/// The kernels of the crates that validators run.
pub const ALL: [&Kernels; 3] = [
    &alphorn_bls::KERNELS,
    &alphorn_labrador::KERNELS,
    &alphorn_stark::KERNELS,
];

/// All kernels of those crates.
pub fn all(common: &Common) -> Result<Vec<Kernel>> {
    let each = ALL.map(|kernels| of(kernels, &common.for_crate(kernels.of)));
    let each: Vec<Vec<Kernel>> = each.into_iter().collect::<Result<_>>()?;
    Ok(each.concat())
}

/// The kernels of one crate.
pub fn of(kernels: &Kernels, common: &Common) -> Result<Vec<Kernel>> {
    let (threads, chosen) = (common.threads()?, common.kernel(kernels)?);
    let kernel = |backend: Backend| Kernel {
        krate: kernels.of,
        level: backend.name(),
        of: kernels.work,
        ns: on_all(threads, &|| (kernels.measure)(backend).as_secs_f64() * 1e9),
        chosen: backend == chosen,
    };
    Ok(kernels.available().into_iter().map(kernel).collect())
}

/// A measurement on so many threads at once: the mean over them, of the best round.
fn on_all(threads: usize, measure: &(dyn Fn() -> f64 + Sync)) -> f64 {
    let round = || {
        let sum: f64 = std::thread::scope(|scope| {
            let all: Vec<_> = (0..threads).map(|_| scope.spawn(measure)).collect();
            let times = all.into_iter().filter_map(|thread| thread.join().ok());
            times.sum()
        });
        sum / threads as f64
    };
    (0..ROUNDS).map(|_| round()).fold(f64::INFINITY, f64::min)
}

/// The chosen kernel of each crate.
pub fn chosen(kernels: &[Kernel]) -> BTreeMap<&'static str, String> {
    let chosen = kernels.iter().filter(|kernel| kernel.chosen);
    chosen
        .map(|kernel| (kernel.krate, kernel.level.to_owned()))
        .collect()
}

/// One line for a log.
pub fn line(kernels: &[Kernel]) -> String {
    let one = |kernel: &Kernel| {
        let mark = if kernel.chosen { " (chosen)" } else { "" };
        let Kernel { level, ns, .. } = kernel;
        format!("{level} {ns:.0} ns{mark}")
    };
    let levels: Vec<String> = kernels.iter().map(one).collect();
    let first = kernels.first();
    let (krate, of) = first.map_or(("none", ""), |kernel| (kernel.krate, kernel.of));
    format!("kernels of {krate}, {of}: {}", levels.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        common: Common,
    }

    #[test]
    fn every_crate_has_one_chosen_kernel_and_a_time_for_each() {
        let options = ["doctor", "--threads", "2", "--kernel", "stark=portable"];
        let common = Cli::try_parse_from(options).unwrap().common;
        let kernels = all(&common).unwrap();
        for krate in ["bls", "labrador", "stark"] {
            let of = kernels.iter().filter(|kernel| kernel.krate == krate);
            assert_eq!(
                of.clone().filter(|kernel| kernel.chosen).count(),
                1,
                "{krate}"
            );
            assert!(of.clone().any(|kernel| kernel.level == "portable"));
            assert!(
                of.clone()
                    .all(|kernel| kernel.ns > 0.0 && kernel.ns.is_finite())
            );
            let of: Vec<Kernel> = of.cloned().collect();
            assert!(line(&of).contains(" (chosen)"), "{}", line(&of));
        }
        let chosen = chosen(&kernels);
        assert_eq!(chosen.len(), 3);
        assert_eq!(chosen["stark"], "portable");
    }
}
