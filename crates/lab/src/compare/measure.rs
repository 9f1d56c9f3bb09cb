//! Measures a scheme on the votes of one committee. Every step is timed, every result is checked by the
//! public verifier, and a false statement about it must be rejected.

use crate::machine;
use crate::timing::least;
use alphorn_exec::Stop;
use alphorn_scheme::{
    Abilities, Bytes, Claim, Ctx, Evidence, Layer, MemoryWatermark, Overlap, Part, Role, Scheme,
    SignItem, Sizes, Statement, Watermark,
};
use alphorn_types::{Assignment, Cell, Epoch, Layout, Slot, Support, Unit, Validator};
use anyhow::{Context, Result, anyhow, ensure};
use rayon::ThreadPool;
use std::ops::Range;
use std::sync::Arc;

/// The slot of the votes. Interop keys of one-time schemes include it.
const SLOT: Slot = Slot(1);
const EPOCH: Epoch = Epoch(0);

/// Runs of verification steps, of which the least time counts. Proving steps run once, since they take
/// seconds.
const RUNS: usize = 3;

/// Numbers of overlapping collections that are merged.
const MERGES: [usize; 2] = [2, 4];

/// A scheme, and keys of all validators of the committee.
pub(super) struct Inputs<S: Scheme> {
    pub(super) scheme: S,
    pub(super) registry: Arc<S::Registry>,
    pub(super) signers: Arc<S::Signers>,
    /// Maximum number of votes of a mergeable collection, where there is a bound.
    pub(super) mergeable_max: Option<usize>,
    /// Maximum votes of a cell, and maximum units merged into one of the next level, where collections
    /// are made of evidence level by level. Otherwise cells are Horn's, on two levels.
    pub(super) levels: Option<(u32, u16)>,
}

/// Seconds of each step on a given number of threads, for all votes of the committee.
#[derive(Clone, Debug)]
pub(super) struct Times {
    pub(super) threads: usize,
    /// Building the epoch's key table from the registry.
    pub(super) prepare_s: f64,
    pub(super) sign_s: f64,
    /// Verifying all votes together without a proof, which every scheme can do.
    pub(super) plain_s: f64,
    /// Making the aggregates of all cells.
    pub(super) aggregate_s: f64,
    /// Making the collection from the aggregates: evidence of all groups in between, and of the committee.
    pub(super) collect_s: f64,
    /// The last step of that alone: the committee's evidence from its largest parts.
    pub(super) last_s: f64,
    /// From votes to the collection if each unit has a host of its own: one unit of each level.
    pub(super) path_s: f64,
    /// Verifying the collection.
    pub(super) verify_s: f64,
    /// Merging overlapping collections; none if the scheme cannot.
    pub(super) merges: Vec<Merge>,
    /// Peak memory of the process in these steps; none where the system does not report it.
    pub(super) peak_rss_bytes: Option<u64>,
}

/// Overlapping collections merged into one with the union of their votes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Merge {
    pub(super) collections: usize,
    /// Votes of each collection but the last, which may have fewer.
    pub(super) votes_each: u32,
    /// Votes of the union.
    pub(super) votes: u32,
    /// Bytes of the result without its support; independent of the number of threads.
    pub(super) bytes: u64,
    /// Bytes of its raw support: one bit per validator, or two where votes are counted.
    pub(super) support_bytes: u64,
    pub(super) merge_s: f64,
    /// Seconds to verify the result.
    pub(super) verify_s: f64,
    /// Seconds to verify the collections one by one, which the merge avoids.
    pub(super) parts_verify_s: f64,
}

/// Results for a scheme at a number of votes.
#[derive(Clone, Debug)]
pub(super) struct Case {
    pub(super) votes: u32,
    pub(super) cells: u16,
    /// Fan-out of each level, from the committee down.
    pub(super) fan_out: Vec<u16>,
    pub(super) abilities: Abilities,
    pub(super) sizes: Sizes,
    /// Size of the largest aggregate of a cell, without its support.
    pub(super) aggregate_bytes: u64,
    /// Size of the inputs of a collection's last step, with raw supports.
    pub(super) parts_bytes: u64,
    /// Size of the collection, without its support.
    pub(super) collection_bytes: u64,
    /// Maximum number of votes of a mergeable collection, where there is a bound.
    pub(super) mergeable_max: Option<usize>,
    pub(super) times: Vec<Times>,
}

impl Case {
    /// Returns the size of the raw support of the collection: one bit per validator.
    pub(super) fn support_bytes(&self) -> u64 {
        u64::from(self.votes.div_ceil(8))
    }

