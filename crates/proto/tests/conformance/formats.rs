//! Vectors of the wire formats: what real encoders write and what it says, and bytes with one thing wrong
//! each, with the class of the check that refuses them. `tools/decode.py`, written from the chapter alone,
//! reads them all.

use super::*;
use alphorn_broadcast::rlnc::Id;
use alphorn_broadcast::{Known, Limits, Reject};
use alphorn_types::DecodeError;
use serde_json::{Value, json};
use std::process::Command;

#[path = "../../../../vectors/formats/writer.rs"]
mod writer;
use writer::{Vectors, folder, with};

/// The class of a refusal.
fn class(error: &DecodeError) -> &'static str {
    match error {
        DecodeError::Truncated { .. }
        | DecodeError::Trailing { .. }
        | DecodeError::TooLong { .. } => "length",
        DecodeError::UnknownTag { .. } => "tag",
        DecodeError::OutOfRange { .. } => "range",
        DecodeError::NotCanonical {
            what: "body of a block",
        } => "digest",
        DecodeError::NotCanonical { .. } => "canonical",
        DecodeError::Missing { .. } => "missing",
    }
}

fn length(length: EvidenceLength) -> Value {
    match length {
        EvidenceLength::Fixed(bytes) => json!(["fixed", bytes]),
        EvidenceLength::Max(bytes) => json!(["max", bytes]),
    }
}

/// What a decoder knows apart from the bytes.
fn given(format: &WireFormat) -> Value {
    let layout = &format.layout;
    let fan_out: Vec<u16> = (1..layout.levels())
        .map(|level| layout.units_of_committee(level) / layout.units_of_committee(level + 1))
        .collect();
    let references = (0..layout.committees()).map(|committee| reference(&vote(), committee));
    let references = references.map(|bits| bits.map(|bits| hex::encode(bits.to_bytes())));
    json!({
        "layout": {
            "validators": layout.validators(),
            "committees": layout.committees(),
            "fan_out": fan_out,
        },
        "signature_bytes": format.signature_bytes,
        "duty_signature_bytes": format.duty_signature_bytes,
        "selection_proof_bytes": format.selection_proof_bytes,
        "evidence": format.evidence.iter().map(|one| length(*one)).collect::<Vec<_>>(),
        "multiplicity_max": format.multiplicity_max,
        "coding": match format.coding { Coding::Rice => "rice", _ => "raw" },
        "context": match format.context { Context::Chain => "chain", Context::None => "none" },
        "references": references.collect::<Vec<_>>(),
        "bundle": format.bundle.map(length),
    })
}

fn says_vote(vote: &Vote) -> Value {
    let checkpoint = |one: &Checkpoint| json!({"slot": one.slot.0, "root": hex::encode(one.root)});
    json!({
        "slot": vote.slot.0,
        "head": hex::encode(vote.head),
        "source": checkpoint(&vote.source),
        "target": checkpoint(&vote.target),
    })
}

/// A digit for each position.
fn says_support(support: &Support) -> String {
    let mut digits = vec!['0'; support.len()];
    for (position, multiplicity) in support.iter() {
        digits[position] = char::from_digit(u32::from(multiplicity), 16).unwrap();
    }
    digits.into_iter().collect()
}

fn says_aggregate(one: &Aggregate) -> Value {
    json!({
        "vote": says_vote(&one.vote),
        "unit": [one.unit.level, one.unit.committee, one.unit.index],
        "sender": one.sender.0,
        "proof": one.proof.as_ref().map(hex::encode),
        "support": says_support(&one.evidence.support),
        "evidence": hex::encode(&one.evidence.bytes),
        "envelope": hex::encode(&one.envelope),
    })
}

