use super::*;
use crate::testing::{ITEM_NS, aggregate, claim, compute, session, sign, verify};
use alphorn_scheme::{Claim, Keys};
use std::sync::Mutex;

const NODE: u32 = 0;

fn request(job: u64, work: Work) -> Request {
    Request {
        node: NODE,
        job: JobId(job),
        session: session(0),
        hard: Time::MAX,
        work,
    }
}

/// Spawns all jobs, then finishes all in the same order.
fn run_all(compute: &mut Compute, work: Vec<Work>) -> Vec<Outcome<Product>> {
    let spawned: Vec<_> = (0..)
        .zip(work)
        .map(|(job, work)| compute.spawn(Time::ZERO, request(job, work)).0)
        .collect();
    spawned
        .into_iter()
        .map(|ticket| compute.finish(ticket).unwrap().1)
        .collect()
}

fn verdicts(outcome: &Outcome<Product>) -> Vec<bool> {
    match outcome {
        Outcome::Done(Product::Verdicts(verdicts)) => {
            verdicts.iter().map(|verdict| verdict.is_valid()).collect()
        }
        other => panic!("no verdicts but {other:?}"),
    }
}

#[test]
fn equal_jobs_are_computed_once_and_charged_to_each() {
    let mut compute = compute(ComputeConfig::new(2));
    let work = || verify([claim(0, true), claim(1, false)]);
    let outcomes = run_all(&mut compute, vec![work(), work(), work()]);
    for outcome in &outcomes {
        assert_eq!(verdicts(outcome), [true, false]);
    }
    let again = run_all(&mut compute, vec![work()]);
    assert_eq!(verdicts(&again[0]), [true, false]);
    let meter = compute.meters().total("verify_votes");
    assert_eq!((meter.jobs, meter.items, meter.computed_jobs), (4, 8, 1));
    assert_eq!(meter.charged_ns, 8 * ITEM_NS);
}

/// An aggregate of the model takes 96 bytes, one byte of support, and the bookkeeping.
#[test]
fn results_leave_the_cache_beyond_its_bytes() {
    const WEIGHT: u64 = 96 + 1 + 256;
    for (cache_bytes_max, computed) in [(2 * WEIGHT - 1, 4), (2 * WEIGHT, 2)] {
        let config = ComputeConfig {
            threads: 1,
            cache_bytes_max,
        };
        let mut compute = compute(config);
        for count in [1, 2, 1, 2] {
            run_all(&mut compute, vec![aggregate(0, count)]);
            assert!(compute.kept_bytes <= cache_bytes_max);
            assert_eq!(compute.units.len(), compute.known.len());
        }
        assert_eq!(compute.meters().total("aggregate").computed_jobs, computed);
    }
}

#[test]
fn a_slot_that_was_signed_is_refused() {
    let mut compute = compute(ComputeConfig::new(1));
    let outcomes = run_all(&mut compute, vec![sign(5, 0..2), sign(5, 1..3)]);
    assert!(matches!(outcomes[0], Outcome::Done(_)));
    let Outcome::Refused(reason) = &outcomes[1] else {
        panic!("signed twice: {:?}", outcomes[1]);
    };
    assert!(
        reason.starts_with("item 0 is not admitted: slot 5 is used"),
        "{reason}"
    );
    assert_eq!(compute.meters().ends.refused, 1);
    assert_eq!(compute.meters().first_refusal.as_ref(), Some(reason));
}

/// A job that no ticket waits for any more is never computed.
#[test]
fn a_cancelled_unit_is_dropped_with_its_last_claim() {
    let mut compute = compute(ComputeConfig::new(1));
    let work = || verify([claim(2, true)]);
    let mut spawn = |session_seq, job| {
        let request = Request {
            session: session(session_seq),
            ..request(job, work())
        };
        compute.spawn(Time::ZERO, request).0
    };
    let (first, second) = (spawn(1, 1), spawn(2, 2));
    let cancelled = compute.cancel(NODE, session(1));
    assert_eq!(cancelled.len(), 1);
    assert!(compute.finish(first).is_none(), "the old ticket is void");
    let end = compute.finish(cancelled[0]).unwrap();
    assert!(matches!(end, (JobId(1), Outcome::Cancelled)));
    assert_eq!(compute.units.len(), 1, "the other session still waits");
    compute.cancel(NODE, session(2));
    assert!(compute.finish(second).is_none());
    assert_eq!((compute.units.len(), compute.waiting.len()), (0, 0));
    assert_eq!(compute.meters().total("verify_votes").computed_jobs, 0);
}

