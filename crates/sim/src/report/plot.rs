//! Plots as SVG by our own code: lines, steps, points and bars, with axes, marks and a legend.
//!
//! No library draws them: the SVG of plotters has fixed colours and neither classes nor titles, so a page would have
//! no dark pictures and points would tell a reader nothing, and each dash there is a line of its own.
//!
//! Elements have the classes that the style sheet of [`super::html::Page`] colours, for light and for dark,
//! and in a file of their own ([`sheet`]) the light colours as attributes too, for programs that know no style
//! sheets. Lines differ by dashes and points by shapes, so that no reader depends on colours, and every plot has
//! a title and a description for those who cannot see it.

mod glyph;
mod names;
mod scale;
mod sheet;

pub use glyph::{Glyph, Shape};
pub use scale::{Axis, Scale, number};
pub use sheet::sheet;

/// Colours of lines after Okabe and Ito, which readers with any colour vision tell apart, darkened
/// for white paper; contrast with the ground is at least 3 to 1 for lines and 4.5 to 1 for text.
pub(super) const STYLE: &str = include_str!("plot.css");

use super::html::escape;
use names::{joined, name_at, stagger};
use scale::Span;
use std::fmt::Write;

/// Size of a plot, in its own units; a page scales it.
const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 300.0;
const LEFT: f64 = 72.0;
const RIGHT: f64 = 30.0;
const BOTTOM: f64 = 46.0;
/// Height of a line of text, and the width of a letter: an estimate that spares a font.
const LINE: f64 = 15.0;
const LETTER: f64 = 6.3;
/// Different lines of a plot at most; more share colours.
const STYLES: usize = 7;
/// Points of one line at most: more are not seen, and make the page heavy.
const POINTS_MAX: usize = 600;
/// Points of a line that are drawn as such at most: between a few nothing is known, and the line is thin.
const POINTED_MAX: usize = 32;

/// A plot.
#[derive(Clone, Debug, Default)]
pub struct Plot {
    /// What it shows, in a few words.
    pub title: String,
    /// The same for those who cannot see it, in a sentence with its main figures.
    pub about: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// What is drawn.
    pub layers: Vec<Layer>,
    /// Values of the horizontal axis that have a name.
    pub marks: Vec<Mark>,
    /// What shapes of points stand for, below the names of the layers.
    pub shapes: Vec<(Shape, String)>,
}

/// Something drawn, with a name for the legend.
#[derive(Clone, Debug)]
pub enum Layer {
    /// A line through points.
    Line {
        /// Its name.
        name: String,
        /// Its points, from left to right.
        points: Vec<(f64, f64)>,
    },
    /// A line that stays until the next point.
    Steps {
        /// Its name.
        name: String,
        /// Its points, from left to right.
        points: Vec<(f64, f64)>,
    },
    /// Single points.
    Points {
        /// Their name.
        name: String,
        /// Place and label of each.
        points: Vec<(f64, f64, String)>,
    },
    /// Single points of several shapes, filled or not.
    Glyphs {
        /// Their name.
        name: String,
        /// The points.
        points: Vec<Glyph>,
    },
}

/// A value of the horizontal axis that has a name.
#[derive(Clone, Debug)]
pub struct Mark {
    /// The value.
    pub at: f64,
    /// Its name.
    pub name: String,
    /// Whether it is a bound, and not a result.
    pub bound: bool,
}

/// One bar of [`bars`].
#[derive(Clone, Debug)]
pub struct Bar {
    /// Its name.
    pub name: String,
    /// Its length.
    pub value: f64,
    /// Least and most, drawn as a line over its end.
    pub range: Option<(f64, f64)>,
}

impl Layer {
    /// Its name.
    pub fn name(&self) -> &str {
        match self {
            Layer::Line { name, .. }
            | Layer::Steps { name, .. }
            | Layer::Points { name, .. }
            | Layer::Glyphs { name, .. } => name,
        }
    }

    /// Whether it is a line of few points, which are then drawn.
    fn is_pointed(&self) -> bool {
        matches!(self, Layer::Line { points, .. } if points.len() <= POINTED_MAX)
    }

