//! A wire format changes only together with its line in `conformance.toml`: every encoding and
//! every digest of fixed content, against its pinned SHA-256.
//!
//! A failure prints the lines that the file would need. Changing them is a change of protocol.
//!
//! What the encodings say stands in `vectors/formats`, for decoders that are not ours (`formats.rs`).

#[path = "conformance/formats.rs"]
#[expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "vectors are files, and another decoder is another process"
)]
mod formats;

use alphorn_broadcast::rlnc::{
    Coding as Code, Cut, Distribution, Generators, Header as CodedHeader, Published, Ristretto, Rs,
    Strategy, Subject,
};
use alphorn_broadcast::{Announce, Message as Coded, Ranks, ShardSet, Want};
use alphorn_exec::Backend;
use alphorn_proto::chain::Chain;
use alphorn_proto::horn::shuffle::Shuffle;
use alphorn_proto::horn::{committee, selection};
use alphorn_proto::wire::{
    Aggregate, Block, Body, Checkpoint, Context, Entry, Header, NetworkDigest, Topic, Vote,
    VoteMsg, WireFormat, digest, no_references,
};
use alphorn_scheme::{Bytes, Evidence, EvidenceLength};
use alphorn_types::support_code::{CellBounds, Coding, Reference, SupportCode};
use alphorn_types::{Bitfield, Cell, Epoch, Layout, Slot, Support, Unit, Validator};
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::sync::Arc;

const NETWORK: NetworkDigest = NetworkDigest([0xde, 0xad, 0xbe, 0xef]);

/// Lines of the file: name, then length and SHA-256.
#[derive(Default)]
struct Lines(BTreeMap<String, (usize, String)>);

impl Lines {
    fn add(&mut self, name: &str, bytes: &[u8]) {
        let line = (bytes.len(), hex::encode(Sha256::digest(bytes)));
        assert!(self.0.insert(name.into(), line).is_none(), "{name} twice");
    }
}

/// `count` bytes that depend on `label` alone.
fn fill(label: &str, count: usize) -> Bytes {
    let block = |i: u32| Sha256::digest([label.as_bytes(), &i.to_le_bytes()].concat());
    (0..).flat_map(block).take(count).collect()
}

fn root(label: &str) -> [u8; 32] {
    fill(label, 32)[..].try_into().unwrap()
}

fn vote() -> Vote {
    let checkpoint = |slot, label| Checkpoint {
        slot: Slot(slot),
        root: root(label),
    };
    Vote {
        slot: Slot(0x0102_0304_0506_0708),
        head: root("head"),
        source: checkpoint(77, "source"),
        target: checkpoint(0x0102_0304_0506_0708, "head"),
    }
}

/// About 95 of 100 positions sign; of these, one in seven up to `max` times.
fn support(n: usize, max: u8) -> Support {
    let multiplicities: Vec<u8> = (0..n)
        .map(|i| match (i * i + 31 * i) % 101 {
            0..5 => 0,
            k if k % 7 == 0 => 1 + (k / 7) as u8 % max,
            _ => 1,
        })
        .collect();
    Support::from_multiplicities(&multiplicities).unwrap()
}

/// Everything of fixed length, as with one point a signature.
fn points() -> WireFormat {
    WireFormat {
        layout: Layout::new(1000, 2, 4).unwrap(),
        signature_bytes: 96,
        duty_signature_bytes: 96,
        selection_proof_bytes: Some(96),
        evidence: vec![EvidenceLength::Fixed(96); 2],
        multiplicity_max: 3,
        coding: Coding::Rice,
        context: Context::None,
        bundle: None,
    }
}

/// Evidence of any length, other keys for duties, no proofs of selection.
fn lists() -> WireFormat {
    WireFormat {
        signature_bytes: 666,
        duty_signature_bytes: 700,
        selection_proof_bytes: None,
        evidence: vec![EvidenceLength::Max(100_000), EvidenceLength::Max(1_000_000)],
        multiplicity_max: 1,
        coding: Coding::Raw,
        ..points()
    }
}

/// Supports that refer to the chain.
fn chained() -> WireFormat {
    WireFormat {
        context: Context::Chain,
        ..points()
    }
}

