//! The validators whose duties a node performs.

use alphorn_types::{Bitfield, Layout, Validator};

use super::config::ConfigError;

/// What this node does in the network, as configured by its driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Local {
    /// Validators whose duties are performed here, by index.
    pub validators: Bitfield,
    /// The ones that vote.
    pub voters: Bitfield,
    /// Whether messages made here are accepted without verification. If not, they pass the full
    /// validation like those of peers.
    pub trust_own: bool,
}

impl Local {
    /// A node that only validates and forwards.
    pub fn observer(layout: &Layout) -> Self {
        let none = Bitfield::new(layout.validators() as usize);
        Self {
            validators: none.clone(),
            voters: none,
            trust_own: true,
        }
    }

    pub(super) fn check(&self, layout: &Layout) -> Result<(), ConfigError> {
        let validators = layout.validators();
        for (what, set) in [("validators", &self.validators), ("voters", &self.voters)] {
            if set.len() != validators as usize {
                return Err(ConfigError::LocalLength {
                    what,
                    value: set.len(),
                    validators,
                });
            }
        }
        let mut strangers = self.voters.clone();
        strangers.subtract(&self.validators);
        match strangers.iter_ones().next() {
            Some(voter) => Err(ConfigError::LocalVoter(voter)),
            None => Ok(()),
        }
    }
}

/// The retained form of [`Local`]: lists, since one of many nodes hosts only a few out of a million
/// validators.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hosted {
    /// Ascending.
    validators: Box<[u32]>,
    /// Ascending, a subset of the validators.
    voters: Box<[u32]>,
    trust_own: bool,
}

impl From<&Local> for Hosted {
    fn from(local: &Local) -> Self {
        // A layout has fewer than 2^32 validators.
        let list = |set: &Bitfield| set.iter_ones().map(|validator| validator as u32).collect();
        Self {
            validators: list(&local.validators),
            voters: list(&local.voters),
            trust_own: local.trust_own,
        }
    }
}

impl Hosted {
    /// Whether the duties of a validator are performed here.
    pub fn hosts(&self, validator: Validator) -> bool {
        self.validators.binary_search(&validator.0).is_ok()
    }

    /// Whether a validator votes here.
    pub(crate) fn votes(&self, validator: Validator) -> bool {
        self.voters.binary_search(&validator.0).is_ok()
    }

    /// Validators whose duties are performed here, ascending.
    pub fn validators(&self) -> impl ExactSizeIterator<Item = Validator> + '_ {
        self.validators.iter().copied().map(Validator)
    }

    /// Validators that vote here, ascending.
    pub fn voters(&self) -> impl ExactSizeIterator<Item = Validator> + '_ {
        self.voters.iter().copied().map(Validator)
    }

    /// Whether messages made here are accepted without verification.
    pub(crate) fn trusts_own(&self) -> bool {
        self.trust_own
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_says_what_the_sets_said() {
        let layout = Layout::new(100, 2, 2).unwrap();
        let mut local = Local::observer(&layout);
        let none = Hosted::from(&local);
        assert_eq!(
            (none.validators().len(), none.hosts(Validator(0))),
            (0, false)
        );
        local.validators.set(3);
        local.validators.set(99);
        local.voters.set(99);
        let hosted = Hosted::from(&local);
        assert!(hosted.validators().eq([3, 99].map(Validator)));
        assert!(hosted.voters().eq([Validator(99)]));
        assert!(hosted.hosts(Validator(3)) && !hosted.votes(Validator(3)));
        assert!(!hosted.hosts(Validator(4)) && hosted.votes(Validator(99)));
    }
}
