use super::*;
use alphorn_scheme::{Bytes, Evidence};
use alphorn_types::{Slot, Support, Unit, Validator};
use proptest::prelude::*;
use std::sync::Arc;

/// Four kinds of formats: everything of fixed length; lists without proofs of selection; supports
/// that refer to the chain, and three levels; the same with one piece of evidence per block.
fn formats() -> [WireFormat; 4] {
    let fixed = WireFormat {
        layout: Layout::new(700, 3, 4).unwrap(),
        signature_bytes: 96,
        duty_signature_bytes: 96,
        selection_proof_bytes: Some(96),
        evidence: vec![EvidenceLength::Fixed(96); 2],
        multiplicity_max: 3,
        coding: Coding::Rice,
        context: Context::None,
        bundle: None,
    };
    let lists = WireFormat {
        layout: Layout::new(5, 2, 4).unwrap(),
        selection_proof_bytes: None,
        evidence: vec![EvidenceLength::Max(300), EvidenceLength::Max(3000)],
        multiplicity_max: 1,
        coding: Coding::Raw,
        ..fixed.clone()
    };
    let chain = WireFormat {
        layout: Layout::with_fan_out(700, 3, &[2, 2]).unwrap(),
        evidence: vec![EvidenceLength::Fixed(96); 3],
        context: Context::Chain,
        multiplicity_max: 15,
        ..fixed.clone()
    };
    let bundled = WireFormat {
        bundle: Some(EvidenceLength::Max(900)),
        ..chain.clone()
    };
    [fixed, lists, chain, bundled]
}

/// Knows every block whose root starts with an even byte.
fn references(layout: Layout) -> impl Fn(&Vote, u16) -> Option<Bitfield> {
    move |vote, committee| {
        let n = layout.committee_len(committee) as usize;
        let mut bits = Bitfield::ones(n);
        (0..n).step_by(3).for_each(|i| bits.clear(i));
        vote.head[0].is_multiple_of(2).then_some(bits)
    }
}

/// Random content for the fields of a message.
#[derive(Clone, Debug)]
struct Filling {
    format: usize,
    seed: u64,
    /// Share of signers, in percent.
    density: u64,
}

fn fillings() -> impl Strategy<Value = Filling> {
    (0usize..4, any::<u64>(), 0u64..=100).prop_map(|(format, seed, density)| Filling {
        format,
        seed,
        density,
    })
}

impl Filling {
    fn format(&self) -> WireFormat {
        formats()[self.format].clone()
    }

