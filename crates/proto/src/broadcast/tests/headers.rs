//! Signed headers of scheduled sources that cost others more than their duty is worth.

use super::attacks::POLICY;
use super::net::{Net, SUBJECT, config, payload};
use crate::broadcast::{Message, Reject};
use crate::rlnc::{Coding, Cut, Model16, ModelRs};

/// A header of the payload in this cut, in bytes and as the simulator has it: it opens nothing.
fn is_refused<C: Coding>(code: C, cut: Cut) {
    let mut net = Net::new(code, config(POLICY), 2, 1, 1);
    let published = net.code.publish(SUBJECT, &payload(10_000), cut).unwrap();
    let message = Message::Header(net.announce(&published));
    let bytes = message.encode(&net.code, &published.header);
    if net.code.anchors(&published.header) == 1 {
        assert_eq!(net.nodes[0].decode(&bytes).err(), Some(Reject::BadLength));
    }
    net.receive(0, 1, message);
    net.run_ms(1);
    assert_eq!(net.nodes[0].live_count() + net.nodes[0].waiting_count(), 0);
    assert_eq!(net.reports, [(0, 1, Reject::BadLength)]);
}

/// A burst of pieces that are as long as the payload would take a whole uplink for seconds.
#[test]
fn payloads_are_cut_by_the_policy_of_the_network() {
    for (chunks, shards_total) in [(1, 1024), (8, 64), (7, 32)] {
        let cut = Cut {
            chunks,
            shards_total,
            generations: 1,
        };
        is_refused(ModelRs::new(1 << 20), cut);
    }
    for (chunks, generations) in [(1, 16), (1, 1), (8, 2)] {
        let cut = Cut {
            chunks,
            shards_total: 0,
            generations,
        };
        is_refused(Model16::new(1 << 20), cut);
    }
}
