//! The gate in isolation: peers' messages, valid and forged, in any order.

use alphorn_scheme::{
    self as scheme, BundleEntry, BundleJob, Bytes, CombineJob, Evidence, Layer, Op, Part, Product,
    Role as Signer, SelectJob, VerifyBundleJob, Work,
};
use alphorn_types::{Epoch, Peer, Slot, Unit, Validator};
use std::collections::{BTreeMap, BTreeSet};

use super::{SLOT, STEPS_MAX, Script, Stage, VALIDATORS, cell, everybody};
use crate::contract::{Output, Spawn, Token, Verdict};
use crate::horn::cell_votes::CellVotes;
use crate::horn::config::{Selection, SubsetRule};
use crate::horn::gate::{Gate, Input, Made};
use crate::horn::local::{Hosted, Local};
use crate::horn::role::lent;
use crate::horn::task::Purpose;
use crate::wire::{Aggregate, Block, Body, Entry, Header, Reject, Topic, Vote, VoteMsg, digest};

/// A gate, the messages sent to it, and its answers.
struct Gatehouse {
    stage: Stage,
    gate: Gate,
    messages: u64,
    verdicts: BTreeMap<Token, Verdict>,
    /// Collections it accepted.
    accepted: Vec<Entry>,
}

impl Gatehouse {
    fn new(choices: u8) -> Self {
        let mut stage = Stage::new(choices);
        if choices & 64 != 0 {
            stage.config.subset_rule = SubsetRule::Both;
        }
        stage.local = Hosted::from(&Local {
            trust_own: false,
            ..everybody()
        });
        let committees = stage.slots[&SLOT].committees.clone();
        stage
            .epochs
            .insert_ready(committees.assignment.epoch(), committees);
        Self {
            gate: Gate::new(&stage.config, &stage.info, &stage.local),
            stage,
            messages: 0,
            verdicts: BTreeMap::new(),
            accepted: Vec::new(),
        }
    }

    fn handle(&mut self, input: Input) {
        let stage = &mut self.stage;
        let mut lent = lent!(stage, &mut stage.slots);
        self.gate.handle(&mut lent, input);
        self.answer();
        while let Some(made) = self.gate.poll_output() {
            match made {
                Made::Accepted { collection, .. } => {
                    let entry = collection.map(|claimed| claimed.entry.clone());
                    self.accepted.extend(entry);
                }
                Made::Block(block) => {
                    let result = self.import(&block.block);
                    self.handle(Input::Imported { block, result });
                }
                Made::Votes { .. } | Made::Aggregates { .. } | Made::Branch { .. } => {}
            }
        }
    }

    /// Imports a verified block into the chain.
    fn import(&mut self, block: &Block) -> Result<(), Reject> {
        let message = digest::block_message(self.stage.config.network(), &block.header.root());
        let signature = self.envelope(block.header.proposer, Signer::Block, message, false);
        assert_eq!(block.signature, signature, "a forged block");
        assert!(self.stage.is_proved(&block.body), "forged evidence");
        if self.stage.format.bundle.is_none() {
            let entries = block.body.entries.iter();
            entries.for_each(|entry| check_evidence(&entry.evidence));
        }
        let inserted = self.stage.chain.insert(block.header, &block.body.entries);
        inserted.map(|_| ())
    }

    /// Records the gate's outputs.
    fn answer(&mut self) {
        while let Some(output) = self.stage.fx.poll() {
            match output {
                Output::Spawn(Spawn { job, work, .. }) => self.stage.jobs.push((job, work)),
                Output::Verdict { token, verdict } => {
                    let before = self.verdicts.insert(token, verdict);
                    assert_eq!(before, None, "a second verdict on a message");
                }
                Output::Evidence(pair) => assert_ne!(pair.first, pair.second),
                Output::Report { .. } => {}
                other => panic!("not for the gate: {other:?}"),
            }
        }
    }

    fn message(&mut self, peer: usize, topic: Topic, data: Vec<u8>) {
        let token = Token(self.messages);
        self.messages += 1;
        self.handle(Input::Message {
            origin: Some((Peer(peer as u64 % 4), token)),
            topic,
            data: data.into(),
        });
    }

    fn end(&mut self, which: usize, way: usize) {
        if let Some((Purpose::Gate(job), outcome)) = self.stage.end(which, way) {
            self.handle(Input::Finished { job, outcome });
        }
    }

    /// Advances time. Messages that waited too long expire.
    fn pass(&mut self, ms: u64) {
        self.stage.pass(ms, None);
        let slot = self.stage.clock.slot_at(self.stage.now).unwrap_or_default();
        self.stage.chain.set_slot(slot);
        self.handle(Input::Slot { slot });
        while self
            .gate
            .next_deadline()
            .is_some_and(|at| at <= self.stage.now)
        {
            self.handle(Input::Deadline);
        }
    }

