//! Parts that the circuits of all kinds of children share.

use super::ChildKind;
use super::known::Outputs;
use super::layout::{BLOCK_LOG2, CHILDREN_MAX, Dimensions};
use crate::arith::Arith;
use crate::circuit::{FirstRows, Recorder, Wire};
use crate::error::VerifyError;
use crate::extension::{DEGREE, Ext};
use crate::field::Fp;
use crate::hash::DIGEST;
use crate::relation::Relation;
use crate::transcript::tag;
use crate::whir::{self, Preset};

/// Number of bits of a level minus one, and of the difference to the level above minus one.
const LEVEL_BITS: usize = 3;

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

/// Asserts that two digests are equal if a flag is set.
pub(super) fn assert_same<'a>(
    recorder: &mut Recorder<'a>,
    flag: Wire<'a>,
    digests: [[Wire<'a>; DIGEST]; 2],
    error: VerifyError,
) -> Result<(), VerifyError> {
    let [a, b] = digests;
    let difference: [Wire<'a>; DIGEST] = std::array::from_fn(|i| a[i] - b[i]);
    for part in difference.chunks(DEGREE) {
        // Five differences in one row: elements of F_p are independent coordinates of F, so the packed value is
        // zero only if all are.
        let part = recorder.pack(part) * flag;
        recorder.assert_zero(part, error)?;
    }
    Ok(())
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

pub(super) type Recorded<'a> = (Recorder<'a>, Outputs<Wire<'a>>);

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
pub(super) fn first_rows<'a>(
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
