//! Where the time of a proof goes, for those who measure it.

use std::time::Instant;

use alphorn_labrador::Inline;
use alphorn_labrador::adversary::{Step, Tamper};

use super::{AggregateError, Aggregator};
use crate::{Item, SALT_BYTES};

/// Seconds of the parts of a proof.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ProveTimes {
    /// Verifying every signature, the targets of the statement, the check of the witness, the columns
    /// and the digits of their products.
    pub admission_s: f64,
    /// The first commitment.
    pub commit_s: f64,
    /// Challenges of columns, `S2`, the images of blocks, the forms, quadratic garbage and the second
    /// commitment.
    pub s2_project_s: f64,
    /// The projection of the images and the lifts.
    pub lifts_s: f64,
    /// Linear garbage, its commitment and the response of the first level.
    pub garbage_s: f64,
    /// All later levels.
    pub later_levels_s: f64,
    /// All of it.
    pub total_s: f64,
}

/// Adds the time since the last step to the part that ends there.
struct Watch {
    last: Instant,
    times: ProveTimes,
}

impl Watch {
    fn lap_s(&mut self) -> f64 {
        let last = std::mem::replace(&mut self.last, Instant::now());
        self.last.duration_since(last).as_secs_f64()
    }
}

impl Tamper for Watch {
    fn at(&mut self, level: usize, step: Step<'_>) {
        let lap_s = self.lap_s();
        let times = &mut self.times;
        let part = match (level, step) {
            (1, Step::Witness(_)) => &mut times.admission_s,
            (1, Step::First(_)) => &mut times.commit_s,
            (1, Step::Images(_) | Step::Second(_) | Step::Quotients(_)) => &mut times.s2_project_s,
            (1, Step::Commitments(..) | Step::Outer(_)) => &mut times.s2_project_s,
            (1, Step::Projection(_) | Step::Lifts(_)) => &mut times.lifts_s,
            (1, _) | (2, Step::Witness(_)) => &mut times.garbage_s,
            _ => &mut times.later_levels_s,
        };
        *part += lap_s;
    }
}

impl Aggregator {
    /// Proves as [`Aggregator::prove`] does, and says where the time went: salts, proof, times.
    ///
    /// # Errors
    /// Those of [`Aggregator::prove`].
    #[expect(clippy::type_complexity, reason = "that of `prove` and the times")]
    pub fn prove_timed(
        &self,
        items: &[Item<'_>],
        context: &[u8],
    ) -> Result<(Vec<[u8; SALT_BYTES]>, Vec<u8>, ProveTimes), AggregateError> {
        let start = Instant::now();
        let mut watch = Watch {
            last: start,
            times: ProveTimes::default(),
        };
        let (salts, proof) = self.prove_watched(items, context, &mut watch, &Inline)?;
        watch.times.later_levels_s += watch.lap_s();
        watch.times.total_s = start.elapsed().as_secs_f64();
        Ok((salts, proof, watch.times))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SecretKey;
    use alphorn_labrador::Backend;
    use alphorn_labrador::sis::Profile;

    #[test]
    fn parts_add_up_and_the_proof_is_the_same() {
        let key = SecretKey::interop(0);
        let signature = key.sign(b"m", &[0; 32]);
        let item = Item {
            key: key.public(),
            message: b"m",
            signature: &signature,
        };
        let aggregator = Aggregator::new(3, Profile::Core128, Backend::measured());
        let aggregator = aggregator.expect("legal");
        let items = [item, item, item];
        let (salts, proof, times) = aggregator.prove_timed(&items, b"c").expect("valid");
        assert_eq!(aggregator.prove(&items, b"c"), Ok((salts, proof)));
        let parts = [
            times.admission_s,
            times.commit_s,
            times.s2_project_s,
            times.lifts_s,
            times.garbage_s,
            times.later_levels_s,
        ];
        assert!(parts.iter().all(|&part| part > 0.0), "{times:?}");
        assert!((parts.iter().sum::<f64>() - times.total_s).abs() < 1e-3);
    }
}
