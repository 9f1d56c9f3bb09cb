//! The search for the schedule with the fewest predicted bytes: a beam over the number of pieces
//! and the base of `z`, level by level. Deterministic, in integers.

use super::bounds::{Projections, PublicBounds};
use super::row::{Input, Level, Schedule, Tail, extracted_norm};
use crate::cut::Cut;
use crate::images::{Images, Parts};
use crate::projection::{LIFTS, ROWS};
use crate::ring::{DEGREE, RESIDUE_BYTES};
use crate::sis::Profile;
use crate::wire::header::HEADER_BYTES;

/// Maximum number of levels before the tail.
const LEVELS_MAX: usize = 8;

/// Number of unfinished schedules kept at each depth.
const WIDTH: usize = 10;

/// Maximum number of pieces into which `z` is cut.
const Z_PIECES_MAX: usize = 16;

/// Minimum bits of the lower half of `z`: with fewer, digits outnumber what they save; with more, the
/// inner commitment needs too many rows.
pub(super) const BASE_MIN: u32 = 3;
pub(super) const BASE_MAX: u32 = 12;

/// Maximum number of pieces of a later level: a little more than in the smallest proofs, since the garbage
/// of a level grows with their square.
pub(super) const LATER_PIECES_MAX: usize = 20;

/// Bytes of one element of `R_Q`.
const ELEMENT_BYTES: u64 = (DEGREE * RESIDUE_BYTES) as u64;

struct Node {
    levels: Vec<Level>,
    bytes: u64,
    /// Inputs of the next row, one for every way to cut them.
    inputs: Vec<Input>,
    /// Bytes of the best completion from here.
    estimate: u64,
}

/// Returns the best schedule, or None if there is none.
pub(super) fn best(bounds: &PublicBounds) -> Option<Schedule> {
    if !bounds.images.are_legal() {
        return None;
    }
    let first = Input {
        cut: Cut {
            z_pieces: 0,
            pieces: bounds.pieces,
            rank: bounds.rank,
        },
        norm_sq: bounds.norm_sq.max(1),
        extracted: extracted_norm(0, Some(&bounds.images)),
        images: Some(bounds.images.clone()),
        parts: Parts::of(bounds.pieces, bounds.projections.parts),
        families: bounds.families,
        energy: bounds.norm_sq.max(1),
    };
    let bytes = HEADER_BYTES as u64 + bounds.front_bytes;
    best_from(vec![first], bytes, bounds.profile, bounds.projections)
}

/// Returns the best schedule that starts from one of several inputs after this many bytes, or None if there is none.
pub(super) fn best_from(
    inputs: Vec<Input>,
    bytes: u64,
    profile: Profile,
    projections: Projections,
) -> Option<Schedule> {
    let mut best: Option<Schedule> = None;
    let mut beam = vec![Node {
        levels: Vec::new(),
        bytes,
        inputs,
        estimate: 0,
    }];
    for depth in 0..=LEVELS_MAX {
        let mut next = Vec::new();
        for node in &beam {
            // Not before the first row, which has blocks: it leaves its relation to a second row.
            if let Some((tail, bytes)) = best_tail(&node.inputs, profile) {
                let total = node.bytes + bytes;
                if best.as_ref().is_none_or(|b| total < b.bytes) {
                    best = Some(Schedule {
                        levels: node.levels.clone(),
                        tail,
                        profile,
                        bytes: total,
                    });
                }
            }
            if depth < LEVELS_MAX {
                extend(node, profile, projections, &mut next);
            }
        }
        next.sort_by_key(|node| node.bytes + node.estimate);
        next.truncate(WIDTH);
        beam = next;
    }
    best
}

fn best_tail(inputs: &[Input], profile: Profile) -> Option<(Tail, u64)> {
    let mut known = None;
    (inputs.iter())
        .filter(|input| input.images.is_none())
        .filter_map(|input| {
            let tail = Tail::plan(input, profile, &mut known)?;
            let bytes = tail_bytes(&tail);
            Some((tail, bytes))
        })
        .min_by_key(|&(_, bytes)| bytes)
}

