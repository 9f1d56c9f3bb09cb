//! How long the fork choice takes at 2^20 validators in 32 committees: `cargo run --release -p
//! alphorn-proto --example fork_choice`.
#![allow(
    clippy::disallowed_types,
    reason = "it measures; the machines have no clock"
)]

use alphorn_proto::chain::{BALLOTS_PER_COMMITTEE_MAX, Chain};
use alphorn_proto::horn::committee::assignment;
use alphorn_proto::wire::{Header, Root};
use alphorn_types::{Assignment, Bitfield, Epoch, Layout, Slot};
use std::time::{Duration, Instant};

const VALIDATORS: u32 = 1 << 20;
const COMMITTEES: u16 = 32;
const RUNS: usize = 101;

fn main() {
    let layout = Layout::new(VALIDATORS, COMMITTEES, 64).expect("a layout");
    let natural = (0..VALIDATORS).collect();
    let members = Assignment::new(Epoch(0), layout, natural).expect("a permutation");
    let drawn = assignment(Epoch(1), &[7; 32], layout);
    for ballots in [1, 16, BALLOTS_PER_COMMITTEE_MAX] {
        for (what, next) in [("one assignment", &members), ("an epoch's border", &drawn)] {
            let (mut chain, heads) = tree(layout, ballots);
            chain.set_slot(Slot(9));
            vote(&mut chain, &members, Slot(9), &heads);
            let after = median(|| std::hint::black_box(chain.head()));
            chain.set_slot(Slot(10));
            let started = Instant::now();
            vote(&mut chain, next, Slot(10), &heads);
            let casts = ballots as u32 * u32::from(COMMITTEES);
            let cast = started.elapsed() / casts;
            let both = median(|| std::hint::black_box(chain.head()));
            println!(
                "{ballots:>2} ballots, {what}: head after a slot {after:?}, after two {both:?}, \
                 a collection {cast:?}"
            );
        }
    }
}

/// Blocks beside each other.
fn tree(layout: Layout, count: usize) -> (Chain, Vec<Root>) {
    let mut chain = Chain::new([7; 32], layout, 32);
    let genesis = chain.head();
    let mut heads = Vec::new();
    for i in 0..count as u64 {
        let slot = Slot(1 + i / 16);
        let header = Header {
            slot,
            proposer: chain.proposer(slot),
            parent: genesis,
            body: [i as u8; 32],
        };
        chain.insert(header, &[]).expect("a block");
        heads.push(header.root());
    }
    (chain, heads)
}

/// Every validator votes for one of the heads.
fn vote(chain: &mut Chain, members: &Assignment, slot: Slot, heads: &[Root]) {
    let len = members.layout().committee_len(0) as usize;
    for (i, head) in heads.iter().enumerate() {
        let vote = chain.vote(slot, head).expect("a known head");
        let mut signers = Bitfield::new(len);
        (i..len)
            .step_by(heads.len())
            .for_each(|position| signers.set(position));
        for committee in 0..COMMITTEES {
            chain
                .add_votes(&vote, members, committee, &signers)
                .expect("room");
        }
    }
}

fn median<T>(mut run: impl FnMut() -> T) -> Duration {
    let mut times: Vec<Duration> = (0..RUNS)
        .map(|_| {
            let started = Instant::now();
            let _ = run();
            started.elapsed()
        })
        .collect();
    times.sort();
    times[RUNS / 2]
}
