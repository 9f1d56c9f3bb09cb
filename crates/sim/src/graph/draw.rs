//! Random edges, and edges read from a file.

use super::error::GraphError;
use crate::gossip::Links;
use crate::random;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::Rng;

type Edges = Vec<(u32, u32)>;

/// A random number below `bound`, by multiplication: biased by less than 2^-32.
fn below(rng: &mut ChaCha8Rng, bound: u32) -> u32 {
    ((u64::from(rng.next_u32()) * u64::from(bound)) >> 32) as u32
}

fn shuffle(values: &mut [u32], rng: &mut ChaCha8Rng) {
    for i in (1..values.len()).rev() {
        values.swap(i, below(rng, i as u32 + 1) as usize);
    }
}

/// Connects each node with its images under `count` random permutations.
pub(super) fn permutations(nodes: u32, count: u32, seed: u64) -> Edges {
    let mut edges = Vec::with_capacity(nodes as usize * count as usize);
    for i in 0..count {
        let mut rng = random::stream(seed, "graph/permutation", i);
        let mut image: Vec<u32> = (0..nodes).collect();
        shuffle(&mut image, &mut rng);
        // Fixed points and repeated edges are left out by `Graph::from_edges`.
        edges.extend((0..nodes).zip(image));
    }
    edges
}

/// Connects each node with the later ones of its row and column.
pub(super) fn grid(nodes: u32) -> Edges {
    let mut edges = Vec::new();
    for node in 0..nodes {
        let links = Links::of(node, nodes);
        let all = links.row.iter().chain(links.column.iter());
        edges.extend(all.filter(|&&peer| peer > node).map(|&peer| (node, peer)));
    }
    edges
}

/// One edge per line, as two numbers; empty lines and those that start with `#` are ignored.
pub(super) fn read(text: &str, nodes: u32) -> Result<Edges, GraphError> {
    let mut edges = Vec::new();
    for (i, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let mut numbers = line.split_whitespace().map(str::parse::<u32>);
        match (numbers.next(), numbers.next(), numbers.next()) {
            (Some(Ok(a)), Some(Ok(b)), None) if a.max(b) < nodes => edges.push((a, b)),
            _ => {
                return Err(GraphError::Line {
                    line: i + 1,
                    text: line.chars().take(80).collect(),
                    nodes,
                });
            }
        }
    }
    Ok(edges)
}
