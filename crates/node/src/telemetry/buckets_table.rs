//! Bounds of histograms. Those of leanMetrics names are the ecosystem's, with upper ones added
//! where times here exceed them, so that queries by bucket work unchanged.

/// Single votes: signing, verification, validation. Blocks continue from [`BLOCK_PROCESSING`].
pub(super) const VOTE: &[f64] = &[0.005, 0.01, 0.025, 0.05, 0.1, 1.0];
/// Production of votes.
pub(super) const PRODUCTION: &[f64] = &[0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 0.75, 1.0];
/// Aggregates and collections: building, verification.
pub(super) const AGGREGATE: &[f64] = &[
    0.1, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0, 4.0, 8.0, 16.0, 32.0,
];
/// From the request for an aggregate to its end.
pub(super) const AGGREGATION: &[f64] = &[
    0.05, 0.1, 0.25, 0.5, 0.75, 1.0, 2.0, 3.0, 4.0, 8.0, 16.0, 32.0,
];
/// Collections of a block.
pub(super) const PAYLOADS: &[f64] = &[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0];
/// Production of blocks.
pub(super) const BLOCK_BUILDING: &[f64] =
    &[0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 0.75, 1.0, 2.0, 4.0, 8.0];
/// From the arrival of a block to its verdict.
pub(super) const BLOCK_PROCESSING: &[f64] =
    &[0.005, 0.01, 0.025, 0.05, 0.1, 1.0, 1.25, 1.5, 2.0, 4.0];
/// Blocks abandoned by a change of the head.
pub(super) const REORG_DEPTH: &[f64] = &[1.0, 2.0, 3.0, 5.0, 7.0, 10.0, 20.0, 30.0, 50.0, 100.0];
/// From one phase to the next, for phases of 0.8 s, with upper bounds for longer phases.
pub(super) const TICK_INTERVAL: &[f64] = &[
    0.4, 0.6, 0.75, 0.8, 0.805, 0.81, 0.815, 0.82, 0.825, 0.85, 0.9, 1.0, 1.2, 1.6, 2.0, 4.0, 10.0,
];
/// Bytes of blocks.
pub(super) const BLOCK_BYTES: &[f64] = &[
    10_000.0,
    50_000.0,
    100_000.0,
    250_000.0,
    500_000.0,
    1_000_000.0,
    2_000_000.0,
    5_000_000.0,
];
/// Bytes of votes.
pub(super) const VOTE_BYTES: &[f64] = &[512.0, 1_024.0, 2_048.0, 4_096.0, 8_192.0, 16_384.0];
/// Bytes of aggregates and collections.
pub(super) const AGGREGATE_BYTES: &[f64] = &[
    1_024.0,
    4_096.0,
    16_384.0,
    65_536.0,
    131_072.0,
    262_144.0,
    524_288.0,
    1_048_576.0,
];
/// Lateness of the loop.
pub(super) const LAG: &[f64] = &[
    0.000_5, 0.001, 0.002, 0.003, 0.005, 0.007_5, 0.01, 0.025, 0.05, 0.1, 0.5, 1.0,
];
/// Turns of the loop.
pub(super) const TURN: &[f64] = &[
    0.000_01, 0.000_02, 0.000_05, 0.000_1, 0.000_2, 0.000_5, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05,
];
/// Jobs. Each bound is twice the previous one.
pub(super) const JOB: &[f64] = &[
    0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256, 0.512, 1.0, 2.0, 4.0, 8.0, 16.0,
    32.0, 64.0,
];
/// Run time of a job relative to its prediction.
pub(crate) const RATIO: &[f64] = &[0.25, 0.5, 0.8, 0.9, 1.1, 1.25, 1.5, 2.0, 4.0];
/// From the arrival of a message to its verdict. Gossip forgets it after 4.2 s.
pub(super) const VERDICT: &[f64] = &[
    0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 4.0,
];
