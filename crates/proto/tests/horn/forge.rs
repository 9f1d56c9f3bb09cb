//! Messages made by hand, honest and not.

use crate::net::{self, Kind, Net, model};
use alphorn_proto::horn::{Config, Local, SchemeInfo, Selection};
use alphorn_proto::wire::{
    Aggregate, Block, Body, Entry, Header, Topic, Vote, VoteMsg, WireFormat, digest, no_references,
};
use alphorn_scheme::model::{Model, ModelKeys, ModelRegistry, ModelSigners};
use alphorn_scheme::{
    Bundled, Bytes, Ctx, Evidence, Layer, Part, Reservation, Role, Scheme, SignItem, Statement,
};
use alphorn_types::{Assignment, Bitfield, Cell, Epoch, Layout, Slot, Support, Unit, Validator};
use std::sync::Arc;

/// Whoever holds all keys.
pub struct Forge {
    pub scheme: Model,
    pub config: Config,
    pub format: WireFormat,
    pub assignment: Arc<Assignment>,
    keys: ModelKeys,
}

/// A node with these duties at the start of slot 0, in a network that selects by rank, and a forge with all keys.
pub fn stage(
    kind: Kind,
    layout: Layout,
    local: Local,
    change: impl FnOnce(&mut Config),
) -> (Net, Forge) {
    let (mut config, info) = net::config(kind, layout);
    config.selection = Selection::Rank;
    change(&mut config);
    let mut net = Net::new(kind, &config, &info, vec![local]);
    net.run_until(net.nodes[0].horn.clock().slot_start(Slot(0)));
    let assignment = net.nodes[0].horn.assignment(Epoch(0)).unwrap();
    let forge = Forge::new(kind, &config, &info, assignment);
    (net, forge)
}

/// All members of cells and committees may publish, up to 64.
pub fn all_serve(config: &mut Config) {
    config.levels[0].publishers = 64;
    config.levels[1].publishers = 64;
}

impl Forge {
    pub fn new(
        kind: Kind,
        config: &Config,
        info: &SchemeInfo,
        assignment: &Arc<Assignment>,
    ) -> Self {
        let scheme = model(kind);
        let registry = Arc::new(ModelRegistry {
            validators: config.layout.validators(),
        });
        let keys = scheme
            .keys(&registry, assignment, &mut Ctx::single(&mut ()))
            .unwrap();
        Forge {
            format: config.format(info),
            config: config.clone(),
            assignment: assignment.clone(),
            scheme,
            keys,
        }
    }

    pub fn sign(&self, validator: Validator, role: Role, slot: Slot, message: [u8; 32]) -> Bytes {
        let signers = ModelSigners {
            validators: self.config.layout.validators(),
        };
        let item = SignItem::new(validator, role, message);
        let permit = Reservation::issue(slot, &item);
        let signed = self.scheme.sign(
            &signers,
            slot,
            &[item],
            vec![permit],
            &mut Ctx::single(&mut ()),
        );
        signed.unwrap().iter().next().unwrap().into()
    }

    pub fn vote(&self, validator: Validator, vote: Vote) -> (Topic, Vec<u8>) {
        let message = digest::vote_message(self.config.network(), &vote);
        let signature = self.sign(validator, Role::Vote, vote.slot, message);
        let cell = self.assignment.cell_of(validator).unwrap();
        (
            Topic::Vote { cell },
            VoteMsg {
                vote,
                validator,
                signature,
            }
            .encode(&self.format),
        )
    }

    fn statement(&self, layer: Layer, range: std::ops::Range<u32>, vote: &Vote) -> Statement {
        let message = digest::vote_message(self.config.network(), vote);
        let len = range.end - range.start;
        Statement {
            layer,
            first: range.start,
            len,
            slot: vote.slot,
            message,
        }
    }

    /// True evidence over a cell.
    pub fn cell_evidence(&self, cell: Cell, vote: &Vote, positions: &[u32]) -> Evidence {
        let range = self.config.layout.cell_range(cell);
        let statement = self.statement(Layer::Aggregate, range.clone(), vote);
        let votes: Vec<(u32, Bytes)> = positions
            .iter()
            .map(|&p| {
                let voter = self.assignment.member(range.start + p);
                (
                    p,
                    self.sign(voter, Role::Vote, vote.slot, statement.message),
                )
            })
            .collect();
        self.scheme
            .aggregate(&self.keys, &statement, &votes, &mut Ctx::single(&mut ()))
            .unwrap()
    }

    /// True evidence over a committee: each position of it `times` times.
    pub fn committee_evidence(
        &self,
        committee: u16,
        vote: &Vote,
        positions: &[u32],
        times: u8,
    ) -> Evidence {
        let layout = &self.config.layout;
        let statement = self.statement(Layer::Collection, layout.committee_range(committee), vote);
        let mut parts = Vec::new();
        for subcommittee in 0..layout.subcommittees() {
            let cell = Cell {
                committee,
                subcommittee,
            };
            let range = layout.cell_in_committee(cell);
            let inside: Vec<u32> = positions
                .iter()
                .filter(|p| range.contains(p))
                .map(|p| p - range.start)
                .collect();
            if !inside.is_empty() {
                let evidence = self.cell_evidence(cell, vote, &inside);
                let part = Part {
                    offset: range.start,
                    layer: Layer::Aggregate,
                    evidence,
                };
                parts.extend((0..times).map(|_| part.clone()));
            }
        }
        let mut scratch = ();
        let ctx = &mut Ctx::single(&mut scratch);
        self.scheme
            .combine(&self.keys, &statement, &parts, times, ctx)
            .unwrap()
    }

