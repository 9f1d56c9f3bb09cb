//! A slot of a million votes, as it comes to a machine with one validator: votes of its cell, aggregates
//! of its committee, all collections and a block of them. Evidence is zeros, and every job says that it
//! holds: what machines do with messages is looked at here, not what schemes do.

use alphorn_proto::horn::{Config, Horn, Local, SchemeInfo, Selection, Store, selection};
use alphorn_proto::slot::Phase;
use alphorn_proto::wire::{
    Aggregate, Block, Body, Entry, Header, Root, Topic, Vote, VoteMsg, WireFormat, digest,
    no_references,
};
use alphorn_proto::{Input, Output, Peer, Protocol, Spawn, Token};
use alphorn_scheme::model::{CostTable, Model, ModelRegistry, ModelSigners};
use alphorn_scheme::{
    Bytes, Ctx, Env, Evidence, EvidenceLength, Outcome, Product, Scratch, Task, Verdict, Work,
};
use alphorn_types::{Assignment, Bitfield, Epoch, Layout, Slot, Support, Time, Unit, Validator};
use std::sync::Arc;

pub(crate) const VALIDATORS: u32 = 1 << 20;
pub(crate) const SLOT: Slot = Slot(1);
/// The validator of every machine.
const OWN: u32 = 7;

pub(crate) struct World {
    config: Config,
    info: SchemeInfo,
    env: Env,
    /// The committees that were drawn, one allocation for all machines.
    drawn: Vec<Arc<Assignment>>,
    /// What comes when.
    pub(crate) messages: Vec<(Time, Topic, Bytes)>,
}

fn zeros(length: EvidenceLength) -> Bytes {
    match length {
        EvidenceLength::Fixed(bytes) => vec![0; bytes].into(),
        EvidenceLength::Max(bytes) => vec![0; bytes.min(1_000)].into(),
    }
}

/// About 15 of 16 positions, different ones for each number.
fn signers(positions: u32, number: u64) -> Bitfield {
    let mut state = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut signers = Bitfield::ones(positions as usize);
    for position in 0..positions as usize {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        if state >> 60 == 0 {
            signers.clear(position);
        }
    }
    signers
}

impl World {
    pub(crate) fn new() -> Self {
        let layout = Layout::new(VALIDATORS, 32, 64).unwrap();
        let model = Model::new(CostTable::example()).unwrap();
        let info = SchemeInfo::of(&model, &layout);
        let mut config = Config::new(layout, &info);
        config.selection = Selection::Rank;
        let validators = VALIDATORS;
        let env = Env::signing(
            Arc::new(model),
            Arc::new(ModelRegistry { validators }),
            Arc::new(ModelSigners { validators }),
            [7; 32],
        );
        let mut world = Self {
            config,
            info,
            env,
            drawn: Vec::new(),
            messages: Vec::new(),
        };
        let horn = world.machine(&Arc::default());
        let committees = horn.assignment(Epoch(0)).unwrap().clone();
        let head = horn.head();
        let mix = horn.chain().mix(Epoch(0), &head).unwrap();
        let seed = digest::epoch_seed(Epoch(0), &mix);
        world.write(&horn, &committees, &seed, head);
        world
    }

    /// The messages of the slot.
    fn write(&mut self, horn: &Horn, committees: &Assignment, seed: &[u8; 32], head: Root) {
        let (format, layout) = (horn.format().clone(), self.config.layout);
        let at = |slot, phase| horn.clock().phase_start(slot, phase);
        let vote = horn.chain().vote(SLOT, &head).unwrap();
        let cell = committees.cell_of(Validator(OWN)).unwrap();
        for &member in committees.cell_members(cell) {
            let message = VoteMsg {
                vote,
                validator: Validator(member),
                signature: vec![0; format.signature_bytes].into(),
            };
            let data = message.encode(&format).into();
            let heard = (at(SLOT, Phase::Vote), Topic::Vote { cell }, data);
            self.messages.push(heard);
        }
        let mut entries = Vec::new();
        for level in 1..=layout.levels() {
            for unit in layout.units(level) {
                if level < layout.levels() && unit.committee != cell.committee {
                    continue;
                }
                let target = u32::from(self.config.level(level).publishers);
                let ranks = selection::ranked(seed, SLOT, unit, &layout, target);
                for rank in ranks {
                    let sender = committees.member(layout.unit_range(unit).start + rank);
                    let message = aggregate(vote, unit, sender, &format);
                    if level == layout.levels() && entries.len() == usize::from(unit.committee) {
                        entries.push(Entry::from(&message));
                    }
                    let data = message.encode(&format, &no_references).unwrap().into();
                    let topic = Topic::of(&layout, unit);
                    self.messages
                        .push((at(SLOT, Phase::Level(level)), topic, data));
                }
            }
        }
        let block = block(horn, entries, head);
        let data = block.encode(&format, &no_references).unwrap().into();
        let heard = (at(SLOT.next(), Phase::Propose), Topic::Block, data);
        self.messages.push(heard);
    }

