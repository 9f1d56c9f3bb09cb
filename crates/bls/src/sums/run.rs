//! Runs jobs: plans them, pools small ones into batches, and distributes batches among threads.

use core::ops::Range;
use std::sync::Mutex;
use std::time::Instant;

use alphorn_exec::Exec;

use super::base::{Base, plane_naive};
use super::columns::CommitteeJob;
use super::extract::Reference;
use super::method::{Method, SumOptions, SumReport, Sums};
use super::plan::{JobColumns, JobPlan};
use super::segments::{Entry, SumKernel};
use super::table::KeyTable;
use super::tree::Tree;
use crate::blst_ffi::curve::G1Affine;
use crate::blst_ffi::curve_field::CurveField;
use crate::blst_ffi::field::Fp;

/// Items of a batch: small jobs are pooled up to this many, so that they share the inversions.
const BATCH_ITEMS: usize = 1 << 15;

/// Maximum number of pending items before a further group is added. A job with many columns uses the memory of
/// this many items plus one group, including the sums made by their tree, and keeps one sum per column.
const ITEMS_MAX: usize = 1 << 18;

/// Memory of one thread.
pub(crate) struct Space<K: SumKernel> {
    tree: Tree<K>,
    flips: Vec<u64>,
    wanted: Vec<Wanted>,
    folds: Vec<Fold>,
    columns: Vec<Option<Entry>>,
    points: Vec<K::Point>,
    affine: Vec<G1Affine>,
}

impl<K: SumKernel> Default for Space<K> {
    fn default() -> Self {
        Space {
            tree: Tree::default(),
            flips: Vec::new(),
            wanted: Vec::new(),
            folds: Vec::new(),
            columns: Vec::new(),
            points: Vec::new(),
            affine: Vec::new(),
        }
    }
}

/// A column of a batch: the reference its differences are added to, and the slot where the tree leaves their
/// sum.
struct Wanted {
    known: Option<Entry>,
    negative: bool,
    slot: usize,
}

/// A folded group of a batch.
struct Fold {
    /// The total of its committee, unless it is the identity.
    total: Option<Entry>,
    /// Slot where the tree leaves the sum of all keys, with those of the first column negative.
    slot: usize,
    /// Its columns among the wanted ones.
    wanted: Range<usize>,
}

/// (r + 1) / 2, little-endian: multiplying a point of order r by it halves the point.
const HALF: [u8; 32] = {
    let words = [
        0x7fff_ffff_8000_0001_u64,
        0xa9de_d201_7fff_2dff,
        0x199c_ec04_04d0_ec02,
        0x39f6_d3a9_94ce_bea4,
    ];
    let mut bytes = [0; 32];
    let mut i = 0;
    while i < 32 {
        bytes[i] = (words[i / 8] >> (8 * (i % 8))) as u8;
        i += 1;
    }
    bytes
};

/// A job with its plan and its position in the output.
struct Planned<'a> {
    job: &'a CommitteeJob<'a>,
    columns: JobColumns<'a>,
    plan: JobPlan,
    first_key: usize,
    first_plane: usize,
}

/// All jobs of one call over one table.
pub(crate) struct Run<'a, K: SumKernel> {
    pub(crate) kernel: K,
    pub(crate) table: &'a KeyTable,
    /// The table's keys, then its totals, in stored form.
    pub(crate) points: &'a [K::Point],
    pub(crate) options: &'a SumOptions,
}

