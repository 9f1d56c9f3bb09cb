//! What it takes a machine to handle a collection of 2^15 positions: decoded by this machine, or known to
//! the store that it shares with others.
//!
//! ```text
//! cargo run --release -p alphorn-proto --example handle
//! ```
#![forbid(unsafe_code)]
#![allow(
    clippy::disallowed_types,
    reason = "it measures; the machines have no clock"
)]

#[path = "../tests/memory/world.rs"]
mod world;

use alphorn_proto::horn::{Horn, Store};
use alphorn_proto::wire::Topic;
use alphorn_scheme::Bytes;
use std::sync::Arc;
use std::time::Instant;
use world::{World, tell};

/// Microseconds for each collection of the slot, the median and the mean.
fn collections(world: &World, horn: &mut Horn, copy: bool) -> (f64, f64) {
    let mut times = Vec::new();
    for (token, (at, topic, data)) in (0..).zip(&world.messages) {
        if *topic == Topic::Collection {
            let data = if copy {
                Bytes::from(data.to_vec())
            } else {
                data.clone()
            };
            let begin = Instant::now();
            tell(horn, *at, token, *topic, data);
            times.push(begin.elapsed().as_secs_f64() * 1e6);
        }
    }
    times.sort_by(f64::total_cmp);
    let mean = times.iter().sum::<f64>() / times.len() as f64;
    (times[times.len() / 2], mean)
}

fn main() {
    let mut world = World::new();
    let store = Arc::<Store>::default();
    let mut first = world.machine(&store);
    world.hear(&mut first, false);
    let cases = [
        ("decoded by the machine", Arc::default(), false),
        ("known, the same allocation", store.clone(), false),
        ("known, other bytes", store, true),
    ];
    println!("a collection that is                median us   mean us");
    for (name, store, copy) in cases {
        let mut horn = world.machine(&store);
        let at = world.messages[world.messages.len() - 2].0;
        world.pass(&mut horn, at);
        let (median, mean) = collections(&world, &mut horn, copy);
        println!("{name:34} {median:10.2} {mean:9.2}");
    }
}