    /// A machine at the begin of the slot.
    pub(crate) fn machine(&mut self, store: &Arc<Store>) -> Horn {
        let mut own = Bitfield::new(VALIDATORS as usize);
        own.set(OWN as usize);
        let local = Local {
            validators: own.clone(),
            voters: own,
            trust_own: true,
        };
        let mut horn = Horn::new(self.config.clone(), self.info.clone(), local).unwrap();
        horn.lend_store(store.clone());
        self.pass(&mut horn, Time::ZERO);
        let begin = horn.clock().slot_start(SLOT);
        self.pass(&mut horn, begin);
        horn
    }

    /// A machine hears the whole slot.
    pub(crate) fn hear(&mut self, horn: &mut Horn, copy: bool) {
        let mut now = Time::ZERO;
        for i in 0..self.messages.len() {
            let (at, topic, data) = self.messages[i].clone();
            if at > now {
                now = at;
                self.pass(horn, at);
            }
            let data = if copy {
                Bytes::from(data.to_vec())
            } else {
                data
            };
            tell(horn, at, i as u64, topic, data);
        }
        self.pass(horn, now);
    }

    /// What is due until a time, and the end of all jobs.
    pub(crate) fn pass(&mut self, horn: &mut Horn, now: Time) {
        loop {
            horn.handle(now, Input::Deadline);
            let mut ended = Vec::new();
            while let Some(output) = horn.poll_output() {
                if let Output::Spawn(Spawn { job, work, .. }) = output {
                    ended.push((job, self.run(&work)));
                }
            }
            if ended.is_empty() && horn.next_deadline().is_none_or(|at| at > now) {
                return;
            }
            for (job, outcome) in ended {
                horn.handle(now, Input::Finished { job, outcome });
            }
        }
    }

    fn run(&mut self, work: &Work) -> Outcome<Product> {
        match work {
            Work::Verify(job) => {
                let verdicts = job.items.iter().map(|_| Verdict::Valid).collect();
                Outcome::Done(Product::Verdicts(verdicts))
            }
            Work::Prepare(job) => Outcome::Done(Product::Prepared(job.assignment.epoch())),
            Work::Foreign(_) => {
                let run = work.run(&self.env, &mut Ctx::single(&mut Scratch::default()));
                let Product::Assigned(drawn) = run.unwrap().product else {
                    panic!("committees");
                };
                let known = self.drawn.iter().find(|known| **known == drawn).cloned();
                let known = known.unwrap_or_else(|| {
                    self.drawn.push(drawn.clone());
                    drawn
                });
                Outcome::Done(Product::Assigned(known))
            }
            _ => Outcome::Refused("it makes nothing itself".into()),
        }
    }
}

fn aggregate(vote: Vote, unit: Unit, sender: Validator, format: &WireFormat) -> Aggregate {
    let positions = format.layout.unit_len(unit);
    let number = u64::from(sender.0) << 8 | u64::from(unit.level);
    Aggregate {
        vote,
        unit,
        sender,
        proof: None,
        evidence: Evidence {
            support: Arc::new(Support::from_bits(signers(positions, number))),
            bytes: zeros(format.evidence(unit.level)),
        },
        envelope: vec![0; format.duty_signature_bytes].into(),
    }
}

fn block(horn: &Horn, entries: Vec<Entry>, parent: Root) -> Block {
    let body = Body {
        entries,
        bundle: Bytes::from([]),
        filler: Bytes::from([]),
    };
    let encoded = body.encode(horn.format(), &no_references).unwrap();
    let header = Header {
        slot: SLOT.next(),
        proposer: horn.chain().proposer(SLOT.next()),
        parent,
        body: digest::body_digest(&encoded),
    };
    Block {
        header,
        signature: vec![0; horn.format().duty_signature_bytes].into(),
        body,
    }
}

/// A message comes.
pub(crate) fn tell(horn: &mut Horn, now: Time, token: u64, topic: Topic, data: Bytes) {
    let (from, token) = (Peer(1), Token(token));
    horn.handle(
        now,
        Input::Message {
            from,
            topic,
            token,
            data,
        },
    );
}
