//! Finds the results of a run: records, times and the verdict.

use super::followed::Followed;
use super::heads::Fate;
use super::milestones::Milestones;
use super::node::HornNode;
use super::paid::{PaidBlock, paid_blocks};
use super::plan::Plan;
use super::results::{HornRun, SlotVotes};
use super::watch::Watch;
use crate::report::manifest::ChainFigures;
use crate::report::{Bounds, Frame, NodeRecord, Outcome, Times, Votes, quantile_of};
use crate::role::Role;
use crate::scenario::Scenario;
use crate::world::{Pause, World};
use alphorn_proto::chain::Chain;
use alphorn_proto::slot::Phase;
use alphorn_types::{Bitfield, Slot, Unit};

/// What a stopped world yields.
pub(super) struct Findings<'a> {
    pub(super) world: &'a World<HornNode, Watch>,
    pub(super) scenario: &'a Scenario,
    pub(super) plan: &'a Plan,
    pub(super) seed: u64,
    pub(super) class: &'a [u16],
    pub(super) regions: &'a [u8],
    pub(super) honest: &'a [bool],
    pub(super) bounds: Bounds,
}

impl Findings<'_> {
    /// Records, times and the verdict.
    pub(super) fn run(&self, pause: Pause) -> HornRun {
        let last = self.last();
        let (aggregates, collections, _) = last.published();
        let roles = self.world.roles();
        let mut run = HornRun {
            votes: last.votes(self.plan.last()),
            slots: self.slots(),
            blocks: self.blocks(),
            inclusion_slots_min: self.plan.config.inclusion_slots_min(),
            attackers: self.attackers(),
            published: (aggregates, collections),
            longest: self.longest(),
            at_proposer: last.at_proposer,
            at_nodes: [500, 990].map(|permille| Milestones {
                at_ns: std::array::from_fn(|i| self.at_share(permille, i)),
            }),
            block: last.block.as_ref().map_or((0, 0), |block| {
                (block.entries.len() as u64, block.data.len() as u64)
            }),
            finalised: self.finalised(),
            fate: self.fate(),
            unfinished: roles.map(HornNode::unfinished).sum(),
            outcome: self.outcome(pause),
        };
        // These two are made from the other results.
        run.outcome.chain = chain_figures(&run);
        run.outcome.verdict = verdict(&run, self.scenario, self.plan);
        run
    }

    /// The longest messages of each level, from votes to collections.
    fn longest(&self) -> Vec<u64> {
        let last = self.last();
        let top = self.plan.config.layout.levels();
        let mut longest = vec![0; usize::from(top) + 1];
        longest[0] = last.vote_bytes;
        for (post, published) in (0..).zip(&last.aggregates) {
            let own = &mut longest[usize::from(self.plan.unit(post).level)];
            let lengths = published.iter().map(|body| body.data.len() as u64);
            *own = lengths.max().unwrap_or(0).max(*own);
        }
        let collections = last.collections.iter().flatten();
        let lengths = collections.map(|body| body.data.len() as u64);
        longest[usize::from(top)] = lengths.max().unwrap_or(0);
        longest
    }

    fn last(&self) -> &Followed {
        self.world.probe().last()
    }

    /// The chains of honest nodes.
    fn chains(&self) -> impl Iterator<Item = &Chain> {
        let honest = self.world.roles().zip(self.honest);
        let honest = honest.filter(|(_, honest)| **honest);
        honest.map(|(role, _)| role.machine().chain())
    }

    /// The fate of each slot's votes.
    fn slots(&self) -> Vec<SlotVotes> {
        let chains: Vec<&Chain> = self.chains().collect();
        let voters: Vec<Bitfield> = self.honest_members();
        let of = |(slot, followed): (Slot, &Followed)| {
            let counted = |chain: &&Chain| -> u64 {
                let head = chain.head();
                let of = |(committee, voters): (u16, &Bitfield)| {
                    chain.credited(&head, slot, committee).count_and(voters) as u64
                };
                (0..).zip(&voters).map(of).sum()
            };
            let in_block = (0..).zip(&voters).map(|(committee, voters)| {
                followed.in_block(slot, committee).count_and(voters) as u64
            });
            SlotVotes {
                slot: slot.0,
                cast: followed.honest_voted,
                in_block: in_block.sum(),
                in_chain: chains.iter().map(counted).min().unwrap_or(0),
                imported: followed.imported.iter().flatten().count() as u64,
            }
        };
        self.world.probe().slots().map(of).collect()
    }

    /// For each committee, the positions whose validators are hosted by honest nodes.
    fn honest_members(&self) -> Vec<Bitfield> {
        let layout = &self.plan.config.layout;
        let committee = |c: u16| {
            let members = self.plan.assignment.committee_members(c);
            let mut honest = Bitfield::new(members.len());
            for (position, member) in members.iter().enumerate() {
                if self.honest[self.plan.host(*member) as usize] {
                    honest.set(position);
                }
            }
            honest
        };
        (0..layout.committees()).map(committee).collect()
    }

    /// The validators of nodes with a fault.
    fn attackers(&self) -> Bitfield {
        let mut attackers = Bitfield::new(self.plan.config.layout.validators() as usize);
        for (node, _) in (0..).zip(self.honest).filter(|(_, honest)| !**honest) {
            let hosted = self.plan.voters.hosted(node);
            hosted.for_each(|validator| attackers.set(validator as usize));
        }
        attackers
    }

    /// The blocks of the first honest node's chain.
    fn blocks(&self) -> Vec<PaidBlock> {
        let first = self.chains().next();
        first.map_or_else(Vec::new, |chain| {
            paid_blocks(self.plan, self.world.probe(), chain)
        })
    }

    /// The newest slot that is final at every honest node.
    fn finalised(&self) -> u64 {
        let final_at = self.chains().map(|chain| chain.finalised().slot.0);
        final_at.min().unwrap_or(0)
    }

    /// The fate of the chain at honest nodes.
    fn fate(&self) -> Fate {
        let honest = self.world.roles().zip(self.honest);
        let honest = honest.filter(|(_, honest)| **honest);
        let nodes = honest.map(|(role, _)| (role.heads(), role.machine().chain()));
        let blocks = self.world.probe().slots().map(|(_, followed)| followed);
        Fate::of(nodes, blocks, |node| self.honest[node as usize])
    }

    fn begin_ns(&self) -> u64 {
        self.plan.phase_start(Phase::Vote).as_nanos()
    }

    /// The milestones of honest nodes.
    fn counted(&self) -> impl Iterator<Item = &Milestones> {
        let milestones = self.last().milestones.iter();
        let counted = milestones.zip(self.honest).filter(|(_, honest)| **honest);
        counted.map(|(times, _)| times)
    }

    fn at_share(&self, permille: usize, i: usize) -> Option<u64> {
        Times::of(self.counted().map(|times| times.at_ns[i])).at(permille)
    }

    fn outcome(&self, pause: Pause) -> Outcome {
        let (world, watch) = (self.world, self.world.probe());
        let begin_ns = self.begin_ns();
        let delay = |times: &Milestones| times.at_ns[2].map(|at| at.saturating_sub(begin_ns));
        let roles = roles_of(self.plan);
        let nodes = (0..self.plan.nodes)
            .map(|node| self.record(node, roles[node as usize]))
            .collect();
        let classes = self.scenario.class_names();
        Outcome {
            payload_bytes: watch.slots().map(|(_, one)| one.published().2).sum(),
            delays_ns: self.counted().map(delay).collect(),
            useful_bytes: watch.useful_bytes(),
            sent_truncated: pause != Pause::Quiet && world.bytes_on_the_way() != (0, 0),
            bounds: self.bounds,
            adversity: watch.blame().adversity(self.honest, world.roles()),
            votes: Some(self.votes()),
            ..Outcome::counted(world, self.seed, &self.frame(), &classes, nodes)
        }
    }

    fn frame(&self) -> Frame {
        let plan = self.plan;
        let phases = Phase::all(plan.config.layout.levels());
        let begin = |phase: Phase| (phase.name(), plan.phase_start(phase).as_nanos());
        let begins: Vec<(&str, u64)> = phases.map(begin).collect();
        Frame::slots(plan.slot_end().as_nanos(), plan.slots.into(), &begins)
    }

    fn votes(&self) -> Votes {
        let last = self.last();
        let since = |at: u64| at.saturating_sub(self.begin_ns());
        let (votes, at) = (last.votes(self.plan.last()), last.at_proposer.at_ns);
        let graph = self.world.graph();
        let connections = || (0..graph.nodes()).map(|node| graph.peers(node).len() as u64);
        Votes {
            connections: [500, 1000].map(|permille| quantile_of(connections(), permille)),
            cast: votes[0],
            in_block: votes[4],
            two_thirds_ns: at[0].map(since),
            most_ns: at[2].map(since),
            slots: self.plan.slots,
        }
    }

    fn record(&self, node: u32, role: &'static str) -> NodeRecord {
        let at = node as usize;
        let tally = self.world.tally(node);
        let times = &self.last().milestones[at].at_ns;
        let since = |at: u64| at.saturating_sub(self.begin_ns());
        NodeRecord {
            class: self.class[at],
            region: self.regions[at],
            role: if self.honest[at] { role } else { "faulty" },
            first_ns: times[0].map(since),
            done_ns: times[2].map(since),
            dup_bytes: self.world.role(node).duplicate_bytes(),
            ..NodeRecord::counted(node, tally)
        }
    }
}