/// One piece of evidence for all entries of a block.
fn bundled() -> WireFormat {
    WireFormat {
        bundle: Some(EvidenceLength::Max(200_000)),
        ..lists()
    }
}

/// Three levels.
fn deep() -> WireFormat {
    WireFormat {
        layout: Layout::with_fan_out(1000, 2, &[2, 2]).unwrap(),
        evidence: vec![EvidenceLength::Fixed(96); 3],
        ..points()
    }
}

fn reference(_: &Vote, committee: u16) -> Option<Bitfield> {
    let n = points().layout.committee_len(committee) as usize;
    let mut bits = Bitfield::ones(n);
    (0..n).step_by(20).for_each(|i| bits.clear(i));
    Some(bits)
}

fn evidence(format: &WireFormat, n: u32, max: u8, length: EvidenceLength) -> Evidence {
    let bytes = match length {
        EvidenceLength::Fixed(bytes) => bytes,
        EvidenceLength::Max(_) => 3 * format.signature_bytes,
    };
    Evidence {
        support: Arc::new(support(n as usize, max)),
        bytes: fill("evidence", bytes),
    }
}

fn duty(format: &WireFormat) -> Bytes {
    fill("duty", format.duty_signature_bytes)
}

fn vote_msg(format: &WireFormat) -> VoteMsg {
    VoteMsg {
        vote: vote(),
        validator: Validator(999),
        signature: fill("signature", format.signature_bytes),
    }
}

/// Evidence of the last unit of a level.
fn aggregate(format: &WireFormat, level: u8) -> Aggregate {
    let unit = format.layout.units(level).last().unwrap();
    let (n, max) = (format.layout.unit_len(unit), format.multiplicity(level));
    let proof = format.selection_proof_bytes;
    Aggregate {
        vote: vote(),
        unit,
        sender: Validator(513),
        proof: proof.map(|bytes| fill("proof", bytes)),
        evidence: evidence(format, n, max, format.evidence(level)),
        envelope: duty(format),
    }
}

fn body(format: &WireFormat) -> Body {
    let entry = Entry::from(&aggregate(format, format.layout.levels()));
    let (entry, bundle) = match format.bundle {
        None => (entry, Arc::from([])),
        Some(_) => (entry.bare(), fill("bundle", 1500)),
    };
    Body {
        entries: vec![entry.clone(), entry],
        bundle,
        filler: fill("filler", 1000),
    }
}

fn empty_body() -> Body {
    Body {
        entries: Vec::new(),
        bundle: Arc::from([]),
        filler: Arc::from([]),
    }
}

fn block(format: &WireFormat, body: Body) -> Block {
    let encoding = body.encode(format, &reference).unwrap();
    Block {
        header: Header {
            slot: Slot(12),
            proposer: Validator(12),
            parent: root("parent"),
            body: digest::body_digest(&encoding),
        },
        signature: duty(format),
        body,
    }
}

fn messages(lines: &mut Lines, name: &str, format: &WireFormat) {
    let vote_msg = vote_msg(format);
    lines.add(&format!("vote.{name}"), &vote_msg.encode(format));
    for level in 1..=format.layout.levels() {
        let aggregate = aggregate(format, level);
        let bytes = aggregate.encode(format, &reference).unwrap();
        lines.add(&format!("aggregate.{level}.{name}"), &bytes);
        let message = digest::aggregate_message(NETWORK, &aggregate, format);
        lines.add(&format!("aggregate_message.{level}.{name}"), &message);
    }
    let collection = aggregate(format, format.layout.levels());
    let entry = Entry::from(&collection);
    lines.add(&format!("entry_digest.{name}"), &entry.digest(format));
    let block = block(format, body(format));
    lines.add(
        &format!("block.{name}"),
        &block.encode(format, &reference).unwrap(),
    );
    lines.add(&format!("block_root.{name}"), &block.header.root());
    let bytes = empty_body().encode(format, &no_references).unwrap();
    lines.add(&format!("body_empty.{name}"), &bytes);
}

