//! Complete protocols as data: levels, phases, publishers.

use alphorn_types::Layout;

use super::{Config, Publish, SchemeInfo};
use crate::slot::Timing;

/// A protocol: the number of levels of evidence, how they divide the validators, which of them publish,
/// and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preset {
    /// The name.
    pub name: &'static str,
    /// Committees per slot.
    pub committees: u16,
    /// Number of units of the next lower level in each unit, from the top down. There is one more level
    /// than there are numbers.
    pub fan_out: &'static [u16],
    /// The slot and its phases.
    pub timing: Timing,
    /// Expected publishers of a unit at each level, from level 1.
    pub publishers: &'static [u16],
    /// Which of them publish.
    pub publish: Publish,
    /// Under [`Publish::Staged`], the wait between two ranks at each level, from level 1, in
    /// milliseconds.
    pub stage_ms: &'static [u64],
    /// Whether one piece of evidence proves all collections of a block, if the scheme can make it.
    pub bundled: bool,
}

impl Preset {
    /// Three levels of proofs that merge.
    pub const HORN_PQ: Self = Self {
        name: "horn-pq",
        committees: 32,
        // As many parts as one proof merges. 32 committees add two more levels of such bundles.
        fan_out: &[7, 7],
        timing: Timing::HORN_PQ,
        publishers: &[4, 4, 4],
        publish: Publish::Staged,
        // A proof of a committee takes a second or more to reach all nodes. Ranks that follow sooner send
        // theirs too, and nearly double the traffic a node receives.
        stage_ms: &[150, 150, 1_500],
        bundled: true,
    };

    /// All protocols, by name.
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
        // Every validator votes in each slot, and every aggregate goes to all nodes.
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

    /// Returns the preset with a given name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|preset| preset.name == name)
    }

    /// Its layout for this many validators, the ones that vote in a slot.
    ///
    /// # Errors
    ///
    /// If no layout has this many.
    #[cfg(test)]
    pub(super) fn layout(&self, validators: u32) -> Result<Layout, alphorn_types::LayoutError> {
        Layout::with_fan_out(validators, self.committees, self.fan_out)
    }

    /// Its configuration on a layout, with the scheme's defaults for everything else.
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
