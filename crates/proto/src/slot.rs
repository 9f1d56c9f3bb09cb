//! Phases and deadlines of a slot.
//!
//! A slot has three phases plus one per level of evidence: propose, vote, the levels bottom-up, decide. With two
//! levels, Horn's proposal gives the first four phases the length of today's Ethereum rounds and the collections ten
//! seconds; faster presets show the benefit of shorter verification. If the last offset equals the slot length,
//! *decide* runs at the instant at which the next slot begins, before that slot's *propose*.

use std::fmt;
use std::str::FromStr;

use alphorn_types::{LEVELS_MAX, Slot, Time};
use thiserror::Error;

/// Number of phases of a slot, not counting the levels.
const PHASES_FIXED: usize = 3;

/// Maximum number of phases of a slot.
pub(crate) const PHASES_MAX: usize = PHASES_FIXED + LEVELS_MAX as usize;

/// Maximum slot length in milliseconds: a day.
pub(crate) const SLOT_MS_MAX: u64 = 86_400_000;

/// Nanoseconds per millisecond.
const NS_PER_MS: u64 = 1_000_000;

/// A phase, which starts at an offset within the slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    /// The proposer publishes a block with collections from earlier slots.
    Propose,
    /// Every validator votes.
    Vote,
    /// Evidence of a level is produced and published, starting at level 1.
    Level(u8),
    /// The work of the slot is over. Late results are salvaged from here on.
    Decide,
}

impl Phase {
    /// The phases of a slot with this many levels, in order.
    pub fn all(levels: u8) -> impl DoubleEndedIterator<Item = Self> {
        let levels = (1..=levels).map(Self::Level);
        let first = [Self::Propose, Self::Vote].into_iter();
        first.chain(levels).chain([Self::Decide])
    }

    /// Name in traces, metrics and logs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Propose => "propose",
            Self::Vote => "vote",
            Self::Level(0 | 1) => "aggregate",
            Self::Level(2) => "collect",
            Self::Level(3) => "collect_3",
            Self::Level(_) => "collect_4",
            Self::Decide => "decide",
        }
    }

    /// Its index in a slot with this many levels.
    const fn index(self, levels: u8) -> usize {
        match self {
            Self::Propose => 0,
            Self::Vote => 1,
            Self::Level(level) => 1 + level as usize,
            Self::Decide => 2 + levels as usize,
        }
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Why a slot timing is invalid.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TimingError {
    /// The slot length is zero or too long.
    #[error("slot of {value} ms, must be 1 to {max}")]
    SlotLength {
        /// The requested length in milliseconds.
        value: u64,
        /// The maximum legal length.
        max: u64,
    },
    /// The first phase does not start with the slot.
    #[error("offset of propose = {value} ms, must be 0")]
    FirstOffset {
        /// The requested offset in milliseconds.
        value: u64,
    },
    /// A phase does not start after the previous one.
    #[error("offset of {phase} = {value} ms, must be above {previous}")]
    NotAscending {
        /// The phase.
        phase: Phase,
        /// Its offset in milliseconds.
        value: u64,
        /// The offset of the previous phase.
        previous: u64,
    },
    /// The last phase starts after the end of the slot.
    #[error("offset of decide = {value} ms, must be at most the slot's {max}")]
    LastOffset {
        /// The requested offset in milliseconds.
        value: u64,
        /// The slot length.
        max: u64,
    },
    /// Too few or too many offsets.
    #[error("{value} offsets, must be {min} to {max}: propose, vote, one for each level, decide")]
    Count {
        /// The number given.
        value: usize,
        /// The minimum legal number.
        min: usize,
        /// The maximum legal number.
        max: usize,
    },
    /// Text that is neither the name of a preset nor a custom timing.
    #[error(
        "unknown slot timing {text:?}, must be lean, horn, fast16, beacon, slow, today, horn-pq or \
         custom:SLOT_MS:OFFSET_MS,OFFSET_MS,..."
    )]
    Unknown {
        /// The text.
        text: String,
    },
}

/// The length of a slot and the offsets of its phases, in milliseconds.
///
/// Its text form is the name of a preset, or `custom:22000:0,4000,8000,12000,22000`. There are as many offsets as
/// phases.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Timing {
    slot_ms: u64,
    levels: u8,
    /// Entries beyond the last phase are 0.
    offsets_ms: [u64; PHASES_MAX],
}

