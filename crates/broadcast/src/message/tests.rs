use super::*;
use crate::rlnc::{Cut, Distribution, Generators, Model16, Published, Ristretto, Rs, Subject};
use alphorn_exec::Backend;
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng;

const PAYLOAD_BYTES_MAX: u32 = 1 << 20;
const LIMITS: Limits = Limits {
    network_id: [7; 32],
    header_auth_bytes_max: 200,
};

/// Knows one header, and admits headers with an even slot.
struct OneHeader(Option<(Id, Header)>);

impl Known for OneHeader {
    fn header(&self, id: &Id) -> Option<&Header> {
        let (known, header) = self.0.as_ref()?;
        (known == id).then_some(header)
    }

    fn admits(&self, header: &Header) -> Result<(), Reject> {
        if header.subject.slot.is_multiple_of(2) {
            Ok(())
        } else {
            Err(Reject::NotScheduled)
        }
    }
}

fn published<C: Coding>(code: &C, cut: Cut, slot: u64) -> (Id, Published<C>) {
    let subject = Subject {
        kind: 1,
        slot,
        source: 3,
        index: 0,
    };
    let payload: Vec<u8> = (0..3000_u32).map(|i| (i * 7 % 251) as u8).collect();
    let published = code.publish(subject, &payload, cut).unwrap();
    (published.header.id(&LIMITS.network_id), published)
}

fn messages<C: Coding>(code: &C, id: Id, published: &Published<C>) -> Vec<Message<C>> {
    let header = &published.header;
    let mut rng = ChaCha20Rng::seed_from_u64(1);
    let draw = code.draw(&published.decoder, 0, Distribution::Fresh, &mut rng);
    let commitments = published.commitments.first().cloned();
    let announce = Announce::new(
        code,
        id,
        header.clone(),
        vec![9; 96].into(),
        commitments.clone().filter(|_| rides_along(code, header)),
    );
    let mut all = vec![
        Message::Header(Arc::new(announce)),
        Message::piece(code, header, id, draw.unwrap()),
        Message::Done { id },
    ];
    let generations = header.generations;
    let (ranks, want) = match header.strategy {
        Strategy::Rs => {
            let set = ShardSet::new(header.shards_total, [0, 3, 5]);
            (Ranks::Shards(set.clone()), Want::Shards(set))
        }
        Strategy::Rlnc if generations == 1 => (Ranks::One(3), Want::Count(2)),
        Strategy::Rlnc => (Ranks::Many((0..generations).collect()), Want::Count(2)),
    };
    all.push(Message::Rank { id, ranks });
    all.push(Message::Need {
        id,
        generation: generations - 1,
        want,
    });
    if generations > 1 {
        all.push(Message::commits(code, header, id, 0, commitments.unwrap()));
    }
    all
}

/// Every message survives encoding, no prefix or extension of its bytes is a message, and without
/// the header it waits unread.
fn round_trips<C: Coding>(code: &C, cut: Cut) {
    let (id, published) = published(code, cut, 4);
    let header = &published.header;
    let known = OneHeader(Some((id, header.clone())));
    let nothing = OneHeader(None);
    for message in messages(code, id, &published) {
        let bytes = message.encode(code, header);
        let kind = message.kind();
        assert_eq!(message.wire_bytes(), bytes.len() as u64, "{kind}");
        assert_eq!(message.id(), id);
        let decode = |bytes: &[u8], known| Message::decode(bytes, code, &LIMITS, known);
        let back = decode(&bytes, &known).unwrap();
        assert_eq!(back.kind(), kind);
        if kind != "header" {
            assert_eq!(back.encode(code, header), bytes, "{kind}");
        }
        for len in (0..bytes.len()).step_by(bytes.len() / 40 + 1) {
            assert!(
                decode(&bytes[..len], &known).is_err(),
                "{kind} cut at {len}"
            );
        }
        let longer = [&bytes[..], &[0]].concat();
        assert!(decode(&longer, &known).is_err(), "{kind} with a byte more");
        match decode(&bytes, &nothing).unwrap() {
            Message::Unread(unread) => {
                assert!(!matches!(kind, "header" | "done"));
                assert_eq!((unread.id, &unread.bytes[..]), (id, &bytes[..]));
                let read = unread.read(code, &known).unwrap();
                assert_eq!(read.encode(code, header), bytes);
            }
            first => {
                assert!(matches!(kind, "header" | "done"));
                assert_eq!(first.encode(code, header), bytes, "{kind}");
            }
        }
    }
}

