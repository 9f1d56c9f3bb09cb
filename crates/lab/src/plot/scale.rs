//! Axes: a range, a scale, and the positions of ticks.

/// How values map to positions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Scale {
    /// Equal steps are equal differences.
    #[default]
    Linear,
    /// Equal steps are equal factors. Values must be positive; others are left out.
    Log,
}

/// An axis of a plot.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Axis {
    /// Label with the unit.
    pub(crate) label: String,
    /// How values map to positions.
    pub(crate) scale: Scale,
    /// Values that the axis must include, in addition to the data.
    pub(crate) include: Vec<f64>,
}

impl Axis {
    /// A linear axis that starts at zero.
    pub(crate) fn from_zero(label: impl Into<String>) -> Self {
        Axis {
            label: label.into(),
            scale: Scale::Linear,
            include: vec![0.0],
        }
    }

    /// A logarithmic axis.
    pub(crate) fn log(label: impl Into<String>) -> Self {
        Axis {
            label: label.into(),
            scale: Scale::Log,
            include: Vec::new(),
        }
    }
}

/// An axis with a known range.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    scale: Scale,
    from: f64,
    to: f64,
}

/// Approximate number of ticks on an axis.
const TICKS: f64 = 6.0;

impl Span {
    /// The range of an axis over its data, widened to whole ticks.
    pub(super) fn of(axis: &Axis, data: impl Iterator<Item = f64>) -> Self {
        let shown =
            |value: &f64| value.is_finite() && (axis.scale == Scale::Linear || *value > 0.0);
        let all = || axis.include.iter().copied();
        let (mut from, mut to) = data
            .chain(all())
            .filter(shown)
            .fold((f64::MAX, f64::MIN), |(from, to), v| {
                (from.min(v), to.max(v))
            });
        if from > to {
            (from, to) = (1.0, 2.0);
        }
        match axis.scale {
            Scale::Linear => {
                if to - from < 1e-9 * to.abs().max(1.0) {
                    to = from + from.abs().max(1.0);
                }
                let step = step(to - from);
                from = (from / step).floor() * step;
                to = (to / step - 1e-9).ceil() * step;
            }
            Scale::Log => {
                from /= 1.15;
                to *= 1.15;
            }
        }
        Span {
            scale: axis.scale,
            from,
            to,
        }
    }

    /// The label of the axis, which mentions a logarithmic scale.
    pub(super) fn label(&self, label: &str) -> String {
        match self.scale {
            Scale::Log if !label.is_empty() => format!("{label} (logarithmic)"),
            _ => label.to_owned(),
        }
    }

    /// Position of a value from 0 to 1; values outside are clamped.
    pub(super) fn place(&self, value: f64) -> f64 {
        let share = match self.scale {
            Scale::Linear => (value - self.from) / (self.to - self.from),
            Scale::Log if value <= 0.0 => 0.0,
            Scale::Log => (value / self.from).ln() / (self.to / self.from).ln(),
        };
        share.clamp(0.0, 1.0)
    }

    /// Round values along the axis.
    pub(super) fn ticks(&self) -> Vec<f64> {
        match self.scale {
            Scale::Linear => {
                let step = step(self.to - self.from);
                let first = (self.from / step).round() as i64;
                let last = (self.to / step).round() as i64;
                (first..=last).map(|i| i as f64 * step).collect()
            }
            Scale::Log => self.log_ticks(),
        }
    }

    /// Ticks at 1, 2 and 5 of each decade; only the decades if those are too many, all nine if too
    /// few.
    fn log_ticks(&self) -> Vec<f64> {
        let (first, last) = (self.from.log10().floor(), self.to.log10().ceil());
        let digits: &[f64] = match last - first {
            decades if decades > 4.0 => &[1.0],
            _ if self.to / self.from < 4.0 => &[1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0],
            _ => &[1.0, 2.0, 5.0],
        };
        let decades = (first as i32)..=(last as i32);
        let inside = |value: &f64| (self.from..=self.to).contains(value);
        let ticks: Vec<f64> = decades
            .flat_map(|decade| digits.iter().map(move |digit| digit * 10f64.powi(decade)))
            .filter(inside)
            .collect();
        if ticks.len() > 2 {
            return ticks;
        }
        // The range is so narrow that a logarithm is nearly linear.
        let step = step(self.to - self.from);
        let from = (self.from / step).ceil();
        (0..20)
            .map(|i| (from + f64::from(i)) * step)
            .filter(inside)
            .collect()
    }
}

/// A step of 1, 2 or 5 times a power of ten that gives about [`TICKS`] ticks.
fn step(width: f64) -> f64 {
    let raw = width / TICKS;
    let power = 10f64.powf(raw.log10().floor());
    let digit = raw / power;
    let round = [1.0, 2.0, 5.0].into_iter().find(|&round| digit <= round);
    round.unwrap_or(10.0) * power
}

/// A number in readable form: three significant digits or all before the point, in groups of three.
pub(crate) fn number(value: f64) -> String {
    let size = value.abs();
    if size >= 1e15 || (size > 0.0 && size < 1e-3) {
        return format!("{value:.1e}");
    }
    let decimals = match size {
        v if v >= 100.0 || v == 0.0 => 0,
        v if v >= 10.0 => 1,
        v if v >= 1.0 => 2,
        _ => 3,
    };
    let text = format!("{size:.decimals$}");
    let (whole, rest) = text.split_once('.').unwrap_or((&text, ""));
    let rest = rest.trim_end_matches('0');
    let mut grouped = String::new();
    for (i, digit) in whole.chars().enumerate() {
        if i > 0 && (whole.len() - i).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    let sign = if value < 0.0 { "-" } else { "" };
    match rest {
        "" => format!("{sign}{grouped}"),
        rest => format!("{sign}{grouped}.{rest}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_end_at_ticks_that_are_round() {
        let span = Span::of(&Axis::from_zero("ms"), [3.0, 97.0].into_iter());
        assert_eq!(span.ticks(), [0.0, 20.0, 40.0, 60.0, 80.0, 100.0]);
        assert_eq!(
            (span.place(0.0), span.place(50.0), span.place(1e9)),
            (0.0, 0.5, 1.0)
        );
        let log = Span::of(&Axis::log("bytes"), [1.0, 100.0, 0.0, -4.0].into_iter());
        assert_eq!(log.ticks(), [1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0]);
        assert!((log.place(10.0) - 0.5).abs() < 1e-9);
        let narrow = Span::of(&Axis::log("ms"), [460.0, 463.0].into_iter());
        assert!(
            [450.0, 500.0]
                .iter()
                .all(|tick| narrow.ticks().contains(tick))
        );
    }

    #[test]
    fn strange_data_still_have_a_range() {
        for data in [
            vec![],
            vec![5.0],
            vec![0.0],
            vec![f64::NAN, f64::INFINITY],
            vec![1e300],
        ] {
            for axis in [Axis::default(), Axis::from_zero(""), Axis::log("")] {
                let span = Span::of(&axis, data.iter().copied());
                let ticks = span.ticks();
                assert!(ticks.len() < 30, "{data:?} {axis:?} {ticks:?}");
                assert!(span.from < span.to, "{data:?} {axis:?}");
            }
        }
    }

    #[test]
    fn numbers_read_well() {
        let texts = [0.0, 0.5, 1.234, 12.0, 1234.5, -1e6, 2e-6].map(number);
        assert_eq!(
            texts,
            ["0", "0.5", "1.23", "12", "1,234", "-1,000,000", "2.0e-6"]
        );
    }
}
