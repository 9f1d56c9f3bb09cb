//! The registry of one scrape, filled from snapshots.

use crate::notes::Histogram;
use prometheus_client::encoding::{EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use std::fmt;
use std::sync::atomic::AtomicU64;

/// Names and values.
pub(super) type Labels = Vec<(&'static str, String)>;

/// One label.
pub(super) fn label(name: &'static str, value: &str) -> Labels {
    vec![(name, value.to_owned())]
}

/// The registry of one scrape.
#[derive(Default)]
pub(super) struct Page(Registry);

impl Page {
    pub(super) fn registry(&self) -> &Registry {
        &self.0
    }

    pub(super) fn gauge(&mut self, name: &str, help: &str, value: f64) {
        let gauge = Gauge::<f64, AtomicU64>::default();
        gauge.set(value);
        self.0.register(name, help, gauge);
    }

    pub(super) fn gauges(
        &mut self,
        name: &str,
        help: &str,
        values: impl IntoIterator<Item = (Labels, f64)>,
    ) {
        let family = Family::<Labels, Gauge<f64, AtomicU64>>::default();
        for (labels, value) in values {
            family.get_or_create(&labels).set(value);
        }
        self.0.register(name, help, family);
    }

    /// A counter; the text adds `_total` to its name.
    pub(super) fn counter(&mut self, name: &str, help: &str, value: u64) {
        let counter = Counter::<u64>::default();
        counter.inc_by(value);
        self.0.register(name, help, counter);
    }

    pub(super) fn counters(
        &mut self,
        name: &str,
        help: &str,
        values: impl IntoIterator<Item = (Labels, u64)>,
    ) {
        let family = Family::<Labels, Counter>::default();
        for (labels, value) in values {
            family.get_or_create(&labels).inc_by(value);
        }
        self.0.register(name, help, family);
    }

    /// Counters of seconds.
    pub(super) fn counters_s(
        &mut self,
        name: &str,
        help: &str,
        values: impl IntoIterator<Item = (Labels, f64)>,
    ) {
        let family = Family::<Labels, Counter<f64, AtomicU64>>::default();
        for (labels, value) in values {
            family.get_or_create(&labels).inc_by(value);
        }
        self.0.register(name, help, family);
    }

    pub(super) fn histogram(&mut self, name: &str, help: &str, values: &Histogram) {
        self.0.register(name, help, One(values.clone()));
    }

    pub(super) fn histograms<'a>(
        &mut self,
        name: &str,
        help: &str,
        values: impl IntoIterator<Item = (Labels, &'a Histogram)>,
    ) {
        let values = values.into_iter();
        let rows = values.map(|(labels, values)| (labels, values.clone()));
        self.0.register(name, help, Rows(rows.collect()));
    }
}

/// A histogram without labels.
#[derive(Debug)]
struct One(Histogram);

impl EncodeMetric for One {
    fn encode(&self, encoder: MetricEncoder<'_>) -> fmt::Result {
        write(&self.0, encoder)
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Histogram
    }
}

/// Histograms by their labels.
#[derive(Debug)]
struct Rows(Vec<(Labels, Histogram)>);

impl EncodeMetric for Rows {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        for (labels, values) in &self.0 {
            write(values, encoder.encode_family(labels)?)?;
        }
        Ok(())
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Histogram
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

fn write(values: &Histogram, mut encoder: MetricEncoder<'_>) -> fmt::Result {
    let (sum, count, buckets) = (values.sum(), values.count(), values.buckets());
    encoder.encode_histogram::<NoLabelSet>(sum, count, &buckets, None)
}
