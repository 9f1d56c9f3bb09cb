//! Votes passed through the roles over a real worker: some that crash their verifier, and a lone one.

use super::{Lanes, Pool};
use alphorn_proto::horn::{Config, Horn, Local, SchemeInfo};
use alphorn_proto::slot::Phase;
use alphorn_proto::wire::{Kind, Topic, VoteMsg, digest};
use alphorn_proto::{Input, Output, Peer, Protocol, Token, Verdict};
use alphorn_scheme::model::{CostTable, Model, ModelKeys, ModelRegistry, ModelSigners};
use alphorn_scheme::{
    Abilities, Bytes, Claim, Cost, Ctx, Env, Evidence, EvidenceLength, Form, Layer, Op, Overlap,
    Part, Refused, Reservation, Role, Scheme, SchemeError, SignItem, Signatures, Sizes, Statement,
    Watermark, Work,
};
use alphorn_types::{Assignment, Bitfield, Epoch, Layout, Slot, Time, Validator};
use alphorn_worker::WorkerConfig;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

const VALIDATORS: u32 = 8;
const SLOT: Slot = Slot(1);
/// The first byte of a signature that makes the verifier panic.
const DEADLY: u8 = 0xee;

/// The model, with a verifier that does not survive one kind of signature.
struct Fragile(Model);

impl Scheme for Fragile {
    type Registry = ModelRegistry;
    type Keys = ModelKeys;
    type Signers = ModelSigners;
    type Prepared = Vec<bool>;
    type Scratch = ();

    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn abilities(&self) -> Abilities {
        self.0.abilities()
    }

    fn sizes(&self) -> Sizes {
        self.0.sizes()
    }

    fn evidence_length(&self, layer: Layer, n: u32) -> EvidenceLength {
        self.0.evidence_length(layer, n)
    }

    fn cost(&self, op: Op, n: u64, m: u64) -> Cost {
        self.0.cost(op, n, m)
    }

    fn portable(&self) -> Self {
        Fragile(self.0.portable())
    }

    fn keys(
        &self,
        registry: &Arc<ModelRegistry>,
        assignment: &Arc<Assignment>,
        ctx: &mut Ctx<'_, ()>,
    ) -> Result<ModelKeys, SchemeError> {
        self.0.keys(registry, assignment, ctx)
    }

    fn assignment<'k>(&self, keys: &'k ModelKeys) -> &'k Assignment {
        self.0.assignment(keys)
    }

    fn sign(
        &self,
        signers: &ModelSigners,
        slot: Slot,
        items: &[SignItem],
        permits: Vec<Reservation>,
        ctx: &mut Ctx<'_, ()>,
    ) -> Result<Signatures, SchemeError> {
        self.0.sign(signers, slot, items, permits, ctx)
    }

    fn prepare(
        &self,
        keys: &ModelKeys,
        claims: &[Claim],
        secret: &[u8; 32],
        ctx: &mut Ctx<'_, ()>,
    ) -> Vec<bool> {
        let deadly =
            |claim: &Claim| matches!(claim, Claim::One { signature, .. } if signature[0] == DEADLY);
        assert!(!claims.iter().any(deadly), "a deadly signature");
        self.0.prepare(keys, claims, secret, ctx)
    }

    fn check(&self, keys: &ModelKeys, prepared: &Vec<bool>, range: Range<usize>) -> bool {
        self.0.check(keys, prepared, range)
    }

    fn locate(
        &self,
        keys: &ModelKeys,
        prepared: &Vec<bool>,
        ctx: &mut Ctx<'_, ()>,
    ) -> Option<Vec<usize>> {
        self.0.locate(keys, prepared, ctx)
    }

    fn aggregate<B: AsRef<[u8]>>(
        &self,
        keys: &ModelKeys,
        statement: &Statement,
        votes: &[(u32, B)],
        ctx: &mut Ctx<'_, ()>,
    ) -> Result<Evidence, SchemeError> {
        self.0.aggregate(keys, statement, votes, ctx)
    }

    fn combine(
        &self,
        keys: &ModelKeys,
        statement: &Statement,
        parts: &[Part],
        multiplicity_max: u8,
        ctx: &mut Ctx<'_, ()>,
    ) -> Result<Evidence, SchemeError> {
        self.0
            .combine(keys, statement, parts, multiplicity_max, ctx)
    }
}

/// The roles of a node over lanes.
struct Observer {
    horn: Horn,
    pool: Pool,
    now: Time,
    running: usize,
    verdicts: BTreeMap<Token, Verdict>,
    reported: Vec<Peer>,
    published: Vec<Topic>,
}

/// Permits every signature.
struct Permissive;

impl Watermark for Permissive {
    fn reserve(&self, slot: Slot, item: &SignItem) -> Result<Reservation, Refused> {
        Ok(Reservation::issue(slot, item))
    }
}

impl Observer {
    fn new() -> Self {
        Self::with(CostTable::example(), Local::observer)
    }

    fn with(table: CostTable, local: impl Fn(&Layout) -> Local) -> Self {
        let model = Model::new(table).unwrap();
        let layout = Layout::new(VALIDATORS, 1, 1).unwrap();
        let info = SchemeInfo::of(&model, &layout);
        let config = Config::new(layout, &info);
        let registry = Arc::new(ModelRegistry {
            validators: VALIDATORS,
        });
        let signers = Arc::new(ModelSigners {
            validators: VALIDATORS,
        });
        let env = Env::signing(Arc::new(Fragile(model)), registry, signers, [1; 32]);
        Observer {
            horn: Horn::new(config, info, local(&layout)).unwrap(),
            pool: Pool::start(env, WorkerConfig::default(), || ()).unwrap(),
            now: Time::ZERO,
            running: 0,
            verdicts: BTreeMap::new(),
            reported: Vec::new(),
            published: Vec::new(),
        }
    }

