//! What a node says on its terminal or in its log: where it is, a line a slot, a sum at its end.

use crate::error::Result;
use crate::report::Sink;
use alphorn_node::summary::{DutyCounts, Summary};
use anyhow::Context;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, mpsc};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::sync::watch;

/// How long the end of a node waits for a reader of its lines.
const PATIENCE: Duration = Duration::from_secs(1);

/// The page and the metrics of the interface at an address, as somebody on this machine opens them.
pub(crate) fn links(api: SocketAddr) -> String {
    let ip = match api.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    let at = SocketAddr::new(ip, api.port());
    format!("page http://{at}/dashboard/, metrics http://{at}/metrics")
}

/// When slot 0 begins, or that it began: `genesis` in seconds since 1970.
pub(crate) fn beginning(genesis: u64) -> String {
    match (UNIX_EPOCH + Duration::from_secs(genesis)).duration_since(SystemTime::now()) {
        Ok(left) => format!("slot 0 in {:.0} s", left.as_secs_f64()),
        Err(_) => "slot 0 is over".to_owned(),
    }
}

/// Duties of all kinds.
pub(crate) fn duties(summary: &Summary) -> DutyCounts {
    let mut all = DutyCounts::default();
    for counts in summary.duties.values() {
        add(&mut all, counts);
    }
    all
}

/// Adds counts to others.
pub(crate) fn add(all: &mut DutyCounts, counts: &DutyCounts) {
    all.due += counts.due;
    all.done += counts.done;
    all.late += counts.late;
    all.missed += counts.missed;
}

/// Counts as a line tells them.
pub(crate) fn counted(all: &DutyCounts) -> String {
    let DutyCounts {
        done, late, missed, ..
    } = all;
    format!("{done} duties done, {late} late, {missed} missed")
}

/// The line of a slot.
fn line(summary: &Summary) -> String {
    format!(
        "slot {}: {}; {} peers, head {}, finalised {}",
        summary.slot,
        counted(&duties(summary)),
        summary.peers,
        summary.head_slot,
        summary.finalised_slot
    )
}

/// The line at the end.
pub(super) fn last(summary: &Summary) -> String {
    format!("{} ended in {}", summary.name, line(summary))
}

/// A thread that says a line a slot: whoever reads them may be slow, and the loop waits for nobody.
pub(super) struct Lines {
    ended: mpsc::Receiver<()>,
}

impl Lines {
    /// Starts it. It ends when nobody renews the summary any more.
    ///
    /// # Errors
    /// If there is no thread to be had.
    pub(super) fn start(
        sink: Sink,
        genesis: u64,
        mut summary: watch::Receiver<Arc<Summary>>,
    ) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().build()?;
        let (ends, ended) = mpsc::channel();
        let work = move || {
            // Dropped at the end of the thread, which tells of it.
            let _ends: mpsc::Sender<()> = ends;
            let begins = UNIX_EPOCH + Duration::from_secs(genesis);
            let mut said = None;
            while runtime.block_on(summary.changed()).is_ok() {
                let now = summary.borrow_and_update().clone();
                if SystemTime::now() >= begins && said != Some(now.slot) {
                    said = Some(now.slot);
                    sink.say(&line(&now));
                }
            }
        };
        let thread = std::thread::Builder::new().name("lines".into());
        thread.spawn(work).context("a thread for lines")?;
        Ok(Lines { ended })
    }

    /// Waits for the last line, unless nobody reads it.
    pub(super) fn end(self) {
        // The thread sends nothing: it ends, or the time is over.
        let _ = self.ended.recv_timeout(PATIENCE);
    }
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
