//! The protocol parameters: the defaults of the scheme, overridden by the scenario.

use crate::horn::HornError;
use crate::random;
use crate::scenario;
use alphorn_proto::horn::config::ParseChoiceError;
use alphorn_proto::horn::{Config, Level, Preset, Publish, SchemeInfo};
use alphorn_proto::slot::Timing;
use alphorn_proto::wire::Context;
use alphorn_types::Layout;
use alphorn_types::support_code::Coding;
use std::str::FromStr;

/// The protocol preset named by the scenario, if any.
pub(super) fn preset(horn: &scenario::Horn) -> Result<Option<Preset>, HornError> {
    let named = |name: &String| {
        Preset::named(name).ok_or_else(|| HornError::Choice {
            key: "preset",
            value: name.clone(),
            why: format!(
                "must be one of {}",
                Preset::ALL.map(|one| one.name).join(", ")
            ),
        })
    };
    horn.preset.as_ref().map(named).transpose()
}

/// The layout: validators, committees and their subdivision.
pub(super) fn layout(
    horn: &scenario::Horn,
    preset: Option<&Preset>,
    committee_max: Option<u32>,
) -> Result<Layout, HornError> {
    let default = Layout::default_for(horn.validators, committee_max)?;
    let committees = preset.map_or(default.committees(), |preset| preset.committees);
    let committees = horn.committees.map_or(committees, small);
    let fan_out = match (&horn.fan_out, horn.subcommittees, preset) {
        (Some(units), ..) => units.iter().copied().map(small).collect(),
        (None, Some(cells), _) => vec![small(cells)],
        (None, None, Some(preset)) => preset.fan_out.to_vec(),
        (None, None, None) => vec![default.subcommittees()],
    };
    if let Some(preset) = preset
        && preset.fan_out.len() != fan_out.len()
    {
        return Err(HornError::PresetLevels {
            preset: preset.name,
            value: fan_out.len() + 1,
            own: preset.fan_out.len() + 1,
        });
    }
    let (waits, levels) = (horn.stage_ms.len(), fan_out.len() + 1);
    if waits > 0 && waits != levels {
        return Err(HornError::Choice {
            key: "stage_ms",
            value: format!("{:?}", horn.stage_ms),
            why: format!("must be {levels} numbers, one a level"),
        });
    }
    Ok(Layout::with_fan_out(horn.validators, committees, &fan_out)?)
}

fn small(value: u32) -> u16 {
    u16::try_from(value).unwrap_or(u16::MAX)
}

/// The protocol parameters: the preset's own, or the defaults of the scheme, overridden by the scenario.
pub(super) fn config(
    horn: &scenario::Horn,
    preset: Option<&Preset>,
    layout: Layout,
    info: &SchemeInfo,
    seed: u64,
) -> Result<Config, HornError> {
    let mut config = match preset {
        Some(preset) => preset.config(layout, info),
        None => Config::new(layout, info),
    };
    config.network_id = random::bytes(seed, "genesis", 0);
    config.timing = timing_of(horn, preset, layout.levels())?;
    unread(horn, layout.levels())?;
    if let Some((top, below)) = config.levels.split_last_mut() {
        // With four levels at most, three are below the top: cells, and two of combiners.
        let targets = [horn.aggregators].into_iter().chain([horn.combiners; 2]);
        for (level, target) in below.iter_mut().zip(targets) {
            level.publishers = target.map_or(level.publishers, small);
        }
        top.publishers = horn.collectors.map_or(top.publishers, small);
        top.spread_ms = horn.spread_ms.map_or(top.spread_ms, u64::from);
    }
    if let Some(most) = horn.multiplicity_max {
        config.multiplicity_max = u8::try_from(most).unwrap_or(u8::MAX);
        for level in config.levels.iter_mut().skip(1).filter(|_| most == 1) {
            level.cover = alphorn_proto::horn::Cover::Best1;
        }
    }
    match horn.bundled {
        Some(true) => {
            config.bundle(info);
            // Unsupported cases are refused below.
            config.bundled = true;
        }
        Some(false) => config.bundled = false,
        None => {}
    }
    let waits = horn.stage_ms.iter().copied().map(u64::from);
    for (level, stage_ms) in config.levels.iter_mut().zip(waits) {
        level.stage_ms = stage_ms;
    }
    if let Some(selection) = &horn.selection {
        config.selection = choice("selection", selection)?;
    }
    if let Some(publish) = &horn.publish {
        let publish = choice("publish", publish)?;
        for level in config.levels.iter_mut().skip(1) {
            level.publish = publish;
        }
    }
    if let Some(policy) = &horn.fork_choice {
        config.fork_choice = choice("fork_choice", policy)?;
    }
    // With an explicit `publish`, a sweep may compare.
    let is_staged = |level: &Level| level.publish == Publish::Staged;
    if !horn.stage_ms.is_empty() && horn.publish.is_none() && !config.levels.iter().any(is_staged) {
        return Err(HornError::Choice {
            key: "stage_ms",
            value: format!("{:?}", horn.stage_ms),
            why: "no rank waits where all publish: give protocol.publish = \"staged\"".to_owned(),
        });
    }
    (config.coding, config.context) = match horn.supports.as_deref() {
        Some("raw") => (Coding::Raw, Context::None),
        Some("chain") => (Coding::Rice, Context::Chain),
        _ => (Coding::Rice, Context::None),
    };
    config.validate(info)?;
    Ok(config)
}

/// Refuses publishers for levels that do not exist: aggregators serve below committees, combiners between cells and
/// committees.
fn unread(horn: &scenario::Horn, levels: u8) -> Result<(), HornError> {
    let given = [
        ("aggregators", horn.aggregators, 2),
        ("combiners", horn.combiners, 3),
    ];
    let unread = given
        .iter()
        .find(|(_, value, least)| value.is_some() && levels < *least);
    match unread {
        Some((key, value, least)) => Err(HornError::Choice {
            key,
            value: value.unwrap_or_default().to_string(),
            why: format!(
                "nobody serves so with {levels} levels, of {least} and more somebody does"
            ),
        }),
        None => Ok(()),
    }
}

/// Parses a choice among a few words.
fn choice<T: FromStr<Err = ParseChoiceError>>(
    key: &'static str,
    value: &str,
) -> Result<T, HornError> {
    value.parse().map_err(|error: ParseChoiceError| {
        let (value, why) = (value.to_owned(), error.to_string());
        HornError::Choice { key, value, why }
    })
}

/// The phases of a scenario's slots.
///
/// # Errors
/// [`HornError`] for an invalid preset, layout or phases.
pub fn timing(horn: &scenario::Horn) -> Result<Timing, HornError> {
    let preset = preset(horn)?;
    let levels = layout(horn, preset.as_ref(), None)?.levels();
    timing_of(horn, preset.as_ref(), levels)
}

fn timing_of(
    horn: &scenario::Horn,
    preset: Option<&Preset>,
    levels: u8,
) -> Result<Timing, HornError> {
    let own = preset.map_or(Timing::default_for(levels), |preset| preset.timing);
    match (horn.slot_ms, horn.slot.as_deref()) {
        (Some(slot_ms), _) => Ok(Timing::custom(slot_ms, &horn.offsets_ms)?),
        (None, Some(name)) => Ok(name.parse()?),
        (None, None) => Ok(own),
    }
}
