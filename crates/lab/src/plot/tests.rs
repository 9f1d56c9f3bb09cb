use super::*;

fn plot() -> Plot {
    let mark = |at, name: &str, bound| Mark {
        at,
        name: name.into(),
        bound,
    };
    Plot {
        title: "Delivery <delay>".into(),
        about: "half by 10 ms & all by 90 ms".into(),
        x: Axis::from_zero("ms"),
        y: Axis::from_zero("% of nodes"),
        layers: vec![
            Layer::Steps {
                name: "gossip".into(),
                points: (0..5000)
                    .map(|i| (f64::from(i), f64::from(i) / 50.0))
                    .collect(),
            },
            Layer::Line {
                name: "coded".into(),
                points: vec![(0.0, 0.0), (90.0, 100.0)],
            },
            Layer::Points {
                name: "runs".into(),
                points: vec![(10.0, 50.0, "seed \"1\"".into())],
            },
        ],
        marks: vec![
            mark(2000.0, "p50", false),
            mark(2010.0, "p90", false),
            mark(4900.0, "LB1", true),
        ],
        shapes: Vec::new(),
    }
}

/// Checks that every opened element is closed, and that no text opens one.
pub(crate) fn well_formed(markup: &str) {
    let mut open = Vec::new();
    for piece in markup.split('<').skip(1) {
        let (tag, _) = piece.split_once('>').expect("a tag ends");
        let name = tag
            .trim_start_matches('/')
            .split([' ', '/'])
            .next()
            .unwrap();
        if tag.starts_with('!') || ["meta", "br", "hr"].contains(&name) {
            continue;
        }
        if tag.starts_with('/') {
            assert_eq!(open.pop().as_deref(), Some(name), "</{name}> closes");
        } else if !tag.ends_with('/') {
            open.push(name.to_owned());
        }
    }
    assert!(open.is_empty(), "{open:?} stay open");
}

#[test]
fn a_plot_is_well_formed_and_escapes_its_texts() {
    let svg = plot().svg();
    well_formed(&svg);
    assert!(svg.contains("<title>Delivery &lt;delay&gt;</title>"));
    assert!(svg.contains("<desc>half by 10 ms &amp; all by 90 ms</desc>"));
    assert!(svg.contains("seed &quot;1&quot;"));
    assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    assert!(
        svg.len() < 30_000,
        "5000 points are thinned: {} bytes",
        svg.len()
    );
    well_formed(&Plot::default().svg());
}

#[test]
fn shapes_have_names_and_points_that_do_not_count_are_empty() {
    let shapes = [
        Shape::Circle,
        Shape::Square,
        Shape::Up,
        Shape::Down,
        Shape::Diamond,
    ];
    let glyph = |(i, shape): (usize, &Shape)| Glyph {
        x: i as f64,
        y: 10.0,
        label: format!("point <{i}>"),
        shape: *shape,
        is_filled: i < 2,
    };
    let plot = Plot {
        x: Axis::from_zero("s"),
        y: Axis::from_zero("B"),
        layers: vec![Layer::Glyphs {
            name: "scheme".into(),
            points: shapes.iter().enumerate().map(glyph).collect(),
        }],
        shapes: shapes
            .iter()
            .map(|shape| (*shape, format!("{shape:?}")))
            .collect(),
        ..Plot::default()
    };
    let svg = plot.svg();
    well_formed(&svg);
    assert_eq!(svg.matches("class=\"full g0\"").count(), 2);
    assert_eq!(svg.matches("class=\"ring g0\"").count(), 3);
    assert_eq!(svg.matches("class=\"ring key\"").count(), 5);
    assert!(svg.contains("<title>point &lt;4&gt;</title>"));
    assert!(svg.contains(">scheme</text>") && svg.contains(">Diamond</text>"));
    // The row of shapes is below that of the layers, and the plot is below both.
    let bare = Plot {
        shapes: Vec::new(),
        ..plot
    };
    assert!(
        !bare.svg().contains(">scheme</text>"),
        "one layer needs no name"
    );
}

#[test]
fn few_points_are_drawn_and_logarithmic_axes_say_so() {
    let line = |name: &str, count: u32| Layer::Line {
        name: name.into(),
        points: (1..=count).map(|i| (f64::from(i), f64::from(i))).collect(),
    };
    let plot = Plot {
        x: Axis::from_zero("nodes"),
        y: Axis::log("ms"),
        layers: vec![line("few", 4), line("many", 100)],
        ..Plot::default()
    };
    let svg = plot.svg();
    well_formed(&svg);
    assert_eq!(
        svg.matches("class=\"full g0\"").count(),
        4 + 1,
        "and its key"
    );
    assert_eq!(svg.matches("class=\"full g1\"").count(), 0);
    assert!(svg.contains("<title>few: 4, 4</title>"));
    assert!(svg.contains(">ms (logarithmic)<") && svg.contains(">nodes<"));
}

#[test]
fn thinned_lines_keep_their_ends() {
    let points: Vec<(f64, f64)> = (0..10_000).map(|i| (f64::from(i), 0.0)).collect();
    let thinned = thin(&points);
    assert_eq!(thinned.len(), POINTS_MAX);
    assert_eq!((thinned[0].0, thinned[POINTS_MAX - 1].0), (0.0, 9999.0));
    assert!(thinned.is_sorted_by(|a, b| a.0 < b.0));
    assert_eq!(thin(&points[..7]), points[..7]);
}

#[test]
fn names_of_near_marks_have_lines_of_their_own() {
    let plot = plot();
    let frame = Frame {
        x: Span::of(&plot.x, [0.0, 5000.0].into_iter()),
        y: Span::of(&plot.y, [0.0].into_iter()),
        top: 0.0,
    };
    let names = joined(&plot.marks, &frame);
    let texts: Vec<&str> = names.iter().map(|mark| mark.name.as_str()).collect();
    assert_eq!(texts, ["p50, p90", "LB1"], "near marks share a name");
    assert_eq!(stagger(&names, &frame), [0, 0]);
    let mark = |at| Mark {
        at,
        name: "a long name".into(),
        bound: false,
    };
    assert_eq!(stagger(&[mark(2000.0), mark(2200.0)], &frame), [1, 0]);
    // The last name stays inside the picture.
    assert!(name_at(&mark(5000.0), &frame) + 11.0 * LETTER <= WIDTH);
}

#[test]
fn bars_show_value_and_range() {
    let bar = |name: &str, value| Bar {
        name: name.into(),
        value,
        range: Some((value / 2.0, value * 2.0)),
    };
    let svg = bars(
        "Bytes",
        "per class",
        "MB",
        &[bar("full & attester", 3.0), bar("builder", 0.0)],
    );
    well_formed(&svg);
    assert_eq!(svg.matches("<rect").count(), 2);
    assert_eq!(svg.matches("whisker").count(), 2);
    assert!(svg.contains("full &amp; attester"));
    well_formed(&bars("none", "", "", &[]));
    let svg = dots("Seconds", "", "s", &[bar("sum", 1e-3), bar("proof", 10.0)]);
    well_formed(&svg);
    assert_eq!(
        (svg.matches("<rect").count(), svg.matches("full g0").count()),
        (0, 2)
    );
}