fn digests(lines: &mut Lines) {
    let seed = digest::epoch_seed(Epoch(5), &root("mix"));
    let slot = Slot(160);
    lines.add("vote_encoding", &vote().encode());
    lines.add("vote_message", &digest::vote_message(NETWORK, &vote()));
    lines.add(
        "block_message",
        &digest::block_message(NETWORK, &root("block")),
    );
    lines.add("body_digest_of_nothing", &digest::body_digest(&[]));
    lines.add("epoch_mix", &digest::epoch_mix(Epoch(5), &root("block")));
    lines.add("epoch_seed", &seed);
    for level in [1, 2] {
        let message = digest::selection_message(NETWORK, &seed, level, slot);
        lines.add(&format!("selection_message.{level}"), &message);
        let rank = digest::rank_seed(&seed, slot, Unit::new(level, 1, 3));
        lines.add(&format!("rank_seed.{level}"), &rank);
    }
}

fn assignments(lines: &mut Lines) {
    let numbers = |list: &[u32]| -> Vec<u8> { list.iter().flat_map(|i| i.to_le_bytes()).collect() };
    let layout = points().layout;
    for n in [1, 2, 255, 256, 257, 2047] {
        let list = Shuffle::new(root("seed"), n).list();
        lines.add(&format!("shuffle.{n}"), &numbers(&list));
    }
    let members = committee::assignment(Epoch(5), &root("mix"), layout);
    lines.add("assignment", &numbers(members.members()));
    for unit in [Unit::new(1, 1, 3), layout.committee(1)] {
        let ranked = selection::ranked(&root("seed"), Slot(160), unit, &layout, 16);
        lines.add(&format!("ranked.{}", unit.level), &numbers(&ranked));
    }
    let ticket = selection::ticket(&fill("proof", 96));
    lines.add("ticket", &ticket.to_le_bytes());
}

fn support_codes(lines: &mut Lines) {
    for n in [0usize, 1, 8, 9, 191, 12_251, 32_768] {
        let one = CellBounds::one(n as u32);
        let mut half = Bitfield::new(n);
        (0..n / 2).for_each(|i| half.set(i));
        for (max, planes) in [(1, "bits"), (3, "planes")] {
            let support = support(n, max);
            for (name, coding, reference) in [
                ("raw", Coding::Raw, Reference::None),
                ("rice", Coding::Rice, Reference::None),
                ("rice_chain", Coding::Rice, Reference::Chain(&half)),
            ] {
                let code = SupportCode::new(coding, 3, &one, reference).encode(&support);
                lines.add(&format!("support.{name}.{planes}.{n}"), &code);
            }
        }
    }
    let layout = Layout::new(12_251 * 2, 2, 64).unwrap();
    let cells = CellBounds::committee(&layout, 1);
    let support = support(layout.committee_len(1) as usize, 15);
    let code = SupportCode::new(Coding::Rice, 15, &cells, Reference::None).encode(&support);
    lines.add("support.rice.cells", &code);
}

fn topics(lines: &mut Lines) {
    let cell = Cell {
        committee: 31,
        subcommittee: 63,
    };
    for topic in [
        Topic::Block,
        Topic::Collection,
        Topic::Aggregate {
            unit: Unit::new(2, 31, 0),
        },
        Topic::Vote { cell },
    ] {
        let name = topic.named(NETWORK).to_string();
        lines.add(&format!("topic.{}", topic.kind()), name.as_bytes());
    }
}

fn broadcasts(lines: &mut Lines) {
    let payload = fill("broadcast", 3000);
    let ristretto = Ristretto::new(Generators::new(Backend::Portable, 64), 4000);
    let two = Cut {
        generations: 2,
        ..Cut::rlnc(4)
    };
    broadcast(lines, "chunks", &ristretto, &payload, Cut::rlnc(4));
    broadcast(lines, "generations", &ristretto, &payload, two);
    broadcast(lines, "shards", &Rs::new(4000), &payload, Cut::rs(4));
}

fn broadcast<C: Code>(lines: &mut Lines, name: &str, code: &C, payload: &[u8], cut: Cut) {
    let (header, messages) = coded(code, payload, cut);
    for message in messages {
        let name = format!("broadcast.{name}.{}", message.kind());
        lines.add(&name, &message.encode(code, &header));
    }
}

