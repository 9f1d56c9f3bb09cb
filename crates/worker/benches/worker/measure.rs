//! What is measured.

use super::Result;
use super::task::{Action, BenchTask, Span, clock_ns, request};
use alphorn_scheme::{Class, Outcome, Schedulable};
use alphorn_types::Time;
use alphorn_worker::plan::{Output, Ran};
use alphorn_worker::{
    Bisect, ChildCommand, Config, CostKey, CostModel, Finished, Plan, Start, Worker, WorkerConfig,
    steady_time,
};
use std::hint::black_box;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// A prior that the scheduler gives to a prove lane, in nanoseconds.
const LONG_NS: u64 = 1_000_000_000;

/// Waits for a result at most this long.
const PATIENCE: Duration = Duration::from_secs(30);

/// A worker and its wake-ups.
pub(super) struct Bench {
    worker: Worker<BenchTask>,
    woken: Receiver<()>,
}

impl Bench {
    pub(super) fn start(prove_threads: u16, child: Option<ChildCommand>) -> Result<Self> {
        let (wake, woken) = channel();
        let config = WorkerConfig {
            plan: Config {
                prove_threads,
                ..Config::default()
            },
            child,
            crash_retries_max: 0,
            hang_after_ms: 300,
            beat_ms: 20,
            // What a job takes is not to be learned: each is on the lane that it is meant for.
            costs: CostModel::new(),
            ..WorkerConfig::default()
        };
        let wake = move || {
            // The bench has ended if nobody listens.
            let _ = wake.send(());
        };
        let worker = Worker::start((), config, steady_time(), wake)
            .map_err(|error| format!("no threads: {error}"))?;
        Ok(Self { worker, woken })
    }

    fn submit(&self, class: Class, task: BenchTask) -> Result<()> {
        let taken = self.worker.submit(request(class, task));
        taken.map(|_| ()).map_err(|error| error.to_string())
    }

    fn receive(&self) -> Result<Finished<Span>> {
        loop {
            if let Some(finished) = self.worker.try_recv() {
                return Ok(finished);
            }
            let woken = self.woken.recv_timeout(PATIENCE);
            woken.map_err(|_| "a job did not end".to_owned())?;
        }
    }

    fn span(&self) -> Result<Span> {
        match self.receive()?.outcome {
            Outcome::Done(span) => Ok(span),
            other => Err(format!("a job that does nothing: {other:?}")),
        }
    }
}

/// A middle and a least value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Spread {
    pub(super) p50: f64,
    pub(super) min: f64,
    pub(super) max: f64,
}

fn spread(values: &mut [f64]) -> Spread {
    values.sort_by(f64::total_cmp);
    let at = |place: usize| values.get(place).copied().unwrap_or(0.0);
    Spread {
        p50: at(values.len() / 2),
        min: at(0),
        max: at(values.len().saturating_sub(1)),
    }
}

/// Microseconds of a job that does nothing: the call of `submit`, from there to its first
/// instruction, from its last to the result in the caller's hands.
pub(super) fn overhead_us(jobs: u32) -> Result<[Spread; 3]> {
    let bench = Bench::start(1, None)?;
    let mut parts = [Vec::new(), Vec::new(), Vec::new()];
    for _ in 0..jobs {
        let task = BenchTask {
            action: Action::Spin(0),
            isolate: false,
            prior_ns: 1000,
        };
        let before_ns = clock_ns();
        bench.submit(Class::Verdict, task)?;
        let submitted_ns = clock_ns();
        let span = bench.span()?;
        let received_ns = clock_ns();
        let us = |from: u64, to: u64| to.saturating_sub(from) as f64 / 1e3;
        parts[0].push(us(before_ns, submitted_ns));
        parts[1].push(us(submitted_ns, span.begin_ns));
        parts[2].push(us(span.end_ns, received_ns));
    }
    Ok(parts.map(|mut part| spread(&mut part)))
}

