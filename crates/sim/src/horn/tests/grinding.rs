//! The mix of an epoch is a digest of one block. Its proposer may try as many bodies as it has time for, and takes
//! the one with which most of its validators collect. Blocks are proposed in turn, whatever the mix.

use super::*;
use alphorn_proto::horn::{committee, selection};
use alphorn_proto::wire::{Header, digest};
use alphorn_types::{Epoch, Layout, Unit};

const COLLECTORS: u32 = 16;
const EPOCH: Epoch = Epoch(2);

/// How many of the first validators collect under the mix of a block's body, for each unit in a slot.
fn seats(layout: Layout, ours: u32, body: u32, posts: &[(Slot, Unit)]) -> Vec<u32> {
    let mut header = Header {
        slot: Slot(31),
        proposer: Validator(31),
        ..Header::default()
    };
    header.body[..4].copy_from_slice(&body.to_be_bytes());
    let mix = digest::epoch_mix(EPOCH, &header.root());
    let assignment = committee::assignment(EPOCH, &mix, layout);
    let seed = digest::epoch_seed(EPOCH, &mix);
    let of = |&(slot, unit): &(Slot, Unit)| {
        let first = layout.unit_range(unit).start;
        let ranked = selection::ranked(&seed, slot, unit, &layout, COLLECTORS);
        let members = ranked.iter().map(|at| assignment.member(first + at).0);
        members.filter(|validator| *validator < ours).count() as u32
    };
    posts.iter().map(of).collect()
}

#[test]
fn who_tries_many_mixes_collects_in_one_chosen_committee_and_hardly_more_in_all() {
    let layout = Layout::new(512, 2, 4).unwrap();
    let ours = 512 / 3;
    let chosen = [(Slot(64), layout.committee(0))];
    let tries: Vec<u32> = (0..2048)
        .map(|body| seats(layout, ours, body, &chosen)[0])
        .collect();
    let mean = f64::from(tries.iter().sum::<u32>()) / tries.len() as f64;
    assert!((5.0..5.7).contains(&mean), "{mean}");
    let best = |of: usize| tries[..of].iter().max().copied().unwrap();
    let bests = [best(1), best(16), best(256), best(2048)];
    // A third of sixteen is five; of independent draws, one in 260 gives eleven.
    assert!(bests[2] >= 10 && bests[3] >= 11, "{bests:?}");
    let all: Vec<(Slot, Unit)> = (64..96)
        .flat_map(|slot| layout.units(2).map(move |unit| (Slot(slot), unit)))
        .collect();
    let sums: Vec<u32> = (0..32)
        .map(|body| seats(layout, ours, body, &all).iter().sum())
        .collect();
    let most = sums.iter().max().copied().unwrap();
    assert!(most < 64 * COLLECTORS * 2 / 5, "{most}");
}
