//! The arithmetic that records.

use std::ops::{Add, Mul, Sub};

use super::build::Node;
use super::{Circuit, Id};
use crate::arith::{Arith, DIGEST};
use crate::error::VerifyError;
use crate::extension::{DEGREE, Ext};
use crate::field::Fp;
use crate::merkle::Opened;

/// Trees are hashed on from their caps to 2^this nodes: fewer nodes to choose from, longer paths.
const CHOICE_LOG2: usize = 2;

/// Bits of the modulus.
const BITS: usize = 31;

/// Bits that are all zero in p − 1: what is above them is below 127.
const LOW_BITS: usize = 24;

/// A node of a circuit: an element of F_p or of the extension.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wire<'a> {
    pub(super) circuit: &'a Circuit,
    pub(super) id: Id,
}

impl Wire<'_> {
    /// What it is in this run.
    pub(crate) fn value(&self) -> Ext {
        self.circuit.value(self.id)
    }
}

impl<'a> Add for Wire<'a> {
    type Output = Wire<'a>;

    fn add(self, other: Wire<'a>) -> Wire<'a> {
        let (a, b) = (self.id, other.id);
        let id = self.circuit.push(self.value() + other.value(), |build, _| {
            match (build.constant(a), build.constant(b)) {
                (Some(x), Some(y)) => (Node::Constant(x + y), build.is_base(a) && build.is_base(b)),
                (Some(Ext::ZERO), None) => build.same(b),
                (None, Some(Ext::ZERO)) => build.same(a),
                _ => (Node::Add(a, b), build.is_base(a) && build.is_base(b)),
            }
        });
        self.circuit.wire(id)
    }
}

impl<'a> Sub for Wire<'a> {
    type Output = Wire<'a>;

    fn sub(self, other: Wire<'a>) -> Wire<'a> {
        let (a, b) = (self.id, other.id);
        let id = self.circuit.push(self.value() - other.value(), |build, _| {
            match (build.constant(a), build.constant(b)) {
                (Some(x), Some(y)) => (Node::Constant(x - y), build.is_base(a) && build.is_base(b)),
                (None, Some(Ext::ZERO)) => build.same(a),
                _ => (Node::Sub(a, b), build.is_base(a) && build.is_base(b)),
            }
        });
        self.circuit.wire(id)
    }
}

impl<'a> Mul for Wire<'a> {
    type Output = Wire<'a>;

    fn mul(self, other: Wire<'a>) -> Wire<'a> {
        let (a, b) = (self.id, other.id);
        let mut product = false;
        let id = self
            .circuit
            .push(self.value() * other.value(), |build, id| {
                let base = build.is_base(a) && build.is_base(b);
                match (build.constant(a), build.constant(b)) {
                    (Some(x), Some(y)) => (Node::Constant(x * y), base),
                    (Some(Ext::ZERO), None) | (None, Some(Ext::ZERO)) => {
                        (Node::Constant(Ext::ZERO), true)
                    }
                    (Some(Ext::ONE), None) => build.same(b),
                    (None, Some(Ext::ONE)) => build.same(a),
                    (Some(x), None) => (Node::Scale(b, x), base),
                    (None, Some(y)) => (Node::Scale(a, y), base),
                    (None, None) => {
                        product = true;
                        match base {
                            true => (Node::Cell(build.new_cells(id, 1)), true),
                            false => (Node::Variable(build.new_cells(id, DEGREE)), false),
                        }
                    }
                }
            });
        if product {
            self.circuit.row(a, b, Some(id));
        }
        self.circuit.wire(id)
    }
}

/// How many elements the rows of the first oracle have: that differs from proof to proof.
#[derive(Clone, Debug)]
pub(crate) struct FirstRows<'a> {
    /// For each possible number of elements whether it is that, as one or zero, and what the chain of a
    /// leaf of so many begins with.
    pub(crate) widths: Vec<(Wire<'a>, usize, [Fp; DIGEST])>,
    /// Elements that the proof has; the others are zero.
    pub(crate) read: usize,
    /// For ranges of elements whether they are there.
    pub(crate) present: Vec<(std::ops::Range<usize>, Wire<'a>)>,
}

/// Runs a verifier on the elements of a proof, and records.
#[derive(Debug)]
pub(crate) struct Recorder<'a> {
    circuit: &'a Circuit,
    proof: &'a [Fp],
    read: usize,
    /// How the rows of the tree that is opened first look.
    pub(crate) first: Option<FirstRows<'a>>,
}

impl<'a> Recorder<'a> {
    /// Records a run on a proof into a circuit.
    pub(crate) fn new(circuit: &'a Circuit, proof: &'a [Fp]) -> Recorder<'a> {
        Recorder {
            circuit,
            proof,
            read: 0,
            first: None,
        }
    }