/// The share of the time that the prove lane runs jobs while there are any, from the end of one to
/// the end of another. They are long enough to stay on that lane once their cost is learned.
pub(super) fn busy_ratio(for_ms: u64) -> Result<f64> {
    let bench = Bench::start(1, None)?;
    let task = BenchTask {
        action: Action::Spin(80_000),
        isolate: false,
        prior_ns: 80_000_000,
    };
    for _ in 0..4 {
        bench.submit(Class::Maintenance, task.clone())?;
    }
    bench.span()?;
    let (begin, busy_ns) = (Instant::now(), || {
        bench.worker.status().counts.prove_busy_ns
    });
    let before_ns = busy_ns();
    while begin.elapsed() < Duration::from_millis(for_ms) {
        bench.submit(Class::Maintenance, task.clone())?;
        bench.span()?;
    }
    let busy = busy_ns().saturating_sub(before_ns) as f64;
    Ok(busy / begin.elapsed().as_nanos() as f64)
}

/// Of so many jobs that run longer than they were wanted, those whose result did not come.
pub(super) fn late_lost(jobs: u32) -> Result<u32> {
    let bench = Bench::start(1, None)?;
    let mut lost = 0;
    for _ in 0..jobs {
        let task = BenchTask {
            action: Action::Spin(60_000),
            isolate: false,
            prior_ns: 60_000_000,
        };
        let mut late = request(Class::Backfill, task);
        late.soft = Time::from_nanos(1);
        let taken = bench.worker.submit(late);
        taken.map_err(|error| error.to_string())?;
        let finished = bench.receive()?;
        lost += u32::from(!finished.late || !matches!(finished.outcome, Outcome::Done(_)));
    }
    Ok(lost)
}

/// Milliseconds from the end of a job that met with an accident to the end of the next, which does
/// nothing, on the same lane; a hang is noticed 300 ms after it began, which is not counted.
pub(super) fn restart_ms(
    action: Action,
    child: Option<&ChildCommand>,
    runs: u32,
) -> Result<Spread> {
    let bench = Bench::start(1, child.cloned())?;
    let (isolate, mut times) = (child.is_some(), Vec::new());
    let task = |action| BenchTask {
        action,
        isolate,
        prior_ns: LONG_NS,
    };
    bench.submit(Class::Maintenance, task(Action::Spin(0)))?;
    bench.span()?;
    for run in 0..runs {
        // Groups that crash thrice are refused.
        let mut accident = request(Class::Maintenance, task(action));
        accident.group.committee = u16::try_from(run).ok();
        // A task that crashed is not run again: each is another one.
        accident.work.prior_ns += u64::from(run) + 1;
        let taken = bench.worker.submit(accident);
        taken.map_err(|error| error.to_string())?;
        let ended = bench.receive()?.outcome;
        if !matches!(ended, Outcome::Crashed | Outcome::Invalid(_)) {
            return Err(format!("an accident ended as {ended:?}"));
        }
        let begin = Instant::now();
        bench.submit(Class::Maintenance, task(Action::Spin(0)))?;
        bench.span()?;
        times.push(begin.elapsed().as_secs_f64() * 1e3);
        // Long enough for a child that stands by.
        std::thread::sleep(Duration::from_millis(150));
    }
    Ok(spread(&mut times))
}

/// Percentiles 50, 99 and 99.9 and the maximum, in milliseconds, of how late a timer of 2 ms wakes
/// this thread; with `load` while the prove lane computes without a pause.
pub(super) fn lag_ms(for_ms: u64, load: bool, prove_threads: u16) -> Result<[f64; 4]> {
    let bench = Bench::start(prove_threads, None)?;
    let end = Instant::now() + Duration::from_millis(for_ms);
    if load {
        let us = u32::try_from(for_ms.saturating_mul(1000)).unwrap_or(u32::MAX);
        let task = BenchTask {
            action: Action::Spin(us),
            isolate: false,
            prior_ns: LONG_NS,
        };
        bench.submit(Class::Maintenance, task)?;
    }
    let (step, mut lags) = (Duration::from_millis(2), Vec::new());
    while Instant::now() < end {
        let due = Instant::now() + step;
        std::thread::sleep(step);
        lags.push(due.elapsed().as_secs_f64() * 1e3);
    }
    lags.sort_by(f64::total_cmp);
    let at = |permille: usize| {
        let place = lags.len().saturating_sub(1) * permille / 1000;
        lags.get(place).copied().unwrap_or(0.0)
    };
    Ok([at(500), at(990), at(999), at(1000)])
}

