//! Lane selection, and jobs that must not hide others.

use super::*;

/// A proof may crash its process: however urgent, it waits for a lane with processes.
#[test]
fn what_is_isolated_waits_for_a_prove_lane() {
    let config = Config {
        fast_lanes: 2,
        ..config()
    };
    let isolated = |inputs| Toy {
        isolated: true,
        ..toy(inputs)
    };
    for class in [Class::Duty, Class::Verdict] {
        let mut plan = Plan::new(config.clone(), CostModel::new());
        submit(&mut plan, request(Class::Backfill, toy(500), 8_000, 9_000));
        assert!(plan.next(at(0), 2).is_some());
        let long = submit(&mut plan, request(class, isolated(500), 4_000, 9_000));
        let short = submit(&mut plan, request(class, isolated(5), 5_000, 9_000));
        assert_eq!((plan.next(at(0), 0), plan.next(at(0), 1)), (None, None));
        for job in [long, short] {
            plan.ended(at(500), 2, Ran::Stopped);
            let start = plan.next(at(500), 2).expect("the prove lane is free");
            assert_eq!(start.job, job);
        }
    }
    // Without such a lane it has to run somewhere.
    let none = Config {
        prove_lanes: 0,
        ..config
    };
    let mut plan = Plan::new(none, CostModel::new());
    submit(&mut plan, request(Class::Duty, isolated(500), 4_000, 9_000));
    assert!(plan.next(at(0), 0).is_some());
}

/// Any number of jobs for the other kind of lane leave no lane idle that has work of its own.
#[test]
fn jobs_that_are_not_for_a_lane_hide_none_that_is() {
    for class in Class::ALL {
        for (lane, others, own) in [(FAST, 500, 5), (PROVE, 5, 500)] {
            let mut plan = plan();
            for _ in 0..100 {
                submit(&mut plan, request(class, toy(others), 4_000, 9_000));
            }
            let own = submit(&mut plan, request(class, toy(own), 5_000, 9_000));
            let start = plan
                .next(at(0), lane)
                .expect("an idle lane and a job for it");
            assert_eq!(start.job, own, "{class:?} on lane {lane}");
        }
    }
}

/// The same for jobs that could only be cut, but not to what the lane takes, and for jobs that must wait.
#[test]
fn jobs_that_cannot_start_hide_none_that_can() {
    let mut plan = plan();
    for _ in 0..100 {
        submit(&mut plan, request(Class::Current, toy(1_000), 850, 9_000));
    }
    let short = submit(&mut plan, request(Class::Current, toy(5), 900, 9_000));
    assert_eq!(plan.next(at(0), FAST).map(|start| start.job), Some(short));
    // Short ones that are late, before a long one that is cut.
    let mut plan = self::plan();
    for _ in 0..100 {
        submit(&mut plan, request(Class::Current, toy(5), 40, 9_000));
    }
    let long = submit(&mut plan, request(Class::Current, toy(1_000), 850, 9_000));
    let start = plan.next(at(0), PROVE).expect("a prefix fits");
    assert_eq!((start.job, start.work.inputs), (long, 510));
    // Late groups that would run into the next session.
    let mut plan = self::plan();
    let next = Session {
        id: session(2),
        open: at(1_000),
        soft: at(2_000),
        hard: at(9_000),
    };
    plan.open(at(0), next).expect("accepted");
    for _ in 0..100 {
        submit(&mut plan, request(Class::Backfill, toy(900), 500, 9_000));
    }
    let fits = submit(&mut plan, request(Class::Backfill, toy(300), 600, 9_000));
    assert_eq!(plan.next(at(0), PROVE).map(|start| start.job), Some(fits));
}

/// Cutting is expensive: of a queue of jobs that must be cut, a lane tries a limited number.
#[test]
fn a_lane_tries_few_cuts() {
    use std::cell::Cell;
    use std::rc::Rc;

    struct Uncut(Rc<Cell<u32>>);

    impl Schedulable for Uncut {
        fn features(&self) -> Features {
            toy(1_000).features()
        }

        fn prefix(&self, _: u32) -> Option<Self> {
            self.0.set(self.0.get() + 1);
            None
        }
    }

    let tried = Rc::new(Cell::new(0));
    let mut plan = Plan::new(config(), CostModel::new());
    for _ in 0..500 {
        let request = request(Class::Current, toy(1_000), 850, 860);
        let job = request.with(Uncut(tried.clone()));
        plan.submit(at(0), job).expect("accepted");
    }
    tried.set(0);
    assert!(plan.next(at(0), PROVE).is_none());
    // Each with nine halvings of a thousand inputs.
    assert_eq!(tried.get(), 16 * 9);
}
