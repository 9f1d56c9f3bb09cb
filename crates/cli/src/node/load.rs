//! Predicts the load of a network on this host before it starts: the cost of each scheme operation on
//! the kernel in use, times how often the nodes here perform it per slot.
//!
//! This is a prediction, not a measurement. It covers votes that agree, but not messages, hashing or
//! other programs. So a network just below the bound may still miss duties, and one above it cannot
//! work. Where a node hosts some of the validators, each unit is counted as often as one of its servers
//! is expected on this host.

use super::files::NetworkFile;
use super::scheme::{SchemeCosts, scheme_costs};
use crate::error::Result;
use crate::options::Plain;
use alphorn_scheme::Op;
use anyhow::anyhow;

/// Share of the processors above which a warning is printed; the rest is needed for what is not counted.
const WARNED: f64 = 0.6;
/// Share of the processors above which nothing starts.
const REFUSED: f64 = 1.0;
/// Ratio of a phase's duration to its deadline above which nothing starts, as most of its results are lost.
const PHASE_REFUSED: f64 = 2.0;

/// What the nodes of a network compute on this host.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Load {
    /// Share of all processor time.
    pub(crate) slot: f64,
    /// For each phase its name, and its share of the processor time until its results are needed.
    pub(crate) phases: Vec<(String, f64)>,
}

/// The network and host to predict for.
struct Question<'a> {
    network: &'a NetworkFile,
    costs: &'a dyn SchemeCosts,
    /// Validators of each node on this host.
    hosts: &'a [u32],
    cores: usize,
}

/// Returns the core seconds that a node with this many validators needs per phase: votes, then one per
/// level, then the verification of what collectors made.
fn seconds(question: &Question<'_>, hosted: u32) -> Result<Vec<f64>> {
    let layout = question.network.layout()?;
    let horn = question.network.horn(&question.costs.info(&layout))?;
    let validators = f64::from(layout.validators());
    let part = f64::from(hosted) / validators;
    let cost = |op, n: f64, m: f64| {
        let count = |value: f64| value.round() as u64;
        match count(n) {
            0 => 0.0,
            n => question.costs.cost_ns(op, n, count(m)) as f64 / 1e9,
        }
    };
    let top = layout.levels();
    let mut phases = vec![cost(Op::Sign, f64::from(hosted), 0.0)];
    let (mut below_count, mut below_publishers) = (validators, 1.0);
    for level in 1..=top {
        let count = layout.units(level).count() as f64;
        let publishers = f64::from(horn.level(level).publishers);
        // The expected number of units of which at least one publisher is hosted here: each of them is one
        // with probability `part`. Their evidence is made once, while each publisher signs its own.
        let served = count * (1.0 - (1.0 - part).powf(publishers));
        let (len, parts) = (validators / count, below_count / count);
        let made = match level {
            1 => cost(Op::Aggregate, len, 0.0),
            _ => cost(Op::Collect, parts, len),
        };
        // Each part arrives from every one of its publishers.
        let inputs = served * parts * below_publishers;
        let verified = match level {
            1 => cost(Op::VerifyVotes, inputs, 0.0),
            _ => cost(
                Op::VerifyAggregates,
                inputs,
                inputs * validators / below_count,
            ),
        };
        let signed = cost(Op::DutySign, count * publishers * part, 0.0);
        // Votes are verified as they arrive.
        if level == 1 {
            phases[0] += verified;
            phases.push(served * made + signed);
        } else {
            phases.push(verified + served * made + signed);
        }
        (below_count, below_publishers) = (count, publishers);
    }
    let all = below_count * below_publishers;
    phases.push(cost(
        Op::VerifyCollections,
        all,
        all * validators / below_count,
    ));
    Ok(phases)
}