    fn places(&self) -> Vec<(f64, f64)> {
        match self {
            Layer::Line { points, .. } | Layer::Steps { points, .. } => points.clone(),
            Layer::Points { points, .. } => points.iter().map(|(x, y, _)| (*x, *y)).collect(),
            Layer::Glyphs { points, .. } => points.iter().map(|point| (point.x, point.y)).collect(),
        }
    }
}

/// Writing to a string does not fail, so its results are dropped.
macro_rules! put {
    ($text:expr, $($arg:tt)*) => { let _ = write!($text, $($arg)*); };
}

impl Plot {
    /// The plot as an SVG element for a page.
    pub fn svg(&self) -> String {
        self.drawn(false)
    }

    /// The same with its title in the picture, for where no page says it.
    pub fn titled_svg(&self) -> String {
        self.drawn(true)
    }

    fn drawn(&self, titled: bool) -> String {
        let places: Vec<(f64, f64)> = self.layers.iter().flat_map(Layer::places).collect();
        let marks = self.marks.iter().map(|mark| mark.at);
        let frame = Frame {
            x: Span::of(&self.x, places.iter().map(|p| p.0).chain(marks)),
            y: Span::of(&self.y, places.iter().map(|p| p.1)),
            top: 0.0,
        };
        let title_lines = usize::from(titled && !self.title.is_empty());
        let (legend, legend_lines) = self.legend(title_lines);
        let names = joined(&self.marks, &frame);
        let rows = stagger(&names, &frame);
        let mark_lines = rows.iter().map(|row| row + 1).max().unwrap_or(0);
        let frame = Frame {
            top: 10.0
                + 4.0 * title_lines as f64
                + LINE * (title_lines + legend_lines + mark_lines) as f64,
            ..frame
        };
        let mut svg = open(&self.title, &self.about, frame.top + HEIGHT + BOTTOM);
        if title_lines > 0 {
            put!(
                svg,
                "<text class=\"label\" x=\"{LEFT}\" y=\"14\">{}</text>",
                escape(&self.title)
            );
        }
        svg.push_str(&legend);
        frame.axes(&mut svg, &self.x.label, &self.y.label);
        let class = |mark: &Mark| if mark.bound { "bound" } else { "mark" };
        let above = |row: usize| frame.top - 5.0 - LINE * row as f64;
        for mark in &self.marks {
            let (class, x, to) = (class(mark), frame.at_x(mark.at), frame.top + HEIGHT);
            put!(
                svg,
                "<path class=\"{class}\" d=\"M{x:.1} {:.1}V{to:.1}\"/>",
                frame.top
            );
        }
        // Names last, so that no line crosses them.
        for (mark, &row) in names.iter().zip(&rows) {
            let (class, x, y) = (class(mark), frame.at_x(mark.at), above(row));
            put!(
                svg,
                "<path class=\"{class}\" d=\"M{x:.1} {:.1}V{:.1}\"/>",
                y + 2.0,
                frame.top
            );
        }
        for (mark, &row) in names.iter().zip(&rows) {
            let x = name_at(mark, &frame);
            put_text(&mut svg, class(mark), x, above(row), &mark.name);
        }
        for (i, layer) in self.layers.iter().enumerate() {
            draw(&mut svg, &frame, layer, i % STYLES);
        }
        svg.push_str("</svg>");
        svg
    }

