//! A node of a tree: the votes of its validators, and its work at the positions assigned to it.

use super::message::{Piece, TreeMessage};
use super::plan::Plan;
use super::work::TreeWork;
use crate::gossip::Peers;
use crate::role::{self, Input, Output, Role};
use alphorn_proto::Peer;
use alphorn_scheme::{Class, JobId, Op, SessionId};
use alphorn_types::{Bitfield, Slot, Time};
use std::collections::{BTreeMap, VecDeque};
use std::convert::Infallible;
use std::sync::Arc;

/// Reports that a node at the root has finished.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Finished {
    /// The resulting piece.
    pub piece: Arc<Piece>,
}

/// Verified input of a position.
#[derive(Debug)]
enum Held {
    /// Votes by index in the leaf: those waiting for verification, and those verified.
    Votes { waiting: Bitfield, valid: Bitfield },
    /// Pieces of children: those waiting, and the verified one of each child.
    Pieces {
        waiting: Vec<Arc<Piece>>,
        valid: BTreeMap<u32, Arc<Piece>>,
    },
}

/// A position assigned to a node.
#[derive(Debug)]
struct Post {
    level: u32,
    position: u32,
    /// The nodes above, by the node's numbers for them; whether the node itself is among them is in
    /// `is_above`.
    above: Vec<u32>,
    is_above: bool,
    held: Held,
    is_verifying: bool,
    /// Whether further input is ignored.
    is_closed: bool,
    /// When it continues with what it has.
    deadline: Option<Time>,
}

#[derive(Debug)]
enum Task {
    Sign,
    Verified { post: usize, batch: Batch },
    Made { post: usize, piece: Arc<Piece> },
}

#[derive(Debug)]
enum Batch {
    Votes(Bitfield),
    Pieces(Vec<Arc<Piece>>),
}

/// See the [module](super).
#[derive(Debug)]
pub(crate) struct TreeNode {
    plan: Arc<Plan>,
    index: u32,
    /// Neighbours in order, so that a node's number is found by its index.
    neighbours: Arc<[u32]>,
    posts: Vec<Post>,
    now: Time,
    begun: bool,
    jobs: BTreeMap<u32, Task>,
    jobs_count: u32,
    out: VecDeque<Output<Self>>,
}

impl TreeNode {
    pub(super) fn new(plan: Arc<Plan>, index: u32, neighbours: Arc<[u32]>) -> Self {
        let mut posts = Vec::new();
        for (level, positions) in (0..).zip(&plan.places) {
            for (position, nodes) in (0..).zip(positions) {
                if nodes.contains(&index) {
                    posts.push(Post::new(&plan, level, position, index, &neighbours));
                }
            }
        }
        TreeNode {
            plan,
            index,
            neighbours,
            posts,
            now: Time::ZERO,
            begun: false,
            jobs: BTreeMap::new(),
            jobs_count: 0,
            out: VecDeque::new(),
        }
    }

    fn spawn(&mut self, op: Op, inputs: u32, cost_ns: u64, task: Task) {
        let seq = self.jobs_count;
        self.jobs_count += 1;
        self.jobs.insert(seq, task);
        let work = TreeWork {
            op,
            inputs,
            cost_ns,
        };
        // Nothing is ever cancelled, so each job may have a session of its own.
        let session = SessionId { slot: Slot(0), seq };
        let request = Box::new(role::request(session, Class::Current, work));
        let job = JobId(seq.into());
        self.out.push_back(Output::Spawn { job, request });
    }

    fn begin(&mut self) {
        let votes = self.plan.voters.voting(self.index).count() as u32;
        if votes > 0 {
            let cost_ns = self.plan.cost_ns(Op::Sign, votes.into(), 0);
            self.spawn(Op::Sign, votes, cost_ns, Task::Sign);
        }
        let gathered = Time::from_millis(self.plan.config.gather_ms);
        // Inner positions have no deadline before their first piece.
        for post in self.posts.iter_mut().filter(|post| post.level == 0) {
            post.deadline = Some(gathered);
        }
    }

    fn send_votes(&mut self) {
        let plan = self.plan.clone();
        let bytes = plan.vote_bytes();
        for validator in plan.voters.voting(self.index) {
            let leaf = plan.leaf_of(validator);
            let places = &plan.places[0][leaf as usize];
            let to: Vec<u32> = numbers(&self.neighbours, places);
            self.send(&to, TreeMessage::Vote { validator, bytes });
            if places.contains(&self.index) {
                self.take_vote(validator);
            }
        }
    }

