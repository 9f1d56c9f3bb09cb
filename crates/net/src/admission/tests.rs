use super::*;
use crate::address::Transport;
use crate::config::ConfigError;
use crate::key::NodeKey;
use alphorn_types::NetworkDigest;
use std::time::Duration;

fn config() -> Config {
    Config::new(NodeKey::generate(), NetworkDigest([1, 2, 3, 4]))
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn address(text: &str) -> Address {
    let id = NodeKey::generate().id();
    Address::new((ip(text), 9000).into(), Transport::Tcp, id).remove(0)
}

/// Handshakes that start and never end.
struct Idle {
    admission: Admission,
    next: usize,
}

impl Idle {
    fn begin(&mut self, from: &str) -> Result<(), ConnectionDenied> {
        self.next += 1;
        let connection = ConnectionId::new_unchecked(self.next);
        let remote = format!("/ip4/{from}/tcp/5").parse().unwrap();
        let nowhere = Multiaddr::empty();
        self.admission
            .handle_pending_inbound_connection(connection, &nowhere, &remote)
    }
}

#[test]
fn who_begins_handshakes_and_ends_none_shuts_no_other_address_out() {
    let mut config = config();
    config.peers = vec![address("203.0.113.9")];
    let pending_max = config.limits.pending_in_max;
    let mut idle = Idle {
        admission: Admission::new(&config, Instant::now()),
        next: 0,
    };
    let begun = (0..10_000).filter(|_| idle.begin("192.0.2.1").is_ok());
    assert_eq!(begun.count() as u32, pending_max / SHARE_OF_ADDRESS);
    // Another address of its network, a whole network, and as many networks as it likes.
    let many = |idle: &mut Idle, at: &dyn Fn(u32) -> String| {
        let begun = (0..10_000).filter(|i| idle.begin(&at(*i)).is_ok());
        begun.count() as u32
    };
    let network = many(&mut idle, &|i| format!("192.0.2.{}", i % 256));
    assert_eq!(
        network,
        pending_max / SHARE_OF_NETWORK - pending_max / SHARE_OF_ADDRESS
    );
    assert!(idle.begin("198.51.100.1").is_ok(), "an honest newcomer");
    many(&mut idle, &|i| {
        format!("10.{}.{}.1", i / 256 % 256, i % 256)
    });
    assert!(
        idle.begin("198.51.100.2").is_err(),
        "all places of strangers are taken"
    );
    assert!(idle.begin("203.0.113.9").is_ok(), "a peer that is known");
    let refused = idle.begin("192.0.2.1").expect_err("the share is used up");
    assert!(refused.downcast::<Crowd>().is_ok());
}

#[test]
fn who_begins_handshakes_from_a_known_address_shuts_nobody_out() {
    let mut config = config();
    let known = ["203.0.113.9", "203.0.113.10", "198.51.100.9"];
    config.peers = known.map(address).to_vec();
    let pending_max = config.limits.pending_in_max;
    let mut idle = Idle {
        admission: Admission::new(&config, Instant::now()),
        next: 0,
    };
    let mut flood = |from: &str| (0..10_000).filter(|_| idle.begin(from).is_ok()).count() as u32;
    let each = pending_max / 4 / known.len() as u32;
    assert_eq!(flood(known[0]), pending_max / SHARE_OF_ADDRESS + each);
    assert_eq!(flood(known[1]), pending_max / SHARE_OF_ADDRESS + each);
    assert!(idle.begin("192.0.2.1").is_ok(), "a stranger");
    // Crowds take all slots of strangers as well.
    for i in 0..10_000 {
        let _ = idle.begin(&format!("10.{}.{}.1", i / 256 % 256, i % 256));
    }
    assert!(idle.begin("192.0.2.2").is_err());
    assert!(idle.begin(known[1]).is_err());
    assert!(idle.begin(known[2]).is_ok(), "another peer that is known");
    for number in 0..=idle.next {
        idle.admission.ended(ConnectionId::new_unchecked(number));
    }
    assert!(idle.admission.pending.of.is_empty() && idle.admission.pending_known.is_empty());
}

#[test]
fn a_handshake_that_ends_gives_its_place_back() {
    let config = config();
    let mut admission = Admission::new(&config, Instant::now());
    let remote: Multiaddr = "/ip4/192.0.2.1/udp/9/quic-v1".parse().unwrap();
    let nowhere = Multiaddr::empty();
    for number in 0..1_000 {
        let connection = ConnectionId::new_unchecked(number);
        let begun = admission.handle_pending_inbound_connection(connection, &nowhere, &remote);
        assert!(begun.is_ok(), "{number}");
        admission.ended(connection);
    }
    assert!(admission.pending.of.is_empty() && admission.pending.counts.is_empty());
}

#[test]
fn names_without_number_are_let_in_at_the_rate_of_their_address() {
    let config = config();
    let began = Instant::now();
    let mut admission = Admission::new(&config, began);
    let per_s = u64::from(config.limits.knocks_per_s_max);
    let mut come = |from: &str, now| {
        let came = (0..1_000).filter(|_| {
            let id = PeerId::random();
            admission.may_stay(&id, ip(from), now).is_ok()
        });
        came.count() as u64
    };
    assert_eq!(come("192.0.2.1", began), BURST_S * per_s / RATE_OF_ADDRESS);
    assert_eq!(
        come("192.0.2.2", began),
        BURST_S * per_s / RATE_OF_ADDRESS,
        "another address of its network"
    );
    assert!(come("198.51.100.1", began) > 0, "an honest newcomer");
    let second = began + Duration::from_secs(1);
    assert_eq!(come("192.0.2.1", second), per_s / RATE_OF_ADDRESS);
    assert!(
        admission.rates.of.len() as u64 <= 2 * Admission::knocks(&config.limits, 1),
        "what is remembered of them is bounded"
    );
    // One host has as many IPv6 addresses as it likes.
    assert_eq!(origins(ip("2001:db8::1")), origins(ip("2001:db8::ffff:1")));
    assert_ne!(origins(ip("2001:db8::1")), origins(ip("2001:db8:0:1::1")));
}

#[test]
fn a_crowd_of_strangers_leaves_places_for_names_that_are_known() {
    let mut config = config();
    config.limits.knocks_per_s_max = 1024;
    let known = address("203.0.113.9");
    config.peers = vec![known.clone()];
    let now = Instant::now();
    let mut admission = Admission::new(&config, now);
    let mut connected = 0;
    for i in 0..10_000_u32 {
        let from = ip(&format!("10.{}.{}.1", i / 256 % 256, i % 256));
        if admission.may_stay(&PeerId::random(), from, now).is_ok() {
            connected += 1;
            let connection = ConnectionId::new_unchecked(connected);
            admission.connected.add(connection, from);
        }
    }
    assert_eq!(connected as u32, config.limits.peers_in_max - 1);
    let far = ip("198.51.100.1");
    assert_eq!(admission.may_stay(&known.id().0, far, now), Ok(()));
    let stranger = PeerId::random();
    assert_eq!(
        admission.may_stay(&stranger, far, now),
        Err(Crowd::Connections)
    );
}

#[test]
fn nodes_of_one_computer_share_its_loopback() {
    let config = config();
    let now = Instant::now();
    let mut admission = Admission::new(&config, now);
    let per_s = u64::from(config.limits.knocks_per_s_max);
    let came = (0..1_000).filter(|_| {
        let id = PeerId::random();
        admission.may_stay(&id, ip("127.0.0.1"), now).is_ok()
    });
    assert_eq!(
        came.count() as u64,
        BURST_S * per_s,
        "the bound of all is left"
    );
}

#[test]
fn nobody_is_no_number_of_knocks() {
    let mut config = config();
    config.limits.knocks_per_s_max = 0;
    let error = config.validate().expect_err("no knock at all");
    let named = |name: &str| matches!(&error, ConfigError::Range { name: got, .. } if *got == name);
    assert!(named("knocks_per_s_max"), "{error}");
}