#[test]
fn messages_are_what_their_bytes_say() {
    let ristretto = Ristretto::new(Generators::new(Backend::Portable, 32), PAYLOAD_BYTES_MAX);
    round_trips(&ristretto, Cut::rlnc(5));
    let three = Cut {
        generations: 3,
        ..Cut::rlnc(5)
    };
    round_trips(&ristretto, three);
    round_trips(&Rs::new(PAYLOAD_BYTES_MAX), Cut::rs(6));
    round_trips(&Model16::new(PAYLOAD_BYTES_MAX), Cut::rlnc(5));
    round_trips(&Model16::new(PAYLOAD_BYTES_MAX), three);
}

/// A header without a duty is rejected before its commitments are decoded: the ones here are not
/// points.
#[test]
fn duties_come_before_points() {
    let code = Ristretto::new(Generators::new(Backend::Portable, 32), PAYLOAD_BYTES_MAX);
    for (slot, expected) in [(4, Reject::BadPath), (5, Reject::NotScheduled)] {
        let (id, published) = published(&code, Cut::rlnc(5), slot);
        let message = &messages(&code, id, &published)[0];
        let mut bytes = message.encode(&code, &published.header);
        let commitment = bytes.len() - 160;
        bytes[commitment..].fill(0xff);
        let decoded = Message::decode(&bytes, &code, &LIMITS, &OneHeader(None));
        assert_eq!(decoded.unwrap_err(), expected);
    }
}

#[test]
fn limits_are_checked_before_anything_is_read() {
    let code = Rs::new(PAYLOAD_BYTES_MAX);
    let (id, published) = published(&code, Cut::rs(6), 4);
    let nothing = OneHeader(None);
    let decode = |bytes: &[u8]| Message::decode(bytes, &code, &LIMITS, &nothing).map(|_| ());
    assert_eq!(
        decode(&vec![6; MESSAGE_BYTES_MAX + 1]),
        Err(Reject::TooLong)
    );
    assert_eq!(decode(&[]), Err(Reject::Malformed));
    assert_eq!(decode(&[0; 17]), Err(Reject::Malformed));
    assert_eq!(decode(&[9; 17]), Err(Reject::Malformed));
    assert_eq!(decode(&[6; 16]), Err(Reject::BadLength));
    // Chunks and commitments belong to the other code.
    assert_eq!(decode(&[3; 40]), Err(Reject::Malformed));
    assert_eq!(decode(&[2; 40]), Err(Reject::Malformed));
    let header = &messages(&code, id, &published)[0];
    let mut bytes = header.encode(&code, &published.header);
    bytes[101..103].copy_from_slice(&201_u16.to_le_bytes());
    assert_eq!(decode(&bytes), Err(Reject::TooLong));
}

/// Trap 16: bitmaps and ranks that contradict the header are refused.
#[test]
fn trap_16_feedback_fits_its_header() {
    let code = Model16::new(PAYLOAD_BYTES_MAX);
    let (id, published) = published(&code, Cut::rlnc(5), 4);
    let known = OneHeader(Some((id, published.header.clone())));
    let decode = |tag: u8, body: &[u8]| {
        let bytes = [&[tag][..], &id.0, body].concat();
        Message::decode(&bytes, &code, &LIMITS, &known).map(|message| message.kind())
    };
    assert_eq!(decode(5, &[5, 0]), Ok("rank"));
    assert_eq!(decode(5, &[6, 0]), Err(Reject::BadLength));
    assert_eq!(decode(5, &[5, 0, 0, 0]), Err(Reject::BadLength));
    assert_eq!(decode(7, &[0, 0, 9, 0]), Ok("need"));
    assert_eq!(decode(7, &[1, 0, 9, 0]), Err(Reject::BadLength));
    assert_eq!(decode(7, &[0, 0, 9]), Err(Reject::BadLength));
}
