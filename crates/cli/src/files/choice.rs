//! Selects the scheme of a command: as its options say, otherwise from its files.
//!
//! Each of our files names its scheme. A keystore of version 4 does not, but its lengths identify it.

use super::bls::Bls;
use super::falcon::Falcon;
use super::falcon_flavours::{FlavourType, FnDsa04, NoSalts, Round3};
use super::keystore::Keystore;
use super::scheme::{FileScheme, SchemeName};
use super::xmss::{CompactSet, ProdSet, TestSet, Xmss};
use crate::lattice::flavour_name;
use alphorn_falcon::Flavour;
use alphorn_xmss::{SECRET_FILE_BYTES, Set};
use std::fmt;

/// A scheme with all parameters that its files depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Choice {
    Bls,
    Falcon(Flavour),
    Xmss(Set),
}

impl Choice {
    const ALL: [Choice; 7] = [
        Choice::Bls,
        Choice::Falcon(Flavour::FnDsa),
        Choice::Falcon(Flavour::Original),
        Choice::Falcon(Flavour::Slot),
        Choice::Xmss(Set::Compact),
        Choice::Xmss(Set::Prod),
        Choice::Xmss(Set::Test),
    ];

    /// Returns the scheme with this name in files.
    pub(super) fn named(name: &str) -> Option<Choice> {
        Choice::ALL.into_iter().find(|choice| choice.name() == name)
    }

    /// Returns the scheme of a keystore.
    pub(super) fn of_keystore(keystore: &Keystore) -> Choice {
        let flavours = [
            (Flavour::FnDsa, FnDsa04::DECLARED),
            (Flavour::Original, Round3::DECLARED),
            (Flavour::Slot, NoSalts::DECLARED),
        ];
        let declared = flavours.into_iter().find(|of| keystore.declares(of.1));
        match (declared, keystore.encrypted_bytes()) {
            (Some((flavour, _)), _) => Choice::Falcon(flavour),
            (None, SECRET_FILE_BYTES) => Choice::Xmss(set_of(keystore)),
            (None, _) => Choice::Bls,
        }
    }

    /// Returns the name in files.
    fn name(self) -> &'static str {
        match self {
            Choice::Bls => Bls::NAME,
            Choice::Falcon(Flavour::FnDsa) => Falcon::<FnDsa04>::NAME,
            Choice::Falcon(Flavour::Original) => Falcon::<Round3>::NAME,
            Choice::Falcon(Flavour::Slot) => Falcon::<NoSalts>::NAME,
            Choice::Xmss(Set::Compact) => Xmss::<CompactSet>::NAME,
            Choice::Xmss(Set::Prod) => Xmss::<ProdSet>::NAME,
            Choice::Xmss(Set::Test) => Xmss::<TestSet>::NAME,
        }
    }

    /// Returns the name on the command line.
    pub(super) fn scheme(self) -> SchemeName {
        match self {
            Choice::Bls => SchemeName::Bls,
            Choice::Falcon(_) => SchemeName::Falcon,
            Choice::Xmss(_) => SchemeName::Xmss,
        }
    }
}

/// Formats as command-line options.
impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Choice::Bls => f.write_str("--scheme bls"),
            Choice::Falcon(flavour) => {
                write!(f, "--scheme falcon --flavour {}", flavour_name(*flavour))
            }
            Choice::Xmss(set) => write!(f, "--scheme xmss --set {set}"),
        }
    }
}

/// Returns the set of an XMSS keystore, by the length of its public key. Its description distinguishes
/// sets with keys of the same length.
fn set_of(keystore: &Keystore) -> Set {
    let bytes = keystore.public_key().map_or(0, <[u8]>::len);
    let about = keystore.about().description.unwrap_or_default();
    let fits = |set: &Set| set.params().public_key_bytes == bytes;
    let sets = [Set::Compact, Set::Prod, Set::Test];
    let described = |set: &Set| about.starts_with(Choice::Xmss(*set).name());
    let told = sets.into_iter().find(|set| fits(set) && described(set));
    told.or_else(|| sets.into_iter().find(fits))
        .unwrap_or(Set::Compact)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What an error suggests is accepted by options and files.
    #[test]
    fn a_scheme_is_found_by_its_name() {
        for choice in Choice::ALL {
            assert_eq!(Choice::named(choice.name()), Some(choice));
        }
        assert_eq!(Choice::named("xmss"), None);
        let set = Choice::named("xmss-prod").unwrap();
        assert_eq!(set.to_string(), "--scheme xmss --set prod");
    }
}