    /// The value of a fixed cell.
    pub(crate) fn input(&self, cell: usize, value: Fp) -> Wire<'a> {
        self.circuit.input(cell, value)
    }

    /// A base element of the prover's choice.
    pub(crate) fn hint(&self, value: Fp) -> Wire<'a> {
        self.circuit.hint(value)
    }

    /// Demands that a base element be 0 or 1.
    pub(crate) fn assert_bit(&mut self, bit: Wire<'a>) -> Result<(), VerifyError> {
        self.circuit.row(bit.id, bit.id, Some(bit.id));
        let value = bit.value();
        self.refuse(value * value == value, VerifyError::Flag)
    }

    /// Puts an element of the extension into five fixed cells.
    pub(crate) fn output(&mut self, cells: [usize; DEGREE], wire: Wire<'a>) {
        let value = wire.value();
        let placed = std::array::from_fn(|t| self.circuit.input(cells[t], value.0[t]));
        let placed = self.join(placed);
        let one = self.circuit.constant(Ext::ONE);
        self.circuit.row(wire.id, one.id, Some(placed.id));
    }

    /// Demands that the proof be read to its end.
    pub(crate) fn finish(&self) -> Result<(), VerifyError> {
        match self.read == self.proof.len() || self.circuit.builds() {
            true => Ok(()),
            false => Err(VerifyError::Length {
                want: self.read,
                got: self.proof.len(),
            }),
        }
    }

    fn refuse(&self, holds: bool, error: VerifyError) -> Result<(), VerifyError> {
        match holds || self.circuit.builds() {
            true => Ok(()),
            false => Err(error),
        }
    }

