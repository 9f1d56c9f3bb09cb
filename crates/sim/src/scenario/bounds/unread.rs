//! What would be accepted and then ignored, refused.

use super::{Checked, invalid};
use crate::scenario::{
    Broadcast, Coding, Horn, Mode, Protocol, Restart, Scenario, Stop, Strategy, Traffic,
    TrafficKind,
};

pub(super) fn check(scenario: &Scenario) -> Checked {
    let posts = scenario.fault.iter().position(|fault| fault.posts_pct > 0);
    if let Some(index) = posts.filter(|_| !matches!(scenario.protocol, Protocol::Horn(_))) {
        let why = format!("{} has no posts", scenario.protocol.name());
        let key = format!("fault.{index}.posts_pct");
        return Err(invalid(&key, scenario.fault[index].posts_pct, why));
    }
    match &scenario.protocol {
        Protocol::Broadcast(parameters) => broadcast(scenario, parameters),
        Protocol::Horn(horn) => {
            pieces(horn)?;
            own_traffic(scenario)
        }
        Protocol::Tree(_) => own_traffic(scenario),
        Protocol::Gossip(_) | Protocol::Direct(_) | Protocol::Grid(_) => Ok(()),
    }
}

/// What the strategy does not read.
fn broadcast(scenario: &Scenario, broadcast: &Broadcast) -> Checked {
    let Broadcast {
        strategy,
        policy,
        chunks,
        chunk_bytes_max,
        burst,
        credit_milli,
        push_pct,
        source_chunks,
        headers,
        source_run,
        feedback,
        places,
        source_privacy,
        in_flight,
        unverified,
        quiet_ms,
        need_peers,
        coding,
    } = broadcast;
    let numbers = [
        chunks,
        chunk_bytes_max,
        credit_milli,
        push_pct,
        source_chunks,
        headers,
        source_run,
        in_flight,
        unverified,
        quiet_ms,
        need_peers,
    ];
    let own = policy != "auto"
        || numbers.iter().any(|number| number.is_some())
        || burst.is_some()
        || feedback.is_some()
        || places.is_some()
        || source_privacy.is_some();
    if *strategy == Strategy::Gossip && own {
        let why = "gossip has no policy, chunks, chunk_bytes_max, burst, credit_milli, push_pct, \
                   source_chunks, headers, source_run, feedback, places, source_privacy, in_flight, \
                   unverified, quiet_ms and need_peers";
        return Err(invalid("protocol.strategy", "gossip", why));
    }
    let counted = *strategy == Strategy::Rlnc && scenario.sim.mode == Mode::Rank;
    if *coding == Coding::Ideal && !counted {
        let why = "combinations are counted for strategy rlnc in mode rank alone";
        return Err(invalid("protocol.coding", "ideal", why));
    }
    Ok(())
}

/// What nodes of Horn do not read of how pieces travel. It may stand where nothing is coded, so that a sweep
/// can compare.
fn pieces(horn: &Horn) -> Checked {
    let Some(broadcast) = &horn.broadcast else {
        return Ok(());
    };
    if broadcast.strategy != Strategy::Rs || broadcast.coding != Coding::default() {
        let why = "a node of Horn sends Reed-Solomon shards: strategy = \"rs\" without coding";
        return Err(invalid("protocol.broadcast.strategy", "given", why));
    }
    if broadcast.policy == "auto" && broadcast.replaces() {
        let why =
            "what replaces numbers of a policy needs its name: the one of auto hangs on the length";
        return Err(invalid("protocol.broadcast.policy", "auto", why));
    }
    Ok(())
}

/// What protocols that make their own traffic do not read.
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
    let plain = Traffic {
        kind: scenario.traffic.kind,
        ..Traffic::default()
    };
    let asked = scenario.traffic.kind == TrafficKind::Slot && scenario.traffic != plain;
    if asked {
        let why =
            format!("{name} makes its own traffic: no bytes, source_class, count, interval_ms");
        return Err(invalid("traffic", "given", why));
    }
    let anew = |restart: Restart| restart == Restart::Cold;
    let cold = scenario.fault.iter().any(|fault| anew(fault.restart))
        || scenario.class.iter().any(|class| anew(class.restart));
    if cold {
        let why = format!("nodes of {name} come back with all that they knew");
        return Err(invalid("restart", "cold", why));
    }
    let churns = scenario.class.iter().find(|class| class.up_mean_s > 0);
    if let Some(class) = churns {
        let key = format!("class.{}.up_mean_s", class.name);
        return Err(invalid(
            &key,
            class.up_mean_s,
            format!("nodes of {name} stay"),
        ));
    }
    Ok(())
}