/// Work as the plan sees it.
struct Load;

impl Schedulable for Load {
    fn features(&self) -> alphorn_scheme::Features {
        alphorn_scheme::Features {
            kind: 0,
            class: 0,
            inputs: 1,
            prior_ns: 1_000_000,
            memory_bytes: 1,
        }
    }
}

/// Nanoseconds of one operation of the plan while 1,023 jobs wait: submit, start and end, each
/// counted as one.
pub(super) fn plan_op_ns(rounds: u32) -> f64 {
    let mut plan = Plan::new(Config::default(), CostModel::new());
    let job = || {
        let task = BenchTask {
            action: Action::Spin(0),
            isolate: false,
            prior_ns: 0,
        };
        request(Class::Verdict, task).with(Load)
    };
    let mut now = Time::from_millis(1);
    for _ in 0..1023 {
        let _ = plan.submit(now, job());
    }
    let begin = Instant::now();
    for _ in 0..rounds {
        now = now.saturating_add_ns(1000);
        let _ = black_box(plan.submit(now, job()));
        let started: Option<Start<Load>> = plan.next(now, 0);
        if started.is_some() {
            plan.ended(now, 0, Ran::Through { ran_ns: 1_000_000 });
        }
        while let Some(Output::Finished(finished)) = plan.poll_output() {
            black_box(finished);
        }
    }
    begin.elapsed().as_nanos() as f64 / f64::from(rounds) / 3.0
}

/// Mean and greatest number of checks for `bad` of `inputs` bad inputs in 50 drawn orders, and the
/// milliseconds of one search without its checks.
pub(super) fn bisect(inputs: u32, bad: u32, seed: u64) -> (f64, u32, f64) {
    let (mut sum, mut most, begin) = (0_u64, 0, Instant::now());
    for order in 0..50 {
        let mut search = Bisect::new(inputs, seed.wrapping_add(order));
        while let Some(range) = search.next() {
            let good = search.order()[range].iter().all(|input| *input >= bad);
            search.answer(good);
        }
        sum += u64::from(search.checks());
        most = most.max(search.checks());
    }
    let ms = begin.elapsed().as_secs_f64() * 1e3 / 50.0;
    (sum as f64 / 50.0, most, ms)
}

/// The share of 500 jobs with 8 % jitter and 1 % outliers that ended within their 90 % prediction,
/// and the jobs until the prediction is within 10 % after the machine became three times slower.
pub(super) fn cost(seed: u64) -> (f64, u32) {
    const PRIOR_NS: u64 = 1_000_000_000;
    let key = CostKey {
        kind: 0,
        class: 0,
        threads: 1,
        lanes_busy: 1,
    };
    let (mut model, mut state) = (CostModel::new(), seed);
    let mut took = |factor: f64| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let unit = (state >> 11) as f64 / (1_u64 << 53) as f64;
        let outlier = if state >> 33 & 127 == 0 { 5.0 } else { 1.0 };
        (PRIOR_NS as f64 * factor * outlier * (0.92 + 0.16 * unit)) as u64
    };
    let mut within = 0;
    for _ in 0..500 {
        let actual_ns = took(1.0);
        within += u32::from(actual_ns <= model.predict(&key, PRIOR_NS, 0).t90_ns);
        model.learn(key, PRIOR_NS, actual_ns, 0);
    }
    let mut jobs = 0;
    while model.predict(&key, PRIOR_NS, 0).t50_ns < PRIOR_NS / 10 * 27 && jobs < 100 {
        model.learn(key, PRIOR_NS, took(3.0), 0);
        jobs += 1;
    }
    (f64::from(within) / 500.0, jobs)
}
