//! Traffic and computing load of nodes: by class, and by phase if the run consists of slots.
//!
//! A run that follows the votes of a few slots lasts longer than those slots, because collections and blocks come
//! later. Each time in the run is mapped to the corresponding time in one slot, and sums are divided by the
//! number of slots followed. The result is the load of a network in which such slots follow each other
//! indefinitely.

use super::quantile::quantile_of;
use super::record::{Bin, NodeRecord};
use crate::net::{BIN_NS, LOAD_BIN_NS, Load, share};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Name for all classes together.
pub const ALL: &str = "all";
/// Name of the only phase of a run without phases.
const WHOLE: &str = "run";

/// Load rates of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Rates {
    /// Megabits sent per second.
    pub up_mbps: f64,
    /// Megabits received per second.
    pub down_mbps: f64,
    /// Cores in use.
    pub cores: f64,
}

impl Rates {
    /// Converts bits per second and core nanoseconds per second.
    fn of(up_bps: u64, down_bps: u64, cores_ns: u64) -> Self {
        Rates {
            up_mbps: up_bps as f64 / 1e6,
            down_mbps: down_bps as f64 / 1e6,
            cores: cores_ns as f64 / 1e9,
        }
    }
}

/// Load of a class of nodes in a phase.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PhaseLoad {
    /// Name of the phase.
    pub phase: String,
    /// Mean over the nodes of the class.
    #[serde(flatten)]
    pub rates: Rates,
}

/// Load of a class of nodes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ClassLoad {
    /// Its name; [`ALL`] stands for all classes together.
    pub class: String,
    /// Number of its nodes.
    pub nodes: u32,
    /// Mean over its nodes and over the duration of a slot, or of the run until its last byte and job.
    pub mean: Rates,
    /// Each node's busiest second, separately for each rate: the value not exceeded by 99 % of the nodes. Cores
    /// count jobs of 20 µs or more.
    pub peak: Rates,
    /// The same for the busiest node.
    pub most: Rates,
    /// The phases of a slot.
    pub phases: Vec<PhaseLoad>,
}

/// Traffic of one message kind in a phase of a slot.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct KindSent {
    /// The phase.
    pub phase: String,
    /// Kind of the messages.
    pub message: String,
    /// Mean megabytes per node.
    pub mb: f64,
}

/// The loads of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Loads {
    /// All classes together, then each class.
    pub classes: Vec<ClassLoad>,
    /// Traffic by phase and kind.
    pub sent: Vec<KindSent>,
}

/// The time frame to which loads refer.
#[derive(Clone, Debug)]
pub(crate) struct Frame {
    /// Nanoseconds of a slot, or of the run until its last byte and job.
    period_ns: u64,
    /// Number of slots followed.
    periods: u64,
    /// Phases of a slot by name, with the end of each; the first starts with the slot.
    phases: Vec<(String, u64)>,
}

impl Frame {
    /// A run without slots that lasts `ns` nanoseconds until its last byte and its last job.
    pub(crate) fn run(ns: u64) -> Self {
        Frame {
            period_ns: ns.max(1),
            periods: 1,
            phases: vec![(WHOLE.to_owned(), ns.max(1))],
        }
    }

    /// This many slots with these phases, given by name and start.
    pub(crate) fn slots(slot_ns: u64, slots: u64, begins: &[(&str, u64)]) -> Self {
        let ends = begins.iter().skip(1).map(|(_, begin)| *begin);
        let phases = begins.iter().zip(ends.chain([slot_ns]));
        let phases = phases.map(|((name, begin), end)| ((*name).to_owned(), *begin, end));
        Frame {
            period_ns: slot_ns.max(1),
            periods: slots.max(1),
            // A phase that starts where the slot ends has no duration.
            phases: phases
                .filter(|(_, begin, end)| end > begin)
                .map(|(name, _, end)| (name, end))
                .collect(),
        }
    }

