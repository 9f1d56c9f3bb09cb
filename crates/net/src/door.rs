//! How often machines may knock.
//!
//! Gossipsub remembers for ten minutes what it held against a machine that is gone. Names cost
//! nothing, so what it remembers is bounded by how many connections are made in that time.

use std::convert::Infallible;
use std::fmt;
use std::task::{Context, Poll};
use std::time::Instant;

use libp2p::core::Endpoint;
use libp2p::core::transport::PortUse;
use libp2p::swarm::{
    ConnectionDenied, ConnectionId, FromSwarm, NetworkBehaviour, THandler, THandlerInEvent,
    THandlerOutEvent, ToSwarm, dummy,
};
use libp2p::{Multiaddr, PeerId};

use crate::bucket::Bucket;
use crate::config::Limits;

/// Seconds whose connections may come at once.
const BURST_S: u64 = 4;

/// Refuses connections that others make faster than they may.
#[derive(Debug)]
pub(crate) struct Door(Bucket);

impl Door {
    pub(crate) fn new(limits: &Limits) -> Self {
        let per_s = u64::from(limits.knocks_per_s_max);
        Self(Bucket::new(per_s, BURST_S * per_s, Instant::now()))
    }

    /// Connections that others may begin within so many seconds.
    pub(crate) fn knocks(limits: &Limits, seconds: u64) -> u64 {
        (BURST_S + seconds).saturating_mul(limits.knocks_per_s_max.into())
    }
}

/// Too many machines knocked.
#[derive(Debug)]
struct Crowd;

impl fmt::Display for Crowd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("too many connections in a second")
    }
}

impl std::error::Error for Crowd {}

impl NetworkBehaviour for Door {
    type ConnectionHandler = dummy::ConnectionHandler;
    type ToSwarm = Infallible;

    fn handle_pending_inbound_connection(
        &mut self,
        _: ConnectionId,
        _: &Multiaddr,
        _: &Multiaddr,
    ) -> Result<(), ConnectionDenied> {
        match self.0.try_take(1, Instant::now()) {
            true => Ok(()),
            false => Err(ConnectionDenied::new(Crowd)),
        }
    }

    fn handle_established_inbound_connection(
        &mut self,
        _: ConnectionId,
        _: PeerId,
        _: &Multiaddr,
        _: &Multiaddr,
    ) -> Result<THandler<Self>, ConnectionDenied> {
        Ok(dummy::ConnectionHandler)
    }

    fn handle_established_outbound_connection(
        &mut self,
        _: ConnectionId,
        _: PeerId,
        _: &Multiaddr,
        _: Endpoint,
        _: PortUse,
    ) -> Result<THandler<Self>, ConnectionDenied> {
        Ok(dummy::ConnectionHandler)
    }

    fn on_swarm_event(&mut self, _: FromSwarm<'_>) {}

    fn on_connection_handler_event(
        &mut self,
        _: PeerId,
        _: ConnectionId,
        event: THandlerOutEvent<Self>,
    ) {
        match event {}
    }

    fn poll(&mut self, _: &mut Context<'_>) -> Poll<ToSwarm<Infallible, THandlerInEvent<Self>>> {
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, ConfigError};
    use crate::key::NodeKey;
    use alphorn_types::NetworkDigest;

    fn config(knocks_per_s_max: u32) -> Config {
        let mut config = Config::new(NodeKey::generate(), NetworkDigest([1, 2, 3, 4]));
        config.limits.knocks_per_s_max = knocks_per_s_max;
        config
    }

    #[test]
    fn so_many_come_in_at_once_and_the_others_stay_outside() {
        let limits = config(1).limits;
        let mut door = Door::new(&limits);
        let nowhere = Multiaddr::empty();
        let began = Instant::now();
        let mut knock = |number| {
            let connection = ConnectionId::new_unchecked(number);
            door.handle_pending_inbound_connection(connection, &nowhere, &nowhere)
        };
        let came = (0..10_000).filter(|number| knock(*number).is_ok()).count() as u64;
        // A machine that stands still meanwhile lets more of them in.
        let seconds = began.elapsed().as_secs() + 1;
        assert!(
            (BURST_S..=Door::knocks(&limits, seconds)).contains(&came),
            "{came}"
        );
        let refused = knock(10_000).expect_err("the bucket is empty");
        assert!(refused.downcast::<Crowd>().is_ok());
    }

    #[test]
    fn nobody_is_no_number_of_knocks() {
        let error = config(0).validate().expect_err("no knock at all");
        assert!(
            matches!(
                error,
                ConfigError::Range {
                    name: "knocks_per_s_max",
                    ..
                }
            ),
            "{error}"
        );
    }
}
