//! A driver for tests: machines, an ideal network between them, jobs that run at once.

use alphorn_proto::horn::{Config, Horn, Local, SchemeInfo};
use alphorn_proto::wire::{Header, Topic};
use alphorn_proto::{Input, Output, Peer, Protocol, Spawn, Token, Verdict};
use alphorn_scheme::model::{CostTable, Model, ModelRegistry, ModelSigners};
use alphorn_scheme::{
    self as scheme, Bytes, Ctx, Env, JobId, MemoryWatermark, Outcome, Product, Scratch, Task, Work,
};
use alphorn_types::{Assignment, Bitfield, Epoch, Layout, Slot, Time};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The abilities of one kind of scheme.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    pub layers: [scheme::Form; 2],
    pub overlap: [scheme::Overlap; 2],
    pub unique: bool,
    pub bundle_max: Option<u16>,
}

pub const SUMS: Kind = Kind {
    layers: [scheme::Form::Point; 2],
    overlap: [scheme::Overlap::Counted { max: 15 }; 2],
    unique: true,
    bundle_max: None,
};
pub const LISTS: Kind = Kind {
    layers: [scheme::Form::List; 2],
    overlap: [scheme::Overlap::Union; 2],
    unique: false,
    bundle_max: None,
};
pub const LISTS_THEN_PROOF: Kind = Kind {
    layers: [scheme::Form::List, scheme::Form::Proof],
    overlap: [scheme::Overlap::Union, scheme::Overlap::None],
    unique: false,
    bundle_max: None,
};
pub const PROOFS: Kind = Kind {
    layers: [scheme::Form::Proof; 2],
    overlap: [scheme::Overlap::None; 2],
    unique: false,
    bundle_max: None,
};
pub const MERGED_PROOFS: Kind = Kind {
    overlap: [scheme::Overlap::Union; 2],
    ..PROOFS
};
/// One piece of evidence proves the collections of a block, if the configuration says so.
pub const BUNDLES: Kind = Kind {
    bundle_max: Some(20),
    ..MERGED_PROOFS
};

pub fn model(kind: Kind) -> Model {
    let mut table = CostTable::example();
    table.abilities.layers = kind.layers;
    table.abilities.overlap = kind.overlap;
    table.abilities.unique = kind.unique;
    table.abilities.bundle_max = kind.bundle_max;
    Model::new(table).unwrap()
}

/// The default configuration of a kind of scheme on a layout.
pub fn config(kind: Kind, layout: Layout) -> (Config, SchemeInfo) {
    let info = SchemeInfo::of(&model(kind), &layout);
    (Config::new(layout, &info), info)
}

/// Validators `range` of `n`.
pub fn range(n: u32, range: std::ops::Range<u32>) -> Bitfield {
    let mut bits = Bitfield::new(n as usize);
    range.for_each(|v| bits.set(v as usize));
    bits
}

/// Everything that machine `i` of `count` hosts when validators are dealt out evenly.
pub fn share(n: u32, i: u32, count: u32) -> Local {
    let mut validators = Bitfield::new(n as usize);
    (i..n)
        .step_by(count as usize)
        .for_each(|v| validators.set(v as usize));
    Local {
        voters: validators.clone(),
        validators,
        trust_own: true,
    }
}

/// All validators serve on one node, and none votes.
pub fn servers(n: u32) -> Local {
    Local {
        voters: Bitfield::new(n as usize),
        ..share(n, 0, 1)
    }
}

