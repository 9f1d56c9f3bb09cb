//! Rows of scalars in the memory layout of the kernels: blocks of eight elements, five limbs of 52
//! bits, structure of arrays.

use crate::scalar::{Scalar, is_canonical};

/// Elements per block.
pub(crate) const LANES: usize = 8;
const MASK52: u64 = (1 << 52) - 1;

/// Eight elements: `limbs[i][lane]` is limb i, below 2^52, of one canonical scalar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C, align(64))]
pub(crate) struct Block {
    pub(crate) limbs: [[u64; LANES]; 5],
}

impl Block {
    pub(crate) const ZERO: Block = Block {
        limbs: [[0; LANES]; 5],
    };

    #[inline(always)]
    pub(crate) fn get(&self, lane: usize) -> [u64; 4] {
        let l = |i: usize| self.limbs[i][lane];
        [
            l(0) | (l(1) << 52),
            (l(1) >> 12) | (l(2) << 40),
            (l(2) >> 24) | (l(3) << 28),
            (l(3) >> 36) | (l(4) << 16),
        ]
    }

    #[inline(always)]
    pub(crate) fn set(&mut self, lane: usize, value: [u64; 4]) {
        let [a, b, c, d] = value;
        self.limbs[0][lane] = a & MASK52;
        self.limbs[1][lane] = ((a >> 52) | (b << 12)) & MASK52;
        self.limbs[2][lane] = ((b >> 40) | (c << 24)) & MASK52;
        self.limbs[3][lane] = ((c >> 28) | (d << 36)) & MASK52;
        self.limbs[4][lane] = d >> 16;
    }
}

/// A vector over the scalars: the data of a chunk, or its coefficients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    len: usize,
    pub(crate) blocks: Vec<Block>,
}

/// Memory of a vector of this many elements in bytes.
pub(crate) fn row_bytes(elements: usize) -> usize {
    size_of::<Row>() + elements.div_ceil(LANES) * size_of::<Block>()
}

impl Row {
    /// Creates the zero vector of `len` elements.
    pub fn zero(len: usize) -> Row {
        Row {
            len,
            blocks: vec![Block::ZERO; len.div_ceil(LANES)],
        }
    }

    /// Creates the vector of the first `len` elements of these blocks, with at least one in the
    /// last block.
    #[cfg(target_arch = "x86_64")]
    pub(crate) fn from_blocks(len: usize, blocks: Vec<Block>) -> Row {
        assert_eq!(blocks.len(), len.div_ceil(LANES));
        let mut row = Row { len, blocks };
        row.clear_tail();
        row
    }

    /// Creates the vector of these elements.
    pub fn from_scalars(scalars: &[Scalar]) -> Row {
        let mut row = Row::zero(scalars.len());
        for (i, scalar) in scalars.iter().enumerate() {
            row.set(i, *scalar);
        }
        row
    }

    /// Reads 32-byte little-endian elements; `Err` gives the index of the first that is not below
    /// ℓ.
    pub(crate) fn from_wire(bytes: &[u8]) -> Result<Row, usize> {
        let mut row = Row::zero(bytes.len() / 32);
        for (i, element) in bytes.chunks_exact(32).enumerate() {
            let limbs = limbs_of(element);
            if !is_canonical(&limbs) {
                return Err(i);
            }
            row.blocks[i / LANES].set(i % LANES, limbs);
        }
        Ok(row)
    }

    /// Reads groups of 31 little-endian bytes, each below 2^248 and hence canonical without a
    /// check. Missing bytes count as zero.
    pub(crate) fn from_payload(bytes: &[u8], len: usize) -> Row {
        let mut row = Row::zero(len);
        for (i, group) in bytes.chunks(31).take(len).enumerate() {
            let mut element = [0; 32];
            element[..group.len()].copy_from_slice(group);
            row.blocks[i / LANES].set(i % LANES, limbs_of(&element));
        }
        row
    }

    /// Appends the 32-byte little-endian elements.
    pub(crate) fn write_wire(&self, out: &mut Vec<u8>) {
        out.reserve(32 * self.len);
        for i in 0..self.len {
            out.extend_from_slice(&self.get(i).to_bytes());
        }
    }

    /// Appends the elements as groups of 31 bytes; `Err` gives the index of the first that is not
    /// below 2^248.
    pub(crate) fn write_payload(&self, out: &mut Vec<u8>) -> Result<(), usize> {
        const BYTES: usize = 31;
        let start = out.len();
        // One extra byte: each element is written whole, and its last byte, a zero, is overwritten.
        out.resize(start + BYTES * self.len + 1, 0);
        for i in 0..self.len {
            let limbs = self.blocks[i / LANES].get(i % LANES);
            if limbs[3] >> 56 != 0 {
                return Err(i);
            }
            let element: &mut [u8; 32] = out[start + BYTES * i..]
                .first_chunk_mut()
                .expect("a byte more");
            for (bytes, limb) in element.chunks_exact_mut(8).zip(limbs) {
                bytes.copy_from_slice(&limb.to_le_bytes());
            }
        }
        out.pop();
        Ok(())
    }

