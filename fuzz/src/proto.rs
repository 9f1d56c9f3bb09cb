//! Targets of `alphorn-proto`.

use std::sync::Arc;

use alphorn_proto::wire::{
    Aggregate, Block, Body, Checkpoint, Context, Entry, Header, Kind, NetworkDigest, TopicName,
    Vote, VoteMsg, WireFormat, digest,
};
use alphorn_scheme::{Evidence, EvidenceLength};
use alphorn_types::{Bitfield, Coding, Layout, Slot, Support, Unit, Validator};

/// Decodes a message of each kind; what is accepted must be within its limit and encode to itself.
///
/// Input: `format u8 | message`. The digest of a block's body is set right, so that mutations reach
/// what is behind it.
///
/// # Panics
///
/// If an accepted message is too long or has a second encoding.
pub fn proto_message(data: &[u8]) -> bool {
    let Some((&choice, message)) = data.split_first() else {
        return false;
    };
    let format = format(choice);
    let references = |_: &Vote, committee: u16| reference(&format, committee);
    let mut block = message.to_vec();
    repair_body_digest(&mut block, &format);
    let recoded = [
        (
            Kind::Vote,
            VoteMsg::decode(message, &format).map(|vote| Ok(vote.encode(&format))),
        ),
        (
            Kind::Aggregate,
            Aggregate::decode(message, &format, &references)
                .map(|aggregate| aggregate.encode(&format, &references)),
        ),
        (
            Kind::Block,
            Block::decode(&block, &format, &references)
                .map(|block| block.encode(&format, &references)),
        ),
    ];
    let mut accepted = false;
    for (kind, recoded) in recoded {
        let Ok(recoded) = recoded else {
            continue;
        };
        let message = if kind == Kind::Block { &block } else { message };
        let kind = match Aggregate::peek(message, &format) {
            Ok(head) => format.kind(head.unit.level),
            Err(_) => kind,
        };
        assert_eq!(
            recoded.as_deref(),
            Ok(message),
            "{kind} has a second encoding"
        );
        assert!(
            message.len() <= format.bytes_max(kind),
            "{kind} of {} bytes",
            message.len()
        );
        accepted = true;
    }
    accepted
}

/// Parses the name of a topic; what is accepted must print as it was.
///
/// # Panics
///
/// If a name has a second spelling.
pub fn topic_name(data: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(data) else {
        return false;
    };
    let Ok(name) = text.parse::<TopicName>() else {
        return false;
    };
    assert_eq!(name.to_string(), text);
    true
}

/// Networks with and without proofs of selection, references, and evidence of fixed length.
fn format(choice: u8) -> WireFormat {
    let bit = |bit: u8| choice >> bit & 1 == 1;
    let evidence = |bytes| match bit(0) {
        true => EvidenceLength::Fixed(bytes),
        false => EvidenceLength::Max(bytes),
    };
    let fan_out: &[u16] = match bit(5) {
        true => &[2, 3],
        false => &[3],
    };
    WireFormat {
        layout: Layout::with_fan_out(200, 4, fan_out)
            .expect("50 validators a committee fill its cells"),
        signature_bytes: 96,
        duty_signature_bytes: 33,
        selection_proof_bytes: bit(1).then_some(48),
        evidence: [96, 108, 120][..=fan_out.len()]
            .iter()
            .map(|&bytes| evidence(bytes))
            .collect(),
        multiplicity_max: if bit(2) { 3 } else { 1 },
        coding: if bit(3) { Coding::Rice } else { Coding::Raw },
        context: if bit(4) {
            Context::Chain
        } else {
            Context::None
        },
        bundle: bit(6).then(|| evidence(130)),
    }
}

/// Every third position of a committee; nothing is known of the last one.
fn reference(format: &WireFormat, committee: u16) -> Option<Bitfield> {
    let n = format.layout.committee_len(committee) as usize;
    let mut bits = (committee < 3).then(|| Bitfield::new(n))?;
    (0..n).step_by(3).for_each(|position| bits.set(position));
    Some(bits)
}

