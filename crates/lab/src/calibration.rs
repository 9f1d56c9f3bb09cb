//! The kernels of each crate, measured on this machine on all threads at once: a wide unit can slow
//! the whole processor down, which one thread alone does not show.

use crate::error::Result;
use crate::options::Common;
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

/// A kernel of one crate, as its level and a measurement in nanoseconds.
type Level<'a> = (&'static str, Box<dyn Fn() -> f64 + Sync + 'a>);

/// All kernels of the crates that have several.
pub fn all(common: &Common) -> Result<Vec<Kernel>> {
    let mut kernels = bls(&common.for_crate("bls"))?;
    kernels.extend(labrador(&common.for_crate("labrador"))?);
    kernels.extend(stark(&common.for_crate("stark"))?);
    Ok(kernels)
}

/// The kernels of BLS, by the addition of keys.
pub fn bls(common: &Common) -> Result<Vec<Kernel>> {
    let levels = alphorn_bls::Backend::available()
        .into_iter()
        .map(|backend| {
            let ns = move || alphorn_bls::Costs::measure(backend).add_ns;
            (backend.name(), Box::new(ns) as _)
        });
    let chosen = common.bls_kernel()?.name();
    of_crate("bls", "an addition of keys", levels, chosen, common)
}

/// The kernels of lattices, by transforms.
pub fn labrador(common: &Common) -> Result<Vec<Kernel>> {
    let levels = alphorn_labrador::Backend::available();
    let levels = levels.into_iter().map(|backend| {
        let ns = move || backend.measure().as_secs_f64() * 1e9 / 64.0;
        (backend.name(), Box::new(ns) as _)
    });
    let chosen = common.labrador_kernel()?.name();
    of_crate(
        "labrador",
        "a transform there and back",
        levels,
        chosen,
        common,
    )
}

/// The kernels of hashes, by permutations.
pub fn stark(common: &Common) -> Result<Vec<Kernel>> {
    let levels = alphorn_stark::Backend::available()
        .into_iter()
        .map(|backend| {
            let ns = move || backend.measure().as_secs_f64() * 1e9 / 128.0;
            (backend.name(), Box::new(ns) as _)
        });
    let chosen = common.stark_kernel()?.name();
    of_crate("stark", "a permutation", levels, chosen, common)
}

fn of_crate<'a>(
    krate: &'static str,
    of: &'static str,
    levels: impl Iterator<Item = Level<'a>>,
    chosen: &str,
    common: &Common,
) -> Result<Vec<Kernel>> {
    let threads = common.threads()?;
    let kernel = |(level, measure): Level<'a>| Kernel {
        krate,
        level,
        of,
        ns: on_all(threads, measure.as_ref()),
        chosen: level == chosen,
    };
    Ok(levels.map(kernel).collect())
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
