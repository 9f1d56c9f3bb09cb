//! The verifier of a merge over any arithmetic: from a proof to values of public polynomials.

use super::known::{BundleOutputs, Form, MergeKnown, Outputs, parameters};
use super::layout::{
    CHILD_LOG2, CHILDREN_MAX, LANES_LOG2, PERMUTATIONS_LOG2, PLACES_LOG2, PRODUCTS_LOG2,
    REGISTRY_LOG2, ROWS_LOG2, SLICE_LOG2, WORD_LOG2, WORD_ROWS, WORDS_LOG2, coordinates,
    fixed_column, units,
};
use super::residual::{RegistryClaims, WiringAt, WiringClaims, wiring_weights};
use super::weights::{Claim, Claims, Column, Part};
use crate::arith::{Arith, sum};
use crate::error::VerifyError;
use crate::extension::{DEGREE, Ext};
use crate::hash::DIGEST;
use crate::multilinear::{eq_table, powers};
use crate::poseidon::{Kind, WIDTH_16};
use crate::poseidon_gkr::skip::{ROWS, lagrange};
use crate::poseidon_gkr::{self, OutputClaim, Point, RowWeights};
use crate::sumcheck::read_round;
use crate::transcript::Channel;
use crate::whir::{self, Commitment, Preset};

/// Degree of a round of the rows and of the union.
const ROUND_DEGREE: usize = 2;

/// The weight of each child at a point of children.
pub(super) fn child_weights<A: Arith>(
    arith: &A,
    used: &[A::Base],
    point: &[A::Ext],
) -> Vec<A::Ext> {
    let eq = eq_table(arith.ext(Ext::ONE), point);
    let weights = eq[1..].iter().zip(used);
    weights.map(|(weight, used)| *weight * *used).collect()
}

/// A verifier of a merge between two arguments.
struct Reader<'a, A: Arith> {
    channel: Channel<A>,
    known: &'a MergeKnown<A::Base>,
    claims: Claims<A::Ext>,
}

/// The data read before claims are opened.
pub(super) struct Argued<A: Arith> {
    channel: Channel<A>,
    commitment: Commitment<A>,
    pub(super) claims: Claims<A::Ext>,
    pub(super) children: Vec<Outputs<A::Ext>>,
    bitfield: (Vec<A::Ext>, A::Ext),
}

/// Reads everything before the opening of claims.
pub(super) fn read_argued<A: Arith>(
    arith: A,
    relation: u32,
    preset: &Preset,
    known: &MergeKnown<A::Base>,
) -> Result<Argued<A>, VerifyError> {
    let mut channel = Channel::new(arith, parameters(relation, preset.id, known.form));
    // Circuits, statement and header come before the commitment: no part of what is proved may be chosen after the
    // first challenge.
    channel.absorb(&known.key);
    channel.absorb(&known.digest);
    let header = known.header(|x| channel.arith.base(x));
    channel.absorb(&header);
    let commitment = whir::read_commitment(&mut channel, &preset.oracles[0], coordinates(preset))?;
    let mut reader = Reader {
        channel,
        known,
        claims: Claims::new(),
    };
    let children = reader.outputs()?;
    let bitfield = reader.arguments(&children)?;
    Ok(Argued {
        channel: reader.channel,
        commitment,
        claims: reader.claims,
        children,
        bitfield,
    })
}

/// What a proof of proofs leaves after its claims are opened.
struct Opened<A: Arith> {
    channel: Channel<A>,
    children: Vec<Outputs<A::Ext>>,
    bitfield: (Vec<A::Ext>, A::Ext),
    wiring: WiringAt<A::Ext>,
}

