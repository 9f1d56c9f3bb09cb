//! Ports for networks on loopback.

use std::net::{Ipv4Addr, TcpListener, UdpSocket};

/// The first of two ports of UDP and TCP that are free now, one after the other.
pub(crate) fn two_ports() -> u16 {
    let bind = |port| {
        let first = UdpSocket::bind((Ipv4Addr::LOCALHOST, port))?;
        let port = first.local_addr()?.port();
        TcpListener::bind((Ipv4Addr::LOCALHOST, port)).map(|tcp| (first, tcp))
    };
    loop {
        let Ok(first) = bind(0) else { continue };
        let port = first.0.local_addr().unwrap().port();
        if port.checked_add(1).is_some_and(|next| bind(next).is_ok()) {
            return port;
        }
    }
}
