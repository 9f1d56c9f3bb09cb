//! Rejects parameters that would be accepted and then ignored.

use super::range::{Checked, invalid};
use crate::scenario::format::Scenario;
use crate::scenario::parts::{
    Broadcast, FailsAt, Fault, FaultKind, Graph, Horn, Mode, Protocol, Restart, Stop, Strategy,
    Traffic,
};

pub(super) fn check(scenario: &Scenario) -> Checked {
    let posts = scenario.fault.iter().position(|fault| fault.posts_pct > 0);
    if let Some(index) = posts.filter(|_| !matches!(scenario.protocol, Protocol::Horn(_))) {
        let why = format!("{} has no posts", scenario.protocol.name());
        let key = format!("fault.{index}.posts_pct");
        return Err(invalid(&key, scenario.fault[index].posts_pct, why));
    }
    for (index, fault) in scenario.fault.iter().enumerate() {
        if fault.kind == FaultKind::InvalidFlood {
            flood(&format!("fault.{index}"), fault, &scenario.protocol)?;
        }
    }
    if let Protocol::Direct(_) | Protocol::Grid(_) | Protocol::Tree(_) = &scenario.protocol
        && scenario.graph != Graph::default()
    {
        let why = format!("{} makes its own connections", scenario.protocol.name());
        return Err(invalid("graph", "given", why));
    }
    match &scenario.protocol {
        Protocol::Broadcast(parameters) => broadcast(scenario, parameters),
        Protocol::Horn(horn) => {
            phases(horn)?;
            pieces(horn)?;
            own_traffic(scenario)
        }
        Protocol::Tree(_) => own_traffic(scenario),
        Protocol::Gossip(_) | Protocol::Direct(_) | Protocol::Grid(_) => whole(scenario),
    }
}

/// Rejects parameters that a flood of this protocol does not read, and a missing rate where the flood would
/// do nothing without one.
fn flood(at: &str, fault: &Fault, protocol: &Protocol) -> Checked {
    let Fault {
        rate,
        bytes,
        fails_at,
        ..
    } = *fault;
    let payload = fails_at == FailsAt::Payload;
    // Whether the flood replaces the nodes' own messages, and whether its messages have a fixed length.
    let (instead, own_bytes) = match protocol {
        Protocol::Horn(_) => (payload, true),
        Protocol::Broadcast(Broadcast { strategy, .. }) if *strategy != Strategy::Gossip => {
            (payload && rate == 0, fails_at != FailsAt::Decoding)
        }
        _ => (false, false),
    };
    if instead && rate > 0 {
        let why = "its voters name heads that nobody has in the votes that they cast, at no rate";
        return Err(invalid(&format!("{at}.rate"), rate, why));
    }
    if !instead && rate == 0 {
        let why = "a flood has a rate, at least 1 message a second";
        return Err(invalid(&format!("{at}.rate"), rate, why));
    }
    if own_bytes && bytes > 0 {
        let why = "what it sends is as long as what it stands for";
        return Err(invalid(&format!("{at}.bytes"), bytes, why));
    }
    Ok(())
}

/// Rejects what does not apply to payloads that travel whole: they are only sizes.
fn whole(scenario: &Scenario) -> Checked {
    if scenario.sim.mode == Mode::Bytes {
        let why = "payloads that travel whole are sizes, in mode rank";
        return Err(invalid("sim.mode", "bytes", why));
    }
    Ok(())
}

/// Rejects phase offsets without a slot length.
fn phases(horn: &Horn) -> Checked {
    if horn.slot_ms.is_none() && !horn.offsets_ms.is_empty() {
        let why = "where the phases of slot_ms begin, which is absent";
        return Err(invalid("protocol.offsets_ms", "given", why));
    }
    Ok(())
}

/// Rejects parameters that the strategy does not read.
fn broadcast(scenario: &Scenario, broadcast: &Broadcast) -> Checked {
    // `Broadcast::default()` has an empty policy; the default of the format is "auto".
    let bare = Broadcast {
        policy: "auto".into(),
        ..Broadcast::default()
    };
    if broadcast.strategy == Strategy::Gossip && *broadcast != bare {
        let why = "gossip has no policy, chunks, chunk_bytes_max, burst, credit_milli, push_pct, \
                   source_chunks, headers, source_run, feedback, places, source_privacy, in_flight, \
                   unverified, quiet_ms and need_peers";
        return Err(invalid("protocol.strategy", "gossip", why));
    }
    match broadcast.strategy {
        Strategy::Gossip => whole(scenario),
        Strategy::Rlnc | Strategy::Rs => Ok(()),
    }
}

/// Rejects broadcast parameters that nodes of Horn do not read. The table may be given even if nothing is
/// coded, so that a sweep can compare.
fn pieces(horn: &Horn) -> Checked {
    let Some(broadcast) = &horn.broadcast else {
        return Ok(());
    };
    if broadcast.strategy != Strategy::Rs {
        let why = "a node of Horn sends Reed-Solomon shards: strategy = \"rs\"";
        return Err(invalid("protocol.broadcast.strategy", "given", why));
    }
    if broadcast.policy == "auto" && broadcast.replaces() {
        let why =
            "what replaces numbers of a policy needs its name: the one of auto hangs on the length";
        return Err(invalid("protocol.broadcast.policy", "auto", why));
    }
    Ok(())
}

/// Rejects what does not apply to protocols that generate their own traffic.
fn own_traffic(scenario: &Scenario) -> Checked {
    let name = scenario.protocol.name();
    if matches!(scenario.sim.stop, Stop::AllDelivered | Stop::T99) {
        let why = format!("{name} ends with its slot, at a time or after events");
        return Err(invalid("sim.stop", "all_delivered or t99", why));
    }
    if scenario.sim.mode == Mode::Bytes {
        let why = format!("{name} runs in mode rank alone");
        return Err(invalid("sim.mode", "bytes", why));
    }
    if scenario.traffic != Traffic::default() {
        let why =
            format!("{name} makes its own traffic: no bytes, source_class, count, interval_ms");
        return Err(invalid("traffic", "given", why));
    }
    let mut faults = scenario.fault.iter();
    if faults.any(|fault| fault.restart == Restart::Cold) {
        let why = format!("nodes of {name} come back with all that they knew");
        return Err(invalid("restart", "cold", why));
    }
    Ok(())
}