/// The fate of the chain in the form of reports; none for a single slot.
fn chain_figures(run: &HornRun) -> Option<ChainFigures> {
    let sum = |of: fn(&SlotVotes) -> u64| run.slots.iter().map(of).sum::<u64>();
    let votes = sum(|of| of.cast);
    (run.slots.len() > 1).then(|| ChainFigures {
        votes,
        votes_lost: votes.saturating_sub(sum(|of| of.in_chain)),
        blocks: run.fate.blocks,
        blocks_lost: run.fate.blocks_lost,
        reorgs: run.fate.reorgs,
        reorg_depth: run.fate.reorg_depth,
        final_slot: run.finalised,
        slots_to_final: run.fate.slots_to_final,
    })
}

/// The role of each node: the rarest duty of its validators.
fn roles_of(plan: &Plan) -> Vec<&'static str> {
    let mut roles = vec!["voter"; plan.nodes as usize];
    let mut name = |servers: &[Vec<super::Server>], role| {
        for server in servers.iter().flatten() {
            // Later roles replace earlier ones, so the rarest must come last.
            roles[plan.host(server.validator) as usize] = role;
        }
    };
    let top = plan.config.layout.levels();
    for level in 1..=top {
        let role = match level {
            _ if level == top => "collector",
            1 => "aggregator",
            _ => "combiner",
        };
        name(plan.serving(level), role);
    }
    for slot in plan.blocks() {
        roles[plan.host(plan.proposer_of(slot)) as usize] = "proposer";
    }
    roles
}

