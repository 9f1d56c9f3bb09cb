//! Validation of configurations.

use alphorn_scheme::Overlap;

use super::{
    Config, ConfigError, EPOCH_SLOTS_MAX, MEMBERS_MAX, PPM, STAGE_MS_MAX, SchemeInfo, Selection,
    VOTE_DATA_MAX,
};
use crate::horn::cover::Rule as Cover;
use crate::horn::proposer::BLOCK_FIXED_BYTES;
use crate::slot::Phase;
use crate::wire::{BLOCK_ENTRIES_MAX, Kind, WireFormat, cap_bytes};

impl Config {
    /// Rejects a configuration that cannot work, naming the value and the nearest legal one.
    ///
    /// # Errors
    ///
    /// Returns the first [`ConfigError`].
    pub fn validate(&self, info: &SchemeInfo) -> Result<(), ConfigError> {
        // First, because the other checks index timing, settings and evidence by level.
        self.check_levels(info)?;
        self.check_ranges()?;
        self.check_weights()?;
        let committee = self.layout.committee_len_max();
        if let Some(max) = info.abilities.committee_max
            && committee > max
        {
            let committees = self.layout.validators().div_ceil(max.max(1));
            return Err(ConfigError::CommitteeSize {
                value: committee,
                max,
                committees,
            });
        }
        if self.selection == Selection::Lottery
            && (!info.abilities.unique || info.sizes.selection_proof_bytes.is_none())
        {
            return Err(ConfigError::LotteryNotUnique);
        }
        let format = self.format(info);
        format.check()?;
        self.check_bundle(info, &format)?;
        for level in 1..=self.layout.levels() {
            self.check_cover(info, level)?;
            check_fit(&format, level)?;
        }
        Ok(())
    }

    fn check_levels(&self, info: &SchemeInfo) -> Result<(), ConfigError> {
        let levels = self.layout.levels();
        for (what, value) in [
            ("timing", usize::from(self.timing.levels())),
            ("settings", self.levels.len()),
            ("evidence", info.evidence.len()),
        ] {
            if value != usize::from(levels) {
                return Err(ConfigError::Levels {
                    what,
                    value,
                    levels,
                });
            }
        }
        for (level, settings) in (1..).zip(&self.levels) {
            let members = u64::from(MEMBERS_MAX);
            for (what, value, min, max) in [
                ("publishers", u64::from(settings.publishers), 1, members),
                ("taken_max", settings.taken_max.into(), 1, members),
                ("stage_ms", settings.stage_ms, 0, STAGE_MS_MAX),
                ("spread_ms", settings.spread_ms, 0, STAGE_MS_MAX),
                (
                    "stage_gain_ppm",
                    settings.stage_gain_ppm.into(),
                    0,
                    PPM.into(),
                ),
            ] {
                if !(min..=max).contains(&value) {
                    return Err(ConfigError::LevelOutOfRange {
                        level,
                        what,
                        value,
                        min,
                        max,
                    });
                }
            }
            self.check_spread(level, settings.spread_ms)?;
        }
        Ok(())
    }

    /// Checks that all committees get their turn before the level's phase ends. Anything published later
    /// misses the next phase, however fast the links are.
    fn check_spread(&self, level: u8, value: u64) -> Result<(), ConfigError> {
        let phase = Phase::Level(level);
        let mut from = self.timing.phases().skip_while(|one| *one != phase);
        let (begin, end) = (from.next(), from.next());
        let offset = |phase: Option<Phase>| phase.map_or(0, |phase| self.timing.offset_ms(phase));
        let max = offset(end).saturating_sub(offset(begin));
        match value > max {
            true => Err(ConfigError::Spread {
                level,
                value,
                max,
                phase,
            }),
            false => Ok(()),
        }
    }

