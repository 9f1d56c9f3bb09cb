//! What a free lane starts.

use super::{LaneKind, Plan, Running, Start, Waiting};
use crate::cost::{CostKey, Prediction};
use alphorn_scheme::{Class, Features, JobId, Schedulable};
use alphorn_types::Time;

/// Jobs of a class that are looked at for a lane.
const LOOK_MAX: usize = 16;

/// Work that can start now.
struct Candidate<T> {
    job: JobId,
    /// A prefix of the submitted work; none = all of it.
    prefix: Option<T>,
    features: Features,
    key: CostKey,
    prediction: Prediction,
    /// Short enough for a fast lane, whatever lane this is.
    short: bool,
    probe: bool,
}

impl<T: Schedulable> Plan<T> {
    /// What a free lane starts now; the lane runs it from here on. None if nothing waits that fits.
    ///
    /// # Panics
    ///
    /// If the lane runs a job.
    pub fn next(&mut self, now: Time, lane: usize) -> Option<Start<T>> {
        assert!(self.lanes[lane].is_none(), "lane {lane} runs a job");
        self.expire(now);
        if self.queue.len() == 0 {
            return None;
        }
        let mut probe = None;
        let candidate = Class::ALL
            .into_iter()
            .find_map(|class| self.best(now, lane, class, &mut probe))
            .or(probe)?;
        Some(self.start(now, lane, candidate))
    }

    /// The best job of a class that may start; a late one of the current phase goes to `probe`.
    fn best(
        &self,
        now: Time,
        lane: usize,
        class: Class,
        probe: &mut Option<Candidate<T>>,
    ) -> Option<Candidate<T>> {
        let looked = self.queue.of_class(class).take(LOOK_MAX);
        let mut found: Vec<(Time, f64, Candidate<T>)> = Vec::new();
        for job in looked {
            let waiting = self.queue.get(job);
            // Jobs come by `soft`: a later one cannot be better.
            if found
                .first()
                .is_some_and(|(soft, ..)| waiting.request.soft > *soft)
            {
                break;
            }
            let Some(candidate) = self.candidate(now, lane, job, waiting, class) else {
                continue;
            };
            if candidate.probe {
                probe.get_or_insert(candidate);
                continue;
            }
            let density = match class {
                Class::Current => self.density(now, waiting, &candidate),
                _ => 0.0,
            };
            found.push((waiting.request.soft, density, candidate));
        }
        // The first of the densest: ties go to the older job.
        let best = found
            .into_iter()
            .reduce(|best, next| if next.1 > best.1 { next } else { best });
        best.map(|(_, _, candidate)| candidate)
    }

    /// The job as it could start on the lane now, if it may.
    fn candidate(
        &self,
        now: Time,
        lane: usize,
        job: JobId,
        waiting: &Waiting<T>,
        class: Class,
    ) -> Option<Candidate<T>> {
        let request = &waiting.request;
        let until_ns = |time: Time| time.since_ns(now);
        let memory_bytes = self.memory_free();
        let whole = |features: &Features| features.memory_bytes <= memory_bytes;
        match class {
            Class::Duty | Class::Verdict => {
                let fast_lanes = usize::from(self.config.fast_lanes);
                let long_max = match class {
                    // What a node owes does not wait for a proof, even on the only fast lane.
                    Class::Duty => fast_lanes,
                    _ => fast_lanes / 2,
                };
                let candidate = self.predicted(lane, job, waiting, waiting.features, None);
                let fits = whole(&waiting.features) && self.lane_takes(lane, &candidate, long_max);
                fits.then_some(candidate)
            }
            Class::Current => {
                let margin_ns = self.config.publish_margin_ns;
                let limit_ns = until_ns(request.soft).saturating_sub(margin_ns);
                let fits = |candidate: &Candidate<T>| {
                    candidate.prediction.t90_ns <= limit_ns && whole(&candidate.features)
                };
                let candidate = self.predicted(lane, job, waiting, waiting.features, None);
                let in_time = match fits(&candidate) {
                    true => Some(candidate),
                    false => self.longest_prefix(lane, job, waiting, fits),
                };
                if let Some(candidate) = in_time {
                    return Some(candidate).filter(|it| self.lane_takes(lane, it, 0));
                }
                let candidate = self.predicted(lane, job, waiting, waiting.features, None);
                let may_be_late = until_ns(request.hard) >= candidate.prediction.t50_ns
                    && candidate.prediction.t90_ns <= until_ns(self.next_open(now))
                    && whole(&candidate.features)
                    && self.lane_takes(lane, &candidate, 0);
                may_be_late.then_some(Candidate {
                    probe: true,
                    ..candidate
                })
            }
            Class::Backfill | Class::Maintenance => {
                let limit_ns = until_ns(request.hard.min(self.next_open(now)));
                let fits = |candidate: &Candidate<T>| {
                    candidate.prediction.t90_ns <= limit_ns && whole(&candidate.features)
                };
                let candidate = self.predicted(lane, job, waiting, waiting.features, None);
                // Only memory is a reason to cut what has time.
                let too_large = waiting.features.memory_bytes > self.config.memory_budget_bytes;
                let fitting = match too_large {
                    true => self.longest_prefix(lane, job, waiting, fits),
                    false => Some(candidate).filter(fits),
                };
                fitting.filter(|it| self.lane_takes(lane, it, 0))
            }
        }
    }

