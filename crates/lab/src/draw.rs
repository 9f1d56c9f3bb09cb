//! Synthetic slots: which validators vote, what the chain shows of the previous slot, and what each
//! sender misses.
//!
//! A network is a participation: each validator votes with a given probability, independently, or as
//! recorded. All deviations are drawn on top of it: a *flip* changes a validator's bit between the last
//! slot and this one, and a *miss* removes a vote from one aggregate or collection. Flips and misses
//! are independent, which is not true of real networks; their rates are assumptions that a command
//! prints with its figures.

use crate::participation::{FLAGS, Participation, Record, check_flag};
use alphorn_proto::horn::Cover;
use alphorn_proto::horn::cover::{Candidate, Picks, cover};
use alphorn_types::{Bitfield, Cell, Layout, Support, Validator};
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use std::ops::Range;

/// Default number of validators: Horn's 2^20.
const VALIDATORS_DEFAULT: u32 = 1 << 20;

/// A stream of random decisions.
pub struct Draw(ChaCha20Rng);

impl Draw {
    /// Returns stream number `stream` of a seed; streams of a seed are independent of one another.
    pub fn new(seed: u64, stream: u64) -> Self {
        let mut rng = ChaCha20Rng::seed_from_u64(seed);
        rng.set_stream(stream);
        Draw(rng)
    }

    /// Draws bits that are each set with probability `share`, to within one part in 2^32.
    pub fn bits(&mut self, len: usize, share: f64) -> Bitfield {
        let threshold = (share.clamp(0.0, 1.0) * (1u64 << 32) as f64).round() as u64;
        let word = |base: usize, rng: &mut ChaCha20Rng| {
            (0..64.min(len - base)).fold(0u64, |word, bit| {
                word | u64::from(u64::from(rng.next_u32()) < threshold) << bit
            })
        };
        let words = (0..len.div_ceil(64))
            .map(|w| word(w * 64, &mut self.0))
            .collect();
        Bitfield::from_words(words, len).expect("bits above the length are not drawn")
    }

    /// Fills `bytes` at random.
    pub(crate) fn fill(&mut self, bytes: &mut [u8]) {
        self.0.fill_bytes(bytes);
    }

    /// Draws a number below `n` > 0; the smallest ones are more likely by at most n parts in 2^64.
    fn below(&mut self, n: usize) -> usize {
        ((u128::from(self.0.next_u64()) * n as u128) >> 64) as usize
    }

    /// Shuffles items.
    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            items.swap(i, self.below(i + 1));
        }
    }
}

/// The network whose slot is drawn.
#[derive(clap::Args, Clone, Debug)]
pub struct NetworkArgs {
    /// Number of validators, such as 1048576 or 2^20; a recorded epoch sets its own
    #[arg(long, value_parser = crate::options::validators)]
    validators: Option<u32>,
    /// Number of committees (default: as many as the number of validators needs)
    #[arg(long)]
    committees: Option<u16>,
    /// Number of cells per committee
    #[arg(long)]
    subcommittees: Option<u16>,
    /// Flag of a recorded epoch that counts as the vote: source, target or head (default: target)
    #[arg(long, value_name = "FLAG", value_parser = FLAGS)]
    flag: Option<String>,
}

/// Validators in committees, and which of them vote.
#[derive(Clone, Debug)]
pub struct Network {
    /// Committees and cells.
    pub layout: Layout,
    /// A description of the participation.
    pub name: String,
    source: Source,
}

/// The source of the participation.
#[derive(Clone, Debug)]
pub enum Source {
    /// Each validator votes with this probability.
    Share(f64),
    /// Recorded bits by position in the epoch.
    Recorded(Bitfield),
}

impl Source {
    /// Draws which validators vote in a range of positions.
    pub fn online(&self, range: Range<u32>, draw: &mut Draw) -> Bitfield {
        let range = range.start as usize..range.end as usize;
        match self {
            Source::Share(share) => draw.bits(range.len(), *share),
            Source::Recorded(bits) => bits.extract(range),
        }
    }
}

