//! One point of the sweep: a scheme, a topology, a shape, a network and an adversary. Covers what a
//! slot of it does in the simulator, and how its block travels.

use super::costs::merges_cells;
use super::network::{Network, Profile, Transport};
use crate::error::Result;
use crate::proof::{PresetName, proofs};
use crate::sim::presets;
use alphorn_exec::Backend;
use alphorn_proto::horn::Preset;
use alphorn_proto::slot::{Phase, Timing};
use alphorn_scheme::model::CostTable;
use alphorn_scheme::{Form, Layer, Op};
use alphorn_sim::horn::{self, HornError};
use alphorn_sim::report::Loads;
use alphorn_sim::run::{RunError, run};
use alphorn_sim::scenario::{Horn, Protocol, Scenario};
use alphorn_sim::tree::{self, Tree};
use alphorn_types::Layout;
use alphorn_xmss::{Set, Xmss};
use anyhow::{Context, anyhow};

/// Built-in costs of codes.
const CODE_COSTS: &str = "costs/codes.json";
/// The name under which a scenario finds the costs of its scheme.
const COSTS: &str = "costs.json";

/// Connections per node in the network of a point.
const DEGREE: u32 = 16;

/// Slots in an epoch of today's chain: each validator votes in one of them.
const EPOCH_SLOTS: u32 = 32;
/// Committees per slot of today's chain, and aggregators of each.
const TODAY_COMMITTEES: u16 = 64;
const TODAY_AGGREGATORS: u16 = 16;
/// Levels, publishers and waits of Horn where evidence of cells is mergeable proofs. Other schemes have
/// the same cells in one step, and the same waits.
pub(super) const HORN: Preset = Preset::HORN_PQ;

/// Cells of a committee, whatever the levels in between; each is a committee of the strawman.
const CELLS: u16 = HORN.fan_out[0] * HORN.fan_out[1];

/// Validators of a leaf of the tree, and children of a position. This gives 672 votes at the first
/// position where proofs are made, the fewest that hash-based proofs need to be mergeable, and no more
/// children than one merge takes.
const TREE_LEAF: u32 = 96;
const TREE_FANOUT: u32 = 7;

/// Who aggregates for whom.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Topology {
    /// Aggregators of cells, then collectors of committees; with groups of cells if proofs merge
    Horn,
    /// The same levels; votes, aggregates and collections each go along rows and columns of a grid
    Grid,
    /// Votes go up a tree with seven children per position; the root's aggregate goes to all by a mesh
    Tree,
    /// One level of evidence: Horn's cells are committees, and every node takes the aggregates of all
    Strawman,
    /// One level of evidence, 64 committees and a 32nd of the validators per slot, as on today's chain
    Today,
}

impl Topology {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Topology::Horn => "horn",
            Topology::Grid => "grid",
            Topology::Tree => "tree",
            Topology::Strawman => "strawman",
            Topology::Today => "today",
        }
    }
}

/// Inputs common to all points.
#[derive(Clone, Debug)]
pub(super) struct Ground {
    pub(super) validators: u32,
    pub(super) nodes: u32,
    /// Slot timings that differ from the default for their number of levels.
    pub(super) slots: Vec<Timing>,
    pub(super) participation_ppm: u32,
    pub(super) seed: u64,
}

impl Ground {
    /// Returns the slot timing for this many levels.
    pub(super) fn timing(&self, levels: u8) -> Timing {
        let own = self.slots.iter().find(|slot| slot.levels() == levels);
        own.copied().unwrap_or(Timing::default_for(levels))
    }
}

/// The parameters of a point.
#[derive(Clone, Copy, Debug)]
pub(super) struct Point<'a> {
    pub(super) costs: &'a CostTable,
    pub(super) topology: Topology,
    pub(super) profile: Profile,
    /// Committees of Horn and of its grid, as requested.
    pub(super) committees: u16,
    /// Publishers of each unit, or nodes at each position of a tree, as requested.
    pub(super) publishers: u16,
    /// Percentage of nodes that send nothing of what they should.
    pub(super) adversary_pct: u32,
}

