//! Draws the picture of a slot of many votes from the JSON of a report: levels with the bytes that each
//! sends to the next, seconds by phase, and what each role pays.
//!
//! It is as wide as a phone, so a page can show several side by side, and its file is readable on any
//! background.

mod report;

pub use report::million;
pub(crate) use report::{of_compare, of_explore};

use std::fmt::Write;

use crate::html::{Picture, Table};
use crate::text::escape;

/// Width of the picture in its own units, and its margins.
const WIDTH: f64 = 360.0;
const MARGIN: f64 = 10.0;
/// Height of a line of text, and its capacity in characters across the picture or next to the name of a
/// role.
const LINE: f64 = 17.0;
const LETTERS: usize = 52;
const BESIDE: usize = 40;
/// Characters per line of the title, which is larger.
const TITLE: usize = 36;
/// Start of the text next to the name of a role.
const INDENT: f64 = 92.0;
/// Height of the box of a level, and distance from one to the next.
const BOX: f64 = 26.0;
const STEP: f64 = 52.0;

/// A slot of a scheme.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Slot {
    /// The scheme, and any special feature of the slot.
    pub(crate) title: String,
    /// Levels from the votes up.
    pub(crate) levels: Vec<Level>,
    /// Work or phases in order.
    pub(crate) times: Vec<Span>,
    /// Roles and what they pay.
    pub(crate) pays: Vec<(String, String)>,
    /// Source of the figures.
    pub(crate) source: String,
}

/// A level.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Level {
    /// Number and kind of its units.
    pub(crate) name: String,
    /// What each sends to the next level.
    pub(crate) gives: String,
}

/// A segment of the time line.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Span {
    pub(crate) name: String,
    pub(crate) begin_s: f64,
    pub(crate) end_s: f64,
    /// Label at its end.
    pub(crate) text: String,
}

/// Writing to a string cannot fail, so the result is dropped.
macro_rules! put {
    ($text:expr, $($arg:tt)*) => { let _ = write!($text, $($arg)*); };
}

impl Slot {
    /// Returns the end of its time line.
    pub(crate) fn end_s(&self) -> f64 {
        self.times.iter().map(|span| span.end_s).fold(0.0, f64::max)
    }

    /// Draws the picture, on a time line that ends at `end_s`, with its figures as a table.
    pub(crate) fn picture(&self, end_s: f64) -> Picture {
        Picture {
            name: "slot",
            title: self.title.clone(),
            about: self.about(),
            svg: self.svg(end_s),
            table: self.table(),
        }
    }

    fn about(&self) -> String {
        let levels = self
            .levels
            .iter()
            .map(|level| match level.gives.is_empty() {
                true => level.name.clone(),
                false => format!("{} ({})", level.name, level.gives),
            });
        let levels: Vec<String> = levels.collect();
        levels.join("; ")
    }

    fn table(&self) -> Table {
        let mut table = Table::new(self.title.as_str(), &["", ""]);
        let levels = self.levels.iter();
        let levels = levels.map(|level| (level.name.clone(), level.gives.clone()));
        let times = self.times.iter();
        let times = times.map(|span| (span.name.clone(), span.text.clone()));
        for (name, text) in levels.chain(times).chain(self.pays.iter().cloned()) {
            table.row(vec![name, text]);
        }
        table
    }

    fn svg(&self, end_s: f64) -> String {
        let mut svg = String::new();
        let mut y = 22.0;
        for line in wrapped(&self.title, TITLE) {
            text(&mut svg, "head", MARGIN, y, &line);
            y += 20.0;
        }
        y = self.draw_levels(&mut svg, y - 8.0);
        if !self.times.is_empty() {
            y = self.draw_times(&mut svg, y + 26.0, end_s);
        }
        if !self.pays.is_empty() {
            y = self.draw_pays(&mut svg, y + 26.0);
        }
        for line in wrapped(&self.source, LETTERS) {
            text(&mut svg, "", MARGIN, y + 8.0, &line);
            y += LINE;
        }
        format!(
            "<svg role=\"img\" viewBox=\"0 0 {WIDTH} {y:.0}\" aria-label=\"{title}\"><title>{title}</title>\
             <desc>{}</desc>{svg}</svg>",
            escape(&self.about()),
            title = escape(&self.title),
        )
    }

    /// Draws boxes that get narrower towards the top level, with an arrow from each to the next.
    fn draw_levels(&self, svg: &mut String, top: f64) -> f64 {
        let last = self.levels.len().saturating_sub(1).max(1) as f64;
        for (at, level) in self.levels.iter().enumerate() {
            let y = top + STEP * at as f64;
            let width = (WIDTH - 2.0 * MARGIN) * (1.0 - 0.42 * at as f64 / last);
            put!(
                svg,
                "<rect class=\"box\" x=\"{MARGIN}\" y=\"{y:.0}\" width=\"{width:.0}\" height=\"{BOX}\" rx=\"5\"/>"
            );
            text(svg, "label", MARGIN + 10.0, y + 18.0, &level.name);
            if level.gives.is_empty() {
                continue;
            }
            let (x, from) = (MARGIN + 22.0, y + BOX);
            let is_last = at + 1 == self.levels.len();
            let length = if is_last { 18.0 } else { STEP - BOX - 1.0 };
            put!(
                svg,
                "<path class=\"axis\" d=\"M{x:.0} {from:.0}v{length:.0}m-4 -6l4 6l4 -6\"/>"
            );
            text(svg, "", x + 14.0, from + 17.0, &level.gives);
        }
        let gives = self
            .levels
            .last()
            .is_some_and(|level| !level.gives.is_empty());
        let below = if gives { 20.0 } else { 0.0 };
        top + STEP * last + BOX + below
    }

