//! The protocol and its drivers know what a scheme can do, never which one it is: only `lab` and
//! `cli` name a scheme.

use super::Report;
use crate::source::words;
use crate::tree::{File, Tree};

/// Crates that work with every scheme.
const NEUTRAL_CRATES: &[&str] = &[
    "broadcast",
    "dashboard",
    "net",
    "node",
    "proto",
    "sim",
    "worker",
];

/// Names of schemes and of their proof systems, in lower case and without a number behind.
const SCHEMES: &[&str] = &["bls", "blst", "falcon", "labrador", "stark", "xmss"];

/// Extensions of the web page, which has no code view.
const PAGE: &[&str] = &[".css", ".html", ".js", ".mjs", ".svg", ".ts"];

/// Checks code and strings (comments may explain by example) of the neutral crates.
pub(super) fn check(tree: &Tree, report: &mut Report) {
    for file in &tree.files {
        if !file
            .crate_folder()
            .is_some_and(|folder| NEUTRAL_CRATES.contains(&folder))
        {
            continue;
        }
        if file.is_rust() {
            check_view(file, &file.source.code, report);
            check_view(file, &file.source.strings, report);
        } else if PAGE.iter().any(|extension| file.path.ends_with(extension)) {
            check_view(file, &file.text, report);
        }
    }
}

fn check_view(file: &File, view: &str, report: &mut Report) {
    for (index, line) in view.lines().enumerate() {
        for word in words(line).filter(|word| names_scheme(word)) {
            let folder = file.crate_folder().unwrap_or_default();
            let message =
                format!("`{word}` names a scheme; `{folder}` must work with every scheme");
            report.error(file, index + 1, message);
        }
    }
}

/// Whether one of the parts of an identifier is the name of a scheme.
fn names_scheme(word: &str) -> bool {
    parts(word).iter().any(|part| {
        let part = part
            .trim_end_matches(|c: char| c.is_ascii_digit())
            .to_ascii_lowercase();
        SCHEMES.contains(&part.as_str())
    })
}

/// Splits `snake_case`, `CamelCase` and `HTTPServer` into their parts.
fn parts(word: &str) -> Vec<String> {
    let chars: Vec<char> = word.chars().collect();
    let mut parts = vec![String::new()];
    for (index, &c) in chars.iter().enumerate() {
        let before = index.checked_sub(1).map(|before| chars[before]);
        let after_lower = before.is_some_and(|before| !before.is_uppercase());
        let before_lower = chars.get(index + 1).is_some_and(|next| next.is_lowercase());
        if c == '_' || (c.is_uppercase() && (after_lower || before_lower)) {
            parts.push(String::new());
        }
        if c != '_'
            && let Some(part) = parts.last_mut()
        {
            part.push(c);
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::testing::errors;

    #[test]
    fn names_are_found_inside_identifiers_and_strings() {
        for line in [
            "use alphorn_bls::Bls;",
            "struct FalconKey;",
            "let bls_key = 1;",
            "fn verify_xmss() {}",
            "let name = \"labrador\";",
            "type K = BLSKey;",
            "type B = Bls12_381;",
        ] {
            let found = errors(check, &[("crates/proto/src/a.rs", line)]);
            assert!(!found.is_empty(), "{line}");
        }
        let page = "let label = 'falcon';";
        assert_eq!(
            errors(check, &[("crates/dashboard/web/page.js", page)]).len(),
            1
        );
    }

    #[test]
    fn other_words_comments_and_crates_pass() {
        let good = "// as with BLS\nlet tables = possibles; let starkly = 1; let assembly = 2;";
        assert_eq!(
            errors(check, &[("crates/proto/src/a.rs", good)]),
            Vec::<String>::new()
        );
        assert!(errors(check, &[("crates/cli/src/a.rs", "use alphorn_bls::Bls;")]).is_empty());
        assert!(errors(check, &[("crates/scheme/src/a.rs", "struct Bls;")]).is_empty());
    }

    #[test]
    fn identifiers_are_split() {
        assert_eq!(parts("verify_all"), ["verify", "all"]);
        assert_eq!(parts("BlsKey"), ["", "Bls", "Key"]);
        assert_eq!(parts("BLSKey"), ["BLS", "Key"]);
    }
}
