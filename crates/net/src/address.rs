//! The address of a peer together with its name, as others dial it.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use enr::Enr;
use enr::k256::ecdsa::{SigningKey, VerifyingKey};
use libp2p::identity::{PublicKey, secp256k1};
use libp2p::multiaddr::Protocol;
use libp2p::{Multiaddr, PeerId};
use thiserror::Error;

use crate::key::{NodeId, NodeKey};

/// Longest address, in bytes. Longer text is not parsed.
const ADDRESS_BYTES_MAX: usize = 256;
/// Prefix of a node record in text form.
const RECORD_PREFIX: &str = "enr:";
/// Longest node record (EIP-778: 300 bytes), in bytes of its text.
const RECORD_BYTES_MAX: usize = RECORD_PREFIX.len() + 400;

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

/// The address of a peer: `/ip4/192.0.2.1/udp/9000/quic-v1/p2p/NAME` or
/// `/ip4/192.0.2.1/tcp/9000/p2p/NAME`, or the same with `ip6`. It is parsed from that, or from a signed node
/// record (`enr:...`, [EIP-778](https://eips.ethereum.org/EIPS/eip-778)): `quic` with `ip`, or else `quic6` with
/// `ip6`, `tcp` with `ip`, `tcp6` with `ip6`, and the name of its key `secp256k1`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Address {
    pub(crate) multiaddr: Multiaddr,
    id: NodeId,
}

/// Text that is not an [`Address`].
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
    /// Not a node record, or not signed by its key.
    #[error("node record `{0}`: {1}")]
    Record(String, String),
    /// A node record without an address to dial.
    #[error("node record `{0}` must have an IP address with a port for QUIC or TCP")]
    RecordAddress(String),
    /// Text that is not a [`Transport`].
    #[error("transport `{0}` must be quic, tcp or both")]
    Transport(String),
}

impl Address {
    /// The addresses of a peer with this name.
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

    /// The transport over which it is dialled.
    pub(crate) fn transport(&self) -> Transport {
        let (_, transport) = socket_of(&self.multiaddr).expect("every constructor checks the form");
        transport
    }

    /// The peer's identity.
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

/// The part of a text that an error shows.
fn beginning(text: &str) -> String {
    text.chars().take(32).collect()
}

/// The address in a node record.
fn record(text: &str) -> Result<Address, AddressError> {
    let refused = |why: &str| AddressError::Record(beginning(text), why.to_owned());
    if text.len() > RECORD_BYTES_MAX {
        return Err(refused(&format!(
            "{} bytes, must be at most {RECORD_BYTES_MAX}",
            text.len()
        )));
    }
    let record: Enr<SigningKey> = text.parse().map_err(|why: String| refused(&why))?;
    let key: VerifyingKey = record.public_key();
    let key = secp256k1::PublicKey::try_from_bytes(key.to_sec1_point(true).as_bytes());
    let key = key.map_err(|why| refused(&why.to_string()))?;
    let id = NodeId(PeerId::from_public_key(&PublicKey::from(key)));
    let port = |name: &str| record.get_decodable::<u16>(name)?.ok();
    let v4 = record.ip4().map(IpAddr::V4);
    let v6 = record.ip6().map(IpAddr::V6);
    let candidates = [
        (v4, port("quic"), Transport::Quic),
        (v6, port("quic6"), Transport::Quic),
        (v4, record.tcp4(), Transport::Tcp),
        (v6, record.tcp6(), Transport::Tcp),
    ];
    let usable = candidates.into_iter().find_map(|(ip, port, transport)| {
        // Port 0 cannot be dialled, and another candidate may do.
        let socket = SocketAddr::new(ip?, port.filter(|port| *port != 0)?);
        Address::new(socket, transport, id).pop()
    });
    usable.ok_or_else(|| AddressError::RecordAddress(beginning(text)))
}

impl NodeKey {
    /// The node record ([EIP-778](https://eips.ethereum.org/EIPS/eip-778)) of a peer with this key, as text
    /// (`enr:...`): its IP address, and its port under `quic` and `tcp`, or `quic6` and `tcp6` for IPv6. Of two records
    /// of a key, the one with the greater sequence is valid.
    pub fn record(&self, address: SocketAddr, transport: Transport, sequence: u64) -> String {
        let (quic, tcp) = match address {
            SocketAddr::V4(_) => ("quic", "tcp"),
            SocketAddr::V6(_) => ("quic6", "tcp6"),
        };
        let mut builder = Enr::builder();
        builder.seq(sequence).ip(address.ip());
        if transport != Transport::Tcp {
            builder.add_value(quic, &address.port());
        }
        if transport != Transport::Quic {
            builder.add_value(tcp, &address.port());
        }
        let record: Enr<SigningKey> = builder
            .build(&self.signing_key())
            .expect("an address and two ports fit into the 300 bytes of a record");
        record.to_base64()
    }
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        if text.starts_with(RECORD_PREFIX) {
            return record(text);
        }
        if text.len() > ADDRESS_BYTES_MAX {
            return Err(AddressError::Text(beginning(text)));
        }
        let multiaddr: Multiaddr = text
            .parse()
            .map_err(|_| AddressError::Text(text.to_owned()))?;
        let form = || AddressError::Form(text.to_owned());
        let (_, transport) = socket_of(&multiaddr).ok_or_else(form)?;
        // `socket_of` has checked what precedes the name: IP, port and, for QUIC, the protocol. After the name nothing
        // may follow, since a relayed address (`p2p-circuit`) would go on.
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