/// Every message of a broadcast, with the factors of a seeded generator.
fn coded<C: Code>(code: &C, payload: &[u8], cut: Cut) -> (CodedHeader, Vec<Coded<C>>) {
    let subject = Subject {
        kind: 2,
        slot: 0x0102_0304_0506_0708,
        source: 0x0a0b_0c0d,
        index: 31,
    };
    let Published {
        header,
        commitments,
        decoder,
    } = code.publish(subject, payload, cut).unwrap();
    let id = header.id(&root("network"));
    let first = (code.commitment_lists(&header) == 1).then(|| commitments[0].clone());
    let announce = Announce::new(code, id, header.clone(), fill("auth", 96), first);
    let mut rng = ChaCha20Rng::seed_from_u64(7);
    let drawn = code.draw(
        &decoder,
        1 % header.generations,
        Distribution::Fresh,
        &mut rng,
    );
    let mut piece = drawn.unwrap();
    code.set_hop_and_rank(&mut piece, 2, 3);
    let (ranks, want) = if header.strategy == Strategy::Rs {
        let set = ShardSet::new(header.shards_total, [0, 2, 9]);
        (Ranks::Shards(set.clone()), Want::Shards(set))
    } else if header.generations == 1 {
        (Ranks::One(3), Want::Count(2))
    } else {
        (Ranks::Many([4, 1].into()), Want::Count(2))
    };
    let generation = header.generations - 1;
    let mut messages = vec![
        Coded::Header(Arc::new(announce)),
        Coded::piece(code, &header, id, piece),
        Coded::Rank { id, ranks },
        Coded::Done { id },
        Coded::Need {
            id,
            generation,
            want,
        },
    ];
    if header.generations > 1 {
        let commitments = commitments[1].clone();
        messages.push(Coded::commits(code, &header, id, 1, commitments));
    }
    (header, messages)
}

/// The state of a chain of forty slots, some of whose blocks include all votes of the slot before, some
/// most and some few of them.
fn anchors(lines: &mut Lines) {
    let layout = Layout::new(200, 4, 1).unwrap();
    let mut chain = Chain::new(root("network"), layout, 8);
    let mut parent = chain.head();
    for slot in 1..=40 {
        let vote = chain.vote(Slot(slot - 1), &parent).unwrap();
        let entry = |committee: u16| {
            let mut signers = Bitfield::ones(50);
            match slot % 8 {
                3 => signers.clear(usize::from(committee)),
                7 => signers = Bitfield::new(50),
                _ => {}
            }
            signers.set(49);
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
            body: root("body"),
        };
        let entries: Vec<Entry> = (0..4).map(entry).collect();
        chain.insert(header, &entries).unwrap();
        parent = header.root();
    }
    let anchor = chain.anchor(root("network"));
    assert_eq!(anchor.finalised().slot, Slot(36));
    lines.add("checkpoint", &anchor.encode().unwrap());
}

#[test]
fn encodings_are_the_pinned_ones() {
    let mut lines = Lines::default();
    messages(&mut lines, "points", &points());
    messages(&mut lines, "lists", &lists());
    messages(&mut lines, "chained", &chained());
    messages(&mut lines, "deep", &deep());
    messages(&mut lines, "bundled", &bundled());
    digests(&mut lines);
    assignments(&mut lines);
    support_codes(&mut lines);
    topics(&mut lines);
    broadcasts(&mut lines);
    anchors(&mut lines);

    let file: toml::Table = include_str!("../../../conformance.toml").parse().unwrap();
    let text = |pin: &toml::Value, key: &str| pin[key].as_str().unwrap().to_string();
    let pins = file["proto"].as_array().unwrap();
    let pinned: BTreeMap<String, (usize, String)> = pins
        .iter()
        .map(|pin| {
            let bytes = pin["bytes"].as_integer().unwrap() as usize;
            (text(pin, "name"), (bytes, text(pin, "sha256")))
        })
        .collect();
    assert_eq!(pinned.len(), pins.len(), "a name is pinned twice");
    if pinned != lines.0 {
        for (name, (bytes, sha256)) in &lines.0 {
            println!("    {{ name = \"{name}\", bytes = {bytes}, sha256 = \"{sha256}\" }},");
        }
    }
    for (name, line) in &lines.0 {
        assert_eq!(pinned.get(name), Some(line), "{name}");
    }
    for name in pinned.keys() {
        assert!(
            lines.0.contains_key(name),
            "{name} is pinned and no longer made"
        );
    }
}