/// The class with the slowest uplink in which 99 % of the nodes have 99 % of the votes when the slot ends. If there
/// is none, reports by how much the class with the slowest uplink misses that.
fn feasible(run: &HornRun, scenario: &Scenario, plan: &Plan) -> String {
    // Nodes' times are counted from the vote phase as well.
    let left_ns = plan.slot_end().as_nanos() - plan.phase_start(Phase::Vote).as_nanos();
    let mut classes: Vec<(u64, usize)> = (0..)
        .zip(&scenario.class)
        .map(|(index, class)| (class.up_mbps, index))
        .collect();
    classes.sort_unstable();
    let mut least = None;
    for (up_mbps, index) in classes {
        let nodes = run.outcome.nodes.iter();
        let of_class = nodes.filter(|node| usize::from(node.class) == index);
        let honest = of_class.filter(|node| node.role != "faulty");
        let done: Vec<Option<u64>> = honest.map(|node| node.done_ns).collect();
        let lacks = lacks(&done, left_ns);
        let name = &scenario.class[index].name;
        if lacks.is_none() {
            return format!("feasible for class {name}");
        }
        // Classes come in order of their uplinks, so the first one with an honest node is the slowest.
        let lacks = lacks.filter(|_| !done.is_empty() && least.is_none());
        least = lacks
            .map(|lacks| format!("class {name} ({up_mbps} Mbps up) {lacks}"))
            .or(least);
    }
    let least = least.unwrap_or_else(|| "there is no honest node".into());
    format!("feasible for no class: {least}")
}