impl Question<'_> {
    fn load(&self) -> Result<Load> {
        let timing = self.network.timing()?;
        let offsets = timing.offsets_ms();
        let top = usize::from(self.network.layout()?.levels());
        let cores = self.cores as f64;
        let mut all = vec![0.0; top + 2];
        for hosted in self.hosts {
            for (sum, seconds) in all.iter_mut().zip(seconds(self, *hosted)?) {
                *sum += seconds;
            }
        }
        // From propose and vote on, each level has a phase; the last one has until the next votes.
        let at = |index: usize| offsets.get(index).copied().unwrap_or(timing.slot_ms());
        let next_votes = timing.slot_ms() + at(1);
        let window_ms = |index: usize| match index {
            index if index < top => at(index + 2).saturating_sub(at(index + 1)),
            _ => next_votes.saturating_sub(at(top + 1)),
        };
        let name = |index: usize| match index {
            0 => "votes".to_owned(),
            index if index < top => format!("evidence of level {index}"),
            index if index == top => "collections".to_owned(),
            _ => "collections of others".to_owned(),
        };
        let share = |seconds: f64, ms: u64| seconds * 1e3 / (ms.max(1) as f64 * cores);
        let phases = all.iter().enumerate();
        let phases =
            phases.map(|(index, seconds)| (name(index), share(*seconds, window_ms(index))));
        Ok(Load {
            slot: share(all.iter().sum(), timing.slot_ms()),
            phases: phases.collect(),
        })
    }

    /// Returns the largest number of validators, spread over nodes in today's proportion, that causes
    /// no warning; none if even one per node is too many.
    fn validators_that_fit(&self) -> Option<u32> {
        let now = self.network.validator_count;
        let fits = |count: u32| {
            let mut network = self.network.clone();
            network.validator_count = count;
            let hosts = self.hosts.iter().map(|hosted| {
                let hosted = u64::from(*hosted) * u64::from(count) / u64::from(now.max(1));
                u32::try_from(hosted).unwrap_or(u32::MAX).max(1)
            });
            let question = Question {
                network: &network,
                hosts: &hosts.collect::<Vec<u32>>(),
                ..*self
            };
            question.load().is_ok_and(|load| load.overload() <= 1.0)
        };
        let least = u32::try_from(self.hosts.len()).unwrap_or(u32::MAX).max(1);
        // A few validators cannot form a layout with this many cells, so the search starts from above.
        let (mut low, mut high) = (now / 2, now);
        while !fits(low) {
            (low, high) = (low / 2, low);
            if low < least {
                return None;
            }
        }
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            match fits(middle) {
                true => low = middle,
                false => high = middle,
            }
        }
        Some(low)
    }

    /// Suggests an alternative.
    fn instead(&self, load: &Load) -> Result<String> {
        let slot_ms = self.network.timing()?.slot_ms() as f64;
        let seconds = (slot_ms / 1e3 * load.overload()).ceil();
        let cores = (self.cores as f64 * load.overload()).ceil();
        let validators = match self.validators_that_fit() {
            Some(count) => format!("{count} validators, "),
            None => String::new(),
        };
        Ok(format!(
            "{validators}slots of {seconds} s, or {cores} cores would do"
        ))
    }
}

impl Load {
    /// Returns the phase with the least slack.
    fn busiest(&self) -> Option<&(String, f64)> {
        let phases = self.phases.iter();
        phases.max_by(|(_, one), (_, other)| one.total_cmp(other))
    }

    /// Returns the greatest share of its time that a phase takes.
    fn phase(&self) -> f64 {
        self.busiest().map_or(0.0, |(_, share)| *share)
    }

    /// Returns the ratio to the load that passes without a warning. Above 60 % of the processors, or
    /// above the time of a phase, duties may be missed.
    fn overload(&self) -> f64 {
        (self.slot / WARNED).max(self.phase())
    }

    fn is_refused(&self) -> bool {
        self.slot > REFUSED || self.phase() > PHASE_REFUSED
    }

    /// Describes the prediction in one line.
    pub(crate) fn line(&self, cores: usize) -> String {
        let percent = |share: f64| format!("{:.0} %", share * 100.0);
        let busiest = self.busiest().map_or_else(String::new, |(name, share)| {
            format!(", most of it for {name}: {} of their time", percent(*share))
        });
        let slot = percent(self.slot);
        format!("predicted: {slot} of {cores} cores are busy{busiest}")
    }
}

/// Predicts the load of nodes with this many validators on this host, and a warning if it is high.
/// `known` is the scheme if already known, whose costs need not be measured again.
///
/// # Errors
/// If the load exceeds the host's capacity; the error says what would fit. Not with `force`.
pub(crate) fn predict(
    network: &NetworkFile,
    known: Option<&dyn SchemeCosts>,
    hosts: &[u32],
    common: &Plain,
    force: bool,
) -> Result<(Load, Option<String>)> {
    let cores = common.threads()?;
    if let Some(costs) = known {
        let question = Question {
            network,
            costs,
            hosts,
            cores,
        };
        let load = question.load()?;
        if load.overload() <= 1.0 {
            return Ok((load, None));
        }
    }
    // What would fit has other layouts, for which the scheme must be queried again.
    let costs = scheme_costs(network, common)?;
    let question = Question {
        network,
        costs: &*costs,
        hosts,
        cores,
    };
    judge(&question, force)
}

