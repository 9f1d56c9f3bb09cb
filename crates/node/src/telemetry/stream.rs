//! Chain events for the two interfaces: the beacon API's and lean's.
//!
//! Each has its own lines, since their shapes differ: the beacon API writes numbers as text and
//! names an epoch where lean names a slot. Every slot is a checkpoint here, so an epoch is the
//! number of a slot. There is no state besides the chain, so `state` is 32 zero bytes.

use super::event::Event;
use super::waiting::Waiting;
use alphorn_proto::horn::CollectionView;
use alphorn_proto::wire::Checkpoint;
use alphorn_types::trace::{Lines, RingLimits};
use alphorn_types::{Bitfield, Layout};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};

/// Topics of the beacon API that are sent.
pub const BEACON_TOPICS: [&str; 4] = ["head", "block", ATTESTATION, "finalized_checkpoint"];
/// Topics of lean that are sent.
pub const LEAN_TOPICS: [&str; 4] = [
    "head",
    "block",
    "justified_checkpoint",
    "finalized_checkpoint",
];
/// The only high-rate topic.
pub(crate) const ATTESTATION: &str = "attestation";

/// How much is kept for clients that reconnect.
pub(crate) const LIMITS: RingLimits = RingLimits {
    high_lines_max: 65_536,
    high_bytes_max: 16 << 20,
    low_lines_max: 4_096,
    low_bytes_max: 4 << 20,
    snapshot_high_max: 0,
};

/// Placeholder for a state.
const NO_STATE: &str = "0x0000000000000000000000000000000000000000000000000000000000000000";

/// The lines of both interfaces, shared with their readers.
#[derive(Clone, Debug)]
pub struct Streams {
    /// Lines of the beacon API.
    pub beacon: Arc<Mutex<Lines>>,
    /// Lines of lean.
    pub lean: Arc<Mutex<Lines>>,
    waiting_beacon: Waiting<Written>,
    waiting_lean: Waiting<Written>,
}

/// A line to be written: its topic, its text, and whether it is of the high rate.
#[derive(Clone, Debug)]
struct Written {
    topic: &'static str,
    text: String,
    is_high: bool,
}

impl Streams {
    /// Empty streams. `instance` distinguishes this run of the node from others.
    pub(crate) fn new(instance: u64) -> Self {
        let lines = || Arc::new(Mutex::new(Lines::new(instance, LIMITS)));
        Streams {
            beacon: lines(),
            lean: lines(),
            waiting_beacon: Waiting::default(),
            waiting_lean: Waiting::default(),
        }
    }

    fn beacon(&mut self, topic: &'static str, value: &Value) {
        let line = Written {
            topic,
            text: value.to_string(),
            is_high: topic == ATTESTATION,
        };
        self.waiting_beacon.put(&self.beacon, line, write);
    }

    fn lean(&mut self, topic: &'static str, value: &Value) {
        let line = Written {
            topic,
            text: value.to_string(),
            is_high: false,
        };
        self.waiting_lean.put(&self.lean, line, write);
    }

    /// Writes what was held back for readers.
    pub(super) fn catch_up(&mut self) {
        self.waiting_beacon.catch_up(&self.beacon, write);
        self.waiting_lean.catch_up(&self.lean, write);
    }

    /// Records an event, also for the readers of clones.
    pub(crate) fn record(&mut self, event: &Event<'_>, layout: &Layout) {
        match *event {
            Event::BlockAccepted { slot, root } => {
                let (slot, block) = (slot.0, hex(root));
                self.lean("block", &json!({"slot": slot, "block": block}));
                let slot = slot.to_string();
                let beacon = json!({"slot": slot, "block": block, "execution_optimistic": false});
                self.beacon("block", &beacon);
            }
            Event::Head {
                head,
                is_other_epoch,
                ..
            } => {
                self.lean("head", &lean_checkpoint(&head));
                let beacon = json!({
                    "slot": head.slot.0.to_string(), "block": hex(&head.root), "state": NO_STATE,
                    "epoch_transition": is_other_epoch, "execution_optimistic": false,
                });
                self.beacon("head", &beacon);
            }
            Event::Justified(checkpoint) => {
                self.lean("justified_checkpoint", &lean_checkpoint(checkpoint));
            }
            Event::Finalised(checkpoint) => {
                self.lean("finalized_checkpoint", &lean_checkpoint(checkpoint));
                let beacon = json!({
                    "block": hex(&checkpoint.root), "state": NO_STATE,
                    "epoch": checkpoint.slot.0.to_string(), "execution_optimistic": false,
                });
                self.beacon("finalized_checkpoint", &beacon);
            }
            Event::Collection(one) => self.attestation(one, layout.committees()),
            _ => {}
        }
    }

