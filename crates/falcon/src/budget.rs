//! The sum of the statistical errors of a proof.

use alphorn_labrador::Images;
use alphorn_labrador::challenge::CHALLENGE_LOG2_CENTI;
use alphorn_labrador::columns::COLUMNS_MAX;
use alphorn_labrador::projection::LIFTS;
use alphorn_labrador::ring::DEGREE as ELEMENT;
use alphorn_labrador::schedule::Schedule;

/// `log2` of the number of weights in an aggregation: 64 coefficients with four values each.
const WEIGHTS_LOG2: f64 = 128.0;

/// Bits of a residue drawn from six bytes: no value is more likely than `2^-47`.
const RESIDUE_LOG2: f64 = 47.0;

/// `-log2` of the error of a projection whose image bounds a vector by `1/28` or `1/30` of its
/// squared norm (256 ternary rows; the modular lemma of eprint 2024/311, a heuristic).
const PROJECTION_28_LOG2: f64 = 132.8;
const PROJECTION_30_LOG2: f64 = 126.9;

/// Bits of a column index.
const COLUMN_BITS: u32 = COLUMNS_MAX.next_power_of_two().ilog2();

/// Upper bound on the degrees of the sumcheck's polynomials and of the preceding draws, for signatures of a degree.
/// It counts rounds of degree two for the coefficients of a ring element, rounds of degree three for rows (`s1`,
/// `s2`, quotients, slack) and columns, the variables that weigh columns and coefficients, and one scalar.
fn sumcheck_degrees(degree: usize) -> u32 {
    let row_bits = (3 * degree / ELEMENT + 1).next_power_of_two().ilog2();
    let rounds = ELEMENT.ilog2() * 2 + (row_bits + COLUMN_BITS) * 3;
    rounds + COLUMN_BITS + degree.ilog2() + 1
}

/// A kind of event that lets a false statement pass.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Event {
    /// Name of the event.
    pub name: &'static str,
    /// Number of times it can happen in one proof.
    pub count: u64,
    /// `log2` of the probability of each occurrence.
    pub each_log2: f64,
}

impl Event {
    /// Returns `log2` of the union bound over all occurrences.
    #[must_use]
    pub fn log2(&self) -> f64 {
        self.each_log2 + (self.count as f64).log2()
    }
}

/// Returns the errors of a proof over signatures of a degree, with this schedule, for one query of the hash that
/// replaces the verifier: an attacker that makes `2^60` queries gains 60 bits. The cost of breaking a commitment is a
/// separate matter: [`alphorn_labrador::sis::Profile::bits`].
#[must_use]
pub fn errors(degree: usize, schedule: &Schedule) -> Vec<Event> {
    let levels = &schedule.levels;
    let images = levels.iter().filter_map(|level| level.images.as_ref());
    let blocks: usize = images.clone().map(Images::blocks).sum();
    let groups: usize = images.clone().map(|images| images.groups.len()).sum();
    let dense = levels.iter().filter(|level| level.images.is_none());
    let parts = dense.clone().map(|level| level.parts.count).sum::<usize>();
    // The tail has a dense projection as well.
    let parts = parts + schedule.tail.parts.count;
    let dense = dense.count() + 1;
    let pieces = levels.iter().map(|level| level.cut.pieces);
    let pieces = pieces.sum::<usize>() + schedule.tail.cut.pieces;
    let lifts = LIFTS as f64;
    let event = |name, count, each_log2| Event {
        name,
        count: count as u64,
        each_log2,
    };
    let challenge = -f64::from(CHALLENGE_LOG2_CENTI) / 100.0;
    let with_blocks = levels.len() + 1 - dense;
    vec![
        event(
            "sumcheck",
            sumcheck_degrees(degree) as usize,
            -3.0 * RESIDUE_LOG2,
        ),
        event(
            "lifts of levels with blocks",
            with_blocks,
            lifts * (3f64.log2() - RESIDUE_LOG2),
        ),
        event("lifts of other levels", dense, lifts * (1.0 - RESIDUE_LOG2)),
        event("weights", levels.len() + 1, -WEIGHTS_LOG2),
        event("block projections", blocks, -PROJECTION_28_LOG2),
        event("projections of images", groups, -PROJECTION_28_LOG2),
        event("dense projections", parts, -PROJECTION_30_LOG2),
        event("amortisation", 2 * pieces, challenge),
        // (6) of each level: a false equation has at most two roots.
        event("garbage", 2 * levels.len(), challenge),
        // The garbage of the tail comes piece by piece, and each step has a challenge of its own, so the prover can
        // get lucky at each of them.
        event(
            "garbage of the last level",
            2 * schedule.tail.cut.pieces,
            challenge,
        ),
    ]
}

/// Returns `log2` of the sum of all errors.
#[must_use]
pub fn log2_sum(events: &[Event]) -> f64 {
    let sum: f64 = events.iter().map(|event| event.log2().exp2()).sum();
    sum.log2()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Aggregator;
    use alphorn_exec::Backend;
    use alphorn_labrador::sis::Profile;

    #[test]
    fn the_sum_is_that_of_the_lecture() {
        let aggregator = Aggregator::<512>::new(64, Profile::Core128, Backend::Portable);
        let aggregator = aggregator.expect("legal");
        let events = errors(512, aggregator.schedule());
        let sum = log2_sum(&events);
        let largest = events.iter().map(Event::log2).fold(f64::MIN, f64::max);
        assert!(largest < sum && sum < largest + 1.5, "{events:?}");
        assert!((-124.5..-121.0).contains(&sum), "{sum}");
        // 6 rounds of degree two, 5 for rows and 15 for columns of degree three, 15 and 9 variables, one scalar.
        assert_eq!(sumcheck_degrees(512), 6 * 2 + (5 + 15) * 3 + 15 + 9 + 1);
        // One more bit for rows, of which there are 49, and one more for coefficients.
        assert_eq!(sumcheck_degrees(1024), 6 * 2 + (6 + 15) * 3 + 15 + 10 + 1);
        let sumcheck = events.iter().find(|event| event.name == "sumcheck");
        assert!((sumcheck.expect("an event").log2() + 134.4).abs() < 0.1);
    }

    #[test]
    fn events_of_the_same_kind_add_up() {
        let event = |count| Event {
            name: "a",
            count,
            each_log2: -10.0,
        };
        assert_eq!(event(4).log2(), -8.0);
        assert_eq!(log2_sum(&[event(2), event(2)]), -8.0);
    }
}