    /// The names of the layers above the plot, below so many lines, and how many lines they take.
    fn legend(&self, above: usize) -> (String, usize) {
        if self.layers.len() < 2 && self.shapes.is_empty() {
            return (String::new(), 0);
        }
        let (mut svg, mut x, mut line) = (String::new(), LEFT, 0);
        for (i, layer) in self.layers.iter().enumerate() {
            let width = 34.0 + LETTER * layer.name().chars().count() as f64;
            if x + width > WIDTH && x > LEFT {
                (x, line) = (LEFT, line + 1);
            }
            let y = 12.0 + LINE * (above + line) as f64 + 4.0 * above as f64;
            match layer {
                Layer::Glyphs { .. } => {
                    put!(
                        svg,
                        "<circle class=\"p{}\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"4\"/>",
                        i % STYLES,
                        x + 9.0,
                        y - 4.0
                    );
                }
                Layer::Points { .. } => glyph::point(&mut svg, x + 9.0, y - 4.0, i % STYLES, ""),
                Layer::Line { .. } | Layer::Steps { .. } => {
                    let thin = if layer.is_pointed() { " thin" } else { "" };
                    put!(
                        svg,
                        "<path class=\"s{}{thin}\" d=\"M{x:.1} {:.1}h18\"/>",
                        i % STYLES,
                        y - 4.0
                    );
                    if layer.is_pointed() {
                        glyph::point(&mut svg, x + 9.0, y - 4.0, i % STYLES, "");
                    }
                }
            }
            put_text(&mut svg, "", x + 22.0, y, layer.name());
            x += width;
        }
        for (at, (shape, name)) in self.shapes.iter().enumerate() {
            let width = 34.0 + LETTER * name.chars().count() as f64;
            if at == 0 || x + width > WIDTH {
                (x, line) = (LEFT, line + 1);
            }
            let y = 12.0 + LINE * (above + line) as f64 + 4.0 * above as f64;
            let path = shape.path(x + 9.0, y - 4.0);
            put!(svg, "<path class=\"ring key\" d=\"{path}\"/>");
            put_text(&mut svg, "", x + 22.0, y, name);
            x += width;
        }
        (svg, line + 1)
    }
}

/// A text of a class, if it has one.
fn put_text(svg: &mut String, class: &str, x: f64, y: f64, text: &str) {
    let class = match class {
        "" => String::new(),
        class => format!(" class=\"{class}\""),
    };
    let text = escape(text);
    put!(svg, "<text{class} x=\"{x:.1}\" y=\"{y:.1}\">{text}</text>");
}

fn open(title: &str, about: &str, height: f64) -> String {
    format!(
        "<svg role=\"img\" viewBox=\"0 0 {WIDTH} {height:.0}\" aria-label=\"{}\"><title>{}</title><desc>{}</desc>",
        escape(title),
        escape(title),
        escape(about)
    )
}

/// Where values lie in the picture.
struct Frame {
    x: Span,
    y: Span,
    top: f64,
}

impl Frame {
    fn at_x(&self, value: f64) -> f64 {
        LEFT + self.x.place(value) * (WIDTH - LEFT - RIGHT)
    }

    fn at_y(&self, value: f64) -> f64 {
        self.top + (1.0 - self.y.place(value)) * HEIGHT
    }

    fn axes(&self, svg: &mut String, x_label: &str, y_label: &str) {
        let (bottom, right) = (self.top + HEIGHT, WIDTH - RIGHT);
        for tick in self.y.ticks() {
            let y = self.at_y(tick);
            put!(svg, "<path class=\"grid\" d=\"M{LEFT} {y:.1}H{right}\"/>");
            put_text(svg, "end", LEFT - 7.0, y + 4.0, &number(tick));
        }
        let mut free = f64::MIN;
        for tick in self.x.ticks() {
            let (x, text) = (self.at_x(tick), number(tick));
            put!(
                svg,
                "<path class=\"grid\" d=\"M{x:.1} {:.1}V{:.1}\"/>",
                self.top,
                bottom + 4.0
            );
            let half = LETTER * text.len() as f64 / 2.0;
            if x - half > free {
                put_text(svg, "mid", x, bottom + 18.0, &text);
                free = x + half + 4.0;
            }
        }
        put!(
            svg,
            "<path class=\"axis\" d=\"M{LEFT} {:.1}V{bottom:.1}H{right}\"/>",
            self.top
        );
        let (middle, label) = ((LEFT + right) / 2.0, self.x.label(x_label));
        put_text(svg, "mid label", middle, bottom + 38.0, &label);
        put!(
            svg,
            "<text class=\"mid label\" transform=\"translate(14 {:.1}) rotate(-90)\">{}</text>",
            self.top + HEIGHT / 2.0,
            escape(&self.y.label(y_label))
        );
    }
}

