//! Where a machine is: an address with its name, as others dial it.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use libp2p::Multiaddr;
use libp2p::multiaddr::Protocol;
use thiserror::Error;

use crate::key::NodeId;

/// Longest address, in bytes; longer text is not parsed.
const ADDRESS_BYTES_MAX: usize = 256;

/// Which transports are used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Transport {
    /// QUIC over UDP.
    Quic,
    /// TCP with Noise and yamux.
    Tcp,
    /// QUIC first, TCP where it fails.
    #[default]
    Both,
}

/// The address of a machine: `/ip4/192.0.2.1/udp/9000/quic-v1/p2p/NAME` or
/// `/ip4/192.0.2.1/tcp/9000/p2p/NAME`, or the same with `ip6`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Address {
    pub(crate) multiaddr: Multiaddr,
    id: NodeId,
}

/// Text that is no [`Address`].
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum AddressError {
    /// Not a multiaddr at all.
    #[error("address `{0}` is not a multiaddr of at most {ADDRESS_BYTES_MAX} bytes")]
    Text(String),
    /// A multiaddr of another form.
    #[error(
        "address `{0}` must be /ip4/IP/udp/PORT/quic-v1/p2p/NAME or /ip4/IP/tcp/PORT/p2p/NAME \
         (or ip6)"
    )]
    Form(String),
    /// Text that is no [`Transport`].
    #[error("transport `{0}` must be quic, tcp or both")]
    Transport(String),
}

impl Address {
    /// The address of a machine under a name.
    pub fn new(address: SocketAddr, transport: Transport, id: NodeId) -> Vec<Self> {
        let with_name = |multiaddr: Multiaddr| Self {
            multiaddr: multiaddr.with(Protocol::P2p(id.0)),
            id,
        };
        transport.bases(address).map(with_name).collect()
    }

    /// Its IP address and port.
    pub fn socket(&self) -> SocketAddr {
        let (socket, _) = socket_of(&self.multiaddr).expect("every constructor checks the form");
        socket
    }

    /// Whose address it is.
    pub fn id(&self) -> NodeId {
        self.id
    }
}

impl Transport {
    /// The addresses to listen on or to dial, in order of preference.
    pub(crate) fn bases(self, address: SocketAddr) -> impl Iterator<Item = Multiaddr> {
        let ip = match address.ip() {
            IpAddr::V4(ip) => Protocol::Ip4(ip),
            IpAddr::V6(ip) => Protocol::Ip6(ip),
        };
        let port = address.port();
        let quic = Multiaddr::from(ip.clone())
            .with(Protocol::Udp(port))
            .with(Protocol::QuicV1);
        let tcp = Multiaddr::from(ip).with(Protocol::Tcp(port));
        let quic = (self != Self::Tcp).then_some(quic);
        let tcp = (self != Self::Quic).then_some(tcp);
        quic.into_iter().chain(tcp)
    }
}

/// The IP address and port of a multiaddr of one of the two forms, and whether it is QUIC.
pub(crate) fn socket_of(multiaddr: &Multiaddr) -> Option<(SocketAddr, Transport)> {
    let mut parts = multiaddr.iter();
    let ip = match parts.next()? {
        Protocol::Ip4(ip) => IpAddr::V4(ip),
        Protocol::Ip6(ip) => IpAddr::V6(ip),
        _ => return None,
    };
    match (parts.next()?, parts.next()) {
        (Protocol::Udp(port), Some(Protocol::QuicV1)) => {
            Some((SocketAddr::new(ip, port), Transport::Quic))
        }
        (Protocol::Tcp(port), None | Some(Protocol::P2p(_))) => {
            Some((SocketAddr::new(ip, port), Transport::Tcp))
        }
        _ => None,
    }
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        if text.len() > ADDRESS_BYTES_MAX {
            let start = text.chars().take(32).collect();
            return Err(AddressError::Text(start));
        }
        let multiaddr: Multiaddr = text
            .parse()
            .map_err(|_| AddressError::Text(text.to_owned()))?;
        let form = || AddressError::Form(text.to_owned());
        let (_, transport) = socket_of(&multiaddr).ok_or_else(form)?;
        let name_at = if transport == Transport::Quic { 3 } else { 2 };
        let mut rest = multiaddr.iter().skip(name_at);
        let (Some(Protocol::P2p(id)), None) = (rest.next(), rest.next()) else {
            return Err(form());
        };
        Ok(Self {
            multiaddr,
            id: NodeId(id),
        })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.multiaddr.fmt(f)
    }
}

impl FromStr for Transport {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        match text {
            "quic" => Ok(Self::Quic),
            "tcp" => Ok(Self::Tcp),
            "both" => Ok(Self::Both),
            _ => Err(AddressError::Transport(text.chars().take(32).collect())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::NodeKey;

    #[test]
    fn addresses_print_as_they_parse_and_quic_comes_first() {
        let id = NodeKey::generate().id();
        let socket: SocketAddr = "127.0.0.1:9000".parse().expect("socket");
        let both = Address::new(socket, Transport::Both, id);
        let texts: Vec<_> = both.iter().map(ToString::to_string).collect();
        assert_eq!(
            texts,
            [
                format!("/ip4/127.0.0.1/udp/9000/quic-v1/p2p/{id}"),
                format!("/ip4/127.0.0.1/tcp/9000/p2p/{id}")
            ]
        );
        for (text, address) in texts.iter().zip(&both) {
            assert_eq!(text.parse().as_ref(), Ok(address));
            assert_eq!(address.id(), id);
        }
        let six = Address::new("[::1]:1".parse().expect("socket"), Transport::Tcp, id);
        assert_eq!(six[0].to_string(), format!("/ip6/::1/tcp/1/p2p/{id}"));
    }

    #[test]
    fn what_nobody_can_dial_is_refused() {
        let id = NodeKey::generate().id();
        for text in [
            String::new(),
            "127.0.0.1:9000".to_owned(),
            "/ip4/127.0.0.1/tcp/9000".to_owned(),
            format!("/ip4/127.0.0.1/udp/9000/p2p/{id}"),
            format!("/dns4/localhost/tcp/9000/p2p/{id}"),
            format!("/ip4/127.0.0.1/tcp/9000/p2p/{id}/p2p-circuit"),
            format!("/ip4/127.0.0.1/udp/9000/quic-v1/tcp/1/p2p/{id}"),
            format!("/ip4/127.0.0.1/tcp/9000/p2p/{id}").repeat(10),
        ] {
            assert!(text.parse::<Address>().is_err(), "{text}");
        }
        assert!("udp".parse::<Transport>().is_err());
        assert_eq!("both".parse(), Ok(Transport::Both));
    }
}