    /// factor · x for up to five base elements, by one row.
    fn products(&self, factor: Wire<'a>, elements: &[Wire<'a>]) -> Vec<Wire<'a>> {
        let out: Vec<Wire<'a>> = elements
            .iter()
            .map(|x| self.circuit.hint((x.value() * factor.value()).0[0]))
            .collect();
        let packed = [self.pack(elements), self.pack(&out)];
        self.circuit
            .row(packed[0].id, factor.id, Some(packed[1].id));
        out
    }

    /// Σ_t X^t·element_t of up to five elements.
    pub(crate) fn pack(&self, elements: &[Wire<'a>]) -> Wire<'a> {
        let zero = self.circuit.constant(Ext::ZERO);
        self.join(std::array::from_fn(|t| {
            elements.get(t).copied().unwrap_or(zero)
        }))
    }

    /// factor · x for the elements of a digest.
    pub(crate) fn scaled(
        &self,
        factor: Wire<'a>,
        digest: [Wire<'a>; DIGEST],
    ) -> [Wire<'a>; DIGEST] {
        let (head, tail) = digest.split_at(DEGREE);
        let products = [self.products(factor, head), self.products(factor, tail)].concat();
        std::array::from_fn(|i| products[i])
    }

    /// a, or b where the bit is one, and the other.
    fn choose(
        &self,
        bit: Wire<'a>,
        a: [Wire<'a>; DIGEST],
        b: [Wire<'a>; DIGEST],
    ) -> [[Wire<'a>; DIGEST]; 2] {
        let difference = self.scaled(bit, std::array::from_fn(|i| b[i] - a[i]));
        [
            std::array::from_fn(|i| a[i] + difference[i]),
            std::array::from_fn(|i| b[i] - difference[i]),
        ]
    }

    /// Reads a row of a tree, and hashes it.
    fn open_row(
        &mut self,
        tree: &Opened<'_, Wire<'a>>,
        first: Option<&FirstRows<'a>>,
    ) -> Result<(Vec<Wire<'a>>, [Wire<'a>; DIGEST]), VerifyError> {
        let read = first.map_or(tree.width, |first| first.read);
        let mut row = Vec::with_capacity(tree.width);
        for i in 0..tree.width {
            row.push(match i < read {
                true => self.read()?,
                false => self.hint(Fp::ZERO),
            });
        }
        let zero = self.circuit.constant(Ext::ZERO);
        let mut digest = tree.start.map(|x| self.base(x));
        if let Some(first) = first {
            digest = std::array::from_fn(|i| {
                let terms = first.widths.iter();
                terms.fold(zero, |sum, (is, _, start)| sum + *is * self.base(start[i]))
            });
            for (range, present) in &first.present {
                let absent = self.circuit.constant(Ext::ONE) - *present;
                for five in row[range.clone()].chunks(DEGREE) {
                    self.circuit.row(self.pack(five).id, absent.id, None);
                }
            }
        }
        let mut selected = [zero; DIGEST];
        for (i, eight) in row.chunks(DIGEST).enumerate() {
            let mut block = [zero; DIGEST];
            block[..eight.len()].copy_from_slice(eight);
            digest = self.compress(digest, block);
            let Some(first) = first else { continue };
            let of_width = |width: usize| width.div_ceil(DIGEST) == i + 1;
            let widths = first.widths.iter().filter(|(_, width, _)| of_width(*width));
            let is = widths.fold(zero, |sum, (is, _, _)| sum + *is);
            let of_block = self.scaled(is, digest);
            selected = std::array::from_fn(|k| selected[k] + of_block[k]);
        }
        Ok((row, if first.is_some() { selected } else { digest }))
    }

    /// Hashes a cap on to few nodes: all levels, from the cap.
    fn hash_on(&mut self, cap: &[[Wire<'a>; DIGEST]]) -> Vec<Vec<[Wire<'a>; DIGEST]>> {
        let mut levels = vec![cap.to_vec()];
        while levels[levels.len() - 1].len() > 1 << CHOICE_LOG2 {
            let last = &levels[levels.len() - 1];
            let pairs: Vec<_> = last.chunks_exact(2).map(|two| [two[0], two[1]]).collect();
            let above = pairs
                .into_iter()
                .map(|[left, right]| self.compress(left, right));
            let above = above.collect();
            levels.push(above);
        }
        levels
    }

    /// Follows a path from a leaf, through the cap, to one of few nodes.
    fn follow(
        &mut self,
        leaf: [Wire<'a>; DIGEST],
        index: &[Wire<'a>],
        (tree, levels): (&Opened<'_, Wire<'a>>, &[Vec<[Wire<'a>; DIGEST]>]),
    ) -> Result<(), VerifyError> {
        let height = index.len() - tree.cap.len().ilog2() as usize;
        let number = index.iter().rev().fold(0, |number, bit| {
            2 * number + usize::from(bit.value() == Ext::ONE)
        });
        let mut node = leaf;
        let top = height + levels.len() - 1;
        for (at, bit) in index[..top].iter().enumerate() {
            let mut sibling = node;
            for (k, x) in sibling.iter_mut().enumerate() {
                *x = match at.checked_sub(height) {
                    None => self.read()?,
                    // The cap was said before: the prover of the circuit only has to look it up.
                    Some(level) => {
                        let of_level = &levels[level];
                        let place = (number >> at ^ 1) % of_level.len();
                        self.hint(of_level[place][k].value().0[0])
                    }
                };
            }
            let [left, right] = self.choose(*bit, node, sibling);
            node = self.compress(left, right);
        }
        let mut nodes = levels[levels.len() - 1].clone();
        for bit in &index[top..] {
            let chosen = nodes
                .chunks_exact(2)
                .map(|two| self.choose(*bit, two[0], two[1])[0]);
            nodes = chosen.collect();
        }
        let difference: [Wire<'a>; DIGEST] = std::array::from_fn(|i| node[i] - nodes[0][i]);
        for part in difference.chunks(DEGREE) {
            let part = self.pack(part);
            self.assert_zero(part, tree.error)?;
        }
        Ok(())
    }
}

impl<'a> Arith for Recorder<'a> {
    type Base = Wire<'a>;
    type Ext = Wire<'a>;

    fn base(&self, value: Fp) -> Wire<'a> {
        self.circuit.constant(Ext::from(value))
    }

    fn ext(&self, value: Ext) -> Wire<'a> {
        self.circuit.constant(value)
    }

    fn join(&self, coefficients: [Wire<'a>; DEGREE]) -> Wire<'a> {
        let value = Ext(coefficients.map(|x| x.value().0[0]));
        let ids = coefficients.map(|x| x.id);
        let id = self.circuit.push(value, |build, _| {
            let constants = ids.map(|id| build.constant(id));
            match constants.iter().all(Option::is_some) {
                true => (
                    Node::Constant(value),
                    ids[1..]
                        .iter()
                        .all(|id| build.constant(*id) == Some(Ext::ZERO)),
                ),
                false => (Node::Join(ids), false),
            }
        });
        self.circuit.wire(id)
    }

    fn compress(
        &mut self,
        left: [Wire<'a>; DIGEST],
        right: [Wire<'a>; DIGEST],
    ) -> [Wire<'a>; DIGEST] {
        let ids = self
            .circuit
            .compress(left.map(|x| x.id), right.map(|x| x.id));
        ids.map(|id| self.circuit.wire(id))
    }

    fn read(&mut self) -> Result<Wire<'a>, VerifyError> {
        let element = match self.proof.get(self.read) {
            Some(element) => *element,
            None if self.circuit.builds() => Fp::ZERO,
            None => {
                return Err(VerifyError::Length {
                    want: self.read + 1,
                    got: self.proof.len(),
                });
            }
        };
        self.read += 1;
        Ok(self.hint(element))
    }

    fn read_where(&mut self, flag: Wire<'a>) -> Result<Wire<'a>, VerifyError> {
        let element = match flag.value() == Ext::ONE || self.circuit.builds() {
            true => self.read()?,
            false => self.hint(Fp::ZERO),
        };
        let absent = self.circuit.constant(Ext::ONE) - flag;
        self.circuit.row(element.id, absent.id, None);
        Ok(element)
    }

    fn open(
        &mut self,
        tree: &Opened<'_, Wire<'a>>,
        indices: &[Vec<Wire<'a>>],
    ) -> Result<Vec<Vec<Wire<'a>>>, VerifyError> {
        let first = self.first.take();
        let levels = self.hash_on(tree.cap);
        let mut rows = Vec::with_capacity(indices.len());
        for index in indices {
            let (row, leaf) = self.open_row(tree, first.as_ref())?;
            self.follow(leaf, index, (tree, &levels))?;
            rows.push(row);
        }
        Ok(rows)
    }

    fn low_bits(&mut self, value: Wire<'a>, count: usize) -> Vec<Wire<'a>> {
        let canonical = value.value().0[0].canonical();
        let bits: Vec<Wire<'a>> = (0..BITS)
            .map(|k| self.hint(Fp::new(canonical >> k & 1)))
            .collect();
        for bit in &bits {
            self.circuit.row(bit.id, bit.id, Some(bit.id));
        }
        let one = self.circuit.constant(Ext::ONE);
        let sum = |bits: &[Wire<'a>]| {
            let bits = bits.iter().rev();
            bits.fold(self.circuit.constant(Ext::ZERO), |sum, bit| {
                sum + sum + *bit
            })
        };
        self.circuit.row(sum(&bits).id, one.id, Some(value.id));
        // p = 127·2^24 + 1: the integer is below p unless all high bits are set and a low one is.
        let high = bits[LOW_BITS + 1..]
            .iter()
            .fold(bits[LOW_BITS], |product, bit| product * *bit);
        self.circuit.row(high.id, sum(&bits[..LOW_BITS]).id, None);
        bits[..count].to_vec()
    }

    fn assert_zero(&mut self, value: Wire<'a>, error: VerifyError) -> Result<(), VerifyError> {
        let one = self.circuit.constant(Ext::ONE);
        self.circuit.row(value.id, one.id, None);
        self.refuse(value.value() == Ext::ZERO, error)
    }

    fn assert_nonzero(&mut self, value: Wire<'a>, error: VerifyError) -> Result<(), VerifyError> {
        let inverse = value.value().inverse();
        let hint = self.circuit.hint_ext(inverse.unwrap_or_default());
        let one = self.circuit.constant(Ext::ONE);
        self.circuit.row(value.id, hint.id, Some(one.id));
        self.refuse(inverse.is_some(), error)
    }
}