/// The simulated result of a point's slot.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Slot {
    pub(super) votes: u64,
    /// Votes in the next block.
    pub(super) counted: u64,
    /// Seconds from the start of the slot until the proposer has two thirds of the votes, and until 99
    /// % of the nodes have 99 % of them.
    pub(super) two_thirds_s: Option<f64>,
    pub(super) everywhere_s: Option<f64>,
    /// Bytes sent by the median node, and by the 99th-percentile node.
    pub(super) sent_p50: u64,
    pub(super) sent_p99: u64,
    /// Core time of the 99th-percentile node.
    pub(super) cpu_p99_s: f64,
    pub(super) block: Carried,
    /// Duties not done by the end.
    pub(super) unfinished: u64,
    pub(super) events: u64,
    pub(super) slot_s: f64,
    /// What nodes carry and compute, by class and by phase; none for a tree, which has no phases.
    pub(super) loads: Loads,
    /// The longest message of votes and of evidence at each level; none for a tree.
    pub(super) longest: Vec<u64>,
}

/// The outcome of a point: a slot, or the reason why there is none.
pub(super) type Outcome = std::result::Result<Slot, String>;

/// Percentage of cast votes that must be counted for a point to do its work.
const COUNTED_PCT: u64 = 99;

impl Slot {
    /// Returns the percentage of cast votes that are counted.
    pub(super) fn counted_pct(&self) -> f64 {
        100.0 * self.counted as f64 / self.votes.max(1) as f64
    }

    /// Returns why the point does not do its work; none if it does.
    pub(super) fn objection(&self) -> Option<String> {
        if self.counted * 100 < self.votes * COUNTED_PCT {
            let lost_pct = 100.0 - self.counted_pct();
            let why = match self.unfinished {
                0 => "messages come late".to_owned(),
                n => format!("{n} duties are not done in time"),
            };
            return Some(format!(
                "{lost_pct:.1} % of the votes are not counted: {why}"
            ));
        }
        match self.everywhere_s {
            None => Some("99 % of the nodes never have 99 % of the votes".into()),
            Some(s) if s > self.slot_s => {
                Some(format!("99 % have the votes {s:.1} s after its begin"))
            }
            Some(_) => None,
        }
    }
}

impl<'a> Point<'a> {
    /// Returns its committees: today's number is fixed, and a tree has none.
    pub(super) fn committees(&self) -> Option<u16> {
        match self.topology {
            Topology::Tree => None,
            Topology::Today => Some(TODAY_COMMITTEES),
            Topology::Strawman => Some(self.committees.saturating_mul(CELLS)),
            Topology::Horn | Topology::Grid => Some(self.committees),
        }
    }

    /// Returns the requested number of committees, from which its actual number follows; none for
    /// today's chain or a tree.
    pub(super) fn committees_asked(&self) -> Option<u16> {
        match self.topology {
            Topology::Today | Topology::Tree => None,
            Topology::Horn | Topology::Grid | Topology::Strawman => Some(self.committees),
        }
    }

    /// Returns the publishers of a unit at the lowest level: today's number is fixed, and a tree has none.
    pub(super) fn aggregators(&self) -> Option<u16> {
        match self.topology {
            Topology::Tree => None,
            Topology::Today => Some(TODAY_AGGREGATORS),
            _ => Some(self.publishers),
        }
    }

    /// Returns the publishers of a committee above its cells; none for one level or a tree.
    pub(super) fn collectors(&self) -> Option<u16> {
        match self.topology {
            Topology::Horn | Topology::Grid => Some(self.publishers),
            Topology::Strawman | Topology::Today | Topology::Tree => None,
        }
    }

    /// Returns the nodes at each position of a tree; none for other topologies.
    pub(super) fn replicas(&self) -> Option<u16> {
        Some(self.publishers).filter(|_| self.topology == Topology::Tree)
    }

    /// Returns the number of validators that vote in its slot.
    fn validators(&self, ground: &Ground) -> u32 {
        match self.topology {
            Topology::Today => (ground.validators / EPOCH_SLOTS).max(1),
            _ => ground.validators,
        }
    }

    /// Whether its evidence is merged level by level.
    pub(super) fn merges(&self) -> bool {
        matches!(self.topology, Topology::Horn | Topology::Grid) && merges_cells(self.costs)
    }

