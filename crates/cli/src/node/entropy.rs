//! Randomness of the operating system.

use crate::error::Result;
use anyhow::anyhow;

/// Draws the seed for the weights of batch verification or for random choices in broadcasts; it must
/// stay secret.
pub(super) fn secret() -> Result<[u8; 32]> {
    let mut secret = [0; 32];
    getrandom::fill(&mut secret).map_err(|error| anyhow!("the system's entropy: {error}"))?;
    Ok(secret)
}