    /// Returns the figures for the fewest threads.
    pub(super) fn slow(&self) -> Option<&Times> {
        self.times.first()
    }

    /// Returns the figures for the most threads.
    pub(super) fn fast(&self) -> Option<&Times> {
        self.times.last()
    }
}

/// Returns a layout of `votes` validators in one committee: by levels with the fewest possible cells,
/// or with as many cells as Horn would give it, since with one cell nothing could overlap.
fn layout(votes: u32, levels: Option<(u32, u16)>) -> Result<Layout> {
    let Some((cell_max, units_max)) = levels else {
        let cells = Layout::default_for(votes, None)?.subcommittees();
        return Ok(Layout::new(votes, 1, cells.max(2))?);
    };
    let cells = votes.div_ceil(cell_max).max(2);
    let mut units = cells;
    let mut fan_out = Vec::new();
    while units > u32::from(units_max) {
        // As even as possible: not seven and then two.
        let levels = (2..)
            .find(|&n| u32::from(units_max).pow(n) >= units)
            .unwrap_or(2);
        let below = (2..=units_max).find(|&n| u32::from(n).pow(levels) >= units);
        fan_out.insert(0, below.unwrap_or(units_max));
        units = units.div_ceil(u32::from(fan_out[0]));
    }
    fan_out.insert(0, units.try_into()?);
    Ok(Layout::with_fan_out(votes, 1, &fan_out)?)
}

/// Measures a scheme on each number of threads. `message` is what all validators sign.
pub(super) fn measure<S: Scheme>(
    inputs: &Inputs<S>,
    votes: u32,
    message: [u8; 32],
    pools: &[ThreadPool],
) -> Result<Case> {
    let layout = layout(votes, inputs.levels)?;
    let members = (0..votes).collect();
    let assignment = Arc::new(Assignment::new(EPOCH, layout, members)?);
    let mut case = Case {
        votes,
        cells: layout.subcommittees(),
        fan_out: layout.fan_out().to_vec(),
        abilities: inputs.scheme.abilities(),
        sizes: inputs.scheme.sizes(),
        aggregate_bytes: 0,
        parts_bytes: 0,
        collection_bytes: 0,
        mergeable_max: inputs.mergeable_max,
        times: Vec::new(),
    };
    let unions = match pools.last() {
        Some(all) => Lane::new(inputs, &assignment, message, all)?.unions(&case)?,
        None => Vec::new(),
    };
    for pool in pools {
        // Only now: preparing the unions is no step of a slot, so what it took at its peak must not count.
        machine::reset_peak_rss();
        let mut lane = Lane::new(inputs, &assignment, message, pool)?;
        let times = lane.times(&mut case, &unions)?;
        case.times.push(times);
    }
    Ok(case)
}

/// Collections that each share half of their votes with the next.
struct Union {
    parts: Vec<Part>,
    /// Votes of each collection but the last, which may have fewer.
    votes_each: usize,
    /// Total votes.
    votes: usize,
    /// Maximum multiplicity of a validator.
    multiplicity_max: u8,
}

/// A collection, and the cost of its steps.
struct Climbed {
    collection: Evidence,
    /// Size of the last step's parts, with raw supports.
    parts_bytes: u64,
    /// Seconds of all steps after the aggregates.
    all_s: f64,
    /// Seconds of the last step.
    last_s: f64,
    /// Seconds of one unit of each level.
    path_s: f64,
}

/// Measurements on one number of threads.
struct Lane<'a, S: Scheme> {
    inputs: &'a Inputs<S>,
    assignment: &'a Assignment,
    message: [u8; 32],
    pool: &'a ThreadPool,
    scratch: S::Scratch,
    keys: S::Keys,
    prepare_s: f64,
}

impl<'a, S: Scheme> Lane<'a, S> {
    fn new(
        inputs: &'a Inputs<S>,
        assignment: &'a Arc<Assignment>,
        message: [u8; 32],
        pool: &'a ThreadPool,
    ) -> Result<Self> {
        let mut scratch = S::Scratch::default();
        let (prepare_s, keys) = least(1, || {
            let mut ctx = context(pool, &mut scratch);
            inputs.scheme.keys(&inputs.registry, assignment, &mut ctx)
        });
        Ok(Lane {
            inputs,
            assignment,
            message,
            pool,
            scratch,
            keys: keys?,
            prepare_s,
        })
    }

