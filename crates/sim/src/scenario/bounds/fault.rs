//! The bounds of faults, and which parameters each of them has.

use super::{Checked, PAYLOAD_BYTES_MAX, TIME_MS_MAX, invalid, range};
use crate::scenario::{FailsAt, Fault, FaultKind, Post, Restart};

/// What a kind of fault reads beside its nodes and its time. What it does not read must not be given: it
/// would be ignored.
#[derive(Clone, Copy, Default)]
struct Reads {
    factor: bool,
    rate: bool,
    bytes: bool,
    delay: bool,
    fails_at: bool,
    restart: bool,
    hides: bool,
    /// The factor is a share of what there is.
    share: bool,
    /// Its nodes cheat at every publication, whenever that is.
    no_time: bool,
}

fn reads(kind: FaultKind) -> Reads {
    let none = Reads::default();
    match kind {
        FaultKind::Crash => Reads {
            restart: true,
            ..none
        },
        FaultKind::SlowCpu | FaultKind::SlowLink | FaultKind::Withhold => Reads {
            factor: true,
            ..none
        },
        FaultKind::InvalidFlood => Reads {
            rate: true,
            bytes: true,
            fails_at: true,
            ..none
        },
        FaultKind::FalseFeedback => Reads { rate: true, ..none },
        FaultKind::Late => Reads {
            delay: true,
            ..none
        },
        FaultKind::ClockSkew => Reads {
            delay: true,
            no_time: true,
            ..none
        },
        FaultKind::Equivocate | FaultKind::NonCodewordSource | FaultKind::RankDeficientSource => {
            Reads {
                no_time: true,
                ..none
            }
        }
        FaultKind::DropVotes => Reads {
            factor: true,
            share: true,
            hides: true,
            ..none
        },
        FaultKind::LeaveCells | FaultKind::Censor => Reads {
            factor: true,
            share: true,
            ..none
        },
        FaultKind::EarlyCollection => Reads {
            delay: true,
            ..none
        },
        FaultKind::Grief | FaultKind::Eclipse | FaultKind::Partition => none,
    }
}

pub(super) fn check(at: &str, fault: &Fault, nodes: u32) -> Checked {
    let key = |name: &str| format!("{at}.{name}");
    range(&key("share_pct"), fault.share_pct, 0, 100)?;
    range(&key("from_ms"), fault.from_ms, 0, TIME_MS_MAX)?;
    if let Some(until) = fault.until_ms {
        range(&key("until_ms"), until, fault.from_ms, TIME_MS_MAX)?;
    }
    range(&key("factor_pct"), fault.factor_pct, 0, 100_000)?;
    range(&key("rate"), fault.rate, 0, 1_000_000)?;
    range(&key("bytes"), fault.bytes, 0, PAYLOAD_BYTES_MAX)?;
    range(&key("delay_ms"), fault.delay_ms, 0, TIME_MS_MAX)?;
    for &node in &fault.nodes {
        range(&key("nodes"), node, 0, nodes - 1)?;
    }
    whose(at, fault)?;
    let reads = reads(fault.kind);
    if reads.share {
        range(&key("factor_pct"), fault.factor_pct, 1, 100)?;
    }
    let changes_nothing = matches!(fault.kind, FaultKind::SlowCpu | FaultKind::SlowLink);
    if changes_nothing && fault.factor_pct == 100 {
        let why = format!("{} at 100 % changes nothing", fault.kind.name());
        return Err(invalid(&key("factor_pct"), 100, why));
    }
    let timed = fault.from_ms > 0 || fault.until_ms.is_some();
    let given = [
        ("factor_pct", reads.factor, fault.factor_pct != 100),
        ("rate", reads.rate, fault.rate != 0),
        ("bytes", reads.bytes, fault.bytes != 0),
        ("delay_ms", reads.delay, fault.delay_ms != 0),
        (
            "fails_at",
            reads.fails_at,
            fault.fails_at != FailsAt::default(),
        ),
        (
            "restart",
            reads.restart,
            fault.restart != Restart::default(),
        ),
        ("hides", reads.hides, fault.hides),
        ("from_ms and until_ms", !reads.no_time, timed),
    ];
    match given.iter().find(|(_, read, given)| *given && !read) {
        Some((name, ..)) => {
            let kind = fault.kind.name();
            Err(invalid(&key(name), "given", format!("{kind} has none")))
        }
        None => Ok(()),
    }
}

/// Its nodes are said in one way.
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
