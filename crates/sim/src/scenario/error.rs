//! Why a text is not a valid scenario.

/// Why a text is not a valid scenario.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScenarioError {
    /// Invalid TOML, an unknown key, or a value of the wrong type.
    #[error("{0}")]
    Toml(String),
    /// A number outside its bounds.
    #[error("{key} = {value}, allowed {min} to {max}")]
    Range {
        /// Dotted path of the key.
        key: String,
        /// Its value.
        value: u64,
        /// Minimum allowed.
        min: u64,
        /// Maximum allowed.
        max: u64,
    },
    /// A value that is invalid or inconsistent with another one.
    #[error("{key} = {value}: {why}")]
    Invalid {
        /// Dotted path of the key.
        key: String,
        /// Its value.
        value: String,
        /// What is allowed.
        why: String,
    },
}
