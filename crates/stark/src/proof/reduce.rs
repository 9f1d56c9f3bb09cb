//! The verifier over any arithmetic: from a proof to claims on committed data, and to values of public
//! polynomials.

use super::weights::{Denominators, Setting};
use crate::arith::Arith;
use crate::claims::{Claim, Claimed, Column, Ledger, Part};
use crate::error::VerifyError;
use crate::extension::Ext;
use crate::field::Fp;
use crate::hash::DIGEST;
use crate::logup;
use crate::poseidon_gkr::{self, OutputClaim};
use crate::relation::{Part as Rows, Relation};
use crate::sumcheck::read_round;
use crate::transcript::Channel;

/// Degree of a round of the union.
pub(super) const UNION_DEGREE: usize = 2;

/// The kind of a proof that unites instances, the only kind.
const KIND_UNION: u32 = 0;

/// The first block of a transcript: the relation and the commitment's preset.
pub(super) fn parameters(relation: &Relation, preset: u32) -> [Fp; DIGEST] {
    let mut block = [Fp::ZERO; DIGEST];
    block[0] = Fp::new(relation.id);
    block[1] = Fp::new(preset);
    block
}

/// The header in the form absorbed: groups, children (none), kind.
fn header<B: Copy>(groups: B, constant: impl Fn(Fp) -> B) -> [B; DIGEST] {
    let mut block = [constant(Fp::ZERO); DIGEST];
    block[0] = groups;
    block[2] = constant(Fp::new(KIND_UNION));
    block
}

/// The header of a proof of this many groups.
pub(super) fn native_header(groups: usize) -> [Fp; DIGEST] {
    header(Fp::new(groups as u32), |x| x)
}

/// The data known to the verifier.
#[derive(Clone, Debug)]
pub(crate) struct Known<B> {
    /// The digest of the statement.
    pub(crate) digest: [B; DIGEST],
    /// The public values of the relation.
    pub(crate) publics: Vec<B>,
    /// For each possible group of instances, 1 if it is used and 0 if not; used ones come first.
    pub(crate) used: Vec<B>,
}

/// Values of public polynomials that remain to be checked.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "a public value that is not checked proves nothing"]
pub(crate) struct Deferred<E> {
    /// A point of the registry's rows.
    pub(crate) registry_at: Vec<E>,
    /// The values of the registry's columns there.
    pub(crate) registry: Vec<E>,
    /// A point of the bitfield.
    pub(crate) bitfield_at: Vec<E>,
    /// The value of the bitfield there.
    pub(crate) bitfield: E,
}

/// A transcript up to the commitment.
pub(super) fn begin<A: Arith>(
    arith: A,
    relation: &Relation,
    known: &Known<A::Base>,
    preset: u32,
) -> Channel<A> {
    let mut channel = Channel::new(arith, parameters(relation, preset));
    // In place of the digest of circuits, which only merges have.
    let none = [channel.arith.base(Fp::ZERO); DIGEST];
    channel.absorb(&none);
    channel.absorb(&known.digest);
    let zero = channel.arith.base(Fp::ZERO);
    let groups = known.used.iter().fold(zero, |sum, used| sum + *used);
    let header = header(groups, |x| channel.arith.base(x));
    channel.absorb(&header);
    channel
}

type Arguments<E> = (Ledger<E>, Deferred<E>);

