//! A hanging job is ended, and no other in its place.

use super::*;

fn long(seed: u64) -> Toy {
    Toy {
        seed,
        prior_ns: 400 * MS,
        ..Toy::new(&[GOOD])
    }
}

/// A scheduler whose prove lane had a hanging job. The job ended before anything was done about it, and the same thread
/// has the next job.
fn overtaken(stop: bool) -> (Scheduler<Toy>, Hung<Toy>, JobId) {
    let mut scheduler = scheduler_of(WorkerConfig {
        hang_after_ms: 2_000,
        stop_grace_ms: 100,
        ..config()
    });
    submit(&mut scheduler, 0, long(0));
    let order = start(&mut scheduler, 0, 1);
    let found_ms = match stop {
        true => {
            order.stop.stop();
            assert!(scheduler.hung(at(1)).is_empty(), "it has its grace");
            102
        }
        false => 2_001,
    };
    let hung = scheduler.hung(at(found_ms)).pop().expect("it is noticed");
    assert_eq!((hung.hangs, hung.job), (!stop, order.job));
    assert!(scheduler.still_runs(&hung));
    done(&mut scheduler, found_ms, 1);
    scheduler.receive().expect("it ended");
    let next = submit(&mut scheduler, found_ms, long(1));
    start(&mut scheduler, found_ms, 1);
    assert!(!scheduler.still_runs(&hung), "another job has its lane");
    (scheduler, hung, next)
}

#[test]
fn the_job_after_one_that_hung_keeps_its_thread() {
    let (mut scheduler, hung, next) = overtaken(false);
    assert_eq!(scheduler.abandon(at(2_002), &hung, None), None);
    assert_eq!(scheduler.status().abandoned, 0);
    done(&mut scheduler, 2_003, 1);
    let ended = scheduler.receive().map(|end| (end.job, end.outcome));
    assert_eq!(ended, Some((next, Outcome::Done(0))));
}

/// The next job is not mistaken for one killed because it was no longer wanted, and it can still be rerun.
#[test]
fn the_job_after_one_that_was_to_be_killed_is_not_taken_for_it() {
    for stop in [true, false] {
        let (mut scheduler, hung, next) = overtaken(stop);
        scheduler.killed(&hung);
        assert_eq!(scheduler.status().counts.hangs, 0);
        let again = scheduler.hung(at(5_000)).pop().expect("it hangs, too");
        assert!(scheduler.still_runs(&again));
        // It crashes on its own, which is reported, and it is rerun.
        crash(&mut scheduler, 5_001, 1);
        assert!(scheduler.receive().is_none(), "{next:?} is run again");
        assert_eq!(scheduler.status().counts.crashes, 1);
    }
}
