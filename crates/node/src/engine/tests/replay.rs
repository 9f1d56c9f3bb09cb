//! The same inputs give the same effects.

use super::*;
use crate::record::{Mark, Record, RecordError, Recorded, Replayed, replay};

const FIRST: Settings = Settings {
    first_slot: Slot(0),
    started: None,
    used: Slot(0),
    behind: BTreeMap::new(),
};

/// A record of node 0 among three for some slots, and its recorder's result.
fn recorded(folder: &std::path::Path) -> (Vec<u8>, Recorded) {
    let path = folder.join("record");
    let mut world = World::new();
    world.nodes[0].recorder = Some(Recorder::create(&path, b"header").unwrap());
    world.run_until(slot_start(40));
    let told = world.nodes[0].recorder.take().unwrap().finish();
    assert!(Recorder::create(&path, b"").is_err(), "never written over");
    (std::fs::read(path).unwrap(), told)
}

fn replayed(bytes: &[u8], index: u32) -> Result<Replayed, RecordError> {
    let record = Record::open(bytes)?;
    assert_eq!(record.header(), b"header");
    replay(record, horn(index, NODES, 4), FIRST)
}

#[test]
fn a_record_replays_to_the_same_effects_and_another_machine_to_others() {
    let folder = tempfile::tempdir().unwrap();
    let (bytes, told) = recorded(folder.path());
    let again = replayed(&bytes, 0).unwrap();
    assert!(told.whole);
    assert_eq!(again.mark.inputs, told.inputs);
    assert!(told.inputs > 2 * crate::record::MARK_INPUTS, "{told:?}");
    let hex: String = again
        .mark
        .outputs
        .iter()
        .map(|b| format!("{b:02x}"))
        .collect();
    assert_eq!(hex, told.outputs);
    assert_eq!((again.end, again.differs), (Some(again.mark), None));
    assert!(again.finalised_slot > 35, "{again:?}");
    // The first mark already shows that this is another node.
    let other = replayed(&bytes, 1).unwrap();
    let first: Option<Mark> = other.differs;
    assert_eq!(
        first.map(|mark| mark.inputs),
        Some(crate::record::MARK_INPUTS)
    );
}

#[test]
fn a_record_that_was_cut_replays_as_far_as_it_goes_and_a_changed_one_is_found_out() {
    let folder = tempfile::tempdir().unwrap();
    let (bytes, told) = recorded(folder.path());
    let half = replayed(&bytes[..bytes.len() / 2], 0).unwrap();
    assert!(half.mark.inputs > 0 && half.mark.inputs < told.inputs);
    assert_eq!((half.end, half.differs), (None, None));
    for at in (0..bytes.len()).step_by(bytes.len() / 20 + 1) {
        let mut changed = bytes.clone();
        changed[at] ^= 0x10;
        // Any change is found: by the digest at the end, or before it.
        let found = match Record::open(changed.as_slice()) {
            Err(_) => true,
            Ok(record) => match replay(record, horn(0, NODES, 4), FIRST) {
                Err(_) => true,
                Ok(again) => again.end.is_none() || again.differs.is_some(),
            },
        };
        assert!(found, "byte {at}");
    }
    assert!(matches!(
        Record::open(b"something else!!".as_slice()),
        Err(RecordError::Magic)
    ));
    let mut more = bytes.clone();
    more.extend([1, 0, 0, 0, 9]);
    assert!(matches!(replayed(&more, 0), Err(RecordError::Entry { .. })));
}

/// At the end of time slots have no end: the state machines would walk through them for ever.
#[test]
fn an_input_at_the_end_of_time_is_refused() {
    let mut bytes = crate::record::MAGIC.to_vec();
    let input = [[1].as_slice(), &u64::MAX.to_le_bytes(), &[2]].concat();
    for part in [b"header".as_slice(), &input] {
        bytes.extend((part.len() as u32).to_le_bytes());
        bytes.extend(part);
    }
    let refused = replayed(&bytes, 0).unwrap_err().to_string();
    let bound = (u64::MAX / 2).to_string();
    assert!(refused.contains(&bound), "{refused}");
    let last = bytes.len() - 2;
    bytes[last] = 0x7f;
    assert_eq!(replayed(&bytes, 0).unwrap().mark.inputs, 1);
}