    /// A collection was verified: the votes of a committee, as a block would carry them. Its
    /// evidence is not a signature of the beacon chain and is omitted.
    fn attestation(&mut self, one: &CollectionView, committees: u16) {
        let checkpoint =
            |at: &Checkpoint| json!({"epoch": at.slot.0.to_string(), "root": hex(&at.root)});
        let mut committee_bits = Bitfield::new(usize::from(committees));
        if one.committee < committees {
            committee_bits.set(usize::from(one.committee));
        }
        let value = json!({
            "aggregation_bits": hex(&bitlist(&one.support.signers())),
            "committee_bits": hex(&committee_bits.to_bytes()),
            "data": {
                "slot": one.vote.slot.0.to_string(),
                "index": "0",
                "beacon_block_root": hex(&one.vote.head),
                "source": checkpoint(&one.vote.source),
                "target": checkpoint(&one.vote.target),
            },
        });
        self.beacon(ATTESTATION, &value);
    }
}

fn lean_checkpoint(checkpoint: &Checkpoint) -> Value {
    json!({"slot": checkpoint.slot.0, "block": hex(&checkpoint.root), "state": NO_STATE})
}

/// The bits followed by a one: the encoding of a bit list in SSZ (consensus-specs,
/// simple-serialize.md).
#[must_use]
pub fn bitlist(bits: &Bitfield) -> Vec<u8> {
    let (mut bytes, len) = (bits.to_bytes(), bits.len());
    bytes.resize(len / 8 + 1, 0);
    bytes[len / 8] |= 1 << (len % 8);
    bytes
}

/// Bytes in the form of the interfaces, prefixed with `0x`.
pub(crate) fn hex(bytes: &[u8]) -> String {
    format!("0x{}", hex::encode(bytes))
}

fn write(lines: &mut Lines, line: Written) {
    lines.push(line.topic, &line.text, line.is_high);
}

#[cfg(test)]
mod tests {
    use super::*;
    use alphorn_proto::wire::Vote;
    use alphorn_types::{Slot, Support, Validator};

    fn told(lines: &Mutex<Lines>) -> Vec<(&'static str, Value)> {
        let batch = lines.lock().unwrap().after(0, 100);
        let read = |line: &alphorn_types::trace::Line| {
            (line.kind, serde_json::from_str(&line.json).unwrap())
        };
        batch.lines.iter().map(read).collect()
    }

    #[test]
    fn a_bit_list_ends_with_a_one() {
        let mut bits = Bitfield::new(9);
        assert_eq!(bitlist(&bits), [0, 0b10]);
        bits.set(0);
        bits.set(8);
        assert_eq!(bitlist(&bits), [1, 0b11]);
        assert_eq!(bitlist(&Bitfield::new(8)), [0, 1]);
        assert_eq!(bitlist(&Bitfield::new(0)), [1]);
    }

    #[test]
    fn numbers_are_text_for_the_beacon_api_and_numbers_for_lean() {
        let mut streams = Streams::new(1);
        let checkpoint = Checkpoint {
            slot: Slot(7),
            root: [0xab; 32],
        };
        let head = Checkpoint {
            slot: Slot(9),
            root: [1; 32],
        };
        let layout = Layout::new(48, 2, 2).unwrap();
        for event in [
            Event::BlockAccepted {
                slot: head.slot,
                root: &head.root,
            },
            Event::Head {
                head,
                is_other_epoch: true,
                given_up: None,
            },
            Event::Justified(&checkpoint),
            Event::Finalised(&checkpoint),
        ] {
            streams.record(&event, &layout);
        }
        let root = |byte: &str| format!("0x{}", byte.repeat(32));
        let expected = json!({
            "block": root("ab"), "state": NO_STATE, "epoch": "7", "execution_optimistic": false,
        });
        let beacon = told(&streams.beacon);
        assert_eq!(beacon[2], ("finalized_checkpoint", expected));
        assert_eq!(beacon[0].1["slot"], "9");
        assert_eq!(beacon[1].1["epoch_transition"], true);
        let lean = told(&streams.lean);
        let expected = json!({"slot": 9, "block": root("01")});
        assert_eq!(lean[0], ("block", expected));
        let expected = json!({"slot": 7, "block": root("ab"), "state": NO_STATE});
        assert_eq!(lean[2], ("justified_checkpoint", expected.clone()));
        assert_eq!(lean[3], ("finalized_checkpoint", expected));
    }

    #[test]
    fn a_collection_is_an_attestation_of_its_committee() {
        let mut streams = Streams::new(1);
        let mut signers = Bitfield::new(12);
        [0, 3, 11].into_iter().for_each(|at| signers.set(at));
        let vote = Vote {
            slot: Slot(4),
            ..Vote::default()
        };
        let one = CollectionView {
            committee: 1,
            sender: Validator(0),
            vote,
            support: Arc::new(Support::from_bits(signers)),
            bytes: 100,
        };
        streams.attestation(&one, 2);
        let (topic, value) = told(&streams.beacon).remove(0);
        assert_eq!(topic, ATTESTATION);
        assert_eq!(value["aggregation_bits"], "0x0918");
        assert_eq!(value["committee_bits"], "0x02");
        assert_eq!(value["data"]["slot"], "4");
        assert_eq!(value["data"]["source"]["epoch"], "0");
        assert!(told(&streams.lean).is_empty());
    }
}
