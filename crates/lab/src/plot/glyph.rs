//! Points that show two more properties in addition to their position: a category by shape, and
//! whether they count by being filled.

use super::{Frame, escape};
use std::fmt::Write;

/// The outline of a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// A circle.
    Circle,
    /// A square.
    Square,
    /// A triangle pointing up.
    Up,
    /// A triangle pointing down.
    Down,
    /// A square on its corner.
    Diamond,
}

/// A point of [`super::Layer::Glyphs`].
#[derive(Clone, Debug)]
pub(crate) struct Glyph {
    /// Horizontal coordinate.
    pub(crate) x: f64,
    /// Vertical coordinate.
    pub(crate) y: f64,
    /// Tooltip text.
    pub(crate) label: String,
    /// Its outline.
    pub(crate) shape: Shape,
    /// Whether it is filled; otherwise only an outline.
    pub(crate) is_filled: bool,
}

impl Shape {
    /// The outline around a position.
    pub(super) fn path(self, x: f64, y: f64) -> String {
        let corners: &[(f64, f64)] = match self {
            Shape::Circle => {
                return format!("M{:.1} {y:.1}a5 5 0 1 0 10 0a5 5 0 1 0 -10 0Z", x - 5.0);
            }
            Shape::Square => &[(-4.5, -4.5), (4.5, -4.5), (4.5, 4.5), (-4.5, 4.5)],
            Shape::Up => &[(0.0, -6.0), (5.5, 4.5), (-5.5, 4.5)],
            Shape::Down => &[(0.0, 6.0), (5.5, -4.5), (-5.5, -4.5)],
            Shape::Diamond => &[(0.0, -6.5), (6.5, 0.0), (0.0, 6.5), (-6.5, 0.0)],
        };
        let mut path = String::new();
        for (i, (dx, dy)) in corners.iter().enumerate() {
            let step = if i == 0 { 'M' } else { 'L' };
            // Writing to a string cannot fail.
            let _ = write!(path, "{step}{:.1} {:.1}", x + dx, y + dy);
        }
        path + "Z"
    }
}

/// Shapes of a layer's points: as many layers as there are shapes differ by shape, further ones by
/// colour.
const SHAPES: [Shape; 5] = [
    Shape::Circle,
    Shape::Square,
    Shape::Up,
    Shape::Diamond,
    Shape::Down,
];

/// Draws a filled point with a tooltip.
pub(super) fn point(svg: &mut String, x: f64, y: f64, style: usize, label: &str) {
    let path = SHAPES[style % SHAPES.len()].path(x, y);
    let title = match label {
        "" => String::new(),
        label => format!("<title>{}</title>", escape(label)),
    };
    // Writing to a string cannot fail.
    let _ = write!(
        svg,
        "<path class=\"full g{style}\" d=\"{path}\">{title}</path>"
    );
}

/// Draws the points of a layer.
pub(super) fn draw(svg: &mut String, frame: &Frame, points: &[Glyph], style: usize) {
    for point in points {
        let path = point.shape.path(frame.at_x(point.x), frame.at_y(point.y));
        let class = if point.is_filled { "full" } else { "ring" };
        // Writing to a string cannot fail.
        let _ = write!(
            svg,
            "<path class=\"{class} g{style}\" d=\"{path}\"><title>{}</title></path>",
            escape(&point.label)
        );
    }
}