#[test]
fn stages_have_their_own_meters() {
    let mut compute = compute(ComputeConfig::new(1));
    run_all(&mut compute, vec![sign(1, 0..4)]);
    compute.set_stage(Stage(3));
    run_all(&mut compute, vec![sign(2, 0..8), aggregate(0, 2)]);
    let rows: Vec<_> = compute
        .meters()
        .iter()
        .map(|(stage, op, meter)| (stage.0, op, meter.items, meter.computed_items))
        .collect();
    assert_eq!(
        rows,
        [(0, "sign", 4, 4), (3, "aggregate", 2, 2), (3, "sign", 8, 8)]
    );
    let total = compute.meters().total("sign");
    assert!(total.busy_ns > 0 && total.wall_ns > 0);
    assert_eq!(compute.meters().ends.done, 3);
}

#[test]
fn what_a_node_verified_is_measured_alone() {
    let mut compute = compute(ComputeConfig::new(2));
    compute.watch(NODE, scheme::Op::VerifyVotes);
    run_all(
        &mut compute,
        vec![
            verify([claim(0, true), claim(1, true)]),
            verify([claim(3, true)]),
        ],
    );
    let other = Request {
        node: NODE + 1,
        ..request(7, verify([claim(4, false)]))
    };
    compute.spawn(Time::ZERO, other);
    let measured = compute.measure_watched().unwrap();
    assert_eq!(
        (measured.items, measured.claims, measured.signers),
        (3, 3, 3)
    );
    assert!(measured.all_valid && measured.single_ns > 0 && measured.pooled_ns > 0);
    assert!(compute.measure_watched().is_none(), "the watch is over");
}

/// Agrees with the model except about one validator.
struct Doubter;

impl CrossCheck for Doubter {
    fn holds(&self, _keys: &Keys, claim: &Claim) -> Option<bool> {
        match claim {
            Claim::One { validator, .. } => Some(validator.0 != 0),
            _ => None,
        }
    }
}

#[test]
fn a_second_opinion_is_asked_about_a_sample() {
    let mut compute = compute(ComputeConfig::new(2));
    compute.cross_check(Arc::new(Doubter));
    // The first claim of all is in the sample, then one in every 1,024.
    let claims = (0..1030u32).map(|i| claim(i % 4, true));
    run_all(&mut compute, vec![verify(claims)]);
    let counts = compute.cross_counts().unwrap();
    assert_eq!(
        (counts.signatures, counts.groups, counts.differences),
        (2, 0, 2)
    );
}

#[test]
fn a_second_opinion_knows_how_far_a_verdict_goes() {
    let mut compute = compute(ComputeConfig::new(1));
    compute.cross_check(Arc::new(Doubter));
    // The first verdict is "invalid", and the doubter agrees.
    run_all(
        &mut compute,
        vec![verify([claim(0, false), claim(1, true)])],
    );
    let counts = compute.cross_counts().unwrap();
    assert_eq!((counts.signatures, counts.differences), (1, 0));
}

/// Records the progress reported to it.
#[derive(Clone, Default)]
struct Heard(Arc<Mutex<Vec<(String, u64, u64)>>>);

impl Progress for Heard {
    fn phase(&mut self, name: &str, done: u64, total: u64) {
        self.0.lock().unwrap().push((name.into(), done, total));
    }
}

#[test]
fn progress_reaches_its_total() {
    let mut compute = compute(ComputeConfig::new(2));
    let tickets = [sign(1, 0..4), sign(1, 4..8), aggregate(0, 3)]
        .map(|work| compute.spawn(Time::ZERO, request(0, work)).0);
    let heard = Heard::default();
    compute.report_to(Box::new(heard.clone()));
    compute.finish(tickets[0]).unwrap();
    let heard = heard.0.lock().unwrap();
    assert_eq!(heard.len(), 3, "all that wait run together");
    assert!(heard.contains(&("sign".into(), 4, 8)) && heard.contains(&("sign".into(), 8, 8)));
    assert!(heard.contains(&("aggregate".into(), 3, 3)));
}
