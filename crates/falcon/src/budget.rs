//! What the statistical errors of a proof add up to.

use alphorn_labrador::challenge::CHALLENGE_LOG2_CENTI;
use alphorn_labrador::projection::LIFTS;
use alphorn_labrador::schedule::Schedule;

use crate::Front;
use crate::MODULUS;
use crate::forms::FORMS;

/// `log2` of the challenges of columns, which need no operator norm: 32 coefficients of one and 12
/// of two among 64, with signs.
const COLUMN_CHALLENGES_LOG2: f64 = 132.42;

/// `log2` of the weights of an aggregation: 64 coefficients of four values.
const WEIGHTS_LOG2: f64 = 128.0;

/// Bits of a residue drawn from six bytes: none is more likely than `2^-47`.
const RESIDUE_LOG2: f64 = 47.0;

/// `-log2` of the error of a projection whose image bounds a vector by `1/28` or `1/30` of its
/// squared norm (256 ternary rows; the modular lemma of eprint 2024/311, a heuristic).
const PROJECTION_28_LOG2: f64 = 132.9;
const PROJECTION_30_LOG2: f64 = 127.0;

/// Columns under one copy of the block projection.
const BLOCK: usize = 1024;

/// A kind of accident that lets a false statement pass.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Event {
    /// What happens.
    pub name: &'static str,
    /// How often it can happen in one proof.
    pub count: u64,
    /// `log2` of the probability of each.
    pub each_log2: f64,
}

impl Event {
    /// `log2` of the union bound over all of them.
    #[must_use]
    pub fn log2(&self) -> f64 {
        self.each_log2 + (self.count as f64).log2()
    }
}

/// The errors of a proof with this schedule, for one query of the hash that replaces the verifier:
/// whoever can ask it `2^60` times gains 60 bits. What breaking a commitment costs is another
/// matter: [`alphorn_labrador::sis::Profile::bits`].
#[must_use]
pub fn errors(front: Front, schedule: &Schedule) -> Vec<Event> {
    let later = schedule.levels.len() as u64;
    let pieces = schedule.levels.iter().map(|level| level.cut.pieces);
    let pieces = pieces.sum::<usize>() + schedule.tail.cut.pieces;
    let lifts = LIFTS as f64;
    let event = |name, count, each_log2| Event {
        name,
        count,
        each_log2,
    };
    let first = schedule.levels.first().map(|level| level.cut);
    // Not all pieces are under the block projection: an upper bound.
    let blocks = first.map_or(0, |cut| cut.pieces * cut.rank.div_ceil(BLOCK));
    let form = (f64::from(MODULUS) / 2.0).log2();
    let mut events = Vec::new();
    if front != Front::Chihuahua {
        events.push(event("challenges of columns", 1, -COLUMN_CHALLENGES_LOG2));
    }
    if matches!(front, Front::Joint | Front::Bits) {
        events.push(event("forms modulo q", 1, -(FORMS as f64) * form));
    }
    let first_lifts = lifts * (3f64.log2() - RESIDUE_LOG2);
    events.extend([
        event("lifts of the first level", 1, first_lifts),
        event("lifts of later levels", later, -lifts * RESIDUE_LOG2),
        event("weights", later + 1, -WEIGHTS_LOG2),
    ]);
    let dense = match front {
        Front::Joint => {
            events.extend([
                event("block projection", blocks as u64, -PROJECTION_28_LOG2),
                event("projection of the images", 1, -PROJECTION_28_LOG2),
            ]);
            event("projections of later levels", later, -PROJECTION_30_LOG2)
        }
        _ => event("projections", later + 1, -PROJECTION_30_LOG2),
    };
    let challenge = -f64::from(CHALLENGE_LOG2_CENTI) / 100.0;
    events.extend([dense, event("amortisation", 2 * pieces as u64, challenge)]);
    events
}

/// `log2` of the sum of all errors.
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
        let aggregator = Aggregator::new(64, Profile::Core128, Backend::Portable);
        let aggregator = aggregator.expect("legal");
        let events = errors(Front::Joint, aggregator.schedule());
        let sum = log2_sum(&events);
        let largest = events.iter().map(Event::log2).fold(f64::MIN, f64::max);
        assert!(largest < sum && sum < largest + 1.5, "{events:?}");
        assert!((-124.5..-121.0).contains(&sum), "{sum}");
        let forms = events.iter().find(|event| event.name == "forms modulo q");
        assert!((forms.expect("an event").log2() + 138.4).abs() < 0.1);
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
