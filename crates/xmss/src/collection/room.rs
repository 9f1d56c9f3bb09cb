//! Selects the proofs to merge if merges cannot take all of them.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use alphorn_exec::Exec;
use alphorn_scheme::SchemeError;
use alphorn_types::Bitfield;

/// Evidence to be merged.
pub(super) struct Piece<'a> {
    pub(super) signers: Bitfield,
    pub(super) bytes: &'a [u8],
    /// The number reported on failure: its index among the parts; none for what was proved from lists here.
    pub(super) part: Option<usize>,
    /// The number of proofs in it.
    pub(super) parts: usize,
    /// The highest level in their headers.
    pub(super) level: u32,
}

/// The pieces to merge: a single one, or several such that `fits` accepts their highest level and number of
/// proofs. One high piece can keep out many low ones, so all pieces are tried, then those without the highest
/// level, and so on. The selection with the most signers wins.
///
/// # Errors
/// [`SchemeError::Stopped`].
pub(super) fn with_room<'a>(
    exec: Exec<'_>,
    pieces: Vec<Piece<'a>>,
    fits: &dyn Fn(u32, u64) -> bool,
) -> Result<Vec<Piece<'a>>, SchemeError> {
    let levels: BTreeSet<u32> = pieces.iter().map(|piece| piece.level).collect();
    let mut best = (0, Vec::new());
    for level in levels.into_iter().rev() {
        let found = up_to(exec, &pieces, level, fits)?;
        let all = found.1.len() == pieces.len();
        // With as many signers the lower level is taken, which leaves more room above.
        if found.0 >= best.0 {
            best = found;
        }
        // What fits whole cannot have fewer signers than a part of it.
        if all {
            break;
        }
    }
    let (_, kept) = best;
    let numbered = pieces.into_iter().enumerate();
    let numbered = numbered.filter(|(i, _)| kept.contains(i));
    Ok(numbered.map(|(_, piece)| piece).collect())
}

/// The pieces up to a level that fit, by their numbers, and how many signers they have. While there are too many,
/// the piece with the fewest signers of its own is left out, in case of a tie one of the highest level.
fn up_to(
    exec: Exec<'_>,
    pieces: &[Piece<'_>],
    level: u32,
    fits: &dyn Fn(u32, u64) -> bool,
) -> Result<(usize, Vec<usize>), SchemeError> {
    let mut kept: Vec<usize> = (0..pieces.len()).collect();
    kept.retain(|&i| pieces[i].level <= level);
    let positions = pieces.first().map_or(0, |piece| piece.signers.len());
    // For each position the number of pieces that have it, and the sum of their numbers, which for a single piece
    // is its number.
    let mut owners = vec![(0_usize, 0_usize); positions];
    for &i in &kept {
        for position in pieces[i].signers.iter_ones() {
            owners[position].0 += 1;
            owners[position].1 += i;
        }
    }
    let mut alone = vec![0_usize; pieces.len()];
    for (_, owner) in owners.iter().filter(|(count, _)| *count == 1) {
        alone[*owner] += 1;
    }
    loop {
        if exec.stopped() {
            return Err(SchemeError::Stopped);
        }
        let highest = kept.iter().map(|&i| pieces[i].level).max();
        let parts = kept.iter().map(|&i| pieces[i].parts as u64).sum();
        if kept.len() < 2 || fits(highest.unwrap_or_default(), parts) {
            break;
        }
        let least =
            (0..kept.len()).min_by_key(|&at| (alone[kept[at]], Reverse(pieces[kept[at]].level)));
        let gone = kept.remove(least.unwrap_or_default());
        for position in pieces[gone].signers.iter_ones() {
            let (count, owner) = &mut owners[position];
            (*count, *owner) = (*count - 1, *owner - gone);
            if *count == 1 {
                alone[*owner] += 1;
            }
        }
    }
    let signers = owners.iter().filter(|(count, _)| *count > 0).count();
    Ok((signers, kept))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ops::Range;

    const POSITIONS: usize = 700;

    fn piece(level: u32, signers: impl IntoIterator<Item = usize>) -> Piece<'static> {
        let mut bits = Bitfield::new(POSITIONS);
        signers.into_iter().for_each(|i| bits.set(i));
        Piece {
            signers: bits,
            bytes: &[],
            part: None,
            parts: 1,
            level,
        }
    }

    /// Merges of at most seven, on one level.
    fn kept(pieces: Vec<Piece<'static>>) -> Vec<Piece<'static>> {
        let fits = |level, parts| level == 0 && parts <= 7;
        with_room(Exec::serial(), pieces, &fits).unwrap()
    }

    fn has(pieces: &[Piece<'_>], mut wanted: Range<usize>) -> bool {
        wanted.all(|position| pieces.iter().any(|piece| piece.signers.get(position)))
    }

    #[test]
    fn a_stop_is_obeyed_before_anything_is_chosen() {
        let stop = alphorn_exec::Stop::default();
        stop.stop();
        let exec = Exec::serial().with_watch(&stop);
        let pieces = vec![piece(0, 0..9), piece(0, 0..9)];
        let stopped = with_room(exec, pieces, &|_, _| panic!("asked after the stop"));
        assert_eq!(stopped.err(), Some(SchemeError::Stopped));
    }

    /// Large overlapping pieces take the room of a small unit, whose only piece is small.
    #[test]
    fn a_small_unit_is_not_left_out_for_large_ones_that_overlap() {
        let large = (0..12).map(|i| piece(0, (0..100).filter(move |position| position % 12 != i)));
        for at in [0, 5, 12] {
            let mut pieces: Vec<Piece<'_>> = large.clone().collect();
            pieces.insert(at, piece(0, 100..103));
            let kept = kept(pieces);
            assert_eq!(kept.len(), 7);
            assert!(has(&kept, 0..103));
        }
    }

    /// Nothing fits next to a piece of the highest level, even one with more signers than any other.
    #[test]
    fn one_high_piece_does_not_leave_out_all_low_ones() {
        let low = |units: Range<usize>| units.map(|unit| piece(0, unit * 100..unit * 100 + 90));
        let mut pieces: Vec<Piece<'_>> = low(0..6).collect();
        pieces.insert(3, piece(1, 600..700));
        let six = kept(pieces);
        assert!(six.len() == 6 && has(&six, 500..590) && !has(&six, 600..601));
        // Against a single low piece, the high one has more signers.
        let one = kept(vec![piece(1, 600..700), piece(0, 0..90)]);
        assert!(one.len() == 1 && has(&one, 600..700));
        // Pieces that fit are kept, even if their signers are in others.
        assert_eq!(kept(low(0..3).chain(low(0..3)).collect()).len(), 6);
        assert_eq!(kept(vec![piece(0, 0..9), piece(1, 0..9)])[0].level, 0);
        assert!(kept(Vec::new()).is_empty());
    }
}
