//! A picture as a standalone file.

use super::STYLE;
use std::collections::BTreeMap;

/// Turns an SVG element of a page into an SVG file with its size, its colours for light and dark, and a
/// background, so that it can be read on any page.
///
/// The light colours are also set as attributes. A browser prefers the style sheet, which uses no
/// variables; a program without style sheet support draws the attributes.
pub(crate) fn sheet(svg: &str) -> String {
    let (head, rest) = svg.split_once("</desc>").unwrap_or((svg, ""));
    let head = head.strip_prefix("<svg ").unwrap_or(head);
    // The style of a page, as far as pictures need it.
    let font = "svg { font-family: system-ui, -apple-system, \"Segoe UI\", Roboto, \"Liberation Sans\", sans-serif; }";
    let rules = rules();
    let [light, dark] = [colours(0), colours(1)];
    let dark_rules = rules
        .split_inclusive('}')
        .filter(|rule| rule.contains("var("));
    let dark_rules = with_colours(&dark_rules.collect::<String>(), &dark);
    let light_rules = with_colours(&rules, &light);
    let colours = light;
    let ground = colours.get("ground").copied().unwrap_or_default();
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" font-family=\"sans-serif\" {head}</desc>\
         <style>{light_rules} {font} @media (prefers-color-scheme: dark) {{ {dark_rules} }}</style>\
         <rect class=\"ground\" fill=\"{ground}\" width=\"100%\" height=\"100%\"/>{}\n",
        plain(rest, &colours)
    )
}

/// The colours of the style sheet by variable name: either the light or the dark ones.
fn colours(number: usize) -> BTreeMap<&'static str, &'static str> {
    let block = STYLE.split(":root {").nth(1 + number).unwrap_or_default();
    let block = block.split('}').next().unwrap_or_default();
    let pairs = block.split(';');
    let pairs = pairs.filter_map(|pair| pair.trim().strip_prefix("--")?.split_once(':'));
    pairs.map(|(name, colour)| (name, colour.trim())).collect()
}

/// The part of the style sheet after its colours, in one line, and the background.
fn rules() -> String {
    let rest = STYLE.rsplit_once(":root {").map_or("", |(_, rest)| rest);
    let rest = rest.split('}').skip(2).collect::<Vec<_>>().join("}");
    format!(
        "{} .ground {{ fill: var(--ground); }}",
        rest.trim().replace('\n', " ")
    )
}

/// Rules with their variables replaced by colours.
fn with_colours(rules: &str, colours: &BTreeMap<&str, &str>) -> String {
    let mut text = rules.trim().to_owned();
    for (name, colour) in colours {
        text = text.replace(&format!("var(--{name})"), colour);
    }
    text
}

/// Elements with the attributes that the style sheet would give them.
fn plain(svg: &str, colours: &BTreeMap<&str, &str>) -> String {
    let mut text = String::with_capacity(svg.len() * 2);
    for (at, piece) in svg.split('<').enumerate() {
        if at > 0 {
            text.push('<');
        }
        let name = piece.split([' ', '>', '/']).next().unwrap_or_default();
        let (open, rest) = piece.split_at(name.len());
        text.push_str(open);
        let tag = rest.split('>').next().unwrap_or_default();
        let classes = tag
            .split_once("class=\"")
            .and_then(|(_, of)| of.split_once('"'));
        let classes: Vec<&str> = classes.map_or(Vec::new(), |(of, _)| of.split(' ').collect());
        for (key, value) in attributes(name, &classes, colours) {
            // Writing to a string cannot fail.
            let _ = std::fmt::Write::write_fmt(&mut text, format_args!(" {key}=\"{value}\""));
        }
        text.push_str(rest);
    }
    text
}

/// What `plot.css` specifies for an element.
fn attributes(
    element: &str,
    classes: &[&str],
    colours: &BTreeMap<&str, &str>,
) -> Vec<(&'static str, String)> {
    let colour = |name: &str| colours.get(name).copied().unwrap_or("#000000").to_owned();
    let has = |class: &str| classes.contains(&class);
    // The number in a style class: s1, p1, f1, g1.
    let numbered = |prefix: char| {
        let found = classes.iter().find_map(|class| class.strip_prefix(prefix));
        let number = found.filter(|number| number.parse::<u8>().is_ok());
        number.map(|number| colour(&format!("c{number}")))
    };
    let dashes = |dashes: &str| ("stroke-dasharray", dashes.to_owned());
    match element {
        "text" => text_attributes(&has, &colour),
        "rect" if has("box") => vec![
            ("fill", colour("raised")),
            ("stroke", colour("c0")),
            ("stroke-width", "1.5".to_owned()),
        ],
        "circle" | "rect" => {
            let fill = numbered('p').or_else(|| numbered('f'));
            fill.map_or(Vec::new(), |fill| vec![("fill", fill)])
        }
        "path" if has("full") => {
            let fill = numbered('g').unwrap_or_else(|| colour("text"));
            vec![("fill", fill), ("stroke", colour("ground"))]
        }
        "path" => {
            let (stroke, width, dashed) = match () {
                () if has("grid") => (colour("line"), "1", None),
                () if has("axis") => (colour("soft"), "1", None),
                () if has("mark") => (colour("text"), "1", Some("2 3")),
                () if has("bound") => (colour("bad"), "1", Some("6 3")),
                () if has("whisker") => (colour("text"), "1.5", None),
                () if has("key") => (colour("soft"), "1.75", None),
                () if has("ring") => (numbered('g').unwrap_or_default(), "1.75", None),
                () => {
                    let width = if has("thin") { "1.25" } else { "2" };
                    let stroke = numbered('s').unwrap_or_else(|| colour("text"));
                    (stroke, width, line_dashes(classes))
                }
            };
            let mut all = vec![
                ("fill", "none".to_owned()),
                ("stroke", stroke),
                ("stroke-width", width.to_owned()),
            ];
            all.extend(dashed.map(dashes));
            all
        }
        _ => Vec::new(),
    }
}