    /// Returns its committees and their composition; none for a tree.
    ///
    /// # Errors
    /// Parameters that no layout allows, and cells and levels that the proofs of the scheme do not support.
    pub(super) fn layout(&self, ground: &Ground) -> Result<Option<Layout>> {
        let Some(committees) = self.committees() else {
            return Ok(None);
        };
        let fan_out = match self.topology {
            Topology::Horn | Topology::Grid if self.merges() => HORN.fan_out.to_vec(),
            Topology::Horn | Topology::Grid => vec![CELLS],
            Topology::Today | Topology::Strawman | Topology::Tree => Vec::new(),
        };
        let layout = Layout::with_fan_out(self.validators(ground), committees, &fan_out)?;
        // The cost table does not say how many votes a proof of a cell takes; its scheme does.
        if merges_cells(self.costs) && self.costs.scheme == "xmss" {
            let proofs = proofs(Set::Compact, PresetName::Fast);
            let scheme = Xmss::with_proofs_of_cells(proofs, Backend::Portable);
            scheme.check_layout(&layout)?;
        }
        Ok(Some(layout))
    }

    /// Returns its units, from committees down to the votes of a cell: 4x7x7x335.
    pub(super) fn units(&self, ground: &Ground) -> String {
        match self.layout(ground) {
            Ok(Some(layout)) => {
                let (fan_out, cell) = (layout.fan_out(), layout.cell_len_max());
                let between: String = fan_out.iter().map(|units| format!("{units}x")).collect();
                format!("{}x{between}{cell}", layout.committees())
            }
            Ok(None) => format!("..x{TREE_FANOUT}x{TREE_LEAF}"),
            Err(_) => "-".into(),
        }
    }

    /// Returns its slot timing.
    pub(super) fn timing(&self, ground: &Ground) -> Timing {
        ground.timing(self.levels())
    }

    /// Returns the number of evidence levels of its slot.
    pub(super) fn levels(&self) -> u8 {
        match self.topology {
            Topology::Today | Topology::Strawman => 1,
            Topology::Horn | Topology::Grid if self.merges() => HORN.timing.levels(),
            Topology::Horn | Topology::Grid | Topology::Tree => 2,
        }
    }

    /// Returns the TOML table of its protocol.
    fn protocol(&self, ground: &Ground) -> Result<String> {
        let validators = self.validators(ground);
        let (participation_ppm, publishers) = (ground.participation_ppm, self.publishers);
        let timing = self.timing(ground);
        let Some(layout) = self.layout(ground)? else {
            // A position has as many nodes as a unit has publishers; they wait one phase for a child.
            let phase_ms = timing.offset_ms(Phase::Level(2)) - timing.offset_ms(Phase::Level(1));
            return Ok(format!(
                "[protocol]\nkind = \"tree\"\nvalidators = {validators}\n\
                 participation_ppm = {participation_ppm}\nleaf = {TREE_LEAF}\n\
                 fanout = {TREE_FANOUT}\nreplicas = {publishers}\nwait_ms = {phase_ms}\n"
            ));
        };
        // Proofs wait for the rank before them as long as merges do, whatever the levels.
        let waits = [HORN.stage_ms.first(), HORN.stage_ms.last()];
        let waits: Vec<u64> = waits.into_iter().flatten().copied().collect();
        let is_proved = self.costs.abilities.form(Layer::Collection) == Form::Proof;
        let own = match self.merges() {
            true => format!("preset = \"{}\"\n", HORN.name),
            false if is_proved && layout.levels() > 1 => format!("stage_ms = {waits:?}\n"),
            // No rank waits where all publish.
            false => String::new(),
        };
        let way = match self.topology {
            Topology::Grid => "grid",
            _ => "direct",
        };
        // Only the roles that serve at some level are named, with the dissemination of what they publish.
        let mut rest = String::new();
        if let Some(aggregators) = self.aggregators().filter(|_| layout.levels() >= 2) {
            rest += &format!("aggregators = {aggregators}\naggregate_dissemination = \"{way}\"\n");
        }
        if layout.levels() >= 3 {
            rest += &format!("combiners = {publishers}\n");
        }
        if self.topology == Topology::Grid {
            rest += "collection_dissemination = \"grid\"\n";
        }
        let top = self
            .collectors()
            .or(self.aggregators())
            .unwrap_or(publishers);
        Ok(format!(
            "[protocol]\nkind = \"horn\"\n{own}validators = {validators}\n\
             participation_ppm = {participation_ppm}\ncommittees = {}\nfan_out = {:?}\n\
             slot = \"{timing}\"\ncollectors = {top}\nselection = \"rank\"\n\
             vote_dissemination = \"{way}\"\n{rest}",
            layout.committees(),
            layout.fan_out(),
        ))
    }