/// How far these nodes, given when each has 99 % of the votes, miss the goal that 99 % of them have those in time.
fn lacks(done: &[Option<u64>], left_ns: u64) -> Option<String> {
    let all = Times::of(done.iter().copied()).at(990);
    if all.is_some_and(|ns| ns <= left_ns) {
        return None;
    }
    let in_time = done.iter().flatten().filter(|ns| **ns <= left_ns).count();
    // Rounded down, so that less than 99 % does not read as 99 %.
    let permille = in_time * 1000 / done.len().max(1);
    let late = match all {
        Some(ns) => format!("99 % have them {} after it", seconds(Some(ns - left_ns))),
        None => "99 % never have them".into(),
    };
    Some(format!(
        "has 99 % of the votes at {}.{} % of its nodes by the slot's end, must at 99 %; {late}",
        permille / 10,
        permille % 10
    ))
}

fn seconds(ns: Option<u64>) -> String {
    match ns {
        None => "no time".into(),
        Some(ns) => {
            let ms = ns.div_ceil(1_000_000);
            format!("{}.{:03} s", ms / 1000, ms % 1000)
        }
    }
}

/// A one-line answer to whether the run works.
fn verdict(run: &HornRun, scenario: &Scenario, plan: &Plan) -> String {
    let begin_ns = plan.phase_start(Phase::Vote).as_nanos();
    let since = |at: Option<u64>| at.map(|ns| ns.saturating_sub(begin_ns));
    let nodes = run.outcome.nodes.len().max(1) as u64;
    let up: u64 = run.outcome.nodes.iter().map(|node| node.bytes_up).sum();
    let peaks = run.outcome.nodes.iter().map(|node| node.peak_1s_up_bps);
    let peak = quantile_of(peaks, 990);
    let tenths = |value: u64, unit: u64| {
        let tenths = value.saturating_mul(10).div_ceil(unit);
        format!("{}.{}", tenths / 10, tenths % 10)
    };
    let topic = |topic: super::TopicId| plan.topics[topic.0 as usize].way.name();
    let cell = Unit::new(1, 0, 0);
    let feasible = feasible(run, scenario, plan);
    let slots = match plan.slots {
        1 => String::new(),
        slots => {
            let sum = |of: fn(&SlotVotes) -> u64| run.slots.iter().map(of).sum::<u64>();
            format!(
                "; of {slots} slots {} of {} votes in the chain, final is slot {}",
                sum(|of| of.in_chain),
                sum(|of| of.cast),
                run.finalised
            )
        }
    };
    format!(
        "{} validators on {nodes} nodes: 99 % of votes at the proposer in {} of the vote phase's \
         begin ({} at 99 % of nodes), {} of {} votes in the block, {} MB sent per node per slot, \
         peak {} Mbps up (99 % of nodes, 1 s); {feasible} ({}; votes {}, aggregates {}, \
         collections {}, block {}){slots}",
        plan.config.layout.validators(),
        seconds(since(run.at_proposer.at_ns[2])),
        seconds(since(run.at_nodes[1].at_ns[2])),
        run.votes[4],
        run.votes[0],
        tenths(up / nodes / u64::from(plan.slots), 1_000_000),
        tenths(peak, 1_000_000),
        plan.costs_label(),
        topic(plan.unit_topic(0, cell)),
        topic(plan.topic_above(0, cell)),
        topic(plan.collection_topic()),
        topic(plan.block_topic()),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_rounded_up() {
        assert_eq!(seconds(None), "no time");
        assert_eq!(seconds(Some(1_000_000_001)), "1.001 s");
        assert_eq!(seconds(Some(23_000_000)), "0.023 s");
    }

    #[test]
    fn what_a_class_lacks_is_named_with_its_margin() {
        let of = |late: &[Option<u64>]| {
            let mut done = vec![Some(10_000_000_000); 200];
            done[..late.len()].copy_from_slice(late);
            lacks(&done, 10_000_000_000)
        };
        assert_eq!(of(&[None, None]), None);
        assert_eq!(
            of(&[Some(10_000_000_001), None, None]).unwrap(),
            "has 99 % of the votes at 98.5 % of its nodes by the slot's end, must at 99 %; 99 % have them \
             0.001 s after it"
        );
        assert_eq!(
            of(&[None; 200]).unwrap(),
            "has 99 % of the votes at 0.0 % of its nodes by the slot's end, must at 99 %; 99 % never have them"
        );
    }
}