pub struct Node {
    pub horn: Horn,
    env: Env,
    marks: MemoryWatermark,
    verdicts: BTreeMap<Token, Option<Verdict>>,
    pub reports: Vec<(Peer, &'static str)>,
    pub evidence: Vec<(Bytes, Bytes)>,
    /// Jobs whose end is held back, in the order in which they were asked for.
    pub held: Vec<(JobId, Outcome<Product>, &'static str)>,
}

enum Event {
    Message {
        to: usize,
        from: usize,
        topic: Topic,
        data: Bytes,
    },
    Finished {
        to: usize,
        job: JobId,
        outcome: Outcome<Product>,
    },
}

/// One message as it was published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sent {
    pub at: Time,
    pub from: usize,
    pub topic: Topic,
    pub data: Bytes,
}

/// What the network does with a message: delays of the copies, in nanoseconds.
type Route = Box<dyn FnMut(usize, usize, &Topic) -> Vec<u64>>;

type Fate = Box<dyn FnMut(Time, Outcome<Product>) -> Outcome<Product>>;

pub struct Net {
    pub nodes: Vec<Node>,
    pub now: Time,
    pub sent: Vec<Sent>,
    pub route: Route,
    /// How long jobs of a name take; jobs that are held do not end by themselves.
    pub job_ns: Box<dyn FnMut(usize, &'static str) -> Option<u64>>,
    /// Whether machines fetch blocks that they miss.
    pub fetch: bool,
    /// What becomes of the end of a job.
    pub fate: Fate,
    events: BTreeMap<(Time, u64), Event>,
    event_next: u64,
    token_next: u64,
}

/// A peer that is no machine of the network.
pub const STRANGER: usize = 1_000;

impl Net {
    pub fn new(kind: Kind, config: &Config, info: &SchemeInfo, locals: Vec<Local>) -> Self {
        let n = config.layout.validators();
        let node = |local: Local| Node {
            horn: Horn::new(config.clone(), info.clone(), local).unwrap(),
            env: Env::signing(
                Arc::new(model(kind)),
                Arc::new(ModelRegistry { validators: n }),
                Arc::new(ModelSigners { validators: n }),
                [7; 32],
            ),
            marks: MemoryWatermark::new(n),
            verdicts: BTreeMap::new(),
            reports: Vec::new(),
            evidence: Vec::new(),
            held: Vec::new(),
        };
        Net {
            nodes: locals.into_iter().map(node).collect(),
            now: Time::ZERO,
            sent: Vec::new(),
            route: Box::new(|_, _, _| vec![1_000_000]),
            job_ns: Box::new(|_, _| Some(0)),
            fetch: false,
            fate: Box::new(|_, outcome| outcome),
            events: BTreeMap::new(),
            event_next: 0,
            token_next: 0,
        }
    }

    fn push(&mut self, at: Time, event: Event) {
        self.events.insert((at, self.event_next), event);
        self.event_next += 1;
    }

    /// Runs all that happens up to and including `end`.
    pub fn run_until(&mut self, end: Time) {
        loop {
            let event = self.events.first_key_value().map(|((at, _), _)| *at);
            let deadlines = self
                .nodes
                .iter()
                .filter_map(|node| node.horn.next_deadline());
            let Some(next) = event.into_iter().chain(deadlines).min() else {
                break;
            };
            if next > end {
                break;
            }
            self.now = self.now.max(next);
            self.instant();
        }
        self.now = end;
    }

    /// All messages and ends of jobs of this instant first, then the deadlines.
    fn instant(&mut self) {
        while let Some(entry) = self.events.first_entry() {
            if entry.key().0 > self.now {
                break;
            }
            match entry.remove() {
                Event::Message {
                    to,
                    from,
                    topic,
                    data,
                } => {
                    self.deliver(to, Peer(from as u64), topic, data);
                }
                Event::Finished { to, job, outcome } => {
                    self.handle(to, Input::Finished { job, outcome });
                }
            }
        }
        if self.fetch {
            self.fetch_blocks();
        }
        for to in 0..self.nodes.len() {
            if self.nodes[to]
                .horn
                .next_deadline()
                .is_some_and(|at| at <= self.now)
            {
                self.handle(to, Input::Deadline);
            }
        }
    }