    /// Runs all steps in sequence. Byte counts do not depend on threads, so the last ones are kept.
    fn times(&mut self, case: &mut Case, unions: &[Union]) -> Result<Times> {
        let (sign_s, votes) = self.sign()?;
        let plain_s = self.plain(&votes)?;
        let (aggregate_s, aggregates) = self.aggregates(&votes, 0..votes.len())?;
        let largest = aggregates.iter().map(|part| part.evidence.bytes.len());
        case.aggregate_bytes = largest.max().unwrap_or(0) as u64;
        let cells = aggregates.len();
        let made = self.climb(aggregates)?;
        case.parts_bytes = made.parts_bytes;
        let collection = made.collection;
        case.collection_bytes = collection.bytes.len() as u64;
        let verify_s = self.verify(&collection)?;
        let merges = unions.iter().map(|union| self.merge(union));
        let merges = merges.collect::<Result<_>>()?;
        Ok(Times {
            threads: self.pool.current_num_threads(),
            prepare_s: self.prepare_s,
            sign_s,
            plain_s,
            aggregate_s,
            collect_s: made.all_s,
            last_s: made.last_s,
            // The cells were made one after another, while each has a host of its own in a network.
            path_s: aggregate_s / cells as f64 + made.path_s,
            verify_s,
            merges,
            peak_rss_bytes: Some(machine::peak_rss_bytes()).filter(|bytes| *bytes > 0),
        })
    }

    /// Signs with every validator. Reservations are made before the clock starts.
    fn sign(&mut self) -> Result<(f64, Vec<Bytes>)> {
        let validators = self.assignment.members().iter().copied();
        let item = |validator| SignItem {
            validator: Validator(validator),
            role: Role::Vote,
            message: self.message,
            guard: None,
        };
        let items: Vec<SignItem> = validators.map(item).collect();
        let store = MemoryWatermark::new(items.len() as u32);
        let permits = items.iter().map(|item| {
            let permit = store.reserve(SLOT, item);
            permit.map_err(|refused| anyhow!("validator {}: {refused}", item.validator.0))
        });
        let mut permits = Some(permits.collect::<Result<Vec<_>>>()?);
        let (scheme, signers) = (&self.inputs.scheme, &self.inputs.signers);
        let mut ctx = context(self.pool, &mut self.scratch);
        // Once only. The permits are used up by it, as a one-time key signs a slot once.
        let (seconds, signed) = least(1, || {
            let permits = permits.take().unwrap_or_default();
            scheme.sign(signers, SLOT, &items, permits, &mut ctx)
        });
        let signed = signed.context("votes cannot be signed")?;
        Ok((seconds, signed.iter().map(Bytes::from).collect()))
    }

    /// Verifies all votes together.
    fn plain(&mut self, votes: &[Bytes]) -> Result<f64> {
        let members = self.assignment.members().iter();
        let claims: Vec<Claim> = members
            .zip(votes)
            .map(|(validator, signature)| Claim::One {
                validator: Validator(*validator),
                role: Role::Vote,
                slot: SLOT,
                message: self.message,
                signature: signature.clone(),
            })
            .collect();
        let (seconds, holds) = least(RUNS, || self.holds(&claims));
        ensure!(holds, "honest votes do not verify");
        Ok(seconds)
    }

    fn holds(&mut self, claims: &[Claim]) -> bool {
        let scheme = &self.inputs.scheme;
        let mut ctx = context(self.pool, &mut self.scratch);
        // The message stands in for the secret of the weights. All claims are made here, so nobody could exploit
        // knowing it.
        let prepared = scheme.prepare(&self.keys, claims, &self.message, &mut ctx);
        scheme.check(&self.keys, &prepared, 0..claims.len())
    }

    /// Makes an aggregate for each cell that has some of the votes at these positions.
    fn aggregates(&mut self, votes: &[Bytes], window: Range<usize>) -> Result<(f64, Vec<Part>)> {
        let cells: Vec<Cell> = self.assignment.layout().cells().collect();
        let (mut seconds, mut parts) = (0.0, Vec::new());
        for cell in cells {
            let range = self.assignment.layout().cell_range(cell);
            let statement = self.statement(Layer::Aggregate, range.start, range.end - range.start);
            let signed: Vec<(u32, Bytes)> = (0..statement.len)
                .zip(range.start as usize..range.end as usize)
                .filter(|(_, at)| window.contains(at))
                .map(|(position, at)| (position, votes[at].clone()))
                .collect();
            if signed.is_empty() {
                continue;
            }
            let scheme = &self.inputs.scheme;
            let mut ctx = context(self.pool, &mut self.scratch);
            let (cell_s, evidence) = least(1, || {
                scheme.aggregate(&self.keys, &statement, &signed, &mut ctx)
            });
            seconds += cell_s;
            parts.push(Part {
                offset: range.start,
                layer: Layer::Aggregate,
                evidence: evidence.context("honest votes do not aggregate")?,
            });
        }
        Ok((seconds, parts))
    }