/// Sets the last field of a block's header to the digest of what follows its signature.
fn repair_body_digest(block: &mut [u8], format: &WireFormat) {
    let header_end = 2 + alphorn_proto::wire::HEADER_BYTES;
    let body_start = header_end + format.duty_signature_bytes;
    if block.len() >= body_start {
        let digest = digest::body_digest(&block[body_start..]);
        block[header_end - digest.len()..header_end].copy_from_slice(&digest);
    }
}

/// One message of each kind in each format.
pub(crate) fn proto_message_seeds() -> Vec<Vec<u8>> {
    let with_choice = |choice: u8, message: &[u8]| [&[choice], message].concat();
    let of_format = |choice| {
        let messages = messages(&format(choice)).into_iter();
        messages.map(move |message| with_choice(choice, &message))
    };
    (0..128).flat_map(of_format).collect()
}

/// A vote, an aggregate of each level and a block.
fn messages(format: &WireFormat) -> Vec<Vec<u8>> {
    let references = |_: &Vote, committee: u16| reference(format, committee);
    let vote = VoteMsg {
        vote: vote(),
        validator: Validator(9),
        signature: vec![5; format.signature_bytes].into(),
    };
    let levels = 1..=format.layout.levels();
    let block = block(format, &aggregate(format, format.layout.levels()));
    let aggregates = levels.map(|level| aggregate(format, level).encode(format, &references));
    let coded = [Ok(vote.encode(format)), block.encode(format, &references)];
    let coded = coded.into_iter().chain(aggregates);
    let coded = coded.map(|message| message.expect("committee 1 has a reference"));
    coded.collect()
}

fn vote() -> Vote {
    Vote {
        slot: Slot(7),
        head: [1; 32],
        source: Checkpoint {
            slot: Slot(0),
            root: [2; 32],
        },
        target: Checkpoint {
            slot: Slot(7),
            root: [1; 32],
        },
    }
}

/// The aggregate of a unit of a level.
fn aggregate(format: &WireFormat, level: u8) -> Aggregate {
    let unit = Unit::new(level, 1, 0);
    let (positions, max) = (format.layout.unit_len(unit), format.multiplicity(level));
    Aggregate {
        vote: vote(),
        unit,
        sender: Validator(11),
        proof: format
            .selection_proof_bytes
            .map(|bytes| vec![3; bytes].into()),
        evidence: evidence(positions, max, format.evidence(level)),
        envelope: vec![4; format.duty_signature_bytes].into(),
    }
}

/// A block of two entries; its header names no body, which [`repair_body_digest`] mends.
fn block(format: &WireFormat, collection: &Aggregate) -> Block {
    let (entry, bundle) = match format.bundle {
        None => (Entry::from(collection), Arc::from([])),
        Some(length) => {
            let bytes = vec![8; length.max_bytes()];
            (Entry::from(collection).bare(), bytes.into())
        }
    };
    Block {
        header: Header::default(),
        signature: vec![4; format.duty_signature_bytes].into(),
        body: Body {
            entries: vec![entry; 2],
            bundle,
            filler: vec![6; 10].into(),
        },
    }
}

/// Most positions sign, up to `multiplicity_max` times.
fn evidence(positions: u32, multiplicity_max: u8, length: EvidenceLength) -> Evidence {
    let multiplicity = |i: u32| {
        if i.is_multiple_of(7) {
            0
        } else {
            1 + i as u8 % multiplicity_max
        }
    };
    let multiplicities: Vec<u8> = (0..positions).map(multiplicity).collect();
    let support =
        Support::from_multiplicities(&multiplicities).expect("multiplicities are within the limit");
    Evidence {
        support: Arc::new(support),
        bytes: vec![7; length.max_bytes()].into(),
    }
}

/// One name of each kind.
pub(crate) fn topic_name_seeds() -> Vec<Vec<u8>> {
    let network = NetworkDigest([0, 1, 0xab, 0xff]);
    [
        "block",
        "collection",
        "aggregate_2_31_0",
        "vote_31_63",
        "vote_0_0",
    ]
    .map(|topic| format!("/alphorn/{network}/{topic}/raw").into_bytes())
    .to_vec()
}
