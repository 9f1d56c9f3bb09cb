//! Chooses the job that a free lane starts.

use super::{LaneKind, Plan, Running, Start, Waiting};
use crate::cost::{CostKey, Prediction};
use alphorn_scheme::{Class, Features, JobId, Schedulable};
use alphorn_types::Time;

/// Maximum number of jobs of a class compared for a lane, and of jobs of it cut for the lane. Jobs not suitable for the
/// lane cost one prediction each and do not count, so jobs behind them are not hidden.
const LOOK_MAX: usize = 16;

/// Inputs of the choice shared by all jobs that a lane considers.
#[derive(Clone, Copy)]
struct Look {
    now: Time,
    lane: usize,
    /// Free memory in bytes.
    memory_bytes: u64,
    /// When the next session opens.
    next_open: Time,
}

/// Work that can start now.
struct Candidate<T> {
    job: JobId,
    /// A prefix of the submitted work; none for all of it.
    prefix: Option<T>,
    features: Features,
    key: CostKey,
    prediction: Prediction,
    /// Short enough for a fast lane, whatever this lane is, and not isolated.
    short: bool,
    /// Only a prove lane may run it.
    isolated: bool,
    probe: bool,
}

impl<T: Schedulable> Plan<T> {
    /// Returns the job a free lane starts now, and marks the lane as running it. None if no waiting job fits.
    ///
    /// # Panics
    ///
    /// If the lane is running a job.
    pub fn next(&mut self, now: Time, lane: usize) -> Option<Start<T>> {
        assert!(self.lanes[lane].is_none(), "lane {lane} runs a job");
        self.expire(now);
        if self.queue.len() == 0 {
            return None;
        }
        let look = Look {
            now,
            lane,
            memory_bytes: self.memory_free(),
            next_open: self.next_open(now),
        };
        let kind = self.lane_kind(lane) as usize;
        let turn = self.turns[kind];
        let wrapped = self.queue.clients_from(0);
        let clients = self.queue.clients_from(turn);
        let mut clients = clients.chain(wrapped.take_while(|client| *client < turn));
        let (client, candidate) =
            clients.find_map(|client| Some((client, self.best_of(look, client)?)))?;
        drop(clients);
        self.turns[kind] = client.wrapping_add(1);
        Some(self.start(now, lane, candidate))
    }

    /// The best eligible job of a client.
    fn best_of(&self, look: Look, client: u32) -> Option<Candidate<T>> {
        let mut probe = None;
        Class::ALL
            .into_iter()
            .find_map(|class| self.best(look, client, class, &mut probe))
            .or(probe)
    }

