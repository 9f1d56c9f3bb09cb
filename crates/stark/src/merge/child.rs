//! The circuits: the computation for a child, over the recording arithmetic.

use super::gadgets::{
    PublicInputs, Recorded, Setting, assert_same, block, chain, entry, first_rows, flags,
    kind_marks, level_below, open_first,
};
use super::hints::{Header, Hints};
use super::known::{Form, MergeKnown, Outputs};
use super::layout::{
    CELLS_LOG2, CHILDREN_MAX, LANES_LOG2, REGISTRY_LOG2, WIRING_LOG2, WORDS_LOG2, input, word,
};
use super::split::split;
use super::verifier::read_merge;
use crate::arith::Arith;
use crate::circuit::{Recorder, Wire};
use crate::error::VerifyError;
use crate::extension::Ext;
use crate::field::Fp;
use crate::hash::DIGEST;
use crate::multilinear::eq_table;
use crate::proof::{self, Known};
use crate::transcript::tag;

/// Records the verification of a child: from inputs and proof to outputs.
///
/// # Errors
/// [`VerifyError`] if the proof is rejected; never while a circuit is built.
pub(super) fn record<'a>(
    recorder: Recorder<'a>,
    setting: &Setting<'_>,
    hints: &Hints,
) -> Result<(), VerifyError> {
    let mut recorder = recorder;
    let at = setting.dimensions;
    let one = recorder.input(input(0), Fp::ONE);
    // Whole rows of inputs, including those after the last one: a cell of the row that is not an input would be
    // free, and enter the claim on inputs.
    let given = (1..at.input_rows() << LANES_LOG2).map(|i| {
        let value = hints.inputs.get(i - 1).copied().unwrap_or_default();
        recorder.input(input(i), value)
    });
    let given = PublicInputs {
        inputs: std::iter::once(one).chain(given).collect(),
        at,
    };
    let words: Vec<Wire<'a>> = (0..1 << WORDS_LOG2)
        .map(|w| recorder.input(word(w), hints.words.get(w).copied().unwrap_or_default()))
        .collect();
    // The bitfield enters through its words, which are hashed here. That the words are those of the column of bits
    // is one claim of the parent (`words` of the verifier).
    let bitfield = bitfield(&mut recorder, &words);
    // Below a merge, the claims on columns bind the bits; below a bundle, which states the bits of each child,
    // this does.
    let bound = given.inputs[at.bound()];
    let digests = [bitfield, given.digest(at.bitfield())];
    assert_same(&mut recorder, bound, digests, VerifyError::Bitfield)?;
    let entry = entry(&mut recorder, setting, &given, bitfield);
    let outputs = match &hints.header {
        Header::Leaf { groups } => {
            let flags = flags(&mut recorder, *groups, at.leaf_groups)?;
            let level = recorder.base(Fp::ZERO);
            let digest = statement(&mut recorder, level, entry);
            leaf(recorder, setting, &given, digest, &flags)?
        }
        Header::Merged { level, kinds } => {
            let used = flags(&mut recorder, kinds.len(), CHILDREN_MAX)?;
            let level = level_below(&mut recorder, given.inputs[at.level()], *level)?;
            let digest = statement(&mut recorder, level, entry);
            let [merged, bundled] = kind_marks(&mut recorder, &used, kinds)?;
            let mut inputs = given.inputs.clone();
            // A child's children see the child's level, not the parent's; all their other inputs are those of the
            // child.
            inputs[at.level()] = level;
            // They do not get the digest of its bits either; its bits are the union of theirs.
            inputs[at.bound()..at.end()].fill(recorder.base(Fp::ZERO));
            let known = MergeKnown {
                form: Form::Merge,
                dimensions: at,
                digest,
                used,
                merged,
                bundled,
                key: given.digest(at.key()),
                inputs: vec![inputs],
            };
            merge(recorder, setting, known)?
        }
        Header::Bundled(bundled) => split(recorder, setting, &given, entry, words[0], bundled)?,
    };
    let (mut recorder, outputs) = outputs;
    recorder.finish()?;
    for (j, wire) in outputs.list().into_iter().enumerate() {
        recorder.output(at.output(j), wire);
    }
    Ok(())
}

/// The digest of a child's bitfield.
fn bitfield<'a>(recorder: &mut Recorder<'a>, words: &[Wire<'a>]) -> [Wire<'a>; DIGEST] {
    let blocks: Vec<_> = words
        .chunks(DIGEST)
        .map(|words| block(recorder, words))
        .collect();
    let start = [tag(b"bits"), Fp::new(1 << REGISTRY_LOG2)].map(|x| recorder.base(x));
    let start = block(recorder, &start);
    chain(recorder, start, &blocks)
}

/// The digest of a statement of one entry.
fn statement<'a>(
    recorder: &mut Recorder<'a>,
    level: Wire<'a>,
    entry: [Wire<'a>; DIGEST],
) -> [Wire<'a>; DIGEST] {
    let start = [recorder.base(tag(b"one1")), level];
    let start = block(recorder, &start);
    chain(recorder, start, &[entry])
}

/// Verifies a proof of instances.
fn leaf<'a>(
    mut recorder: Recorder<'a>,
    setting: &Setting<'_>,
    given: &PublicInputs<'a>,
    digest: [Wire<'a>; DIGEST],
    flags: &[Wire<'a>],
) -> Result<Recorded<'a>, VerifyError> {
    let relation = setting.relation;
    let of_group = relation.group_slices();
    let widths = |groups: usize| relation.slices(groups);
    recorder.first = Some(first_rows(&recorder, flags, of_group, widths));
    let known = Known {
        digest,
        publics: given.inputs[1..=relation.publics].to_vec(),
        used: flags.to_vec(),
    };
    let numbers = relation.slice_numbers(flags.len());
    let (mut channel, deferred) =
        proof::read_succinct(recorder, relation, setting.leaf, &numbers, &known, |_| {
            Ok(())
        })?;
    // A point of the registry's columns as well, which turns its values there into one value. A proof of instances
    // leaves one value for each column of the registry, but outputs have room for one: they are joined at a random
    // point of the columns, drawn after they were read.
    let columns = channel.challenges(setting.dimensions.key_log2);
    let (zero, one) = (channel.arith.ext(Ext::ZERO), channel.arith.ext(Ext::ONE));
    let weights = eq_table(one, &columns);
    let terms = weights.iter().zip(&deferred.registry);
    let registry = terms.fold(zero, |sum, (w, x)| sum + *w * *x);
    let outputs = Outputs {
        registry_at: [deferred.registry_at, columns].concat(),
        registry,
        bitfield_at: deferred.bitfield_at,
        bitfield: deferred.bitfield,
        wiring_row: vec![zero; WIRING_LOG2],
        wiring_cell: vec![zero; CELLS_LOG2],
        wiring: zero,
    };
    Ok((channel.arith, outputs))
}

/// Verifies a merge.
fn merge<'a>(
    mut recorder: Recorder<'a>,
    setting: &Setting<'_>,
    known: MergeKnown<Wire<'a>>,
) -> Result<Recorded<'a>, VerifyError> {
    let numbers = open_first(&mut recorder, setting, &known.used);
    let (channel, outputs) = read_merge(
        recorder,
        setting.relation.id,
        setting.merge,
        &numbers,
        &known,
    )?;
    Ok((channel.arith, outputs))
}
