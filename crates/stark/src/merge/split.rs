//! The circuit of bundles: the whole bundle for a bundle of bundles, or one entry for a merge that splits it.
//!
//! The circuit takes the bundle's list as hints, hashes it to the bundle's statement, and verifies the bundle. An
//! input selects which of the two it is for.
//!
//! *As a whole*: the statement's digest is the child's message, and the digest of the remaining registry claims of
//! all entries is an output, in the position where others have the remaining claim of one registry. The verifier
//! of the bundle above has that list alongside the proof. A bundle of bundles cannot be such a child.
//!
//! *One entry*: a flag chooses a child of the bundle, and if that is a bundle, another flag chooses the entry in
//! it. The entry must be the one built from the merge's own inputs and words, and the claim on the registry that
//! the circuit leaves is that entry's. Those of the others are dropped with them. That is sound because each entry
//! has its own proof and its own claim: nothing that is dropped could repair what is kept.

use super::gadgets::{
    PublicInputs, Recorded, Setting, assert_same, block, chain, entry, flags, kind_marks,
    level_below, marks, open_first,
};
use super::hints::{Bundled, Kept};
use super::known::{Form, MergeKnown, Outputs, RegistryAt, left_start};
use super::layout::{CHILDREN_MAX, Dimensions, REGISTRY_LOG2, WORD_LOG2};
use super::verifier::read_bundle;
use crate::arith::Arith;
use crate::circuit::{Recorder, Wire};
use crate::error::VerifyError;
use crate::extension::{DEGREE, Ext};
use crate::field::Fp;
use crate::hash::DIGEST;
use crate::transcript::tag;

/// The digest of an entry as a bundle lists it: see [`crate::statement::Statement::listed_digest`].
fn listed<'a>(
    recorder: &mut Recorder<'a>,
    given: &PublicInputs<'a>,
    entry: [Wire<'a>; DIGEST],
) -> [Wire<'a>; DIGEST] {
    let publics = &given.inputs[1..=given.at.publics];
    let mut blocks: Vec<_> = publics.chunks(DIGEST).map(|x| block(recorder, x)).collect();
    blocks.push(entry);
    let start = [tag(b"list"), Fp::new(publics.len() as u32)].map(|x| recorder.base(x));
    let start = block(recorder, &start);
    chain(recorder, start, &blocks)
}

