//! Texts of `--help`: broken into lines for readers of the source, and rewrapped once for readers of a
//! terminal.

use clap::Command;
use clap::builder::StyledStr;

/// Longest line of an example; longer ones are continued on the next.
const EXAMPLE_WIDTH: usize = 78;

/// Returns the command with the lines of each paragraph below its options joined, so that only the
/// terminal's width decides where they end, and with examples that can be copied from a terminal of 80
/// columns.
pub(crate) fn wrapped_once(command: Command) -> Command {
    let text = command.get_after_help().map(StyledStr::to_string);
    let command = match text {
        Some(text) => command.after_help(joined(&text)),
        None => command,
    };
    command.mut_subcommands(wrapped_once)
}

/// Joins unindented lines, which are prose, to those above; other lines are kept as they are, except
/// for commands.
fn joined(text: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    let mut in_prose = false;
    for line in text.lines() {
        let is_prose = line.starts_with(|c: char| !c.is_whitespace());
        match lines.last_mut() {
            // A line that ends with a colon introduces a list.
            Some(above) if is_prose && in_prose && !above.ends_with(':') => {
                above.push(' ');
                above.push_str(line);
            }
            Some(above) if above.ends_with('\\') => {
                above.pop();
                above.push_str(line.trim_start());
            }
            _ => lines.push(line.to_owned()),
        }
        in_prose = is_prose;
    }
    let lines: Vec<String> = lines.iter().map(|line| continued(line)).collect();
    lines.join("\n")
}

/// Breaks a command that is too long for a line, with shell continuations.
fn continued(line: &str) -> String {
    let command = line.trim_start();
    if line.chars().count() <= EXAMPLE_WIDTH || command == line || !command.starts_with("alphorn") {
        return line.to_owned();
    }
    let indent = line.len() - command.len();
    let mut text = " ".repeat(indent);
    let mut width = indent;
    for (at, unit) in units(command).iter().enumerate() {
        let length = unit.chars().count();
        if at > 0 && width + 1 + length + 2 > EXAMPLE_WIDTH {
            text.push_str(" \\\n");
            text.push_str(&" ".repeat(indent + 4));
            width = indent + 4;
        } else if at > 0 {
            text.push(' ');
            width += 1;
        }
        text.push_str(unit);
        width += length;
    }
    text
}

/// Splits a command into the words that stay together: an option with its value, and quoted text.
fn units(command: &str) -> Vec<String> {
    let mut units: Vec<String> = Vec::new();
    let mut quoted = false;
    for word in command.split(' ') {
        let belongs = |unit: &String| {
            quoted || (unit.starts_with("--") && !unit.contains(' ') && !word.starts_with('-'))
        };
        match units.last_mut() {
            Some(unit) if belongs(unit) => {
                unit.push(' ');
                unit.push_str(word);
            }
            _ => units.push(word.to_owned()),
        }
        quoted ^= word.matches(['\'', '"']).count() % 2 == 1;
    }
    units
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prose_is_joined_and_examples_stay() {
        let text =
            "Examples:\n  alphorn slot\n\nOne node hosts\nevery validator.\n\nThe next\nparagraph.";
        let expected =
            "Examples:\n  alphorn slot\n\nOne node hosts every validator.\n\nThe next paragraph.";
        assert_eq!(joined(text), expected);
    }

    #[test]
    fn tables_stay_as_they_are() {
        let text = format!("Rules:\n\n  rank   the first of {}", "many ".repeat(20));
        assert_eq!(joined(&text), text);
    }

    #[test]
    fn long_examples_can_be_copied() {
        let options = "--only eve=0.1 ".repeat(8);
        let long = format!("  alphorn sim chart t.csv {options}--title 'a b c' --out x.svg");
        let text = continued(&long);
        assert!(text.lines().count() > 1, "{text}");
        for line in text.lines() {
            assert!(line.chars().count() <= EXAMPLE_WIDTH, "{line}");
            assert!(!line.trim_end_matches(" \\").ends_with("--only"), "{line}");
        }
        assert!(text.contains("--title 'a b c'"), "{text}");
        // A shell removes a backslash at the end of a line.
        let words: Vec<&str> = text
            .split_whitespace()
            .filter(|word| *word != "\\")
            .collect();
        assert_eq!(words, long.split_whitespace().collect::<Vec<_>>());
        assert!(text.lines().rev().skip(1).all(|line| line.ends_with(" \\")));
        // So does this one, when its author broke it.
        assert_eq!(
            joined("Example:\n  alphorn a \\\n      --b c"),
            "Example:\n  alphorn a --b c"
        );
    }
}
