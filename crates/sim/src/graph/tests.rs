use super::*;

const CLASS: &str = "[[class]]\nname = \"a\"\nshare_pct = 100\ndown_mbps = 50\nup_mbps = 25\n";

fn scenario(nodes: u32, graph: &str) -> scenario::Scenario {
    let text = format!(
        "name = \"g\"\nschema = 1\n[sim]\nnodes = {nodes}\n[graph]\n{graph}\n{CLASS}\
         [protocol]\nkind = \"gossip\"\n"
    );
    scenario::Scenario::parse(&text, &[]).unwrap()
}

pub(crate) fn graph(nodes: u32, kind: &str, seed: u64) -> Graph {
    let graph = Graph::of(&scenario(nodes, kind), seed).unwrap();
    consistent(&graph);
    graph
}

/// Checks that both ends of each connection know each other and that rows are ascending.
fn consistent(graph: &Graph) {
    let mut ends = 0;
    for node in 0..graph.nodes() {
        let peers = graph.peers(node);
        assert!(peers.is_sorted_by(|a, b| a < b) && !peers.contains(&node));
        for (number, &peer) in (0..).zip(peers) {
            let end = graph.end(node, number).unwrap();
            assert_eq!(graph.peer(end), peer);
            assert_eq!(graph.peers(peer)[graph.back(end) as usize], node);
            assert_eq!(graph.number_of(node, peer), Some(number as u32));
            ends += 1;
        }
        assert_eq!(graph.end(node, peers.len() as u64), None);
    }
    assert_eq!(ends, graph.ends());
}

fn degrees(graph: &Graph) -> (usize, usize) {
    let degrees = (0..graph.nodes()).map(|node| graph.peers(node).len());
    (degrees.clone().min().unwrap(), degrees.max().unwrap())
}

fn is_connected(graph: &Graph) -> bool {
    let mut seen = vec![false; graph.nodes() as usize];
    let mut next = vec![0];
    while let Some(node) = next.pop() {
        if !std::mem::replace(&mut seen[node as usize], true) {
            next.extend(graph.peers(node));
        }
    }
    seen.into_iter().all(|seen| seen)
}

#[test]
fn every_kind_has_its_degrees() {
    let permutations = graph(1000, "kind = \"permutations\"\ndegree = 8", 1);
    assert!(degrees(&permutations).1 == 8 && permutations.ends() > 7900);
    assert!(is_connected(&permutations));
    let complete = graph(20, "kind = \"complete\"", 1);
    assert_eq!(degrees(&complete), (19, 19));
    let grid = Graph::grid(100).unwrap();
    assert_eq!(degrees(&grid), (18, 18));
}

#[test]
fn a_seed_is_a_graph() {
    let kind = "kind = \"permutations\"\ndegree = 6";
    assert_eq!(graph(100, kind, 5), graph(100, kind, 5));
    assert_ne!(graph(100, kind, 5), graph(100, kind, 6));
}

#[test]
fn files_are_edges() {
    let mut scenario = scenario(4, "kind = \"file\"\npath = \"g.txt\"");
    let of = |scenario: &scenario::Scenario| Graph::of(scenario, 1);
    let path = || "g.txt".to_owned();
    assert_eq!(of(&scenario), Err(GraphError::Missing { path: path() }));
    scenario
        .inputs
        .insert(path(), "# a\n0 1\n\n1 0\n 2\t1 \n3 3\n".into());
    let graph = of(&scenario).unwrap();
    consistent(&graph);
    assert_eq!((graph.peers(1), graph.peers(3)), (&[0, 2][..], &[][..]));
    for bad in ["0 4", "0", "0 1 2", "a b", "-1 0", "0 99999999999"] {
        scenario.inputs.insert(path(), format!("0 1\n{bad}\n"));
        let error = of(&scenario).unwrap_err();
        assert!(matches!(&error, GraphError::Line { line: 2, text, nodes: 4 } if text == bad));
    }
}

#[test]
fn what_is_too_large_is_refused() {
    let centres: Vec<u32> = (0..1000).collect();
    let value = 2 * 1_000_000 * 1000;
    let max = ENDS_MAX;
    assert_eq!(
        Graph::stars(1_000_000, &centres),
        Err(GraphError::TooMany { value, max })
    );
    assert!(Graph::grid(1 << 20).is_err());
    // Before their edges are drawn, which would take gigabytes.
    let many = scenario(1 << 20, "kind = \"permutations\"\ndegree = 1000");
    let value = (1 << 20) * 1000;
    assert_eq!(
        Graph::of(&many, 1).unwrap_err(),
        GraphError::TooMany { value, max }
    );
    let star = Graph::stars(5, &[2, 2]).unwrap();
    consistent(&star);
    assert_eq!(
        (star.peers(2), star.peers(0)),
        (&[0, 1, 3, 4][..], &[2][..])
    );
}
