//! Whole slots among honest machines.

use crate::net::{Kind, LISTS, LISTS_THEN_PROOF, Net, PROOFS, SUMS, config, share};
use alphorn_proto::horn::{Publish, Selection};
use alphorn_proto::slot::Phase;
use alphorn_types::{Layout, Slot};

/// Runs `slots` slots of `n` validators on `machines` machines and checks that each block holds
/// all votes of the slot before it.
fn complete(kind: Kind, layout: (u32, u16, u16), machines: u32, slots: u64, change: impl Fn(&mut alphorn_proto::horn::Config)) -> Net {
    let layout = Layout::new(layout.0, layout.1, layout.2).unwrap();
    let n = layout.validators();
    let (mut config, info) = config(kind, layout);
    config.selection = Selection::Rank;
    change(&mut config);
    let locals = (0..machines).map(|i| share(n, i, machines)).collect();
    let mut net = Net::new(kind, &config, &info, locals);
    for slot in 0..slots {
        let clock = *net.nodes[0].horn.clock();
        net.run_until(clock.phase_start(Slot(slot), Phase::Vote).saturating_sub_ns(1));
        for (i, node) in net.nodes.iter().enumerate() {
            let head = node.horn.head();
            assert_eq!(head, net.nodes[0].horn.head(), "machine {i} in slot {slot}");
            assert_eq!(node.horn.chain().header(&head).unwrap().slot, Slot(slot), "no block");
            for c in 0..layout.committees() {
                for before in 0..slot {
                    let credited = node.horn.chain().credited(&head, Slot(before), c);
                    assert_eq!(
                        credited.count_ones(),
                        layout.committee_len(c) as usize,
                        "machine {i}: committee {c} of slot {before} at the start of {slot}: {:?}",
                        node.horn.counters()
                    );
                }
            }
        }
    }
    assert_eq!(net.open_verdicts(), 0);
    net
}

#[test]
fn every_vote_is_in_the_next_block() {
    let net = complete(SUMS, (200, 2, 4), 5, 4, |_| ());
    assert!(net.reject_names().is_subset(&["subset"].into()), "{:?}", net.reject_names());
    let chain = net.nodes[0].horn.chain();
    assert_eq!(chain.justified().slot, Slot(2));
    assert_eq!(chain.finalised().slot, Slot(1));
}

#[test]
fn every_form_of_evidence_completes() {
    for kind in [SUMS, LISTS, LISTS_THEN_PROOF, PROOFS] {
        for publish in [Publish::All, Publish::Staged] {
            complete(kind, (100, 2, 3), 4, 3, |config| config.publish = publish);
        }
    }
}
