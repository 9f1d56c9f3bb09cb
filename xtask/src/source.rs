//! A Rust file split into code and string literals, with every line kept in place.
//!
//! The checks look for words. A word in a comment means something else than a word in code, so a
//! small lexer blanks comments and the content of literals. It knows nested block comments, raw
//! and byte strings, and the difference between a character and a lifetime.

use std::ops::Range;

/// Two views of one file; both have the line structure of the original, and bytes that do not
/// belong to the view are spaces.
#[derive(Default)]
pub(crate) struct Source {
    /// Code without comments and without the content of strings and characters.
    pub(crate) code: String,
    /// The content of strings alone.
    pub(crate) strings: String,
}

impl Source {
    /// Splits `text`.
    pub(crate) fn new(text: &str) -> Self {
        let mut lexer = Lexer {
            bytes: text.as_bytes(),
            at: 0,
            code: vec![],
            strings: vec![],
        };
        lexer.run();
        // Bytes outside ASCII were blanked, so both views are ASCII.
        let view = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Self {
            code: view(lexer.code),
            strings: view(lexer.strings),
        }
    }

    /// The lines (from 0) taken by inline modules under `#[cfg(test)]`.
    pub(crate) fn test_lines(&self) -> Vec<Range<usize>> {
        let line_at = |byte: usize| self.code[..byte].matches('\n').count();
        let mut ranges = Vec::new();
        let mut from = 0;
        while let Some(offset) = self.code[from..].find("#[cfg(") {
            let start = from + offset;
            from = start + 1;
            let rest = &self.code[start..];
            if !rest.starts_with("#[cfg(test)]") && !rest.starts_with("#[cfg(all(test") {
                continue;
            }
            let (Some(open), semicolon) = (rest.find('{'), rest.find(';')) else {
                continue;
            };
            let is_module = words(&rest[..open]).any(|word| word == "mod");
            if !is_module || semicolon.is_some_and(|semicolon| semicolon < open) {
                continue;
            }
            let end = start + open + block_bytes(&rest[open..]);
            ranges.push(line_at(start)..line_at(end) + 1);
            from = end;
        }
        ranges
    }
}

/// The length of the brace block that `code` starts with (the whole of `code` if it never closes).
pub(crate) fn block_bytes(code: &str) -> usize {
    let mut depth = 0_usize;
    for (index, byte) in code.bytes().enumerate() {
        match byte {
            b'{' => depth += 1,
            b'}' if depth <= 1 => return index,
            b'}' => depth -= 1,
            _ => {}
        }
    }
    code.len()
}

/// The identifiers, keywords and numbers of a piece of code.
pub(crate) fn words(code: &str) -> impl Iterator<Item = &str> {
    code.split(|c: char| !is_word(c))
        .filter(|word| !word.is_empty())
}

/// Whether `c` can be part of an identifier.
pub(crate) fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The positions of `needle` in `text` where it is not part of a longer word.
pub(crate) fn find_words<'a>(
    text: &'a str,
    needle: &'a str,
) -> impl Iterator<Item = usize> + use<'a> {
    text.match_indices(needle)
        .map(|(at, _)| at)
        .filter(move |&at| {
            let joins = |edge: Option<char>, next: Option<char>| {
                edge.is_some_and(is_word) && next.is_some_and(is_word)
            };
            !joins(needle.chars().next(), text[..at].chars().next_back())
                && !joins(
                    needle.chars().next_back(),
                    text[at + needle.len()..].chars().next(),
                )
        })
}

struct Lexer<'a> {
    bytes: &'a [u8],
    at: usize,
    code: Vec<u8>,
    strings: Vec<u8>,
}

/// Where a byte belongs.
#[derive(Clone, Copy, PartialEq)]
enum View {
    Code,
    Text,
    Nowhere,
}