fn says_block(one: &Block) -> Value {
    let entries = one.body.entries.iter().map(|entry| {
        json!({
            "vote": says_vote(&entry.vote),
            "committee": entry.committee,
            "support": says_support(&entry.evidence.support),
            "evidence": hex::encode(&entry.evidence.bytes),
        })
    });
    json!({
        "slot": one.header.slot.0,
        "proposer": one.header.proposer.0,
        "parent": hex::encode(one.header.parent),
        "body": hex::encode(one.header.body),
        "root": hex::encode(one.header.root()),
        "signature": hex::encode(&one.signature),
        "entries": entries.collect::<Vec<_>>(),
        "bundle": hex::encode(&one.body.bundle),
        "filler": hex::encode(&one.body.filler),
    })
}

/// Bytes with one thing wrong: the beginning that all messages share.
fn begun_wrongly(bytes: &[u8], kind: u8) -> Vec<(&'static str, Vec<u8>)> {
    vec![
        ("empty", Vec::new()),
        ("one byte short", bytes[..bytes.len() - 1].to_vec()),
        ("one byte more", [bytes, &[0]].concat()),
        ("version 2", with(bytes, 0, &[2])),
        ("another kind", with(bytes, 1, &[kind ^ 7])),
    ]
}

fn votes(out: &mut Vectors, name: &str, format: &WireFormat) {
    let (given, message) = (json!(name), vote_msg(format));
    let bytes = message.encode(format);
    let says = json!({
        "vote": says_vote(&message.vote),
        "validator": message.validator.0,
        "signature": hex::encode(&message.signature),
    });
    out.valid(&format!("vote.{name}"), "vote", &given, &bytes, says);
    let mut wrong = begun_wrongly(&bytes, 1);
    wrong.push((
        "validator 1000 of 1000",
        with(&bytes, 122, &1000_u32.to_le_bytes()),
    ));
    for (what, bytes) in wrong {
        let error = VoteMsg::decode(&bytes, format).expect_err(what);
        let name = format!("vote.{name}: {what}");
        out.refused(&name, "vote", &given, &bytes, class(&error));
    }
}

fn aggregates(out: &mut Vectors, name: &str, format: &WireFormat) {
    let given = json!(name);
    for level in 1..=format.layout.levels() {
        let message = aggregate(format, level);
        let bytes = message.encode(format, &reference).unwrap();
        let says = says_aggregate(&message);
        let name = format!("aggregate.{level}.{name}");
        out.valid(&name, "aggregate", &given, &bytes, says);
        let proof = format.selection_proof_bytes.unwrap_or(0);
        let support = 2 + 120 + 5 + 4 + proof;
        let levels = format.layout.levels();
        let mut wrong = begun_wrongly(&bytes, 2);
        wrong.extend([
            ("level 0", with(&bytes, 122, &[0])),
            ("a level too many", with(&bytes, 122, &[levels + 1])),
            ("committee 2 of 2", with(&bytes, 123, &[2, 0])),
            ("no such index", with(&bytes, 125, &[0xff, 0xff])),
            (
                "sender 1000 of 1000",
                with(&bytes, 127, &1000_u32.to_le_bytes()),
            ),
            ("info of the support", with(&bytes, support + 1, &[0x5f])),
        ]);
        for (what, bytes) in wrong {
            let error = Aggregate::decode(&bytes, format, &reference).expect_err(what);
            let name = format!("{name}: {what}");
            out.refused(&name, "aggregate", &given, &bytes, class(&error));
        }
    }
}

