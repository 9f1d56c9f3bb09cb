//! Choice of the overlapping aggregates of a cell that a collector sums.
//!
//! The attack ("reward griefing"): an aggregator with n_E voters of her own in a cell withholds their
//! votes from the others, takes all honest votes, drops n_E − 1 of them and adds her n_E. Hers is then
//! always the biggest aggregate, and a collector that picks the best one drops her victims. Picking the k
//! aggregates with the greatest coverage does not stop it: she splits her voters over k malicious
//! aggregators with the same victims. Maximum coverage is the wrong objective.
//!
//! [`Rule::Quorum`] first considers positions that at least half of the aggregates contain: no minority
//! can displace what most witnesses saw. Where malicious aggregators are the majority of a cell, only
//! [`Rule::Union`] loses nothing.
//!
//! All rules are one loop over words of bits, O(picks · aggregates · words).

use alphorn_scheme::Overlap;
use alphorn_types::{Bitfield, MULTIPLICITY_LIMIT, Support, Validator};
use std::cmp::Reverse;
use std::fmt;
use std::str::FromStr;
use thiserror::Error;

/// Maximum number of aggregates of a cell that a cover considers.
pub(crate) const CANDIDATES_MAX: usize = 64;

/// Number of bits in a count of up to [`CANDIDATES_MAX`] aggregates.
const COUNT_BITS: usize = 7;

/// How picks are ranked, and their maximum number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rule {
    /// Only the aggregate with the most signers.
    Best1,
    /// The aggregate that adds the most signers, with as many picks as a multiplicity can count.
    Greedy,
    /// The aggregate that adds the most of what at least half of the aggregates contain, with as many
    /// picks as a multiplicity can count. With one pick it is worse than [`Rule::Best1`] against a
    /// malicious majority.
    #[default]
    Quorum,
    /// Like `Quorum`, until nothing can be added.
    Union,
}

impl Rule {
    /// All rules.
    pub(crate) const ALL: [Self; 4] = [Self::Best1, Self::Greedy, Self::Quorum, Self::Union];

    /// The name in configurations.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Best1 => "best1",
            Self::Greedy => "greedy",
            Self::Quorum => "quorum",
            Self::Union => "union",
        }
    }

    /// Returns the rule and the number of picks that a scheme's merging allows if `self` is configured
    /// with multiplicities up to `multiplicity_max`.
    pub fn under(self, overlap: Overlap, multiplicity_max: u8) -> (Self, usize) {
        match overlap {
            Overlap::None => (Self::Best1, 1),
            Overlap::Union => (Self::Union, CANDIDATES_MAX),
            Overlap::Counted { max } => {
                let counted = max.min(multiplicity_max).clamp(1, MULTIPLICITY_LIMIT);
                match (self, counted) {
                    (Self::Best1, _) | (_, 1) => (Self::Best1, 1),
                    (rule, picks) => (rule, usize::from(picks)),
                }
            }
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Text that matches no cover rule.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("unknown cover rule {0:?}, must be best1, greedy, quorum or union")]
pub struct UnknownRule(pub String);

impl FromStr for Rule {
    type Err = UnknownRule;

    fn from_str(text: &str) -> Result<Self, UnknownRule> {
        Self::ALL
            .into_iter()
            .find(|rule| rule.name() == text)
            .ok_or_else(|| UnknownRule(text.chars().take(80).collect()))
    }
}

/// A verified aggregate for the cell and vote in question. One per aggregator.
#[derive(Clone, Copy, Debug)]
pub struct Candidate<'a> {
    /// The aggregator. The smaller index wins a tie.
    pub sender: Validator,
    /// The signers, one bit for each position of the cell.
    pub signers: &'a Bitfield,
}

/// Result of a cover.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Picks {
    /// Indices of the chosen candidates, in order of choice.
    pub chosen: Vec<usize>,
    /// The union of their signers.
    pub(crate) covered: Bitfield,
}

