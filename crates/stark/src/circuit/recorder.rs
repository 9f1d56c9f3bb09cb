//! The recording arithmetic.

use std::ops::{Add, Mul, Sub};

use super::build::Node;
use super::{Circuit, Id};
use crate::arith::{Arith, OfLane, show};
use crate::error::VerifyError;
use crate::extension::{DEGREE, Ext};
use crate::field::Fp;
use crate::hash::{DIGEST, Digest, ONE_STATE};
use crate::merkle::Opened;

/// Number of bits of the modulus.
const BITS: usize = 31;

/// Number of low bits that are all zero in p − 1; the bits above them are a number below 127.
const LOW_BITS: usize = 24;

/// A node of a circuit: an element of F_p or of the extension.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wire<'a> {
    pub(super) circuit: &'a Circuit,
    pub(super) id: Id,
}

impl Wire<'_> {
    /// Its value in this run.
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
                // A copy, not a sum: folds start from zero, and a sum would count a term more and no longer be a
                // plain cell.
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
                            // A product of base elements is one: a single cell, to which the row leaves no other
                            // value. A variable would take five.
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

/// The number of elements in the rows of the first oracle, which differs from proof to proof.
#[derive(Clone, Debug)]
pub(crate) struct FirstRows<'a> {
    /// For each possible number of elements: a flag that is one if it applies, otherwise zero, the number, and the
    /// start of the chain of a leaf with that many elements.
    pub(crate) widths: Vec<(Wire<'a>, usize, [Fp; DIGEST])>,
    /// Number of elements that the proof has; the others are zero.
    pub(crate) read: usize,
    /// For ranges of elements, whether they are present.
    pub(crate) present: Vec<(std::ops::Range<usize>, Wire<'a>)>,
}

/// Runs a verifier on the elements of a proof, and records.
#[derive(Debug)]
pub(crate) struct Recorder<'a> {
    pub(super) circuit: &'a Circuit,
    proof: &'a [Fp],
    read: usize,
    /// Rows and whole paths of a tree, which are read before the proof continues.
    paths: std::vec::IntoIter<Fp>,
    /// The shape of the rows in the first opened tree.
    pub(crate) first: Option<FirstRows<'a>>,
}

