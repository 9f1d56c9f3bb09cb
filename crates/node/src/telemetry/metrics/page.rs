//! Figures by name, as read by a scrape.

use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{EncodeMetric, MetricEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::{MetricType, TypedMetric};
use prometheus_client::registry::{Metric, Registry};
use std::fmt;
use std::sync::atomic::AtomicU64;

/// Names and values.
pub type Labels = Vec<(&'static str, String)>;

/// One label.
pub(super) fn label(name: &'static str, value: &str) -> Labels {
    labels([(name, value)])
}

/// Rows distinguished by one label.
pub(super) fn by<'a, V>(
    name: &'static str,
    rows: impl IntoIterator<Item = (&'a str, V)>,
) -> impl Iterator<Item = (Labels, V)> {
    let rows = rows.into_iter();
    rows.map(move |(value, figure)| (label(name, value), figure))
}

/// Adds figures without labels. A `total` was counted elsewhere, a `gauge` is a current value.
macro_rules! put {
    ($page:ident: $($kind:ident $name:literal, $help:literal = $value:expr;)+) => {
        $($page.$kind($name, $help, $value);)+
    };
}
pub(super) use put;

/// Creates several labels.
pub fn labels<const N: usize>(labels: [(&'static str, &str); N]) -> Labels {
    labels.map(|(name, value)| (name, value.to_owned())).into()
}

/// Cumulative figures are returned on registration, current ones are passed as values.
#[derive(Debug, Default)]
pub struct Page(pub(super) Registry);

impl Page {
    /// The text for a scrape.
    ///
    /// # Errors
    /// If it cannot be written, which never happens with a string.
    pub fn text(&self) -> Result<String, fmt::Error> {
        let mut text = String::new();
        encode(&mut text, &self.0)?;
        Ok(text)
    }

    /// Registers a figure, and returns it.
    pub(super) fn put<M: Metric + Clone>(&mut self, name: &str, help: &str, metric: M) -> M {
        self.0.register(name, help, metric.clone());
        metric
    }

    /// Registers a counter. The text adds `_total` to its name.
    pub(super) fn counter(&mut self, name: &str, help: &str) -> Counter {
        self.put(name, help, Counter::default())
    }

    pub(super) fn histogram(&mut self, name: &str, help: &str, bounds: &[f64]) -> Histogram {
        self.put(name, help, Histogram::new(bounds.iter().copied()))
    }

    /// Registers the members of a family. Each exists from the start, so that its first count is a change.
    pub(super) fn rows<M: Metric + TypedMetric + Clone>(
        &mut self,
        name: &str,
        help: &str,
        rows: Vec<(Labels, M)>,
    ) -> Vec<M> {
        let metrics = rows.iter().map(|(_, metric)| metric.clone()).collect();
        self.0.register(name, help, Rows(rows));
        metrics
    }

    /// Registers a family of counters.
    pub(super) fn counters(
        &mut self,
        name: &str,
        help: &str,
        rows: impl IntoIterator<Item = Labels>,
    ) -> Vec<Counter> {
        let rows = rows.into_iter().map(|labels| (labels, Counter::default()));
        self.rows(name, help, rows.collect())
    }

    /// Adds a current value.
    pub fn gauge(&mut self, name: &str, help: &str, value: f64) {
        self.put(name, help, gauge(value));
    }

    /// Adds current values distinguished by labels.
    pub(crate) fn gauges(
        &mut self,
        name: &str,
        help: &str,
        values: impl IntoIterator<Item = (Labels, f64)>,
    ) {
        let values = values.into_iter();
        let rows = values.map(|(labels, value)| (labels, gauge(value)));
        self.rows(name, help, rows.collect());
    }

    /// Adds a total counted elsewhere.
    pub fn total(&mut self, name: &str, help: &str, value: u64) {
        self.counter(name, help).inc_by(value);
    }

    /// Adds totals counted elsewhere, distinguished by labels.
    pub fn totals(
        &mut self,
        name: &str,
        help: &str,
        values: impl IntoIterator<Item = (Labels, u64)>,
    ) {
        let (labels, values): (Vec<Labels>, Vec<u64>) = values.into_iter().unzip();
        let counters = self.counters(name, help, labels);
        counters.iter().zip(values).for_each(|(counter, value)| {
            counter.inc_by(value);
        });
    }
}

fn gauge(value: f64) -> Gauge<f64, AtomicU64> {
    let gauge = Gauge::default();
    gauge.set(value);
    gauge
}

/// The members of a family. The library's own `Family` would create them one by one, with one constructor for all.
#[derive(Debug)]
struct Rows<M>(Vec<(Labels, M)>);

impl<M: EncodeMetric + TypedMetric> EncodeMetric for Rows<M> {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        let mut rows = self.0.iter();
        rows.try_for_each(|(labels, metric)| metric.encode(encoder.encode_family(labels)?))
    }

    fn metric_type(&self) -> MetricType {
        M::TYPE
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