    /// SplitMix64 (Steele, Lea and Flood, 2014).
    fn next(&mut self) -> u64 {
        self.seed = self.seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.seed ^ (self.seed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn bytes(&mut self, count: usize) -> Bytes {
        (0..count).map(|_| self.next() as u8).collect()
    }

    fn root(&mut self) -> Root {
        let mut root = [0; 32];
        root.copy_from_slice(&self.bytes(32));
        root[0] &= 0xfe;
        root
    }

    fn vote(&mut self) -> Vote {
        let mut checkpoint = || Checkpoint {
            slot: Slot(self.next()),
            root: self.root(),
        };
        let (source, target) = (checkpoint(), checkpoint());
        Vote {
            slot: Slot(self.next()),
            head: self.root(),
            source,
            target,
        }
    }

    fn support(&mut self, n: u32, max: u8) -> Arc<Support> {
        let multiplicities: Vec<u8> = (0..n)
            .map(|_| match self.next() % 100 < self.density {
                true => 1 + (self.next() % u64::from(max)) as u8,
                false => 0,
            })
            .collect();
        Arc::new(Support::from_multiplicities(&multiplicities).unwrap())
    }

    fn evidence_bytes(&mut self, length: EvidenceLength) -> Bytes {
        match length {
            EvidenceLength::Fixed(bytes) => self.bytes(bytes),
            EvidenceLength::Max(max) => {
                let count = self.next() as usize % (max + 1);
                self.bytes(count)
            }
        }
    }

    fn unit(&mut self, level: u8) -> Unit {
        let layout = self.format().layout;
        let units: Vec<Unit> = layout.units(level).collect();
        units[self.next() as usize % units.len()]
    }

    fn validator(&mut self) -> Validator {
        Validator((self.next() % u64::from(self.format().layout.validators())) as u32)
    }

    fn proof(&mut self) -> Option<Bytes> {
        let bytes = self.format().selection_proof_bytes;
        bytes.map(|bytes| self.bytes(bytes))
    }

    /// An aggregate of a level.
    fn aggregate(&mut self, level: u8) -> Aggregate {
        let format = self.format();
        let unit = self.unit(level);
        let n = format.layout.unit_len(unit);
        Aggregate {
            vote: self.vote(),
            unit,
            sender: self.validator(),
            proof: self.proof(),
            evidence: Evidence {
                support: self.support(n, format.multiplicity(level)),
                bytes: self.evidence_bytes(format.evidence(level)),
            },
            envelope: self.bytes(96),
        }
    }

    /// An aggregate of the top level.
    fn collection(&mut self) -> Aggregate {
        self.aggregate(self.format().layout.levels())
    }

    /// An entry of a block.
    fn entry(&mut self) -> Entry {
        let entry = Entry::from(&self.collection());
        match self.format().bundle {
            None => entry,
            Some(_) => entry.bare(),
        }
    }

    fn block(&mut self) -> Block {
        let format = self.format();
        let count = self.next() % 4;
        let filler = self.next() as usize % 50;
        let entries = (0..count).map(|_| self.entry()).collect();
        let bundle = match format.bundle.filter(|_| count > 0) {
            Some(length) => self.evidence_bytes(length),
            None => Arc::from([]),
        };
        let body = Body {
            entries,
            bundle,
            filler: self.bytes(filler),
        };
        let encoding = body.encode(&format, &references(format.layout)).unwrap();
        Block {
            header: Header {
                slot: Slot(self.next()),
                proposer: self.validator(),
                parent: self.root(),
                body: digest::body_digest(&encoding),
            },
            signature: self.bytes(96),
            body,
        }
    }

    /// One message of each kind and level, encoded.
    fn encoded(&mut self) -> Vec<(Kind, Vec<u8>)> {
        let format = self.format();
        let known = references(format.layout);
        let vote = VoteMsg {
            vote: self.vote(),
            validator: self.validator(),
            signature: self.bytes(96),
        };
        let mut all = vec![
            (Kind::Vote, vote.encode(&format)),
            (Kind::Block, self.block().encode(&format, &known).unwrap()),
        ];
        for level in 1..=format.layout.levels() {
            let aggregate = self.aggregate(level).encode(&format, &known).unwrap();
            all.push((format.kind(level), aggregate));
        }
        all
    }
}

/// Decodes a message of a kind and encodes it again.
fn recode(kind: Kind, bytes: &[u8], format: &WireFormat) -> Result<Vec<u8>, DecodeError> {
    let known = references(format.layout);
    let again = match kind {
        Kind::Vote => Ok(VoteMsg::decode(bytes, format)?.encode(format)),
        Kind::Aggregate | Kind::Collection => {
            Aggregate::decode(bytes, format, &known)?.encode(format, &known)
        }
        Kind::Block => Block::decode(bytes, format, &known)?.encode(format, &known),
    };
    Ok(again.expect("what was read under a reference is written under it"))
}

proptest! {
    #[test]
    fn messages_come_back_as_they_were_sent(mut filling in fillings()) {
        let format = filling.format();
        let known = references(format.layout);
        for level in 1..=format.layout.levels() {
            let aggregate = filling.aggregate(level);
            let bytes = aggregate.encode(&format, &known).unwrap();
            let Aggregate { vote, unit, sender, proof, .. } = aggregate.clone();
            prop_assert_eq!(Vote::peek(&bytes, format.kind(level)), Ok(vote));
            let head = Head { vote, unit, sender, proof };
            prop_assert_eq!(Aggregate::peek(&bytes, &format), Ok(head));
            prop_assert_eq!(Aggregate::decode(&bytes, &format, &known), Ok(aggregate));
        }
        let block = filling.block();
        let bytes = block.encode(&format, &known).unwrap();
        prop_assert_eq!(Header::peek(&bytes, &format), Ok(block.header));
        prop_assert_eq!(Block::decode(&bytes, &format, &known), Ok(block));
        let vote = filling.vote();
        prop_assert_eq!(Vote::decode(&vote.encode()), vote);
    }

    #[test]
    fn no_message_is_longer_than_its_topic_allows(mut filling in fillings()) {
        let format = filling.format();
        for (kind, bytes) in filling.encoded() {
            prop_assert!(bytes.len() <= format.bytes_max(kind), "{kind}: {} bytes", bytes.len());
        }
        let known = references(format.layout);
        let entry = filling.entry();
        prop_assert!(entry.encoded_bytes(&format, &known).unwrap() <= format.entry_bytes_max());
    }

    /// A changed byte is rejected or changes the message: no content has two encodings.
    #[test]
    fn changed_bytes_are_refused_or_mean_something_else(
        mut filling in fillings(),
        change in 1u8..=255,
        stride in 1usize..5,
    ) {
        let format = filling.format();
        for (kind, mut bytes) in filling.encoded() {
            prop_assert_eq!(recode(kind, &bytes, &format), Ok(bytes.clone()));
            for at in (0..bytes.len()).step_by(stride) {
                bytes[at] ^= change;
                if let Ok(again) = recode(kind, &bytes, &format) {
                    prop_assert!(again == bytes, "{kind}: byte {at} has a second encoding");
                }
                bytes[at] ^= change;
            }
        }
    }

    #[test]
    fn shorter_and_longer_bytes_are_refused(mut filling in fillings(), extra in any::<u8>()) {
        let format = filling.format();
        for (kind, mut bytes) in filling.encoded() {
            for end in 0..bytes.len() {
                prop_assert!(recode(kind, &bytes[..end], &format).is_err(), "{kind} cut at {end}");
            }
            bytes.push(extra);
            prop_assert!(recode(kind, &bytes, &format).is_err(), "{kind} with a byte more");
        }
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..600), kind in 0usize..4) {
        for format in formats() {
            let kind = Kind::ALL[kind];
            let mut framed = vec![VERSION, tag_of(kind)];
            framed.extend_from_slice(&bytes);
            for bytes in [&bytes, &framed] {
                if let Ok(again) = recode(kind, bytes, &format) {
                    prop_assert_eq!(&again, bytes);
                }
            }
        }
    }
}

fn filling(format: usize) -> Filling {
    Filling {
        format,
        seed: 5,
        density: 90,
    }
}

#[test]
fn sizes_are_those_of_the_specification() {
    let format = |multiplicity_max| WireFormat {
        layout: Layout::new(1 << 20, 32, 64).unwrap(),
        multiplicity_max,
        coding: Coding::Raw,
        ..formats()[0].clone()
    };
    assert_eq!(format(1).bytes_max(Kind::Vote), 222);
    assert_eq!(format(1).bytes_max(Kind::Aggregate), 489);
    assert_eq!(format(1).bytes_max(Kind::Collection), 4_521);
    assert_eq!(format(3).bytes_max(Kind::Collection), 8_617);
    assert_eq!(format(15).bytes_max(Kind::Collection), 16_390 + 419);
    assert_eq!(format(1).entry_bytes_max(), 4_320);
    assert_eq!(format(1).bytes_max(Kind::Block), BLOCK_BYTES_MAX);
}

#[test]
fn the_smaller_of_cap_and_format_limits_a_topic() {
    let format = WireFormat {
        evidence: vec![EvidenceLength::Max(usize::MAX), EvidenceLength::Max(1000)],
        ..formats()[0].clone()
    };
    assert_eq!(format.bytes_max(Kind::Aggregate), AGGREGATE_BYTES_MAX);
    assert!(format.bytes_max(Kind::Collection) < 2000);
    assert_eq!(format.check(), Ok(()));
}

#[test]
fn formats_that_cannot_fit_are_refused() {
    let format = WireFormat {
        signature_bytes: VOTE_BYTES_MAX,
        ..formats()[0].clone()
    };
    assert_eq!(
        format.check(),
        Err(FormatError::TooLong {
            kind: Kind::Vote,
            value: VOTE_BYTES_MAX + 126,
            max: VOTE_BYTES_MAX,
        })
    );
    let format = WireFormat {
        multiplicity_max: 4,
        ..formats()[0].clone()
    };
    assert_eq!(format.check(), Err(FormatError::Multiplicity { value: 4 }));
}

#[test]
fn indices_outside_the_layout_are_named() {
    let mut filling = filling(0);
    let format = filling.format();
    let collection = filling.collection();
    let bytes = collection.encode(&format, &no_references).unwrap();
    // After version, kind and vote: the level, the committee, the index in it.
    for (at, value, what, named, max) in [
        (122, 0, "level below", u64::MAX, 1),
        (122, 3, "level below", 2, 1),
        (123, 3, "committee", 3, 2),
        (125, 1, "index of the unit", 1, 0),
    ] {
        let mut bytes = bytes.clone();
        bytes[at] = value;
        let error = DecodeError::OutOfRange {
            what,
            value: named,
            max,
        };
        assert_eq!(
            Aggregate::decode(&bytes, &format, &no_references),
            Err(error)
        );
    }
    let vote = VoteMsg {
        vote: filling.vote(),
        validator: Validator(700),
        signature: filling.bytes(96),
    };
    assert_eq!(
        VoteMsg::decode(&vote.encode(&format), &format),
        Err(DecodeError::OutOfRange {
            what: "validator",
            value: 700,
            max: 699
        })
    );
}

#[test]
fn messages_of_another_version_or_kind_are_named() {
    let mut filling = filling(0);
    let format = filling.format();
    let aggregate = filling.aggregate(1);
    let bytes = aggregate.encode(&format, &no_references).unwrap();
    assert_eq!(
        VoteMsg::decode(&bytes, &format),
        Err(DecodeError::UnknownTag {
            what: "message kind",
            value: 2
        })
    );
    let mut other = bytes;
    other[0] = 2;
    assert_eq!(
        Aggregate::decode(&other, &format, &no_references),
        Err(DecodeError::UnknownTag {
            what: "message version",
            value: 2
        })
    );
}

#[test]
fn a_support_that_refers_to_an_unknown_block_is_missing_it() {
    let mut filling = filling(2);
    let format = filling.format();
    let collection = filling.collection();
    let bytes = collection
        .encode(&format, &references(format.layout))
        .unwrap();
    assert_eq!(
        Aggregate::decode(&bytes, &format, &no_references),
        Err(DecodeError::Missing {
            what: "block of the vote's head"
        })
    );
    assert_eq!(
        collection.encode(&format, &no_references),
        Err(MissingReference {
            head: collection.vote.head,
            committee: collection.unit.committee
        })
    );
}

/// Lengths beyond the remaining bytes, or beyond the maximum of a field, are rejected before memory
/// is reserved for them.
#[test]
fn bombs_are_refused() {
    let mut filling = filling(1);
    let format = filling.format();
    let mut collection = filling.collection();
    collection.evidence.bytes = Arc::from([]);
    let mut bytes = collection.encode(&format, &no_references).unwrap();
    let length_at = bytes.len() - 96 - 4;
    bytes[length_at..length_at + 4].copy_from_slice(&u32::MAX.to_le_bytes());
    assert_eq!(
        Aggregate::decode(&bytes, &format, &no_references),
        Err(DecodeError::TooLong {
            what: "byte string",
            value: u64::from(u32::MAX),
            max: 3000
        })
    );

    let mut header = filling.block().header;
    let mut body = Writer::new();
    body.u32(BLOCK_ENTRIES_MAX as u32);
    header.body = digest::body_digest(body.as_slice());
    let block = [
        &[VERSION, tag_of(Kind::Block)][..],
        &header.encode(),
        &[0; 96],
        body.as_slice(),
    ]
    .concat();
    assert!(matches!(
        Block::decode(&block, &format, &no_references),
        Err(DecodeError::Truncated { .. })
    ));

    // Messages below the top level have a lower limit, whatever follows the head.
    for (level, what, max) in [
        (1, "aggregate", AGGREGATE_BYTES_MAX),
        (2, "collection", COLLECTION_BYTES_MAX),
    ] {
        let mut long = filling
            .aggregate(level)
            .encode(&format, &no_references)
            .unwrap();
        long.resize(max + 1, 0);
        let error = DecodeError::TooLong {
            what,
            value: max as u64 + 1,
            max: max as u64,
        };
        assert_eq!(
            Aggregate::decode(&long, &format, &no_references),
            Err(error)
        );
    }
}

/// A few bytes of code that expand to half a megabyte of bits each.
#[test]
fn short_codes_do_not_unfold_beyond_the_cap() {
    let format = WireFormat {
        layout: Layout::new(1 << 22, 1, 1).unwrap(),
        ..formats()[0].clone()
    };
    let entry = Entry {
        vote: Vote::default(),
        committee: 0,
        evidence: Evidence {
            support: Arc::new(Support::from_bits(Bitfield::ones(1 << 22))),
            bytes: Arc::from([0; 96]),
        },
    };
    let block = |count| {
        let body = Body {
            entries: vec![entry.clone(); count],
            bundle: Arc::from([]),
            filler: Arc::from([]),
        };
        let encoding = body.encode(&format, &no_references).unwrap();
        assert!(encoding.len() < 20_000);
        let header = Header {
            body: digest::body_digest(&encoding),
            ..Header::default()
        };
        let signature = Arc::from([0; 96]);
        let block = Block {
            header,
            signature,
            body,
        };
        let bytes = block.encode(&format, &no_references).unwrap();
        Block::decode(&bytes, &format, &no_references).map(|again| again == block)
    };
    let fits = BLOCK_BYTES_MAX / entry.raw_bytes();
    assert_eq!(block(fits), Ok(true));
    assert_eq!(
        block(fits + 1),
        Err(DecodeError::TooLong {
            what: "entries in raw planes",
            value: ((fits + 1) * entry.raw_bytes()) as u64,
            max: BLOCK_BYTES_MAX as u64
        })
    );
}

/// One piece of evidence follows all entries, within the length set by the scheme. Without entries
/// there is none.
#[test]
fn evidence_of_all_entries_is_bounded_and_stands_where_entries_are() {
    let mut filling = filling(3);
    let format = filling.format();
    let known = references(format.layout);
    let entry = filling.entry();
    let body = |entries: &[Entry], bytes: usize| Body {
        entries: entries.to_vec(),
        bundle: vec![5; bytes].into(),
        filler: Arc::from([]),
    };
    let empty = body(&[], 0).encode(&format, &known).unwrap();
    assert_eq!(empty, [0; 8], "no entries, no filler");
    let longer = WireFormat {
        bundle: Some(EvidenceLength::Max(901)),
        ..format.clone()
    };
    for (bytes, fits) in [(0, true), (900, true), (901, false)] {
        let encoded = body(std::slice::from_ref(&entry), bytes)
            .encode(&longer, &known)
            .unwrap();
        let entries = entry.encoded_bytes(&format, &known).unwrap();
        assert_eq!(encoded.len(), 4 + entries + 4 + bytes + 4);
        let header = Header {
            body: digest::body_digest(&encoded),
            ..Header::default()
        };
        let block = [
            &[VERSION, tag_of(Kind::Block)][..],
            &header.encode(),
            &[0; 96],
            &encoded,
        ]
        .concat();
        let decoded = Block::decode(&block, &format, &known);
        assert_eq!(decoded.is_ok(), fits, "{bytes} bytes");
    }
}

#[test]
fn a_body_of_another_block_is_refused() {
    let mut filling = filling(0);
    let format = filling.format();
    let mut block = filling.block();
    block.header.body[0] ^= 1;
    let bytes = block.encode(&format, &no_references).unwrap();
    assert_eq!(
        Block::decode(&bytes, &format, &no_references),
        Err(DecodeError::NotCanonical {
            what: "body of a block"
        })
    );
}

/// Signatures cover content: every field, but not the coding of the support.
#[test]
fn envelopes_cover_every_field_and_no_encoding() {
    let mut filling = filling(0);
    let format = filling.format();
    let raw = WireFormat {
        coding: Coding::Raw,
        ..format.clone()
    };
    let network = NetworkDigest([1, 2, 3, 4]);
    let collection = filling.collection();
    let message = |c: &Aggregate| digest::aggregate_message(network, c, &format);
    assert_eq!(
        message(&collection),
        digest::aggregate_message(network, &collection, &raw)
    );
    let mut others = vec![collection.clone(); 6];
    others[0].vote.slot.0 ^= 1;
    let unit = format.layout.committee((collection.unit.committee + 1) % 3);
    others[1].unit = unit;
    others[1].evidence.support = filling.support(format.layout.unit_len(unit), 1);
    others[2].sender.0 ^= 1;
    others[3].proof = Some(filling.bytes(96));
    others[4].evidence.bytes = filling.bytes(96);
    others[5].evidence.support = filling.support(collection.evidence.support.len() as u32, 3);
    for other in &others {
        assert_ne!(message(&collection), message(other));
    }
    let mut same = collection.clone();
    same.envelope = filling.bytes(96);
    assert_eq!(message(&collection), message(&same));
    assert_ne!(
        message(&collection),
        digest::aggregate_message(NetworkDigest([1, 2, 3, 5]), &collection, &format)
    );
}

#[test]
fn a_collection_and_its_block_entry_have_one_name() {
    let mut filling = filling(0);
    let format = filling.format();
    let collection = filling.collection();
    let mut resent = collection.clone();
    resent.sender.0 ^= 1;
    resent.envelope = filling.bytes(96);
    let name = Entry::from(&collection).digest(&format);
    assert_eq!(Entry::from(&resent).digest(&format), name);
    resent.evidence.bytes = filling.bytes(96);
    assert_ne!(Entry::from(&resent).digest(&format), name);
}