    fn send(&mut self, to: &[u32], message: TreeMessage) {
        if !to.is_empty() {
            let to = to.iter().map(|number| Peer((*number).into()));
            let to = Peers::List(to.collect());
            self.out.push_back(Output::Send {
                to,
                message,
                priority: 0,
            });
        }
    }

    fn post(&self, level: u32, position: u32) -> Option<usize> {
        let mut posts = self.posts.iter();
        posts.position(|post| (post.level, post.position) == (level, position))
    }

    fn take_vote(&mut self, validator: u32) {
        let Some(index) = self.post(0, self.plan.leaf_of(validator)) else {
            return;
        };
        let post = &mut self.posts[index];
        let first = self.plan.below(0, post.position).start;
        if let Held::Votes { waiting, .. } = &mut post.held
            && !post.is_closed
            // Later votes are ignored, although the leaf may still be verifying earlier ones.
            && post.deadline.is_none_or(|deadline| self.now < deadline)
        {
            waiting.set((validator - first) as usize);
            self.go_on(index);
        }
    }

    fn take_piece(&mut self, piece: Arc<Piece>) {
        let parent = piece.position / self.plan.config.fanout;
        let Some(index) = self.post(piece.level + 1, parent) else {
            return;
        };
        let post = &mut self.posts[index];
        // Unlike the votes of a leaf, pieces are taken until the position closes.
        if let Held::Pieces { waiting, valid } = &mut post.held
            && !post.is_closed
        {
            let of_child = |other: &&Arc<Piece>| other.position == piece.position;
            let queued = waiting.iter().filter(of_child).map(|other| other.count);
            let known = valid.get(&piece.position).map(|other| other.count);
            let best = queued.chain(known).max().unwrap_or(0);
            // All nodes of a child send a piece; one that adds nothing is not verified.
            if piece.count > best {
                waiting.push(piece);
                self.go_on(index);
            }
        }
    }

    /// Verifies what is waiting, or creates the node's own piece if nothing is missing or the time
    /// is up.
    fn go_on(&mut self, index: usize) {
        let plan = self.plan.clone();
        let post = &mut self.posts[index];
        if post.is_closed || post.is_verifying {
            return;
        }
        // What waits is verified before the position closes, even after its deadline.
        if let Some((batch, inputs, cost_ns)) = post.held.batch(&plan) {
            post.is_verifying = true;
            let op = match batch {
                Batch::Votes(_) => Op::VerifyVotes,
                Batch::Pieces(_) => Op::VerifyAggregates,
            };
            let task = Task::Verified { post: index, batch };
            self.spawn(op, inputs, cost_ns, task);
            return;
        }
        let is_late = post.deadline.is_some_and(|deadline| self.now >= deadline);
        if !(is_late || post.is_complete(&plan)) {
            return;
        }
        post.is_closed = true;
        post.deadline = None;
        let (piece, cost_ns) = match &post.held {
            Held::Votes { valid, .. } => plan.leaf_piece(post.position, valid.clone()),
            Held::Pieces { valid, .. } => {
                let pieces: Vec<&Piece> = valid.values().map(AsRef::as_ref).collect();
                plan.inner_piece(post.level, post.position, &pieces)
            }
        };
        let task = Task::Made {
            post: index,
            piece: Arc::new(piece),
        };
        let sign_ns = plan.cost_ns(Op::DutySign, 1, 0);
        self.spawn(Op::Collect, 1, cost_ns.saturating_add(sign_ns), task);
    }

    fn verified(&mut self, index: usize, batch: Batch) {
        let post = &mut self.posts[index];
        post.is_verifying = false;
        match (&mut post.held, batch) {
            (Held::Votes { valid, .. }, Batch::Votes(votes)) => {
                valid.union_with(&votes);
            }
            (Held::Pieces { valid, .. }, Batch::Pieces(pieces)) => {
                for piece in pieces {
                    let more = |known: &Arc<Piece>| known.count < piece.count;
                    if valid.get(&piece.position).is_none_or(more) {
                        valid.insert(piece.position, piece);
                    }
                }
                let wait_ns = self.plan.config.wait_ms * 1_000_000;
                let until = Time::from_nanos(self.now.as_nanos().saturating_add(wait_ns));
                // Only the first verified pieces set it, or each one that comes would prolong the wait.
                post.deadline.get_or_insert(until);
            }
            _ => {}
        }
        self.go_on(index);
    }