impl Timing {
    /// Five intervals of 800 ms, as in lean consensus.
    pub const LEAN: Self = Self::preset(4_000, &[0, 800, 1_600, 2_400, 3_200]);
    /// Horn's proposal: three rounds of 4 s, then 10 s for the collections.
    pub const HORN: Self = Self::preset(22_000, &[0, 4_000, 8_000, 12_000, 22_000]);
    /// Horn with 4 s for the collections.
    pub const FAST16: Self = Self::preset(16_000, &[0, 4_000, 8_000, 12_000, 16_000]);
    /// Today's slot length, for comparison.
    pub const BEACON: Self = Self::preset(12_000, &[0, 4_000, 8_000, 10_000, 12_000]);
    /// For recursive provers on small hosts.
    pub const SLOW: Self = Self::preset(12_000, &[0, 2_000, 4_000, 7_000, 11_000]);
    /// Today's slot: one level, whose evidence is sent to every node.
    pub(crate) const TODAY: Self = Self::preset(12_000, &[0, 4_000, 8_000, 12_000]);
    /// Three levels of merging proofs.
    pub(crate) const HORN_PQ: Self =
        Self::preset(24_000, &[0, 4_000, 8_000, 12_000, 16_000, 24_000]);

    /// The presets by name.
    pub const PRESETS: [(&'static str, Self); 7] = [
        ("lean", Self::LEAN),
        ("horn", Self::HORN),
        ("fast16", Self::FAST16),
        ("beacon", Self::BEACON),
        ("slow", Self::SLOW),
        ("today", Self::TODAY),
        ("horn-pq", Self::HORN_PQ),
    ];

    const fn preset(slot_ms: u64, offsets: &[u64]) -> Self {
        let mut offsets_ms = [0; PHASES_MAX];
        let mut i = 0;
        while i < offsets.len() {
            offsets_ms[i] = offsets[i];
            i += 1;
        }
        Self {
            slot_ms,
            levels: (offsets.len() - PHASES_FIXED) as u8,
            offsets_ms,
        }
    }

    /// A slot of `slot_ms` whose phases start at `offsets_ms`: three plus one per level.
    ///
    /// # Errors
    ///
    /// If the slot is not 1 to `SLOT_MS_MAX` long, no layout has as many levels as there are offsets, the first offset
    /// is not 0, the offsets do not ascend, or the last one is after the end of the slot.
    pub fn custom(slot_ms: u64, offsets_ms: &[u64]) -> Result<Self, TimingError> {
        if !(1..=SLOT_MS_MAX).contains(&slot_ms) {
            return Err(TimingError::SlotLength {
                value: slot_ms,
                max: SLOT_MS_MAX,
            });
        }
        let (min, max) = (PHASES_FIXED + 1, PHASES_MAX);
        let value = offsets_ms.len();
        if !(min..=max).contains(&value) {
            return Err(TimingError::Count { value, min, max });
        }
        if offsets_ms[0] != 0 {
            return Err(TimingError::FirstOffset {
                value: offsets_ms[0],
            });
        }
        // Only after the count is known to be legal, which `preset` relies on.
        let timing = Self::preset(slot_ms, offsets_ms);
        for (phase, pair) in timing.phases().skip(1).zip(offsets_ms.windows(2)) {
            let (previous, value) = (pair[0], pair[1]);
            if value <= previous {
                return Err(TimingError::NotAscending {
                    phase,
                    value,
                    previous,
                });
            }
        }
        let last = offsets_ms[value - 1];
        if last > slot_ms {
            return Err(TimingError::LastOffset {
                value: last,
                max: slot_ms,
            });
        }
        Ok(timing)
    }

    /// A preset with a phase for each of this many levels. With four levels, each has 4 s.
    pub const fn default_for(levels: u8) -> Self {
        match levels {
            1 => Self::TODAY,
            2 => Self::HORN,
            3 => Self::HORN_PQ,
            _ => Self::preset(28_000, &[0, 4_000, 8_000, 12_000, 16_000, 20_000, 28_000]),
        }
    }

    /// Number of evidence levels that have a phase.
    pub const fn levels(&self) -> u8 {
        self.levels
    }

    /// The phases in order.
    pub fn phases(&self) -> impl DoubleEndedIterator<Item = Phase> + use<> {
        Phase::all(self.levels)
    }

    /// Length of the slot in milliseconds.
    pub const fn slot_ms(&self) -> u64 {
        self.slot_ms
    }

    /// Offsets of the phases in milliseconds, in the order of [`phases`](Self::phases).
    pub fn offsets_ms(&self) -> &[u64] {
        &self.offsets_ms[..PHASES_FIXED + usize::from(self.levels)]
    }

    /// Offset of a phase in milliseconds.
    ///
    /// # Panics
    ///
    /// If the slot has no such level.
    pub fn offset_ms(&self, phase: Phase) -> u64 {
        self.offsets_ms()[phase.index(self.levels)]
    }

    /// Name of the preset; none if the timing is not a preset.
    pub fn preset_name(&self) -> Option<&'static str> {
        let is_self = |(_, timing): &&(&str, Self)| timing == self;
        Self::PRESETS.iter().find(is_self).map(|&(name, _)| name)
    }
}