    /// The first `len` elements, padded with zeros if there are fewer.
    pub(crate) fn resized(&self, len: usize) -> Row {
        let mut row = Row::zero(len);
        let whole = row.blocks.len().min(self.blocks.len());
        row.blocks[..whole].copy_from_slice(&self.blocks[..whole]);
        row.clear_tail();
        row
    }

    /// Zeroes the lanes of the last block that are beyond the elements.
    pub(crate) fn clear_tail(&mut self) {
        for i in self.len..self.blocks.len() * LANES {
            self.blocks[i / LANES].set(i % LANES, [0; 4]);
        }
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The number of bits of the longest element; 0 for 0.
    pub(crate) fn bits(&self) -> u32 {
        let mut any = [0; 5];
        for block in &self.blocks {
            for (any, limb) in any.iter_mut().zip(block.limbs) {
                *any |= limb.into_iter().fold(0, |any, lane| any | lane);
            }
        }
        let highest = any.iter().rposition(|&limb| limb != 0);
        highest.map_or(0, |i| 52 * i as u32 + 64 - any[i].leading_zeros())
    }

    /// Whether all elements are 0.
    pub(crate) fn is_zero(&self) -> bool {
        self.blocks.iter().all(|block| *block == Block::ZERO)
    }

    /// Returns element i. Panics if there is none.
    pub fn get(&self, i: usize) -> Scalar {
        assert!(i < self.len, "element {i} of a row of {}", self.len);
        Scalar(self.blocks[i / LANES].get(i % LANES))
    }

    /// Replaces element i. Panics if there is none.
    pub fn set(&mut self, i: usize, value: Scalar) {
        assert!(i < self.len, "element {i} of a row of {}", self.len);
        self.blocks[i / LANES].set(i % LANES, value.0);
    }

    /// The elements in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Scalar> + '_ {
        (0..self.len).map(|i| self.get(i))
    }
}

fn limbs_of(element: &[u8]) -> [u64; 4] {
    let mut limbs = [0; 4];
    for (limb, word) in limbs.iter_mut().zip(element.chunks_exact(8)) {
        *limb = u64::from_le_bytes(word.try_into().expect("chunks of eight bytes"));
    }
    limbs
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_chacha::ChaCha20Rng;
    use rand_chacha::rand_core::SeedableRng;

    #[test]
    fn wire_and_payload_forms_round_trip() {
        let mut rng = ChaCha20Rng::seed_from_u64(2);
        for len in 0..20 {
            let scalars: Vec<Scalar> = (0..len).map(|_| Scalar::random(&mut rng)).collect();
            let row = Row::from_scalars(&scalars);
            let mut wire = Vec::new();
            row.write_wire(&mut wire);
            assert_eq!(Row::from_wire(&wire).as_ref(), Ok(&row));
            assert_eq!(row.iter().collect::<Vec<_>>(), scalars);

            let payload: Vec<u8> = wire.iter().copied().take(31 * len).collect();
            let mut back = Vec::new();
            Row::from_payload(&payload, len)
                .write_payload(&mut back)
                .unwrap();
            assert_eq!(back, payload);
        }
    }

    #[test]
    fn elements_out_of_range_are_named() {
        let mut wire = vec![0; 96];
        wire[32..64].fill(0xff);
        assert_eq!(Row::from_wire(&wire), Err(1));
        let mut row = Row::zero(3);
        row.set(2, Scalar([0, 0, 0, 1 << 56]));
        assert_eq!(row.write_payload(&mut Vec::new()), Err(2));
        assert!(!row.is_zero() && Row::zero(3).is_zero());
    }

    #[test]
    fn bit_lengths() {
        let bits = |scalar| Row::from_scalars(&[Scalar::ZERO, scalar, Scalar::ZERO]).bits();
        assert_eq!(bits(Scalar::ZERO), 0);
        assert_eq!(bits(Scalar::from(255_u64)), 8);
        for place in 0..128 {
            assert_eq!(bits(Scalar::from(1_u128 << place)), place + 1);
        }
        assert_eq!(bits(-Scalar::ONE), 253);
    }

    #[test]
    fn resizing_keeps_what_fits_and_nothing_else() {
        let scalars: Vec<Scalar> = (1..20_u64).map(Scalar::from).collect();
        for from in 0..19 {
            let row = Row::from_scalars(&scalars[..from]);
            for to in 0..30 {
                let mut expected = scalars[..from.min(to)].to_vec();
                expected.resize(to, Scalar::ZERO);
                assert_eq!(
                    row.resized(to),
                    Row::from_scalars(&expected),
                    "{from} to {to}"
                );
            }
        }
    }
}
