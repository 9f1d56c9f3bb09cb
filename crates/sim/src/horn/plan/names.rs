//! Numbers of units, topics and messages.

use super::{Plan, Server, TopicId};
use crate::gossip;
use alphorn_proto::wire;
use alphorn_types::{Cell, Slot, Unit, Validator};

impl Plan {
    /// Serving validators of a level, by slot and unit.
    pub(crate) fn serving(&self, level: u8) -> &[Vec<Server>] {
        &self.serving[usize::from(level) - 1]
    }

    /// Validators that serve in a unit in a slot, by rank.
    pub(crate) fn servers_of(&self, slot: Slot, unit: Unit) -> &[Server] {
        let (level, at) = (unit.level, self.unit_number(unit));
        let post = self.place(slot).map(|place| place * self.units(level) + at);
        post.map_or(&[], |post| &self.serving(level)[post as usize])
    }

    /// Number of units of a level.
    pub(super) fn units(&self, level: u8) -> u32 {
        let layout = &self.config.layout;
        u32::from(layout.committees()) * u32::from(layout.units_of_committee(level))
    }

    /// Number of units of the levels below one.
    fn units_below(&self, level: u8) -> u32 {
        (1..level).map(|below| self.units(below)).sum()
    }

    /// Number of units below the top level: their posts come before those of the committees.
    pub(crate) fn posts_below_top(&self) -> u32 {
        self.units_below(self.config.layout.levels())
    }

    /// Index of a unit among those of its level.
    fn unit_number(&self, unit: Unit) -> u32 {
        let of_committee = self.config.layout.units_of_committee(unit.level);
        u32::from(unit.committee) * u32::from(of_committee) + u32::from(unit.index)
    }

    /// Index of a unit among all units: cells come first, committees last.
    pub(crate) fn post(&self, unit: Unit) -> u32 {
        self.units_below(unit.level) + self.unit_number(unit)
    }

    /// The unit with an index.
    pub(crate) fn unit(&self, post: u32) -> Unit {
        let layout = &self.config.layout;
        let (mut level, mut number) = (1, post);
        while number >= self.units(level) && level < layout.levels() {
            number -= self.units(level);
            level += 1;
        }
        let of_committee = u32::from(layout.units_of_committee(level));
        // Below C and S, which are 16-bit.
        Unit::new(
            level,
            (number / of_committee) as u16,
            (number % of_committee) as u16,
        )
    }

    /// The topic carrying the inputs of a unit's evidence, votes or aggregates, in the slot at index `place`.
    pub(crate) fn unit_topic(&self, place: u32, unit: Unit) -> TopicId {
        let units = self.units_below(self.config.layout.levels() + 1);
        TopicId(place * units + self.post(unit))
    }

    /// The topic of all collections.
    pub(crate) fn collection_topic(&self) -> TopicId {
        let first = Unit::new(1, 0, 0);
        // Slots are numbered from 0, so this is the first number after the topics of their units.
        TopicId(self.unit_topic(self.slots, first).0)
    }

    /// The topic of blocks.
    pub(crate) fn block_topic(&self) -> TopicId {
        TopicId(self.collection_topic().0 + 1)
    }

    /// The topic to which evidence of a unit goes.
    pub(crate) fn topic_above(&self, place: u32, unit: Unit) -> TopicId {
        match self.config.layout.parent(unit) {
            Some(parent) => self.unit_topic(place, parent),
            None => self.collection_topic(),
        }
    }

    /// The number of a protocol topic, for messages of the slot at index `place`.
    pub(crate) fn topic_id(&self, topic: wire::Topic, place: u32) -> TopicId {
        match topic {
            wire::Topic::Vote { cell } => self.unit_topic(place, cell.into()),
            wire::Topic::Aggregate { unit } => self.unit_topic(place, unit),
            wire::Topic::Collection => self.collection_topic(),
            wire::Topic::Block => self.block_topic(),
        }
    }

    /// Index of the slot of a vote or aggregate topic.
    pub(crate) fn place_of(&self, id: TopicId) -> u32 {
        id.0 / self.units_below(self.config.layout.levels() + 1)
    }

    /// The protocol's name for the topic with a number.
    pub(crate) fn topic(&self, id: TopicId) -> wire::Topic {
        if id >= self.collection_topic() {
            return match id == self.collection_topic() {
                true => wire::Topic::Collection,
                false => wire::Topic::Block,
            };
        }
        let units = self.units_below(self.config.layout.levels() + 1);
        let unit = self.unit(id.0 % units);
        match unit.cell() {
            Some(cell) => wire::Topic::Vote { cell },
            None => wire::Topic::Aggregate { unit },
        }
    }

    /// The number of a vote on its topic: its position in the cell.
    pub(crate) fn vote_id(&self, cell: Cell, validator: Validator) -> Option<gossip::DenseId> {
        let position = self.assignment.position(validator)?;
        let within = position.checked_sub(self.config.layout.cell_range(cell).start)?;
        Some(gossip::DenseId(within))
    }

    /// The number of a unit's evidence on its topic. Serving validators are numbered unit by unit, those for
    /// collections slot by slot.
    pub(crate) fn evidence_id(
        &self,
        place: u32,
        unit: Unit,
        sender: Validator,
    ) -> Option<gossip::DenseId> {
        let post = place * self.units(unit.level) + self.unit_number(unit);
        let group = match self.config.layout.parent(unit) {
            Some(parent) => {
                let mut parts = self.config.layout.parts(parent);
                parts.position(|part| part == unit)? as u32
            }
            None => post,
        };
        numbered(self.serving(unit.level), post, group, sender)
    }
}

/// The number of a message by a serving validator, among those of all that serve.
fn numbered(
    servers: &[Vec<Server>],
    post: u32,
    group: u32,
    sender: Validator,
) -> Option<gossip::DenseId> {
    // By the widest unit of the level, so that numbers of different units do not meet.
    let width = servers.iter().map(Vec::len).max().unwrap_or(1) as u32;
    let mut own = servers.get(post as usize)?.iter();
    let index = own.position(|server| server.validator == sender.0)? as u32;
    Some(gossip::DenseId(group * width + index))
}