    /// The selection proof of a validator, where selection is a lottery.
    fn proof(&self, validator: Validator, level: u8) -> Option<Bytes> {
        if self.stage.config.selection == Selection::Rank {
            return None;
        }
        let (network, seed) = (
            self.stage.config.network(),
            &self.stage.slots[&SLOT].committees.seed,
        );
        let message = digest::selection_message(network, seed, level, SLOT);
        let validators = vec![validator];
        let job = SelectJob {
            message,
            validators,
        };
        match self.stage.product(&Work::Select(job))? {
            Product::Selected(proofs) => proofs.iter().map(Bytes::from).next(),
            _ => None,
        }
    }

    /// The bytes of a duty signature, or another validator's if it is to be forged.
    fn envelope(
        &self,
        validator: Validator,
        role: Signer,
        message: [u8; 32],
        forged: bool,
    ) -> Bytes {
        let signer = Validator((validator.0 + u32::from(forged)) % VALIDATORS);
        self.stage
            .signed(signer, role, message)
            .expect("a first signature")
    }

    fn vote(&mut self, script: &mut Script<'_>) -> Option<(Topic, Vec<u8>)> {
        let validator = Validator(script.number() as u32 % VALIDATORS);
        let (choice, flaw) = (script.number(), script.number());
        let mut vote = self.stage.ballots[choice % 2].vote;
        if flaw & 2 != 0 {
            vote.head[0] ^= 1;
        }
        let message = digest::vote_message(self.stage.config.network(), &vote);
        let signature = self.envelope(validator, Signer::Vote, message, flaw & 1 != 0);
        let assignment = &self.stage.slots.get(&SLOT)?.committees.assignment;
        let cell = assignment.cell_of(validator).filter(|_| flaw & 4 == 0);
        let cell = cell.unwrap_or_else(|| self::cell(flaw >> 3));
        let message = VoteMsg {
            vote,
            validator,
            signature,
        };
        Some((Topic::Vote { cell }, message.encode(&self.stage.format)))
    }

    fn aggregate(&mut self, script: &mut Script<'_>) -> Option<(Topic, Vec<u8>)> {
        let (cell, choice) = (cell(script.number()), script.number());
        let (members, flaw) = (script.number() as u8, script.number());
        let mut evidence = self.stage.aggregate(cell, choice, members)?;
        if flaw & 2 != 0 {
            evidence.bytes = vec![0; evidence.bytes.len()].into();
        }
        let assignment = &self.stage.slots.get(&SLOT)?.committees.assignment;
        let of_cell = assignment.cell_members(cell);
        let sender = Validator(of_cell[(flaw >> 2) % of_cell.len()]);
        let vote = self.stage.ballots[choice % 2].vote;
        self.signed_aggregate(cell.into(), sender, vote, evidence, flaw & 1 != 0)
    }

    /// An aggregate with its ticket and envelope.
    fn signed_aggregate(
        &self,
        unit: Unit,
        sender: Validator,
        vote: Vote,
        evidence: Evidence,
        forged: bool,
    ) -> Option<(Topic, Vec<u8>)> {
        let mut message = Aggregate {
            vote,
            unit,
            sender,
            proof: self.proof(sender, unit.level),
            evidence,
            envelope: Bytes::from([]),
        };
        let (config, format) = (&self.stage.config, &self.stage.format);
        let content = digest::aggregate_message(config.network(), &message, format);
        message.envelope = self.envelope(sender, Signer::of_level(unit.level), content, forged);
        let references = |vote: &_, committee| self.stage.chain.reference(vote, committee);
        let data = message.encode(format, &references).ok()?;
        Some((Topic::of(&config.layout, unit), data))
    }

    fn collection(&mut self, script: &mut Script<'_>) -> Option<(Topic, Vec<u8>)> {
        let flaw = script.number();
        let Entry {
            vote,
            committee,
            evidence,
        } = self.stage.entry(script, flaw & 2 != 0)?;
        let assignment = &self.stage.slots.get(&SLOT)?.committees.assignment;
        let of_committee = assignment.committee_members(committee);
        let sender = Validator(of_committee[(flaw >> 2) % of_committee.len()]);
        let unit = self.stage.config.layout.committee(committee);
        self.signed_aggregate(unit, sender, vote, evidence, flaw & 1 != 0)
    }

