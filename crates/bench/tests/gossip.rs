//! The simulator's gossip against that of real nodes, alone in a process.

use alphorn_bench::gossip::{Figures, Plan, modelled, real};
use std::time::Duration;

/// How far the model may be from real nodes.
const COUNTS: f64 = 0.10;
/// The same of times.
const TIMES: f64 = 0.15;

/// Whether a figure of the model is within a share of the real one.
fn is_near(of: fn(&Figures) -> f64, (model, real): (&Figures, &Figures), share: f64) -> bool {
    (of(model) / of(real) - 1.0).abs() <= share
}

#[test]
fn the_model_forwards_as_real_nodes_do() {
    let plan = Plan::draw(32, 16, Duration::from_millis(100), 1);
    // What takes longer to send is delayed more by the machine's other work.
    let sizes: &[usize] = if cfg!(feature = "soak") {
        &[500, 20_000]
    } else {
        &[500]
    };
    for &bytes in sizes {
        let plan = Plan {
            bytes,
            messages: 8,
            interval: Duration::from_millis(600),
            ..plan.clone()
        };
        let (real, model) = (real(&plan, 6).unwrap(), modelled(&plan, 1).unwrap());
        let both = (&model, &real);
        assert_eq!((real.delivered, model.delivered), (1.0, 1.0), "{bytes}");
        assert!(is_near(|f| f.copies, both, COUNTS), "{bytes}: {both:?}");
        assert!(is_near(|f| f.hops, both, COUNTS), "{bytes}: {both:?}");
        // Times are of a machine with nothing else to do.
        if cfg!(feature = "soak") {
            assert!(is_near(|f| f.half_ms, both, TIMES), "{bytes}: {both:?}");
            assert!(is_near(|f| f.last_ms, both, TIMES), "{bytes}: {both:?}");
        }
    }
}
