//! Self-contained pages: one file, no script, no network access; light and dark.
//!
//! A page has a dozen kinds of elements, each one line of HTML here, and pictures use the same escaping as text.
//! A template engine would take as many lines.

use crate::plot::{self, Plot};
use crate::text::escape;
use alphorn_scheme::model::FigureKind;
use std::fmt::Write;

/// A table; the first column contains names.
#[derive(Clone, Debug, Default)]
pub(crate) struct Table {
    /// What it shows.
    pub(crate) caption: String,
    /// Names of the columns.
    pub(crate) head: Vec<String>,
    /// The rows, each as long as the head.
    pub(crate) rows: Vec<Vec<String>>,
    /// Whether cells contain words, which are left-aligned and may wrap.
    pub(crate) is_words: bool,
}

impl Table {
    /// A table without rows.
    pub(crate) fn new(caption: impl Into<String>, head: &[&str]) -> Self {
        Table {
            caption: caption.into(),
            head: head.iter().map(|&name| name.to_owned()).collect(),
            rows: Vec::new(),
            is_words: false,
        }
    }

    /// A table of names with their descriptions, without a head.
    pub(crate) fn words(caption: impl Into<String>) -> Self {
        Table {
            is_words: true,
            ..Table::new(caption, &[])
        }
    }

    /// Adds a row.
    pub(crate) fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    fn html(&self) -> String {
        let class = if self.is_words {
            " class=\"words\""
        } else {
            ""
        };
        let mut html = format!(
            "<div class=\"wide\"><table{class}><caption>{}</caption>",
            escape(&self.caption)
        );
        if !self.head.is_empty() {
            html.push_str("<thead><tr>");
            for name in &self.head {
                html.push_str(&format!("<th scope=\"col\">{}</th>", escape(name)));
            }
            html.push_str("</tr></thead>");
        }
        html.push_str("<tbody>");
        for row in &self.rows {
            html.push_str("<tr>");
            for (i, cell) in row.iter().enumerate() {
                let (open, close) = match i {
                    0 => ("<th scope=\"row\">", "</th>"),
                    _ => ("<td>", "</td>"),
                };
                html.push_str(&format!("{open}{}{close}", escape(cell)));
            }
            html.push_str("</tr>");
        }
        html.push_str("</tbody></table></div>");
        html
    }
}

/// A picture with its figures.
#[derive(Clone, Debug)]
pub(crate) struct Picture {
    /// Its name, which is also its file name.
    pub(crate) name: &'static str,
    /// What it shows, in a few words.
    pub(crate) title: String,
    /// The same in one sentence.
    pub(crate) about: String,
    /// The picture as an element of a page.
    pub(crate) svg: String,
    /// Its figures.
    pub(crate) table: Table,
}

impl Picture {
    pub(crate) fn of(name: &'static str, plot: &Plot, table: Table) -> Self {
        Picture {
            name,
            title: plot.title.clone(),
            about: plot.about.clone(),
            svg: plot.svg(),
            table,
        }
    }

    /// The picture as a standalone file, with its colours for light and dark.
    pub(crate) fn file(&self) -> String {
        plot::sheet(&self.svg)
    }
}

/// A page under construction.
#[derive(Clone, Debug)]
pub(crate) struct Page {
    title: String,
    body: String,
}

impl Page {
    /// A page with a title and a lead sentence below it.
    pub(crate) fn new(title: &str, lead: &str) -> Self {
        let body = format!(
            "<header><h1>{}</h1><p class=\"lead\">{}</p></header>",
            escape(title),
            escape(lead)
        );
        Page {
            title: title.to_owned(),
            body,
        }
    }

    /// Adds a heading.
    pub(crate) fn heading(&mut self, text: &str) {
        self.put(format_args!("<h2>{}</h2>", escape(text)));
    }

    /// Adds a paragraph.
    pub(crate) fn text(&mut self, text: &str) {
        self.put(format_args!("<p>{}</p>", escape(text)));
    }

    /// Adds a highlighted line that states whether something holds.
    pub(crate) fn verdict(&mut self, text: &str, holds: bool) {
        let class = if holds { "holds" } else { "fails" };
        self.put(format_args!(
            "<p class=\"verdict {class}\">{}</p>",
            escape(text)
        ));
    }

    /// Adds a highlighted line without a judgement.
    pub(crate) fn note(&mut self, text: &str) {
        self.put(format_args!("<p class=\"verdict\">{}</p>", escape(text)));
    }