    /// Draws each segment on its own line: its name, duration and position.
    fn draw_times(&self, svg: &mut String, top: f64, end_s: f64) -> f64 {
        let room = WIDTH - 2.0 * MARGIN;
        let place = |seconds: f64| MARGIN + room * (seconds / end_s.max(1e-9)).clamp(0.0, 1.0);
        heading(svg, "seconds", top);
        let mut y = top + 4.0;
        for span in &self.times {
            let (from, to) = (place(span.begin_s), place(span.end_s));
            text(svg, "", MARGIN, y + 14.0, &span.name);
            text(svg, "end", WIDTH - MARGIN, y + 14.0, &span.text);
            put!(
                svg,
                "<path class=\"grid\" d=\"M{MARGIN} {line:.1}h{room}\"/>\
                 <rect class=\"f0\" x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"6\"/>",
                from.min(WIDTH - MARGIN - 2.0),
                y + 19.0,
                (to - from).max(2.0),
                line = y + 22.0,
            );
            y += 28.0;
        }
        text(svg, "", MARGIN, y + 12.0, "0");
        let end = crate::text::seconds(end_s);
        text(svg, "end", WIDTH - MARGIN, y + 12.0, &end);
        y + 12.0
    }

    fn draw_pays(&self, svg: &mut String, top: f64) -> f64 {
        heading(svg, "what each role pays", top);
        let mut y = top + 18.0;
        for (role, pays) in &self.pays {
            text(svg, "label", MARGIN, y, role);
            for line in wrapped(pays, BESIDE) {
                text(svg, "", INDENT, y, &line);
                y += LINE;
            }
            y += 3.0;
        }
        y
    }
}

/// Draws text with an optional class.
fn text(svg: &mut String, class: &str, x: f64, y: f64, text: &str) {
    let class = match class {
        "" => String::new(),
        class => format!(" class=\"{class}\""),
    };
    put!(
        svg,
        "<text{class} x=\"{x:.0}\" y=\"{y:.0}\">{}</text>",
        escape(text)
    );
}

fn heading(svg: &mut String, text: &str, y: f64) {
    put!(
        svg,
        "<text class=\"label\" font-weight=\"600\" x=\"{MARGIN}\" y=\"{y:.0}\">{text}</text>"
    );
}

/// Wraps text at this many characters; a longer word gets a line of its own.
fn wrapped(text: &str, most: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= most => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_figure_is_in_the_picture_and_inside_it() {
        let slot = Slot {
            title: "a <scheme> & its slot".into(),
            levels: ["8 votes", "2 cells"]
                .map(|name| Level {
                    name: name.into(),
                    gives: "96 B each".into(),
                })
                .into(),
            times: vec![
                Span {
                    name: "prove".into(),
                    begin_s: 0.0,
                    end_s: 1.0,
                    text: "1.00 s".into(),
                },
                Span {
                    name: "verify".into(),
                    begin_s: 1.0,
                    end_s: 1.0,
                    text: "1 ms".into(),
                },
            ],
            pays: vec![(
                "voter".into(),
                "a sentence that is longer than there is room for beside its name".into(),
            )],
            source: "measured".into(),
        };
        let picture = slot.picture(slot.end_s());
        let svg = &picture.svg;
        for text in [
            "a &lt;scheme&gt; &amp; its slot",
            "8 votes",
            "96 B each",
            "verify",
            "1 ms",
            "voter",
            "measured",
        ] {
            assert!(svg.contains(text), "{text}");
        }
        let number = |part: &str, key: &str| -> Option<f64> {
            let value = part.split_once(&format!(" {key}=\""))?.1.split_once('"')?.0;
            value.parse().ok()
        };
        let height: f64 = svg
            .split_once("viewBox=\"0 0 360 ")
            .unwrap()
            .1
            .split_once('"')
            .unwrap()
            .0
            .parse()
            .unwrap();
        for part in svg
            .split('<')
            .filter(|part| part.starts_with("rect") || part.starts_with("text"))
        {
            let (x, y) = (number(part, "x").unwrap(), number(part, "y").unwrap());
            let right = x + number(part, "width").unwrap_or(0.0);
            assert!(
                (0.0..=WIDTH).contains(&x) && right <= WIDTH && y < height,
                "{part}"
            );
        }
        assert_eq!(picture.table.rows.len(), 2 + 2 + 1);
        // A longer time line makes shorter bars.
        assert_ne!(slot.picture(2.0).svg, picture.svg);
    }

    #[test]
    fn long_texts_take_several_lines() {
        assert_eq!(wrapped("one two three", 7), ["one two", "three"]);
        assert_eq!(wrapped("incomprehensible", 7), ["incomprehensible"]);
        assert!(wrapped("", 7).is_empty());
    }
}
