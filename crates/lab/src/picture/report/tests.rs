use super::*;
use std::path::Path;

fn result(name: &str) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../results/epyc-zen4-2")
        .join(name);
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// `cargo run -p alphorn-lab --example million > docs/img/million.svg` draws it again.
#[test]
fn the_picture_of_the_readme_is_drawn_from_the_recorded_run() {
    let drawn = million(
        &result("million-pq.json"),
        &result("million-pq-verify.json"),
    )
    .unwrap();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/img/million.svg");
    assert_eq!(std::fs::read_to_string(path).unwrap(), drawn);
    assert!(!drawn.contains("var(") && drawn.contains("1,048,576 votes"));
    // If a figure is missing there is no picture, rather than one with a gap.
    let mut less = result("million-pq.json");
    less["runs"][0]["block"] = Value::Null;
    assert!(million(&less, &result("million-pq-verify.json")).is_err());
}

#[test]
fn compare_has_a_picture_of_each_scheme_at_the_same_committees() {
    let report = &result("compare-sizes.json")["runs"][0];
    let slots = of_compare(&report["cases"], &report["million"]);
    let titles: Vec<&str> = slots.iter().map(|slot| slot.title.as_str()).collect();
    assert_eq!(
        titles,
        [
            "bls sum, committees of 8,192",
            "falcon slot proof, committees of 8,192",
            "xmss compact merged, committees of 8,192",
        ]
    );
    for slot in &slots {
        assert_eq!(slot.levels[0].name, "1,048,576 votes");
        assert_eq!(slot.pays.len(), 4);
        assert!(slot.end_s() > 0.0);
    }
    // Cells are merged into three groups, and these into a committee.
    let names: Vec<&str> = slots[2]
        .levels
        .iter()
        .map(|level| level.name.as_str())
        .collect();
    assert_eq!(
        names,
        [
            "1,048,576 votes",
            "1,536 cells",
            "384 groups",
            "128 committees"
        ]
    );
    assert_eq!(slots[1].levels.len(), 3);
}
