//! Which validators vote.

use crate::random;
use alphorn_types::{Assignment, Bitfield, Layout};
use rand_chacha::rand_core::Rng;

/// Millionths of all validators.
pub(crate) const PPM: u32 = 1_000_000;

/// Which validators vote in the slot. Selected validators perform their duties whether they vote or
/// not: a record shows which voted, and nothing about which aggregated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Participation {
    /// A number of validators in millionths of all, drawn from the seed: exactly `floor(validators
    /// * ppm / 1,000,000 + 1/2)` of them, each such set being equally likely.
    Rate {
        /// Millionths, at most 1,000,000.
        ppm: u32,
    },
    /// A record: bit i is set if the validator at position i of the epoch voted.
    Recorded(Bitfield),
}

/// A participation that does not fit the layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParticipationError {
    /// A rate of more than all validators.
    #[error("participation of {value} millionths, must be at most {max}")]
    Rate {
        /// The rate given.
        value: u32,
        /// Maximum allowed.
        max: u32,
    },
    /// A record with the wrong length for this network.
    #[error(
        "participation is recorded for {value} positions, the layout has {validators} validators"
    )]
    Length {
        /// Positions in the record.
        value: usize,
        /// Validators of the layout.
        validators: u32,
    },
}

impl Participation {
    /// Checks that the participation fits the layout.
    ///
    /// # Errors
    /// [`ParticipationError`].
    pub fn check(&self, layout: &Layout) -> Result<(), ParticipationError> {
        match self {
            Participation::Rate { ppm } if *ppm > PPM => Err(ParticipationError::Rate {
                value: *ppm,
                max: PPM,
            }),
            Participation::Recorded(bits) if bits.len() != layout.validators() as usize => {
                Err(ParticipationError::Length {
                    value: bits.len(),
                    validators: layout.validators(),
                })
            }
            Participation::Rate { .. } | Participation::Recorded(_) => Ok(()),
        }
    }

    /// One bit for each position of the epoch: set if the validator votes.
    pub(super) fn by_position(&self, layout: &Layout, seed: u64) -> Bitfield {
        match self {
            Participation::Rate { ppm } => draw(layout.validators(), *ppm, seed),
            Participation::Recorded(bits) => bits.clone(),
        }
    }
}

/// Selection sampling: visits the positions once, and takes each with the probability that gives
/// exactly the right number at the end (Knuth, TAOCP vol. 2, 3.4.2, algorithm S).
fn draw(validators: u32, ppm: u32, seed: u64) -> Bitfield {
    let n = u64::from(validators);
    // floor(x + 1/2) in integers.
    let mut wanted = (2 * n * u64::from(ppm) + u64::from(PPM)) / (2 * u64::from(PPM));
    let mut random = random::stream(seed, "participation", 0);
    let mut bits = Bitfield::new(validators as usize);
    for i in 0..n {
        // floor(r * left / 2^64) is uniform below `left`, up to 2^-44 for 2^20 validators.
        let left = u128::from(n - i);
        let ticket = (u128::from(random.next_u64()) * left) >> 64;
        if ticket < u128::from(wanted) {
            bits.set(i as usize);
            wanted -= 1;
        }
    }
    bits
}

/// The same set with one bit per validator.
pub(super) fn by_validator(by_position: &Bitfield, assignment: &Assignment) -> Bitfield {
    let mut bits = Bitfield::new(by_position.len());
    for position in by_position.iter_ones() {
        bits.set(assignment.members()[position] as usize);
    }
    bits
}

#[cfg(test)]
mod tests {
    use super::*;
    use alphorn_types::Epoch;

    #[test]
    fn a_rate_is_exact_and_follows_the_seed() {
        for (validators, ppm, expected) in [
            (5, 500_000, 3), // 2.5 rounds up
            (5, 499_999, 2),
            (7, 0, 0),
            (7, PPM, 7),
            (2047, 950_000, 1945),         // 1944.65
            (1 << 20, 990_000, 1_038_090), // 1038090.24
        ] {
            let bits = draw(validators, ppm, 1);
            assert_eq!(bits.count_ones(), expected, "{ppm} of {validators}");
            assert_eq!(bits, draw(validators, ppm, 1));
        }
        assert_ne!(draw(1000, 500_000, 1), draw(1000, 500_000, 2));
    }

    #[test]
    fn every_position_is_as_likely() {
        let mut counts = [0u32; 10];
        for seed in 0..2000 {
            draw(10, 300_000, seed)
                .iter_ones()
                .for_each(|i| counts[i] += 1);
        }
        // The expected number is 600, the standard deviation 20.5.
        assert!(
            counts.iter().all(|count| (500..700).contains(count)),
            "{counts:?}"
        );
    }

    #[test]
    fn what_does_not_fit_is_named() {
        let layout = Layout::new(10, 1, 1).unwrap();
        let rate = Participation::Rate { ppm: PPM + 1 };
        assert_eq!(
            rate.check(&layout),
            Err(ParticipationError::Rate {
                value: PPM + 1,
                max: PPM
            })
        );
        let record = Participation::Recorded(Bitfield::new(9));
        assert_eq!(
            record.check(&layout),
            Err(ParticipationError::Length {
                value: 9,
                validators: 10
            })
        );
        assert_eq!(
            Participation::Recorded(Bitfield::ones(10)).check(&layout),
            Ok(())
        );
    }

    #[test]
    fn positions_become_validators() {
        let layout = Layout::new(4, 1, 1).unwrap();
        let assignment = Assignment::new(Epoch(0), layout, vec![2, 0, 3, 1]).unwrap();
        let mut positions = Bitfield::new(4);
        [0, 3].into_iter().for_each(|i| positions.set(i));
        let voters: Vec<usize> = by_validator(&positions, &assignment).iter_ones().collect();
        assert_eq!(voters, [1, 2]);
    }
}