    /// A block of the next slot, with an accepted collection and another one.
    fn block(&mut self, script: &mut Script<'_>) -> Option<(Topic, Vec<u8>)> {
        let flaw = script.number();
        let known = self.accepted.get(script.number()).cloned();
        let other = (flaw & 4 != 0).then(|| self.stage.entry(script, flaw & 2 != 0));
        let entries = known.into_iter().chain(other.flatten()).collect();
        let (entries, bundle) = self.stage.carried(entries);
        let body = Body {
            entries,
            bundle,
            filler: vec![0; flaw >> 5].into(),
        };
        let (network, format) = (self.stage.config.network(), &self.stage.format);
        let references = |vote: &_, committee| self.stage.chain.reference(vote, committee);
        let encoded = body.encode(format, &references).ok()?;
        let slot = Slot(SLOT.0 + 1 + (flaw as u64 >> 4 & 1));
        let mut parent = self.stage.chain.head();
        if flaw & 8 != 0 {
            parent[0] ^= 1;
        }
        let header = Header {
            slot,
            proposer: self.stage.chain.proposer(slot),
            parent,
            body: digest::body_digest(&encoded),
        };
        let message = digest::block_message(network, &header.root());
        let signature = self.envelope(header.proposer, Signer::Block, message, flaw & 1 != 0);
        let block = Block {
            header,
            signature,
            body,
        };
        Some((Topic::Block, block.encode(format, &references).ok()?))
    }

    /// Checks that accepted messages are valid, independently of the gate.
    fn check_accepted(&self) {
        let Some(state) = self.stage.slots.get(&SLOT) else {
            return;
        };
        for number in 0..4 {
            let cell = cell(number);
            let members = state.committees.assignment.cell_members(cell);
            let messages = state.cell(cell).into_iter().flat_map(CellVotes::messages);
            for (first, data) in messages {
                let message = state.ballots.get(first.ballot).message;
                let validator = Validator(members[first.position as usize]);
                let signed = self.stage.signed(validator, Signer::Vote, message);
                let signature = VoteMsg::signature_of(data, &self.stage.format);
                assert_eq!(signed.as_deref(), Some(&*signature), "a forged vote");
            }
        }
        for (_, accepted) in state.all_accepted() {
            accepted
                .iter()
                .for_each(|accepted| check_evidence(&accepted.evidence));
            let senders: BTreeSet<Validator> = accepted.iter().map(|one| one.sender).collect();
            let count = accepted.len();
            assert_eq!(senders.len(), count, "two aggregates of one sender");
        }
    }
}

impl Stage {
    /// The evidence of one cell as evidence of its committee.
    pub(super) fn entry(&self, script: &mut Script<'_>, forged: bool) -> Option<Entry> {
        let (cell, choice) = (cell(script.number()), script.number());
        let evidence = self.aggregate(cell, choice, script.number() as u8)?;
        let (state, ballot) = (self.slots.get(&SLOT)?, &self.ballots[choice % 2]);
        let (config, committee) = (&self.config, cell.committee);
        let unit = config.layout.committee(committee);
        let work = Work::Combine(CombineJob {
            op: Op::Collect,
            epoch: state.epoch,
            statement: config.statement(&self.info, unit, SLOT, ballot.message),
            parts: vec![Part {
                offset: state.layout().cell_in_committee(cell).start,
                layer: Layer::Aggregate,
                evidence,
            }],
            multiplicity_max: config.multiplicity_max,
        });
        let Product::Evidence(mut evidence) = self.product(&work)? else {
            return None;
        };
        if forged {
            evidence.bytes = vec![0; evidence.bytes.len()].into();
        }
        let vote = ballot.vote;
        Some(Entry {
            vote,
            committee,
            evidence,
        })
    }

    /// Entries as a block carries them, with the single piece of evidence for all if blocks are bundled.
    /// It proves nothing if one of them is forged.
    fn carried(&self, entries: Vec<Entry>) -> (Vec<Entry>, Bytes) {
        let Some(length) = self.format.bundle.filter(|_| !entries.is_empty()) else {
            return (entries, Bytes::from([]));
        };
        let with_evidence =
            |entry: &Entry| (self.bundle_entry(entry), entry.evidence.bytes.clone());
        let work = Work::Bundle(BundleJob {
            collections: entries.iter().map(with_evidence).collect(),
        });
        let bundle = match self.product(&work) {
            Some(Product::Bundle { bytes, .. }) => bytes,
            _ => vec![0; length.max_bytes()].into(),
        };
        (entries.iter().map(Entry::bare).collect(), bundle)
    }

    /// Whether one piece of evidence proves all entries of a body, if blocks are bundled.
    pub(super) fn is_proved(&self, body: &Body) -> bool {
        if self.format.bundle.is_none() || body.entries.is_empty() {
            return body.bundle.is_empty();
        }
        let entries = body.entries.iter().map(|entry| self.bundle_entry(entry));
        let work = Work::VerifyBundle(VerifyBundleJob {
            entries: entries.collect(),
            evidence: body.bundle.clone(),
        });
        self.product(&work) == Some(Product::Verdicts(vec![scheme::Verdict::Valid]))
    }