impl<'a> Recorder<'a> {
    /// Records a run on a proof into a circuit.
    pub(crate) fn new(circuit: &'a Circuit, proof: &'a [Fp]) -> Recorder<'a> {
        Recorder {
            circuit,
            proof,
            read: 0,
            paths: Vec::new().into_iter(),
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

    /// Asserts that a base element is 0 or 1.
    pub(crate) fn assert_bit(&mut self, bit: Wire<'a>) -> Result<(), VerifyError> {
        self.circuit.row(bit.id, bit.id, Some(bit.id));
        let value = bit.value();
        self.refuse(value * value == value, VerifyError::Flag)
    }

    /// Writes an element of the extension to five fixed cells.
    pub(crate) fn output(&mut self, cells: [usize; DEGREE], wire: Wire<'a>) {
        let value = wire.value();
        // The cells are free until the row ties their sum to the computed value. A value in F has only one set of
        // coefficients, so all five are bound.
        let placed = std::array::from_fn(|t| self.circuit.input(cells[t], value.0[t]));
        let placed = self.join(placed);
        let one = self.circuit.constant(Ext::ONE);
        self.circuit.row(wire.id, one.id, Some(placed.id));
    }

    /// Asserts that the proof has been read to its end.
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
        // Sound only for a factor in F_p: then coefficient t of the product is element t times the factor, and one
        // row binds all five hints.
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

    /// (a, b), swapped if the bit is one.
    fn choose(
        &self,
        bit: Wire<'a>,
        a: [Wire<'a>; DIGEST],
        b: [Wire<'a>; DIGEST],
    ) -> [[Wire<'a>; DIGEST]; 2] {
        // One product serves both halves: d = bit·(b − a) is added to one and subtracted from the other.
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
            // The circuit has a cell for each element of the widest row. Those that the proof lacks are zero, which
            // the rows of absent parts below enforce.
            row.push(match i < read {
                true => self.read()?,
                false => self.hint(Fp::ZERO),
            });
        }
        let zero = self.circuit.constant(Ext::ZERO);
        let mut digest = tree.start.map(|x| self.base(x));
        if let Some(first) = first {
            // The width is hashed into the start of a leaf, so the start is selected by the same flags as the
            // digest below, exactly one of which is set.
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
            // The digest counts after the last block of the actual width. Several widths may end in the same block,
            // so their flags are added.
            let of_width = |width: usize| width.div_ceil(DIGEST) == i + 1;
            let widths = first.widths.iter().filter(|(_, width, _)| of_width(*width));
            let is = widths.fold(zero, |sum, (is, _, _)| sum + *is);
            let of_block = self.scaled(is, digest);
            selected = std::array::from_fn(|k| selected[k] + of_block[k]);
        }
        Ok((row, if first.is_some() { selected } else { digest }))
    }

    /// Reads the opened rows of a tree from the proof, and lays them out with the whole path of each. A circuit
    /// follows each path separately, so that it is the same for all proofs.
    fn lay_out(
        &mut self,
        tree: &Opened<'_, Wire<'a>>,
        first: Option<&FirstRows<'a>>,
        indices: &[Vec<Wire<'a>>],
    ) -> Result<(), VerifyError> {
        // The proof was made with the actual width and start, and its shared nodes are found only with those.
        let is = |(is, _, _): &&(Wire<'a>, usize, Digest)| is.value() == Ext::ONE;
        let (width, start) = first
            .and_then(|first| first.widths.iter().find(is))
            .map_or((tree.width, tree.start), |(_, width, start)| {
                (*width, *start)
            });
        let value = |wire: Wire<'a>| wire.value().0[0];
        let cap: Vec<Digest> = tree.cap.iter().map(|node| node.map(value)).collect();
        let values = Opened {
            cap: &cap,
            start,
            width,
            error: tree.error,
        };
        let bits = indices.first().map_or(0, Vec::len);
        let indices: Vec<usize> = indices.iter().map(|index| number(index)).collect();
        let (shown, end) = show(*ONE_STATE, self.proof, self.read, &values, &indices, bits)?;
        self.read = end;
        let laid_out = indices.iter().flat_map(|index| {
            let path = shown.path(*index).flatten();
            shown.row(*index).iter().copied().chain(path)
        });
        self.paths = laid_out.collect::<Vec<Fp>>().into_iter();
        Ok(())
    }

    /// Follows a path from a leaf to the cap.
    fn follow(
        &mut self,
        leaf: [Wire<'a>; DIGEST],
        index: &[Wire<'a>],
        tree: &Opened<'_, Wire<'a>>,
    ) -> Result<(), VerifyError> {
        let (path, top) = index.split_at(index.len() - tree.cap.len().ilog2() as usize);
        let mut node = leaf;
        for bit in path {
            // Siblings are hints that no row checks: a wrong one leads to a digest that is not the cap's, except
            // for a collision.
            let mut sibling = node;
            for x in &mut sibling {
                *x = self.read()?;
            }
            let [left, right] = self.choose(*bit, node, sibling);
            node = self.compress(left, right);
        }
        let mut nodes = tree.cap.to_vec();
        // The upper bits of the index choose a node of the cap, pair by pair from the lowest of them, since a
        // circuit cannot index.
        for bit in top {
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

/// The number with these bits.
fn number(index: &[Wire<'_>]) -> usize {
    index.iter().rev().fold(0, |number, bit| {
        2 * number + usize::from(bit.value() == Ext::ONE)
    })
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
        // Rows and full paths that `lay_out` derived come first. In a circuit each is a hint, whether the proof
        // contains it or not.
        if let Some(element) = self.paths.next() {
            return Ok(self.hint(element));
        }
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
        // Both arms leave the same node. This row is what forces an element that must not exist to be zero.
        let absent = self.circuit.constant(Ext::ONE) - flag;
        self.circuit.row(element.id, absent.id, None);
        Ok(element)
    }

    fn open(
        &mut self,
        tree: &Opened<'_, Wire<'a>>,
        indices: &[Vec<Wire<'a>>],
    ) -> Result<Vec<Vec<Wire<'a>>>, VerifyError> {
        // Only the first oracle's rows differ in width from proof to proof, so the next tree must not find the
        // shape again.
        let first = self.first.take();
        if !self.circuit.builds() {
            self.lay_out(tree, first.as_ref(), indices)?;
        }
        let rows = self.lanes(indices.len(), |recorder, lane| {
            let (row, leaf) = recorder.open_row(tree, first.as_ref())?;
            recorder.follow(leaf, &indices[lane], tree)?;
            Ok((row, Vec::new()))
        })?;
        Ok(rows.into_iter().map(|(row, _)| row).collect())
    }

    fn in_lanes(&mut self, elements: Vec<Wire<'a>>) -> Vec<Wire<'a>> {
        let ids: Vec<Id> = elements.iter().map(|element| element.id).collect();
        let copies = self.each(elements.len(), |recorder, lane| {
            // The elements came from one hash for eight lanes, outside lanes. A row for each asserts that the copy
            // is equal.
            let copy = recorder.hint(elements[lane].value().0[0]);
            recorder.circuit.copy(copy.id, ids.clone());
            (vec![copy], Vec::new())
        });
        copies.into_iter().flat_map(|(copy, _)| copy).collect()
    }

    fn each(
        &mut self,
        lanes: usize,
        mut one: impl FnMut(&mut Self, usize) -> OfLane<Self>,
    ) -> Vec<OfLane<Self>> {
        let lanes = self.lanes(lanes, |recorder, lane| Ok(one(recorder, lane)));
        lanes.unwrap_or_default()
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
        // Without this row a small x could be written as x + p, with other low bits, and a prover could choose its
        // queries.
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
        // An inverse exists only of what is not zero, and one row checks it.
        let hint = self.circuit.hint_ext(inverse.unwrap_or_default());
        let one = self.circuit.constant(Ext::ONE);
        self.circuit.row(value.id, hint.id, Some(one.id));
        self.refuse(inverse.is_some(), error)
    }
}