impl Picks {
    /// Returns the sum of the chosen aggregates: how often each position is counted.
    ///
    /// # Panics
    ///
    /// If a position is counted more often than a support can represent, which no [`Rule::under`] with
    /// [`Overlap::Counted`] allows; or if `candidates` are not those passed to the cover.
    pub fn multiplicities(&self, candidates: &[Candidate<'_>]) -> Support {
        let none = Support::new(self.covered.len());
        self.chosen.iter().fold(none, |sum, &pick| {
            let signers = Support::from_bits(candidates[pick].signers.clone());
            sum.add(&signers, MULTIPLICITY_LIMIT)
                .expect("no more picks than a multiplicity can count")
        })
    }
}

/// Chooses at most `picks_max` of `candidates` by `rule` (see [`Rule::under`]).
///
/// `weights` are the effective weights of the cell's positions where they differ. A rule that counted
/// bits would let many light voters displace fewer heavy ones. Only the first `CANDIDATES_MAX` candidates
/// are considered.
///
/// # Panics
///
/// If candidates or weights are not all over the same positions.
pub fn cover(
    candidates: &[Candidate<'_>],
    weights: Option<&[u64]>,
    rule: Rule,
    picks_max: usize,
) -> Picks {
    choose(candidates, weights, rule, picks_max, |_| true)
}

/// Like [`cover`], for evidence that counts signers: a candidate is skipped if, added to the earlier
/// picks, it would make some position count more often than `multiplicity_max`. Rivals that share no
/// signer always fit; others fit if their makers left room.
///
/// # Panics
///
/// Like [`cover`]; or if there is not one support for each candidate.
pub(crate) fn pack(
    candidates: &[Candidate<'_>],
    supports: &[&Support],
    weights: Option<&[u64]>,
    rule: Rule,
    picks_max: usize,
    multiplicity_max: u8,
) -> Picks {
    let mut sum = Support::new(supports.first().map_or(0, |support| support.len()));
    choose(candidates, weights, rule, picks_max, |pick| {
        match sum.add(supports[pick], multiplicity_max) {
            Ok(more) => {
                sum = more;
                true
            }
            Err(_) => false,
        }
    })
}

/// Chooses by a rule among those that `takes` does not skip.
fn choose(
    candidates: &[Candidate<'_>],
    weights: Option<&[u64]>,
    rule: Rule,
    picks_max: usize,
    mut takes: impl FnMut(usize) -> bool,
) -> Picks {
    // Nothing is lost where they come from the gate: it accepts at most as many messages of a unit
    // (`taken_max`).
    let candidates = &candidates[..candidates.len().min(CANDIDATES_MAX)];
    let positions = candidates.first().map_or(0, |c| c.signers.len());
    let fits = candidates.iter().all(|c| c.signers.len() == positions)
        && weights.is_none_or(|weights| weights.len() == positions || candidates.is_empty());
    assert!(
        fits,
        "candidates and weights are over {positions} positions"
    );
    let quorum = match rule {
        Rule::Quorum | Rule::Union => seen_by_half(candidates, positions),
        // With an empty quorum, the first component of the gain is always 0.
        Rule::Best1 | Rule::Greedy => Bitfield::new(positions),
    };
    let picks_max = if rule == Rule::Best1 { 1 } else { picks_max };
    let mut picks = Picks {
        chosen: Vec::new(),
        covered: Bitfield::new(positions),
    };
    let mut left: Vec<usize> = (0..candidates.len()).collect();
    while picks.chosen.len() < picks_max {
        let gained = |&i: &usize| {
            let Candidate { sender, signers } = candidates[i];
            let gain = gain(signers, &quorum, &picks.covered, weights);
            (gain, Reverse((sender, i)))
        };
        match left.iter().map(gained).max() {
            Some(((_, added), Reverse((_, i)))) if added > 0 => {
                // Whether it fits or not: the sum only grows, so what does not fit now will not fit
                // later.
                left.retain(|other| *other != i);
                if takes(i) {
                    picks.chosen.push(i);
                    picks.covered.union_with(candidates[i].signers);
                }
            }
            _ => break,
        }
    }
    picks
}

/// Weight that `signers` add to `covered`: inside the quorum, and in total.
fn gain(
    signers: &Bitfield,
    quorum: &Bitfield,
    covered: &Bitfield,
    weights: Option<&[u64]>,
) -> (u64, u64) {
    let words = signers
        .words()
        .iter()
        .zip(quorum.words())
        .zip(covered.words());
    let mut sum = (0, 0);
    for (w, ((&signers, &quorum), &covered)) in words.enumerate() {
        let added = signers & !covered;
        match weights {
            None => {
                sum.0 += u64::from((added & quorum).count_ones());
                sum.1 += u64::from(added.count_ones());
            }
            Some(weights) => {
                let of_word = &weights[w * 64..];
                sum.0 += weight(added & quorum, of_word);
                sum.1 += weight(added, of_word);
            }
        }
    }
    sum
}

/// Weight of the positions set in `word`.
fn weight(mut word: u64, weights: &[u64]) -> u64 {
    let mut sum: u64 = 0;
    while word != 0 {
        sum = sum.saturating_add(weights[word.trailing_zeros() as usize]);
        word &= word - 1;
    }
    sum
}

/// Positions that at least half of the candidates contain, rounded up. Empty without candidates.
fn seen_by_half(candidates: &[Candidate<'_>], positions: usize) -> Bitfield {
    // A position that no candidate contains never counts, so unused bits of the last word stay zero.
    let least = candidates.len().div_ceil(2).max(1);
    let words = (0..positions.div_ceil(64))
        .map(|w| {
            // 64 counters in parallel: bit b of `count[j]` is bit j of the count of b.
            let mut count = [0u64; COUNT_BITS];
            for candidate in candidates {
                let mut carry = candidate.signers.words()[w];
                for bit in &mut count {
                    (*bit, carry) = (*bit ^ carry, *bit & carry);
                }
            }
            at_least(&count, least)
        })
        .collect();
    Bitfield::from_words(words, positions).expect("a position that nobody contains is not set")
}

/// The lanes whose count is at least `least`.
fn at_least(count: &[u64; COUNT_BITS], least: usize) -> u64 {
    // From the highest bit down: in `equal` are the lanes whose bits so far are those of `least`, in
    // `above` those that are already greater.
    let (mut above, mut equal) = (0, u64::MAX);
    for (j, &bit) in count.iter().enumerate().rev() {
        if least >> j & 1 == 1 {
            equal &= bit;
        } else {
            above |= equal & bit;
            equal &= !bit;
        }
    }
    above | equal
}

#[cfg(test)]
mod tests;