fn blocks(out: &mut Vectors, name: &str, format: &WireFormat) {
    let given = json!(name);
    for (which, body) in [("block", body(format)), ("block_empty", empty_body())] {
        let message = block(format, body);
        let bytes = message.encode(format, &reference).unwrap();
        let name = format!("{which}.{name}");
        out.valid(&name, "block", &given, &bytes, says_block(&message));
        let start = 2 + 76 + format.duty_signature_bytes;
        let named = |body: &[u8]| {
            let head = with(&bytes[..start], 2 + 44, &digest::body_digest(body));
            [&head, body].concat()
        };
        let mut wrong = begun_wrongly(&bytes, 4);
        // Short or long bodies are those of another header.
        wrong.extend([
            (
                "proposer 1000 of 1000",
                with(&bytes, 10, &1000_u32.to_le_bytes()),
            ),
            (
                "an entry too many",
                named(&with(&bytes[start..], 0, &2_049_u32.to_le_bytes())),
            ),
            (
                "a body with a byte more",
                named(&[&bytes[start..], &[0]].concat()),
            ),
            (
                "a body with a byte less",
                named(&bytes[start..bytes.len() - 1]),
            ),
        ]);
        for (what, bytes) in wrong {
            let error = Block::decode(&bytes, format, &reference).expect_err(what);
            let name = format!("{name}: {what}");
            out.refused(&name, "block", &given, &bytes, class(&error));
        }
    }
}

fn supports(out: &mut Vectors) {
    let layout = Layout::new(120 * 2, 2, 8).unwrap();
    let cells = CellBounds::committee(&layout, 1);
    let bounds: Vec<u32> = (0..=8).map(|cell| cell * 15).collect();
    support_vectors(out, "cells", &cells, &bounds, 15);
    for n in [0_usize, 1, 2, 8, 9, 64, 191, 400] {
        let one = CellBounds::one(n as u32);
        for max in [1, 3] {
            support_vectors(out, &format!("one.{n}.{max}"), &one, &[0, n as u32], max);
        }
    }
}

/// Supports of many densities, in each coding, and changed codes of them.
fn support_vectors(out: &mut Vectors, name: &str, cells: &CellBounds, bounds: &[u32], max: u8) {
    let n = *bounds.last().unwrap() as usize;
    let mut half = Bitfield::new(n);
    (0..n / 2).for_each(|i| half.set(i));
    let every = |step: usize| -> Vec<u8> { (0..n).map(|i| u8::from(i % step == 0)).collect() };
    let supports = [
        ("most", support(n, max)),
        ("none", Support::new(n)),
        ("all", Support::from_bits(Bitfield::ones(n))),
        (
            "every third",
            Support::from_multiplicities(&every(3)).unwrap(),
        ),
        (
            "every fortieth",
            Support::from_multiplicities(&every(40)).unwrap(),
        ),
    ];
    for (coding_name, coding, chain) in [
        ("raw", Coding::Raw, false),
        ("rice", Coding::Rice, false),
        ("rice", Coding::Rice, true),
    ] {
        let reference = match chain {
            true => Reference::Chain(&half),
            false => Reference::None,
        };
        let code = SupportCode::new(coding, max, cells, reference);
        let given = json!({
            "bounds": bounds,
            "multiplicity_max": max,
            "coding": coding_name,
            "reference": chain.then(|| hex::encode(half.to_bytes())),
        });
        for (which, support) in &supports {
            let bytes = code.encode(support);
            let chained = if chain { ".chain" } else { "" };
            let name = format!("support.{name}.{coding_name}{chained}.{which}");
            let says = json!({"multiplicities": says_support(support)});
            out.valid(&name, "support", &given, &bytes, says);
            let mut wrong = vec![
                ("nothing", Vec::new()),
                ("a byte less", bytes[..bytes.len() - 1].to_vec()),
                ("a byte more", [&bytes[..], &[0]].concat()),
                ("no planes", with(&bytes, 1, &[0])),
                ("another context", with(&bytes, 1, &[bytes[1] ^ 2])),
            ];
            let raw = SupportCode::new(Coding::Raw, max, cells, Reference::None).encode(support);
            if raw != bytes {
                wrong.push(("raw although it is longer", raw));
            }
            for (what, bytes) in wrong {
                let error = code.decode(&bytes).expect_err(what);
                let name = format!("{name}: {what}");
                out.refused(&name, "support", &given, &bytes, class(&error));
            }
        }
    }
}

/// A reader that knows one header, and wants every other one.
struct Knows<'a>(&'a CodedHeader, Id);