    /// The phases that a bin overlaps, and its nanoseconds in each.
    fn parts(&self, from_ns: u64, bin_ns: u64) -> Vec<(usize, u64)> {
        if self.phases.len() == 1 {
            // Regardless of how often the duration of the run fits into the bin.
            return vec![(0, bin_ns)];
        }
        let mut parts = Vec::new();
        let (mut at_ns, mut left_ns) = (from_ns % self.period_ns, bin_ns);
        while left_ns > 0 {
            let phase = self.phases.partition_point(|(_, end)| *end <= at_ns);
            let Some((_, end)) = self.phases.get(phase) else {
                break;
            };
            let part_ns = left_ns.min(end - at_ns);
            parts.push((phase, part_ns));
            left_ns -= part_ns;
            // The bin may go on into the next slot, whose phases are the same.
            at_ns = (at_ns + part_ns) % self.period_ns;
        }
        parts
    }

    /// Nanoseconds of a phase.
    fn phase_ns(&self, phase: usize) -> u64 {
        let begin = phase
            .checked_sub(1)
            .map_or(0, |before| self.phases[before].1);
        self.phases[phase].1 - begin
    }
}

/// Load per node and second, from the total of `nodes` nodes over some time.
fn each(load: Load, nodes: u32, ns: u64) -> Rates {
    let second = |amount: u64| {
        // Wide, because bits times nanoseconds per second exceed 64 bits from 2.3 GB on.
        let all = u128::from(ns.max(1)) * u128::from(nodes.max(1));
        (u128::from(amount) * 1_000_000_000 / all) as u64
    };
    let bits = |bytes: u64| second(bytes.saturating_mul(8));
    Rates::of(bits(load.up), bits(load.down), second(load.cpu_ns))
}

/// The busiest seconds of some nodes: the value not exceeded by a share of them.
fn busiest(nodes: &[&NodeRecord], permille: usize) -> Rates {
    let of =
        |value: fn(&NodeRecord) -> u64| quantile_of(nodes.iter().map(|node| value(node)), permille);
    Rates::of(
        of(|node| node.peak_1s_up_bps),
        of(|node| node.peak_1s_down_bps),
        of(|node| node.peak_1s_jobs_ns),
    )
}

impl Loads {
    /// Computes the loads from the counters of a world: loads by bin and class, nodes, and the series of
    /// messages.
    pub(crate) fn of(
        frame: &Frame,
        classes: &[&str],
        loads: impl Iterator<Item = (u64, u16, Load)>,
        nodes: &[NodeRecord],
        series: &[Bin],
    ) -> Loads {
        let phases = frame.phases.len();
        let mut sums = vec![vec![Load::default(); phases]; classes.len()];
        for (bin, class, load) in loads.filter(|(.., load)| *load != Load::default()) {
            for (phase, ns) in frame.parts(bin * LOAD_BIN_NS, LOAD_BIN_NS) {
                let own = Load {
                    up: share(load.up, ns, LOAD_BIN_NS),
                    down: share(load.down, ns, LOAD_BIN_NS),
                    cpu_ns: share(load.cpu_ns, ns, LOAD_BIN_NS),
                };
                sums[usize::from(class)][phase] += own;
            }
        }
        let of = |name: &str, sums: &[Load], nodes: Vec<&NodeRecord>| {
            let count = nodes.len() as u32;
            let mut whole = Load::default();
            sums.iter().for_each(|load| whole += *load);
            let rates = |(phase, load): (usize, &Load)| {
                let ns = frame.phase_ns(phase) * frame.periods;
                PhaseLoad {
                    phase: frame.phases[phase].0.clone(),
                    rates: each(*load, count, ns),
                }
            };
            ClassLoad {
                class: name.to_owned(),
                nodes: count,
                mean: each(whole, count, frame.period_ns * frame.periods),
                peak: busiest(&nodes, 990),
                most: busiest(&nodes, 1000),
                phases: sums.iter().enumerate().map(rates).collect(),
            }
        };
        let mut all = vec![Load::default(); phases];
        for own in &sums {
            all.iter_mut()
                .zip(own)
                .for_each(|(sum, load)| *sum += *load);
        }
        let mut told = vec![of(ALL, &all, nodes.iter().collect())];
        for (class, (name, sums)) in classes.iter().zip(&sums).enumerate() {
            let own = nodes.iter().filter(|node| usize::from(node.class) == class);
            told.push(of(name, sums, own.collect()));
        }
        Loads {
            classes: told,
            sent: sent(frame, series, nodes.len()),
        }
    }