/// The digest of a bundle's statement: see [`super::bundle`].
fn statement<'a>(
    recorder: &mut Recorder<'a>,
    used: &[Wire<'a>],
    level: Wire<'a>,
    listed: &[[Wire<'a>; DIGEST]],
) -> [Wire<'a>; DIGEST] {
    let zero = recorder.base(Fp::ZERO);
    let count = used.iter().fold(zero, |sum, used| sum + *used);
    let start = [recorder.base(tag(b"many")), count, level];
    let start = block(recorder, &start);
    chain(recorder, start, listed)
}

/// Flags, exactly one of which is set, on something that is present.
fn choice<'a>(
    recorder: &mut Recorder<'a>,
    used: &[Wire<'a>],
    kept: usize,
) -> Result<Vec<Wire<'a>>, VerifyError> {
    let chosen: Vec<bool> = (0..used.len()).map(|i| i == kept).collect();
    let flags = marks(recorder, used, &chosen)?;
    // Boolean with sum one: exactly one flag is set. Without the sum a prover could keep two entries, or none, and
    // state their sum of digests.
    let none = recorder.base(Fp::ZERO) - recorder.base(Fp::ONE);
    let excess = flags.iter().fold(none, |sum, flag| sum + *flag);
    recorder.assert_zero(excess, VerifyError::Flag)?;
    Ok(flags)
}

/// The digest selected by flags.
fn chosen<'a>(
    recorder: &Recorder<'a>,
    flags: &[Wire<'a>],
    digests: &[[Wire<'a>; DIGEST]],
) -> [Wire<'a>; DIGEST] {
    let zero = recorder.base(Fp::ZERO);
    let mut sum = [zero; DIGEST];
    for (flag, digest) in flags.iter().zip(digests) {
        let of_flag = recorder.scaled(*flag, *digest);
        sum = std::array::from_fn(|i| sum[i] + of_flag[i]);
    }
    sum
}

/// The first bit of a word.
fn first_bit<'a>(recorder: &mut Recorder<'a>, word: Wire<'a>) -> Result<Wire<'a>, VerifyError> {
    let value = word.value().0[0].canonical();
    let mut bits = Vec::with_capacity(1 << WORD_LOG2);
    // All sixteen bits, though only one is needed: with fewer, the rest of the word would be free to compensate
    // for a wrong one.
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

/// A bundle as seen by its circuit.
struct Known<'a> {
    used: Vec<Wire<'a>>,
    bundled: Vec<Wire<'a>>,
    level: Wire<'a>,
    /// The inputs of its children.
    inputs: Vec<Vec<Wire<'a>>>,
    /// The digest it lists for each child.
    listed: Vec<[Wire<'a>; DIGEST]>,
}

/// Hints what a bundle lists, and hashes it.
fn list<'a>(
    recorder: &mut Recorder<'a>,
    setting: &Setting<'_>,
    given: &PublicInputs<'a>,
    hints: &Bundled,
    known: &mut Known<'a>,
) {
    let at = given.at;
    for (c, bundled) in known.bundled.iter().enumerate() {
        let child = hints.listed.get(c);
        let value = |i: usize| child.and_then(|listed| listed.inputs.get(i - 1)).copied();
        let hints = (1..at.level()).map(|i| recorder.hint(value(i).unwrap_or_default()));
        let mut inputs = vec![recorder.base(Fp::ONE)];
        inputs.extend(hints);
        // The parent level that a bundle's children saw is the bundle's level, which `level_below` bound to this
        // circuit's own.
        inputs.push(known.level);
        inputs.extend(given.digest(at.key()));
        inputs.push(*bundled);
        // The listed digest of the bitfield is the one that the child's own circuit compares: the same wires.
        let bitfield = child.map_or([Fp::ZERO; DIGEST], |listed| listed.bitfield);
        let bitfield = bitfield.map(|x| recorder.hint(x));
        inputs.push(recorder.base(Fp::ONE) - *bundled);
        inputs.extend(bitfield);
        let of_child = PublicInputs { inputs, at };
        let entry = entry(recorder, setting, &of_child, bitfield);
        let of_entry = listed(recorder, &of_child, entry);
        // A bundle is listed by the digest that is its message: a listed bundle has its digest in the position of
        // its message, where its own circuit compares it. See the end of `split`.
        let message = of_child.digest(at.message().start);
        let difference = std::array::from_fn(|i| message[i] - of_entry[i]);
        let difference = recorder.scaled(*bundled, difference);
        let digest = std::array::from_fn(|i| of_entry[i] + difference[i]);
        // Absent children are listed as zeros, as in the native hash of the list.
        known.listed.push(recorder.scaled(known.used[c], digest));
        known.inputs.push(of_child.inputs);
    }
}

/// The entry that is kept.
struct Choice<'a> {
    /// Flags of the child that has it, and of its index in that child.
    children: Vec<Wire<'a>>,
    entries: Vec<Wire<'a>>,
    /// Whether that child is a bundle.
    deep: Wire<'a>,
}

/// Flags of the kept child and of the kept entry in it, unless the bundle is proved as a whole. They must yield
/// the digest `own`.
fn keep<'a>(
    recorder: &mut Recorder<'a>,
    known: &Known<'a>,
    hints: &Kept,
    whole: Wire<'a>,
    own: [Wire<'a>; DIGEST],
) -> Result<Choice<'a>, VerifyError> {
    let (zero, one) = (recorder.base(Fp::ZERO), recorder.base(Fp::ONE));
    let children = choice(recorder, &known.used, hints.child)?;
    let child = chosen(recorder, &children, &known.listed);
    let deep = children.iter().zip(&known.bundled);
    let deep = deep.fold(zero, |sum, (flag, bundled)| sum + *flag * *bundled);
    let used = flags(recorder, hints.entries.len(), CHILDREN_MAX)?;
    let entries = choice(recorder, &used, hints.entry)?;
    // A child that is not a bundle has one entry.
    recorder.assert_zero((one - deep) * (one - entries[0]), VerifyError::Flag)?;
    let listed = (0..CHILDREN_MAX).map(|j| {
        let hints = hints.entries.get(j).copied().unwrap_or_default();
        hints.map(|x| recorder.hint(x))
    });
    let listed: Vec<[Wire<'a>; DIGEST]> = listed.collect();
    for (used, digest) in used.iter().zip(&listed) {
        for part in digest.chunks(DEGREE) {
            let part = recorder.pack(part) * (one - *used);
            recorder.assert_zero(part, VerifyError::Flag)?;
        }
    }
    // The level is part of that digest and is one below, so a nested bundle has the level it was made for, and not
    // a lower one with the same entries.
    let digest = statement(recorder, &used, known.level - one, &listed);
    assert_same(recorder, deep, [child, digest], VerifyError::Entry)?;
    let within = chosen(recorder, &entries, &listed);
    let difference = recorder.scaled(deep, std::array::from_fn(|i| within[i] - child[i]));
    let kept = std::array::from_fn(|i| child[i] + difference[i]);
    assert_same(recorder, one - whole, [kept, own], VerifyError::Entry)?;
    Ok(Choice {
        children,
        entries,
        deep,
    })
}

/// Verifies a bundle: as a whole, or with one entry that has a given digest and first word.
pub(super) fn split<'a>(
    mut recorder: Recorder<'a>,
    setting: &Setting<'_>,
    given: &PublicInputs<'a>,
    own: [Wire<'a>; DIGEST],
    first_word: Wire<'a>,
    hints: &Bundled,
) -> Result<Recorded<'a>, VerifyError> {
    let at = given.at;
    let (whole, parent) = (given.inputs[at.whole()], given.inputs[at.level()]);
    let (zero, one) = (recorder.base(Fp::ZERO), recorder.base(Fp::ONE));
    let used = flags(&mut recorder, hints.listed.len(), CHILDREN_MAX)?;
    let level = level_below(&mut recorder, parent, hints.level)?;
    let [merged, bundled] = kind_marks(&mut recorder, &used, &hints.kinds)?;
    // A bundle in a bundle is of the level just below, and contains no bundles. If one entry is kept, the bundle
    // may be of any lower level, because the entry does not state the level.
    recorder.assert_zero(whole * (parent - level - one), VerifyError::Level)?;
    let bundles = bundled.iter().fold(zero, |sum, flag| sum + *flag);
    recorder.assert_zero(whole * bundles, VerifyError::Bundle)?;
    let mut known = Known {
        used,
        bundled,
        level,
        inputs: Vec::new(),
        listed: Vec::new(),
    };
    list(&mut recorder, setting, given, hints, &mut known);
    let own = listed(&mut recorder, given, own);
    let kept = keep(&mut recorder, &known, &hints.kept, whole, own)?;
    let digest = statement(&mut recorder, &known.used, level, &known.listed);
    let message = given.digest(at.message().start);
    assert_same(&mut recorder, whole, [digest, message], VerifyError::Entry)?;
    // The circuit has to leave a claim on its bitfield, as leaves and merges do; the value at the point zero is
    // its first bit.
    let first_bit = first_bit(&mut recorder, first_word)?;
    let numbers = open_first(&mut recorder, setting, &known.used);
    let known = MergeKnown {
        form: Form::Bundle,
        dimensions: at,
        digest,
        used: known.used,
        merged,
        bundled: known.bundled,
        key: given.digest(at.key()),
        inputs: known.inputs,
    };
    let (mut recorder, left) = read_bundle(
        recorder,
        setting.relation.id,
        setting.merge,
        &numbers,
        &known,
    )?;
    let (registry_at, registry) = registry(
        &mut recorder,
        at,
        whole,
        &kept,
        &left.registries,
        &hints.left,
    )?;
    let outputs = Outputs {
        registry_at,
        registry,
        // The bitfield is bound by its digest alone; the claim made here must be true, so it is its first bit.
        bitfield_at: vec![recorder.ext(Ext::ZERO); REGISTRY_LOG2],
        bitfield: first_bit,
        wiring_row: left.wiring_row,
        wiring_cell: left.wiring_cell,
        wiring: left.wiring,
    };
    Ok((recorder, outputs))
}

/// The remaining registry claims: for a bundle as a whole the digest of all of them, otherwise that of the kept
/// entry.
fn registry<'a>(
    recorder: &mut Recorder<'a>,
    at: Dimensions,
    whole: Wire<'a>,
    kept: &Choice<'a>,
    slots: &[RegistryAt<Wire<'a>>],
    hints: &[Ext],
) -> Result<RegistryAt<Wire<'a>>, VerifyError> {
    let zero = recorder.ext(Ext::ZERO);
    let slots: Vec<Vec<Wire<'a>>> = slots
        .iter()
        .map(|(at, value)| [&at[..], &[*value]].concat())
        .collect();
    // As a whole, the claim of each child; otherwise that of the bundle that has the entry.
    let (left, digest) = left(recorder, at.left(), hints);
    for (slot, left) in slots.iter().flatten().zip(&left) {
        recorder.assert_zero(whole * (*left - *slot), VerifyError::Left)?;
    }
    let chosen = |flags: &[Wire<'a>], lists: &mut dyn Iterator<Item = Wire<'a>>| {
        let terms = flags.iter().zip(lists);
        terms.fold(zero, |sum, (flag, x)| sum + *flag * x)
    };
    // Element by element: the slot of the chosen child, the one inside it if that child is a bundle, and the
    // digest of all in place of the first elements if the bundle is proved as a whole.
    let outputs = at.registry_outputs();
    let mut out = Vec::with_capacity(outputs);
    for k in 0..outputs {
        let slot = chosen(&kept.children, &mut slots.iter().map(|slot| slot[k]));
        let within = left.chunks_exact(outputs).map(|left| left[k]);
        let within = chosen(&kept.entries, &mut { within });
        let of_digest = digest.get(k).copied();
        if let Some(digest) = of_digest {
            recorder.assert_zero(kept.deep * (digest - slot), VerifyError::Left)?;
        }
        let of_entry = slot + kept.deep * (within - slot);
        out.push(of_entry + whole * (of_digest.unwrap_or(zero) - of_entry));
    }
    let value = out.pop().unwrap_or(zero);
    Ok((out, value))
}

/// The remaining registry claims of a bundle and their digest: see [`super::known::left_digest`].
fn left<'a>(
    recorder: &mut Recorder<'a>,
    count: usize,
    hints: &[Ext],
) -> (Vec<Wire<'a>>, Vec<Wire<'a>>) {
    let of = |i: usize| hints.get(i).copied().unwrap_or_default().0;
    let elements: Vec<Wire<'a>> = (0..count).flat_map(of).map(|x| recorder.hint(x)).collect();
    let blocks = elements.chunks(DIGEST).map(|x| block(recorder, x));
    let blocks: Vec<_> = blocks.collect();
    let start = left_start(count).map(|x| recorder.base(x));
    let digest = chain(recorder, start, &blocks);
    let joined = |elements: &[Wire<'a>]| {
        let elements = elements.chunks(DEGREE);
        elements.map(|five| recorder.pack(five)).collect()
    };
    (joined(&elements), joined(&digest))
}