    fn statement(&self, layer: Layer, first: u32, len: u32) -> Statement {
        Statement {
            layer,
            first,
            len,
            slot: SLOT,
            message: self.message,
        }
    }

    fn whole(&self) -> Statement {
        self.statement(Layer::Collection, 0, self.assignment.members().len() as u32)
    }

    /// Makes the evidence of each unit from its children, level by level, up to the collection.
    fn climb(&mut self, aggregates: Vec<Part>) -> Result<Climbed> {
        let layout = *self.assignment.layout();
        let mut parts = aggregates;
        let (mut all_s, mut path_s) = (0.0, 0.0);
        for level in 2..layout.levels() {
            let units: Vec<Unit> = layout.units(level).collect();
            let mut made = Vec::with_capacity(units.len());
            let before_s = all_s;
            for unit in &units {
                let range = layout.unit_range(*unit);
                let (first, len) = (range.start, range.end - range.start);
                let statement = self.statement(Layer::Collection, first, len);
                let within = |part: &&Part| range.contains(&part.offset);
                let below: Vec<Part> = parts.iter().filter(within).cloned().collect();
                let below: Vec<Part> = below
                    .into_iter()
                    .map(|part| Part {
                        offset: part.offset - first,
                        ..part
                    })
                    .collect();
                let (unit_s, evidence) = self.combine_to(&statement, &below, 1)?;
                all_s += unit_s;
                made.push(Part {
                    offset: first,
                    layer: Layer::Collection,
                    evidence,
                });
            }
            path_s += (all_s - before_s) / units.len() as f64;
            parts = made;
        }
        let (last_s, collection) = self.combine(&parts, 1)?;
        let bytes = |part: &Part| {
            let evidence = &part.evidence;
            (evidence.bytes.len() + evidence.support.len().div_ceil(8)) as u64
        };
        Ok(Climbed {
            collection,
            parts_bytes: parts.iter().map(bytes).sum(),
            all_s: all_s + last_s,
            last_s,
            path_s: path_s + last_s,
        })
    }

    fn combine(&mut self, parts: &[Part], multiplicity_max: u8) -> Result<(f64, Evidence)> {
        self.combine_to(&self.whole(), parts, multiplicity_max)
    }

    fn combine_to(
        &mut self,
        statement: &Statement,
        parts: &[Part],
        multiplicity_max: u8,
    ) -> Result<(f64, Evidence)> {
        let scheme = &self.inputs.scheme;
        let mut ctx = context(self.pool, &mut self.scratch);
        let (seconds, evidence) = least(1, || {
            scheme.combine(&self.keys, statement, parts, multiplicity_max, &mut ctx)
        });
        Ok((seconds, evidence.context("aggregates do not combine")?))
    }

    /// Verifies a collection of all votes, and checks that nothing else is accepted.
    fn verify(&mut self, collection: &Evidence) -> Result<f64> {
        let statement = self.whole();
        let claim = |statement: Statement, evidence: &Evidence| {
            [Claim::Group {
                statement,
                evidence: evidence.clone(),
            }]
        };
        let honest = claim(statement, collection);
        let (seconds, holds) = least(RUNS, || self.holds(&honest));
        ensure!(holds, "an honest collection does not verify");
        let mut message = self.message;
        message[0] ^= 1;
        let other = claim(
            Statement {
                message,
                ..statement
            },
            collection,
        );
        ensure!(
            !self.holds(&other),
            "a collection verifies for a message that nobody signed"
        );
        let mut bits = collection.support.signers();
        let first = bits.iter_ones().next();
        if let Some(first) = first {
            bits.clear(first);
        }
        let less = Evidence {
            support: Arc::new(Support::from_bits(bits)),
            bytes: collection.bytes.clone(),
        };
        ensure!(
            // Without its only signer a collection claims nothing, so nothing has to be refused.
            less.support.is_empty() || !self.holds(&claim(statement, &less)),
            "a collection verifies without a signer whom it needs"
        );
        Ok(seconds)
    }

