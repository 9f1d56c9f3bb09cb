//! Chains that start at the final block of another.

use super::*;
use crate::chain::anchor::{ANCHOR_MAGIC, Anchor, AnchorError, TRUNK_MAX};
use alphorn_types::DecodeError;
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

const NETWORK: [u8; 32] = [7; 32];

fn layout() -> Layout {
    Layout::new(24, 3, 1).unwrap()
}

fn new_chain() -> Chain {
    Chain::new(NETWORK, layout(), 8)
}

/// A chain in which some slots are empty, votes are included late and twice, and not all validators
/// vote.
struct Grown {
    chain: Chain,
    rng: ChaCha20Rng,
    slot: u64,
    /// Votes of slots with the signers not yet included in a block.
    open: Vec<(Vote, [Bitfield; 3])>,
}

impl Grown {
    fn new(seed: u64) -> Self {
        Self {
            chain: new_chain(),
            rng: ChaCha20Rng::seed_from_u64(seed),
            slot: 0,
            open: Vec::new(),
        }
    }

    fn draw(&mut self, below: u64) -> u64 {
        self.rng.next_u64() % below
    }

    /// Advances one slot: possibly a block with some of the open votes, and new votes.
    fn step(&mut self) -> Option<(Header, Vec<Entry>)> {
        self.slot += 1;
        let slot = Slot(self.slot);
        let parent = self.chain.head();
        let made = (self.draw(8) > 0).then(|| {
            let mut entries = Vec::new();
            let open = std::mem::take(&mut self.open);
            for (vote, committees) in open {
                if self.draw(4) == 0 || vote.slot.0 + INCLUSION_SLOTS < slot.0 {
                    self.open.push((vote, committees));
                    continue;
                }
                for (committee, signers) in (0..).zip(committees) {
                    if signers.any() && self.chain.check_inclusion(&vote, slot, &parent).is_ok() {
                        entries.push(entry(vote, committee, signers));
                    }
                }
            }
            let header = header(&self.chain, parent, self.slot, 0);
            (header, entries)
        });
        if let Some((header, entries)) = &made {
            self.chain.insert(*header, entries).unwrap();
        }
        let head = self.chain.head();
        let vote = self.chain.vote(slot, &head).unwrap();
        let mut signers = [(); 3].map(|()| Bitfield::new(8));
        for set in &mut signers {
            (0..8)
                .filter(|_| !self.rng.next_u64().is_multiple_of(10))
                .for_each(|i| set.set(i));
        }
        self.open.push((vote, signers));
        made
    }
}

fn begun(bytes: &[u8]) -> Chain {
    let anchor = Anchor::decode(bytes, &NETWORK, &layout()).unwrap();
    assert_eq!(anchor.encode().as_deref(), Some(bytes), "one encoding");
    new_chain().beginning_at(anchor)
}

/// Both chains give the same results, as far as they have the same blocks.
fn agree(a: &Chain, b: &Chain, slot: u64) {
    assert_eq!(a.head(), b.head());
    assert_eq!(a.finalised(), b.finalised());
    assert_eq!(a.justified(), b.justified());
    let head = a.head();
    for epoch in [slot / 8, slot / 8 + 1] {
        assert_eq!(a.mix(Epoch(epoch), &head), b.mix(Epoch(epoch), &head));
    }
    assert_eq!(a.vote(Slot(slot), &head), b.vote(Slot(slot), &head));
    for committee in 0..3 {
        for slot in slot.saturating_sub(INCLUSION_SLOTS)..slot {
            let credited = |chain: &Chain| chain.credited(&head, Slot(slot), committee);
            assert_eq!(credited(a), credited(b), "slot {slot}");
        }
    }
}

#[test]
fn a_chain_that_begins_at_an_anchor_comes_to_the_same_verdicts() {
    let mut starts = 0;
    for seed in 0..20 {
        let mut grown = Grown::new(seed);
        let mut blocks: Vec<(Header, Vec<Entry>)> = Vec::new();
        let mut others: Vec<Chain> = Vec::new();
        let mut anchors = BTreeSet::new();
        while grown.slot < 300 {
            let made = grown.step();
            if let Some((header, entries)) = made {
                for other in &mut others {
                    other.insert(header, &entries).unwrap();
                }
                blocks.push((header, entries));
            }
            let slot = grown.slot;
            for other in &others {
                agree(&grown.chain, other, slot);
                // Chains with the same final block have the same anchor, byte for byte.
                let encoded = |chain: &Chain| chain.anchor(NETWORK).encode();
                assert_eq!(encoded(&grown.chain), encoded(other));
            }
            if grown.draw(30) == 0 {
                let anchor = grown.chain.anchor(NETWORK);
                assert!(anchor.trunk.len() <= TRUNK_MAX);
                let bytes = anchor.encode().unwrap();
                let mut other = begun(&bytes);
                let later = blocks
                    .iter()
                    .filter(|(header, _)| header.slot > anchor.base_slot());
                for (header, entries) in later {
                    other.insert(*header, entries).unwrap();
                }
                anchors.insert(anchor.finalised());
                others.push(other);
                others.truncate(4);
            }
        }
        starts += anchors.len();
        assert!(grown.chain.finalised().slot.0 > 100, "seed {seed}");
    }
    assert!(starts > 80, "at {starts} final blocks");
}

