//! What a scenario chooses of a broadcast in coded pieces, in the form that its state machine takes.

use super::error::RunError;
use crate::scenario::{Broadcast, SourcePrivacy};
use alphorn_broadcast::rlnc;
use alphorn_broadcast::{Config, Policy, PolicyChoice};

/// The policy by name, with overrides. `auto` is resolved to the policy it stands for if there are
/// overrides.
///
/// # Errors
/// [`RunError::Policy`], [`RunError::Chunks`].
pub(crate) fn policy_of(
    broadcast: &Broadcast,
    strategy: rlnc::Strategy,
    auto: Policy,
) -> Result<PolicyChoice, RunError> {
    let known = Policy::NAMED
        .iter()
        .find(|(name, _)| *name == broadcast.policy);
    let mut policy = match (broadcast.policy.as_str(), known) {
        ("auto", _) if !broadcast.replaces() => return Ok(PolicyChoice::Auto),
        ("auto", _) => auto,
        (_, Some((_, policy))) => *policy,
        (name, None) => {
            return Err(RunError::Policy { name: name.into() });
        }
    };
    let short = |value: u32| u16::try_from(value).unwrap_or(u16::MAX);
    if let Some(chunks) = broadcast.chunks {
        let max = match strategy {
            rlnc::Strategy::Rlnc => u32::from(rlnc::CHUNKS_MAX),
            // `Cut::rs` makes four shards for each chunk.
            rlnc::Strategy::Rs => u32::from(rlnc::SHARDS_TOTAL_MAX) / 4,
        };
        if chunks > max {
            return Err(RunError::Chunks { value: chunks, max });
        }
        policy.chunks = short(chunks);
    }
    if let Some(burst) = broadcast.burst {
        policy.burst = burst.by_hop().map(short);
    }
    if let Some(credit) = broadcast.credit_milli {
        policy.credit_milli = credit;
    }
    if let Some(bytes) = broadcast.chunk_bytes_max {
        policy.chunk_bytes_max = bytes;
    }
    if let Some(percent) = broadcast.push_pct {
        policy.push_pct = short(percent);
    }
    if let Some(pieces) = broadcast.source_chunks {
        policy.source_pieces = short(pieces);
    }
    if let Some(headers) = broadcast.headers {
        policy.headers = short(headers);
    }
    if let Some(run) = broadcast.source_run {
        policy.source_run = u8::try_from(run).unwrap_or(u8::MAX);
    }
    if let Some(feedback) = broadcast.feedback {
        policy.feedback = feedback;
    }
    Ok(PolicyChoice::Fixed(policy))
}

/// Overrides the number of waiting pieces, and when and from which peers pieces are requested.
pub(crate) fn replace_needs(config: &mut Config, chosen: &Broadcast) {
    if let Some(ms) = chosen.quiet_ms {
        config.need_after_quiet_ns = u64::from(ms) * 1_000_000;
    }
    if let Some(peers) = chosen.need_peers {
        config.need_peers = u8::try_from(peers).unwrap_or(u8::MAX);
    }
    if let Some(pieces) = chosen.unverified {
        config.unverified_peer_max = u8::try_from(pieces).unwrap_or(u8::MAX);
    }
}

/// How a source hides.
pub(crate) fn privacy(chosen: SourcePrivacy) -> alphorn_broadcast::SourcePrivacy {
    match chosen {
        SourcePrivacy::None => alphorn_broadcast::SourcePrivacy::None,
        SourcePrivacy::Blend => alphorn_broadcast::SourcePrivacy::Blend,
        SourcePrivacy::Stem => alphorn_broadcast::SourcePrivacy::Stem,
    }
}