    /// Adds tiles of main figures: name, value.
    pub(crate) fn tiles(&mut self, tiles: &[(String, String)]) {
        self.body.push_str("<dl class=\"tiles\">");
        for (name, value) in tiles {
            self.put(format_args!(
                "<div><dt>{}</dt><dd>{}</dd></div>",
                escape(name),
                escape(value)
            ));
        }
        self.body.push_str("</dl>");
    }

    /// Adds a table.
    pub(crate) fn table(&mut self, table: &Table) {
        self.body.push_str(&table.html());
    }

    /// Adds a plot with its title, the kind of its figures, and those figures as a table.
    pub(crate) fn plot(&mut self, plot: &Plot, kind: FigureKind, table: &Table) {
        let tables = table.html();
        self.framed(&plot.title, &plot.about, &plot.svg(), kind, &tables);
    }

    /// The same for a picture that is already drawn.
    pub(crate) fn picture(&mut self, picture: &Picture, kind: FigureKind) {
        let tables = picture.table.html();
        self.framed(&picture.title, &picture.about, &picture.svg, kind, &tables);
    }

    /// Adds pictures of one kind side by side, as many as fit the page width.
    pub(crate) fn pictures(
        &mut self,
        title: &str,
        about: &str,
        pictures: &[Picture],
        kind: FigureKind,
    ) {
        let drawn: String = pictures
            .iter()
            .map(|picture| picture.svg.as_str())
            .collect();
        let tables: String = pictures
            .iter()
            .map(|picture| picture.table.html())
            .collect();
        let drawn = format!("<div class=\"beside\">{drawn}</div>");
        self.framed(title, about, &drawn, kind, &tables);
    }

    fn framed(&mut self, title: &str, about: &str, drawn: &str, kind: FigureKind, tables: &str) {
        self.put(format_args!(
            "<figure><figcaption><strong>{}</strong> <span class=\"origin\">{}</span><br/>{}</figcaption>{drawn}\
             <details><summary>The figures</summary>{tables}</details></figure>",
            escape(title),
            kind.name(),
            escape(about),
        ));
    }

    /// Adds a verbatim text, collapsed.
    pub(crate) fn source(&mut self, title: &str, text: &str) {
        self.put(format_args!(
            "<details class=\"source\"><summary>{}</summary><pre>{}</pre></details>",
            escape(title),
            escape(text)
        ));
    }

    /// Returns the page.
    pub(crate) fn finish(self) -> String {
        format!(
            "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/>\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\
             <meta name=\"color-scheme\" content=\"light dark\"/>\
             <title>{}</title><style>{}{STYLE}</style></head><body><main>{}</main></body></html>\n",
            escape(&self.title),
            plot::STYLE,
            self.body
        )
    }

    fn put(&mut self, piece: std::fmt::Arguments<'_>) {
        // Writing to a string cannot fail.
        let _ = self.body.write_fmt(piece);
    }
}

/// Style of everything except the pictures.
const STYLE: &str = include_str!("style.css");

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plot::well_formed;

    #[test]
    fn a_page_is_well_formed_and_needs_no_network() {
        let mut page = Page::new("rlnc <1 MB>", "10,000 nodes & one source");
        let mut table = Table::new("Delays", &["of nodes", "ms"]);
        table.row(vec!["50 %".into(), "<none>".into()]);
        page.heading("Delay");
        page.text("x < y");
        page.verdict("t99 = \"none\"", false);
        page.note("somewhere in between");
        let mut words = Table::words("The run");
        words.row(vec!["costs".into(), "a long sentence".into()]);
        page.table(&words);
        page.tiles(&[("t99".into(), "240 ms".into())]);
        page.table(&table);
        page.plot(&Plot::default(), FigureKind::Modelled, &table);
        page.source("scenario", "a = '<script>'\u{1b}");
        let html = page.finish();
        let body = &html[html.find("<main>").unwrap()..html.find("</body>").unwrap()];
        well_formed(body);
        assert!(html.contains("class=\"origin\">modelled<"));
        assert!(html.contains("<p class=\"verdict\">somewhere in between</p>"));
        assert!(html.contains("<table class=\"words\"><caption>The run</caption><tbody>"));
        for outside in [
            "http:", "https:", "<script", "@import", "url(", "src=", "\u{1b}",
        ] {
            assert!(!html.contains(outside), "{outside}");
        }
    }
}