impl fmt::Display for Timing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(name) = self.preset_name() {
            return f.write_str(name);
        }
        let offsets: Vec<String> = self.offsets_ms().iter().map(u64::to_string).collect();
        write!(f, "custom:{}:{}", self.slot_ms, offsets.join(","))
    }
}

impl FromStr for Timing {
    type Err = TimingError;

    fn from_str(text: &str) -> Result<Self, TimingError> {
        if let Some((_, timing)) = Self::PRESETS.iter().find(|(name, _)| *name == text) {
            return Ok(*timing);
        }
        let unknown = || TimingError::Unknown {
            text: text.chars().take(80).collect(),
        };
        let number = |s: &str| s.parse::<u64>().map_err(|_| unknown());
        let custom = text.strip_prefix("custom:").ok_or_else(unknown)?;
        let (slot_ms, offsets) = custom.split_once(':').ok_or_else(unknown)?;
        let offsets_ms: Vec<u64> = offsets.split(',').map(number).collect::<Result<_, _>>()?;
        Self::custom(number(slot_ms)?, &offsets_ms)
    }
}

/// The start of one phase of one slot; ordered by time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Boundary {
    /// The slot.
    pub slot: Slot,
    /// The phase that starts.
    pub phase: Phase,
}

impl Boundary {
    /// The first boundary: the proposal of slot 0.
    pub(crate) const GENESIS: Self = Self {
        slot: Slot(0),
        phase: Phase::Propose,
    };
}

/// Conversion between slots, phases and points in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotClock {
    genesis: Time,
    timing: Timing,
    slot_ns: u64,
}

impl SlotClock {
    /// Creates a clock whose slot 0 starts at `genesis`.
    pub fn new(genesis: Time, timing: Timing) -> Self {
        // At most a day, which is 8.64e13 ns.
        Self {
            genesis,
            slot_ns: timing.slot_ms * NS_PER_MS,
            timing,
        }
    }

    /// Length of a slot in nanoseconds.
    pub const fn slot_ns(&self) -> u64 {
        self.slot_ns
    }

    /// Lengths of the slot and its phases.
    pub const fn timing(&self) -> &Timing {
        &self.timing
    }

    fn offset_ns(&self, phase: Phase) -> u64 {
        self.timing.offset_ms(phase) * NS_PER_MS
    }

    /// The boundary after this one. A role steps through boundaries with this method and never by time alone, so that
    /// it sees both *decide* and the next slot's *propose* if they coincide.
    pub fn after(&self, boundary: Boundary) -> Boundary {
        // The variants of `Phase` are declared in order of time.
        let mut later = self.timing.phases().filter(|phase| *phase > boundary.phase);
        match later.next() {
            Some(phase) => Boundary { phase, ..boundary },
            None => Boundary {
                slot: boundary.slot.next(),
                phase: Phase::Propose,
            },
        }
    }

    /// The slot that contains `time`; none before genesis.
    pub fn slot_at(&self, time: Time) -> Option<Slot> {
        (time >= self.genesis).then(|| Slot(time.since_ns(self.genesis) / self.slot_ns))
    }

    /// The slot and phase that contain `time`; none before genesis. If one slot's *decide* and the next slot's
    /// *propose* coincide, that instant belongs to *propose*.
    pub fn phase_at(&self, time: Time) -> Option<Boundary> {
        let slot = self.slot_at(time)?;
        let offset_ns = time.since_ns(self.genesis) % self.slot_ns;
        // The remainder is less than a slot, so a *decide* at its very end is never found here.
        let begun = |phase: &Phase| self.offset_ns(*phase) <= offset_ns;
        let phase = self.timing.phases().rev().find(begun)?;
        Some(Boundary { slot, phase })
    }

    /// Start of `slot`; [`Time::MAX`], which is never reached, if it is out of range.
    pub fn slot_start(&self, slot: Slot) -> Time {
        match slot.0.checked_mul(self.slot_ns) {
            Some(ns) => self.genesis.saturating_add_ns(ns),
            None => Time::MAX,
        }
    }

    /// Start of `phase` in `slot`; [`Time::MAX`] if it is out of range.
    ///
    /// # Panics
    ///
    /// If the slot has no such level.
    pub fn phase_start(&self, slot: Slot, phase: Phase) -> Time {
        self.slot_start(slot)
            .saturating_add_ns(self.offset_ns(phase))
    }

