//! Random edges, and those of a file.

use super::GraphError;
use crate::gossip::Links;
use crate::random;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::Rng;

type Edges = Vec<(u32, u32)>;

/// A number below `bound`, by multiplication: biased by less than 2^-32.
fn below(rng: &mut ChaCha8Rng, bound: u32) -> u32 {
    ((u64::from(rng.next_u32()) * u64::from(bound)) >> 32) as u32
}

fn shuffle(values: &mut [u32], rng: &mut ChaCha8Rng) {
    for i in (1..values.len()).rev() {
        values.swap(i, below(rng, i as u32 + 1) as usize);
    }
}

/// Each node with its images under `count` random permutations.
pub(super) fn permutations(nodes: u32, count: u32, seed: u64) -> Edges {
    let mut edges = Vec::with_capacity(nodes as usize * count as usize);
    for i in 0..count {
        let mut rng = random::stream(seed, "graph/permutation", i);
        let mut image: Vec<u32> = (0..nodes).collect();
        shuffle(&mut image, &mut rng);
        edges.extend((0..nodes).zip(image));
    }
    edges
}

/// The same within each region.
pub(super) fn local_permutations(regions: &[u8], count: u32, seed: u64) -> Edges {
    let mut members: Vec<Vec<u32>> = vec![Vec::new(); 256];
    for (node, region) in (0..).zip(regions) {
        members[usize::from(*region)].push(node);
    }
    let mut edges = Vec::with_capacity(regions.len() * count as usize);
    for i in 0..count {
        let mut rng = random::stream(seed, "graph/region", i);
        for region in &members {
            let mut image = region.clone();
            shuffle(&mut image, &mut rng);
            edges.extend(region.iter().copied().zip(image));
        }
    }
    edges
}

/// Each node with `degree` drawn ones; itself and repetitions may be among them.
pub(super) fn uniform(nodes: u32, degree: u32, seed: u64) -> Edges {
    let mut rng = random::stream(seed, "graph/uniform", 0);
    let mut edges = Vec::with_capacity(nodes as usize * degree as usize);
    for node in 0..nodes {
        edges.extend((0..degree).map(|_| (node, below(&mut rng, nodes))));
    }
    edges
}

/// A random regular graph: a circle with chords, whose edges are exchanged in random pairs three
/// times as often as there are edges.
pub(super) fn regular(nodes: u32, degree: u32, seed: u64) -> Edges {
    let mut rng = random::stream(seed, "graph/regular", 0);
    let width = degree as usize;
    let mut rows: Vec<u32> = Vec::with_capacity(nodes as usize * width);
    for node in 0..nodes {
        for step in 1..=degree / 2 {
            rows.push((node + step) % nodes);
            rows.push((node + nodes - step) % nodes);
        }
        if degree % 2 == 1 {
            rows.push((node + nodes / 2) % nodes);
        }
    }
    let row = |node: u32| node as usize * width..(node as usize + 1) * width;
    let mut edges: Edges = Vec::with_capacity(rows.len() / 2);
    for node in 0..nodes {
        let later = rows[row(node)].iter().filter(|&&peer| peer > node);
        edges.extend(later.map(|&peer| (node, peer)));
    }
    let count = edges.len() as u32;
    for _ in 0..u64::from(count) * 3 {
        let (i, j) = (
            below(&mut rng, count) as usize,
            below(&mut rng, count) as usize,
        );
        let ((a, b), (mut c, mut d)) = (edges[i], edges[j]);
        if rng.next_u32() & 1 == 1 {
            (c, d) = (d, c);
        }
        let meets = |from: u32, to: u32| rows[row(from)].contains(&to);
        if a == d || c == b || a == c || b == d || meets(a, d) || meets(c, b) {
            continue;
        }
        let mut replace = |node: u32, old: u32, new: u32| {
            let peers = &mut rows[row(node)];
            if let Some(place) = peers.iter_mut().find(|peer| **peer == old) {
                *place = new;
            }
        };
        replace(a, b, d);
        replace(b, a, c);
        replace(c, d, b);
        replace(d, c, a);
        (edges[i], edges[j]) = ((a, d), (c, b));
    }
    edges
}

/// Each node with the later ones of its row and column.
pub(super) fn grid(nodes: u32) -> Edges {
    let mut edges = Vec::new();
    for node in 0..nodes {
        let links = Links::of(node, nodes);
        let all = links.row.iter().chain(links.column.iter());
        edges.extend(all.filter(|&&peer| peer > node).map(|&peer| (node, peer)));
    }
    edges
}

/// One edge a line, as two numbers; empty lines and those that begin with `#` say nothing.
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
