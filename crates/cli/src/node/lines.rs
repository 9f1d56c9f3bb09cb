//! What a node prints when it starts and when it ends: its addresses, and the outcome of its duties.

use alphorn_node::telemetry::{DutyCounts, Summary};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Returns the links to the page and the metrics of the interface at an address, as opened on this host.
pub(crate) fn links(api: SocketAddr) -> String {
    let ip = match api.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    let at = SocketAddr::new(ip, api.port());
    format!("page http://{at}/dashboard/, metrics http://{at}/metrics")
}

/// Describes when slot 0 starts or started: `genesis` in seconds since 1970.
pub(crate) fn beginning(genesis: u64) -> String {
    match (UNIX_EPOCH + Duration::from_secs(genesis)).duration_since(SystemTime::now()) {
        Ok(left) => format!("slot 0 in {:.0} s", left.as_secs_f64()),
        Err(_) => "slot 0 is over".to_owned(),
    }
}

/// Formats counts for a line.
pub(crate) fn counted(all: &DutyCounts) -> String {
    let DutyCounts {
        done, late, missed, ..
    } = all;
    format!("{done} duties done, {late} late, {missed} missed")
}

/// Formats the final line.
pub(super) fn last(summary: &Summary) -> String {
    format!(
        "{} ended in slot {}: {}; {} peers, head {}, finalised {}",
        summary.name,
        summary.slot,
        counted(&summary.all_duties()),
        summary.peers,
        summary.head_slot,
        summary.finalised_slot
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_can_be_opened_and_lines_have_all_kinds_of_duties() {
        assert_eq!(
            links(([0, 0, 0, 0], 5052).into()),
            "page http://127.0.0.1:5052/dashboard/, metrics http://127.0.0.1:5052/metrics"
        );
        assert!(links((Ipv6Addr::UNSPECIFIED, 7).into()).contains("http://[::1]:7/dashboard/"));
        let counts = |done, missed| DutyCounts {
            due: done + missed,
            done,
            late: 0,
            missed,
        };
        let summary = Summary {
            name: "node-3".into(),
            slot: 9,
            head_slot: 8,
            finalised_slot: 6,
            peers: 2,
            duties: [
                ("vote".to_owned(), counts(20, 1)),
                ("collect".to_owned(), counts(3, 0)),
            ]
            .into(),
            ..Summary::default()
        };
        assert_eq!(
            last(&summary),
            "node-3 ended in slot 9: 23 duties done, 0 late, 1 missed; 2 peers, head 8, finalised 6"
        );
        assert!(beginning(0).contains("over"));
        assert!(beginning(9_999_999_999).starts_with("slot 0 in "));
    }
}
