//! From a scenario and a seed to the point at which the first honest node at the root has finished.

use super::TreeError;
use super::config::Tree;
use super::message::{Piece, TreeMessage};
use super::node::{Finished, TreeNode};
use super::plan::Plan;
use crate::fault::Withhold;
use crate::graph::Graph;
use crate::latency::{Latency, mix};
use crate::report::{Frame, NodeRecord, Outcome};
use crate::role::Wire;
use crate::run::drive::{Observe, drive, threads};
use crate::run::error::RunError;
use crate::scenario::{DrawnNetwork, FaultKind, Scenario};
use crate::world::{Probe, World};
use alphorn_types::Time;
use std::sync::Arc;

const FAULT: u64 = 0x7472_6565_0003;

/// Outcome of a tree run.
#[derive(Clone, Debug)]
pub struct TreeRun {
    /// Records and the verdict. The only delay is the time of the root, from the start of the slot.
    pub outcome: Outcome,
    /// Number of votes cast, and of those in the root's piece.
    pub votes: [u64; 2],
    /// Time at which the first honest node at the root finished, and its piece; absent if none has.
    pub root: Option<(u64, Arc<Piece>)>,
    /// Time to verify that piece, including the signature of its sender.
    pub verify_ns: u64,
}

/// Ends the run when the first honest node at the root has finished.
#[derive(Debug)]
struct First {
    honest: Vec<bool>,
    found: Option<(u64, u32, Arc<Piece>)>,
}

impl Probe<TreeNode> for First {
    fn delivered(&mut self, now_ns: u64, node: u32, delivery: &Finished) {
        if self.honest[node as usize] {
            let piece = delivery.piece.clone();
            self.found.get_or_insert((now_ns, node, piece));
        }
    }

    fn is_done(&self) -> bool {
        self.found.is_some()
    }
}

type TreeWorld = World<TreeNode, First>;

/// Runs a slot of a scenario whose protocol is `tree`.
///
/// # Errors
/// [`RunError`].
pub fn run(
    scenario: &Scenario,
    config: &Tree,
    seed: u64,
    observe: &mut dyn Observe,
) -> Result<TreeRun, RunError> {
    config.check()?;
    let nodes = scenario.sim.nodes;
    let mut plan = Plan::new(config.clone(), scenario.costs_for("tree")?, nodes, seed);
    for (index, fault) in (0..).zip(&scenario.fault) {
        if fault.is_silence() {
            plan.voters
                .silence(&fault.members([seed, FAULT, index], nodes)?);
        }
    }
    let plan = Arc::new(plan);
    let graph = Graph::from_edges(nodes, edges(&plan, nodes))?;
    let regions = Latency::regions_of(&scenario.latency, seed, nodes);
    let class = scenario.classes(seed);
    let roles = (0..nodes).map(|node| {
        let neighbours: Arc<[u32]> = graph.peers(node).into();
        TreeNode::new(plan.clone(), node, neighbours)
    });
    let roles = roles.collect();
    let (honest, faulty) = faulty(scenario, seed)?;
    let first = First {
        honest,
        found: None,
    };
    let drawn = DrawnNetwork {
        graph: Arc::new(graph),
        latency: Arc::new(Latency::new(&scenario.latency, regions.clone())),
        class: class.clone(),
        threads: threads(scenario, observe),
    };
    let mut config = scenario.world(drawn, TreeMessage::KINDS.len(), seed);
    config.net.paced = TreeMessage::PACES;
    let mut world: TreeWorld = World::new(roles, &config, first);
    for (node, wrap) in faulty {
        world.wrap(node, Box::new(wrap));
    }
    // Nothing is delivered before the end.
    let look = |_: &mut TreeWorld| Ok((0, 1));
    drive(&mut world, scenario.sim.stop, Time::MAX, observe, look)?;
    let classes = scenario.class_names();
    Ok(findings(&world, &plan, &class, &classes, &regions, seed))
}