    /// Returns the network of its slot.
    fn network(&self) -> Network {
        Network {
            profile: self.profile,
            degree: DEGREE,
            adversary_pct: self.adversary_pct,
        }
    }

    /// Returns the scenario of its slot.
    fn scenario(&self, ground: &Ground) -> Result<Scenario> {
        let text = format!(
            "name = \"explore\"\nschema = 1\n[sim]\nnodes = {}\n{}{}\
             [compute]\ncosts = \"{COSTS}\"\n",
            ground.nodes,
            self.network().toml(),
            self.protocol(ground)?,
        );
        let mut scenario = Scenario::parse(&text, &[])?;
        let costs = serde_json::to_string(self.costs)?;
        // What a scenario names as a file goes in as text.
        scenario.inputs.insert(COSTS.to_owned(), costs);
        Ok(scenario)
    }

    /// Simulates its slot. An impossible slot is an outcome, not an error of the program.
    pub(super) fn slot(&self, ground: &Ground) -> Result<Outcome> {
        let scenario = match self.scenario(ground) {
            Ok(scenario) => scenario,
            Err(error) => return Ok(Err(error.to_string())),
        };
        match &scenario.protocol {
            Protocol::Tree(tree) => self.tree_slot(ground, &scenario, tree),
            Protocol::Horn(horn) => self.horn_slot(ground, &scenario, horn),
            other => Err(anyhow!("a point runs {}", other.name()).into()),
        }
    }

    /// Simulates a slot of the tree: from the start of the vote phase to the root, and from there to
    /// all nodes over a mesh of the same network. No node waits for a phase after the votes.
    fn tree_slot(&self, ground: &Ground, scenario: &Scenario, tree: &Tree) -> Result<Outcome> {
        let run = match tree::run(scenario, tree, ground.seed, &mut ()) {
            Ok(run) => run,
            Err(impossible) => return Ok(Err(impossible.to_string())),
        };
        let timing = self.timing(ground);
        let vote_s = timing.offset_ms(Phase::Vote) as f64 / 1e3;
        let [votes, counted] = run.votes;
        let block = Carried {
            bytes: run.root.as_ref().map_or(0, |(_, piece)| piece.bytes),
            verify_ns: run.verify_ns,
        };
        let spread = match block.bytes {
            0 => None,
            _ => Some(self.travel(ground, self.network(), Transport::Gossip, block)?),
        };
        let at_root_s = run.root.as_ref().map(|(ns, _)| vote_s + *ns as f64 / 1e9);
        let spread_s = spread.as_ref().and_then(|spread| spread.t99_s);
        let has = |share: u64| counted * 100 >= votes * share;
        let summary = run.outcome.summary();
        // The busiest node in the tree is not the busiest in the mesh, so sums are upper bounds.
        let sum = |tree: u64, mesh: fn(&Travel) -> u64| tree + spread.as_ref().map_or(0, mesh);
        Ok(Ok(Slot {
            votes,
            counted,
            two_thirds_s: at_root_s.filter(|_| counted * 3 >= votes * 2),
            everywhere_s: at_root_s
                .zip(spread_s)
                .map(|(root, mesh)| root + mesh)
                .filter(|_| has(COUNTED_PCT)),
            sent_p50: sum(summary.bytes_up_p50, |spread| spread.sent_p50),
            sent_p99: sum(summary.bytes_up_p99, |spread| spread.sent_p99),
            cpu_p99_s: sum(summary.cpu_ns_p99, |spread| spread.cpu_ns_p99) as f64 / 1e9,
            block,
            unfinished: 0,
            events: run.outcome.events,
            slot_s: timing.slot_ms() as f64 / 1e3,
            loads: Loads::default(),
            longest: Vec::new(),
        }))
    }