impl NetworkArgs {
    /// Rejects a flag where no record is read.
    ///
    /// # Errors
    /// If the flag was given, and no participation in `who` is recorded.
    pub fn check_flag(&self, who: &[Participation]) -> anyhow::Result<()> {
        check_flag(self.flag.as_deref(), who)
    }

    /// Returns the layout for commands where participation does not matter.
    ///
    /// # Errors
    /// If a number is out of bounds.
    pub(crate) fn layout(&self) -> anyhow::Result<Layout> {
        let validators = self.validators.unwrap_or(VALIDATORS_DEFAULT);
        let default = Layout::default_for(validators, None)?;
        self.layout_or(validators, default.committees(), default.subcommittees())
    }

    /// Returns the network with a participation.
    ///
    /// # Errors
    /// If a record cannot be read, or has a different number of validators than requested, or a
    /// number is out of bounds.
    pub fn network(&self, participation: &Participation) -> anyhow::Result<Network> {
        match participation {
            Participation::Share(share) => Ok(Network {
                layout: self.layout()?,
                name: format!("{} %", share * 100.0),
                source: Source::Share(*share),
            }),
            Participation::File(path) => {
                let record = Record::read(path, self.flag.as_deref())?;
                if let Some(asked) = self.validators.filter(|n| *n != record.validators) {
                    anyhow::bail!(
                        "--validators {asked}: {} records {} validators",
                        record.name,
                        record.validators
                    );
                }
                let layout =
                    self.layout_or(record.validators, record.committees, record.subcommittees)?;
                Ok(Network {
                    layout,
                    name: record.name,
                    source: Source::Recorded(record.bits),
                })
            }
        }
    }

    fn layout_or(&self, validators: u32, committees: u16, cells: u16) -> anyhow::Result<Layout> {
        let committees = self.committees.unwrap_or(committees);
        let cells = self.subcommittees.unwrap_or(cells);
        Ok(Layout::new(validators, committees, cells)?)
    }
}

impl Network {
    /// Draws which validators of a committee vote, by position.
    pub fn online(&self, c: u16, draw: &mut Draw) -> Bitfield {
        self.source.online(self.layout.committee_range(c), draw)
    }
}

/// Returns `bits` without those that one sender misses.
pub fn missing(bits: &Bitfield, misses: f64, draw: &mut Draw) -> Bitfield {
    let mut kept = bits.clone();
    if misses > 0.0 {
        kept.subtract(&draw.bits(bits.len(), misses));
    }
    kept
}

/// Returns what the chain shows of the previous slot: `bits`, each flipped with probability `flip`.
pub fn flipped(bits: &Bitfield, flip: f64, draw: &mut Draw) -> Bitfield {
    let mut before = bits.clone();
    if flip > 0.0 {
        before.toggle(&draw.bits(bits.len(), flip));
    }
    before
}

/// Aggregates of one cell with their senders.
pub type Aggregates = Vec<(Validator, Bitfield)>;

/// Draws what `count` aggregators of a cell publish: the votes of `online`, each without its own misses.
pub fn aggregates(online: &Bitfield, count: u16, misses: f64, draw: &mut Draw) -> Aggregates {
    (0..u32::from(count))
        .map(|sender| (Validator(sender), missing(online, misses, draw)))
        .collect()
}

fn candidates(aggregates: &Aggregates) -> Vec<Candidate<'_>> {
    let candidate = |(sender, signers)| Candidate { sender, signers };
    let pairs = aggregates
        .iter()
        .map(|(sender, signers)| (*sender, signers));
    pairs.map(candidate).collect()
}

/// Returns a collector's picks of a cell.
pub(crate) fn picked(aggregates: &Aggregates, rule: Cover, picks_max: usize) -> Picks {
    cover(&candidates(aggregates), None, rule, picks_max)
}

/// Returns a collector's result for a cell: the sum of its picks, and their number.
pub fn covered(aggregates: &Aggregates, rule: Cover, picks_max: usize) -> (Support, usize) {
    let picks = picked(aggregates, rule, picks_max);
    let support = picks.multiplicities(&candidates(aggregates));
    (support, picks.chosen.len())
}