/// Reads a proof of proofs of a relation, in slices with these numbers, except for its remaining registry claims.
fn read_opened<A: Arith>(
    arith: A,
    relation: u32,
    preset: &Preset,
    numbers: &[usize],
    known: &MergeKnown<A::Base>,
) -> Result<Opened<A>, VerifyError> {
    let Argued {
        mut channel,
        commitment,
        claims,
        children,
        bitfield,
    } = read_argued(arith, relation, preset, known)?;
    let values = claims.values();
    let remaining = whir::verify(
        &mut channel,
        preset,
        SLICE_LOG2,
        numbers,
        commitment,
        &values,
    )?;
    // The wiring's share of the weight is claimed by the prover here, and becomes a claim on the wiring polynomial
    // below: evaluating that polynomial for each child is what a merge must avoid.
    let wired = channel.read_one()?;
    let weight = claims.at(&channel.arith, &remaining) + wired;
    remaining.close(&mut channel.arith, weight)?;
    let weights = wiring_weights(&channel.arith, known, &claims, &remaining);
    let wiring = WiringClaims::new(known, &children).read(&mut channel, &weights, wired)?;
    Ok(Opened {
        channel,
        children,
        bitfield,
        wiring,
    })
}

/// A channel after the last element, and the values that a merge leaves to check.
pub(super) type Read<A> = (Channel<A>, Outputs<<A as Arith>::Ext>);

/// Reads a merge of proofs of a relation, in slices with these numbers.
///
/// # Errors
/// [`VerifyError`] of the first check that fails.
pub(super) fn read_merge<A: Arith>(
    arith: A,
    relation: u32,
    preset: &Preset,
    numbers: &[usize],
    known: &MergeKnown<A::Base>,
) -> Result<Read<A>, VerifyError> {
    let Opened {
        mut channel,
        children,
        bitfield: (bitfield_at, bitfield),
        wiring: (wiring_row, wiring_cell, wiring),
    } = read_opened(arith, relation, preset, numbers, known)?;
    let (registry_at, registry) = RegistryClaims::new(known, &children).read(&mut channel)?;
    let outputs = Outputs {
        registry_at,
        registry,
        bitfield_at,
        bitfield,
        wiring_row,
        wiring_cell,
        wiring,
    };
    Ok((channel, outputs))
}

/// Reads a bundle of proofs of a relation, in slices with these numbers. A bundle has no bitfield of its own, so
/// that of its argument is empty. The remaining registry claims of its children stay one value for each entry, so
/// that no other can repair a false one; a nested bundle leaves the digest of its claims.
///
/// # Errors
/// [`VerifyError`] of the first check that fails.
pub(super) fn read_bundle<A: Arith>(
    arith: A,
    relation: u32,
    preset: &Preset,
    numbers: &[usize],
    known: &MergeKnown<A::Base>,
) -> Result<(A, BundleOutputs<A::Ext>), VerifyError> {
    let Opened {
        mut channel,
        children,
        bitfield: (_, bitfield),
        wiring: (wiring_row, wiring_cell, wiring),
    } = read_opened(arith, relation, preset, numbers, known)?;
    // The argument of the union runs with an empty bitfield, which shows that columns are bits; a prover that gave
    // it a bit would state more than the bundle's list says.
    channel.arith.assert_zero(bitfield, VerifyError::Bundle)?;
    let registries = children.into_iter();
    let outputs = BundleOutputs {
        registries: registries
            .map(|child| (child.registry_at, child.registry))
            .collect(),
        wiring_row,
        wiring_cell,
        wiring,
    };
    Ok((channel.arith, outputs))
}

