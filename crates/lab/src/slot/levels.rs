//! How the validators are split into units, level by level.

use super::Args;
use crate::error::Result;
use crate::fan_out::FanOut;
use alphorn_proto::horn::Preset;
use alphorn_types::Layout;
use anyhow::anyhow;

/// Parses the name of a protocol.
pub(super) fn protocol(name: &str) -> std::result::Result<Preset, String> {
    let names = Preset::ALL.map(|preset| preset.name).join(", ");
    Preset::named(name).ok_or_else(|| format!("must be one of {names}"))
}

/// Returns the layout given by the options; by default with this many committees and cells of each.
pub(super) fn layout(args: &Args, validators: u32, default: (u16, u16)) -> Result<Layout> {
    let fan_out = match (&args.fan_out, args.subcommittees, args.protocol) {
        (Some(FanOut(fan_out)), ..) => fan_out.clone(),
        (None, Some(cells), _) => vec![cells],
        (None, None, Some(protocol)) => protocol.fan_out.to_vec(),
        (None, None, None) => vec![default.1],
    };
    if let Some(protocol) = args.protocol
        && protocol.fan_out.len() != fan_out.len()
    {
        return Err(anyhow!(
            "--protocol {} with {} levels: it has {}",
            protocol.name,
            fan_out.len() + 1,
            protocol.fan_out.len() + 1
        )
        .into());
    }
    let own = args
        .protocol
        .map_or(default.0, |protocol| protocol.committees);
    let committees = args.committees.unwrap_or(own);
    if u32::from(committees) > validators {
        let why = format!("must be at most the number of validators, {validators}");
        return Err(anyhow!("--committees {committees}: {why}").into());
    }
    Ok(Layout::with_fan_out(validators, committees, &fan_out)?)
}

/// The attack targets aggregates that one collector combines, outside of any network.
pub(super) fn check_griefing(args: &Args) -> Result<()> {
    let given = [
        ("--selection", args.selection.is_some()),
        ("--multiplicity", args.multiplicity.is_some()),
        ("--coding", args.coding.is_some()),
        ("--timing", args.timing.is_some()),
    ];
    if let Some((option, _)) = given.into_iter().find(|(_, is_given)| *is_given) {
        let why = "the attack draws its roles, counts as evidence allows, and sends nothing";
        return Err(anyhow!("--griefing with {option}: {why}").into());
    }
    let levels = match (&args.fan_out, args.protocol) {
        (Some(FanOut(fan_out)), _) => fan_out.len() + 1,
        (None, Some(protocol)) => protocol.fan_out.len() + 1,
        (None, None) => 2,
    };
    match levels {
        2 => Ok(()),
        _ => Err(anyhow!("--griefing with {levels} levels: it attacks cells of two").into()),
    }
}

/// Describes the committees and their composition in words.
pub(super) fn shape(layout: &Layout) -> String {
    let committees = layout.committees();
    let fan_out = layout.fan_out();
    let Some((cells, groups)) = fan_out.split_last() else {
        return format!("{committees} committees");
    };
    let groups: String = groups
        .iter()
        .map(|units| format!(" of {units} groups"))
        .collect();
    format!("{committees} committees{groups} of {cells} cells")
}
