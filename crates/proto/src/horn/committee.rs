//! Committee assignment in an epoch.

use alphorn_types::{Assignment, Epoch, Layout};

use super::shuffle::Shuffle;
use crate::wire::digest;

/// The committees of `epoch`: position j of the epoch is held by validator π(j), where π is the
/// swap-or-not shuffle under [`digest::epoch_seed`]`(epoch, mix)`.
///
/// `mix` is [`digest::epoch_mix`] of the last block before the preceding epoch, so the committees are
/// known an epoch ahead.
pub fn assignment(epoch: Epoch, mix: &[u8; 32], layout: Layout) -> Assignment {
    let seed = digest::epoch_seed(epoch, mix);
    let members = Shuffle::new(seed, layout.validators()).list();
    Assignment::new(epoch, layout, members).expect("a shuffle of 0..n is a permutation of it")
}

#[cfg(test)]
mod tests {
    use super::*;
    use alphorn_types::Validator;

    #[test]
    fn every_validator_sits_once_whatever_the_layout() {
        for (n, c, s) in [
            (1, 32, 64),
            (5, 2, 4),
            (2047, 4, 8),
            (2048, 4, 8),
            (2049, 4, 8),
        ] {
            let layout = Layout::new(n, c, s).unwrap();
            let committees = assignment(Epoch(3), &[7; 32], layout);
            let mut seen = vec![false; n as usize];
            for cell in layout.cells() {
                for &validator in committees.cell_members(cell) {
                    assert!(!std::mem::replace(&mut seen[validator as usize], true));
                    assert_eq!(committees.cell_of(Validator(validator)), Some(cell));
                }
            }
            assert!(seen.into_iter().all(|seen| seen), "{n} {c} {s}");
        }
    }

    #[test]
    fn epoch_and_mix_change_the_committees() {
        let layout = Layout::new(1000, 1, 2).unwrap();
        let members = |epoch, mix| {
            assignment(Epoch(epoch), &[mix; 32], layout)
                .members()
                .to_vec()
        };
        assert_eq!(members(1, 1), members(1, 1));
        assert_ne!(members(1, 1), members(2, 1));
        assert_ne!(members(1, 1), members(1, 2));
    }

    /// The permutation of the specification's vector also fixes the direction: position j holds
    /// validator π(j), not π⁻¹(j).
    #[test]
    fn position_holds_the_image_of_the_shuffle() {
        let layout = Layout::new(300, 1, 1).unwrap();
        let committees = assignment(Epoch(0), &[9; 32], layout);
        let shuffle = Shuffle::new(digest::epoch_seed(Epoch(0), &[9; 32]), 300);
        for j in 0..300 {
            assert_eq!(committees.member(j).0, shuffle.index(j));
        }
    }
}