    /// Hands each machine the blocks that it waits for, as far as they were published.
    fn fetch_blocks(&mut self) {
        let mut fetched = Vec::new();
        for (to, node) in self.nodes.iter().enumerate() {
            let format = node.horn.format();
            for (root, _) in node.horn.missing_blocks() {
                let is_it = |sent: &&Sent| {
                    sent.topic == Topic::Block
                        && Header::peek(&sent.data, format).unwrap().root() == root
                };
                let block = self.sent.iter().find(is_it);
                fetched.extend(block.map(|sent| (to, sent.from, sent.data.clone())));
            }
        }
        for (to, from, data) in fetched {
            self.deliver(to, Peer(from as u64), Topic::Block, data);
        }
    }

    fn deliver(&mut self, to: usize, from: Peer, topic: Topic, data: Bytes) {
        let token = Token(self.token_next);
        self.token_next += 1;
        self.nodes[to].verdicts.insert(token, None);
        self.handle(
            to,
            Input::Message {
                from,
                topic,
                token,
                data,
            },
        );
    }

    /// Hands a message to a machine now, and returns its verdict unless a job is to decide it.
    pub fn offer(&mut self, to: usize, topic: Topic, data: impl Into<Bytes>) -> Option<Verdict> {
        self.offer_from(STRANGER, to, topic, data)
    }

    /// As [`Net::offer`], from a peer of a given number.
    pub fn offer_from(
        &mut self,
        from: usize,
        to: usize,
        topic: Topic,
        data: impl Into<Bytes>,
    ) -> Option<Verdict> {
        let token = Token(self.token_next);
        self.deliver(to, Peer(from as u64), topic, data.into());
        self.nodes[to].verdicts[&token]
    }

    /// The token of the message that was offered last.
    pub fn last_token(&self) -> Token {
        Token(self.token_next - 1)
    }

    /// Takes the verdicts that were given at a machine, so that a long run does not keep them.
    pub fn settled(&mut self, node: usize) -> Vec<(Token, Verdict)> {
        let verdicts = std::mem::take(&mut self.nodes[node].verdicts);
        let (given, open): (BTreeMap<_, _>, _) = verdicts
            .into_iter()
            .partition(|(_, verdict)| verdict.is_some());
        self.nodes[node].verdicts = open;
        let given = given.into_iter();
        given
            .filter_map(|(token, verdict)| Some((token, verdict?)))
            .collect()
    }

    pub fn verdict(&self, node: usize, token: Token) -> Option<Verdict> {
        self.nodes[node].verdicts[&token]
    }

    /// Ends the jobs that are held at a machine, in the given order.
    pub fn release(&mut self, to: usize, order: &[usize]) {
        let mut held: Vec<_> = self.nodes[to].held.drain(..).map(Some).collect();
        for &i in order {
            let (job, outcome, _) = held[i].take().expect("each job ends once");
            self.handle(to, Input::Finished { job, outcome });
        }
        assert!(held.iter().all(Option::is_none), "a job was not released");
    }

    /// Hands an input to a machine and does what it wants.
    pub fn handle(&mut self, to: usize, input: Input) {
        self.nodes[to].horn.handle(self.now, input);
        while let Some(output) = self.nodes[to].horn.poll_output() {
            self.act(to, output);
        }
    }

