//! A million votes, extrapolated from the committees that were measured.

use super::Row;
use crate::compare::forms::is_common;
use serde::Serialize;
use std::collections::BTreeSet;

/// Validators whose votes are combined.
pub(super) const VALIDATORS: u64 = 1 << 20;

/// The network parameters of the model.
#[derive(Clone, Copy, Debug)]
pub(super) struct Network {
    /// Collections per committee that every node receives and verifies.
    pub(super) collectors: u16,
    /// Seconds within which it does.
    pub(super) window_s: f64,
}

/// 2^20 votes in committees of one size, with one form of a scheme. Byte counts cover evidence, one bit
/// per validator and the collector's duty signature, in a single copy; duplicates in a mesh,
/// committees, slots and the rest of an envelope come on top. One collector of each committee
/// publishes, as with staged publishing while the first is honest.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Million {
    #[serde(rename = "form")]
    pub(super) name: &'static str,
    /// Validators of a committee, of a size that was measured.
    pub(super) committee: u32,
    /// Whether every form was measured at this size.
    pub(super) common: bool,
    pub(super) committees: u64,
    /// One collection per committee, as in a block.
    pub(super) block_bytes: u64,
    /// What every node receives.
    pub(super) topic_bytes: u64,
    /// Mbit/s needed to receive it within the window.
    pub(super) mbps: f64,
    /// The same if all collectors publish.
    pub(super) all_mbps: f64,
    /// Core seconds to verify it, including collectors' duty signatures, which are charged as votes.
    pub(super) core_s: f64,
    /// Cores needed to do so within the window.
    pub(super) cores: f64,
    /// The same if all collectors publish.
    pub(super) all_cores: f64,
    /// What an aggregator receives: the votes of its cell.
    pub(super) aggregator_bytes: u64,
    /// Seconds until it has its aggregate, with all threads of this host.
    pub(super) aggregator_s: f64,
    /// What a collector receives: the inputs of its collection's last step.
    pub(super) collector_bytes: u64,
    /// Seconds until it has its collection, with all threads of this host.
    pub(super) collector_s: f64,
    /// Seconds from votes to collections, if each unit of each level has a host like this one.
    pub(super) path_s: f64,
}

impl Million {
    /// Whether a node with this many cores and Mbit/s keeps up.
    pub(super) fn fits(&self, cores: f64, mbps: f64) -> bool {
        self.cores <= cores && self.mbps <= mbps
    }

    /// The same if all collectors publish.
    pub(super) fn fits_all(&self, cores: f64, mbps: f64) -> bool {
        self.all_cores <= cores && self.all_mbps <= mbps
    }
}

/// Returns each form at each size, with those of one size adjacent.
pub(super) fn of(rows: &[Row], network: Network) -> Vec<Million> {
    let sizes: BTreeSet<u32> = rows.iter().map(|row| row.case.votes).collect();
    let mut million = Vec::new();
    for size in sizes {
        let of = rows.iter().filter(|row| row.case.votes == size);
        let common = is_common(rows, size);
        million.extend(of.filter_map(|row| one(row, network, common)));
    }
    million
}

fn one(row: &Row, network: Network, common: bool) -> Option<Million> {
    let case = &row.case;
    let (slow, fast) = (case.slow()?, case.fast()?);
    let committees = VALIDATORS.div_ceil(u64::from(case.votes));
    let content = case.collection_bytes + case.support_bytes();
    let topic_bytes = committees * (content + case.sizes.duty_signature_bytes as u64);
    let vote_s = slow.plain_s / f64::from(case.votes);
    let core_s = committees as f64 * (slow.verify_s + vote_s);
    let (mbps, cores) = (
        topic_bytes as f64 * 8e-6 / network.window_s,
        core_s / network.window_s,
    );
    let cell = case.votes.div_ceil(u32::from(case.cells));
    Some(Million {
        name: row.name,
        committee: case.votes,
        common,
        committees,
        block_bytes: committees * content,
        topic_bytes,
        mbps,
        all_mbps: mbps * f64::from(network.collectors),
        core_s,
        cores,
        all_cores: cores * f64::from(network.collectors),
        aggregator_bytes: u64::from(cell) * case.sizes.signature_bytes as u64,
        aggregator_s: fast.aggregate_s / f64::from(case.cells),
        collector_bytes: case.parts_bytes,
        collector_s: fast.last_s,
        path_s: fast.path_s,
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
            aggregate_s: 0.5,
            collect_s: 3.0 / threads as f64,
            last_s: 1.0 / threads as f64,
            path_s: 2.0 / threads as f64,
            verify_s,
            merges: Vec::new(),
            peak_rss_bytes: None,
        };
        Row {
            name,
            case: Case {
                votes,
                cells: 2,
                fan_out: vec![2],
                abilities: table.abilities,
                sizes,
                aggregate_bytes: 96,
                parts_bytes: 320,
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
                ("list", 512, true),
                ("sum", 1024, false)
            ],
            "those of one size stand beside each other"
        );
        let sum = &million[2];
        assert_eq!((sum.committee, sum.committees), (1024, 1024));
        // 96 bytes of evidence, 128 of support, 96 of the collector's signature.
        assert_eq!(sum.block_bytes, 1024 * (96 + 128));
        assert_eq!(sum.topic_bytes, 1024 * (96 + 128 + 96));
        assert!((sum.core_s - 1024.0 * 0.004).abs() < 1e-9);
        assert!((sum.cores - sum.core_s / 4.0).abs() < 1e-9);
        assert!((sum.mbps - sum.topic_bytes as f64 * 8.0 / 4e6).abs() < 1e-9);
        assert!((sum.all_mbps - sum.mbps * 16.0).abs() < 1e-9);
        assert!((sum.all_cores - sum.cores * 16.0).abs() < 1e-9);
        assert_eq!(
            (sum.collector_s, sum.path_s, sum.aggregator_s),
            (0.5, 1.0, 0.25)
        );
        assert_eq!((sum.aggregator_bytes, sum.collector_bytes), (512 * 96, 320));
        assert!(sum.fits(1.1, 0.7) && !sum.fits(1.0, 0.7) && !sum.fits(1.1, 0.6));
        assert!(sum.fits_all(17.0, 11.0) && !sum.fits_all(16.0, 11.0));
    }
}