impl Lexer<'_> {
    fn run(&mut self) {
        while let Some(&byte) = self.bytes.get(self.at) {
            match byte {
                b'/' if self.peek(1) == Some(b'/') => self.line_comment(),
                b'/' if self.peek(1) == Some(b'*') => self.block_comment(),
                b'"' => self.string(),
                b'r' if !self.follows_word() => self.raw_string_or_word(),
                b'\'' => self.character_or_lifetime(),
                _ => self.take(1, View::Code),
            }
        }
    }

    fn peek(&self, ahead: usize) -> Option<u8> {
        self.bytes.get(self.at + ahead).copied()
    }

    /// Whether the byte before this one belongs to a word; the prefixes `b` and `c` of a raw
    /// string do not count.
    fn follows_word(&self) -> bool {
        let word = |at: usize| self.bytes[at].is_ascii_alphanumeric() || self.bytes[at] == b'_';
        match self.at {
            0 => false,
            at if matches!(self.bytes[at - 1], b'b' | b'c') => at > 1 && word(at - 2),
            at => word(at - 1),
        }
    }

    fn take(&mut self, count: usize, view: View) {
        for _ in 0..count {
            let Some(&byte) = self.bytes.get(self.at) else {
                return;
            };
            let kept = |wanted: View| match byte {
                b'\n' => b'\n',
                _ if view == wanted && byte.is_ascii() => byte,
                _ => b' ',
            };
            self.code.push(kept(View::Code));
            self.strings.push(kept(View::Text));
            self.at += 1;
        }
    }

    fn line_comment(&mut self) {
        while self.peek(0).is_some_and(|byte| byte != b'\n') {
            self.take(1, View::Nowhere);
        }
    }

    fn block_comment(&mut self) {
        let mut depth = 0_usize;
        while self.at < self.bytes.len() {
            match (self.peek(0), self.peek(1)) {
                (Some(b'/'), Some(b'*')) => {
                    depth += 1;
                    self.take(2, View::Nowhere);
                }
                (Some(b'*'), Some(b'/')) => {
                    depth -= 1;
                    self.take(2, View::Nowhere);
                    if depth == 0 {
                        return;
                    }
                }
                _ => self.take(1, View::Nowhere),
            }
        }
    }

    fn string(&mut self) {
        self.take(1, View::Code);
        while let Some(byte) = self.peek(0) {
            match byte {
                b'"' => return self.take(1, View::Code),
                b'\\' => self.take(2, View::Text),
                _ => self.take(1, View::Text),
            }
        }
    }

    fn raw_string_or_word(&mut self) {
        let hashes = self.bytes[self.at + 1..]
            .iter()
            .take_while(|&&byte| byte == b'#')
            .count();
        if self.peek(1 + hashes) != Some(b'"') {
            return self.take(1, View::Code);
        }
        self.take(2 + hashes, View::Code);
        let mut close = vec![b'"'];
        close.resize(1 + hashes, b'#');
        while self.at < self.bytes.len() && !self.bytes[self.at..].starts_with(&close) {
            self.take(1, View::Text);
        }
        self.take(close.len(), View::Code);
    }

    fn character_or_lifetime(&mut self) {
        let rest = &self.bytes[self.at + 1..];
        let width = match rest.first() {
            // An escape ends at the next quote that is not itself escaped.
            Some(b'\\') => rest
                .iter()
                .skip(2)
                .position(|&byte| byte == b'\'')
                .map(|n| n + 2),
            Some(&first) => {
                let width = match first {
                    0..0x80 => 1,
                    0x80..0xe0 => 2,
                    0xe0..0xf0 => 3,
                    _ => 4,
                };
                (rest.get(width) == Some(&b'\'')).then_some(width)
            }
            None => None,
        };
        self.take(1, View::Code);
        if let Some(width) = width {
            self.take(width, View::Nowhere);
            self.take(1, View::Code);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(text: &str) -> String {
        let source = Source::new(text);
        assert_eq!(source.code.len(), text.len());
        assert_eq!(source.strings.len(), text.len());
        source.code.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn comments_and_literals_are_blanked() {
        assert_eq!(code("a // b\nc /* d /* e */ f */ g"), "a c g");
        assert_eq!(code(r#"x = "un\"safe"; y"#), r#"x = " "; y"#);
        assert_eq!(code(r##"r#"in " side"# out"##), r##"r#" "# out"##);
        assert_eq!(code(r##"br#"in"# out"##), r##"br#" "# out"##);
        assert_eq!(code("for r in 0..r# {}"), "for r in 0..r# {}");
        assert_eq!(
            code(r"'\'' 'x' 'é' &'a str '\\' z"),
            "' ' ' ' ' ' &'a str ' ' z"
        );
    }

    #[test]
    fn strings_are_kept_apart() {
        let source = Source::new("let a = \"hello\"; // not this");
        assert_eq!(source.strings.trim(), "hello");
    }

    #[test]
    fn only_inline_test_modules_are_test_lines() {
        let text = "#[cfg(test)]\nmod tests;\nfn a() {}\n#[cfg(test)]\nmod more {\n  fn b() {}\n}\nfn c() {}";
        assert_eq!(Source::new(text).test_lines(), vec![3..7]);
        assert!(
            Source::new("#[cfg(test)]\nfn helper() { }")
                .test_lines()
                .is_empty()
        );
    }

    #[test]
    fn words_have_borders() {
        assert_eq!(
            find_words("a_b b ab b", "b").collect::<Vec<_>>(),
            vec![4, 9]
        );
        assert_eq!(find_words("std::fs std::fsx", "std::fs").count(), 1);
        assert_eq!(
            words("let x_1=y;").collect::<Vec<_>>(),
            vec!["let", "x_1", "y"]
        );
    }
}