/// Joins the supports of a committee's cells, in order.
pub fn join(layout: &Layout, c: u16, cells: &[Support]) -> Support {
    let len = layout.committee_len(c) as usize;
    let planes_count = cells.iter().map(Support::planes_count).max().unwrap_or(1);
    let mut planes = vec![Bitfield::new(len); planes_count];
    for (subcommittee, support) in (0..).zip(cells) {
        let cell = Cell {
            committee: c,
            subcommittee,
        };
        let offset = layout.cell_in_committee(cell).start as usize;
        for (plane, part) in planes.iter_mut().zip(support.planes()) {
            plane.write_range(offset, part);
        }
    }
    Support::from_planes(planes).expect("the largest number of planes is needed by some cell")
}

/// Returns the cells of a committee as ranges of its positions.
pub fn cell_ranges(layout: &Layout, c: u16) -> Vec<std::ops::Range<usize>> {
    (0..layout.subcommittees())
        .map(|subcommittee| {
            let range = layout.cell_in_committee(Cell {
                committee: c,
                subcommittee,
            });
            range.start as usize..range.end as usize
        })
        .collect()
}

/// Parses an option between 0 and 1.
pub fn share_option(text: &str) -> Result<f64, String> {
    crate::options::share(text).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_drawn_at_their_rate_and_reproducibly() {
        for share in [0.0, 0.003, 0.5, 0.95, 1.0] {
            let bits = Draw::new(1, 2).bits(200_000, share);
            let expected = share * 200_000.0;
            let deviation = (200_000.0 * share * (1.0 - share)).sqrt();
            let difference = (bits.count_ones() as f64 - expected).abs();
            assert!(
                difference <= 5.0 * deviation,
                "{share}: off by {difference}"
            );
            assert_eq!(bits, Draw::new(1, 2).bits(200_000, share));
        }
        assert_ne!(Draw::new(1, 2).bits(64, 0.5), Draw::new(1, 3).bits(64, 0.5));
    }

    #[test]
    fn a_shuffle_keeps_all_items() {
        let mut items: Vec<usize> = (0..100).collect();
        Draw::new(7, 0).shuffle(&mut items);
        assert_ne!(items, (0..100).collect::<Vec<_>>());
        items.sort_unstable();
        assert_eq!(items, (0..100).collect::<Vec<_>>());
    }

    #[test]
    fn cells_join_at_their_places() {
        let layout = Layout::new(21, 2, 3).unwrap();
        let ranges = cell_ranges(&layout, 1);
        let cells: Vec<Support> = ranges
            .iter()
            .zip([1u8, 3, 2])
            .map(|(range, m)| Support::from_multiplicities(&vec![m; range.len()]).unwrap())
            .collect();
        let joined = join(&layout, 1, &cells);
        assert_eq!(joined.len(), layout.committee_len(1) as usize);
        for (range, m) in ranges.into_iter().zip([1u8, 3, 2]) {
            assert!(range.into_iter().all(|i| joined.multiplicity(i) == m));
        }
        let empty = Layout::new(2, 1, 4).unwrap();
        let cells: Vec<Support> = cell_ranges(&empty, 0)
            .iter()
            .map(|range| Support::new(range.len()))
            .collect();
        assert_eq!(join(&empty, 0, &cells), Support::new(2));
    }

    #[test]
    fn picks_of_honest_aggregates_cover_nearly_all() {
        let mut draw = Draw::new(3, 0);
        let online = draw.bits(512, 0.95);
        let aggregates = aggregates(&online, 16, 0.01, &mut draw);
        let (support, picks) = covered(&aggregates, Cover::Quorum, 3);
        assert!((1..=3).contains(&picks));
        assert!(online.count_ones() - support.signer_count() <= 1);
        assert!(support.signers().is_subset_of(&online));
        let (none, picks) = covered(&Vec::new(), Cover::Quorum, 3);
        assert_eq!((none.len(), picks), (0, 0));
    }
}
