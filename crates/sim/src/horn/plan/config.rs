//! The parameters of the protocol: the defaults of the scheme, and what the scenario names.

use crate::horn::HornError;
use crate::random;
use crate::scenario;
use alphorn_proto::horn::config::ParseChoiceError;
use alphorn_proto::horn::{Config, SchemeInfo};
use alphorn_proto::slot::Timing;
use alphorn_proto::wire::Context;
use alphorn_types::Layout;
use alphorn_types::support_code::Coding;
use std::str::FromStr;

/// Validators, committees and cells.
pub(super) fn layout(
    horn: &scenario::Horn,
    committee_max: Option<u32>,
) -> Result<Layout, HornError> {
    let default = Layout::default_for(horn.validators, committee_max)?;
    let number = |given: Option<u32>, default: u16| {
        given.map_or(default, |value| u16::try_from(value).unwrap_or(u16::MAX))
    };
    let committees = number(horn.committees, default.committees());
    let subcommittees = number(horn.subcommittees, default.subcommittees());
    Ok(Layout::new(horn.validators, committees, subcommittees)?)
}

/// The parameters of the protocol: the defaults of the scheme, and what the scenario names.
pub(super) fn config(
    horn: &scenario::Horn,
    layout: Layout,
    info: &SchemeInfo,
    seed: u64,
) -> Result<Config, HornError> {
    let small = |value: u32| u16::try_from(value).unwrap_or(u16::MAX);
    let mut config = Config::new(layout, info);
    config.network_id = random::bytes(seed, "genesis", 0);
    config.timing = timing(horn)?;
    if let Some(target) = horn.aggregators {
        config.levels[0].publishers = small(target);
    }
    if let Some(target) = horn.collectors {
        config.levels[1].publishers = small(target);
    }
    if let Some(most) = horn.multiplicity_max {
        config.multiplicity_max = u8::try_from(most).unwrap_or(u8::MAX);
        if most == 1 {
            config.levels[1].cover = alphorn_proto::horn::Cover::Best1;
        }
    }
    if let Some(selection) = &horn.selection {
        config.selection = choice("selection", selection)?;
    }
    if let Some(publish) = &horn.publish {
        config.levels[1].publish = choice("publish", publish)?;
    }
    (config.coding, config.context) = match horn.supports.as_deref() {
        Some("raw") => (Coding::Raw, Context::None),
        Some("chain") => (Coding::Rice, Context::Chain),
        _ => (Coding::Rice, Context::None),
    };
    config.validate(info)?;
    Ok(config)
}

/// A choice among a few words.
fn choice<T: FromStr<Err = ParseChoiceError>>(
    key: &'static str,
    value: &str,
) -> Result<T, HornError> {
    value.parse().map_err(|error: ParseChoiceError| {
        let (value, why) = (value.to_owned(), error.to_string());
        HornError::Choice { key, value, why }
    })
}

fn timing(horn: &scenario::Horn) -> Result<Timing, HornError> {
    let Some(slot_ms) = horn.slot_ms else {
        let name = horn.slot.as_deref().unwrap_or("horn");
        return Ok(name.parse()?);
    };
    Ok(Timing::custom(slot_ms, &horn.offsets_ms)?)
}
