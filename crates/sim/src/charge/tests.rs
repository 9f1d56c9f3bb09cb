use super::*;
use alphorn_scheme::{Class, Features, Schedulable};
use alphorn_types::{Slot, Time};

/// Work with a cost.
#[derive(Clone, Debug)]
struct Toil(u64);

impl Schedulable for Toil {
    fn features(&self) -> Features {
        Features {
            kind: 1,
            class: 0,
            inputs: 1,
            prior_ns: self.0,
            memory_bytes: 0,
        }
    }
}

impl Labour for Toil {
    type Product = ();

    fn name(&self) -> &'static str {
        "toil"
    }

    fn run(self) {}
}

const MS: u64 = 1_000_000;

/// One node with its processor.
struct Bench {
    compute: Compute<Toil>,
    net: crate::net::Net<()>,
    queue: Windows,
}

impl Bench {
    fn new(cores: u16, factor_pct: u64) -> Self {
        let scenario = crate::scenario::Latency::Constant {
            ms: 0,
            jitter_pct: 0,
        };
        let graph = crate::graph::Graph::from_edges(1, Vec::new()).unwrap();
        let net = crate::testing::equals(graph, &scenario).net;
        Bench {
            compute: Compute::new(
                vec![Processor { cores, factor_pct }],
                Numbered::new(0, vec![0]),
            ),
            net: crate::net::Net::new(&net, 0..1, 1),
            queue: Windows::new(1 << 40, 0..1),
        }
    }

    fn cpu_ns(&self) -> u64 {
        self.net.tally[0].cpu_ns
    }

    /// Submits jobs of these costs at times in milliseconds; returns when each one ended, in milliseconds.
    fn run(&mut self, jobs: &[(u64, u64)]) -> Vec<(u64, f64)> {
        let requests = jobs.iter().map(|(ms, cost_ns)| (*ms, request(*cost_ns)));
        self.run_requests(&requests.collect::<Vec<_>>())
    }

    /// The same for arbitrary jobs.
    fn run_requests(&mut self, jobs: &[(u64, Request<Toil>)]) -> Vec<(u64, f64)> {
        const SUBMIT: u8 = kind::OTHERS_STILL;
        for (i, (ms, _)) in jobs.iter().enumerate() {
            self.queue.push(ms * MS, 0, SUBMIT, i as u32);
        }
        let (mut done, mut ends) = (Vec::new(), Vec::new());
        while let Some(event) = self.queue.next() {
            let at = At {
                now: event.time_ns,
                node: 0,
                loads: &mut self.net.loads,
                hot: &mut self.net.hot[0],
                tally: &mut self.net.tally[0],
                queue: &mut self.queue,
            };
            if event.kind() == SUBMIT {
                let request = jobs[event.arg() as usize].1.clone();
                let job = JobId(event.arg().into());
                self.compute.spawn(at, job, request, &mut done);
            } else {
                self.compute
                    .happen(at, event.kind(), event.arg(), &mut done);
            }
            let ms = event.time_ns as f64 / MS as f64;
            ends.extend(done.drain(..).map(|done| {
                assert_eq!(done.end, End::Ran);
                (done.job.0, ms)
            }));
        }
        ends
    }
}

fn request(cost_ns: u64) -> Request<Toil> {
    let session = SessionId {
        slot: Slot(0),
        seq: 0,
    };
    crate::role::request(session, Class::Verdict, Toil(cost_ns))
}

#[test]
fn work_without_a_cost_is_done_at_once_and_little_work_in_line() {
    let mut bench = Bench::new(4, 100);
    let ends = bench.run(&[(1, 0), (1, 10_000), (1, 19_999)]);
    assert_eq!(ends, [(0, 1.0), (1, 1.01), (2, 1.029_999)]);
    assert_eq!(bench.cpu_ns(), 29_999);
}

#[test]
fn short_jobs_share_the_fast_lanes() {
    // Four cores have two fast lanes: the third job waits for the first.
    let mut bench = Bench::new(4, 100);
    let ends = bench.run(&[(0, 10 * MS), (0, 12 * MS), (0, 10 * MS)]);
    assert_eq!(ends, [(0, 10.0), (1, 12.0), (2, 20.0)]);
    assert_eq!(bench.cpu_ns(), 32 * MS);
}

