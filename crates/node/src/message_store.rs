//! Votes and aggregates of the last slots on disk: messages that this node accepted, or sent itself, are restored after
//! it was killed.
//!
//! They share the commits of [`crate::blocks::Blocks`]. A message covered by a commit is *acknowledged*. After a start they come back
//! as messages and pass every check once more, so the file need not be trusted: it can cost a verification, never a
//! wrong vote. Own messages are sent again as they were signed, and nothing is signed a second time.

use crate::engine::Kept;
use crate::record::{put_topic, take_topic};
use alphorn_scheme::Bytes;
use alphorn_types::{Reader, Slot, Writer};
use redb::{Database, ReadableDatabase, ReadableTable as _, TableDefinition, WriteTransaction};
use sha2::{Digest, Sha256};

/// (Slot, digest of topic and message) to flags, topic and message.
const MESSAGES: TableDefinition<'_, (u64, &[u8; 32]), &[u8]> = TableDefinition::new("messages");

/// Slots before the newest whose messages are kept. The network accepts those of two slots, and the newest may have
/// begun a moment early.
const SLOTS_KEPT: u64 = 2;

/// Most bytes that a start restores, the newest slots first.
pub(crate) const RESTORED_BYTES_MAX: usize = 64 << 20;

/// Topic and message, preceded by a flag for the origin.
fn encode(kept: &Kept) -> Vec<u8> {
    let mut w = Writer::with_capacity(6 + kept.data.len());
    w.u8(kept.own.into());
    put_topic(&mut w, kept.topic);
    w.bytes(&kept.data);
    w.into_vec()
}

/// The inverse of [`encode`]. None for anything that this version does not write.
fn decode(slot: Slot, bytes: &[u8]) -> Option<Kept> {
    let mut reader = Reader::new(bytes);
    let own = match reader.u8().ok()? {
        0 => false,
        1 => true,
        _ => return None,
    };
    let topic = take_topic(&mut reader).ok()?;
    Some(Kept {
        slot,
        topic,
        data: Bytes::from(reader.rest()),
        own,
    })
}

/// Creates the table, so that it can be read.
pub(crate) fn open(txn: &WriteTransaction) -> Result<(), redb::Error> {
    txn.open_table(MESSAGES)?;
    Ok(())
}

/// Adds messages, and drops those that are too old relative to the newest.
pub(crate) fn put(txn: &WriteTransaction, messages: &[Kept]) -> Result<(), redb::Error> {
    let Some(newest) = messages.iter().map(|message| message.slot.0).max() else {
        return Ok(());
    };
    let mut table = txn.open_table(MESSAGES)?;
    for message in messages {
        let bytes = encode(message);
        // Without the flag, so a message made here and received again is one entry.
        let digest: [u8; 32] = Sha256::digest(&bytes[1..]).into();
        let key = (message.slot.0, &digest);
        // An own message that comes back from a peer stays one of this node's, to be sent again after a start.
        if message.own || table.get(key)?.is_none() {
            table.insert(key, bytes.as_slice())?;
        }
    }
    let oldest = newest.saturating_sub(SLOTS_KEPT);
    table.retain_in((0, &[0; 32])..(oldest, &[0; 32]), |_, _| false)?;
    Ok(())
}

/// The messages of earlier runs, newest slots first, at most [`RESTORED_BYTES_MAX`].
pub(crate) fn read(database: &Database) -> Result<Vec<Kept>, redb::Error> {
    let txn = database.begin_read()?;
    let table = txn.open_table(MESSAGES)?;
    let (mut messages, mut bytes) = (Vec::new(), 0);
    for entry in table.range::<(u64, &[u8; 32])>(..)?.rev() {
        let (key, value) = entry?;
        bytes += value.value().len();
        if bytes > RESTORED_BYTES_MAX {
            break;
        }
        messages.extend(decode(Slot(key.value().0), value.value()));
    }
    Ok(messages)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alphorn_proto::wire::Topic;
    use alphorn_types::{Cell, Unit};
    use redb::backends::InMemoryBackend;

    fn store() -> Database {
        let database = Database::builder().create_with_backend(InMemoryBackend::new());
        let database = database.unwrap();
        commit(&database, open);
        database
    }

    fn commit(
        database: &Database,
        work: impl FnOnce(&WriteTransaction) -> Result<(), redb::Error>,
    ) {
        let txn = database.begin_write().unwrap();
        work(&txn).unwrap();
        txn.commit().unwrap();
    }

    fn vote(slot: u64, tag: u8, own: bool) -> Kept {
        let cell = Cell {
            committee: 3,
            subcommittee: u16::from(tag),
        };
        Kept {
            slot: Slot(slot),
            topic: Topic::Vote { cell },
            data: Bytes::from([tag; 9].as_slice()),
            own,
        }
    }

    fn aggregate(slot: u64, committee: u16) -> Kept {
        Kept {
            slot: Slot(slot),
            topic: Topic::Aggregate {
                unit: Unit::new(2, committee, 0),
            },
            data: Bytes::from([7; 40].as_slice()),
            own: false,
        }
    }

    #[test]
    fn messages_come_back_once_each_and_the_old_ones_are_dropped() {
        let database = store();
        assert_eq!(read(&database).unwrap(), []);
        let first = [
            vote(4, 1, true),
            vote(5, 2, false),
            aggregate(5, 0),
            // The same bytes on another topic are another message.
            aggregate(5, 9),
        ];
        commit(&database, |txn| put(txn, &first));
        let received = vote(4, 1, false);
        commit(&database, |txn| put(txn, &[first[1].clone(), received]));
        let sorted = |mut all: Vec<Kept>| {
            all.sort_by_key(|kept| (kept.slot, kept.topic));
            all
        };
        assert_eq!(
            sorted(read(&database).unwrap()),
            sorted(first.to_vec()),
            "nothing twice"
        );
        commit(&database, |txn| put(txn, &[vote(7, 3, false)]));
        let left = read(&database).unwrap();
        assert_eq!(left[0], vote(7, 3, false), "the newest slot first");
        assert_eq!(
            sorted(left),
            sorted([&first[1..], &[vote(7, 3, false)]].concat())
        );
    }

    #[test]
    fn a_start_brings_back_a_bounded_part() {
        let database = store();
        let large = |slot, committee| Kept {
            data: Bytes::from(vec![0; RESTORED_BYTES_MAX / 2 - 100].as_slice()),
            ..aggregate(slot, committee)
        };
        commit(&database, |txn| {
            put(txn, &[large(1, 0), large(2, 0), large(2, 1)])
        });
        let back = read(&database).unwrap();
        let slots: Vec<u64> = back.iter().map(|kept| kept.slot.0).collect();
        assert_eq!(slots, [2, 2]);
    }

    #[test]
    fn other_bytes_are_no_message() {
        let good = encode(&vote(4, 1, true));
        assert_eq!(decode(Slot(4), &good), Some(vote(4, 1, true)));
        for (at, byte) in [(0, 2), (1, 4)] {
            let mut bad = good.clone();
            bad[at] = byte;
            assert_eq!(decode(Slot(4), &bad), None, "{at}: {byte}");
        }
        assert_eq!(decode(Slot(4), &good[..5]), None);
    }
}
