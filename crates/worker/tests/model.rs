//! The cost model and the search for bad inputs against an independent model,
//! `vectors/worker/model.py`.

use alphorn_worker::{Bisect, CostKey, CostModel};
use serde_json::Value;

fn vectors() -> Value {
    let text = include_str!("../../../vectors/worker/worker.json");
    serde_json::from_str(text).expect("JSON")
}

fn near(got: f64, want: f64, what: &str) {
    assert!(
        (got - want).abs() <= 1.0 + want.abs() * 1e-9,
        "{what}: {got} for {want}"
    );
}

#[test]
fn predictions_are_those_of_the_model() {
    let key = CostKey {
        kind: 1,
        class: 2,
        threads: 3,
        lanes_busy: 1,
    };
    let (vectors, mut steps) = (vectors(), 0);
    for case in vectors["cost"].as_array().expect("cases") {
        let mut model = CostModel::new();
        for step in case.as_array().expect("steps") {
            let number = |field: &str| step[field].as_u64().expect("a number");
            let (prior_ns, actual_ns) = (number("prior_ns"), number("actual_ns"));
            let slot = number("slot");
            let got = model.predict(&key, prior_ns, slot);
            let got = [got.t50_ns, got.t90_ns, got.t99_ns];
            let want = step["t_ns"].as_array().expect("three");
            for (got, want) in got.into_iter().zip(want) {
                near(got as f64, want.as_f64().expect("a number"), "time");
            }
            let within = model.within(&key, prior_ns, 2 * prior_ns, slot);
            let want = step["within"].as_f64().expect("a number");
            assert!((within - want).abs() < 1e-9, "{within} for {want}");
            model.learn(key, prior_ns, actual_ns, slot);
            steps += 1;
        }
    }
    assert_eq!(steps, 240);
}

#[test]
fn searches_make_the_checks_of_the_model() {
    let (vectors, mut cases) = (vectors(), 0);
    for case in vectors["search"].as_array().expect("cases") {
        let inputs = case["inputs"].as_u64().expect("a number") as u32;
        let bad = case["bad"].as_array().expect("places").iter();
        let bad: Vec<u32> = bad
            .map(|place| place.as_u64().expect("a number") as u32)
            .collect();
        let mut search = Bisect::in_order(inputs);
        while let Some(range) = search.next() {
            let places = range.start as u32..range.end as u32;
            search.answer(!bad.iter().any(|place| places.contains(place)));
        }
        assert_eq!(search.bad(), bad);
        let checks = case["checks"].as_u64().expect("a number");
        assert_eq!(
            u64::from(search.checks()),
            checks,
            "{} of {inputs}",
            bad.len()
        );
        cases += 1;
    }
    assert_eq!(cases, 52);
}

/// R1: the checks of a poisoned batch, wherever the bad inputs are, since the order is drawn. One
/// that is drawn to the first place costs 33, the most that one can.
#[test]
fn a_poisoned_batch_costs_few_checks() {
    for (bad, checks_max) in [
        (0, 1),
        (1, 33),
        (8, 95),
        (64, 390),
        (512, 1050),
        (1024, 1050),
    ] {
        for seed in 0..200_u64 {
            for place in ["first", "last", "spread"] {
                let is_bad = |input: u32| match place {
                    "first" => input < bad,
                    "last" => input >= 1024 - bad,
                    _ => bad > 0 && input.is_multiple_of(1024 / bad.max(1)),
                };
                let mut search = Bisect::new(1024, seed);
                while let Some(range) = search.next() {
                    let good = search.order()[range].iter().all(|input| !is_bad(*input));
                    search.answer(good);
                }
                let want: Vec<u32> = (0..1024).filter(|input| is_bad(*input)).collect();
                assert_eq!(search.bad(), want, "seed {seed}");
                assert!(
                    search.checks() <= checks_max,
                    "{bad} bad, seed {seed}: {}",
                    search.checks()
                );
            }
        }
    }
}