impl<K: SumKernel<Field = Fp>> Run<'_, K> {
    /// The sums in order of jobs and collections.
    pub(crate) fn run(
        &self,
        jobs: &[CommitteeJob<'_>],
        spaces: &mut Vec<Space<K>>,
        exec: Exec<'_>,
    ) -> Sums {
        let start = Instant::now();
        let mut planned = exec.map(jobs.len(), |i| self.plan(&jobs[i]));
        let (mut keys, mut planes) = (0, 0);
        for job in &mut planned {
            (job.first_key, job.first_plane) = (keys, planes);
            keys += job.job.collections.len();
            planes += job.columns.columns.len();
        }
        // Largest first, so that the last batches, which decide when all threads finish, are small.
        planned.sort_by_key(|job| core::cmp::Reverse(job.plan.items));
        let batches = batches(&planned, exec.threads());
        let mut report = SumReport {
            plan_ns: elapsed_ns(start),
            ..SumReport::default()
        };
        for job in &planned {
            report
                .methods
                .add(job.plan.method, job.columns.columns.len() as u64);
        }
        let threads = exec.threads().min(batches.len());
        // Spaces of earlier calls are kept, even if this one has fewer threads.
        spaces.resize_with(threads.max(spaces.len()), Space::default);
        let shared = Mutex::new(Sums {
            keys: vec![G1Affine::INFINITY; keys],
            planes: vec![G1Affine::INFINITY; planes],
            report,
        });
        exec.share(batches.len(), spaces, |i, space| {
            if exec.stopped() {
                return;
            }
            let batch = batches[i];
            let report = self.batch(batch, space);
            let mut shared = shared
                .lock()
                .expect("no thread panics while it holds the lock");
            let (mut planes, mut keys) = space.affine.split_at(planes_of(batch));
            for job in batch {
                let (of_job, others) = planes.split_at(job.columns.columns.len());
                shared.planes[job.first_plane..][..of_job.len()].copy_from_slice(of_job);
                planes = others;
                let (of_job, others) = keys.split_at(job.job.collections.len());
                shared.keys[job.first_key..][..of_job.len()].copy_from_slice(of_job);
                keys = others;
            }
            shared.report.join(&report);
        });
        shared.into_inner().expect("no thread panicked")
    }

    /// A job with its plan; its position follows from the preceding jobs.
    fn plan<'j>(&self, job: &'j CommitteeJob<'j>) -> Planned<'j> {
        let fits = |base: &&Base| base.fits(self.table, job.committee);
        let bases = job.bases.iter().filter(fits).collect();
        let columns = JobColumns::new(job, self.table.range(job.committee).len(), bases);
        let plan = columns.plan(self.options);
        Planned {
            job,
            columns,
            plan,
            first_key: 0,
            first_plane: 0,
        }
    }

    /// Sums the jobs of one batch into `space.affine`, in their order: planes first, then collections.
    fn batch(&self, batch: &[Planned<'_>], space: &mut Space<K>) -> SumReport {
        let start = Instant::now();
        space.tree.clear();
        space.wanted.clear();
        space.folds.clear();
        for planned in batch {
            self.push(planned, space);
        }
        let buckets_ns = elapsed_ns(start);
        space.tree.run(self.kernel, self.points);
        // Folded groups first: their first columns become the references of the others.
        self.join_folds(space);
        self.join_references(space);
        self.join_planes(batch, space);
        self.decode(space);
        let mut report = SumReport {
            buckets_ns,
            ..SumReport::default()
        };
        report.additions = space.tree.additions + self.naive_jobs(batch, space);
        report.sums_ns = elapsed_ns(start) - buckets_ns;
        report
    }

    /// Adds a point to the tree's sums.
    fn push_point(&self, point: G1Affine, tree: &mut Tree<K>) -> Entry {
        let mut stored = Vec::with_capacity(1);
        self.kernel.encode(&[point], &mut stored);
        stored.into_iter().for_each(|point| tree.sums.push(point));
        Entry::new(self.points.len() + tree.sums.len() - 1, false)
    }

    /// Decodes the points named by `space.columns` into `space.affine`.
    fn decode(&self, space: &mut Space<K>) {
        space.points.clear();
        for entry in &space.columns {
            // A missing sum is the identity; any point serves as a placeholder until it is overwritten.
            let index = entry.map_or(0, Entry::index);
            space
                .points
                .push(match index.checked_sub(self.points.len()) {
                    None => self.points[index],
                    Some(sum) => space.tree.sums.made()[sum],
                });
        }
        space.affine.clear();
        self.kernel.decode(&space.points, &mut space.affine);
        for (sum, entry) in space.affine.iter_mut().zip(&space.columns) {
            match entry {
                None => *sum = G1Affine::INFINITY,
                Some(entry) if entry.is_negative() => *sum = sum.neg(),
                Some(_) => {}
            }
        }
    }

    /// Passes the groups of a job to the tree and records what its columns are compared with.
    fn push(&self, planned: &Planned<'_>, space: &mut Space<K>) {
        let Space {
            tree,
            flips,
            wanted,
            folds,
            ..
        } = space;
        let Planned {
            job, columns, plan, ..
        } = planned;
        let first = self.table.range(job.committee).start;
        let mut bases: Vec<Option<Entry>> = columns
            .bases
            .iter()
            .map(|base| {
                let entry = self.push_point(*base.sum(), tree);
                // No entry may refer to the identity.
                (!base.sum().is_infinity()).then_some(entry)
            })
            .collect();
        let total = (!self.table.total(job.committee).is_infinity())
            .then(|| Entry::new(self.table.keys().len() + job.committee, false));
        if plan.method == Method::Naive {
            // These columns are summed by `naive_jobs`; their slots keep the order.
            let slot = tree.push_empty(columns.columns.len());
            let slots = slot..slot + columns.columns.len();
            wanted.extend(slots.map(|slot| Wanted {
                known: None,
                negative: false,
                slot,
            }));
            return;
        }
        for range in &plan.groups {
            let group = columns.group(range.clone(), &plan.references, flips);
            if tree.items_len() > ITEMS_MAX {
                tree.run(self.kernel, self.points);
                let known = wanted.iter_mut().filter_map(|wanted| wanted.known.as_mut());
                let named = known.chain(bases.iter_mut().flatten());
                tree.forget_others(self.points.len(), named);
            }
            let folded = group.folded;
            let slot = tree.push_group(range.len(), |items| group.extract(first, items));
            if folded {
                let wanted = wanted.len()..wanted.len() + range.len();
                folds.push(Fold {
                    total,
                    slot,
                    wanted,
                });
            }
            for (i, reference) in plan.references[range.clone()].iter().enumerate() {
                let (known, negative) = match reference {
                    Reference::Zero => (None, false),
                    Reference::Full => (total, true),
                    Reference::Base(base) => (bases[*base], false),
                    // Known once the tree has run.
                    Reference::First => (None, false),
                };
                wanted.push(Wanted {
                    known,
                    negative,
                    slot: slot + i,
                });
            }
        }
    }

    /// Computes the sums of the first columns of folded groups: S = (T - U) / 2, where T is the committee's
    /// total and U = T - 2S is what the tree left in the slot of the first column.
    ///
    /// The keys have order r, which is odd, so (r + 1) / 2 times a point is its half.
    fn join_folds(&self, space: &mut Space<K>) {
        if space.folds.is_empty() {
            return;
        }
        let Space {
            tree,
            folds,
            columns,
            ..
        } = space;
        columns.clear();
        let base = self.points.len() + tree.sums.len();
        // Taken out, because the tree is borrowed while its list is filled.
        let slots = core::mem::take(&mut tree.slots);
        tree.sum_extra(self.kernel, self.points, |list| {
            for fold in folds.iter() {
                let rest = slots[fold.slot].map(Entry::negated);
                columns.push(match (fold.total, rest) {
                    (Some(total), Some(rest)) => {
                        list.entries.extend([total, rest]);
                        list.close();
                        Some(Entry::new(base + list.len() - 1, false))
                    }
                    // A point that is missing is the identity.
                    (total, rest) => total.or(rest),
                });
            }
        });
        tree.slots = slots;
        self.drop_infinities(columns, tree);
        self.decode(space);
        for (fold, twice) in space.folds.iter().zip(&space.affine) {
            // The slot held U. The first column differs from itself nowhere, so its difference is the identity.
            space.tree.slots[fold.slot] = None;
            if twice.is_infinity() {
                continue;
            }
            let half = CurveField::multiply(twice, &HALF);
            let known = self.push_point(half, &mut space.tree);
            for wanted in &mut space.wanted[fold.wanted.clone()] {
                wanted.known = Some(known);
            }
        }
    }

    /// Turns the sums of differences into the sums of columns.
    fn join_references(&self, space: &mut Space<K>) {
        let Space {
            tree,
            wanted,
            columns,
            ..
        } = space;
        columns.clear();
        let base = self.points.len() + tree.sums.len();
        let slots = core::mem::take(&mut tree.slots);
        tree.sum_extra(self.kernel, self.points, |list| {
            for Wanted {
                known,
                negative,
                slot,
            } in wanted.iter()
            {
                let difference = slots[*slot].map(|e| if *negative { e.negated() } else { e });
                columns.push(match (known, difference) {
                    (Some(known), Some(difference)) => {
                        list.entries.extend([*known, difference]);
                        list.close();
                        Some(Entry::new(base + list.len() - 1, false))
                    }
                    (known, difference) => known.or(difference),
                });
            }
        });
        tree.slots = slots;
        self.drop_infinities(columns, tree);
    }

    /// Turns the sums of planes into those of collections, which are appended after them, by Horner's rule, all
    /// collections at once.
    fn join_planes(&self, batch: &[Planned<'_>], space: &mut Space<K>) {
        let Space { tree, columns, .. } = space;
        let planes = || {
            batch
                .iter()
                .flat_map(|p| p.job.collections)
                .map(|c| c.planes.len())
        };
        let (mut sums, mut end) = (Vec::new(), 0);
        // The highest plane of each collection comes first.
        for planes in planes() {
            end += planes;
            sums.push(columns[end - 1]);
        }
        for round in 1..planes().max().unwrap_or(1) {
            let base = self.points.len() + tree.sums.len();
            tree.sum_extra(self.kernel, self.points, |list| {
                let mut end = 0;
                for (sum, planes) in sums.iter_mut().zip(planes()) {
                    end += planes;
                    if round >= planes {
                        continue;
                    }
                    let before = list.entries.len();
                    // Doubling is an addition of equal points, which every kernel handles.
                    list.entries.extend(sum.iter().chain(sum.iter()));
                    list.entries.extend(&columns[end - 1 - round]);
                    *sum = None;
                    if list.entries.len() > before {
                        list.close();
                        *sum = Some(Entry::new(base + list.len() - 1, false));
                    }
                }
            });
            self.drop_infinities(&mut sums, tree);
        }
        columns.extend(sums);
    }

    fn drop_infinities(&self, entries: &mut [Option<Entry>], tree: &Tree<K>) {
        for entry in entries {
            *entry = entry.filter(|entry| match entry.index().checked_sub(self.points.len()) {
                None => true,
                Some(sum) => !K::is_infinity(&tree.sums.made()[sum]),
            });
        }
    }

    /// Overwrites the sums of jobs that are summed naively; returns the number of additions.
    fn naive_jobs(&self, batch: &[Planned<'_>], space: &mut Space<K>) -> u64 {
        let (planes, keys) = space.affine.split_at_mut(planes_of(batch));
        let (mut planes, mut keys) = (planes.iter_mut(), keys.iter_mut());
        let mut additions = 0;
        for planned in batch {
            for collection in planned.job.collections {
                let parts: Vec<&mut G1Affine> =
                    planes.by_ref().take(collection.planes.len()).collect();
                let key = keys.next().expect("a sum of each collection");
                if planned.plan.method != Method::Naive {
                    continue;
                }
                let members = self.table.committee(planned.job.committee);
                *key = G1Affine::INFINITY;
                for (plane, part) in collection.planes.iter().zip(parts).rev() {
                    *part = plane_naive(members, plane);
                    *key = CurveField::sum_naive(&[*key, *key, *part]);
                    additions += plane.iter().map(|w| u64::from(w.count_ones())).sum::<u64>();
                }
            }
        }
        additions
    }
}

/// Number of planes of all collections of a batch.
fn planes_of(batch: &[Planned<'_>]) -> usize {
    batch.iter().map(|job| job.columns.columns.len()).sum()
}

/// Cuts the jobs, largest first, into batches with about equal numbers of items: as few as possible with at
/// most some [`BATCH_ITEMS`] each, and the same number for each thread.
fn batches<'p, 'a>(planned: &'p [Planned<'a>], threads: usize) -> Vec<&'p [Planned<'a>]> {
    let total: usize = planned.iter().map(|job| job.plan.items).sum();
    let count = total.div_ceil(BATCH_ITEMS).max(1);
    let count = count.next_multiple_of(threads.max(1));
    let (mut batches, mut rest, mut done) = (Vec::new(), planned, 0);
    for i in 1..=count {
        let end = total * i / count;
        // A job that straddles a boundary goes to the side of its larger part.
        let fit = rest.iter().take_while(|job| {
            let fits = i == count || done + job.plan.items / 2 < end;
            done += if fits { job.plan.items } else { 0 };
            fits
        });
        let (batch, others) = rest.split_at(fit.count());
        if !batch.is_empty() {
            batches.push(batch);
        }
        rest = others;
    }
    batches
}

fn elapsed_ns(start: Instant) -> u64 {
    start.elapsed().as_nanos() as u64
}
