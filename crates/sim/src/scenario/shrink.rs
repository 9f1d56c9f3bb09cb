//! A smaller scenario that fails in the same way.

use super::{Graph, Scenario, Stop};

/// Runs that a shrink may take at most.
pub const TRIES_MAX: u32 = 400;

/// What a shrink found.
#[derive(Clone, Debug)]
pub struct Shrunk {
    /// The smallest scenario that still fails.
    pub scenario: Scenario,
    /// How many were tried.
    pub tries: u32,
}

/// Makes a failing scenario smaller while it fails: drops faults, halves nodes, drops traffic, and
/// shortens time if `cuts_time`; until nothing helps. `fails` runs one and says whether it still fails
/// in the same way.
///
/// A shorter time makes every node late, so it is of use only where the failure is not about time.
pub fn shrink(
    scenario: &Scenario,
    cuts_time: bool,
    fails: &mut dyn FnMut(&Scenario) -> bool,
) -> Shrunk {
    let mut state = State {
        shrunk: Shrunk {
            scenario: scenario.clone(),
            tries: 0,
        },
        fails,
    };
    loop {
        let before = state.shrunk.scenario.clone();
        state.faults();
        state.repeat(halve_nodes);
        state.repeat(halve_count);
        state.repeat(halve_bytes);
        if cuts_time {
            state.repeat(halve_time);
        }
        if state.shrunk.scenario == before || state.shrunk.tries >= TRIES_MAX {
            return state.shrunk;
        }
    }
}

struct State<'a> {
    shrunk: Shrunk,
    fails: &'a mut dyn FnMut(&Scenario) -> bool,
}

impl State<'_> {
    /// Takes a scenario if it is one and still fails.
    fn attempt(&mut self, smaller: Scenario) -> bool {
        if self.shrunk.tries >= TRIES_MAX || smaller.check().is_err() {
            return false;
        }
        self.shrunk.tries += 1;
        let taken = (self.fails)(&smaller);
        if taken {
            self.shrunk.scenario = smaller;
        }
        taken
    }

    /// Applies a step as long as it can be applied and still fails.
    fn repeat(&mut self, step: fn(&Scenario) -> Option<Scenario>) {
        while let Some(smaller) = step(&self.shrunk.scenario) {
            if !self.attempt(smaller) {
                return;
            }
        }
    }

    /// Delta debugging over the faults (Zeller and Hildebrandt 2002): drops parts, smaller ones when
    /// no part of a size can go.
    fn faults(&mut self) {
        let mut parts = 1;
        while parts <= self.shrunk.scenario.fault.len() {
            let count = self.shrunk.scenario.fault.len();
            let size = count.div_ceil(parts);
            let dropped = (0..count).step_by(size).any(|from| {
                let mut smaller = self.shrunk.scenario.clone();
                smaller.fault.drain(from..(from + size).min(count));
                self.attempt(smaller)
            });
            if !dropped {
                if size == 1 {
                    return;
                }
                parts = (parts * 2).min(count);
            }
        }
    }
}

fn halve_nodes(scenario: &Scenario) -> Option<Scenario> {
    let mut smaller = scenario.clone();
    let nodes = scenario.sim.nodes / 2;
    if nodes < 2 || matches!(scenario.graph, Graph::File { .. }) {
        return None;
    }
    smaller.sim.nodes = nodes;
    // A graph of few nodes has few neighbours: the most even number.
    let most = (nodes - 1).min(1000) & !1;
    match &mut smaller.graph {
        Graph::Permutations { degree }
        | Graph::RegionBiased { degree, .. }
        | Graph::Regular { degree } => *degree = (*degree).min(most),
        Graph::Uniform { .. } | Graph::Grid {} | Graph::Complete {} | Graph::File { .. } => {}
    }
    for fault in &mut smaller.fault {
        let listed = !fault.nodes.is_empty();
        fault.nodes.retain(|&node| node < nodes);
        if listed && fault.nodes.is_empty() {
            fault.nodes.push(0);
        }
    }
    Some(smaller)
}

fn halve_count(scenario: &Scenario) -> Option<Scenario> {
    let mut smaller = scenario.clone();
    smaller.traffic.count /= 2;
    (smaller.traffic.count > 0).then_some(smaller)
}

fn halve_bytes(scenario: &Scenario) -> Option<Scenario> {
    let mut smaller = scenario.clone();
    smaller.traffic.bytes /= 2;
    (smaller.traffic.bytes > 0).then_some(smaller)
}

fn halve_time(scenario: &Scenario) -> Option<Scenario> {
    let mut smaller = scenario.clone();
    let ms = match scenario.sim.stop {
        Stop::TimeMs(ms) => ms,
        _ => scenario.sim.sim_time_max_ms,
    };
    smaller.sim.stop = Stop::TimeMs(ms / 2);
    (ms > 1).then_some(smaller)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::FaultKind;

    fn scenario() -> Scenario {
        let mut text = "name = \"t\"\nschema = 1\n[sim]\nnodes = 1000\n[[class]]\nname = \"full\"\nshare_pct = 100\n\
                        down_mbps = 50\nup_mbps = 15\n[protocol]\nkind = \"gossip\"\n[traffic]\nbytes = 100000\ncount = 9\n"
            .to_owned();
        for kind in [
            "crash",
            "late",
            "withhold",
            "slow_cpu",
            "slow_link",
            "eclipse",
            "grief",
        ] {
            text.push_str(&format!("[[fault]]\nkind = \"{kind}\"\nnodes = [3, 700]\n"));
        }
        Scenario::parse(&text, &[]).unwrap()
    }

    #[test]
    fn what_is_not_needed_goes() {
        let mut seen = 0;
        let mut fails = |scenario: &Scenario| {
            seen += 1;
            scenario.check().unwrap();
            let has = |kind| scenario.fault.iter().any(|fault| fault.kind == kind);
            has(FaultKind::Withhold) && has(FaultKind::Grief) && scenario.sim.nodes >= 50
        };
        let shrunk = shrink(&scenario(), false, &mut fails);
        let kinds: Vec<FaultKind> = shrunk
            .scenario
            .fault
            .iter()
            .map(|fault| fault.kind)
            .collect();
        assert_eq!(kinds, [FaultKind::Withhold, FaultKind::Grief]);
        assert_eq!(shrunk.scenario.sim.nodes, 62);
        assert_eq!(
            (shrunk.scenario.traffic.bytes, shrunk.scenario.traffic.count),
            (1, 1)
        );
        assert_eq!(shrunk.scenario.fault[0].nodes, [3]);
        assert_eq!(shrunk.scenario.sim.stop, Stop::Quiescence);
        assert_eq!(shrunk.tries, seen);
        assert!(seen < 100, "{seen} tries");
    }

    #[test]
    fn time_is_shortened_only_where_it_is_not_the_failure() {
        let mut fails = |scenario: &Scenario| match scenario.sim.stop {
            Stop::TimeMs(ms) => ms >= 300,
            _ => true,
        };
        let shrunk = shrink(&scenario(), true, &mut fails);
        assert!(
            matches!(shrunk.scenario.sim.stop, Stop::TimeMs(300..600)),
            "{:?}",
            shrunk.scenario.sim.stop
        );
        assert!(shrunk.scenario.fault.is_empty());
        assert_eq!(shrunk.scenario.sim.nodes, 3);
    }

    #[test]
    fn nothing_goes_where_everything_is_needed() {
        let base = scenario();
        let shrunk = shrink(&base, true, &mut |scenario| scenario == &base);
        assert_eq!(shrunk.scenario, base);
    }
}
