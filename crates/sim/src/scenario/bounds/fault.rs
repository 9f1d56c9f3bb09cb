//! Bounds of fault parameters, and which parameters each kind has.

use super::range::{Checked, PAYLOAD_BYTES_MAX, TIME_MS_MAX, invalid, range};
use crate::scenario::parts::{FailsAt, Fault, FaultKind, Post, Restart, Sim, Stop};

/// Maximum time or bandwidth factor of a faulty node, in percent of that of other nodes.
const FACTOR_PCT_MAX: u32 = 100_000;

/// Parameters that a kind of fault reads in addition to its nodes and its time. Any other parameter must not be
/// given, as it would be ignored.
fn reads(kind: FaultKind) -> &'static [&'static str] {
    match kind {
        FaultKind::Crash => &["restart"],
        FaultKind::SlowCpu | FaultKind::SlowLink | FaultKind::Withhold => &["factor_pct"],
        FaultKind::LeaveCells | FaultKind::Censor => &["factor_pct"],
        FaultKind::DropVotes => &["factor_pct", "hides"],
        FaultKind::InvalidFlood => &["rate", "bytes", "fails_at"],
        FaultKind::FalseFeedback => &["rate"],
        FaultKind::Late | FaultKind::ClockSkew | FaultKind::EarlyCollection => &["delay_ms"],
        FaultKind::Equivocate | FaultKind::NonCodewordSource | FaultKind::RankDeficientSource => {
            &[]
        }
        FaultKind::Grief | FaultKind::Eclipse | FaultKind::Partition => &[],
        FaultKind::WithholdBlock | FaultKind::Balance | FaultKind::Bounce => &[],
        FaultKind::EquivocateVotes | FaultKind::SplitBallots => &[],
    }
}

pub(super) fn check(at: &str, fault: &Fault, sim: &Sim) -> Checked {
    let key = |name: &str| format!("{at}.{name}");
    range(&key("share_pct"), fault.share_pct, 0, 100)?;
    // A fault that starts after the run has ended has no effect.
    let end_ms = match sim.stop {
        Stop::TimeMs(ms) => ms,
        _ => sim.sim_time_max_ms,
    };
    range(&key("from_ms"), fault.from_ms, 0, end_ms.saturating_sub(1))?;
    if let Some(until) = fault.until_ms {
        range(&key("until_ms"), until, fault.from_ms, TIME_MS_MAX)?;
    }
    range(&key("factor_pct"), fault.factor_pct, 0, FACTOR_PCT_MAX)?;
    range(&key("rate"), fault.rate, 0, 1_000_000)?;
    range(&key("bytes"), fault.bytes, 0, PAYLOAD_BYTES_MAX)?;
    range(&key("delay_ms"), fault.delay_ms, 0, TIME_MS_MAX)?;
    for &node in &fault.nodes {
        // Cannot wrap: at least two nodes, checked before.
        range(&key("nodes"), node, 0, sim.nodes - 1)?;
    }
    whose(at, fault)?;
    degree(at, fault)?;
    // These cheat at every publication, whenever it happens.
    let timeless = matches!(
        fault.kind,
        FaultKind::ClockSkew
            | FaultKind::Equivocate
            | FaultKind::NonCodewordSource
            | FaultKind::RankDeficientSource
    );
    let timed = fault.from_ms > 0 || fault.until_ms.is_some();
    // The parsed table does not keep which keys were written: a value other than the default counts as given.
    let given = [
        ("factor_pct", fault.factor_pct != 100),
        ("rate", fault.rate != 0),
        ("bytes", fault.bytes != 0),
        ("delay_ms", fault.delay_ms != 0),
        ("fails_at", fault.fails_at != FailsAt::default()),
        ("restart", fault.restart != Restart::default()),
        ("hides", fault.hides),
        ("from_ms and until_ms", timed && timeless),
    ];
    let reads = reads(fault.kind);
    let mut unread = given.iter().filter(|(name, _)| !reads.contains(name));
    match unread.find(|(_, given)| *given) {
        Some((name, _)) => {
            let kind = fault.kind.name();
            Err(invalid(&key(name), "given", format!("{kind} has none")))
        }
        None => Ok(()),
    }
}

/// Checks that the fault is strong enough to have an effect. A `late` of 0 ms is allowed as the baseline of a
/// sweep.
fn degree(at: &str, fault: &Fault) -> Checked {
    let key = format!("{at}.factor_pct");
    match fault.kind {
        // Here the factor is a share.
        FaultKind::DropVotes | FaultKind::LeaveCells | FaultKind::Censor | FaultKind::Withhold => {
            range(&key, fault.factor_pct, 1, 100)
        }
        FaultKind::SlowCpu | FaultKind::SlowLink if fault.factor_pct == 100 => {
            let why = format!("{} at 100 % changes nothing", fault.kind.name());
            Err(invalid(&key, 100, why))
        }
        FaultKind::SlowCpu | FaultKind::SlowLink => {
            range(&key, fault.factor_pct, 1, FACTOR_PCT_MAX)
        }
        FaultKind::ClockSkew | FaultKind::EarlyCollection => {
            range(&format!("{at}.delay_ms"), fault.delay_ms, 1, TIME_MS_MAX)
        }
        _ => Ok(()),
    }
}

/// Checks that the faulty nodes are given in exactly one way.
fn whose(at: &str, fault: &Fault) -> Checked {
    let key = |name: &str| format!("{at}.{name}");
    let ways = [
        fault.share_pct > 0,
        !fault.nodes.is_empty(),
        fault.posts_pct > 0,
    ];
    if ways.iter().filter(|given| **given).count() != 1 {
        let why = "give either share_pct or nodes, or posts_pct";
        return Err(invalid(at, fault.share_pct, why));
    }
    range(&key("posts_pct"), fault.posts_pct, 0, 100)?;
    if fault.posts_pct > 0 && fault.kind.post().is_none() {
        let why = format!("{} is no matter of a post", fault.kind.name());
        return Err(invalid(&key("posts_pct"), fault.posts_pct, why));
    }
    let in_units = fault.posts_pct > 0 && fault.kind.post() != Some(Post::Proposer);
    if !fault.units.is_empty() && !in_units {
        let why = "cells or committees of the posts_pct of aggregators and collectors";
        return Err(invalid(&key("units"), "given", why));
    }
    Ok(())
}