    /// The best eligible job of a client and class. A late one of the current phase goes to `probe`.
    fn best(
        &self,
        look: Look,
        client: u32,
        class: Class,
        probe: &mut Option<Candidate<T>>,
    ) -> Option<Candidate<T>> {
        let mut found: Vec<(Time, f64, Candidate<T>)> = Vec::new();
        let mut cuts_left = LOOK_MAX;
        for job in self.queue.of_class(client, class) {
            let waiting = self.queue.get(job);
            // Jobs are ordered by `soft`: a later one cannot be better.
            let is_later = found
                .first()
                .is_some_and(|(soft, ..)| waiting.request.soft > *soft);
            if is_later || found.len() == LOOK_MAX {
                break;
            }
            let Some(candidate) = self.candidate(look, job, waiting, class, &mut cuts_left) else {
                continue;
            };
            if candidate.probe {
                probe.get_or_insert(candidate);
                continue;
            }
            let density = match class {
                Class::Current => self.density(look.now, waiting, &candidate),
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

    /// The job in the form in which it could start on the lane now, if it may. Cutting is expensive, and done while
    /// cuts are left.
    fn candidate(
        &self,
        look: Look,
        job: JobId,
        waiting: &Waiting<T>,
        class: Class,
        cuts_left: &mut usize,
    ) -> Option<Candidate<T>> {
        let Look { now, lane, .. } = look;
        let request = &waiting.request;
        let whole = self.predicted(lane, job, waiting, waiting.features, None);
        if whole.short && !self.lane_takes(lane, &whole, 0) {
            // A part of it is not suitable for a lane of long jobs either.
            return None;
        }
        let until_ns = |time: Time| time.since_ns(now);
        let limit_ns = match class {
            Class::Duty | Class::Verdict => u64::MAX,
            Class::Current => until_ns(request.soft).saturating_sub(self.config.publish_margin_ns),
            // So that the lane is free again when the jobs of the next session arrive.
            Class::Backfill | Class::Maintenance => until_ns(request.hard.min(look.next_open)),
        };
        let in_memory = |it: &Candidate<T>| it.features.memory_bytes <= look.memory_bytes;
        let fits = |it: &Candidate<T>| it.prediction.t90_ns <= limit_ns && in_memory(it);
        let fitting = match class {
            Class::Duty | Class::Verdict => {
                let fast_lanes = usize::from(self.config.fast_lanes);
                let long_max = match class {
                    // A duty does not wait for a proof, even on the only fast lane.
                    Class::Duty => fast_lanes,
                    _ => fast_lanes / 2,
                };
                return Some(whole).filter(|it| fits(it) && self.lane_takes(lane, it, long_max));
            }
            Class::Current if fits(&whole) => Some(whole),
            Class::Current => {
                *cuts_left = cuts_left.checked_sub(1)?;
                let cut = self.longest_prefix(lane, job, waiting, fits);
                // It has at least an even chance of ending while it still has a value, and does not delay the next
                // session.
                let may_be_late = until_ns(request.hard) >= whole.prediction.t50_ns
                    && whole.prediction.t90_ns <= until_ns(look.next_open)
                    && in_memory(&whole);
                let late = Candidate {
                    probe: true,
                    ..whole
                };
                cut.or(may_be_late.then_some(late))
            }
            // Work that has time is cut only because of memory.
            _ if waiting.features.memory_bytes > self.config.memory_budget_bytes => {
                *cuts_left = cuts_left.checked_sub(1)?;
                self.longest_prefix(lane, job, waiting, fits)
            }
            Class::Backfill | Class::Maintenance => Some(whole).filter(fits),
        };
        // Zero: of long jobs, only duties and verdicts may run on a fast lane that has prove lanes next to it.
        fitting.filter(|it| self.lane_takes(lane, it, 0))
    }

    /// Returns the longest prefix that fits, or the one that ends where its size class begins if that has more inputs
    /// for its time: going slightly past a padding step can double the cost.
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
        // As if the work divided evenly: the factor is learned for each number of threads and makes up for the rest.
        let prior_ns = features.prior_ns / u64::from(threads.max(1));
        let alone = CostKey::new(&features, 1, busy);
        let alone = self.costs.predict(&alone, features.prior_ns, slot);
        let isolated = waiting.request.work.isolated();
        Candidate {
            job,
            prefix,
            features,
            key,
            prediction: self.costs.predict(&key, prior_ns, slot),
            short: alone.t90_ns <= self.config.fast_max_ns && !isolated,
            isolated,
            probe: false,
        }
    }

    /// Votes per unit of run time, times the probability of finishing in time.
    fn density(&self, now: Time, waiting: &Waiting<T>, candidate: &Candidate<T>) -> f64 {
        let request = &waiting.request;
        let limit_ns = request.soft.since_ns(now);
        let limit_ns = limit_ns.saturating_sub(self.config.publish_margin_ns);
        let prior_ns = candidate.features.prior_ns / u64::from(candidate.key.threads.max(1));
        let slot = request.session.slot.0;
        let chance = self.costs.within(&candidate.key, prior_ns, limit_ns, slot);
        f64::from(request.votes) * chance / candidate.prediction.t50_ns.max(1) as f64
    }

    /// Whether a lane accepts a job. A long one takes a fast lane if all prove lanes are busy and fewer than `long_max`
    /// fast lanes run long jobs: all of them for duties, half for other urgent jobs. An isolated job waits for a prove
    /// lane, however urgent: on a fast lane it would run in the process that it must not crash.
    fn lane_takes(&self, lane: usize, candidate: &Candidate<T>, long_max: usize) -> bool {
        let fast_lanes = usize::from(self.config.fast_lanes);
        let short = candidate.short;
        match self.lane_kind(lane) {
            LaneKind::Prove => !short || fast_lanes == 0,
            LaneKind::Fast if short || self.config.prove_lanes == 0 => true,
            LaneKind::Fast if candidate.isolated => false,
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

/// The greatest number from 1 to below `end` for which `holds` is true, assuming those come first.
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