fn judge(question: &Question<'_>, force: bool) -> Result<(Load, Option<String>)> {
    let load = question.load()?;
    let line = load.line(question.cores);
    if load.overload() <= 1.0 {
        return Ok((load, None));
    }
    let instead = question.instead(&load)?;
    if load.is_refused() && !force {
        return Err(anyhow!("{line}; {instead}; --force begins nevertheless").into());
    }
    Ok((
        load,
        Some(format!("{line}; duties may be missed: {instead}")),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use alphorn_proto::horn::SchemeInfo;
    use alphorn_scheme::model::{CostTable, Model};
    use alphorn_types::Layout;

    /// A scheme whose operations cost this many microseconds per input.
    struct Flat(u64);

    impl SchemeCosts for Flat {
        fn info(&self, layout: &Layout) -> SchemeInfo {
            SchemeInfo::of(&Model::new(CostTable::example()).unwrap(), layout)
        }

        fn cost_ns(&self, _: Op, n: u64, _: u64) -> u64 {
            n * self.0 * 1_000
        }
    }

    fn network(validators: u32) -> NetworkFile {
        NetworkFile {
            genesis_time: 0,
            validator_count: validators,
            attestation_committee_count: 2,
            subcommittees_per_committee: 2,
            alphorn_fan_out: None,
            aggregators_per_subcommittee: 2,
            collectors_per_committee: 2,
            alphorn_scheme: "bls".into(),
            alphorn_layers: Default::default(),
            alphorn_broadcast_code: Default::default(),
            alphorn_fork_choice: None,
            alphorn_preset: "lean".into(),
            alphorn_key_slots: 64,
            alphorn_keys: None,
        }
    }

    fn question<'a>(network: &'a NetworkFile, costs: &'a Flat, hosts: &'a [u32]) -> Question<'a> {
        Question {
            network,
            costs,
            hosts,
            cores: 2,
        }
    }

    /// One node with a whole network of 256: 256 votes signed and verified, 4 cells of 64 aggregated,
    /// and so on, at a millisecond each.
    #[test]
    fn what_is_done_in_a_slot_is_counted() {
        let network = network(256);
        let load = question(&network, &Flat(1_000), &[256]).load().unwrap();
        let ms: Vec<f64> = load.phases.iter().map(|(_, share)| share * 2.0).collect();
        // Windows of 0.8 s, and of 2.4 s from the collections to the next votes.
        let expected = [
            512.0 / 800.0,
            (256.0 + 8.0) / 800.0,
            (8.0 + 4.0 + 4.0) / 2_400.0,
            4.0 / 2_400.0,
        ];
        for (got, expected) in ms.iter().zip(expected) {
            assert!((got - expected).abs() < 1e-9, "{ms:?}");
        }
        let sum = 512.0 + 264.0 + 16.0 + 4.0;
        assert!((load.slot - sum / 8_000.0).abs() < 1e-9, "{}", load.slot);
        assert_eq!(load.busiest().unwrap().0, "votes");
    }

    #[test]
    fn what_does_not_fit_is_refused_with_what_would() {
        let network = network(256);
        let judged = |us, force| judge(&question(&network, &Flat(us), &[64; 4]), force);
        let (load, warning) = judged(10, false).unwrap();
        assert!(load.slot < 0.1 && warning.is_none(), "{load:?}");
        // Votes take longer than their phase, but the slot as a whole does not.
        let (load, warning) = judged(3_000, false).unwrap();
        assert!(
            load.slot < WARNED && (1.0..2.0).contains(&load.phase()),
            "{load:?}"
        );
        assert!(warning.unwrap().contains("duties may be missed"));
        let (load, warning) = judged(5_000, true).unwrap();
        assert!(
            load.slot < REFUSED && load.phase() > PHASE_REFUSED,
            "{load:?}"
        );
        let error = judged(5_000, false).unwrap_err();
        let text = error.to_string();
        for part in [" validators, slots of ", " cores would do", "--force"] {
            assert!(text.contains(part), "{text}");
        }
        // The suggested number does fit.
        let count = warning.unwrap();
        let count = count.split("missed: ").nth(1).unwrap();
        let count: u32 = count.split(' ').next().unwrap().parse().unwrap();
        let fewer = super::tests::network(count);
        let hosts = [count / 4; 4];
        let load = question(&fewer, &Flat(5_000), &hosts).load().unwrap();
        assert!(load.overload() <= 1.0 && count > 4, "{count}: {load:?}");
        assert!(judged(20_000, false).is_err());
    }
}
