//! The dashboard and the alerts of `deploy/` ask for nothing that a node does not tell.

use alphorn_node::metrics;
use alphorn_node::summary::{DutyCounts, JobCounts, Summary, TopicCounts};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::PathBuf;

/// A scrape with at least one value of every name.
fn scrape() -> String {
    let mut summary = Summary {
        validators: 8,
        lanes_busy_s: vec![1.0, 2.0],
        ..Summary::default()
    };
    let counts = || [("one".to_owned(), 1)].into();
    (summary.rejects, summary.reports, summary.drops) = (counts(), counts(), counts());
    summary.credited.insert(3, 8);
    summary.two_thirds_ms.insert(3, 900.0);
    summary.duties.insert("vote".into(), DutyCounts::default());
    summary.jobs.insert("sign".into(), JobCounts::default());
    summary.topics.insert("vote".into(), TopicCounts::default());
    metrics::text(&summary).unwrap()
}

/// Names of metrics in a query.
fn names(query: &str) -> BTreeSet<String> {
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let words = query.split(|letter| !is_part(letter));
    let ours = words.filter(|word| word.starts_with("alphorn_") || word.starts_with("lean_"));
    ours.map(str::to_owned).collect()
}

fn read(path: &str) -> String {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../deploy");
    std::fs::read_to_string(root.join(path)).unwrap()
}

fn queries(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                match (name.as_str(), field.as_str()) {
                    ("expr" | "query", Some(query)) => found.push(query.to_owned()),
                    _ => queries(field, found),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| queries(item, found)),
        _ => {}
    }
}

#[test]
fn every_query_names_metrics_of_a_scrape() {
    let text = scrape();
    let samples = text.lines().filter(|line| !line.starts_with('#'));
    let told: BTreeSet<&str> = samples
        .filter_map(|line| line.split(['{', ' ']).next())
        .collect();
    let dashboard: Value = serde_json::from_str(&read("grafana/alphorn.json")).unwrap();
    let mut asked = Vec::new();
    queries(&dashboard, &mut asked);
    let panels = asked.len();
    let alerts = read("prometheus/alerts.yml");
    let rules = alerts.lines().filter_map(|line| line.split_once("expr:"));
    asked.extend(rules.map(|(_, query)| query.to_owned()));
    assert!(panels > 20 && asked.len() > panels + 5, "{asked:?}");
    for query in &asked {
        let names = names(query);
        assert!(!names.is_empty() || query == "prometheus", "{query}");
        for name in names {
            assert!(
                told.contains(name.as_str()),
                "{name} of {query} is not in\n{text}"
            );
        }
    }
}
