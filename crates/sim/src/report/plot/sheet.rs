//! A picture as a file of its own.

use super::STYLE;

/// An SVG element of a page as an SVG file: with its size, its colours for light and dark, and a ground,
/// so that it can be read on any page.
pub fn sheet(svg: &str) -> String {
    let (head, rest) = svg.split_once("</desc>").unwrap_or((svg, ""));
    let head = head.strip_prefix("<svg ").unwrap_or(head);
    // The style of a page, as far as pictures need it.
    let font = "svg { font-family: system-ui, -apple-system, \"Segoe UI\", Roboto, \"Liberation Sans\", sans-serif; }";
    let style = STYLE.replace("\n", " ");
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" {head}</desc><style>{style}{font} .ground {{ fill: var(--ground); }}</style>\
         <rect class=\"ground\" width=\"100%\" height=\"100%\"/>{rest}\n"
    )
}

#[cfg(test)]
mod tests {
    use super::super::{Axis, Layer, Plot, well_formed};
    use super::*;

    #[test]
    fn a_file_stands_alone() {
        let plot = Plot {
            title: "a < b".into(),
            about: "c & d".into(),
            x: Axis::from_zero("ms"),
            layers: vec![Layer::Line {
                name: "line".into(),
                points: vec![(0.0, 1.0), (2.0, 3.0)],
            }],
            ..Plot::default()
        };
        let file = sheet(&plot.svg());
        well_formed(file.trim_end());
        assert!(file.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\""));
        for part in [
            "--c0: #0063a6",
            "prefers-color-scheme: dark",
            "c &amp; d",
            "class=\"s0\"",
        ] {
            assert!(file.contains(part), "{part}");
        }
        assert!(!file.contains("<script") && !file.contains("url("));
    }
}