    fn horn_slot(&self, ground: &Ground, scenario: &Scenario, protocol: &Horn) -> Result<Outcome> {
        let run = match horn::run(scenario, protocol, ground.seed, &mut ()) {
            Ok(run) => run,
            Err(violation @ RunError::Horn(HornError::Violation { .. })) => {
                return Err(violation.into());
            }
            Err(impossible) => return Ok(Err(impossible.to_string())),
        };
        let summary = run.outcome.summary();
        let seconds = |ns: Option<u64>| ns.map(|ns| ns as f64 / 1e9);
        // The last of five counts: votes in the proposer's block.
        let counted = run.votes[4];
        Ok(Ok(Slot {
            votes: run.votes[0],
            counted,
            // Milestones are two thirds, 90 % and 99 % of the votes. Those of nodes are of half of them and of 99 %.
            two_thirds_s: seconds(run.at_proposer.at_ns[0]),
            everywhere_s: seconds(run.at_nodes[1].at_ns[2]),
            sent_p50: summary.bytes_up_p50,
            sent_p99: summary.bytes_up_p99,
            cpu_p99_s: summary.cpu_ns_p99 as f64 / 1e9,
            block: Carried {
                bytes: run.block.1,
                verify_ns: self.block_verify_ns(counted),
            },
            unfinished: run.unfinished,
            events: run.outcome.events,
            slot_s: self.timing(ground).slot_ms() as f64 / 1e3,
            loads: run.outcome.loads,
            longest: run.longest,
        }))
    }

    /// Returns the verification time of a block with this many votes before a node forwards it: the
    /// proposer's signature, and one proof of all votes if the block has one. Other evidence was
    /// verified when the collections arrived.
    fn block_verify_ns(&self, votes: u64) -> u64 {
        let signature_ns = self.costs.cost(Op::DutyVerify, 1, 0).ns;
        let committees = self.committees().unwrap_or(1).into();
        match self.merges() && self.costs.abilities.bundle_max.is_some() {
            true => {
                let bundle = self.costs.bundle_cost(Op::VerifyBundle, committees, votes);
                signature_ns.saturating_add(bundle.ns)
            }
            false => signature_ns,
        }
    }

    /// Simulates how a block, or the aggregate of a tree's root, reaches all nodes, alone on a network.
    pub(super) fn travel(
        &self,
        ground: &Ground,
        network: Network,
        transport: Transport,
        carried: Carried,
    ) -> Result<Travel> {
        // A mesh verifies a message before forwarding it; pieces are forwarded with the signature of
        // their header.
        let (protocol, costs) = match transport {
            Transport::Gossip => (
                "kind = \"gossip\"\n".to_owned(),
                self.costs.clone().verifying(carried.verify_ns),
            ),
            coded => (
                format!("kind = \"broadcast\"\nstrategy = \"{}\"\n", coded.name()),
                self.costs.clone(),
            ),
        };
        let text = format!(
            "name = \"travel\"\nschema = 1\n[sim]\nnodes = {}\n{}[protocol]\n{protocol}[traffic]\nbytes = {}\n\
             [compute]\ncosts = \"{COSTS}\"\ncode_costs = \"{CODE_COSTS}\"\n",
            ground.nodes,
            network.toml(),
            carried.bytes,
        );
        let mut scenario = Scenario::parse(&text, &[])?;
        let codes = presets::file(CODE_COSTS).context("the costs of codes")?;
        scenario.inputs.insert(CODE_COSTS.into(), codes.into());
        let costs = serde_json::to_string(&costs)?;
        scenario.inputs.insert(COSTS.into(), costs);
        let outcome = run(&scenario, ground.seed, &mut ())?;
        let summary = outcome.summary();
        Ok(Travel {
            t99_s: summary.t99_ns.map(|ns| ns as f64 / 1e9),
            sent_p50: summary.bytes_up_p50,
            sent_p99: summary.bytes_up_p99,
            cpu_ns_p99: summary.cpu_ns_p99,
        })
    }
}

