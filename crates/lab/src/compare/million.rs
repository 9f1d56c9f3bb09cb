//! A million votes, put together from committees that were measured.

use super::Row;
use std::collections::BTreeSet;

/// Validators whose votes are put together.
pub(super) const VALIDATORS: u64 = 1 << 20;

/// What the network of the model is like.
#[derive(Clone, Copy, Debug)]
pub(super) struct Network {
    /// Collections of a committee that every node receives and verifies.
    pub(super) collectors: u16,
    /// Seconds in which it does.
    pub(super) window_s: f64,
}

/// 2^20 votes in committees of one size, with one form of a scheme. All bytes are of evidence, a bit a
/// validator and the collector's duty signature; duplicates of a mesh, committees, slots and the rest of
/// an envelope come on top.
#[derive(Clone, Debug)]
pub(super) struct Million {
    pub(super) name: &'static str,
    /// Validators of a committee, a size that was measured.
    pub(super) committee: u32,
    /// Whether every form was measured at this size: only such lines stand beside each other.
    pub(super) common: bool,
    pub(super) committees: u64,
    /// One collection a committee, as a block carries them.
    pub(super) block_bytes: u64,
    /// Seconds of one core that verifying a block's collections takes.
    pub(super) block_core_s: f64,
    /// All collectors' collections.
    pub(super) topic_bytes: u64,
    /// Seconds of one core for them, and for the collectors' duty signatures, which are charged as votes.
    pub(super) topic_core_s: f64,
    /// Mbit/s that receive them in the window.
    pub(super) receive_mbps: f64,
    /// Cores that verify them in the window.
    pub(super) cores: f64,
    /// The same where one collector of each committee publishes, as with staged publishing while the
    /// first is honest.
    pub(super) staged_mbps: f64,
    pub(super) staged_cores: f64,
    /// Seconds until a collector has its collection, with all threads of this machine.
    pub(super) collector_s: f64,
    /// Bytes of a collector's input: an aggregate a cell.
    pub(super) collector_bytes: u64,
}

impl Million {
    /// Whether a node with so many cores and so many Mbit/s keeps up.
    pub(super) fn fits(&self, cores: f64, mbps: f64) -> bool {
        self.cores <= cores && self.receive_mbps <= mbps
    }
}

/// Each form at the largest size at which all forms were measured, and at its own largest if it
/// went on alone.
pub(super) fn of(rows: &[Row], network: Network) -> Vec<Million> {
    let forms: BTreeSet<&str> = rows.iter().map(|row| row.name).collect();
    let has_all =
        |votes: u32| rows.iter().filter(|row| row.case.votes == votes).count() == forms.len();
    let sizes = rows.iter().map(|row| row.case.votes);
    let common = sizes.filter(|votes| has_all(*votes)).max();
    let largest = |name: &str| {
        let of = rows.iter().filter(|row| row.name == name);
        of.map(|row| row.case.votes).max()
    };
    let chosen = |row: &&Row| {
        let votes = Some(row.case.votes);
        votes == common || votes == largest(row.name)
    };
    let model = |row: &Row| one(row, network, common == Some(row.case.votes));
    rows.iter().filter(chosen).filter_map(model).collect()
}

fn one(row: &Row, network: Network, common: bool) -> Option<Million> {
    let case = &row.case;
    let (slow, fast) = (case.slow()?, case.fast()?);
    let committees = VALIDATORS.div_ceil(u64::from(case.votes));
    let content = case.collection_bytes + case.support_bytes();
    let collections = committees * u64::from(network.collectors);
    let envelope = content + case.sizes.duty_signature_bytes as u64;
    let vote_s = slow.plain_s / f64::from(case.votes);
    let topic_bytes = collections * envelope;
    let topic_core_s = collections as f64 * (slow.verify_s + vote_s);
    Some(Million {
        name: row.name,
        committee: case.votes,
        common,
        committees,
        block_bytes: committees * content,
        block_core_s: committees as f64 * slow.verify_s,
        topic_bytes,
        topic_core_s,
        receive_mbps: topic_bytes as f64 * 8e-6 / network.window_s,
        cores: topic_core_s / network.window_s,
        staged_mbps: (committees * envelope) as f64 * 8e-6 / network.window_s,
        staged_cores: committees as f64 * (slow.verify_s + vote_s) / network.window_s,
        collector_s: fast.collect_s,
        collector_bytes: u64::from(case.cells)
            * (case.aggregate_bytes + u64::from(case.votes.div_ceil(u32::from(case.cells) * 8))),
    })
}

#[cfg(test)]
mod tests {
    use super::super::measure::{Case, Times};
    use super::*;
    use alphorn_scheme::model::CostTable;

    fn row(name: &'static str, votes: u32, verify_s: f64) -> Row {
        let table = CostTable::example();
        let sizes = alphorn_scheme::Sizes {
            public_key_bytes: 48,
            signature_bytes: 96,
            duty_signature_bytes: 96,
            selection_proof_bytes: None,
        };
        let times = |threads| Times {
            threads,
            prepare_s: 0.0,
            sign_s: 0.0,
            plain_s: f64::from(votes) * 1e-3,
            aggregate_s: 0.0,
            collect_s: 1.0 / threads as f64,
            verify_s,
            merges: Vec::new(),
            peak_rss_bytes: None,
        };
        Row {
            name,
            case: Case {
                votes,
                cells: 2,
                abilities: table.abilities,
                sizes,
                aggregate_bytes: 96,
                collection_bytes: 96,
                mergeable_max: None,
                times: vec![times(1), times(2)],
            },
        }
    }

    #[test]
    fn a_million_votes_add_up_by_hand() {
        let network = Network {
            collectors: 16,
            window_s: 4.0,
        };
        let rows = [
            row("sum", 512, 9.0),
            row("sum", 1024, 0.003),
            row("list", 512, 1.0),
        ];
        let million = of(&rows, network);
        let lines: Vec<(&str, u32, bool)> = million
            .iter()
            .map(|one| (one.name, one.committee, one.common))
            .collect();
        assert_eq!(
            lines,
            [
                ("sum", 512, true),
                ("sum", 1024, false),
                ("list", 512, true)
            ],
            "equal committees, and a larger one of a form that was measured alone"
        );
        let sum = &million[1];
        assert_eq!((sum.committee, sum.committees), (1024, 1024));
        // 96 bytes of evidence, 128 of support, 96 of the collector's signature.
        assert_eq!(sum.block_bytes, 1024 * (96 + 128));
        assert_eq!(sum.topic_bytes, 1024 * 16 * (96 + 128 + 96));
        assert!((sum.block_core_s - 1024.0 * 0.003).abs() < 1e-9);
        assert!((sum.topic_core_s - 1024.0 * 16.0 * 0.004).abs() < 1e-9);
        assert!((sum.cores - sum.topic_core_s / 4.0).abs() < 1e-9);
        assert!((sum.receive_mbps - sum.topic_bytes as f64 * 8.0 / 4e6).abs() < 1e-9);
        assert!((sum.staged_mbps * 16.0 - sum.receive_mbps).abs() < 1e-9);
        assert!((sum.staged_cores * 16.0 - sum.cores).abs() < 1e-9);
        assert_eq!(sum.collector_s, 0.5);
        assert_eq!(sum.collector_bytes, 2 * (96 + 64));
        assert!(sum.fits(17.0, 11.0) && !sum.fits(16.0, 11.0) && !sum.fits(17.0, 10.0));
    }
}
