//! `alphorn lattice`: features specific to lattice proofs, and the options specific to Falcon.

mod estimate;
pub mod params;
pub(crate) mod security;

use crate::error::Result;
use alphorn_falcon::{DEGREES, Flavour, Preset};
use alphorn_labrador::sis::Profile;
use anyhow::anyhow;
use clap::Subcommand;

/// Lattice-based proofs: parameters, predicted sizes, security
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand, Debug)]
enum What {
    /// Show the parameters of a proof of N signatures, its predicted size and its security budget
    Params(params::Args),
    /// Estimate proofs by other front ends of LaBRADOR, in ring elements and bytes
    Estimate(estimate::Args),
}

/// Runs the command.
///
/// # Errors
/// If it cannot be run, or if a check fails.
pub fn run(args: &Args) -> Result<()> {
    match &args.what {
        What::Params(args) => params::run(args),
        What::Estimate(args) => estimate::run(args),
    }
}

/// The option of Falcon's signatures.
#[derive(clap::Args, Clone, Copy, Debug, Default)]
pub struct FlavourOptions {
    /// Flavour of Falcon: fndsa04 (the FN-DSA draft as in fn-dsa 0.4), r3 (original Falcon) or slot
    /// (without salts: a key signs once per slot); default: fndsa04
    #[arg(long, value_name = "FLAVOUR", value_parser = flavour)]
    pub flavour: Option<Flavour>,
}

impl FlavourOptions {
    /// Returns the flavour of signatures.
    pub fn flavour(&self) -> Flavour {
        self.flavour.unwrap_or_default()
    }

    /// Rejects the option for a scheme that has none.
    pub fn check(&self, scheme: &str) -> Result<()> {
        match self.flavour {
            Some(flavour) if scheme != "falcon" => {
                let flavour = flavour_name(flavour);
                Err(anyhow!("--flavour {flavour}: {scheme} has no flavours, falcon has").into())
            }
            _ => Ok(()),
        }
    }
}

/// The option of Falcon's proofs.
#[derive(clap::Args, Clone, Copy, Debug, Default)]
pub struct ProfileOptions {
    /// Hardness of a false Falcon proof: core128, falcon or peer (default: core128)
    #[arg(long, value_name = "PROFILE", value_parser = profile)]
    profile: Option<Profile>,
}

impl ProfileOptions {
    /// Returns the profile of proofs.
    pub fn profile(&self) -> Profile {
        self.profile.unwrap_or(Profile::Core128)
    }

    /// Rejects the option for a scheme that has none.
    pub fn check(&self, scheme: &str) -> Result<()> {
        match self.profile {
            Some(profile) if scheme != "falcon" => {
                let profile = profile.name();
                Err(anyhow!("--profile {profile}: {scheme} has no profiles, falcon has").into())
            }
            _ => Ok(()),
        }
    }

    /// Rejects it where nothing is proved or verified.
    pub fn check_unused(&self, why: &str) -> Result<()> {
        match self.profile {
            Some(profile) => Err(anyhow!("--profile {}: {why}", profile.name()).into()),
            None => Ok(()),
        }
    }
}

/// Options of Falcon.
#[derive(clap::Args, Clone, Copy, Debug, Default)]
pub struct LatticeOptions {
    #[command(flatten)]
    flavour: FlavourOptions,
    #[command(flatten)]
    profile: ProfileOptions,
}

impl LatticeOptions {
    /// Returns the flavour of signatures.
    pub fn flavour(&self) -> Flavour {
        self.flavour.flavour()
    }

    /// Returns the profile of proofs.
    pub fn profile(&self) -> Profile {
        self.profile.profile()
    }

    /// Rejects the options for a scheme that has neither.
    pub(crate) fn check(&self, scheme: &str) -> Result<()> {
        self.flavour.check(scheme)?;
        self.profile.check(scheme)
    }
}

/// Returns the name of a flavour on the command line and in files.
pub fn flavour_name(flavour: Flavour) -> &'static str {
    match flavour {
        Flavour::FnDsa => "fndsa04",
        Flavour::Original => "r3",
        Flavour::Slot => "slot",
    }
}

/// Parses `--flavour`.
pub fn flavour(text: &str) -> std::result::Result<Flavour, String> {
    let mut flavours = Flavour::ALL.into_iter();
    let found = flavours.find(|flavour| flavour_name(*flavour) == text);
    found.ok_or_else(|| "expected fndsa04, r3 or slot".to_owned())
}

/// Parses `--profile`.
pub fn profile(text: &str) -> std::result::Result<Profile, String> {
    let found = (Profile::ALL.into_iter()).find(|profile| profile.name() == text);
    found.ok_or_else(|| "expected core128, falcon or peer".to_owned())
}

/// Parses `--degree`.
pub fn degree(text: &str) -> std::result::Result<usize, String> {
    let mut degrees = DEGREES.into_iter();
    let found = degrees.find(|degree| degree.to_string() == text);
    found.ok_or_else(|| "expected 512 or 1024".to_owned())
}

/// Parses `--preset` of proofs.
pub fn preset(text: &str) -> std::result::Result<Preset, String> {
    let found = (Preset::ALL.into_iter()).find(|preset| preset.name() == text);
    found.ok_or_else(|| "expected fast or small".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        for value in Flavour::ALL {
            assert_eq!(flavour(flavour_name(value)), Ok(value));
        }
        for value in Profile::ALL {
            assert_eq!(profile(value.name()), Ok(value));
        }
        for value in Preset::ALL {
            assert_eq!(preset(value.name()), Ok(value));
        }
        for value in DEGREES {
            assert_eq!(degree(&value.to_string()), Ok(value));
        }
        assert!(degree("0512").unwrap_err().contains("512 or 1024"));
        assert!(flavour("fips206").unwrap_err().contains("r3"));
        assert!(profile("core256").unwrap_err().contains("core128"));
    }
}
