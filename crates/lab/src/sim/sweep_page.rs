//! The page of a sweep.

use crate::html::{Page, Table};
use crate::plot::{Axis, Layer, Plot, number, sheet};
use alphorn_scheme::model::FigureKind;
use alphorn_sim::sweep::Merged;
use std::collections::BTreeMap;

/// `report.html` of a sweep: delivery time against bytes sent, and the figures of each point.
pub(super) fn sweep_page(title: &str, lead: &str, merged: &Merged) -> String {
    let mut page = Page::new(title, lead);
    let failed: usize = merged.points.iter().map(|point| point.failed).sum();
    let verdict = match failed {
        0 => format!("{} runs, all that was expected holds.", merged.runs.len()),
        _ => format!("{failed} of {} runs do not hold.", merged.runs.len()),
    };
    page.verdict(&verdict, failed == 0);
    let mut table = Table::new(
        "Means over the seeds, with the standard deviation",
        &[
            "point",
            "runs",
            "t50 ms",
            "t99 ms",
            "t100 ms",
            "sent",
            "waste",
            "duplicates",
            "failed",
        ],
    );
    for point in &merged.points {
        let figure = |name: &str| {
            let spread = point.figure(name);
            match spread.map(|spread| (spread.mean, spread.sd)) {
                Some((Some(mean), Some(sd))) if sd > 0.0 => {
                    format!("{} \u{b1} {}", number(mean), number(sd))
                }
                Some((Some(mean), _)) => number(mean),
                _ => "none".into(),
            }
        };
        let part = |name: &str| match point.truncated {
            true => format!("{} (part)", figure(name)),
            false => figure(name),
        };
        table.row(vec![
            point.label(),
            point.runs.to_string(),
            figure("t50_ms"),
            figure("t99_ms"),
            figure("t100_ms"),
            part("sent_ratio"),
            part("waste_ratio"),
            part("dup_ratio"),
            point.failed.to_string(),
        ]);
    }
    match frontier(merged) {
        Some(plot) => page.plot(&plot, FigureKind::Modelled, &table),
        None => {
            page.table(&table);
            page.text("No point has delivered to 99 % with every seed.");
        }
    }
    page.finish()
}

/// The picture of the page as a standalone file, if any point has delivered to 99 %.
pub(super) fn sweep_picture(merged: &Merged) -> Option<String> {
    Some(sheet(&frontier(merged)?.titled_svg()))
}

/// Time to 99 % over bytes sent: further left and further down is better.
fn frontier(merged: &Merged) -> Option<Plot> {
    // Points with the same value of the last path share a colour.
    let mut groups: BTreeMap<String, Vec<(f64, f64, String)>> = BTreeMap::new();
    for point in &merged.points {
        let mean = |name| point.figure(name).and_then(|spread| spread.mean);
        let (Some(sent), Some(t99)) = (mean("sent_ratio"), mean("t99_ms")) else {
            continue;
        };
        let key = point.set.iter().next_back();
        let key = key.map_or(point.name.clone(), |(path, value)| {
            let name = path.rsplit('.').next().unwrap_or_default();
            format!("{name} {}", value.trim_matches('"'))
        });
        let label = format!(
            "{}: {} ms, {} payloads a node",
            point.label(),
            number(t99),
            number(sent)
        );
        groups.entry(key).or_default().push((sent, t99, label));
    }
    if groups.is_empty() {
        return None;
    }
    let layers = groups
        .into_iter()
        .map(|(name, points)| Layer::Points { name, points });
    let plot = Plot {
        title: "How fast, and what it costs".into(),
        about: "Time until 99 % of the honest nodes have it, over bytes sent; means over the seeds. Who is left and \
                below is better in both."
            .into(),
        x: Axis::from_zero("sent, payloads a node"),
        y: Axis::log("ms until 99 % have it"),
        layers: layers.collect(),
        ..Plot::default()
    };
    Some(plot)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alphorn_sim::report::manifest::{Figures, Manifest};

    #[test]
    fn a_page_has_every_point() {
        let run = |seed: u64| Manifest {
            id: seed.to_string(),
            name: "two".into(),
            seed,
            set: BTreeMap::from([
                ("protocol.kind".into(), "\"gossip\"".into()),
                ("traffic.bytes".into(), (1000 * (1 + seed / 2)).to_string()),
            ]),
            holds: seed != 1,
            figures: (seed != 1).then(|| Figures {
                t99_ns: Some(5_000_000),
                sent_ratio: seed as f64,
                ..Figures::default()
            }),
            ..Manifest::default()
        };
        let merged = Merged::of((0..4).map(run).collect());
        let page = sweep_page("two", "a test", &merged);
        assert_eq!(page.matches("Means over the seeds").count(), 1);
        for part in [
            "kind gossip, bytes 1000",
            "kind gossip, bytes 2000",
            "1 of 4 runs do not hold",
            "How fast, and what it costs",
        ] {
            assert!(page.contains(part), "{part}: {page}");
        }
        assert!(sweep_picture(&merged).is_some());
        assert!(sweep_picture(&Merged::default()).is_none());
    }
}
