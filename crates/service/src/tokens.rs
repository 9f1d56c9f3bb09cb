//! The clients that may ask.

use std::collections::BTreeSet;

/// Maximum length of the name of a job or session, in characters.
const NAME_MAX: usize = 64;
/// Maximum number of clients with tokens.
const TOKENS_MAX: usize = 64;
/// Minimum length of a token in characters: 128 bits in hexadecimal.
const TOKEN_CHARS_MIN: usize = 32;

/// The authorised clients: anyone, by address, or the holder of a token, by its name.
#[derive(Clone, Debug)]
pub struct Tokens(pub(crate) Vec<(String, String)>);

impl Tokens {
    /// Anyone who can reach the service is a client, and is known by its address.
    pub fn anyone() -> Self {
        Tokens(Vec::new())
    }

    /// Reads one line `NAME TOKEN` for each client.
    ///
    /// # Errors
    /// If there is no client, a line is not of this form, a name is invalid, a name or a token occurs twice, or a token
    /// is too short.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut names = BTreeSet::new();
        let mut tokens: Vec<(String, String)> = Vec::new();
        for (number, line) in (1..).zip(text.lines()) {
            if line.trim().is_empty() {
                continue;
            }
            let words: Vec<&str> = line.split_whitespace().collect();
            let [name, token] = words[..] else {
                return Err(format!("line {number}: must be NAME TOKEN"));
            };
            check_name("NAME", name).map_err(|why| format!("line {number}: {why}"))?;
            let length = token.len();
            if length < TOKEN_CHARS_MIN {
                return Err(format!(
                    "line {number}: a token of {length} characters, at least {TOKEN_CHARS_MIN}"
                ));
            }
            if !names.insert(name) {
                return Err(format!("line {number}: {name} twice"));
            }
            // Its holder would be taken for another client.
            if tokens.iter().any(|(_, known)| known == token) {
                return Err(format!(
                    "line {number}: the token of {name} is another client's too"
                ));
            }
            tokens.push((name.to_owned(), token.to_owned()));
        }
        match tokens.len() {
            1..=TOKENS_MAX => Ok(Tokens(tokens)),
            count => Err(format!("{count} tokens, must be 1 to {TOKENS_MAX}")),
        }
    }
}

/// Rejects a name that is empty, too long, or has invalid characters.
pub(crate) fn check_name(what: &str, name: &str) -> Result<(), String> {
    let fits = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    match (1..=NAME_MAX).contains(&name.len()) && name.chars().all(fits) {
        true => Ok(()),
        false => Err(format!(
            "{what} is {name:?}, must be 1 to {NAME_MAX} letters, digits, dots, dashes or underlines"
        )),
    }
}
