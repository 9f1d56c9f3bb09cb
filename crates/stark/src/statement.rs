//! The statement about a slot, a message, a registry and a bitfield, as one digest.
//!
//! A statement says that for each set bit there is an opening of that registry row, at this slot and for this
//! message. All of it enters the transcript first, so a proof of one statement is not a proof of another.

use alphorn_exec::Exec;

use crate::field::Fp;
use crate::hash::{DIGEST, Digest, compress};
use crate::merkle::{chain, compress_all, root};
use crate::registry::Registry;
use crate::transcript::tag;

/// Number of bits of the bitfield in one element of its digest.
const WORD_BITS: usize = 16;

/// The public parts of a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement {
    /// Distinguishes parameter sets.
    pub set: u32,
    /// The slot.
    pub slot: u32,
    /// The message in the form hashed; its length follows from the set.
    pub message: Vec<Fp>,
    /// The committee to which the registry belongs.
    pub committee: u32,
    /// Maximum depth of merges in the proof: 0 for proofs of instances only.
    pub level: u32,
    /// The digest of the registry.
    pub registry: Digest,
    /// For each row of the registry, whether it is claimed.
    pub bitfield: Vec<bool>,
}

/// The digest R of a registry: its Merkle root over leaves C(row, "key1", i), with its size and owner. Rows of
/// more than eight elements are chained after that, eight at a time.
pub fn registry_digest(exec: Exec<'_>, registry: &Registry, set: u32, committee: u32) -> Digest {
    let block = |i: usize, k: usize| {
        let row = registry.row(i);
        padded(row.chunks(DIGEST).nth(k).unwrap_or_default())
    };
    let mut leaves = compress_all(exec, registry.rows(), |i| {
        let place = [tag(b"key1"), Fp::new(i as u32)];
        (block(i, 0), padded(&place))
    });
    for k in 1..registry.width().div_ceil(DIGEST) {
        leaves = compress_all(exec, registry.rows(), |i| (leaves[i], block(i, k)));
    }
    // With the size in it, a key of zeros is not the same as padding.
    let names = [
        tag(b"reg1"),
        Fp::new(registry.size() as u32),
        Fp::new(committee),
        Fp::new(set),
    ];
    compress(root(exec, leaves), padded(&names))
}

/// The words of a bitfield, sixteen bits each, the first bit lowest.
pub(crate) fn bitfield_words(bitfield: &[bool]) -> Vec<Fp> {
    let word = |bits: &[bool]| {
        let bits = bits.iter().rev();
        Fp::new(bits.fold(0, |word, bit| word << 1 | u32::from(*bit)))
    };
    bitfield.chunks(WORD_BITS).map(word).collect()
}

fn padded(elements: &[Fp]) -> Digest {
    std::array::from_fn(|i| elements.get(i).copied().unwrap_or_default())
}

impl Statement {
    /// The digest of the bitfield: words of sixteen bits, the first bit lowest, eight to a block.
    pub(crate) fn bitfield_digest(&self) -> Digest {
        let words = bitfield_words(&self.bitfield);
        let start = [tag(b"bits"), Fp::new(self.bitfield.len() as u32)];
        chain(padded(&start), words.chunks(DIGEST).map(padded))
    }

    /// The digest e of the entry: slot, message, registry and bitfield.
    pub(crate) fn entry_digest(&self) -> Digest {
        let start = [
            tag(b"ent1"),
            Fp::new(self.set),
            // In two halves: a slot of 32 bits may be p or more, and would be the same element as another slot.
            Fp::new(self.slot & 0xffff),
            Fp::new(self.slot >> 16),
            Fp::new(self.committee),
        ];
        let message = self.message.chunks(DIGEST).map(padded);
        let blocks = message.chain([self.registry, self.bitfield_digest()]);
        chain(padded(&start), blocks)
    }

    /// The digest of the entry as a bundle lists it, with the relation's public values. Slot and message determine
    /// those values, but splitting a bundle requires them also for entries that are not kept.
    pub(crate) fn listed_digest(&self, publics: &[Fp]) -> Digest {
        let start = [tag(b"list"), Fp::new(publics.len() as u32)];
        let blocks = publics.chunks(DIGEST).map(padded);
        chain(padded(&start), blocks.chain([self.entry_digest()]))
    }

    /// The digest with which the transcript begins.
    pub(crate) fn digest(&self) -> Digest {
        let start = [tag(b"one1"), Fp::new(self.level)];
        chain(padded(&start), [self.entry_digest()])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alphorn_exec::Backend;

    fn example() -> Statement {
        Statement {
            set: 3,
            slot: 0x0001_0002,
            message: (0..8).map(Fp::new).collect(),
            committee: 5,
            level: 0,
            registry: [Fp::new(7); DIGEST],
            bitfield: (0..256).map(|i| i % 3 == 0).collect(),
        }
    }

    #[test]
    fn each_part_of_a_statement_changes_its_digest() {
        let honest = example().digest();
        let changes: [fn(&mut Statement); 8] = [
            |s| s.set += 1,
            |s| s.slot += 1,
            |s| s.slot += 1 << 16,
            |s| s.message[7] += Fp::ONE,
            |s| s.committee += 1,
            |s| s.level += 1,
            |s| s.registry[0] += Fp::ONE,
            |s| s.bitfield.truncate(128),
        ];
        for (i, change) in changes.iter().enumerate() {
            let mut changed = example();
            change(&mut changed);
            assert_ne!(changed.digest(), honest, "change {i}");
        }
        for bit in 0..256 {
            let mut changed = example();
            changed.bitfield[bit] ^= true;
            assert_ne!(changed.digest(), honest, "bit {bit}");
        }
    }

    #[test]
    fn a_registry_is_bound_with_the_places_of_its_rows() {
        let exec = Exec::new(Backend::Portable, None);
        let row = |i: u32| [Fp::new(i); DIGEST];
        let rows: Vec<_> = (1..6).map(row).collect();
        let digest = |rows: &[[Fp; DIGEST]], set, committee| {
            let registry = Registry::new(rows, DIGEST, 3).unwrap();
            registry_digest(exec, &registry, set, committee)
        };
        let honest = digest(&rows, 1, 2);
        let mut swapped = rows.clone();
        swapped.swap(1, 2);
        assert_ne!(digest(&swapped, 1, 2), honest);
        assert_ne!(digest(&rows[..4], 1, 2), honest);
        assert_ne!(digest(&rows, 2, 2), honest);
        assert_ne!(digest(&rows, 1, 3), honest);
        let with_zero = [rows.clone(), vec![row(0)]].concat();
        assert_ne!(
            digest(&with_zero, 1, 2),
            honest,
            "a zero row is not filling"
        );
        assert!(Registry::new(&[row(1); 9], DIGEST, 3).is_err());
        assert!(Registry::new(&[row(1)], 9, 3).is_err());
    }
}
