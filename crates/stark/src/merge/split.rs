//! The circuit of a bundle of which one entry is kept: the child of a merge that splits it.
//!
//! The circuit is told all entries, hashes them to the bundle's statement, and verifies the bundle. A flag
//! chooses the entry that is kept: it must be the one that the merge's own inputs and words make, and the
//! claim on the registry that the circuit leaves is that entry's. Those of the others are dropped with
//! them. That is sound because each entry has a proof of its own and a claim of its own: nothing in what
//! is dropped could repair what is kept.

use super::child::{
    Given, Recorded, Setting, block, chain, entry, flags, level_below, marks, open_first,
};
use super::known::{Form, MergeKnown, Outputs};
use super::layout::{CHILDREN_MAX, REGISTRY_LOG2, WORD_LOG2};
use super::verifier::read_bundle;
use crate::arith::{Arith, DIGEST};
use crate::circuit::{Recorder, Wire};
use crate::error::VerifyError;
use crate::extension::{DEGREE, Ext};
use crate::field::Fp;
use crate::merkle::Digest;
use crate::transcript::tag;

/// What the header of a bundle says, and what the circuit is told beside it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Bundled {
    /// Its level.
    pub(super) level: u32,
    /// For each of its children whether that is a merge.
    pub(super) merged: Vec<bool>,
    /// What it bundles.
    pub(super) entries: Vec<Listed>,
    /// Which entry is kept.
    pub(super) kept: usize,
}

/// An entry of a bundle.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Listed {
    /// The inputs of its child's circuit from the first public value to the committee.
    pub(super) inputs: Vec<Fp>,
    /// The digest of its bitfield.
    pub(super) bitfield: Digest,
}

/// The digest of an entry as a bundle lists it: see [`crate::statement::Statement::listed_digest`].
fn listed<'a>(
    recorder: &mut Recorder<'a>,
    given: &Given<'a>,
    entry: [Wire<'a>; DIGEST],
) -> [Wire<'a>; DIGEST] {
    let publics = &given.inputs[1..=given.at.publics];
    let mut blocks: Vec<_> = publics.chunks(DIGEST).map(|x| block(recorder, x)).collect();
    blocks.push(entry);
    let start = [tag(b"list"), Fp::new(publics.len() as u32)].map(|x| recorder.base(x));
    let start = block(recorder, &start);
    chain(recorder, start, &blocks)
}

/// Flags of which one is set, of an entry that is there.
fn choice<'a>(
    recorder: &mut Recorder<'a>,
    used: &[Wire<'a>],
    kept: usize,
) -> Result<Vec<Wire<'a>>, VerifyError> {
    let chosen: Vec<bool> = (0..used.len()).map(|i| i == kept).collect();
    let flags = marks(recorder, used, &chosen)?;
    let none = recorder.base(Fp::ZERO) - recorder.base(Fp::ONE);
    let excess = flags.iter().fold(none, |sum, flag| sum + *flag);
    recorder.assert_zero(excess, VerifyError::Flag)?;
    Ok(flags)
}

/// The first bit of a word.
fn first_bit<'a>(recorder: &mut Recorder<'a>, word: Wire<'a>) -> Result<Wire<'a>, VerifyError> {
    let value = word.value().0[0].canonical();
    let mut bits = Vec::with_capacity(1 << WORD_LOG2);
    for k in 0..1 << WORD_LOG2 {
        let bit = recorder.hint(Fp::new(value >> k & 1));
        recorder.assert_bit(bit)?;
        bits.push(bit);
    }
    let zero = recorder.base(Fp::ZERO);
    let sum = bits.iter().rev().fold(zero, |sum, bit| sum + sum + *bit);
    recorder.assert_zero(sum - word, VerifyError::Flag)?;
    Ok(bits[0])
}

/// The verification of a bundle whose kept entry has a digest and a first word.
pub(super) fn split<'a>(
    mut recorder: Recorder<'a>,
    setting: &Setting<'_>,
    given: &Given<'a>,
    (own, first_word): ([Wire<'a>; DIGEST], Wire<'a>),
    told: &Bundled,
) -> Result<Recorded<'a>, VerifyError> {
    let at = given.at;
    let used = flags(&mut recorder, told.entries.len(), CHILDREN_MAX)?;
    let level = level_below(&mut recorder, given.inputs[at.level()], told.level)?;
    let merged = marks(&mut recorder, &used, &told.merged)?;
    let kept = choice(&mut recorder, &used, told.kept)?;
    let own = listed(&mut recorder, given, own);
    let zero = recorder.base(Fp::ZERO);
    let (mut inputs, mut blocks) = (Vec::new(), Vec::new());
    let mut chosen = [zero; DIGEST];
    for (c, used) in used.iter().enumerate() {
        let told = told.entries.get(c);
        let value = |i: usize| told.and_then(|entry| entry.inputs.get(i - 1)).copied();
        let hints = (1..at.level()).map(|i| recorder.hint(value(i).unwrap_or_default()));
        let mut of_child = vec![recorder.base(Fp::ONE)];
        of_child.extend(hints);
        of_child.push(level);
        of_child.extend(given.digest(at.key()));
        let of_child = Given {
            inputs: of_child,
            at,
        };
        let bitfield = told.map_or([Fp::ZERO; DIGEST], |entry| entry.bitfield);
        let bitfield = bitfield.map(|x| recorder.hint(x));
        let entry = entry(&mut recorder, setting, &of_child, bitfield);
        let listed = listed(&mut recorder, &of_child, entry);
        blocks.push(recorder.scaled(*used, listed));
        let of_choice = recorder.scaled(kept[c], listed);
        chosen = std::array::from_fn(|i| chosen[i] + of_choice[i]);
        inputs.push(of_child.inputs);
    }
    let difference: [Wire<'a>; DIGEST] = std::array::from_fn(|i| chosen[i] - own[i]);
    for part in difference.chunks(DEGREE) {
        let part = recorder.pack(part);
        recorder.assert_zero(part, VerifyError::Entry)?;
    }
    let count = used.iter().fold(zero, |sum, used| sum + *used);
    let start = [recorder.base(tag(b"many")), count, level];
    let start = block(&recorder, &start);
    let digest = chain(&mut recorder, start, &blocks);
    let first_bit = first_bit(&mut recorder, first_word)?;
    let numbers = open_first(&mut recorder, setting, &used);
    let known = MergeKnown {
        form: Form::Bundle,
        digest,
        bundled: vec![zero; used.len()],
        used,
        merged,
        key: given.digest(at.key()),
        inputs,
    };
    let opened = (setting.merge, &numbers[..]);
    let (recorder, left) = read_bundle(recorder, setting.relation.id, opened, &known)?;
    let zero = recorder.ext(Ext::ZERO);
    let chosen = |of_entry: &dyn Fn(usize) -> Wire<'a>| {
        let terms = kept.iter().enumerate();
        terms.fold(zero, |sum, (c, kept)| sum + *kept * of_entry(c))
    };
    let coordinates = left.registries[0].0.len();
    let outputs = Outputs {
        registry_at: (0..coordinates)
            .map(|i| chosen(&|c| left.registries[c].0[i]))
            .collect(),
        registry: chosen(&|c| left.registries[c].1),
        // The bitfield is bound by its digest alone; what must be said of it here is true: its first bit.
        bitfield_at: vec![zero; REGISTRY_LOG2],
        bitfield: first_bit,
        wiring_row: left.wiring_row,
        wiring_cell: left.wiring_cell,
        wiring: left.wiring,
    };
    Ok((recorder, outputs))
}
