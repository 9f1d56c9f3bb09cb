//! `alphorn proof`: what only hash-based proofs have.

mod inspect;
mod security;

use crate::error::Result;
use crate::files::bundle;
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
    /// Bundle proofs of votes over several messages into one proof
    Bundle(bundle::BundleArgs),
    /// Take one entry out of a bundle, as an aggregate of its own
    Split(bundle::SplitArgs),
    /// The error of each step in bits, computed from the sizes, and all assumptions
    Security(security::Args),
}

pub(crate) fn run(args: &Args) -> Result<()> {
    match &args.what {
        What::Inspect(args) => inspect::run(args),
        What::Bundle(args) => bundle::bundle(args),
        What::Split(args) => bundle::split(args),
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

/// The proofs of a set.
pub(crate) fn proofs(set: Set, preset: PresetName) -> Proofs {
    Proofs::new(set, preset.preset())
}

/// Names of the regime in which codes are assumed to be close.
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
