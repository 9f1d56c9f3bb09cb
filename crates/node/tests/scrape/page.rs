//! A page of metrics in the text format of OpenMetrics 1.0, read strictly.

use std::collections::{BTreeMap, BTreeSet};

/// All samples of one name of a page.
#[derive(Debug, Default)]
pub(crate) struct Metric {
    /// Its type.
    pub(crate) kind: String,
    /// Labels that its samples have.
    pub(crate) labels: BTreeSet<String>,
    /// Bounds of its buckets.
    pub(crate) buckets: Vec<f64>,
}

/// A page.
#[derive(Debug, Default)]
pub(crate) struct Page {
    /// Samples.
    pub(crate) series: usize,
    metrics: BTreeMap<String, Metric>,
    sums: BTreeMap<String, f64>,
}

impl Page {
    /// Reads a page.
    ///
    /// # Panics
    /// If it is none: every sample stands under the type of its name, and none comes twice.
    pub(crate) fn read(text: &str) -> Page {
        assert!(text.ends_with("\n# EOF\n"));
        let (mut page, mut seen) = (Page::default(), BTreeSet::new());
        let mut family = (String::new(), String::new());
        for line in text.lines() {
            if let Some(line) = line.strip_prefix("# TYPE ") {
                let (name, kind) = line.split_once(' ').unwrap();
                family = (name.to_owned(), kind.to_owned());
            } else if !line.starts_with('#') {
                let (series, value) = line.rsplit_once(' ').unwrap();
                assert!(seen.insert(series.to_owned()), "{series} comes twice");
                page.sample(&family, series, value.parse().unwrap());
            }
        }
        page.series = seen.len();
        page
    }

    fn sample(&mut self, (family, kind): &(String, String), series: &str, value: f64) {
        let (name, labels) = series.split_once('{').unwrap_or((series, ""));
        let suffix = name.strip_prefix(family.as_str());
        let suffix = suffix.unwrap_or_else(|| panic!("{name} stands under {family}"));
        let told = match (kind.as_str(), suffix) {
            ("counter", "_total") => name,
            ("gauge", "") | ("histogram", "_bucket" | "_sum" | "_count") => family,
            _ => panic!("{name} is a {kind}"),
        };
        let metric = self.metrics.entry(told.to_owned()).or_default();
        metric.kind.clone_from(kind);
        for (label, value) in split(labels.trim_end_matches('}')) {
            match (suffix, label.as_str()) {
                ("_bucket", "le") if value == "+Inf" => {}
                ("_bucket", "le") => metric.buckets.push(value.parse().unwrap()),
                _ => {
                    metric.labels.insert(label);
                }
            }
        }
        *self.sums.entry(name.to_owned()).or_default() += value;
    }

    /// The samples of a name.
    pub(crate) fn find(&self, name: &str) -> Option<&Metric> {
        self.metrics.get(name)
    }

    /// All names; of a histogram without what stands behind it.
    pub(crate) fn names(&self) -> impl Iterator<Item = &String> {
        self.metrics.keys()
    }

    /// Names as queries have them.
    pub(crate) fn sample_names(&self) -> impl Iterator<Item = &String> {
        self.sums.keys()
    }

    /// All labels.
    pub(crate) fn labels(&self) -> BTreeSet<&str> {
        let metrics = self.metrics.values();
        metrics
            .flat_map(|metric| metric.labels.iter().map(String::as_str))
            .collect()
    }

    /// All samples of a name together.
    pub(crate) fn sum(&self, name: &str) -> f64 {
        let sum = self.sums.get(name);
        *sum.unwrap_or_else(|| panic!("there is no {name}"))
    }
}

/// Labels and values; no value here has a comma or a quotation mark in it.
fn split(labels: &str) -> Vec<(String, String)> {
    let parts = labels.split(',').filter(|part| !part.is_empty());
    parts
        .map(|part| {
            let (label, value) = part.split_once('=').unwrap();
            let value = value.strip_prefix('"').and_then(|v| v.strip_suffix('"'));
            (label.to_owned(), value.unwrap().to_owned())
        })
        .collect()
}