    fn check_ranges(&self) -> Result<(), ConfigError> {
        let check = |what, value: u64, min, max| match (min..=max).contains(&value) {
            true => Ok(()),
            false => Err(ConfigError::OutOfRange {
                what,
                value,
                min,
                max,
            }),
        };
        check("epoch_slots", self.epoch_slots, 1, EPOCH_SLOTS_MAX)?;
        let entries_max = BLOCK_ENTRIES_MAX as u64;
        let entries = self.collections_per_block_max.into();
        check("collections_per_block_max", entries, 1, entries_max)?;
        let (bytes, bytes_max) = (self.block_bytes_max as u64, cap_bytes(Kind::Block) as u64);
        check("block_bytes_max", bytes, 1 << 10, bytes_max)?;
        check("filler_bytes", self.filler_bytes as u64, 0, bytes / 2)?;
        let votes = self.vote_data_per_slot_max.into();
        check("vote_data_per_slot_max", votes, 1, VOTE_DATA_MAX.into())
    }

    /// Checks that a bundled block (one piece of evidence) fits the scheme and the size limit of a block
    /// made here.
    fn check_bundle(&self, info: &SchemeInfo, format: &WireFormat) -> Result<(), ConfigError> {
        if !self.bundled {
            return Ok(());
        }
        let max = info.abilities.bundle_max.ok_or(ConfigError::NoBundles)?;
        let entries = self.collections_per_block_max;
        if entries > max {
            return Err(ConfigError::OutOfRange {
                what: "collections_per_block_max",
                value: entries.into(),
                min: 1,
                max: max.into(),
            });
        }
        let around = BLOCK_FIXED_BYTES + format.duty_signature_bytes + self.filler_bytes;
        let one = around + format.bundle_bytes_max() + format.entry_bytes_max();
        match self.block_bytes_max < one {
            true => Err(ConfigError::OutOfRange {
                what: "block_bytes_max",
                value: self.block_bytes_max as u64,
                min: one as u64,
                max: cap_bytes(Kind::Block) as u64,
            }),
            false => Ok(()),
        }
    }

    fn check_weights(&self) -> Result<(), ConfigError> {
        let validators = self.layout.validators();
        match self.weights.increments().map(<[u16]>::len) {
            Some(value) if value != validators as usize => {
                Err(ConfigError::WeightsLength { value, validators })
            }
            _ if self.weights.total() == 0 => Err(ConfigError::NoWeight),
            _ => Ok(()),
        }
    }

    /// Checks that the configured cover and multiplicity work for evidence of a level.
    fn check_cover(&self, info: &SchemeInfo, level: u8) -> Result<(), ConfigError> {
        let (value, cover) = (self.multiplicity_max, self.level(level).cover);
        // Level 1 combines no evidence, and its multiplicity is checked like that of level 2.
        let overlap = info.overlap(level.max(2) - 1);
        let max = match overlap {
            Overlap::Counted { max } => max,
            Overlap::None | Overlap::Union => 1,
        };
        if value > max {
            return Err(ConfigError::Multiplicity { value, max });
        }
        let (is_legal, legal) = match overlap {
            // There is room for only one of the pieces that share signers.
            Overlap::Counted { .. } if level > 2 && value < 7 => {
                let is_legal = matches!(cover, Cover::Best1 | Cover::Greedy);
                (is_legal, "best1 or greedy")
            }
            Overlap::Counted { .. } => (true, ""),
            Overlap::Union => (cover == Cover::Union, "union"),
            Overlap::None => (cover == Cover::Best1, "best1"),
        };
        if level > 1 && !is_legal {
            return Err(ConfigError::CoverOverlap {
                level,
                value: cover,
                overlap,
                legal,
            });
        }
        if level == 2 && cover == Cover::Quorum && value < 3 {
            return Err(ConfigError::QuorumOfOne { value });
        }
        Ok(())
    }
}

/// Rejects a format whose largest aggregate of a level exceeds the cap.
fn check_fit(format: &WireFormat, level: u8) -> Result<(), ConfigError> {
    let (kind, members) = (format.kind(level), format.layout.unit_len_max(level));
    let max = cap_bytes(kind);
    let evidence = format.evidence(level).max_bytes();
    // The support's encoding and the fields around it stay below this part of the cap.
    let value = evidence
        .saturating_add(members as usize)
        .saturating_add(16 << 10);
    if evidence > 0 && value > max {
        let members = (u128::from(members) * max as u128 / value as u128) as u64;
        return Err(ConfigError::MessageSize {
            kind,
            value,
            max,
            level,
            members,
        });
    }
    Ok(())
}