impl<A: Arith> Reader<'_, A> {
    /// Reads the outputs of the children.
    fn outputs(&mut self) -> Result<Vec<Outputs<A::Ext>>, VerifyError> {
        let mut children = Vec::with_capacity(CHILDREN_MAX);
        for used in &self.known.used {
            let list = self
                .channel
                .read_where(*used, self.known.dimensions.outputs())?;
            children.push(Outputs::of_list(&list));
        }
        Ok(children)
    }

    /// Runs all arguments, up to claims; returns a point of the bitfield and its value.
    fn arguments(
        &mut self,
        children: &[Outputs<A::Ext>],
    ) -> Result<(Vec<A::Ext>, A::Ext), VerifyError> {
        self.fixed(children);
        let [inputs, cubes] = self.permutations()?;
        self.cubes(&cubes.0, &cubes.1);
        self.inputs(&inputs.0, &inputs.1);
        self.rows()?;
        let bitfield = self.union()?;
        self.words();
        self.bits(children);
        Ok(bitfield)
    }

    /// Checks that inputs and outputs of the circuits have the required values.
    fn fixed(&mut self, children: &[Outputs<A::Ext>]) {
        let channel = &mut self.channel;
        let child = channel.challenges(CHILD_LOG2);
        let lanes = channel.challenges(LANES_LOG2);
        // Rows of inputs and outputs by powers of one challenge, lanes by eq of a point: a table of 2^6 and a
        // short list instead of one weight for each cell.
        let sigma = channel.challenge();
        let arith = &channel.arith;
        let one = arith.ext(Ext::ONE);
        let groups = child_weights(arith, &self.known.used, &child);
        let eq = eq_table(one, &lanes);
        let dimensions = self.known.dimensions;
        let (of_inputs, of_outputs) = (dimensions.input_rows(), dimensions.outputs());
        let sigmas = powers(one, sigma, of_inputs + of_outputs.div_ceil(eq.len()));
        let (sigmas, of_outputs) = sigmas.split_at(of_inputs);
        let of_inputs = |inputs: &[A::Base]| {
            let rows = inputs.chunks(eq.len()).zip(sigmas);
            let rows = rows.map(|(row, sigma)| {
                let terms = eq.iter().zip(row);
                *sigma * sum(arith, terms.map(|(e, x)| *e * *x))
            });
            sum(arith, rows)
        };
        let inputs = &self.known.inputs;
        // Children of a merge have the same inputs, so their sum is computed once; children of a bundle have their
        // own.
        let mut value = match self.known.form {
            Form::Merge => of_inputs(&inputs[0]) * sum(arith, groups.iter().copied()),
            Form::Bundle => {
                let terms = groups.iter().zip(inputs);
                sum(
                    arith,
                    terms.map(|(weight, of_child)| *weight * of_inputs(of_child)),
                )
            }
        };
        for (weight, outputs) in groups.iter().zip(children) {
            let list = outputs.list();
            let rows = list.chunks(eq.len()).zip(of_outputs);
            let of_rows = rows.map(|(row, sigma)| {
                let terms = eq.iter().zip(row);
                *sigma * sum(arith, terms.map(|(e, x)| *e * *x))
            });
            value = value + *weight * sum(arith, of_rows);
        }
        // An output is five cells, each in its own row.
        let mut rows = sigmas.to_vec();
        let mut x = Ext::ONE;
        let powers_of_x: Vec<A::Ext> = (0..DEGREE)
            .map(|_| {
                let power = arith.ext(x);
                x *= Ext::X;
                power
            })
            .collect();
        for sigma in of_outputs {
            rows.extend(powers_of_x.iter().map(|x| *sigma * *x));
        }
        debug_assert_eq!(rows.len(), dimensions.fixed_rows());
        self.claims.enter(Claim {
            value,
            parts: vec![Part::Block {
                groups,
                columns: vec![(fixed_column(), one)],
                first_row: 0,
                rows,
                lanes,
            }],
        });
    }

    /// Verifies the permutations; returns the points of the claims on inputs and cubes, and their values.
    fn permutations(&mut self) -> Result<[AtPoint<A::Ext>; 2], VerifyError> {
        let channel = &mut self.channel;
        let child = channel.challenges(CHILD_LOG2);
        let place = channel.challenges(ROWS_LOG2);
        let lanes = channel.challenges(LANES_LOG2);
        let digest = channel.challenges(DIGEST.ilog2() as usize);
        // The claim on outputs is read, not computed. Outputs are wires of rows, so it becomes a claim on the
        // wiring like all others.
        let value = channel.read_one()?;
        let arith = &channel.arith;
        let one = arith.ext(Ext::ONE);
        let groups = child_weights(arith, &self.known.used, &child);
        self.claims.enter(Claim {
            value,
            parts: vec![Part::Outputs {
                groups: groups.clone(),
                point: [&digest[..], &place, &lanes].concat(),
            }],
        });
        let claim = OutputClaim {
            weights: RowWeights::Product {
                rows: eq_table(one, &place),
                lanes: eq_table(one, &digest),
            },
            groups,
            lanes,
            value,
        };
        let leaves = poseidon_gkr::verify(channel, &units(CHILDREN_MAX), &claim)?;
        Ok([
            (leaves.inputs_at, leaves.inputs),
            (leaves.cubes_at, leaves.cubes),
        ])
    }

    /// Claims the committed cubes.
    fn cubes(&mut self, at: &Point<A::Ext>, values: &[A::Ext]) {
        let eta = self.channel.challenge();
        let arith = &self.channel.arith;
        let one = arith.ext(Ext::ONE);
        let etas = powers(one, eta, values.len());
        let (groups, rows) = self.weights_at(at);
        let cubes = etas.iter().zip(&Kind::Own.permutation().rest.cubes);
        let rest = sum(arith, cubes.map(|(eta, rest)| *eta * arith.base(*rest)));
        // Permutations of absent children have the cubes of zeros.
        let unused = one - sum(arith, groups.iter().copied());
        let value = sum(arith, etas.iter().zip(values).map(|(e, v)| *e * *v)) - unused * rest;
        self.claims.enter(Claim {
            value,
            parts: vec![Part::Block {
                groups,
                columns: etas.into_iter().enumerate().collect(),
                first_row: 0,
                rows,
                lanes: at.lanes.clone(),
            }],
        });
    }

    /// Claims the inputs of permutations.
    fn inputs(&mut self, at: &Point<A::Ext>, values: &[A::Ext]) {
        let eta = self.channel.challenge();
        let arith = &self.channel.arith;
        let etas = powers(arith.ext(Ext::ONE), eta, WIDTH_16);
        let (groups, rows) = self.weights_at(at);
        let value = sum(arith, etas.iter().zip(values).map(|(e, v)| *e * *v));
        self.claims.enter(Claim {
            value,
            parts: vec![Part::Inputs {
                groups,
                rows,
                lanes: at.lanes.clone(),
                elements: etas,
            }],
        });
    }

    /// Weights of children and of rows of their permutations at a point.
    fn weights_at(&self, at: &Point<A::Ext>) -> (Vec<A::Ext>, Vec<A::Ext>) {
        let arith = &self.channel.arith;
        let (child, place) = at.high.split_at(CHILD_LOG2);
        let places = eq_table(arith.ext(Ext::ONE), place);
        debug_assert_eq!(places.len(), 1 << PLACES_LOG2);
        let basis = lagrange(arith, at.z);
        let rows = (0..places.len() * ROWS).map(|row| places[row / ROWS] * basis[row % ROWS]);
        (
            child_weights(arith, &self.known.used, child),
            rows.collect(),
        )
    }

    /// Checks the rows (A·z)(B·z) = C·z of all children.
    fn rows(&mut self) -> Result<(), VerifyError> {
        let channel = &mut self.channel;
        let mut point = channel.challenges(PRODUCTS_LOG2 + CHILD_LOG2);
        // The rows are equations, so the sum over all of them with random weights is zero, and there is no claim
        // to read.
        let mut claim = channel.arith.ext(Ext::ZERO);
        for coordinate in &mut point {
            (claim, *coordinate) = read_round(channel, claim, *coordinate, ROUND_DEGREE)?;
        }
        let values = channel.read(3)?;
        let excess = values[0] * values[1] - values[2] - claim;
        channel.arith.assert_zero(excess, VerifyError::Rows)?;
        // Rows of absent children are 0·0 = 0; their weight is zero, so that the claim is on committed data.
        let (row, child) = point.split_at(PRODUCTS_LOG2);
        let groups = child_weights(&channel.arith, &self.known.used, child);
        for (matrix, value) in values.into_iter().enumerate() {
            self.claims.enter(Claim {
                value,
                parts: vec![Part::Products {
                    matrix,
                    groups: groups.clone(),
                    point: row.to_vec(),
                }],
            });
        }
        Ok(())
    }

    /// Checks that the bits of the children are bits, and that the bitfield is their union: for each of its bits,
    /// an inverse shows that their sum is nonzero.
    fn union(&mut self) -> Result<(Vec<A::Ext>, A::Ext), VerifyError> {
        let channel = &mut self.channel;
        let bitfield_at = channel.challenges(REGISTRY_LOG2);
        let lambda = channel.challenge();
        let bitfield = channel.read_one()?;
        let (mut claim, mut point) = (bitfield, bitfield_at.clone());
        for coordinate in &mut point {
            (claim, *coordinate) = read_round(channel, claim, *coordinate, ROUND_DEGREE)?;
        }
        let mut bits = Vec::with_capacity(CHILDREN_MAX);
        for used in &self.known.used {
            bits.push(channel.read_where(*used, 1)?[0]);
        }
        let inverse = channel.read_one()?;
        let arith = &mut channel.arith;
        let one = arith.ext(Ext::ONE);
        let lambdas = powers(lambda, lambda, bits.len());
        // Powers from lambda on, not from one: the union itself has the factor one, and neither sum may cancel the
        // other.
        let booleans = bits.iter().zip(&lambdas);
        let booleans = booleans.map(|(bit, lambda)| *lambda * (*bit * *bit - *bit));
        let value = inverse * sum(arith, bits.iter().copied()) + sum(arith, booleans);
        arith.assert_zero(claim - value, VerifyError::Children)?;
        let columns = (0..bits.len()).map(Column::Bits).chain([Column::Inverses]);
        for (column, value) in columns.zip(bits.into_iter().chain([inverse])) {
            self.claims.enter(Claim {
                value,
                parts: vec![Part::Column {
                    column,
                    scale: one,
                    point: point.clone(),
                }],
            });
        }
        Ok((bitfield_at, bitfield))
    }

    /// Checks that the words hashed by the children's circuits consist of the children's bits.
    fn words(&mut self) {
        let channel = &mut self.channel;
        let omega = channel.challenges(WORDS_LOG2);
        let mu = channel.challenge();
        let arith = &channel.arith;
        let (zero, one) = (arith.ext(Ext::ZERO), arith.ext(Ext::ONE));
        let (row, lanes) = omega.split_at(WORDS_LOG2 - LANES_LOG2);
        // One claim for all children, by powers of mu: words hashed in the circuit minus words composed of the
        // column's bits, which is zero.
        let factors = powers(one, mu, CHILDREN_MAX);
        let factors = factors.iter().zip(&self.known.used);
        let groups: Vec<A::Ext> = factors.map(|(mu, used)| *mu * *used).collect();
        let mut parts = vec![Part::Block {
            groups: groups.clone(),
            columns: vec![(fixed_column(), one)],
            first_row: WORD_ROWS.start,
            rows: eq_table(one, row),
            lanes: lanes.to_vec(),
        }];
        for (child, factor) in groups.iter().enumerate() {
            parts.push(Part::Words {
                column: Column::Bits(child),
                scale: zero - *factor,
                point: omega.clone(),
            });
        }
        self.claims.enter(Claim { value: zero, parts });
    }

    /// Claims on the children's bitfields that the children left.
    fn bits(&mut self, children: &[Outputs<A::Ext>]) {
        let one = self.channel.arith.ext(Ext::ONE);
        for (child, outputs) in children.iter().enumerate() {
            self.claims.enter(Claim {
                value: outputs.bitfield,
                parts: vec![Part::Column {
                    column: Column::Bits(child),
                    scale: one,
                    point: outputs.bitfield_at.clone(),
                }],
            });
        }
    }
}

/// The point of the claims on states of permutations, and their values.
type AtPoint<E> = (Point<E>, Vec<E>);

const _: () = assert!(PLACES_LOG2 + ROWS.ilog2() as usize == ROWS_LOG2);
const _: () = assert!(ROWS_LOG2 + LANES_LOG2 == PERMUTATIONS_LOG2);
const _: () = assert!(1 << WORD_LOG2 == 16);
