//! The addresses of the HTTP interfaces.

use super::files::NodeEntry;
use super::{API_PORT, Args};
use std::net::SocketAddr;

/// Returns the address for the HTTP interface.
pub(super) fn interface(args: &Args, own: &NodeEntry) -> SocketAddr {
    let port = args.api_port.or(own.api_port).unwrap_or(API_PORT);
    SocketAddr::new(args.http_address, port)
}

/// Returns the address for the metrics-only interface, if there is one.
pub(super) fn metrics_address(args: &Args) -> Option<SocketAddr> {
    let port = args.metrics_port?;
    let address = args.metrics_address.unwrap_or(args.http_address);
    Some(SocketAddr::new(address, port))
}
