//! BLS as a scheme of the protocol: implements [`alphorn_scheme::Scheme`] for [`Bls`].

mod bases;
mod claims;
mod cost;
mod epoch;
mod signers;
mod votes;

use core::ops::Range;
use std::sync::Arc;

use alphorn_exec::{Backend, Exec};
use alphorn_scheme::watermark::check_permits;
use alphorn_scheme::{
    Abilities, Claim, Cost, Ctx, Evidence, EvidenceLength, Form, Layer, Op, Overlap, Part,
    Reservation, Scheme, SchemeError, Security, SignItem, Signatures, Sizes, Statement,
    combined_support,
};
use alphorn_types::{Assignment, Bitfield, Slot, Support, Validator};

use crate::blst_ffi::curve::G2Affine;
use crate::blst_ffi::points::g2;
use crate::decode::decompress_signatures;
use crate::keys::{PUBLIC_KEY_BYTES, SIGNATURE_BYTES};
use crate::registry::Registry;
use crate::rlc::{Rlc, RlcBits};
use crate::sums::{Costs, Method, SumOptions, Workspace};

use signers::encode;

pub use claims::PreparedClaims;
pub use epoch::EpochKeys;
pub use signers::Signers;

/// Largest multiplicity that a support can carry.
const MULTIPLICITY_MAX: u8 = 15;

/// BLS12-381 signatures, summed.
#[derive(Clone, Debug)]
pub struct Bls {
    backend: Backend,
    costs: Costs,
    rlc_bits: RlcBits,
    /// Sums by one addition per key, whatever the kernel: used for the retry after a doubtful result.
    naive: bool,
}

impl Bls {
    /// The scheme on a kernel, with the costs that [`Costs::measure`] found for it.
    pub fn new(backend: Backend, costs: Costs) -> Bls {
        Bls {
            backend,
            costs,
            rlc_bits: RlcBits::default(),
            naive: false,
        }
    }

    /// The same scheme with another width of random weights.
    #[must_use]
    pub fn with_rlc_bits(self, rlc_bits: RlcBits) -> Bls {
        Bls { rlc_bits, ..self }
    }

    /// The kernel in use.
    pub fn backend(&self) -> Backend {
        self.backend
    }

    fn sum_options(&self) -> SumOptions {
        SumOptions {
            method: self.naive.then_some(Method::Naive),
            costs: self.costs,
        }
    }
}

impl Bls {
    /// The sum of verified evidence or votes, some of whose points may be `known`. `Malformed` identifies the
    /// first that does not decode.
    fn sum_signatures(
        &self,
        encoded: &[&[u8]],
        mut known: Vec<Option<G2Affine>>,
        ctx: &Ctx<'_, Workspace>,
    ) -> Result<[u8; SIGNATURE_BYTES], SchemeError> {
        let pulse = ctx.pulse();
        let exec = Exec::new(self.backend, ctx.pool()).with_watch(&pulse);
        let unknown: Vec<usize> = (0..encoded.len()).filter(|&i| known[i].is_none()).collect();
        let rest: Vec<&[u8]> = unknown.iter().map(|&i| encoded[i]).collect();
        // Verified inputs are in the subgroup; the job verifies the sum in any case.
        let decoded = decompress_signatures(&rest, exec);
        if ctx.stopped() {
            return Err(SchemeError::Stopped);
        }
        for (i, point) in unknown.into_iter().zip(decoded) {
            known[i] = Some(point.map_err(|_| SchemeError::Malformed(i))?);
        }
        let sum = g2::sum_bulk(&known.iter().flatten().collect::<Vec<_>>());
        if sum.is_infinity() {
            return Err(SchemeError::Degenerate);
        }
        Ok(g2::compress(&sum))
    }
}

impl Scheme for Bls {
    type Registry = Registry;
    type Keys = EpochKeys;
    type Signers = Signers;
    type Prepared = PreparedClaims;
    type Scratch = Workspace;