    fn bundle_entry(&self, entry: &Entry) -> BundleEntry {
        let message = digest::vote_message(self.config.network(), &entry.vote);
        let unit = self.config.layout.committee(entry.committee);
        BundleEntry {
            epoch: Epoch(0),
            statement: (self.config).statement(&self.info, unit, entry.vote.slot, message),
            support: entry.evidence.support.clone(),
        }
    }
}

/// Forged evidence lacks the model's tag.
fn check_evidence(evidence: &Evidence) {
    assert!(
        evidence.bytes.iter().any(|byte| *byte != 0),
        "forged evidence"
    );
    assert!(evidence.support.signers().any(), "evidence of nobody");
}

/// A gate in isolation: each message of a peer gets one verdict, whatever happens to its jobs, and no
/// forged one is accepted.
///
/// # Panics
///
/// If that does not hold.
pub fn gate(data: &[u8]) -> bool {
    let mut script = Script(data);
    let mut house = Gatehouse::new(script.number() as u8);
    for _ in 0..STEPS_MAX {
        let Some(step) = script.next() else {
            break;
        };
        let message = match step % 8 {
            0 => house.vote(&mut script),
            1 => house.aggregate(&mut script),
            2 => house.collection(&mut script),
            3 => house.block(&mut script),
            4 => {
                house.pass(script.number() as u64 * 160);
                None
            }
            5 => {
                house.handle(Input::Verify);
                None
            }
            _ => {
                house.end(script.number(), script.number());
                None
            }
        };
        if let Some((topic, mut data)) = message {
            if step & 128 != 0 {
                data.truncate(script.number());
            }
            house.message(script.number(), topic, data);
        }
        house.check_accepted();
    }
    // Whatever still waits is ended: its jobs, its time, its slot.
    while house.gate.is_due() || !house.stage.jobs.is_empty() {
        house.handle(Input::Verify);
        while !house.stage.jobs.is_empty() {
            house.end(0, usize::from(script.next().unwrap_or(7)));
        }
        house.check_accepted();
    }
    house.pass(60_000);
    let slots: Vec<Slot> = house.stage.slots.keys().copied().collect();
    for slot in slots {
        house.handle(Input::Close { slot });
        house.stage.slots.remove(&slot);
    }
    house.handle(Input::Verify);
    assert_eq!(
        house.verdicts.len() as u64,
        house.messages,
        "a message without a verdict"
    );
    assert_eq!(house.gate.bytes(), 0, "something waits for nothing");
    house
        .verdicts
        .values()
        .any(|verdict| *verdict == Verdict::Accept)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::horn::epochs::Committees;
    use crate::horn::state::SlotState;
    use std::sync::Arc;

    /// Restarts the slot under such committees.
    fn begin_anew(house: &mut Gatehouse, committees: Arc<Committees>) {
        let stage = &mut house.stage;
        let state = SlotState::new(SLOT, committees, 4, &mut stage.fx);
        stage.slots.insert(SLOT, Box::new(state));
    }

    /// Evidence verified under committees other than those of its vote proves nothing about it: a block
    /// that contains it is verified.
    #[test]
    fn evidence_by_the_committees_of_another_branch_is_not_remembered() {
        // By rank, with all members serving.
        let mut house = Gatehouse::new(1);
        house.stage.config.levels[1].publishers = VALIDATORS as u16;
        let collection = house.collection(&mut Script(&[0, 0, 0, 0xff]));
        let (topic, data) = collection.expect("true evidence");
        house.message(0, topic, data);
        house.handle(Input::Verify);
        house.end(0, 7);
        assert_eq!(house.stage.jobs.len(), 1, "its evidence is verified");
        let own = house.stage.slots[&SLOT].committees.clone();
        let (assignment, weights) = (own.assignment.clone(), own.weights.clone());
        let other = Committees::new(own.seed, [9; 32], assignment, weights, &house.stage.local);
        begin_anew(&mut house, Arc::new(other));
        house.end(0, 7);
        assert_eq!(house.verdicts[&Token(0)], Verdict::Ignore);
        begin_anew(&mut house, own);
        let next = house.stage.clock.slot_start(SLOT.next());
        house.pass(next.since_ns(house.stage.now) / 1_000_000);
        let block = house.block(&mut Script(&[4, 0, 0, 0, 0xff]));
        let (topic, data) = block.expect("the same evidence");
        house.message(1, topic, data);
        house.handle(Input::Verify);
        house.end(0, 7);
        assert_eq!(house.stage.jobs.len(), 1, "its evidence is verified again");
        house.end(0, 7);
        assert_eq!(house.verdicts[&Token(1)], Verdict::Accept);
    }
}
