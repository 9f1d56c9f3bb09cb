//! Who sits where and what happens when: `cargo run -p alphorn-proto --example phases -- 1048576`.

use alphorn_proto::slot::Timing;
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
        let phases = timing.phases().zip(timing.offsets_ms());
        let phases: Vec<String> = phases
            .map(|(phase, at)| format!("{phase} at {at}"))
            .collect();
        println!("{name:<8} {} of {} ms", phases.join(", "), timing.slot_ms());
    }
    Ok(())
}
