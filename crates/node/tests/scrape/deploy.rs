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
        // A node that is down tells nothing: Prometheus does.
        let is_others = query == "prometheus" || query.starts_with("up{");
        assert!(!names.is_empty() || is_others, "{query}");
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
        "NodeDown",
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

/// A field of a value, and what it must be.
fn demand(value: &Value, path: &str, holds: impl Fn(&Value) -> bool) {
    let found = path.split('.').fold(value, |value, name| &value[name]);
    assert!(holds(found), "{path}: {found} of {value}");
}

/// What Grafana reads of a dashboard (schemaVersion 39), as far as it is used here: an import drops what it
/// does not know without a word.
#[test]
fn the_dashboard_has_the_form_that_grafana_reads() {
    let dashboard: Value = serde_json::from_str(&read("grafana/alphorn.json")).unwrap();
    let is_text = |value: &Value| value.as_str().is_some_and(|text| !text.is_empty());
    for name in [
        "title",
        "uid",
        "refresh",
        "timezone",
        "time.from",
        "time.to",
    ] {
        demand(&dashboard, name, is_text);
    }
    demand(&dashboard, "schemaVersion", |version| version == 39);
    demand(&dashboard, "uid", |uid| {
        uid.as_str().is_some_and(|uid| uid.len() <= 40)
    });
    let variables = dashboard["templating"]["list"].as_array().unwrap();
    let mut known = BTreeSet::from(["__range", "__interval", "__rate_interval", "__all"]);
    for variable in variables {
        demand(variable, "name", is_text);
        demand(variable, "type", |kind| {
            matches!(kind.as_str(), Some("datasource" | "query"))
        });
        known.insert(variable["name"].as_str().unwrap());
    }
    for panel in dashboard["panels"].as_array().unwrap() {
        demand(panel, "title", is_text);
        demand(panel, "type", |kind| {
            matches!(kind.as_str(), Some("stat" | "timeseries"))
        });
        demand(panel, "datasource.type", |kind| kind == "prometheus");
        demand(panel, "datasource.uid", |uid| uid == "${datasource}");
        demand(panel, "fieldConfig.overrides", Value::is_array);
        demand(panel, "fieldConfig.defaults", Value::is_object);
        demand(panel, "options", Value::is_object);
        let targets = panel["targets"].as_array().unwrap();
        let mut names = BTreeSet::new();
        for target in targets {
            demand(target, "expr", is_text);
            demand(target, "legendFormat", is_text);
            let name = target["refId"].as_str().unwrap();
            assert!(
                names.insert(name),
                "{name} stands twice in {}",
                panel["title"]
            );
            // Variables that are not defined are sent to Prometheus as they stand.
            let query = target["expr"].as_str().unwrap();
            for after in query.split('$').skip(1) {
                let is_part = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
                let name = after.trim_start_matches('{');
                let name = &name[..name.find(|letter| !is_part(letter)).unwrap_or(name.len())];
                assert!(known.contains(name), "${name} of {query}");
            }
            let brackets =
                |open, close| query.matches(open).count() == query.matches(close).count();
            assert!(
                brackets('(', ')') && brackets('[', ']') && brackets('{', '}'),
                "{query}"
            );
        }
    }
}

/// What compose checks before it starts anything: that all that is named is there.
#[test]
fn what_compose_files_name_is_there() {
    for path in ["compose/devnet.yml", "compose/metrics-host.yml"] {
        let file = yaml(path);
        let services = file["services"].as_object().unwrap();
        let names = |value: &Value| -> BTreeSet<String> {
            match value {
                Value::Object(all) => all.keys().cloned().collect(),
                Value::Array(all) => all.iter().map(|one| one.as_str().unwrap().into()).collect(),
                _ => BTreeSet::new(),
            }
        };
        let (networks, volumes) = (names(&file["networks"]), names(&file["volumes"]));
        for (name, service) in services {
            let merged = &service["<<"];
            let field = |key: &str| match service.get(key) {
                Some(value) => value.clone(),
                None => merged[key].clone(),
            };
            demand(
                &serde_json::json!({"image": field("image")}),
                "image",
                |image| {
                    image
                        .as_str()
                        .is_some_and(|image| image == "alphorn" || image.contains(':'))
                },
            );
            for other in names(&field("depends_on")) {
                assert!(
                    services.contains_key(&other),
                    "{path}: {name} depends on {other}"
                );
            }
            let used = names(&field("networks"));
            assert!(used.is_subset(&networks), "{path}: {name}: {used:?}");
            for volume in field("volumes").as_array().into_iter().flatten() {
                let volume = volume.as_str().unwrap();
                let source = volume.split(':').next().unwrap();
                // Variables and paths are the machine's; all files of the repository must be there.
                if let Some(file) = source.strip_prefix("..") {
                    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../deploy");
                    assert!(
                        root.join(file.trim_start_matches('/')).exists(),
                        "{path}: {volume}"
                    );
                } else if !source.starts_with(['/', '.', '$']) {
                    assert!(volumes.contains(source), "{path}: {name}: {volume}");
                }
            }
        }
    }
}
