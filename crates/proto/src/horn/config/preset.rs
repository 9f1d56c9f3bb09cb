//! Whole protocols as data: levels, phases, publishers.

use alphorn_types::Layout;

use super::{Config, Publish, SchemeInfo};
use crate::slot::Timing;

/// A protocol: how many levels of evidence there are, how they divide the validators, who publishes,
/// and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preset {
    /// The name.
    pub name: &'static str,
    /// Committees of a slot.
    pub committees: u16,
    /// Units of the next lower level in each unit, from the top down; one level more than numbers.
    pub fan_out: &'static [u16],
    /// The slot and its phases.
    pub timing: Timing,
    /// Expected publishers of a unit of each level, from level 1.
    pub publishers: &'static [u16],
    /// Which of them publish.
    pub publish: Publish,
    /// Under [`Publish::Staged`]: the wait between two ranks at each level, from level 1, in milliseconds.
    pub stage_ms: &'static [u64],
    /// Whether one piece of evidence proves all collections of a block, where the scheme makes it.
    pub bundled: bool,
}

impl Preset {
    /// Three levels of proofs that merge.
    pub const HORN_PQ: Self = Self {
        name: "horn-pq",
        committees: 32,
        // As many parts as one proof merges; 32 committees are two levels of such bundles more.
        fan_out: &[7, 7],
        timing: Timing::HORN_PQ,
        publishers: &[4, 4, 4],
        publish: Publish::Staged,
        // A proof of a committee takes a second or more to reach everybody: ranks that follow sooner
        // send theirs too, and nearly double what a node receives.
        stage_ms: &[150, 150, 1_500],
        bundled: true,
    };

    /// The protocols by name.
    pub const ALL: [Self; 4] = [
        Self {
            name: "today",
            committees: 64,
            fan_out: &[],
            timing: Timing::TODAY,
            publishers: &[16],
            publish: Publish::All,
            stage_ms: &[150],
            bundled: false,
        },
        // Every validator votes in each slot, and every aggregate goes to everybody.
        Self {
            name: "strawman",
            committees: 2_048,
            fan_out: &[],
            timing: Timing::TODAY,
            publishers: &[16],
            publish: Publish::All,
            stage_ms: &[150],
            bundled: false,
        },
        Self {
            name: "horn",
            committees: 32,
            fan_out: &[64],
            timing: Timing::HORN,
            publishers: &[16, 16],
            publish: Publish::All,
            stage_ms: &[150, 150],
            bundled: false,
        },
        Self::HORN_PQ,
    ];

    /// The preset of a name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|preset| preset.name == name)
    }

    /// Its layout of so many validators, those who vote in a slot.
    ///
    /// # Errors
    ///
    /// If no layout has so many.
    #[cfg(test)]
    pub(super) fn layout(&self, validators: u32) -> Result<Layout, alphorn_types::LayoutError> {
        Layout::with_fan_out(validators, self.committees, self.fan_out)
    }

    /// Its configuration on a layout, with a scheme's defaults for the rest.
    pub fn config(&self, layout: Layout, info: &SchemeInfo) -> Config {
        let mut config = Config::new(layout, info);
        config.timing = self.timing;
        let settings = self.publishers.iter().zip(self.stage_ms);
        for (level, (&publishers, &stage_ms)) in config.levels.iter_mut().zip(settings) {
            level.publishers = publishers;
            level.publish = self.publish;
            level.stage_ms = stage_ms;
        }
        if self.bundled {
            config.bundle(info);
        }
        config
    }
}
