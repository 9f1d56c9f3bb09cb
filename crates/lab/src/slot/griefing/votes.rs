//! Aggregates of schemes whose signatures do not add up: each validator signs once, and an aggregator
//! combines the votes as the scheme does.

use super::world::{Ballot, SLOT, Voting};
use crate::error::Result;
use alphorn_exec::Stop;
use alphorn_scheme::{
    Bytes, Ctx, Evidence, MemoryWatermark, Reservation, Role, Scheme, SchemeError, SignItem,
    Statement, Watermark,
};
use alphorn_types::{Bitfield, Validator};
use std::sync::Arc;

/// The votes of all validators.
pub(super) struct Votes<S: Scheme> {
    scheme: S,
    keys: S::Keys,
    /// By position in the epoch.
    signatures: Vec<Bytes>,
}

impl<S: Scheme> Votes<S> {
    /// Lets all validators vote.
    pub(super) fn cast(
        scheme: S,
        registry: S::Registry,
        signers: &S::Signers,
        ballot: Ballot,
        pool: &rayon::ThreadPool,
    ) -> Result<Self> {
        let mut scratch = S::Scratch::default();
        let ctx = &mut Ctx::pooled(pool, Stop::default(), Arc::default(), &mut scratch);
        let assignment = Arc::new(ballot.assignment);
        let keys = scheme.keys(&Arc::new(registry), &assignment, ctx)?;
        let item = |validator: &u32| SignItem {
            validator: Validator(*validator),
            role: Role::Vote,
            message: ballot.message,
            guard: None,
        };
        let items: Vec<SignItem> = assignment.members().iter().map(item).collect();
        let store = MemoryWatermark::new(assignment.layout().validators());
        let permits = items
            .iter()
            .map(|item| store.reserve(SLOT, item))
            .collect::<std::result::Result<Vec<Reservation>, _>>()?;
        let signed = scheme.sign(signers, SLOT, &items, permits, ctx)?;
        Ok(Votes {
            scheme,
            keys,
            signatures: signed.iter().map(Bytes::from).collect(),
        })
    }
}

impl<S: Scheme> Voting for Votes<S> {
    type S = S;

    fn scheme(&self) -> &S {
        &self.scheme
    }

    fn keys(&self) -> &S::Keys {
        &self.keys
    }

    fn aggregate(
        &self,
        statement: &Statement,
        signers: &Bitfield,
    ) -> std::result::Result<Evidence, SchemeError> {
        let vote = |i: usize| {
            let signature: &Bytes = &self.signatures[statement.first as usize + i];
            (i as u32, signature.clone())
        };
        let votes: Vec<(u32, Bytes)> = signers.iter_ones().map(vote).collect();
        let mut scratch = S::Scratch::default();
        let ctx = &mut Ctx::single(&mut scratch);
        self.scheme.aggregate(&self.keys, statement, &votes, ctx)
    }
}