    /// Time of `boundary`; [`Time::MAX`] if it is out of range.
    pub fn start(&self, boundary: Boundary) -> Time {
        self.phase_start(boundary.slot, boundary.phase)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clock() -> SlotClock {
        SlotClock::new(Time::from_millis(1_000), Timing::HORN)
    }

    #[test]
    fn presets_are_valid_and_named() {
        for (name, timing) in Timing::PRESETS {
            assert_eq!(
                timing,
                Timing::custom(timing.slot_ms, timing.offsets_ms()).unwrap()
            );
            assert_eq!(name.parse(), Ok(timing));
            assert_eq!(timing.to_string(), name);
        }
    }

    #[test]
    fn custom_timings_round_trip_as_text() {
        for (offsets, levels) in [(&[0, 1, 2, 4_999][..], 1), (&[0, 1, 2, 3, 4, 5, 4_999], 4)] {
            let timing = Timing::custom(5_000, offsets).unwrap();
            assert_eq!(timing.levels(), levels);
            assert_eq!(timing.to_string().parse(), Ok(timing));
            assert_eq!(timing.preset_name(), None);
        }
        let timing = Timing::custom(5_000, &[0, 1, 2, 3, 4_999]).unwrap();
        assert_eq!(timing.to_string(), "custom:5000:0,1,2,3,4999");
        let names: Vec<&str> = timing.phases().map(Phase::name).collect();
        assert_eq!(names, ["propose", "vote", "aggregate", "collect", "decide"]);
    }

    #[test]
    fn timings_that_are_none_are_refused_by_name() {
        let build = Timing::custom;
        assert_eq!(
            build(0, &[0; 5]),
            Err(TimingError::SlotLength {
                value: 0,
                max: SLOT_MS_MAX
            })
        );
        assert_eq!(
            build(10, &[1, 2, 3, 4, 5]),
            Err(TimingError::FirstOffset { value: 1 })
        );
        assert_eq!(
            build(10, &[0, 2, 2, 4, 5]),
            Err(TimingError::NotAscending {
                phase: Phase::Level(1),
                value: 2,
                previous: 2
            })
        );
        assert_eq!(
            build(10, &[0, 2, 3, 4, 11]),
            Err(TimingError::LastOffset { value: 11, max: 10 })
        );
        let count = |value| {
            Err(TimingError::Count {
                value,
                min: 4,
                max: 7,
            })
        };
        assert_eq!(build(10, &[0, 1, 2]), count(3));
        assert_eq!(build(10, &[0, 1, 2, 3, 4, 5, 6, 7]), count(8));
        for text in ["", "Horn", "custom", "custom:", "custom:5:0,1,,3"] {
            let unknown = TimingError::Unknown { text: text.into() };
            assert_eq!(text.parse::<Timing>(), Err(unknown), "{text}");
        }
    }

    #[test]
    fn slots_and_phases_of_a_time() {
        let clock = clock();
        assert_eq!(clock.slot_at(Time::from_millis(999)), None);
        assert_eq!(clock.phase_at(Time::from_millis(999)), None);
        for slot in [Slot(0), Slot(1), Slot(1 << 20)] {
            for phase in Phase::all(2) {
                let start = clock.phase_start(slot, phase);
                let expected = match phase {
                    Phase::Decide => Boundary {
                        slot: slot.next(),
                        phase: Phase::Propose,
                    },
                    phase => Boundary { slot, phase },
                };
                assert_eq!(clock.phase_at(start), Some(expected));
                let before = clock.phase_at(start.saturating_sub_ns(1));
                assert!(before < Some(expected));
            }
        }
    }

    #[test]
    fn decide_inside_the_slot_is_a_phase_of_its_own() {
        let clock = SlotClock::new(Time::ZERO, Timing::LEAN);
        let at = |ms| clock.phase_at(Time::from_millis(ms)).unwrap();
        assert_eq!(at(3_199).phase, Phase::Level(2));
        assert_eq!(at(3_200).phase, Phase::Decide);
        assert_eq!(
            at(4_000),
            Boundary {
                slot: Slot(1),
                phase: Phase::Propose
            }
        );
    }

    #[test]
    fn far_slots_never_come_and_never_overflow() {
        let clock = clock();
        assert_eq!(clock.phase_start(Slot(u64::MAX), Phase::Decide), Time::MAX);
        let last = clock.phase_at(Time::MAX).unwrap();
        assert!(last.slot > Slot(0));
        assert_eq!(clock.start(clock.after(last)), Time::MAX);
    }
}