fn draw(svg: &mut String, frame: &Frame, layer: &Layer, style: usize) {
    match layer {
        Layer::Line { points, .. } | Layer::Steps { points, .. } => {
            let steps = matches!(layer, Layer::Steps { .. });
            let mut path = String::new();
            let mut last_y = None;
            for (x, y) in thin(points) {
                let (x, y) = (frame.at_x(x), frame.at_y(y));
                match last_y {
                    None => {
                        put!(path, "M{x:.1} {y:.1}");
                    }
                    Some(_) if steps => {
                        put!(path, "H{x:.1}V{y:.1}");
                    }
                    Some(_) => {
                        put!(path, "L{x:.1} {y:.1}");
                    }
                }
                last_y = Some(y);
            }
            let thin = if layer.is_pointed() { " thin" } else { "" };
            put!(svg, "<path class=\"s{style}{thin}\" d=\"{path}\"/>");
            for (x, y) in points.iter().filter(|_| layer.is_pointed()) {
                let label = format!("{}: {}, {}", layer.name(), number(*x), number(*y));
                glyph::point(svg, frame.at_x(*x), frame.at_y(*y), style, &label);
            }
        }
        Layer::Glyphs { points, .. } => glyph::draw(svg, frame, points, style),
        Layer::Points { points, .. } => {
            for (x, y, label) in points {
                glyph::point(svg, frame.at_x(*x), frame.at_y(*y), style, label);
            }
        }
    }
}

/// At most [`POINTS_MAX`] points, evenly spaced, with the first and the last.
fn thin(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    if points.len() <= POINTS_MAX {
        return points.to_vec();
    }
    let last = points.len() - 1;
    let at = |i: usize| points[i * last / (POINTS_MAX - 1)];
    (0..POINTS_MAX).map(at).collect()
}

/// Bars from left to right, each in a line of its own.
pub fn bars(title: &str, about: &str, unit: &str, bars: &[Bar]) -> String {
    lines(title, about, &Axis::from_zero(unit), false, bars)
}

/// The same with a point for each value, over a logarithmic axis.
pub fn dots(title: &str, about: &str, unit: &str, dots: &[Bar]) -> String {
    lines(title, about, &Axis::log(unit), true, dots)
}

fn lines(title: &str, about: &str, axis: &Axis, is_dotted: bool, bars: &[Bar]) -> String {
    const ROW: f64 = 34.0;
    let widest = bars.iter().map(|bar| bar.name.chars().count()).max();
    let left = 24.0 + LETTER * widest.unwrap_or(0) as f64;
    let ends = bars
        .iter()
        .flat_map(|bar| [Some(bar.value), bar.range.map(|range| range.1)]);
    let span = Span::of(axis, ends.flatten());
    let at = |value: f64| left + span.place(value) * (WIDTH - left - RIGHT);
    let bottom = 8.0 + ROW * bars.len() as f64;
    let mut svg = open(title, about, bottom + BOTTOM);
    for tick in span.ticks() {
        let x = at(tick);
        put!(svg, "<path class=\"grid\" d=\"M{x:.1} 4V{bottom:.1}\"/>");
        put_text(&mut svg, "mid", x, bottom + 16.0, &number(tick));
    }
    for (i, bar) in bars.iter().enumerate() {
        let y = 8.0 + ROW * i as f64;
        let middle = y + ROW / 2.0 - 3.0;
        put_text(&mut svg, "end", left - 6.0, middle + 4.0, &bar.name);
        if is_dotted {
            let label = format!("{}: {}", bar.name, number(bar.value));
            glyph::point(&mut svg, at(bar.value), middle, 0, &label);
        } else {
            put!(
                svg,
                "<rect class=\"f0\" x=\"{left:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{:.1}\"/>",
                (at(bar.value) - left).max(1.0),
                ROW - 8.0
            );
        }
        if let Some((low, high)) = bar.range {
            let (low, high) = (at(low), at(high));
            put!(
                svg,
                "<path class=\"whisker\" d=\"M{low:.1} {middle:.1}H{high:.1}M{low:.1} {:.1}v8M{high:.1} {:.1}v8\"/>",
                middle - 4.0,
                middle - 4.0
            );
        }
    }
    put!(svg, "<path class=\"axis\" d=\"M{left:.1} 4V{bottom:.1}\"/>");
    let middle = (left + WIDTH - RIGHT) / 2.0;
    put_text(&mut svg, "mid label", middle, bottom + 36.0, &axis.label);
    svg + "</svg>"
}

#[cfg(test)]
mod tests;
#[cfg(test)]
pub(super) use tests::well_formed;