    fn handle(&mut self, input: Input) {
        self.pool.keep_time(self.now);
        self.horn.handle(self.now, input);
        while let Some(output) = self.horn.poll_output() {
            match output {
                Output::Spawn(spawn) => {
                    if let Work::Sign(job) = &spawn.work {
                        job.admit(&Permissive).expect("nothing is refused");
                    }
                    self.pool.submit(spawn).expect("the job is taken");
                    self.running += 1;
                }
                Output::Verdict { token, verdict } => {
                    self.verdicts.insert(token, verdict);
                }
                Output::Report { peer, .. } => self.reported.push(peer),
                Output::Publish { topic, .. } => self.published.push(topic),
                _ => {}
            }
        }
    }

    /// Advances to a time, and runs everything due until then.
    fn run_to(&mut self, time: Time) {
        self.now = time;
        let until = Instant::now() + Duration::from_secs(20);
        loop {
            if let Some(ended) = self.pool.poll() {
                self.running -= 1;
                let (job, outcome) = (ended.job, ended.outcome);
                self.handle(Input::Finished { job, outcome });
            } else if self.horn.next_deadline().is_some_and(|at| at <= self.now) {
                self.handle(Input::Deadline);
            } else if self.running == 0 {
                return;
            } else {
                assert!(Instant::now() < until, "a job does not end");
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }

    /// Submits the vote of a validator, from the peer with its number, with a modified signature.
    fn offer(&mut self, token: u64, voter: u32, signed: impl FnOnce(Bytes) -> Bytes) {
        let (horn, validator) = (&self.horn, Validator(voter));
        let vote = horn.chain().vote(SLOT, &horn.head()).unwrap();
        let message = digest::vote_message(horn.config().network(), &vote);
        let item = SignItem::new(validator, Role::Vote, message);
        let permit = Reservation::issue(SLOT, &item);
        let signers = ModelSigners {
            validators: VALIDATORS,
        };
        let model = Model::new(CostTable::example()).unwrap();
        let signature = model.sign(
            &signers,
            SLOT,
            &[item],
            vec![permit],
            &mut Ctx::single(&mut ()),
        );
        let signature = signed(signature.unwrap().iter().next().unwrap().into());
        let cell = horn.assignment(Epoch(0)).unwrap().cell_of(validator);
        let topic = Topic::Vote {
            cell: cell.unwrap(),
        };
        let message = VoteMsg {
            vote,
            validator,
            signature,
        };
        let data = message.encode(horn.format()).into();
        self.handle(Input::Message {
            from: Peer(voter.into()),
            topic,
            token: Token(token),
            data,
        });
    }
}

/// The same signature with a different first byte.
fn spoilt(signature: Bytes, first: u8) -> Bytes {
    let mut bytes = signature.to_vec();
    bytes[0] = first;
    bytes.into()
}

/// A vote that crashes its verifier is in one batch with a forged and an honest one: at first, while the worker
/// searches for it, and again once the worker knows it.
#[test]
fn a_vote_that_crashes_its_verifier_has_no_forged_one_accepted() {
    let mut node = Observer::new();
    let clock = *node.horn.clock();
    node.run_to(clock.slot_start(Slot(0)));
    node.run_to(clock.phase_start(SLOT, Phase::Vote));
    for (round, [forged, honest]) in (1..).zip([[0, 2], [3, 4]]) {
        let token = |of: u64| 10 * round + of;
        node.offer(token(0), forged, |right| spoilt(right.clone(), !right[0]));
        node.offer(token(1), 1, |right| spoilt(right, DEADLY));
        node.offer(token(2), honest, |right| right);
        node.run_to(node.now);
        let verdicts = [0, 1, 2].map(|of| node.verdicts[&Token(token(of))]);
        let expected = [Verdict::Reject, Verdict::Ignore, Verdict::Accept];
        assert_eq!(verdicts, expected, "round {round}");
        let reported = node.reported.pop().map(|peer| peer.0);
        assert_eq!(reported, Some(forged.into()));
        assert!(node.reported.is_empty(), "nobody is blamed for the crash");
        let status = node.pool.status();
        // Twice as a whole, then its first two votes, then the second of them alone.
        assert_eq!((status.counts.crashes, status.quarantined), (4, 1));
        let view = node.horn.view(SLOT).unwrap();
        assert_eq!(view.votes_accepted, round);
    }
    node.pool.shutdown();
}

/// Seven of the eight members of a cell are silent, and evidence is a proof. The vote of the last one still counts.
#[test]
fn the_only_vote_of_a_cell_becomes_an_aggregate() {
    let mut table = CostTable::example();
    table.abilities.layers = [Form::Proof; 2];
    table.abilities.overlap = [Overlap::Union; 2];
    table.abilities.unique = false;
    let mut node = Observer::with(table, |layout| {
        let mut local = Local::observer(layout);
        local.validators = Bitfield::ones(VALIDATORS as usize);
        local
    });
    let clock = *node.horn.clock();
    node.run_to(clock.slot_start(Slot(0)));
    node.run_to(clock.phase_start(SLOT, Phase::Vote));
    node.offer(1, 3, |right| right);
    node.run_to(node.now);
    assert_eq!(node.verdicts[&Token(1)], Verdict::Accept);
    let begin = clock.phase_start(SLOT, Phase::Level(1));
    let end = clock.phase_start(SLOT, Phase::Level(2));
    node.run_to(begin);
    node.run_to(end.saturating_sub_ns(1));
    let aggregates = node.published.iter();
    let aggregates = aggregates
        .filter(|topic| topic.kind() == Kind::Aggregate)
        .count();
    assert!(aggregates > 0, "{:?}", node.published);
    node.pool.shutdown();
}
