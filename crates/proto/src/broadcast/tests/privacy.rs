//! What the first piece from a neighbour tells of it.

use super::net::{Net, config, payload};
use crate::broadcast::{Message, Policy, SourcePrivacy};
use crate::rlnc::{Coding, Model16};

const POLICY: Policy = Policy {
    chunks: 32,
    burst: [12, 12, 8],
    credit_milli: 0,
    source_pieces: 40,
};

/// Share of the source's neighbours that guess right who the source is, by a rule on the first
/// piece that comes: hop one, or more rank than a relay can have by then. Guessing, a rule that
/// accuses every first sender is right as often as the source is the first sender.
fn accused(source_privacy: SourcePrivacy, seed: u64) -> (usize, usize) {
    let config = crate::broadcast::Config {
        source_privacy,
        ..config(POLICY)
    };
    let code = Model16::new(1 << 20);
    let mut net = Net::new(code.clone(), config, 30, 10, seed);
    net.publish(0, payload(50_000));
    net.run_ms(2_000);
    assert_eq!(net.delivered(&vec![0; 50_000]), 29);
    let header = net.announce(
        &code
            .publish(
                super::net::SUBJECT,
                &payload(50_000),
                POLICY.cut(code.strategy(), 50_000),
            )
            .unwrap(),
    );
    let (mut from_source, mut caught) = (0, 0);
    let mut heard = vec![Vec::new(); 30];
    for (from, to, piece) in &net.pieces {
        if heard[*to].contains(from) {
            continue;
        }
        heard[*to].push(*from);
        let (hop, rank) = code.hop_and_rank(piece);
        let bytes = Message::piece(&code, &header.header, header.id, piece.clone()).wire_bytes();
        let widest = Message::piece(&code, &header.header, header.id, net.pieces[0].2.clone());
        // A relay of rank one is told from the source by nothing but a hop of one or a high rank.
        let suspicious = hop <= 1 || (rank == 32 && bytes <= widest.wire_bytes() && hop <= 2);
        if *from == 0 {
            from_source += 1;
            caught += usize::from(suspicious);
        }
    }
    (from_source, caught)
}

/// Trap 19: without privacy every first piece of the source names it; blended, a first piece says hop
/// one or two, rank one and a fresh row, and half of the broadcasts show nothing at all.
#[test]
fn trap_19_first_pieces_do_not_name_the_source() {
    let mut none = (0, 0);
    let mut blend = (0, 0);
    for seed in 0..40 {
        let (sent, caught) = accused(SourcePrivacy::None, seed);
        none = (none.0 + sent, none.1 + caught);
        let (sent, caught) = accused(SourcePrivacy::Blend, seed);
        blend = (blend.0 + sent, blend.1 + caught);
    }
    assert_eq!(none.0, none.1);
    let share = blend.1 as f64 / blend.0 as f64;
    assert!((0.2..0.8).contains(&share), "{share}");
}