    /// All classes together.
    pub fn all(&self) -> Option<&ClassLoad> {
        self.classes.first()
    }
}

fn sent(frame: &Frame, series: &[Bin], nodes: usize) -> Vec<KindSent> {
    let mut sums: BTreeMap<(usize, &'static str), u64> = BTreeMap::new();
    for bin in series {
        for (phase, ns) in frame.parts(bin.from_ns, BIN_NS) {
            *sums.entry((phase, bin.kind)).or_default() += share(bin.bytes, ns, BIN_NS);
        }
    }
    let sent = sums.into_iter().map(|((phase, kind), bytes)| KindSent {
        phase: frame.phases[phase].0.clone(),
        message: kind.to_owned(),
        mb: (bytes / frame.periods) as f64 / nodes.max(1) as f64 / 1e6,
    });
    sent.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    fn node(class: u16, up_bps: u64) -> NodeRecord {
        NodeRecord {
            class,
            peak_1s_up_bps: up_bps,
            peak_1s_jobs_ns: 2 * S,
            ..NodeRecord::default()
        }
    }

    #[test]
    fn later_slots_of_a_run_are_taken_for_the_one_that_is_followed() {
        let begins = [("propose", 0), ("vote", S), ("decide", 4 * S)];
        let frame = Frame::slots(4 * S, 1, &begins);
        let bins = S / LOAD_BIN_NS;
        let load = |up, cpu_ns| Load {
            up,
            down: 2 * up,
            cpu_ns,
        };
        // 3000 bytes at the start of voting, and 1000 in the first phase of the next slot.
        let loads = [
            (bins, 0, load(3000, 0)),
            (4 * bins, 0, load(1000, 0)),
            (5 * bins, 1, load(0, 6 * S)),
        ];
        let series = [Bin {
            from_ns: 5 * S,
            kind: "vote",
            msgs: 1,
            bytes: 77,
        }];
        let nodes = [node(0, 5), node(0, 9), node(1, 1)];
        let told = Loads::of(
            &frame,
            &["slow", "fast"],
            loads.into_iter(),
            &nodes,
            &series,
        );
        let names: Vec<&str> = told.classes.iter().map(|one| one.class.as_str()).collect();
        assert_eq!(names, ["all", "slow", "fast"]);
        let slow = &told.classes[1];
        // 4000 bytes from two nodes in four seconds.
        assert_eq!((slow.mean.up_mbps, slow.mean.down_mbps), (0.004, 0.008));
        let up_mbps = |phase: usize| slow.phases[phase].rates.up_mbps;
        assert_eq!(up_mbps(0), 0.004, "1000 bytes in a second");
        assert_eq!(up_mbps(1), 0.004, "3000 bytes in three");
        assert_eq!(slow.phases.len(), 2, "decide has no time");
        assert_eq!((slow.peak.up_mbps, slow.most.cores), (9e-6, 2.0));
        let fast = &told.classes[2];
        assert_eq!((fast.nodes, fast.mean.cores), (1, 1.5));
        assert_eq!(fast.phases[1].rates.cores, 2.0);
        let expected = KindSent {
            phase: "vote".into(),
            message: "vote".into(),
            mb: 77.0 / 3.0 / 1e6,
        };
        assert_eq!(told.sent, [expected]);
    }

    #[test]
    fn a_bin_at_a_border_is_parted() {
        let frame = Frame::slots(LOAD_BIN_NS * 3 / 2, 1, &[("a", 0), ("b", LOAD_BIN_NS / 2)]);
        let half = LOAD_BIN_NS / 2;
        assert_eq!(frame.parts(0, LOAD_BIN_NS), [(0, half), (1, half)]);
        // The end of the slot and the start of the next one.
        assert_eq!(
            frame.parts(LOAD_BIN_NS, LOAD_BIN_NS),
            [(1, half), (0, half)]
        );
        let run = Frame::run(LOAD_BIN_NS);
        assert_eq!(run.parts(0, LOAD_BIN_NS), [(0, LOAD_BIN_NS)]);
    }
}