fn extend(node: &Node, profile: Profile, projections: Projections, next: &mut Vec<Node>) {
    // Counts the levels with block projections, from the second on.
    let blocks = node.levels.len() < projections.block_levels;
    for input in &node.inputs {
        let balanced = balanced_base(input);
        for base in (balanced - 1).max(BASE_MIN)..=(balanced + 1).min(BASE_MAX) {
            let planned = Level::plan(input, base, blocks, profile);
            let Some((level, energy)) = planned else {
                continue;
            };
            let legal = |images: &Images| {
                images.are_legal() && images.extracted_norm_sq(0) <= level.slack_of_blocks()
            };
            // The same for every cut if there are no blocks.
            let dense = extracted_norm(level.norm_sq_out, None);
            let inputs = |blocks: bool| -> Vec<Input> {
                cuts(level.cut.rank, level.digits())
                    .map(|cut| level.with_images(cut, blocks))
                    .filter(|(cut, _)| cut.pieces <= LATER_PIECES_MAX)
                    .filter(|(_, images)| images.as_ref().is_none_or(legal))
                    .map(|(cut, images)| {
                        let added = images.as_ref().map_or(0, Images::added_norm_sq);
                        let of_blocks = images
                            .as_ref()
                            .map(|images| extracted_norm(0, Some(images)));
                        Input {
                            parts: Parts::of(cut.pieces, projections.parts),
                            cut,
                            norm_sq: level.norm_sq_out + added,
                            extracted: of_blocks.unwrap_or(dense),
                            energy: energy + added,
                            images,
                            families: 0,
                        }
                    })
                    .collect()
            };
            // The result of a dense projection is close enough for comparison.
            let Some((_, estimate)) = best_tail(&inputs(false), profile) else {
                continue;
            };
            let mut levels = node.levels.clone();
            let bytes = node.bytes + level_bytes(&level);
            levels.push(level.clone());
            next.push(Node {
                levels,
                bytes,
                inputs: inputs(blocks),
                estimate,
            });
        }
    }
}

/// Iterates over the ways to divide an output of two halves of `z` with this many elements each, and this many
/// digits.
pub(super) fn cuts(z_elements: usize, digits: usize) -> impl Iterator<Item = Cut> {
    let natural = (1..=Z_PIECES_MAX).map(|z_pieces| (z_pieces, LATER_PIECES_MAX));
    let all = natural.chain([(1, 2), (1, 4), (1, 8)]);
    all.map(move |(z_pieces, v_pieces_max)| {
        Cut::of_output(z_elements, digits, z_pieces, v_pieces_max)
    })
}

/// Returns the base that makes both halves of `z` equally long: `2^(4 b) = 12 var(z)`.
fn balanced_base(input: &Input) -> u32 {
    ((u128::ilog2(12 * input.z_variance()) + 2) / 4).clamp(BASE_MIN, BASE_MAX)
}

/// Returns `log2(x) / 2` in hundredths of a bit, rounded down, by repeated squaring of the mantissa.
fn half_log2_centi(x: u128) -> u64 {
    let whole = x.max(1).ilog2();
    let mut mantissa = if whole > 31 {
        (x >> (whole - 31)) as u64
    } else {
        (x.max(1) as u64) << (31 - whole)
    };
    let mut fraction = 0u64;
    for _ in 0..8 {
        mantissa = (mantissa * mantissa) >> 31;
        fraction *= 2;
        if mantissa >> 32 > 0 {
            mantissa >>= 1;
            fraction += 1;
        }
    }
    (u64::from(whole) * 100 + fraction * 100 / 256) / 2
}

/// Returns the bytes of `count` Gaussian coefficients: their entropy is `log2(sigma) + 2.05` bits, and the code
/// adds about 0.1.
fn gaussian_bytes(count: usize, variance: u128) -> u64 {
    count as u64 * (half_log2_centi(variance) + 215) / 800
}

fn lift_bytes() -> u64 {
    (LIFTS * (DEGREE - 1) * RESIDUE_BYTES) as u64
}

/// Returns the bytes of a level's elements, whose encoding has a fixed length.
fn level_elements_bytes(level: &Level) -> u64 {
    // `u0` is sent only where images follow it.
    let commitments = if level.images.is_some() { 3 } else { 2 };
    commitments * level.kappa_outer as u64 * ELEMENT_BYTES + lift_bytes()
}

/// The same for the tail.
fn tail_elements_bytes(tail: &Tail) -> u64 {
    // `t`, and the garbage of all steps: one element in the first, two in each other.
    let elements = tail.kappa * tail.cut.pieces + 2 * tail.cut.pieces - 1;
    elements as u64 * ELEMENT_BYTES + lift_bytes()
}

/// Returns the bytes that every proof has: the header and all elements.
pub(super) fn least_bytes(schedule: &Schedule) -> u64 {
    let levels = schedule.levels.iter().map(level_elements_bytes);
    HEADER_BYTES as u64 + levels.sum::<u64>() + tail_elements_bytes(&schedule.tail)
}

/// Returns the bytes of a level, with the predicted size of its entropy-coded images.
pub(super) fn level_bytes(level: &Level) -> u64 {
    let numbers = level.images_sent() * ROWS;
    let of = |variance: u128| 1 + gaussian_bytes(numbers, variance);
    let mut projections: u64 = level.projection_variances().into_iter().map(of).sum();
    // Each nonce is a byte: those of the projections above, that of the blocks here, that of the challenges below.
    projections += u64::from(level.images.is_some());
    level_elements_bytes(level) + projections + 1
}

fn tail_bytes(tail: &Tail) -> u64 {
    tail_elements_bytes(tail)
        + gaussian_bytes(tail.parts.count * ROWS, tail.projection_variance())
        + 2
        + gaussian_bytes(DEGREE * tail.cut.rank, tail.z_variance)
}
