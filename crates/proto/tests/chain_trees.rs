//! The hand-made trees of `vectors/chain`.

use alphorn_proto::chain::Chain;
use alphorn_proto::wire::{Checkpoint, Entry, Header, Root, Vote};
use alphorn_scheme::Evidence;
use alphorn_types::{Assignment, Bitfield, Epoch, Layout, Slot, Support, Validator};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::sync::Arc;

struct World {
    layout: Layout,
    chain: Chain,
    roots: BTreeMap<String, Root>,
}

/// A vote as the table writes it.
struct Written {
    head: String,
    slot: Slot,
    positions: Bitfield,
    wrong_source: bool,
}

impl World {
    fn new(validators: u32, committees: u16) -> Self {
        let layout = Layout::new(validators, committees, 1).unwrap();
        let chain = Chain::new([7; 32], layout, 32);
        let genesis = chain.head();
        Self {
            layout,
            chain,
            roots: BTreeMap::from([("g".into(), genesis)]),
        }
    }

    /// `head@slot:positions`, with `~` for a wrong source.
    fn parse(&self, text: &str) -> Written {
        let (text, wrong_source) = match text.strip_suffix('~') {
            Some(text) => (text, true),
            None => (text, false),
        };
        let (head, rest) = text.split_once('@').unwrap();
        let (slot, ranges) = rest.split_once(':').unwrap();
        let mut positions = Bitfield::new(self.layout.validators() as usize);
        for range in ranges.split(',').filter(|range| !range.is_empty()) {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            for position in first.parse().unwrap()..=last.parse().unwrap() {
                positions.set(position);
            }
        }
        Written {
            head: head.into(),
            slot: Slot(slot.parse().unwrap()),
            positions,
            wrong_source,
        }
    }

    fn vote(&self, written: &Written) -> Vote {
        let mut vote = self
            .chain
            .vote(written.slot, &self.roots[&written.head])
            .unwrap();
        vote.source.root[0] ^= u8::from(written.wrong_source);
        vote
    }

    fn entries(&self, text: &str) -> Vec<Entry> {
        let written = self.parse(text);
        let committees = (0..self.layout.committees()).filter_map(|committee| {
            let range = self.layout.committee_range(committee);
            let signers = written
                .positions
                .extract(range.start as usize..range.end as usize);
            let wanted = signers.any() || written.positions.none();
            wanted.then(|| Entry {
                vote: self.vote(&written),
                committee,
                evidence: Evidence {
                    support: Arc::new(Support::from_bits(signers)),
                    bytes: Arc::from([]),
                },
            })
        });
        committees.collect()
    }

    /// `name parent slot entries... !reason`; the name decides the body.
    fn insert(&mut self, text: &str) {
        let mut words: Vec<&str> = text.split_whitespace().collect();
        let refused = words.last().and_then(|word| word.strip_prefix('!'));
        words.truncate(words.len() - usize::from(refused.is_some()));
        let slot: u64 = words[2].trim_end_matches('?').parse().unwrap();
        let mut proposer = self.chain.proposer(Slot(slot));
        if words[2].ends_with('?') {
            proposer = Validator((proposer.0 + 1) % self.layout.validators());
        }
        let header = Header {
            slot: Slot(slot),
            proposer,
            parent: self.roots.get(words[1]).copied().unwrap_or([0xee; 32]),
            body: Sha256::digest(words[0]).into(),
        };
        let entries: Vec<Entry> = words[3..]
            .iter()
            .flat_map(|word| self.entries(word))
            .collect();
        let result = self.chain.insert(header, &entries);
        assert_eq!(result.err().map(|reject| reject.name()), refused, "{text}");
        if refused.is_none() {
            self.roots.insert(words[0].into(), header.root());
        }
    }

    fn see(&mut self, text: &str) {
        let written = self.parse(text);
        let vote = self.vote(&written);
        let members = (0..self.layout.validators()).collect();
        let assignment = Assignment::new(Epoch(0), self.layout, members).unwrap();
        for committee in 0..self.layout.committees() {
            let range = self.layout.committee_range(committee);
            let signers = written
                .positions
                .extract(range.start as usize..range.end as usize);
            let all = signers.count_ones() as u32;
            let seen = self
                .chain
                .add_votes(&vote, &assignment, committee, &signers);
            assert_eq!(seen, Ok(all), "{text}");
        }
    }

    fn name(&self, root: &Root) -> &str {
        let named = self.roots.iter().find(|(_, known)| *known == root);
        named.map_or("unknown", |(name, _)| name)
    }

    fn checkpoint(&self, checkpoint: Checkpoint) -> String {
        format!("{}@{}", self.name(&checkpoint.root), checkpoint.slot)
    }
}

fn integer(case: &toml::Table, key: &str, default: i64) -> i64 {
    case.get(key)
        .map_or(default, |value| value.as_integer().unwrap())
}

fn strings<'a>(case: &'a toml::Table, key: &str) -> Vec<&'a str> {
    let list = case.get(key).map(|value| value.as_array().unwrap());
    list.into_iter()
        .flatten()
        .map(|value| value.as_str().unwrap())
        .collect()
}

#[test]
fn trees_have_the_heads_and_checkpoints_worked_out_by_hand() {
    let table: toml::Table = include_str!("../../../vectors/chain/trees.toml")
        .parse()
        .unwrap();
    let cases = table["case"].as_array().unwrap();
    assert!(cases.len() >= 30);
    for case in cases {
        let case = case.as_table().unwrap();
        let name = case["name"].as_str().unwrap();
        let mut world = World::new(
            integer(case, "validators", 9) as u32,
            integer(case, "committees", 1) as u16,
        );
        for block in strings(case, "blocks") {
            world.insert(block);
        }
        // Votes are seen in the slot after their own at the latest.
        let slot = Slot(integer(case, "slot", 0) as u64);
        let mut votes = strings(case, "votes");
        votes.sort_by_key(|vote| world.parse(vote).slot);
        for vote in votes {
            world.chain.set_slot(world.parse(vote).slot);
            world.see(vote);
        }
        world.chain.set_slot(slot);

        let head = case["head"].as_str().unwrap();
        let head = match head.strip_prefix("greater ") {
            Some(tie) => tie
                .split(' ')
                .max_by_key(|name| world.roots[*name])
                .unwrap(),
            None => head,
        };
        assert_eq!(world.name(&world.chain.head()), head, "head: {name}");
        let expected = |key| case.get(key).map_or("g@0", |value| value.as_str().unwrap());
        let justified = world.checkpoint(world.chain.justified());
        assert_eq!(justified, expected("justified"), "justified: {name}");
        let finalised = world.checkpoint(world.chain.finalised());
        assert_eq!(finalised, expected("finalised"), "finalised: {name}");
    }
}
