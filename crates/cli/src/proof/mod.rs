//! `alphorn proof`: what only hash-based proofs have.

mod inspect;
mod security;

use crate::error::Result;
use alphorn_xmss::{Preset, Proofs, Set};
use anyhow::anyhow;
use clap::Subcommand;

/// Hash-based proofs that many signed: look into them, and what they rest on
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand, Debug)]
enum What {
    /// Header, statement and the sizes of all parts of a proof
    Inspect(inspect::Args),
    /// The error of each step in bits, computed from the sizes, and all assumptions
    Security(security::Args),
}

pub(crate) fn run(args: &Args) -> Result<()> {
    match &args.what {
        What::Inspect(args) => inspect::run(args),
        What::Security(args) => security::run(args),
    }
}

/// Presets by their names on the command line.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PresetName {
    /// Rate 1/4: the fastest prover
    Fast,
    /// Rate 1/8: a smaller proof, slower to make
    Small,
}

impl PresetName {
    /// The preset.
    pub(crate) fn preset(self) -> Preset {
        match self {
            PresetName::Fast => Preset::FAST,
            PresetName::Small => Preset::SMALL,
        }
    }
}

/// Options of whatever proves hash-based signatures.
#[derive(clap::Args, Clone, Copy, Debug, Default)]
pub(crate) struct ProofOptions {
    /// Preset of proofs of XMSS; fast by default
    #[arg(long, value_enum, value_name = "PRESET")]
    preset: Option<PresetName>,
}

impl ProofOptions {
    /// The preset.
    pub(crate) fn preset(&self) -> PresetName {
        self.preset.unwrap_or(PresetName::Fast)
    }

    /// Refuses the option for a scheme that has none.
    pub(crate) fn check(&self, scheme: &str) -> Result<()> {
        match self.preset {
            Some(preset) if scheme != "xmss" => {
                let name = preset.preset().name;
                Err(anyhow!("--preset {name}: {scheme} has no presets, xmss has").into())
            }
            _ => Ok(()),
        }
    }
}

/// The proofs of a set; a set without them is a usage error.
pub(crate) fn proofs(set: Set, preset: PresetName) -> Result<Proofs> {
    Proofs::new(set, preset.preset()).map_err(|refused| anyhow!("--set {set}: {refused}").into())
}

/// Names of the regime in which codes are assumed to be close.
pub(crate) const REGIME: &str = "johnson-proven";

#[cfg(test)]
mod tests {
    use super::*;
    use clap::ValueEnum;

    #[test]
    fn presets_and_sets_are_named_in_refusals() {
        for preset in PresetName::value_variants() {
            let name = preset.to_possible_value().unwrap();
            assert_eq!(name.get_name(), preset.preset().name);
        }
        let refused = proofs(Set::Test, PresetName::Fast).unwrap_err();
        assert!(refused.to_string().contains("compact"), "{refused}");
    }
}
