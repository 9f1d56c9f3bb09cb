//! The circuits: the computation for a child, over the recording arithmetic.

use super::ChildKind;
use super::known::{Form, MergeKnown, Outputs};
use super::layout::{
    BLOCK_LOG2, CELLS_LOG2, CHILDREN_MAX, Dimensions, LANES_LOG2, REGISTRY_LOG2, WIRING_LOG2,
    WORDS_LOG2, input, word,
};
use super::split::{Bundled, assert_same, split};
use super::verifier::read_merge;
use crate::arith::{Arith, DIGEST};
use crate::circuit::{FirstRows, Recorder, Wire};
use crate::error::VerifyError;
use crate::extension::Ext;
use crate::field::Fp;
use crate::multilinear::eq_table;
use crate::proof::{self, Known};
use crate::relation::Relation;
use crate::transcript::tag;
use crate::whir::{self, Preset};

/// Number of bits of a level minus one, and of the difference to the level above minus one.
const LEVEL_BITS: usize = 3;

/// The hints that a circuit gets about a child, in addition to its proof.
#[derive(Clone, Debug)]
pub(super) struct Hints {
    /// The inputs: public values, registry, committee, level of the parent, digest of the circuits, whether a
    /// bundle is proved as a whole, and the digest of the bitfield if a bundle states it.
    pub(super) inputs: Vec<Fp>,
    /// The words of its bitfield.
    pub(super) words: Vec<Fp>,
    /// The contents of the child's header.
    pub(super) header: Header,
}

/// The contents of a child's header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Header {
    /// A proof of instances, with its number of groups.
    Leaf {
        /// Number of groups of instances.
        groups: usize,
    },
    /// A merge.
    Merged {
        /// Its level.
        level: u32,
        /// The kind of each of its children.
        kinds: Vec<ChildKind>,
    },
    /// A bundle: as a whole, or one entry of it.
    Bundled(Bundled),
}

/// The setting for which a circuit of children is made.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setting<'a> {
    /// The relation of leaves.
    pub(super) relation: &'a Relation,
    /// The preset of leaves.
    pub(super) leaf: &'a Preset,
    /// The preset of merges that are children.
    pub(super) merge: &'a Preset,
    /// The sizes that follow from the relation.
    pub(super) dimensions: Dimensions,
}

/// h ← C(h, block), from h = C(start, 0), as [`crate::merkle::chain`].
pub(super) fn chain<'a>(
    recorder: &mut Recorder<'a>,
    start: [Wire<'a>; DIGEST],
    blocks: &[[Wire<'a>; DIGEST]],
) -> [Wire<'a>; DIGEST] {
    let zero = recorder.base(Fp::ZERO);
    let first = recorder.compress(start, [zero; DIGEST]);
    blocks
        .iter()
        .fold(first, |digest, block| recorder.compress(digest, *block))
}

/// Pads elements to a block.
pub(super) fn block<'a>(recorder: &Recorder<'a>, elements: &[Wire<'a>]) -> [Wire<'a>; DIGEST] {
    std::array::from_fn(|i| match elements.get(i) {
        Some(element) => *element,
        None => recorder.base(Fp::ZERO),
    })
}

/// The inputs as seen by the circuit.
pub(super) struct PublicInputs<'a> {
    pub(super) inputs: Vec<Wire<'a>>,
    pub(super) at: Dimensions,
}

impl<'a> PublicInputs<'a> {
    pub(super) fn digest(&self, at: usize) -> [Wire<'a>; DIGEST] {
        std::array::from_fn(|i| self.inputs[at + i])
    }
}

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

/// Flags that are one for the first `used` of `max`, and for at least one.
pub(super) fn flags<'a>(
    recorder: &mut Recorder<'a>,
    used: usize,
    max: usize,
) -> Result<Vec<Wire<'a>>, VerifyError> {
    let one = recorder.base(Fp::ONE);
    // The first flag is not a hint: a proof of no child would have no row that fails.
    let mut flags = vec![one];
    for i in 1..max {
        let flag = recorder.hint(Fp::new(u32::from(i < used)));
        recorder.assert_bit(flag)?;
        // If a flag is set, the previous one is too.
        let excess = flag * (one - flags[i - 1]);
        recorder.assert_zero(excess, VerifyError::Flag)?;
        flags.push(flag);
    }
    Ok(flags)
}

/// For each child, whether it has a mark; absent children have none.
pub(super) fn marks<'a>(
    recorder: &mut Recorder<'a>,
    used: &[Wire<'a>],
    marked: &[bool],
) -> Result<Vec<Wire<'a>>, VerifyError> {
    let one = recorder.base(Fp::ONE);
    let mut marks = Vec::with_capacity(used.len());
    for (i, used) in used.iter().enumerate() {
        let marked = marked.get(i).is_some_and(|marked| *marked);
        let mark = recorder.hint(Fp::new(u32::from(marked)));
        recorder.assert_bit(mark)?;
        // A mark on an absent child would give its zeros a weight among the circuits.
        let excess = mark * (one - *used);
        recorder.assert_zero(excess, VerifyError::Flag)?;
        marks.push(mark);
    }
    Ok(marks)
}

