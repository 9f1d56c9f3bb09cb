//! Making and verifying one piece of evidence for several collections.

use super::held::Scratch;
use super::{Env, Keys, Output, Product};
use crate::{Bundled, Bytes, Ctx, Statement, TaskError, Verdict};
use alphorn_types::{Epoch, Support};
use std::sync::Arc;

/// A collection in a bundle: its statement and signers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BundleEntry {
    /// The epoch whose key table applies.
    pub epoch: Epoch,
    /// Its statement, about a whole committee.
    pub statement: Statement,
    /// The signers.
    pub support: Arc<Support>,
}

/// Makes one piece of evidence from verified collections. A shorter one, of the first collections, is also useful.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BundleJob {
    /// The collections, each with its proof; the most valuable ones first.
    pub collections: Vec<(BundleEntry, Bytes)>,
}

/// Verifies that one piece of evidence proves these collections, with a single verdict.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifyBundleJob {
    /// The collections, in the order in which they were bundled.
    pub entries: Vec<BundleEntry>,
    /// The evidence offered as proof.
    pub evidence: Bytes,
}

impl BundleEntry {
    /// Attaches the keys of its epoch.
    fn bundled<'a>(&'a self, env: &'a Env) -> Result<Bundled<'a, Keys>, TaskError> {
        Ok(Bundled {
            keys: env.keys_or_refuse(self.epoch)?,
            statement: self.statement,
            support: &self.support,
        })
    }
}

/// Number of collections, and total number of signers.
fn size<'a>(entries: impl ExactSizeIterator<Item = &'a BundleEntry>) -> (u64, u64) {
    let count = entries.len() as u64;
    let signers = entries.map(|entry| entry.support.signer_count() as u64);
    (count, signers.sum())
}

/// Whether evidence proves collections. Errors if a key table is missing.
fn holds<'a>(
    env: &Env,
    entries: impl Iterator<Item = &'a BundleEntry>,
    evidence: &[u8],
    ctx: &mut Ctx<'_, Scratch>,
) -> Result<bool, TaskError> {
    let entries = entries.map(|entry| entry.bundled(env));
    let entries: Vec<_> = entries.collect::<Result<_, _>>()?;
    Ok(env.held.verify_bundle(&entries, evidence, ctx))
}

impl BundleJob {
    pub(super) fn size(&self) -> (u64, u64) {
        size(self.collections.iter().map(|(entry, _)| entry))
    }

    pub(super) fn run(&self, env: &Env, ctx: &mut Ctx<'_, Scratch>) -> Result<Output, TaskError> {
        let collections = self.collections.iter();
        let parts = collections.map(|(entry, bytes)| Ok((entry.bundled(env)?, &**bytes)));
        let parts = parts.collect::<Result<Vec<_>, TaskError>>()?;
        let (count, bytes) = (parts.len(), env.held.bundle(&parts, ctx)?);
        if env.self_verify && !self.holds(env, count, &bytes, ctx) {
            return Err(match ctx.stopped() {
                true => TaskError::Stopped,
                false => TaskError::SelfVerifyFailed,
            });
        }
        Ok(Product::Bundle { count, bytes }.into())
    }

    /// Whether evidence proves the first `count` collections; there must be at least one.
    pub(super) fn holds(
        &self,
        env: &Env,
        count: usize,
        evidence: &[u8],
        ctx: &mut Ctx<'_, Scratch>,
    ) -> bool {
        let Some(bundled) = self
            .collections
            .get(..count)
            .filter(|some| !some.is_empty())
        else {
            return false;
        };
        let entries = bundled.iter().map(|(entry, _)| entry);
        holds(env, entries, evidence, ctx) == Ok(true)
    }
}

impl VerifyBundleJob {
    pub(super) fn size(&self) -> (u64, u64) {
        size(self.entries.iter())
    }

    pub(super) fn run(&self, env: &Env, ctx: &mut Ctx<'_, Scratch>) -> Result<Output, TaskError> {
        let good = holds(env, self.entries.iter(), &self.evidence, ctx)?;
        // A stopped verifier also answers false, which is no verdict on the evidence.
        if ctx.stopped() {
            return Err(TaskError::Stopped);
        }
        let verdict = match good {
            true => Verdict::Valid,
            false => Verdict::Invalid { claim: 0 },
        };
        Ok(Product::Verdicts(vec![verdict]).into())
    }
}
