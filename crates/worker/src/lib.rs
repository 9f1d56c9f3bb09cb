//! Decides which job runs next and on which lane, predicts how long it takes, and finds its bad inputs.
//!
//! Nothing here reads a clock or starts a thread: time is an argument, and a lane is whatever runs
//! one job at a time, a thread or a simulated core. So the simulator studies the same queue that a
//! node has.
//!
//! | module | what it holds |
//! |---|---|
//! | [`plan`] | [`Plan`]: the queue, its classes and deadlines, and what starts next |
//! | [`cost`] | [`CostModel`]: what a job takes, learned from what jobs took |
//! | [`bisect`] | [`Bisect`]: the bad ones of many inputs in few checks |
#![forbid(unsafe_code)]

pub mod bisect;
pub mod cost;
pub mod plan;

pub use bisect::Bisect;
pub use cost::{CostKey, CostModel, Prediction};
pub use plan::{
    Class, Config, End, Finished, LaneKind, Plan, Refused, Request, Session, Start, Work,
};
