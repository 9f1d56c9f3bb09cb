//! Ports for networks on loopback.

use std::net::{Ipv4Addr, UdpSocket};

/// The first of two ports of UDP that are free now, one after the other.
pub(crate) fn two_ports() -> u16 {
    let bind = |port| UdpSocket::bind((Ipv4Addr::LOCALHOST, port));
    loop {
        let first = bind(0).unwrap();
        let port = first.local_addr().unwrap().port();
        if port.checked_add(1).is_some_and(|next| bind(next).is_ok()) {
            return port;
        }
    }
}