/// Blocks without votes, until those between the final block and a later one are dropped.
#[test]
fn a_chain_that_gave_up_its_past_goes_on_from_its_base() {
    let mut chain = full(60);
    chain.room.blocks_max = 300;
    let mut parent = chain.head();
    for slot in 61..=700 {
        parent = grow(&mut chain, parent, slot, &[]);
    }
    let anchor = chain.anchor(NETWORK);
    assert!(anchor.base_slot() > Slot(300), "{}", anchor.base_slot());
    assert_eq!(anchor.trunk.len(), TRUNK_MAX);
    let bytes = anchor.encode().unwrap();
    let layout = Layout::new(N, 1, 1).unwrap();
    let anchor = Anchor::decode(&bytes, &NETWORK, &layout).unwrap();
    let base = anchor.base_slot();
    let mut other = super::chain(N, 32).beginning_at(anchor);
    let ancestors = chain.ancestors(&parent);
    let mut later: Vec<Header> = ancestors.map(|(_, header)| *header).collect();
    later.retain(|header| header.slot > base);
    for header in later.into_iter().rev() {
        other.insert(header, &[]).unwrap();
    }
    for slot in 701..704 {
        let vote = chain.vote(Slot(slot - 1), &parent).unwrap();
        let entries = [entry(vote, 0, Bitfield::ones(N as usize))];
        other
            .insert(header(&chain, parent, slot, 0), &entries)
            .unwrap();
        parent = grow(&mut chain, parent, slot, &entries);
        assert_eq!(chain.finalised(), other.finalised());
    }
    assert_eq!(chain.finalised().slot, Slot(701));
    let encoded = |chain: &Chain| chain.anchor(NETWORK).encode();
    assert_eq!(encoded(&chain), encoded(&other));
}

#[test]
fn bytes_that_are_no_anchor_of_the_network_are_refused() {
    let mut grown = Grown::new(1);
    (0..100).for_each(|_| drop(grown.step()));
    let bytes = grown.chain.anchor(NETWORK).encode().unwrap();
    let decode = |bytes: &[u8]| Anchor::decode(bytes, &NETWORK, &layout()).map(|_| ());
    assert_eq!(decode(&bytes), Ok(()));
    assert_eq!(decode(&[]), Err(AnchorError::Magic));
    assert!(
        decode(&[&bytes[..], &[0]].concat()).is_err(),
        "a byte behind"
    );
    assert!(
        (0..bytes.len()).all(|len| decode(&bytes[..len]).is_err()),
        "cut"
    );
    let other = Anchor::decode(&bytes, &[8; 32], &layout()).map(|_| ());
    let (found, own) = ([7; 4], [8; 4]);
    assert_eq!(other, Err(AnchorError::Network { found, own }));
    let few = Layout::new(12, 3, 1).unwrap();
    assert!(
        Anchor::decode(&bytes, &NETWORK, &few).is_err(),
        "other committees"
    );
    // Changing any single bit gives an error or a different anchor with exactly one encoding.
    let mut changed = bytes.clone();
    for at in 0..bytes.len() {
        changed[at] ^= 1 << (at % 8);
        if let Ok(anchor) = Anchor::decode(&changed, &NETWORK, &layout()) {
            assert_eq!(anchor.encode().as_deref(), Some(&changed[..]), "byte {at}");
        }
        changed[at] = bytes[at];
    }
    // A final block that is not one of them.
    let mut changed = bytes.clone();
    changed[ANCHOR_MAGIC.len() + 32 + 8] ^= 1;
    assert!(matches!(
        decode(&changed),
        Err(AnchorError::Inconsistent {
            what: "the final block is none of them",
            ..
        })
    ));
    // More blocks than the maximum, detected before reading any of them.
    let mut changed = bytes.clone();
    changed[ANCHOR_MAGIC.len() + 72] = 255;
    assert!(matches!(
        decode(&changed),
        Err(AnchorError::Decode(DecodeError::TooLong { .. }))
    ));
    // A changed block has a different root, so it is not the parent of the next.
    let mut changed = bytes;
    changed[ANCHOR_MAGIC.len() + 73 + 50] ^= 1;
    assert!(matches!(
        decode(&changed),
        Err(AnchorError::Inconsistent {
            index: 1,
            what: "it does not stand on the one before"
        })
    ));
}

#[test]
fn a_machine_that_has_begun_begins_nowhere_else() {
    use crate::contract::{Input, Protocol};
    use crate::horn::{Config, Horn, Local, SchemeInfo};
    use alphorn_scheme::model::{CostTable, Model};
    let layout = layout();
    let info = SchemeInfo::of(&Model::new(CostTable::example()).unwrap(), &layout);
    let config = Config::new(layout, &info);
    let mut horn = Horn::new(config, info, Local::observer(&layout)).unwrap();
    let bytes = horn.anchor().encode().unwrap();
    assert_eq!(horn.begin_at(&bytes), Ok(()));
    horn.handle(alphorn_types::Time::ZERO, Input::Deadline);
    assert_eq!(horn.begin_at(&bytes), Err(AnchorError::Begun));
}
