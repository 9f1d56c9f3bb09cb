//! One-way latencies between regions and the number of nodes in each, as given by libp2p/test-plans
//! gossipsub-interop/network_graph.py. Not quite symmetric: SA to ZA is 195, back 190.

/// Names of the regions: Australia, East Asia, Europe, North America west and east, South America,
/// South Africa, West Asia.
pub const REGIONS: [&str; 8] = ["AU", "EAS", "EU", "NAW", "NAE", "SA", "ZA", "WAS"];

/// Number of counted nodes in each region.
pub(crate) const WEIGHTS: [u32; 8] = [290, 1059, 5599, 1240, 2894, 36, 47, 161];

/// Milliseconds from (row) to (column).
pub(crate) const ONE_WAY_MS: [[u64; 8]; 8] = [
    [2, 110, 165, 110, 150, 190, 220, 180],
    [110, 4, 125, 100, 140, 175, 175, 110],
    [165, 125, 2, 110, 70, 140, 95, 60],
    [110, 100, 110, 2, 60, 100, 160, 150],
    [150, 140, 70, 60, 2, 100, 130, 110],
    [190, 175, 140, 100, 100, 7, 195, 145],
    [220, 175, 95, 160, 130, 190, 7, 110],
    [180, 110, 60, 150, 110, 145, 110, 5],
];