    fn act(&mut self, node: usize, output: Output) {
        match output {
            Output::Publish { topic, data } => {
                self.sent.push(Sent {
                    at: self.now,
                    from: node,
                    topic,
                    data: data.clone(),
                });
                for to in (0..self.nodes.len()).filter(|to| *to != node) {
                    for delay_ns in (self.route)(node, to, &topic) {
                        let at = self.now.saturating_add_ns(delay_ns);
                        let data = data.clone();
                        self.push(
                            at,
                            Event::Message {
                                to,
                                from: node,
                                topic,
                                data,
                            },
                        );
                    }
                }
            }
            Output::Spawn(Spawn {
                job,
                work,
                session,
                soft,
                hard,
                ..
            }) => {
                assert!(soft <= hard, "{} of slot {}", work.name(), session.slot);
                let name = work.name();
                let outcome = self.nodes[node].run(work);
                let outcome = (self.fate)(self.now, outcome);
                match (self.job_ns)(node, name) {
                    Some(ns) => {
                        let at = self.now.saturating_add_ns(ns);
                        self.push(
                            at,
                            Event::Finished {
                                to: node,
                                job,
                                outcome,
                            },
                        );
                    }
                    None => self.nodes[node].held.push((job, outcome, name)),
                }
            }
            Output::Verdict { token, verdict } => {
                let given = self.nodes[node]
                    .verdicts
                    .get_mut(&token)
                    .expect("a known token");
                assert_eq!(*given, None, "a second verdict");
                *given = Some(verdict);
            }
            Output::Report { peer, reason } => {
                self.nodes[node].reports.push((peer, reason.name()));
            }
            Output::Evidence(pair) => {
                assert_ne!(pair.first, pair.second);
                self.nodes[node].evidence.push((pair.first, pair.second));
            }
            Output::Cancel { .. } | Output::Imported { .. } => {}
        }
    }

    /// Puts a key table into the environment of a machine.
    pub fn insert_table(&mut self, node: usize, assignment: Assignment) {
        let (env, name) = (&mut self.nodes[node].env, assignment.epoch());
        let mut scratch = Scratch::default();
        let made = env.make_keys(&Arc::new(assignment), &mut Ctx::single(&mut scratch));
        env.insert_keys(name, made.unwrap());
    }

    /// Whether the environment of a machine has a key table.
    pub fn has_table(&self, node: usize, name: Epoch) -> bool {
        self.nodes[node].env.keys(name).is_some()
    }

    /// Number of votes of a slot that a node's head credits.
    pub fn credited(&self, node: usize, slot: u64) -> usize {
        let horn = &self.nodes[node].horn;
        let of = |c| horn.chain().credited(&horn.head(), Slot(slot), c);
        let committees = 0..horn.config().layout.committees();
        committees.map(|c| of(c).count_ones()).sum()
    }

    /// Tokens whose verdict is still open, at all machines.
    pub fn open_verdicts(&self) -> usize {
        let verdicts = self.nodes.iter().flat_map(|node| node.verdicts.values());
        verdicts.filter(|verdict| verdict.is_none()).count()
    }

    /// The reasons for which machines did not take messages.
    pub fn reject_names(&self) -> BTreeSet<&'static str> {
        let counters = self.nodes.iter().map(|node| node.horn.counters());
        counters
            .flat_map(|counters| counters.rejects().map(|(name, _)| name))
            .collect()
    }
}

impl Node {
    fn run(&mut self, work: Work) -> Outcome<Product> {
        if let Work::Sign(job) = &work
            && let Err((i, refused)) = job.admit(&self.marks)
        {
            return Outcome::Refused(format!("item {i}: {refused}"));
        }
        let done = work.run(&self.env, &mut Ctx::single(&mut Scratch::default()));
        done.map(|output| self.env.take_keys(output)).into()
    }
}

/// The end of a job, or one of the ways in which it has no result, by a number.
pub fn spoil(outcome: Outcome<Product>, way: Option<u64>) -> Outcome<Product> {
    // Without committees and keys nothing happens at all.
    if matches!(
        outcome,
        Outcome::Done(Product::Assigned(_) | Product::Prepared(_))
    ) {
        return outcome;
    }
    match way.map(|way| way % 6) {
        None => outcome,
        Some(0) => Outcome::Refused("spoilt".into()),
        Some(1) => Outcome::Superseded,
        Some(2) => Outcome::Cancelled,
        Some(3) => Outcome::SelfVerifyFailed,
        Some(4) => Outcome::Done(Product::Verdicts(Vec::new())),
        Some(_) => Outcome::Crashed,
    }
}