impl Known for Knows<'_> {
    fn header(&self, id: &Id) -> Option<&CodedHeader> {
        (*id == self.1).then_some(self.0)
    }

    fn admits(&self, _: &CodedHeader) -> Result<(), Reject> {
        Ok(())
    }
}

fn says_header(header: &CodedHeader) -> Value {
    json!({
        "strategy": match header.strategy { Strategy::Rlnc => "rlnc", Strategy::Rs => "rs" },
        "kind": header.subject.kind,
        "slot": header.subject.slot,
        "source": header.subject.source,
        "index": header.subject.index,
        "len": header.len,
        "chunks": header.chunks,
        "shards_total": header.shards_total,
        "generations": header.generations,
        "unit": header.unit,
        "payload": hex::encode(header.payload_hash),
        "commitments": hex::encode(header.commit_root),
    })
}

fn members(set: &ShardSet, total: u16) -> Vec<u16> {
    (0..total).filter(|shard| set.contains(*shard)).collect()
}

fn says_coded<C: Code>(code: &C, header: &CodedHeader, one: &Coded<C>, bytes: &[u8]) -> Value {
    let mut says = match one {
        Coded::Header(announce) => json!({
            "header": says_header(&announce.header),
            "auth": hex::encode(&announce.auth),
            "commitments": hex::encode(&bytes[1 + 100 + 2 + announce.auth.len()..]),
        }),
        Coded::Commits { generation, .. } => json!({
            "generation": generation,
            "commitments": hex::encode(&bytes[33 + 2..]),
        }),
        Coded::Piece { piece, .. } => {
            let (hop, rank) = code.hop_and_rank(piece);
            let unit = header.unit as usize;
            let data = match header.strategy {
                Strategy::Rlnc => 32 * unit,
                Strategy::Rs => unit,
            };
            json!({
                "generation": code.generation(piece),
                "shard": code.shard(piece),
                "hop": hop,
                "rank": rank,
                "extra": hex::encode(&bytes[33 + 5..bytes.len() - data]),
                "data": hex::encode(&bytes[bytes.len() - data..]),
            })
        }
        Coded::Rank { ranks, .. } => match ranks {
            Ranks::One(rank) => json!({"ranks": [rank]}),
            Ranks::Many(ranks) => json!({"ranks": ranks[..]}),
            Ranks::Shards(set) => json!({"shards": members(set, header.shards_total)}),
        },
        Coded::Need {
            generation, want, ..
        } => match want {
            Want::Count(count) => json!({"generation": generation, "count": count}),
            Want::Shards(set) => {
                json!({"generation": generation, "shards": members(set, header.shards_total)})
            }
        },
        Coded::Done { .. } | Coded::Ask { .. } | Coded::Unread(_) => json!({}),
    };
    says["message"] = json!(one.kind());
    says["id"] = json!(hex::encode(one.id().0));
    says
}

