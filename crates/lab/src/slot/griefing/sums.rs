//! BLS aggregates: one signature with the sum of the signers' keys, which equals the sum of their votes.

use super::world::{Ballot, Voting};
use crate::error::Result;
use crate::keycache;
use crate::progress::Bars;
use crate::slot::{Args, Plan};
use alphorn_bls::{Bls, Costs, EpochKeys, InteropKey, Workspace, interop_keys, sign};
use alphorn_exec::Exec;
use alphorn_scheme::{Ctx, Evidence, Scheme, SchemeError, Statement};
use alphorn_types::{Bitfield, Support};
use std::sync::Arc;

/// The interop keys of all validators.
pub(super) struct Sums {
    scheme: Bls,
    keys: EpochKeys,
    secrets: Vec<InteropKey>,
}

impl Sums {
    pub(super) fn new(
        args: &Args,
        plan: &Plan,
        pool: &rayon::ThreadPool,
        bars: &mut Bars,
    ) -> Result<Self> {
        let kernel = args.common.kernel(&alphorn_bls::KERNELS)?;
        let validators = plan.layout.validators();
        let exec = Exec::new(kernel, Some(pool));
        let registry = keycache::interop_registry(validators, exec, bars)?;
        let scheme = Bls::new(kernel, Costs::measure(kernel));
        let ballot = Ballot::of(args.common.seed, plan.layout);
        let mut scratch = Workspace::default();
        let keys = scheme.keys(
            &Arc::new(registry.registry),
            &Arc::new(ballot.assignment),
            &mut Ctx::single(&mut scratch),
        )?;
        Ok(Sums {
            scheme,
            keys,
            secrets: interop_keys(0..u64::from(validators), exec),
        })
    }
}

impl Voting for Sums {
    type S = Bls;

    fn scheme(&self) -> &Bls {
        &self.scheme
    }

    fn keys(&self) -> &EpochKeys {
        &self.keys
    }

    fn aggregate(
        &self,
        statement: &Statement,
        signers: &Bitfield,
    ) -> std::result::Result<Evidence, SchemeError> {
        let members = &self.keys.assignment().members()[statement.first as usize..];
        let secrets = signers
            .iter_ones()
            .map(|i| (&self.secrets[members[i] as usize], 1));
        let sum = InteropKey::weighted_sum(secrets).ok_or(SchemeError::Degenerate)?;
        let signature = sign(&sum.to_secret_key(), &statement.message);
        Ok(Evidence {
            support: Arc::new(Support::from_bits(signers.clone())),
            bytes: signature.to_bytes().to_vec().into(),
        })
    }
}