/// Everything after the commitment: bus, permutations, union.
pub(super) fn read_arguments<A: Arith>(
    channel: &mut Channel<A>,
    relation: &Relation,
    known: &Known<A::Base>,
) -> Result<Arguments<A::Ext>, VerifyError> {
    let setting = Setting {
        relation,
        publics: &known.publics,
        used: &known.used,
    };
    let mut ledger = Ledger::new();
    let parts = relation.parts(known.used.len());
    let (registry_at, registry, claims) = read_bus(channel, &setting, &parts, &mut ledger)?;
    let mut leaves = Vec::with_capacity(parts.len());
    for (part, claim) in parts.iter().zip(&claims) {
        leaves.push(poseidon_gkr::verify(channel, &part.units, claim)?);
    }
    // Drawn after all values that it joins were read.
    let eta = channel.challenge();
    let arith = &channel.arith;
    for (part, leaves) in parts.iter().zip(&leaves) {
        let (point, values) = (&leaves.cubes_at, &leaves.cubes);
        ledger.enter(setting.cubes(arith, part, point, values, eta));
        let (point, values) = (&leaves.inputs_at, &leaves.inputs);
        ledger.enter(setting.inputs(arith, part, point, values, eta));
    }
    let (bitfield_at, bitfield) = read_union(channel, relation, &mut ledger)?;
    let deferred = Deferred {
        registry_at,
        registry,
        bitfield_at,
        bitfield,
    };
    Ok((ledger, deferred))
}

type BusRead<E> = (Vec<E>, Vec<E>, Vec<OutputClaim<E>>);

/// The bus; returns the registry's point and columns, and the claims on outputs of each width.
fn read_bus<A: Arith>(
    channel: &mut Channel<A>,
    setting: &Setting<'_, A>,
    parts: &[Rows],
    ledger: &mut Ledger<A::Ext>,
) -> Result<BusRead<A::Ext>, VerifyError> {
    let denominators = Denominators {
        alpha: channel.challenge(),
        beta: channel.challenge(),
    };
    let leaves = logup::verify(channel, setting.relation.shape.bus())?;
    let mut bus = setting.bus(&channel.arith, &leaves, denominators);
    let registry = channel.read(setting.relation.registry_width)?;
    // The bus weighs cells and outputs together. With the outputs' sum in hand, the rest is a claim on cells alone.
    let outputs = channel.read_one()?;
    let zero = channel.arith.ext(Ext::ZERO);
    ledger.enter(bus.numerator_claim(zero, leaves.numerator));
    ledger.enter(bus.cell_claim(leaves.denominator, &registry, outputs));
    let tau = channel.challenge();
    // The weighted sum of what outputs are wired to enters two claims, one on cells and one on outputs. Except for
    // few τ both hold only if each wire does.
    let wired = channel.read(parts.len())?;
    let arith = &channel.arith;
    let on_bus = std::mem::take(&mut bus.outputs);
    let weights = setting.outputs(arith, on_bus, parts, tau);
    let wired = setting.wired(arith, parts, &bus, weights, outputs, &wired);
    let mut claims = Vec::with_capacity(parts.len());
    for (claim, output) in wired {
        ledger.enter(claim);
        claims.push(output);
    }
    Ok((leaves.within, registry, claims))
}

/// Σ eq(r, x)·inverse(x)·count(x) is the bitfield at r; returns the point and the value.
fn read_union<A: Arith>(
    channel: &mut Channel<A>,
    relation: &Relation,
    ledger: &mut Ledger<A::Ext>,
) -> Result<(Vec<A::Ext>, A::Ext), VerifyError> {
    let bitfield_at = channel.challenges(relation.shape.column_log2());
    let bitfield = channel.read_one()?;
    let (mut claim, mut point) = (bitfield, bitfield_at.clone());
    for coordinate in &mut point {
        (claim, *coordinate) = read_round(channel, claim, *coordinate, UNION_DEGREE)?;
    }
    let values = channel.read(2)?;
    let excess = claim - values[0] * values[1];
    channel.arith.assert_zero(excess, VerifyError::Union)?;
    let one = channel.arith.ext(Ext::ONE);
    let columns = [
        (Claimed::UnionCounts, Column::Counts),
        (Claimed::UnionInverses, Column::Inverses),
    ];
    for ((name, column), value) in columns.into_iter().zip(values) {
        ledger.enter(Claim {
            name,
            value,
            parts: vec![Part::Point {
                column,
                scale: one,
                point: point.clone(),
            }],
        });
    }
    Ok((bitfield_at, bitfield))
}
