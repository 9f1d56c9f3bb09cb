//! The dashboard and the alerts of `deploy/` ask for nothing that a node does not tell, and its files
//! open nothing to other machines. No container is started here.

use crate::page::Page;
use crate::rig::told;
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::PathBuf;

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
    let page = Page::read(&told().text);
    let told: BTreeSet<&str> = page.sample_names().map(String::as_str).collect();
    let dashboard: Value = serde_json::from_str(&read("grafana/alphorn.json")).unwrap();
    let mut asked = Vec::new();
    queries(&dashboard, &mut asked);
    let panels = asked.len();
    queries(&yaml("prometheus/alerts.yml"), &mut asked);
    assert!(panels > 20 && asked.len() > panels + 5, "{asked:?}");
    for query in &asked {
        let names = names(query);
        assert!(!names.is_empty() || query == "prometheus", "{query}");
        for name in names {
            assert!(
                told.contains(name.as_str()),
                "{name} of {query} is not told"
            );
        }
    }
}

fn yaml(path: &str) -> Value {
    let value = serde_saphyr::from_str(&read(path));
    value.unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Text of all fields of a name, wherever they stand.
fn fields<'a>(value: &'a Value, name: &str, found: &mut Vec<&'a Value>) {
    match value {
        Value::Object(all) => {
            for (key, field) in all {
                if key == name {
                    found.push(field);
                }
                fields(field, name, found);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| fields(item, name, found)),
        _ => {}
    }
}

#[test]
fn every_alert_has_a_name_a_query_a_severity_and_names_the_node() {
    let alerts = yaml("prometheus/alerts.yml");
    let rules = alerts["groups"][0]["rules"].as_array().unwrap();
    let names: BTreeSet<&str> = rules.iter().filter_map(|r| r["alert"].as_str()).collect();
    assert_eq!(names.len(), rules.len(), "{names:?}");
    for rule in rules {
        assert!(rule["expr"].as_str().is_some_and(|query| !query.is_empty()));
        let text = rule["annotations"]["summary"].as_str();
        assert!(
            text.is_some_and(|text| text.contains("$labels.node")),
            "{rule}"
        );
        let query = rule["expr"].as_str().unwrap();
        assert!(
            !query.contains("sum by") || query.contains("by (node, "),
            "{rule}"
        );
        let severity = rule["labels"]["severity"].as_str();
        assert!(
            matches!(severity, Some("critical" | "warning" | "info")),
            "{rule}"
        );
    }
    for name in [
        "MissedDuty",
        "PhasesBeginLate",
        "WrongResult",
        "ProverRestarts",
        "SigningRefused",
        "MessagesDropped",
        "FinalityStands",
    ] {
        assert!(names.contains(name), "{name}");
    }
    let scrapes = yaml("prometheus/prometheus.yml");
    assert_eq!(scrapes["rule_files"][0], "/etc/prometheus/alerts.yml");
}

#[test]
fn panels_stand_apart_and_have_a_query_each() {
    let dashboard: Value = serde_json::from_str(&read("grafana/alphorn.json")).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let (mut ids, mut cells) = (BTreeSet::new(), BTreeSet::new());
    for panel in panels {
        let title = panel["title"].as_str().unwrap();
        assert!(ids.insert(panel["id"].as_u64().unwrap()), "{title}");
        assert!(!panel["targets"].as_array().unwrap().is_empty(), "{title}");
        let at = |name: &str| panel["gridPos"][name].as_u64().unwrap();
        assert!(at("x") + at("w") <= 24, "{title}");
        for x in at("x")..at("x") + at("w") {
            for y in at("y")..at("y") + at("h") {
                assert!(cells.insert((x, y)), "{title} covers another panel");
            }
        }
    }
}

#[test]
fn containers_open_nothing_to_other_machines() {
    let devnet = yaml("compose/devnet.yml");
    let services = devnet["services"].as_object().unwrap();
    let nodes = services.keys().filter(|name| name.starts_with("node-"));
    assert_eq!(nodes.count(), 4);
    assert!(services.contains_key("prometheus") && services.contains_key("grafana"));
    let mut ports = Vec::new();
    fields(&devnet, "ports", &mut ports);
    let ports: Vec<&Value> = ports
        .iter()
        .flat_map(|all| all.as_array().unwrap())
        .collect();
    assert_eq!(ports.len(), 6);
    for port in ports {
        let port = port.as_str().unwrap();
        assert!(port.starts_with("127.0.0.1:"), "{port}");
    }
    let host = yaml("compose/metrics-host.yml");
    let arguments = host["services"]["prometheus"]["command"]
        .as_array()
        .unwrap();
    assert!(arguments.contains(&"--web.listen-address=127.0.0.1:9090".into()));
    let grafana = &host["services"]["grafana"]["environment"];
    assert_eq!(grafana["GF_SERVER_HTTP_ADDR"], "127.0.0.1");
    for compose in [&devnet, &host] {
        let grafana = &compose["services"]["grafana"]["environment"];
        assert_eq!(grafana["GF_AUTH_ANONYMOUS_ORG_ROLE"], "Viewer");
        let prometheus = grafana["ALPHORN_PROMETHEUS"].as_str().unwrap();
        assert!(prometheus.ends_with(":9090"));
    }
    let source = &yaml("grafana/datasources.yml")["datasources"][0]["url"];
    assert_eq!(source, "$ALPHORN_PROMETHEUS");
}

#[test]
fn the_image_runs_as_nobody_and_on_every_processor() {
    let file = read("Dockerfile");
    let lines: Vec<&str> = file.lines().collect();
    let stages = lines.iter().filter(|line| line.starts_with("FROM "));
    assert_eq!(stages.count(), 2);
    let user = lines.iter().rposition(|line| line.starts_with("USER "));
    let copy = lines.iter().rposition(|line| line.starts_with("COPY "));
    assert!(user > copy && !file.contains("USER root"));
    for flag in ["target-cpu", "target-feature", "RUSTFLAGS"] {
        assert!(!file.contains(flag), "{flag}");
    }
}
