//! The assumptions of hash-based proofs, and the options of commands that make them.

pub mod security;

use crate::error::Result;
use alphorn_xmss::{Preset, Proofs, Set};
use anyhow::anyhow;

/// Presets by their names on the command line.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum PresetName {
    /// Rate 1/4: the fastest prover
    Fast,
    /// Rate 1/16: a smaller proof, slower to make
    Small,
}

impl PresetName {
    /// Returns the preset.
    pub fn preset(self) -> Preset {
        match self {
            PresetName::Fast => Preset::FAST,
            PresetName::Small => Preset::SMALL,
        }
    }
}

/// Options of whatever proves hash-based signatures.
#[derive(clap::Args, Clone, Copy, Debug, Default)]
pub struct ProofOptions {
    /// Preset of XMSS proofs (default: fast)
    #[arg(long, value_enum, value_name = "PRESET")]
    preset: Option<PresetName>,
}

impl ProofOptions {
    /// Returns the preset.
    pub fn preset(&self) -> PresetName {
        self.preset.unwrap_or(PresetName::Fast)
    }

    /// Rejects the option for a scheme that has none.
    pub fn check(&self, scheme: &str) -> Result<()> {
        match self.preset {
            Some(preset) if scheme != "xmss" => {
                let name = preset.preset().name;
                Err(anyhow!("--preset {name}: {scheme} has no presets, xmss has").into())
            }
            _ => Ok(()),
        }
    }

    /// Rejects it where nothing is proved.
    pub fn check_unused(&self, why: &str) -> Result<()> {
        match self.preset {
            Some(preset) => Err(anyhow!("--preset {}: {why}", preset.preset().name).into()),
            None => Ok(()),
        }
    }
}

/// Returns the proofs of a set.
pub fn proofs(set: Set, preset: PresetName) -> Proofs {
    Proofs::new(set, preset.preset())
}

/// Rejects `--set` for a scheme without sets.
pub fn check_set(scheme: &str, set: Option<Set>) -> Result<()> {
    match set {
        Some(set) if scheme != "xmss" => {
            Err(anyhow!("--set {set}: {scheme} has no sets, xmss has").into())
        }
        _ => Ok(()),
    }
}

/// Name of the regime in which codes are assumed to be close.
pub(crate) const REGIME: &str = "johnson-proven";

#[cfg(test)]
mod tests {
    use super::*;
    use clap::ValueEnum;

    #[test]
    fn presets_have_the_names_of_their_options() {
        for preset in PresetName::value_variants() {
            let name = preset.to_possible_value().unwrap();
            assert_eq!(name.get_name(), preset.preset().name);
        }
    }
}