    fn name(&self) -> &'static str {
        "bls"
    }

    fn abilities(&self) -> Abilities {
        Abilities {
            unique: true,
            one_time: false,
            overlap: [Overlap::Counted {
                max: MULTIPLICITY_MAX,
            }; 2],
            layers: [Form::Point; 2],
            committee_max: None,
            bundle_max: None,
            security: Security {
                classical_bits: 117,
                quantum_bits: 0,
                assumption: "co-CDH on BLS12-381, random oracle, keys with proof of possession; \
                             published estimates of the number field sieve in F_p^12: 117 to 120 \
                             bits (NCC Group 2019) and 126 (Guillevic 2020); the lowest is stated"
                    .to_owned(),
                proven: format!(
                    "unforgeability reduces to co-CDH, with a loss of about the number of signing \
                     queries that the bits leave out; a verdict on n claims is wrong with \
                     probability at most 3n x 2^-{} in each online attempt",
                    self.rlc_bits.bits()
                ),
            },
        }
    }

    fn sizes(&self) -> Sizes {
        Sizes {
            public_key_bytes: PUBLIC_KEY_BYTES,
            signature_bytes: SIGNATURE_BYTES,
            duty_signature_bytes: SIGNATURE_BYTES,
            selection_proof_bytes: Some(SIGNATURE_BYTES),
        }
    }

    fn evidence_length(&self, _layer: Layer, _n: u32) -> EvidenceLength {
        EvidenceLength::Fixed(SIGNATURE_BYTES)
    }

    fn cost(&self, op: Op, n: u64, m: u64) -> Cost {
        cost::predict(&self.costs, op, n, m)
    }

    fn portable(&self) -> Bls {
        Bls {
            backend: Backend::Portable,
            // No measurement, so that predictions from here on are the same on every host.
            costs: Costs::default(),
            naive: true,
            ..self.clone()
        }
    }

    fn keys(
        &self,
        registry: &Arc<Registry>,
        assignment: &Arc<Assignment>,
        ctx: &mut Ctx<'_, Workspace>,
    ) -> Result<EpochKeys, SchemeError> {
        SchemeError::check_registry(registry.keys().len(), assignment.layout())?;
        EpochKeys::new(self.backend, registry, assignment, ctx)
    }

    fn assignment<'k>(&self, keys: &'k EpochKeys) -> &'k Assignment {
        keys.assignment()
    }

    fn sign(
        &self,
        signers: &Signers,
        slot: Slot,
        items: &[SignItem],
        permits: Vec<Reservation>,
        ctx: &mut Ctx<'_, Workspace>,
    ) -> Result<Signatures, SchemeError> {
        check_permits(slot, items, permits)?;
        let exec = Exec::new(self.backend, ctx.pool());
        let items: Vec<(Validator, [u8; 32])> = items
            .iter()
            .map(|item| (item.validator, item.message))
            .collect();
        Ok(encode(&signers.sign(&items, exec)?, exec))
    }

    fn select(
        &self,
        signers: &Signers,
        message: &[u8; 32],
        validators: &[Validator],
        ctx: &mut Ctx<'_, Workspace>,
    ) -> Result<Signatures, SchemeError> {
        let exec = Exec::new(self.backend, ctx.pool());
        let items: Vec<(Validator, [u8; 32])> = validators.iter().map(|&v| (v, *message)).collect();
        Ok(encode(&signers.sign(&items, exec)?, exec))
    }

    fn prepare(
        &self,
        keys: &EpochKeys,
        claims: &[Claim],
        secret: &[u8; 32],
        ctx: &mut Ctx<'_, Workspace>,
    ) -> PreparedClaims {
        let rlc = Rlc::new(*secret, self.rlc_bits);
        PreparedClaims::new(self, keys, claims, &rlc, ctx)
    }

    fn check(&self, _keys: &EpochKeys, prepared: &PreparedClaims, range: Range<usize>) -> bool {
        prepared.check(range)
    }

    fn locate(
        &self,
        keys: &EpochKeys,
        prepared: &PreparedClaims,
        ctx: &mut Ctx<'_, Workspace>,
    ) -> Option<Vec<usize>> {
        Some(prepared.locate(keys, ctx).bad)
    }

    fn aggregate<B: AsRef<[u8]>>(
        &self,
        keys: &EpochKeys,
        statement: &Statement,
        votes: &[(u32, B)],
        ctx: &mut Ctx<'_, Workspace>,
    ) -> Result<Evidence, SchemeError> {
        if votes.is_empty() {
            return Err(SchemeError::Empty);
        }
        let mut bits = Bitfield::new(statement.len as usize);
        let mut next = 0;
        for (i, (position, _)) in votes.iter().enumerate() {
            // A position twice would count twice in the sum and once in the support.
            if *position < next || *position >= statement.len {
                return Err(SchemeError::Malformed(i));
            }
            next = position + 1;
            bits.set(*position as usize);
        }
        let encoded: Vec<&[u8]> = votes
            .iter()
            .map(|(_, signature)| signature.as_ref())
            .collect();
        // A retry after a doubtful result relies on nothing that was kept.
        let known = match self.naive {
            true => vec![None; votes.len()],
            false => keys.points_of_votes(statement.first, votes),
        };
        let sum = self.sum_signatures(&encoded, known, ctx)?;
        Ok(Evidence {
            support: Arc::new(Support::from_bits(bits)),
            bytes: Arc::from(sum),
        })
    }

    fn combine(
        &self,
        _keys: &EpochKeys,
        statement: &Statement,
        parts: &[Part],
        multiplicity_max: u8,
        ctx: &mut Ctx<'_, Workspace>,
    ) -> Result<Evidence, SchemeError> {
        let overlap = self.abilities().overlap(statement.layer);
        let support = combined_support(overlap, statement, parts, multiplicity_max)?;
        let encoded: Vec<&[u8]> = parts.iter().map(|part| &*part.evidence.bytes).collect();
        let sum = self.sum_signatures(&encoded, vec![None; encoded.len()], ctx)?;
        Ok(Evidence {
            support: Arc::new(support),
            bytes: Arc::from(sum),
        })
    }
}

#[cfg(test)]
mod tests;
