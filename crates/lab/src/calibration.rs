//! The kernels of each crate, measured on this host on all threads at once, once per processor and
//! build. A wide unit can slow down the whole processor, which a single thread does not show.

use crate::error::Result;
use crate::kernel_times::times;
use crate::options::{Common, Compute};
use alphorn_exec::{Backend, Kernels};
use serde::Serialize;
use std::collections::BTreeMap;
use std::time::Duration;

/// One kernel of one crate.
#[derive(Clone, Debug, Serialize)]
pub struct Kernel {
    /// The crate.
    #[serde(rename = "crate")]
    pub krate: &'static str,
    /// The instruction sets that it needs.
    pub level: &'static str,
    /// What the time measures.
    pub of: &'static str,
    /// Nanoseconds.
    pub ns: f64,
    /// Whether it is the one in use.
    pub chosen: bool,
    /// Why it was chosen, if it was.
    pub why: Option<String>,
}

impl Kernel {
    /// Returns the name of a kernel in tables.
    pub fn title(krate: &str, level: &str) -> String {
        format!("{krate} kernel {level}")
    }
}

/// The kernels of the crates that validators run.
pub const ALL: [&Kernels; 4] = [
    &alphorn_bls::KERNELS,
    &alphorn_labrador::KERNELS,
    &alphorn_stark::KERNELS,
    &alphorn_rlnc::KERNELS,
];

/// Measures all kernels of those crates.
pub fn all(common: &Common) -> Result<Vec<Kernel>> {
    let each = ALL.map(|kernels| of(kernels, &common.for_crate(kernels.of).compute));
    let each: Vec<Vec<Kernel>> = each.into_iter().collect::<Result<_>>()?;
    Ok(each.concat())
}

/// Measures the kernels of one crate.
pub fn of(kernels: &Kernels, compute: &Compute) -> Result<Vec<Kernel>> {
    let threads = compute.threads()?;
    let times = times(kernels, threads);
    let chosen = compute.kernel(kernels)?;
    let why = match Kernels::fastest(&times) == chosen {
        true => reason(&times, chosen, threads),
        false => "asked for by --kernel".to_owned(),
    };
    let kernel = |(backend, time): &(Backend, Duration)| Kernel {
        krate: kernels.of,
        level: backend.name(),
        of: kernels.work,
        ns: time.as_secs_f64() * 1e9,
        chosen: *backend == chosen,
        why: (*backend == chosen).then(|| why.clone()),
    };
    Ok(times.iter().map(kernel).collect())
}

/// Explains why one of several kernels is chosen.
fn reason(times: &[(Backend, Duration)], chosen: Backend, threads: usize) -> String {
    let ns = |time: &Duration| time.as_secs_f64() * 1e9;
    let own = times.iter().find(|(backend, _)| *backend == chosen);
    let own = own.map_or(f64::INFINITY, |(_, time)| ns(time));
    let others = times.iter().filter(|(backend, _)| *backend != chosen);
    let next = others.min_by_key(|(_, time)| *time);
    let on = match threads {
        1 => "one thread".to_owned(),
        n => format!("{n} threads at once"),
    };
    match next {
        None => "no other can run here".to_owned(),
        Some((next, time)) if ns(time) < own => {
            format!("{next} is wider and not faster by a twentieth on {on}")
        }
        Some((next, time)) => format!("{:.2} times as fast as {next} on {on}", ns(time) / own),
    }
}

/// Returns the chosen kernel of each crate.
pub fn chosen(kernels: &[Kernel]) -> BTreeMap<&'static str, String> {
    let chosen = kernels.iter().filter(|kernel| kernel.chosen);
    chosen
        .map(|kernel| (kernel.krate, kernel.level.to_owned()))
        .collect()
}

/// Formats one line for a log.
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
        for krate in ["bls", "labrador", "rlnc", "stark"] {
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
            assert!(
                of.iter()
                    .all(|kernel| kernel.chosen == kernel.why.is_some())
            );
        }
        let chosen = chosen(&kernels);
        assert_eq!(chosen.len(), ALL.len());
        assert_eq!(chosen["stark"], "portable");
    }

    #[test]
    fn a_choice_has_its_reason() {
        let ns = Duration::from_nanos;
        let portable = (Backend::Portable, ns(100));
        let of = |times: &[_]| reason(times, Backend::Portable, 2);
        assert_eq!(of(&[portable]), "no other can run here");
        let wide = alphorn_bls::KERNELS.available().last().copied();
        let Some(wide) = wide.filter(|wide| *wide != Backend::Portable) else {
            return;
        };
        let faster = of(&[portable, (wide, ns(97))]);
        assert!(
            faster.contains("not faster by a twentieth on 2 threads"),
            "{faster}"
        );
        let times = [portable, (wide, ns(40))];
        let found = reason(&times, Kernels::fastest(&times), 1);
        assert_eq!(found, "2.50 times as fast as portable on one thread");
    }
}