/// Edges from each voter to the nodes of its leaf, and from each position to those above it.
fn edges(plan: &Plan, nodes: u32) -> Vec<(u32, u32)> {
    let mut edges = Vec::new();
    for node in 0..nodes {
        let voters = plan.voters.voting(node);
        let mut leaves: Vec<u32> = voters.map(|validator| plan.leaf_of(validator)).collect();
        // The validators of a node are ascending, so equal leaves are adjacent.
        leaves.dedup();
        for leaf in leaves {
            let places = plan.places[0][leaf as usize].iter();
            // The node may be at that leaf itself. The graph ignores such an edge.
            edges.extend(places.map(|place| (node, *place)));
        }
    }
    for (level, positions) in (0..).zip(&plan.places) {
        for (position, here) in (0..).zip(positions) {
            let above = plan.above(level, position);
            let pairs = here.iter().flat_map(|a| above.iter().map(|b| (*a, *b)));
            edges.extend(pairs);
        }
    }
    edges
}

/// Which nodes are honest, and the faults of those that are not.
type Faulty = (Vec<bool>, Vec<(u32, Withhold)>);

fn faulty(scenario: &Scenario, seed: u64) -> Result<Faulty, RunError> {
    let nodes = scenario.sim.nodes;
    let mut honest = vec![true; nodes as usize];
    let mut wraps = Vec::new();
    for (index, fault) in (0..).zip(&scenario.fault) {
        if fault.kind != FaultKind::Withhold {
            let fault = fault.kind.name();
            return Err(TreeError::Fault { fault }.into());
        }
        // The same key as for silence, so the same nodes.
        for node in fault.members([seed, FAULT, index], nodes)? {
            honest[node as usize] = false;
            let key = mix([seed, FAULT, u64::MAX, node.into()]);
            let wrap = Withhold::new(fault.interval(), fault.factor_pct.into(), key);
            wraps.push((node, wrap));
        }
    }
    Ok((honest, wraps))
}

fn findings(
    world: &TreeWorld,
    plan: &Plan,
    class: &[u16],
    classes: &[&str],
    regions: &[u8],
    seed: u64,
) -> TreeRun {
    let First { honest, found } = world.probe();
    let at = |node: u32| node as usize;
    let stands = |node: u32| plan.places.iter().flatten().flatten().any(|n| *n == node);
    let record = |node: u32| {
        let tally = world.tally(node);
        let role = match () {
            () if !honest[at(node)] => "faulty",
            () if plan
                .places
                .last()
                .is_some_and(|root| root[0].contains(&node)) =>
            {
                "root"
            }
            () if stands(node) => "inner",
            () => "voter",
        };
        let done = found.as_ref().filter(|(_, root, _)| *root == node);
        NodeRecord {
            class: class[at(node)],
            region: regions[at(node)],
            role,
            first_ns: None,
            done_ns: done.map(|(ns, _, _)| *ns),
            ..NodeRecord::counted(node, tally)
        }
    };
    let counted = found.as_ref().map_or(0, |(_, _, piece)| piece.count);
    let votes = [plan.voters.count(), counted.into()];
    let root = found.as_ref().map(|(ns, _, piece)| (*ns, piece.clone()));
    let nodes = (0..world.graph().nodes()).map(record).collect();
    let frame = Frame::run(world.busy_until_ns());
    let outcome = Outcome {
        payload_bytes: root.as_ref().map_or(0, |(_, piece)| piece.bytes),
        delays_ns: vec![root.as_ref().map(|(ns, _)| *ns)],
        // The run ends with the root, while other messages are still on the way.
        sent_truncated: true,
        verdict: verdict(votes, root.as_ref(), plan),
        ..Outcome::counted(world, seed, &frame, classes, nodes)
    };
    let verify_ns = |(_, piece): &(u64, Arc<Piece>)| plan.verify_ns([piece.as_ref()].into_iter());
    TreeRun {
        outcome,
        votes,
        verify_ns: root.as_ref().map_or(0, verify_ns),
        root,
    }
}

fn verdict([cast, counted]: [u64; 2], root: Option<&(u64, Arc<Piece>)>, plan: &Plan) -> String {
    let levels = plan.places.len();
    let Some((ns, piece)) = root else {
        return format!("no honest node at the root of {levels} levels has finished");
    };
    let ms = ns.div_ceil(1_000_000);
    format!(
        "{counted} of {cast} votes at the root of {levels} levels after {}.{:03} s, {} bytes in {} parts",
        ms / 1000,
        ms % 1000,
        piece.bytes,
        piece.parts
    )
}
