//! The bounds of faults, and which parameters each of them has.

use super::{Checked, PAYLOAD_BYTES_MAX, TIME_MS_MAX, invalid, range};
use crate::scenario::{FailsAt, Fault, FaultKind, Restart};

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
    if fault.nodes.is_empty() == (fault.share_pct == 0) {
        let why = "give either share_pct or nodes";
        return Err(invalid(at, fault.share_pct, why));
    }
    let reads = reads(fault.kind);
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
