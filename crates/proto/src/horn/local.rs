//! Whose duties a machine does.

use alphorn_types::{Bitfield, Layout, Validator};

use super::config::ConfigError;

/// What this machine does in the network, as its driver says it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Local {
    /// By validator index: whose duties are done here.
    pub validators: Bitfield,
    /// Which of them cast votes.
    pub voters: Bitfield,
    /// Whether own messages are taken without verification. If not, they pass the whole
    /// validation like anyone's.
    pub trust_own: bool,
}

impl Local {
    /// A machine that validates and forwards for others only.
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

/// What a machine keeps of its [`Local`]: lists, since a machine among many hosts a few of a million
/// validators.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hosted {
    /// Ascending.
    validators: Box<[u32]>,
    /// Ascending, of the same.
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
    /// Whether the duties of a validator are done here.
    pub fn hosts(&self, validator: Validator) -> bool {
        self.validators.binary_search(&validator.0).is_ok()
    }

    /// Whether a validator casts its votes here.
    pub(crate) fn votes(&self, validator: Validator) -> bool {
        self.voters.binary_search(&validator.0).is_ok()
    }

    /// Whose duties are done here, ascending.
    pub fn validators(&self) -> impl ExactSizeIterator<Item = Validator> + '_ {
        self.validators.iter().copied().map(Validator)
    }

    /// Who votes here, ascending.
    pub fn voters(&self) -> impl ExactSizeIterator<Item = Validator> + '_ {
        self.voters.iter().copied().map(Validator)
    }

    /// Whether own messages are taken without verification.
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
