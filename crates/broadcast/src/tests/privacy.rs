//! What the first piece from a neighbour reveals about it.

use super::attacks::star_of;
use super::net::{Net, SUBJECT, config, payload};
use crate::rlnc::{Coding, Model16};
use crate::{CHUNK_BYTES_MAX, Config, Input, Message, Policy, SourcePrivacy};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

const POLICY: Policy = Policy {
    chunks: 32,
    chunk_bytes_max: CHUNK_BYTES_MAX,
    burst: [12, 12, 8],
    credit_milli: 0,
    push_pct: 0,
    source_pieces: 40,
    headers: 0,
    source_run: 1,
    gather_ns: 0,
    feedback: true,
};
const BROADCASTS: u64 = 40;

/// What a neighbour can read in a first piece: hop, rank of the sender, size in bytes (hence the width of
/// coefficients).
type Fields = (u8, u16, u64);

/// The fields of the first pieces sent by the source, and by relays that had only one piece.
fn first_pieces(source_privacy: SourcePrivacy, seed: u64) -> (Vec<Fields>, Vec<Fields>) {
    let config = Config {
        source_privacy,
        ..config(POLICY)
    };
    let code = Model16::new(1 << 20);
    let mut net = Net::new(code.clone(), config, 30, 10, seed);
    net.publish(0, payload(50_000));
    net.run_ms(2_000);
    assert_eq!(net.delivered(&vec![0; 50_000]), 29);
    let cut = POLICY.cut(code.strategy(), 50_000);
    let published = code.publish(SUBJECT, &payload(50_000), cut).unwrap();
    let id = net.seen[1].delivered[0].0;
    let (mut source, mut relays) = (Vec::new(), Vec::new());
    let mut heard = BTreeSet::new();
    for (from, to, piece) in &net.pieces {
        if !heard.insert((from, to)) {
            continue;
        }
        let (hop, rank) = code.hop_and_rank(piece);
        let bytes = Message::piece(&code, &published.header, id, piece.clone()).wire_bytes();
        if *from == 0 {
            source.push((hop, rank, bytes));
        } else if rank == 1 {
            relays.push((hop, rank, bytes));
        }
    }
    assert!(!source.is_empty() && !relays.is_empty());
    (source, relays)
}

/// Trap 19: without privacy every first piece identifies the source. When blended, it claims rank one in a row of eight
/// bits, like relays with one piece. If it also claims hop two, such relays of other broadcasts send exactly the same,
/// and a neighbour that takes every such sender for the source is wrong more often than not.
#[test]
fn trap_19_blended_first_pieces_are_those_of_relays() {
    let (mut hidden, mut shown) = (0, 0);
    let (mut by_sources, mut by_relays) = (0, 0);
    for seed in 0..BROADCASTS {
        let (source, relays) = first_pieces(SourcePrivacy::None, seed);
        assert!(source.iter().all(|&(hop, rank, _)| (hop, rank) == (1, 32)));
        assert!(relays.iter().all(|&(hop, ..)| hop > 1));

        let (source, relays) = first_pieces(SourcePrivacy::Blend, seed);
        let said = source[0];
        assert!(source.iter().all(|&fields| fields == said));
        assert_eq!(said.1, 1);
        let widths: BTreeSet<u64> = relays.iter().map(|&(.., bytes)| bytes).collect();
        assert!(widths.contains(&said.2), "a width that no relay sends");
        if said.0 == 1 {
            shown += 1;
        } else {
            hidden += 1;
            by_sources += source.len();
        }
        by_relays += relays
            .iter()
            .filter(|&&fields| fields == (2, 1, said.2))
            .count();
    }
    assert_eq!(hidden + shown, BROADCASTS);
    assert!((12..=28).contains(&hidden), "{hidden} of 40 hidden");
    assert!(
        by_relays > by_sources,
        "{by_sources} by sources, {by_relays} by relays"
    );
}

/// A neighbour claims to have everything before it can. A hiding source does not respond to that, as a relay would not,
/// and the neighbour receives nothing more. The source responds to the first that can have everything.
#[test]
fn a_false_done_does_not_have_the_source_answer() {
    let mut net = star_of(3, config(POLICY));
    let said: Rc<RefCell<Vec<usize>>> = Rc::default();
    let heard = said.clone();
    net.tamper[0] = Some(Box::new(move |to, message| {
        if matches!(message, Message::Done { .. }) {
            heard.borrow_mut().push(to);
        }
        false
    }));
    let (subject, payload) = (SUBJECT, payload(50_000));
    net.input(0, Input::Publish { subject, payload });
    // Committed and signed, with the first pieces in flight.
    net.run_until(net.now.saturating_add_ns(400_000));
    let id = net.nodes[0].live_ids().next().expect("it is signed");
    let sent = net.nodes[0].stats(&id).unwrap().sent;
    assert!((1..32).contains(&sent), "{sent} pieces");
    net.receive(0, 1, Message::Done { id });
    net.run_ms(1);
    assert!(said.borrow().is_empty());
    net.run_ms(200);
    assert!(net.nodes[0].stats(&id).unwrap().sent >= 32);
    net.receive(0, 2, Message::Done { id });
    assert_eq!(*said.borrow(), [3]);
}