/// For each child, whether it is a merge, and whether it is a bundle; at most one of them holds.
pub(super) fn kind_marks<'a>(
    recorder: &mut Recorder<'a>,
    used: &[Wire<'a>],
    kinds: &[ChildKind],
) -> Result<[Vec<Wire<'a>>; 2], VerifyError> {
    let [merged, bundled] = [ChildKind::Merge, ChildKind::Bundle].map(|kind| {
        let kinds = kinds.iter().map(|of_child| *of_child == kind);
        marks(recorder, used, &kinds.collect::<Vec<_>>())
    });
    let (merged, bundled) = (merged?, bundled?);
    for (merged, bundled) in merged.iter().zip(&bundled) {
        recorder.assert_zero(*merged * *bundled, VerifyError::Flag)?;
    }
    Ok([merged, bundled])
}

/// The level of a child that is not a leaf: at least 1, and below that of the merge above.
pub(super) fn level_below<'a>(
    recorder: &mut Recorder<'a>,
    parent: Wire<'a>,
    level: u32,
) -> Result<Wire<'a>, VerifyError> {
    let level = recorder.hint(Fp::new(level));
    let one = recorder.base(Fp::ONE);
    // A child that is not a leaf has at least level 1; otherwise levels could decrease below zero forever.
    for difference in [level - one, parent - level - one] {
        // Three bits for either difference: a negative one is a large number modulo p, and does not fit three
        // bits.
        let value = difference.value().0[0].canonical();
        let mut sum = recorder.base(Fp::ZERO);
        for k in (0..LEVEL_BITS).rev() {
            let bit = recorder.hint(Fp::new(value >> k & 1));
            recorder.assert_bit(bit)?;
            sum = sum + sum + bit;
        }
        recorder.assert_zero(difference - sum, VerifyError::Level)?;
    }
    Ok(level)
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

/// The digest of an entry: that of inputs, with a bitfield.
pub(super) fn entry<'a>(
    recorder: &mut Recorder<'a>,
    setting: &Setting<'_>,
    given: &PublicInputs<'a>,
    bitfield: [Wire<'a>; DIGEST],
) -> [Wire<'a>; DIGEST] {
    let start = [
        recorder.base(tag(b"ent1")),
        recorder.base(Fp::new(setting.relation.id)),
        given.inputs[given.at.slot()],
        given.inputs[given.at.slot() + 1],
        given.inputs[given.at.committee()],
    ];
    let start = block(recorder, &start);
    let message = given.inputs[given.at.message()].chunks(DIGEST);
    let mut blocks: Vec<_> = message.map(|part| block(recorder, part)).collect();
    blocks.extend([given.digest(given.at.registry()), bitfield]);
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

pub(super) type Recorded<'a> = (Recorder<'a>, Outputs<Wire<'a>>);

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

/// Prepares the opening of a proof of proofs; returns the numbers of its slices.
pub(super) fn open_first<'a>(
    recorder: &mut Recorder<'a>,
    setting: &Setting<'_>,
    used: &[Wire<'a>],
) -> Vec<usize> {
    let dimensions = setting.dimensions;
    let widths = |children: usize| dimensions.row_width(children);
    recorder.first = Some(first_rows(recorder, used, dimensions.slices, widths));
    debug_assert!(dimensions.slices <= 1 << BLOCK_LOG2);
    dimensions.slice_numbers(CHILDREN_MAX)
}

/// The shape of the first oracle's rows, which consist of parts of `of_part` elements; flags say which parts are
/// present, and `width` gives the number of elements for a number of parts.
fn first_rows<'a>(
    recorder: &Recorder<'a>,
    flags: &[Wire<'a>],
    of_part: usize,
    width: impl Fn(usize) -> usize,
) -> FirstRows<'a> {
    let zero = recorder.base(Fp::ZERO);
    // Flags are ones, then zeros: the difference of neighbours is one exactly at the number of parts.
    let is = |parts: usize| flags[parts - 1] - flags.get(parts).copied().unwrap_or(zero);
    let one = Ext::ONE;
    let used = flags.iter().filter(|flag| flag.value() == one).count();
    let of_width = |parts: usize| {
        let width = width(parts);
        (is(parts), width, whir::leaf_start(width, 0))
    };
    let present = |part: usize| {
        let end = width(part + 1);
        (end - of_part..end, flags[part])
    };
    FirstRows {
        widths: (1..=flags.len()).map(of_width).collect(),
        read: width(used),
        present: (1..flags.len()).map(present).collect(),
    }
}
