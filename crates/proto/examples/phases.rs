//! Who sits where and what happens when: `cargo run -p alphorn-proto --example phases -- 1048576`.

use alphorn_proto::slot::{Phase, Timing};
use alphorn_types::Layout;
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let validators = std::env::args()
        .nth(1)
        .map_or(Ok(1 << 20), |text| text.parse())?;
    let layout = Layout::default_for(validators, None)?;
    println!(
        "{validators} validators: {} committees of {} cells",
        layout.committees(),
        layout.subcommittees()
    );
    for (name, timing) in Timing::PRESETS {
        let at = |phase: Phase| timing.offsets_ms()[phase as usize];
        println!(
            "{name:<8} votes at {} ms, aggregates at {}, collections at {}, end of the slot at {}",
            at(Phase::Vote),
            at(Phase::Aggregate),
            at(Phase::Collect),
            timing.slot_ms()
        );
    }
    Ok(())
}