    /// Prepares the collections to merge on these threads; none if the scheme cannot merge. One merge
    /// is done up front, since the first one in a process may build what all others reuse.
    fn unions(&mut self, case: &Case) -> Result<Vec<Union>> {
        let multiplicity_max = match self.inputs.scheme.abilities().overlap(Layer::Collection) {
            Overlap::None => return Ok(Vec::new()),
            Overlap::Union => 1,
            Overlap::Counted { max } => max,
        };
        // With groups in between, every window would have to be proved anew, cell by cell.
        if case.fan_out.len() != 1 {
            return Ok(Vec::new());
        }
        let votes = self.sign()?.1;
        let mut unions = Vec::new();
        for collections in MERGES {
            let windows = windows(votes.len(), collections, self.inputs.mergeable_max);
            let (Some(first), Some(last)) = (windows.first(), windows.last()) else {
                continue;
            };
            let mut union = Union {
                parts: Vec::new(),
                votes_each: first.len(),
                votes: last.end,
                multiplicity_max,
            };
            for window in windows {
                let (_, aggregates) = self.aggregates(&votes, window)?;
                union.parts.push(Part {
                    offset: 0,
                    layer: Layer::Collection,
                    evidence: self.combine(&aggregates, multiplicity_max)?.1,
                });
            }
            unions.push(union);
        }
        if let Some(first) = unions.first() {
            self.combine(&first.parts, multiplicity_max)?;
        }
        Ok(unions)
    }

    /// Merges overlapping collections.
    fn merge(&mut self, union: &Union) -> Result<Merge> {
        let mut parts_verify_s = 0.0;
        for part in &union.parts {
            parts_verify_s += self.verify(&part.evidence)?;
        }
        let (merge_s, merged) = self.combine(&union.parts, union.multiplicity_max)?;
        let (collections, votes) = (union.parts.len(), union.votes);
        ensure!(
            merged.support.signer_count() == votes,
            "a merge of {collections} has {} signers of {votes}",
            merged.support.signer_count()
        );
        let members = self.assignment.members().len();
        Ok(Merge {
            collections,
            votes_each: union.votes_each as u32,
            votes: votes as u32,
            bytes: merged.bytes.len() as u64,
            support_bytes: (merged.support.planes_count() * members.div_ceil(8)) as u64,
            merge_s,
            verify_s: self.verify(&merged)?,
            parts_verify_s,
        })
    }
}

/// Returns the positions of this many collections, each sharing half of its votes with the next.
/// Together they hold all votes, or as many as collections of `most` hold. None if there are too few
/// votes.
fn windows(votes: usize, collections: usize, most: Option<usize>) -> Vec<Range<usize>> {
    if 2 * votes < collections * collections {
        return Vec::new();
    }
    // Each window after the first adds half of its length, so they span `each * (collections + 1) / 2` votes.
    let each = (2 * votes).div_ceil(collections + 1);
    let each = each.min(most.unwrap_or(each));
    let step = each.div_ceil(2);
    let begins = (0..collections).map(|i| i * step);
    begins.map(|i| i..votes.min(i + each)).collect()
}

fn context<'a, W>(pool: &'a ThreadPool, scratch: &'a mut W) -> Ctx<'a, W> {
    Ctx::pooled(pool, Stop::default(), Arc::default(), scratch)
}

#[cfg(test)]
mod tests {
    use super::{layout, windows};

    #[test]
    fn levels_are_as_even_as_can_be() {
        let shape = |votes| layout(votes, Some((768, 7))).unwrap().fan_out().to_vec();
        assert_eq!(shape(12), [2]);
        assert_eq!(shape(5376), [7]);
        assert_eq!(shape(8192), [3, 4]);
        assert_eq!(shape(32768), [7, 7]);
        assert_eq!(layout(1024, None).unwrap().levels(), 2);
        for votes in (2..=32768).step_by(1001) {
            let layout = layout(votes, Some((768, 7))).unwrap();
            assert!(layout.cell_len_max() <= 768, "{votes} votes");
            assert!(
                layout.fan_out().iter().all(|units| *units <= 7),
                "{votes} votes"
            );
        }
    }

    #[test]
    fn collections_overlap_and_have_all_votes() {
        for votes in 2..200 {
            for collections in [2, 4] {
                let windows = windows(votes, collections, None);
                if windows.is_empty() {
                    assert!(votes < 8 && collections == 4, "{votes} votes");
                    continue;
                }
                assert_eq!(windows.len(), collections);
                assert_eq!((windows[0].start, windows[collections - 1].end), (0, votes));
                for pair in windows.windows(2) {
                    let overlap = pair[0].start < pair[1].start && pair[1].start < pair[0].end;
                    assert!(overlap && !pair[1].is_empty(), "{votes} votes: {pair:?}");
                }
            }
        }
        let short = windows(4096, 4, Some(768));
        assert!(short.iter().all(|window| window.len() == 768));
        assert_eq!(short[3].end, 3 * 384 + 768);
    }
}
