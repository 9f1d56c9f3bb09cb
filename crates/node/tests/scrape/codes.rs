//! Blocks in coded pieces, over real connections and on real lanes.

use crate::rig::{Way, wait, with_two_in};
use alphorn_broadcast::rlnc::{Generators, KERNELS, Strategy};
use alphorn_node::cast::{Code, Counts, ELEMENTS, Settings};

/// Blocks that each node gets from the other one.
const BLOCKS: u64 = 2;

#[test]
fn blocks_come_in_the_code_of_the_network() {
    let generators = Generators::new(KERNELS.measured(), ELEMENTS);
    for code in [Code::Rs, Code::Rlnc(generators)] {
        let strategy = code.strategy();
        let way = Way {
            code,
            settings: Settings { above_bytes: 0 },
            behind: std::time::Duration::ZERO,
        };
        let [mine, other] = with_two_in(&way, |nodes| {
            wait("a block of each node", || {
                let both = [0, 1].map(|at: usize| nodes[at].summary.borrow().clone());
                let has = |counts: &Counts| counts.delivered >= BLOCKS;
                let is_there = both.iter().all(|one| has(&one.broadcasts));
                is_there.then_some(both)
            })
        });
        for summary in [&mine, &other] {
            let counts = &summary.broadcasts;
            assert_eq!(counts.sources_blamed, 0, "{strategy:?}: {counts:?}");
            assert!(counts.published >= 1, "{strategy:?}: {counts:?}");
            assert!(counts.frames[0] > counts.delivered, "{counts:?}");
            assert!(summary.reports.is_empty(), "{:?}", summary.reports);
            let decoded = match strategy {
                Strategy::Rs => "rs_decode",
                Strategy::Rlnc => "rlnc_decode",
            };
            assert!(
                summary.jobs.contains_key(decoded),
                "{:?}",
                summary.jobs.keys()
            );
        }
    }
}