fn broadcasts<C: Code>(out: &mut Vectors, name: &str, code: &C, cut: Cut) {
    let (header, messages) = coded(code, &fill("broadcast", 3000), cut);
    let network = root("network");
    let limits = Limits {
        network_id: network,
        header_auth_bytes_max: 96,
    };
    let given = json!({
        "network": hex::encode(network),
        "header": hex::encode(header.encode()),
        "auth_bytes_max": 96,
        "payload_bytes_max": 4000,
    });
    out.given.insert(name.into(), given);
    let (given, id) = (json!(name), header.id(&network));
    let mut refused = |what: &str, bytes: &[u8], class: &str| {
        let read = Coded::decode(bytes, code, &limits, &Knows(&header, id));
        assert!(read.is_err(), "{name}: {what}");
        out.refused(&format!("{name}.{what}"), "broadcast", &given, bytes, class);
    };
    for message in &messages {
        let bytes = message.encode(code, &header);
        let kind = message.kind();
        refused(
            &format!("{kind}: a byte less"),
            &bytes[..bytes.len() - 1],
            "length",
        );
        refused(
            &format!("{kind}: a byte more"),
            &[&bytes[..], &[0]].concat(),
            "length",
        );
        refused(&format!("{kind}: tag 9"), &with(&bytes, 0, &[9]), "tag");
        match message {
            Coded::Header(_) => {
                refused("header: version 2", &with(&bytes, 1, &[2]), "tag");
                refused("header: strategy 3", &with(&bytes, 2, &[3]), "tag");
                refused("header: reserved", &with(&bytes, 4, &[1]), "canonical");
                refused("header: no payload", &with(&bytes, 21, &[0; 4]), "range");
                refused("header: no chunk", &with(&bytes, 25, &[0; 2]), "range");
                refused(
                    "header: another unit",
                    &with(&bytes, 33, &[1, 0, 0, 0]),
                    "canonical",
                );
            }
            Coded::Need { .. } => {
                refused(
                    "need: no such generation",
                    &with(&bytes, 33, &[9, 9]),
                    "range",
                );
            }
            Coded::Piece { .. } if header.strategy == Strategy::Rlnc => {
                refused(
                    "chunk: no such generation",
                    &with(&bytes, 33, &[9, 9]),
                    "range",
                );
                refused("chunk: width 5", &with(&bytes, 38, &[5]), "tag");
                let last = bytes.len() - 32;
                refused(
                    "chunk: element above the order",
                    &with(&bytes, last, &[0xff; 32]),
                    "range",
                );
            }
            Coded::Piece { .. } => {
                refused(
                    "shard: no such shard",
                    &with(&bytes, 33, &[0xff, 0xff]),
                    "range",
                );
            }
            _ => {}
        }
    }
    for message in &messages {
        let bytes = message.encode(code, &header);
        let says = says_coded(code, &header, message, &bytes);
        let name = format!("{name}.{}", message.kind());
        out.valid(&name, "broadcast", &given, &bytes, says);
    }
    let bytes = [&[8][..], &id.0].concat();
    let says = json!({"message": "ask", "id": hex::encode(id.0)});
    out.valid(&format!("{name}.ask"), "broadcast", &given, &bytes, says);
}

#[test]
fn vectors_of_broadcasts_are_what_their_encoders_write() {
    let mut out = Vectors::default();
    let ristretto = Ristretto::new(Generators::new(Backend::Portable, 64), 4000);
    let two = Cut {
        generations: 2,
        ..Cut::rlnc(4)
    };
    broadcasts(&mut out, "chunks", &ristretto, Cut::rlnc(4));
    broadcasts(&mut out, "generations", &ristretto, two);
    broadcasts(&mut out, "shards", &Rs::new(4000), Cut::rs(4));
    out.check("broadcast.json");
}

#[test]
fn vectors_of_the_wire_are_what_its_encoders_write() {
    let mut out = Vectors::default();
    for (name, format) in [
        ("points", points()),
        ("lists", lists()),
        ("chained", chained()),
        ("deep", deep()),
        ("bundled", bundled()),
    ] {
        out.given.insert(name.into(), given(&format));
        votes(&mut out, name, &format);
        aggregates(&mut out, name, &format);
        blocks(&mut out, name, &format);
    }
    out.check("wire.json");
    let mut out = Vectors::default();
    supports(&mut out);
    out.check("supports.json");
}

/// The decoder that was written from the chapter alone reads all vectors, of every crate, and refuses
/// what is to be refused for the same reason.
#[test]
fn the_decoder_of_the_chapter_reads_all_vectors() {
    let tool = folder().join("../../tools/decode.py");
    let ran = Command::new("python3").arg(tool).arg(folder()).output();
    let Ok(ran) = ran else {
        assert!(std::env::var_os("CI").is_none(), "python3 is needed");
        println!("skipped: there is no python3 on this machine");
        return;
    };
    let said = String::from_utf8_lossy(&ran.stdout);
    assert!(
        ran.status.success(),
        "{said}{}",
        String::from_utf8_lossy(&ran.stderr)
    );
}
