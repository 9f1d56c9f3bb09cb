//! The target of the state from which a chain begins.

use alphorn_proto::chain::{Anchor, Chain};
use alphorn_proto::wire::{Entry, Header};
use alphorn_scheme::Evidence;
use alphorn_types::{Bitfield, Layout, Slot, Support};
use std::sync::Arc;

const NETWORK: [u8; 32] = [7; 32];

fn layout() -> Layout {
    Layout::new(60, 3, 1).expect("20 validators a committee fill its cell")
}

/// Decodes an anchor; what is accepted must encode to itself.
///
/// # Panics
///
/// If an accepted anchor has a second encoding.
pub fn chain_anchor(data: &[u8]) -> bool {
    let Ok(anchor) = Anchor::decode(data, &NETWORK, &layout()) else {
        return false;
    };
    assert_eq!(anchor.encode().as_deref(), Some(data));
    true
}

/// Genesis, and chains in which all, most and few vote.
pub(crate) fn chain_anchor_seeds() -> Vec<Vec<u8>> {
    [(0, 1), (3, 1), (50, 1), (50, 7), (50, 30)]
        .map(|(slots, one_in)| grown(slots, one_in))
        .into()
}

/// A chain of so many slots; in every third of them all vote, in the others one in so many.
fn grown(slots: u64, one_in: usize) -> Vec<u8> {
    let layout = layout();
    let mut chain = Chain::new(NETWORK, layout, 8);
    let mut parent = chain.head();
    for slot in 1..=slots {
        let vote = chain
            .vote(Slot(slot - 1), &parent)
            .expect("the head is known");
        let entry = |committee| {
            let mut signers = Bitfield::new(20);
            let step = if slot % 4 < 3 { 1 } else { one_in };
            (0..20).step_by(step).for_each(|seat| signers.set(seat));
            Entry {
                vote,
                committee,
                evidence: Evidence {
                    support: Arc::new(Support::from_bits(signers)),
                    bytes: Arc::from([]),
                },
            }
        };
        let header = Header {
            slot: Slot(slot),
            proposer: chain.proposer(Slot(slot)),
            parent,
            body: [1; 32],
        };
        let entries: Vec<Entry> = (0..3).map(entry).collect();
        chain.insert(header, &entries).expect("it fits");
        parent = header.root();
    }
    chain.anchor(NETWORK).encode().expect("it is small")
}