    fn made(&mut self, index: usize, piece: Arc<Piece>) {
        let post = &self.posts[index];
        if post.level == self.plan.root() {
            self.out.push_back(Output::Deliver(Finished { piece }));
            return;
        }
        let (to, is_above) = (post.above.clone(), post.is_above);
        self.send(&to, TreeMessage::Piece(piece.clone()));
        if is_above {
            self.take_piece(piece);
        }
    }

    fn done(&mut self, job: JobId) {
        // Job numbers are assigned here and are below 2^32.
        match self.jobs.remove(&(job.0 as u32)) {
            Some(Task::Sign) => self.send_votes(),
            Some(Task::Verified { post, batch }) => self.verified(post, batch),
            Some(Task::Made { post, piece }) => self.made(post, piece),
            None => {}
        }
    }

    fn deadline(&mut self) {
        if !std::mem::replace(&mut self.begun, true) {
            self.begin();
        }
        for index in 0..self.posts.len() {
            if self.posts[index].is_due(self.now) {
                self.go_on(index);
            }
        }
    }
}

impl Post {
    fn new(plan: &Plan, level: u32, position: u32, node: u32, neighbours: &[u32]) -> Self {
        let len = plan.below(level, position).len();
        let held = match level {
            0 => Held::Votes {
                waiting: Bitfield::new(len),
                valid: Bitfield::new(len),
            },
            _ => Held::Pieces {
                waiting: Vec::new(),
                valid: BTreeMap::new(),
            },
        };
        let above = plan.above(level, position);
        Post {
            level,
            position,
            above: numbers(neighbours, above),
            is_above: above.contains(&node),
            held,
            is_verifying: false,
            is_closed: false,
            deadline: None,
        }
    }

    fn is_complete(&self, plan: &Plan) -> bool {
        match &self.held {
            Held::Votes { valid, .. } => valid.count_ones() == valid.len(),
            Held::Pieces { valid, .. } => {
                valid.len() == plan.children(self.level, self.position).len()
            }
        }
    }

    fn is_due(&self, now: Time) -> bool {
        !self.is_closed && self.deadline.is_some_and(|deadline| deadline <= now)
    }
}

impl Held {
    /// Takes what is waiting, with the number of items and the cost of verifying it.
    fn batch(&mut self, plan: &Plan) -> Option<(Batch, u32, u64)> {
        match self {
            Held::Votes { waiting, .. } => {
                let count = waiting.count_ones();
                let empty = Bitfield::new(waiting.len());
                let cost_ns = plan.cost_ns(Op::VerifyVotes, count as u64, 0);
                let batch = || Batch::Votes(std::mem::replace(waiting, empty));
                (count > 0).then(|| (batch(), count as u32, cost_ns))
            }
            Held::Pieces { waiting, .. } => {
                let pieces = std::mem::take(waiting);
                let cost_ns = plan.verify_ns(pieces.iter().map(AsRef::as_ref));
                let count = pieces.len() as u32;
                (count > 0).then_some((Batch::Pieces(pieces), count, cost_ns))
            }
        }
    }
}

/// The node's numbers for those of `nodes` that are its neighbours.
fn numbers(neighbours: &[u32], nodes: &[u32]) -> Vec<u32> {
    let found = nodes.iter().flat_map(|node| neighbours.binary_search(node));
    found.map(|number| number as u32).collect()
}

impl Role for TreeNode {
    type Message = TreeMessage;
    type Command = Infallible;
    type Cancel = Infallible;
    type Work = TreeWork;
    type Delivery = Finished;

    fn handle(&mut self, now: Time, input: Input<Self>) {
        self.now = self.now.max(now);
        match input {
            Input::Message { message, .. } => match message {
                TreeMessage::Vote { validator, .. } => self.take_vote(validator),
                TreeMessage::Piece(piece) => self.take_piece(piece),
            },
            Input::Finished { job, .. } => self.done(job),
            Input::Deadline => self.deadline(),
            Input::SendReady { .. } | Input::PeerUp { .. } | Input::PeerDown { .. } => {}
            Input::Command(never) => match never {},
        }
    }

    fn poll_output(&mut self) -> Option<Output<Self>> {
        self.out.pop_front()
    }

    fn next_deadline(&self) -> Option<Time> {
        if !self.begun {
            return Some(Time::ZERO);
        }
        // A position that is verifying continues when that ends.
        let open = |post: &&Post| !post.is_closed && !post.is_verifying;
        let posts = self.posts.iter().filter(open);
        posts.filter_map(|post| post.deadline).min()
    }
}