#[test]
fn a_long_job_gets_the_cores_that_are_left() {
    // Two cores: one fast lane, one prove lane of two threads. 400 ms of one core take 200 alone; from 50 to
    // 80 ms a short job takes one of the cores, and the long one runs at half speed.
    let mut bench = Bench::new(2, 100);
    let ends = bench.run(&[(0, 400 * MS), (50, 30 * MS)]);
    assert_eq!(ends, [(1, 80.0), (0, 215.0)]);
    assert_eq!(bench.cpu_ns(), 430 * MS);
    // With one core it pauses.
    let mut bench = Bench::new(1, 100);
    let ends = bench.run(&[(0, 400 * MS), (50, 30 * MS)]);
    assert_eq!(ends, [(1, 80.0), (0, 430.0)]);
}

#[test]
fn late_work_does_not_start_into_the_next_phase() {
    let of_session = |seq, soft_ms: u64, hard_ms: u64, cost_ms: u64| Request {
        session: SessionId { slot: Slot(0), seq },
        soft: Time::from_millis(soft_ms),
        hard: Time::from_millis(hard_ms),
        ..request(cost_ms * MS)
    };
    let late = Request {
        class: Class::Backfill,
        ..request(400 * MS)
    };
    // Two cores: 200 ms on the prove lane, which is kept free until 100 ms for jobs of the first session.
    let mut bench = Bench::new(2, 100);
    let ends = bench.run_requests(&[(0, of_session(1, 100, 300, 1)), (0, late.clone())]);
    assert_eq!(ends, [(0, 1.0), (1, 300.0)]);
    // A later job of the session extends it.
    let mut bench = Bench::new(2, 100);
    let later = of_session(1, 150, 300, 1);
    let ends = bench.run_requests(&[(0, of_session(1, 100, 300, 1)), (0, late), (50, later)]);
    assert_eq!(ends, [(0, 1.0), (2, 51.0), (1, 350.0)]);
}

#[test]
fn the_factor_is_the_speed() {
    let jobs = [(0, 10 * MS), (0, 12 * MS)];
    for (factor, end) in [(50, 6.0), (100, 12.0), (1000, 120.0)] {
        let mut bench = Bench::new(4, factor);
        assert_eq!(bench.run(&jobs)[1].1, end);
    }
    let mut bench = Bench::new(4, 100);
    bench.compute.set_factor(0, 300);
    assert_eq!(bench.compute.factor_pct(0), 300);
    assert_eq!(bench.run(&jobs)[1].1, 36.0);
}

#[test]
fn the_cores_are_never_more_than_busy() {
    for cores in [1, 2, 3, 4, 8, 16] {
        let mut bench = Bench::new(cores, 100);
        let jobs: Vec<(u64, u64)> = (0..60).map(|i| (i % 7, (i * i * 3 + 1) * MS / 2)).collect();
        let ends = bench.run(&jobs);
        assert_eq!(ends.len(), jobs.len());
        let total: u64 = jobs.iter().map(|(_, cost_ns)| cost_ns).sum();
        assert_eq!(bench.cpu_ns(), total);
        let last = ends.iter().map(|(_, ms)| *ms).fold(0.0, f64::max);
        assert!(
            total as f64 / MS as f64 <= f64::from(cores) * last,
            "{cores} cores"
        );
    }
}

#[test]
fn what_a_job_has_taken_is_counted_before_it_ends() {
    // Two threads of two cores.
    let mut bench = Bench::new(2, 100);
    let mut done = Vec::new();
    let at = bench.net.at(&mut bench.queue, 0, 0);
    bench
        .compute
        .spawn(at, JobId(1), request(400 * MS), &mut done);
    for _ in 0..2 {
        let (net, queue) = (&mut bench.net, &mut bench.queue);
        bench.compute.count_running(50 * MS, net, queue);
        assert_eq!(bench.cpu_ns(), 100 * MS);
    }
    assert_eq!(bench.run(&[]), [(1, 200.0)]);
    assert_eq!(bench.cpu_ns(), 400 * MS);
}
