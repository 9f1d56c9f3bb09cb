//! Secrets in memory: wiped when dropped, never printed.

use super::input::{self, Permissions};
use crate::error::Result;
use anyhow::Context;
use std::path::Path;
use unicode_normalization::UnicodeNormalization;
use zeroize::Zeroizing;

/// Maximum size of a password file in bytes.
const PASSWORD_BYTES_MAX: usize = 4096;
/// Maximum number of bytes that one byte of UTF-8 becomes under NFKD: U+FDFA grows from 3 to 33.
/// Reserved in advance, so that no buffer grows and leaves a copy behind.
const NFKD_GROWTH_MAX: usize = 11;

/// A secret key as bytes, in the encoding of its scheme.
pub(super) struct Secret(Zeroizing<Vec<u8>>);

impl Secret {
    /// Takes ownership of bytes, which are wiped when the secret is dropped.
    pub(super) fn new(bytes: Vec<u8>) -> Self {
        Secret(Zeroizing::new(bytes))
    }

    /// Draws `length` bytes from the operating system's random generator.
    pub(super) fn random(length: usize) -> Result<Self> {
        let mut secret = Secret::new(vec![0; length]);
        fill_random(&mut secret.0)?;
        Ok(secret)
    }

    /// Returns the bytes.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

/// Fills a buffer from the operating system's random generator.
pub(super) fn fill_random(bytes: &mut [u8]) -> Result<()> {
    getrandom::fill(bytes)
        .map_err(|error| anyhow::anyhow!("no randomness from the operating system: {error}"))?;
    Ok(())
}

/// A password in the form used for key derivation (EIP-2335, "Password requirements").
pub(super) struct Password(Zeroizing<String>);

impl Password {
    /// Applies NFKD, then removes the control codes C0, C1 and Delete, in UTF-8.
    pub(super) fn from_text(text: &str) -> Self {
        let mut normal = Zeroizing::new(String::with_capacity(text.len() * NFKD_GROWTH_MAX));
        normal.extend(text.nfkd().filter(|c| !c.is_control()));
        Password(normal)
    }

    /// Reads a password file, `-` for standard input; a final newline is not part of it.
    pub(super) fn read(source: &Path, permissions: Permissions) -> Result<Self> {
        let bytes = input::read_secret(source, PASSWORD_BYTES_MAX, permissions)?;
        let text = std::str::from_utf8(&bytes)
            .with_context(|| format!("the password in {} is not UTF-8", source.display()))?;
        Ok(Password::from_text(text))
    }

    /// Like [`Password::read`], for a password that is to protect a key: it must not be empty.
    pub(super) fn read_new(source: &Path, permissions: Permissions) -> Result<Self> {
        let password = Password::read(source, permissions)?;
        if password.0.is_empty() {
            return Err(anyhow::anyhow!(
                "the password in {} is empty: a key needs at least 1 character",
                source.display()
            )
            .into());
        }
        Ok(password)
    }

    /// UTF-8.
    pub(super) fn bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_normalised_and_stripped_as_eip_2335_says() {
        let password = Password::from_text("𝔱𝔢𝔰𝔱𝔭𝔞𝔰𝔰𝔴𝔬𝔯𝔡🔑");
        assert_eq!(
            hex::encode(password.bytes()),
            "7465737470617373776f7264f09f9491"
        );
        let stripped = Password::from_text("a\u{0}b\u{1f}c\u{7f}d\u{80}e\u{9f}f g\r\n");
        assert_eq!(stripped.bytes(), b"abcdef g");
        let widest = Password::from_text("\u{fdfa}");
        assert_eq!(widest.bytes().len(), 3 * NFKD_GROWTH_MAX);
    }
}
