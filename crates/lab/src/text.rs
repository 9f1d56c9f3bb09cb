//! Formatting of figures, and text in markup.

/// Formats a count with thin groups of three: 1,048,576.
pub fn count(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats bytes in decimal units with three digits.
pub fn bytes(value: u64) -> String {
    let units = [("GB", 1e9), ("MB", 1e6), ("kB", 1e3)];
    match units.iter().find(|(_, size)| value as f64 >= *size) {
        Some((unit, size)) => format!("{} {unit}", significant(value as f64 / size)),
        None => format!("{value} B"),
    }
}

/// Formats seconds in a suitable unit with three digits.
pub fn seconds(value: f64) -> String {
    match value {
        v if v >= 1.0 => format!("{} s", significant(v)),
        v if v >= 1e-3 => format!("{} ms", significant(v * 1e3)),
        v if v >= 1e-6 => format!("{} us", significant(v * 1e6)),
        v if v > 0.0 => format!("{} ns", significant(v * 1e9)),
        _ => "-".into(),
    }
}

/// Formats a ratio: 3.4x.
pub fn ratio(value: f64) -> String {
    format!("{}x", significant(value))
}

/// Formats three significant digits, without an exponent.
pub(crate) fn significant(value: f64) -> String {
    let decimals = match value.abs() {
        v if v >= 100.0 => 0,
        v if v >= 10.0 => 1,
        _ => 2,
    };
    format!("{value:.decimals$}")
}

/// Capitalises the first letter, as at the start of a sentence.
pub(crate) fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(char::to_uppercase);
    first.into_iter().flatten().chain(letters).collect()
}

/// Makes untrusted text safe for a terminal: anything that would control the terminal or change the
/// writing direction is escaped, except for newlines and tabs. Characters beyond the limit are dropped
/// and counted.
pub fn printable(text: &str, chars_max: usize) -> String {
    let steers = |c: char| {
        c.is_control() && !matches!(c, '\n' | '\t')
            || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    let mut shown = String::new();
    for (count, c) in text.chars().enumerate() {
        if count == chars_max {
            let more = text.chars().count() - chars_max;
            shown += &format!("... ({more} more characters)");
            break;
        }
        match steers(c) {
            true => shown.extend(c.escape_unicode()),
            false => shown.push(c),
        }
    }
    shown
}

/// Returns each item once, in order of first appearance.
pub(crate) fn each_once<T: PartialEq>(all: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut found = Vec::new();
    for one in all {
        if !found.contains(&one) {
            found.push(one);
        }
    }
    found
}

/// Escapes text so that it cannot be interpreted as markup.
pub(crate) fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            // XML and terminals do not support other control characters.
            c if c.is_control() && c != '\n' && c != '\t' => safe.push('\u{fffd}'),
            c => safe.push(c),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_printed_steers_no_terminal_and_ends() {
        let text = "tab\t\u{1b}[2J\u{202e}gnp.\nend";
        let shown = "tab\t\\u{1b}[2J\\u{202e}gnp.\nend";
        assert_eq!(printable(text, 100), shown);
        assert_eq!(printable("\u{e9}\u{e9}\u{e9}", 3), "\u{e9}\u{e9}\u{e9}");
        let long = "a".repeat(100_000);
        assert_eq!(printable(&long, 3), "aaa... (99997 more characters)");
    }

    #[test]
    fn what_comes_again_is_left_out() {
        assert_eq!(each_once(["b", "a", "b"]), ["b", "a"]);
        assert!(each_once::<u8>([]).is_empty());
    }

    #[test]
    fn figures_read_well() {
        assert_eq!(count(0), "0");
        assert_eq!(count(999), "999");
        assert_eq!(count(1_048_576), "1,048,576");
        assert_eq!(bytes(512), "512 B");
        assert_eq!(bytes(2_313_216), "2.31 MB");
        assert_eq!(seconds(0.1234), "123 ms");
        assert_eq!(seconds(42.0), "42.0 s");
        assert_eq!(seconds(0.0), "-");
        assert_eq!(ratio(10.26), "10.3x");
        assert_eq!(sentence("a verdict is exact"), "A verdict is exact");
        assert_eq!(sentence(""), "");
    }
}