    /// The example of EIP-778, which also gives its key. Its only port is for discovery.
    const EXAMPLE: &str = "enr:-IS4QHCYrYZbAKWCBRlAy5zzaDZXJBGkcnh4MHcBFZntXNFrdvJjX04jRzjzCBOonrkTfj499SZ\
        uOh8R33Ls8RRcy5wBgmlkgnY0gmlwhH8AAAGJc2VjcDI1NmsxoQPKY0yuDUmstAHYpMa2_oxVtw0RW_QAdpzBQA8yWM0xOIN1ZHCCdl8";
    const EXAMPLE_KEY: &str = "b71c71a67e1177ad4e901695e1b4b9ee17ae16c6668d313eac2f96dbcda3f291";

    /// The example's key, and a record of it with `fields`.
    fn signed(fields: impl FnOnce(&mut enr::Builder<SigningKey>)) -> (NodeId, String) {
        let bytes: Vec<u8> = hex::decode(EXAMPLE_KEY).expect("hexadecimal");
        let key = SigningKey::from_slice(&bytes).expect("a key");
        let mut builder = Enr::builder();
        fields(&mut builder);
        let record = builder.build(&key).expect("a record");
        let id = NodeKey::from_hex(EXAMPLE_KEY).expect("a key").id();
        (id, record.to_base64())
    }

    #[test]
    fn records_say_where_their_key_listens_and_quic_comes_first() {
        let v4 = std::net::Ipv4Addr::new(192, 0, 2, 1);
        let (id, text) = signed(|b| {
            b.ip4(v4).tcp4(9_001).udp4(9_002);
            b.add_value("quic", &9_000_u16);
        });
        let address: Address = text.parse().expect("an address");
        assert_eq!(
            address.to_string(),
            format!("/ip4/192.0.2.1/udp/9000/quic-v1/p2p/{id}")
        );
        let (_, text) = signed(|b| {
            b.ip4(v4).tcp4(9_001);
        });
        let address: Address = text.parse().expect("an address");
        assert_eq!(
            address.to_string(),
            format!("/ip4/192.0.2.1/tcp/9001/p2p/{id}")
        );
        let (_, text) = signed(|b| {
            b.ip6(std::net::Ipv6Addr::LOCALHOST);
            b.add_value("quic6", &9_000_u16);
        });
        let address: Address = text.parse().expect("an address");
        assert_eq!(
            address.to_string(),
            format!("/ip6/::1/udp/9000/quic-v1/p2p/{id}")
        );
    }

    #[test]
    fn a_key_s_own_record_says_where_it_listens() {
        let key = NodeKey::from_hex(EXAMPLE_KEY).expect("a key");
        for socket in ["192.0.2.1:9000", "[2001:db8::1]:9001"] {
            let socket: SocketAddr = socket.parse().expect("socket");
            for transport in [Transport::Quic, Transport::Tcp, Transport::Both] {
                let text = key.record(socket, transport, 7);
                let address: Address = text.parse().expect("an address");
                assert_eq!(address, Address::new(socket, transport, key.id())[0]);
                let record: Enr<SigningKey> = text.parse().expect("a record");
                assert_eq!(record.seq(), 7);
            }
        }
    }

    #[test]
    fn records_without_a_port_and_with_another_signature_are_refused() {
        let parse = str::parse::<Address>;
        assert!(matches!(
            parse(EXAMPLE),
            Err(AddressError::RecordAddress(_))
        ));
        let (_, quic) = signed(|b| {
            b.ip4(std::net::Ipv4Addr::LOCALHOST);
            b.add_value("quic", &9_000_u16);
        });
        assert!(parse(&quic).is_ok());
        // Each letter replaced by each other one: the content is signed, and the last letter may have spare bits.
        for at in RECORD_PREFIX.len()..quic.len() - 1 {
            for other in [b'A', b'-', b'z', b'=', b'!'] {
                let mut bytes = quic.clone().into_bytes();
                if bytes[at] == other {
                    continue;
                }
                bytes[at] = other;
                let text = String::from_utf8(bytes).expect("ASCII");
                assert!(
                    matches!(parse(&text), Err(AddressError::Record(..))),
                    "{text}"
                );
            }
        }
        for end in 0..quic.len() {
            assert!(parse(&quic[..end]).is_err());
        }
        let long = format!("{quic}{}", "A".repeat(400));
        let error = parse(&long).expect_err("too long").to_string();
        assert!(error.contains("must be at most 404"), "{error}");
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