fn text_attributes(
    has: &dyn Fn(&str) -> bool,
    colour: &dyn Fn(&str) -> String,
) -> Vec<(&'static str, String)> {
    let fill = match () {
        () if has("label") || has("mark") || has("head") => "text",
        () if has("bound") => "bad",
        () => "soft",
    };
    let size = match () {
        () if has("head") => "15",
        () if has("label") => "13",
        () => "12",
    };
    let mut all = vec![("fill", colour(fill)), ("font-size", size.to_owned())];
    all.extend(has("head").then(|| ("font-weight", "600".to_owned())));
    let anchor = [("end", "end"), ("mid", "middle")];
    let anchor = anchor.into_iter().find(|(class, _)| has(class));
    all.extend(anchor.map(|(_, anchor)| ("text-anchor", anchor.to_owned())));
    all
}

/// The dashes of a line style, as in the style sheet.
fn line_dashes(classes: &[&str]) -> Option<&'static str> {
    let class = classes.iter().find(|class| class.starts_with('s'))?;
    let rule = STYLE
        .split_once(&format!(".{class} {{"))?
        .1
        .split_once('}')?
        .0;
    let dashes = rule.split_once("stroke-dasharray:")?.1;
    Some(dashes.trim().trim_end_matches(';'))
}

#[cfg(test)]
mod tests {
    use super::super::{Axis, Layer, Mark, Plot, bars, well_formed};
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
        assert!(file.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\" "));
        for part in [
            "role=\"img\"",
            ".s0 { stroke: #0063a6; }",
            ".s0 { stroke: #62b4f0; }",
            ".ground { fill: #14171b; }",
            "prefers-color-scheme: dark",
            "c &amp; d",
            "class=\"s0 thin\"",
        ] {
            assert!(file.contains(part), "{part}");
        }
        for part in ["<script", "url(", "var(", "--"] {
            assert!(!file.contains(part), "{part}");
        }
        assert_eq!(file.matches('{').count(), file.matches('}').count());
    }

    /// Every element has its colour without the style sheet, so that nothing is drawn in black.
    #[test]
    fn a_file_needs_no_style_sheet() {
        let line = |name: &str| Layer::Line {
            name: name.into(),
            points: vec![(0.0, 1.0), (2.0, 3.0)],
        };
        let mark = |bound| Mark {
            at: 1.0,
            name: "m".into(),
            bound,
        };
        let plot = Plot {
            title: "t".into(),
            layers: vec![
                line("a"),
                line("b"),
                Layer::Points {
                    name: "c".into(),
                    points: vec![(1.0, 1.0, "p".into())],
                },
            ],
            marks: vec![mark(false), mark(true)],
            ..Plot::default()
        };
        let bar = super::super::Bar {
            name: "bar".into(),
            value: 2.0,
            range: Some((1.0, 3.0)),
        };
        for svg in [plot.titled_svg(), bars("b", "", "MB", &[bar])] {
            let file = sheet(&svg);
            let (_, drawn) = file.split_once("</style>").unwrap();
            for piece in drawn.split('<') {
                let name = piece.split([' ', '>']).next().unwrap_or_default();
                if ["path", "text", "rect", "circle"].contains(&name) {
                    assert!(piece.contains(" fill=\""), "{piece}");
                    assert!(
                        !piece.contains("#000000") && !piece.contains("=\"\""),
                        "{piece}"
                    );
                }
                if name == "path" {
                    assert!(piece.contains(" stroke=\"#"), "{piece}");
                }
            }
        }
        let file = sheet(&plot.titled_svg());
        assert!(file.contains("stroke=\"#c14a00\" stroke-width=\"1.25\" stroke-dasharray=\"8 3\""));
        assert!(file.contains("text-anchor=\"middle\""));
    }
}