/// A payload that travels to all nodes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Carried {
    pub(super) bytes: u64,
    /// Verification time before a node forwards the whole payload, in nanoseconds of a core.
    verify_ns: u64,
}

/// How a payload reaches all nodes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Travel {
    /// Seconds until 99 % of the nodes have it; none if they never do.
    pub(super) t99_s: Option<f64>,
    sent_p50: u64,
    sent_p99: u64,
    cpu_ns_p99: u64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use alphorn_scheme::model::OpCost;

    fn table() -> CostTable {
        let text = presets::file("costs/bls-formula.json").unwrap();
        serde_json::from_str(text).unwrap()
    }

    fn ground() -> Ground {
        Ground {
            validators: 512,
            nodes: 60,
            slots: Vec::new(),
            participation_ppm: 1_000_000,
            seed: 1,
        }
    }

    fn tree(costs: &CostTable, profile: Profile, adversary_pct: u32) -> (Point<'_>, Slot) {
        let point = Point {
            costs,
            topology: Topology::Tree,
            profile,
            committees: 1,
            publishers: 4,
            adversary_pct,
        };
        (point, point.slot(&ground()).unwrap().unwrap())
    }

    /// Returns the seconds from the root to all nodes.
    fn spread_s(slot: &Slot) -> f64 {
        slot.everywhere_s.unwrap() - slot.two_thirds_s.unwrap()
    }

    #[test]
    fn silent_nodes_and_few_connections_slow_the_mesh_of_a_tree_as_that_of_horn() {
        let costs = table();
        for adversary_pct in [0, 10] {
            let (point, slot) = tree(&costs, Profile::Mixed, adversary_pct);
            let mesh = |degree, adversary_pct| {
                let network = Network {
                    profile: Profile::Mixed,
                    degree,
                    adversary_pct,
                };
                let travel = point.travel(&ground(), network, Transport::Gossip, slot.block);
                travel.unwrap().t99_s.unwrap()
            };
            assert!(
                (spread_s(&slot) - mesh(16, adversary_pct)).abs() < 1e-9,
                "{adversary_pct}"
            );
            assert_ne!(mesh(16, adversary_pct), mesh(40, 0));
        }
    }

    #[test]
    fn a_mesh_verifies_at_every_hop_what_it_carries() {
        let (costs, mut dear) = (table(), table());
        let verifies =
            |row: &&mut OpCost| matches!(row.op, Op::VerifyAggregates | Op::VerifyCollections);
        for row in dear.ops.iter_mut().filter(verifies) {
            row.ns *= 100;
        }
        let [cheap, slow] = [&costs, &dear].map(|costs| tree(costs, Profile::Full, 0).1);
        let verify_s = |slot: &Slot| slot.block.verify_ns as f64 / 1e9;
        let more_s = verify_s(&slow) - verify_s(&cheap);
        assert!(more_s > 0.1, "{more_s}");
        let later_s = spread_s(&slow) - spread_s(&cheap);
        // At least two hops; four cores share a verification.
        assert!(later_s >= 2.0 * more_s / 4.0, "{later_s} s for {more_s} s");
        // Every node verifies it once, whatever else it does.
        assert!(slow.cpu_p99_s >= cheap.cpu_p99_s + more_s);
    }

    #[test]
    fn blocks_are_verified_before_a_mesh_passes_them_on() {
        let (costs, mut dear) = (table(), table());
        for row in dear.ops.iter_mut().filter(|row| row.op == Op::DutyVerify) {
            row.ns *= 100;
        }
        let network = Network {
            profile: Profile::Full,
            degree: 16,
            adversary_pct: 0,
        };
        let t99_s = |costs: &CostTable| {
            let point = Point {
                costs,
                topology: Topology::Horn,
                profile: Profile::Full,
                committees: 1,
                publishers: 4,
                adversary_pct: 0,
            };
            let block = Carried {
                bytes: 20_000,
                verify_ns: point.block_verify_ns(512),
            };
            let travel = point.travel(&ground(), network, Transport::Gossip, block);
            travel.unwrap().t99_s.unwrap()
        };
        // At least 93 ms at each of two hops; four cores share them.
        let later_s = t99_s(&dear) - t99_s(&costs);
        assert!(later_s > 0.046, "{later_s}");
    }
}
