//! Which validators vote in a run, and on which nodes they run: for Horn and for trees.

use crate::latency::mix;
use alphorn_types::Bitfield;

/// The validators that vote; validator i is on node i mod the number of nodes.
#[derive(Clone, Debug)]
pub(crate) struct Voters {
    bits: Bitfield,
    validators: u32,
    nodes: u32,
}

impl Voters {
    /// A number of validators per million, drawn independently, so that adding a validator does not change the
    /// others. `key` is the seed of the run and a word that separates these draws from its others.
    pub(crate) fn draw(validators: u32, nodes: u32, ppm: u32, key: [u64; 2]) -> Self {
        let mut bits = Bitfield::new(validators as usize);
        for validator in 0..validators {
            let draw = mix([key[0], key[1], validator.into(), 0]) % 1_000_000;
            if draw < u64::from(ppm) {
                bits.set(validator as usize);
            }
        }
        Voters {
            bits,
            validators,
            nodes,
        }
    }

    /// The validators of a node, whether they vote or not.
    pub(crate) fn hosted(&self, node: u32) -> impl Iterator<Item = u32> + use<> {
        (node..self.validators).step_by(self.nodes as usize)
    }

    /// The validators of a node that vote.
    pub(crate) fn voting(&self, node: u32) -> impl Iterator<Item = u32> + '_ {
        self.hosted(node).filter(|validator| self.has(*validator))
    }

    /// Removes the votes of the validators on these nodes: a vote that its own node never sends does not count
    /// as cast.
    pub(crate) fn silence(&mut self, nodes: &[u32]) {
        for node in nodes {
            for validator in self.hosted(*node) {
                self.bits.clear(validator as usize);
            }
        }
    }

    /// Whether a validator votes.
    pub(crate) fn has(&self, validator: u32) -> bool {
        self.bits.get(validator as usize)
    }

    /// Number of validators that vote.
    pub(crate) fn count(&self) -> u64 {
        self.bits.count_ones() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn validators_of_silent_nodes_do_not_vote() {
        let mut voters = Voters::draw(10, 4, 1_000_000, [1, 2]);
        assert_eq!(voters.count(), 10);
        assert!(voters.hosted(1).eq([1, 5, 9]));
        voters.silence(&[1, 3]);
        let left = (0..10).filter(|validator| voters.has(*validator));
        assert!(left.eq([0, 2, 4, 6, 8]));
        assert_eq!(Voters::draw(10, 4, 0, [1, 2]).count(), 0);
    }
}