    /// The longest prefix that fits, or the one that ends where its size class begins if that has
    /// more inputs in the time: filling a little past a padding step can double the cost.
    fn longest_prefix(
        &self,
        lane: usize,
        job: JobId,
        waiting: &Waiting<T>,
        fits: impl Fn(&Candidate<T>) -> bool,
    ) -> Option<Candidate<T>> {
        let cut = |inputs: u32| {
            let work = waiting.request.work.prefix(inputs)?;
            let features = work.features();
            Some(self.predicted(lane, job, waiting, features, Some(work)))
        };
        let inputs = last_that(waiting.features.inputs, |inputs| {
            cut(inputs).is_some_and(|c| fits(&c))
        })?;
        let longest = cut(inputs)?;
        let class = longest.features.class;
        let below = last_that(inputs, |inputs| {
            cut(inputs).is_some_and(|cut| cut.features.class < class)
        });
        let below = below.and_then(cut).filter(|below| fits(below));
        let per_time = |cut: &Candidate<T>| {
            f64::from(cut.features.inputs) / cut.prediction.t50_ns.max(1) as f64
        };
        match below {
            Some(below) if per_time(&below) > per_time(&longest) => Some(below),
            _ => Some(longest),
        }
    }

    fn predicted(
        &self,
        lane: usize,
        job: JobId,
        waiting: &Waiting<T>,
        features: Features,
        prefix: Option<T>,
    ) -> Candidate<T> {
        let threads = match self.lane_kind(lane) {
            LaneKind::Fast => 1,
            LaneKind::Prove => self.config.prove_threads,
        };
        let busy = self.lanes.iter().flatten().count() + 1;
        let busy = u16::try_from(busy).unwrap_or(u16::MAX);
        let slot = waiting.request.session.slot.0;
        let key = CostKey::new(&features, threads, busy);
        let prior_ns = features.prior_ns / u64::from(threads.max(1));
        let alone = CostKey::new(&features, 1, busy);
        let alone = self.costs.predict(&alone, features.prior_ns, slot);
        Candidate {
            job,
            prefix,
            features,
            key,
            prediction: self.costs.predict(&key, prior_ns, slot),
            short: alone.t90_ns <= self.config.fast_max_ns && !waiting.request.work.isolated(),
            probe: false,
        }
    }

    /// Votes in the time that the job takes, times the chance that it ends in time.
    fn density(&self, now: Time, waiting: &Waiting<T>, candidate: &Candidate<T>) -> f64 {
        let request = &waiting.request;
        let limit_ns = request.soft.since_ns(now);
        let limit_ns = limit_ns.saturating_sub(self.config.publish_margin_ns);
        let prior_ns = candidate.features.prior_ns / u64::from(candidate.key.threads.max(1));
        let slot = request.session.slot.0;
        let chance = self.costs.within(&candidate.key, prior_ns, limit_ns, slot);
        f64::from(request.votes) * chance / candidate.prediction.t50_ns.max(1) as f64
    }

    /// Whether a job is for this lane. A long one takes a fast lane if all prove lanes are busy and
    /// fewer than `long_max` fast lanes run long jobs: for duties all of them, for other urgent jobs
    /// half.
    fn lane_takes(&self, lane: usize, candidate: &Candidate<T>, long_max: usize) -> bool {
        let fast_lanes = usize::from(self.config.fast_lanes);
        let short = candidate.short;
        match self.lane_kind(lane) {
            LaneKind::Prove => !short || fast_lanes == 0,
            LaneKind::Fast if short || self.config.prove_lanes == 0 => true,
            LaneKind::Fast => {
                let (fast, prove) = self.lanes.split_at(fast_lanes);
                let long = |running: &&Running| running.t50_ns > self.config.fast_max_ns;
                let long_on_fast = fast.iter().flatten().filter(long).count();
                prove.iter().all(Option::is_some) && long_on_fast < long_max
            }
        }
    }

    fn memory_free(&self) -> u64 {
        let running = self.lanes.iter().flatten();
        let used = running.fold(0_u64, |sum, running| {
            sum.saturating_add(running.memory_bytes)
        });
        self.config.memory_budget_bytes.saturating_sub(used)
    }

    /// When the next session opens.
    fn next_open(&self, now: Time) -> Time {
        let opens = self.sessions.values().map(|session| session.open);
        opens.filter(|open| *open > now).min().unwrap_or(Time::MAX)
    }

    fn start(&mut self, now: Time, lane: usize, candidate: Candidate<T>) -> Start<T> {
        let Waiting {
            request,
            features,
            since,
        } = self.queue.remove(candidate.job);
        self.lanes[lane] = Some(Running {
            job: candidate.job,
            session: request.session,
            group: request.group,
            soft: request.soft,
            hard: request.hard,
            started: now,
            queued_ns: now.since_ns(since),
            leftover: features.inputs.saturating_sub(candidate.features.inputs),
            key: candidate.key,
            prior_ns: candidate.features.prior_ns / u64::from(candidate.key.threads.max(1)),
            memory_bytes: candidate.features.memory_bytes,
            t50_ns: candidate.prediction.t50_ns,
            stopping: false,
        });
        Start {
            job: candidate.job,
            work: candidate.prefix.unwrap_or(request.work),
            t50_ns: candidate.prediction.t50_ns,
            t90_ns: candidate.prediction.t90_ns,
            t99_ns: candidate.prediction.t99_ns,
            probe: candidate.probe,
        }
    }
}

/// The greatest number from 1 to below `end` that holds, if those that hold come first.
fn last_that(end: u32, holds: impl Fn(u32) -> bool) -> Option<u32> {
    let (mut low, mut high) = (0, end);
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        match holds(middle) {
            true => low = middle,
            false => high = middle,
        }
    }
    (low > 0).then_some(low)
}