    pub fn aggregate(
        &self,
        unit: impl Into<Unit>,
        sender: Validator,
        vote: Vote,
        evidence: Evidence,
    ) -> Aggregate {
        let unit = unit.into();
        let envelope = Bytes::from([]);
        let mut message = Aggregate {
            vote,
            unit,
            sender,
            proof: self.proof(sender, unit.level, vote.slot),
            evidence,
            envelope,
        };
        let content = digest::aggregate_message(self.config.network(), &message, &self.format);
        message.envelope = self.sign(sender, Role::of_level(unit.level), vote.slot, content);
        message
    }

    /// An aggregate of a committee.
    pub fn collection(
        &self,
        committee: u16,
        sender: Validator,
        vote: Vote,
        evidence: Evidence,
    ) -> Aggregate {
        let unit = self.config.layout.committee(committee);
        self.aggregate(unit, sender, vote, evidence)
    }

    /// A ticket, where selection is a lottery.
    pub fn proof(&self, validator: Validator, level: u8, slot: Slot) -> Option<Bytes> {
        self.format.selection_proof_bytes?;
        let epoch = slot.epoch(self.config.epoch_slots);
        self.ticket(validator, &self.seed(epoch), level, slot)
    }

    pub fn seed(&self, epoch: alphorn_types::Epoch) -> [u8; 32] {
        let genesis = Header {
            body: self.config.network_id,
            ..Header::default()
        }
        .root();
        digest::epoch_seed(epoch, &digest::epoch_mix(epoch, &genesis))
    }

    pub fn ticket(
        &self,
        validator: Validator,
        seed: &[u8; 32],
        level: u8,
        slot: Slot,
    ) -> Option<Bytes> {
        let message = digest::selection_message(self.config.network(), seed, level, slot);
        let signers = ModelSigners {
            validators: self.config.layout.validators(),
        };
        let mut scratch = ();
        let ctx = &mut Ctx::single(&mut scratch);
        let proofs = self
            .scheme
            .select(&signers, &message, &[validator], ctx)
            .unwrap();
        Some(proofs.iter().next().unwrap().into())
    }

    /// An honest block of entries with true evidence.
    pub fn block(&self, slot: Slot, parent: [u8; 32], entries: Vec<Entry>) -> Block {
        let body = match self.format.bundle.filter(|_| !entries.is_empty()) {
            None => Body {
                entries,
                bundle: Bytes::from([]),
                filler: Bytes::from([]),
            },
            Some(_) => Body {
                bundle: self.bundle(&entries),
                entries: entries.iter().map(Entry::bare).collect(),
                filler: Bytes::from([]),
            },
        };
        self.signed(slot, parent, body)
    }

    /// One piece of evidence of entries with true evidence.
    pub fn bundle(&self, entries: &[Entry]) -> Bytes {
        let mut parts = Vec::new();
        for entry in entries {
            let range = self.config.layout.committee_range(entry.committee);
            let of = Bundled {
                keys: &self.keys,
                statement: self.statement(Layer::Collection, range, &entry.vote),
                support: &entry.evidence.support,
            };
            parts.push((of, &*entry.evidence.bytes));
        }
        self.scheme
            .bundle(&parts, &mut Ctx::single(&mut ()))
            .unwrap()
    }

    /// A block of any body, under its proposer's signature.
    pub fn signed(&self, slot: Slot, parent: [u8; 32], body: Body) -> Block {
        let proposer = Validator((slot.0 % u64::from(self.config.layout.validators())) as u32);
        let encoded = body.encode(&self.format, &no_references).unwrap();
        let header = Header {
            slot,
            proposer,
            parent,
            body: digest::body_digest(&encoded),
        };
        let message = digest::block_message(self.config.network(), &header.root());
        let signature = self.sign(proposer, Role::Block, slot, message);
        Block {
            header,
            signature,
            body,
        }
    }

    /// A member of a committee at a position of it.
    pub fn member(&self, committee: u16, position: u32) -> Validator {
        Validator(self.assignment.committee_members(committee)[position as usize])
    }

    pub fn encode(&self, message: &Aggregate) -> (Topic, Vec<u8>) {
        let topic = Topic::of(&self.config.layout, message.unit);
        (topic, message.encode(&self.format, &no_references).unwrap())
    }

    pub fn encode_block(&self, block: &Block) -> (Topic, Vec<u8>) {
        (
            Topic::Block,
            block.encode(&self.format, &no_references).unwrap(),
        )
    }
}

/// The same evidence for more than it proves.
pub fn overstate(evidence: &Evidence, support: Support) -> Evidence {
    Evidence {
        support: Arc::new(support),
        bytes: evidence.bytes.clone(),
    }
}

pub fn all_ones(len: u32) -> Support {
    Support::from_bits(Bitfield::ones(len as usize))
}
