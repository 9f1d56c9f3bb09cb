//! Tests that every scheme must pass, instantiated by one macro line.
//!
//! ```
//! # use alphorn_scheme::{battery, model::*};
//! struct Counted;
//! impl battery::Fixture for Counted {
//!     type S = Model;
//!     fn scheme(&self) -> Model { Model::new(CostTable::example()).unwrap() }
//!     fn registry(&self, validators: u32) -> ModelRegistry { ModelRegistry { validators } }
//!     fn signers(&self, validators: u32) -> ModelSigners { ModelSigners { validators } }
//! }
//! alphorn_scheme::battery!(counted, Counted);
//! ```
//!
//! Each test checks a property that the protocol relies on; none inspects the bytes.

mod bundles;
mod evidence;
mod jobs;
mod single;

use crate::{
    Bytes, Claim, Ctx, Env, Evidence, Keys, Layer, MemoryWatermark, Part, Product, Role, Scheme,
    Scratch, SignItem, SignJob, Statement, Task, Work, verify_claims,
};
use alphorn_exec::Stop;
use alphorn_types::{Assignment, Cell, Epoch, Layout, Slot, Unit, Validator};
use std::sync::Arc;

/// What the battery needs from a scheme: a constructor, and keys known to tests.
pub trait Fixture {
    /// The scheme.
    type S: Scheme;
    /// Creates the scheme.
    fn scheme(&self) -> Self::S;
    /// The registry of validators `0..validators`.
    fn registry(&self, validators: u32) -> <Self::S as Scheme>::Registry;
    /// The secret keys of validators `0..validators`.
    fn signers(&self, validators: u32) -> <Self::S as Scheme>::Signers;
}

/// Runs the battery on an expression that implements [`Fixture`](trait@crate::battery::Fixture), inside a module
/// with the given name.
#[macro_export]
macro_rules! battery {
    ($name:ident, $fixture:expr) => {
        $crate::battery!(
            @tests $name, $fixture,
            signatures_bind_validator_and_message,
            verdicts_of_batches_are_exact,
            malformed_bytes_are_invalid,
            selection_follows_uniqueness,
            sizes_are_kept,
            aggregates_name_exactly_their_signers,
            collections_of_disjoint_cells,
            groups_are_between_cells_and_committees,
            overlap_is_as_declared,
            bundles_are_as_declared,
            empty_is_refused,
            signing_needs_a_fitting_permit,
            jobs_round_trip,
            bad_inputs_of_an_aggregate_are_named,
            same_for_every_thread_count_and_kernel,
            costs_grow_with_size,
            key_tables_check_sizes
        );
    };
    (@tests $name:ident, $fixture:expr, $($test:ident),+) => {
        #[cfg(test)]
        mod $name {
            use super::*;
            $(#[test]
            fn $test() {
                $crate::battery::check(stringify!($test), &$fixture);
            })+
        }
    };
}

/// Runs the named test; called by [`battery!`](crate::battery!).
///
/// # Panics
///
/// If the scheme fails it, or the battery has no test with this name.
pub fn check<F: Fixture>(test: &str, fixture: &F) {
    match test {
        "signatures_bind_validator_and_message" => {
            single::signatures_bind_validator_and_message(fixture)
        }
        "verdicts_of_batches_are_exact" => single::verdicts_of_batches_are_exact(fixture),
        "malformed_bytes_are_invalid" => single::malformed_bytes_are_invalid(fixture),
        "selection_follows_uniqueness" => single::selection_follows_uniqueness(fixture),
        "sizes_are_kept" => single::sizes_are_kept(fixture),
        "aggregates_name_exactly_their_signers" => {
            evidence::aggregates_name_exactly_their_signers(fixture)
        }
        "collections_of_disjoint_cells" => evidence::collections_of_disjoint_cells(fixture),
        "groups_are_between_cells_and_committees" => {
            evidence::groups_are_between_cells_and_committees(fixture)
        }
        "overlap_is_as_declared" => evidence::overlap_is_as_declared(fixture),
        "bundles_are_as_declared" => bundles::bundles_are_as_declared(fixture),
        "empty_is_refused" => evidence::empty_is_refused(fixture),
        "signing_needs_a_fitting_permit" => jobs::signing_needs_a_fitting_permit(fixture),
        "jobs_round_trip" => jobs::jobs_round_trip(fixture),
        "bad_inputs_of_an_aggregate_are_named" => {
            jobs::bad_inputs_of_an_aggregate_are_named(fixture)
        }
        "same_for_every_thread_count_and_kernel" => {
            jobs::same_for_every_thread_count_and_kernel(fixture)
        }
        "costs_grow_with_size" => jobs::costs_grow_with_size(fixture),
        "key_tables_check_sizes" => jobs::key_tables_check_sizes(fixture),
        _ => panic!("the battery has no test {test}"),
    }
}

/// Number of validators in the battery's test network: 2 committees of 3 cells of 4, or of 2 groups of 3 cells of 2.
const VALIDATORS: u32 = 24;
const EPOCH: Epoch = Epoch(0);
const SLOT: Slot = Slot(3);
const MESSAGE: [u8; 32] = [7; 32];

/// A small test network around a scheme.
struct World<S: Scheme> {
    scheme: Arc<S>,
    keys: Arc<S::Keys>,
    env: Env,
    assignment: Arc<Assignment>,
    store: MemoryWatermark,
}

impl<S: Scheme> World<S> {
    fn new<F: Fixture<S = S>>(fixture: &F) -> Self {
        Self::with_fan_out(fixture, &[3])
    }

    fn with_fan_out<F: Fixture<S = S>>(fixture: &F, fan_out: &[u16]) -> Self {
        let layout = Layout::with_fan_out(VALIDATORS, 2, fan_out).expect("a legal layout");
        // Not the identity, so that a position mistaken for a validator is detected.
        let members = (0..VALIDATORS).map(|i| (i * 7 + 5) % VALIDATORS).collect();
        let assignment = Arc::new(Assignment::new(EPOCH, layout, members).expect("a permutation"));
        let scheme = Arc::new(fixture.scheme());
        let registry = Arc::new(fixture.registry(VALIDATORS));
        let signers = Arc::new(fixture.signers(VALIDATORS));
        let mut env = Env::signing(scheme.clone(), registry.clone(), signers, [1; 32]);
        let keys = Self::with_ctx(|ctx| scheme.keys(&registry, &assignment, ctx));
        let keys = Arc::new(keys.expect("keys of a legal layout"));
        env.insert_keys(EPOCH, Keys::new(keys.clone()));
        World {
            scheme,
            keys,
            env,
            assignment,
            store: MemoryWatermark::new(VALIDATORS),
        }
    }

    fn with_ctx<T>(f: impl FnOnce(&mut Ctx<'_, S::Scratch>) -> T) -> T {
        let mut scratch = S::Scratch::default();
        f(&mut Ctx::single(&mut scratch))
    }

    fn scheme(&self) -> &S {
        &self.scheme
    }

    fn keys(&self) -> &S::Keys {
        &self.keys
    }

    fn run(&self, work: Work) -> Result<Product, crate::TaskError> {
        run(&work, &self.env)
    }

    /// Signs through a job, as a node does.
    fn sign(&self, validator: Validator, role: Role, slot: Slot, message: [u8; 32]) -> Bytes {
        let job = SignJob::new(
            slot,
            vec![SignItem {
                validator,
                role,
                message,
                guard: None,
            }],
        );
        job.admit(&self.store).expect("a fresh slot");
        match self.run(Work::Sign(job)).expect("a signer is held") {
            Product::Signed(signed) => signed
                .iter()
                .next()
                .expect("one item, one signature")
                .into(),
            other => panic!("signing yielded {other:?}"),
        }
    }

    fn vote(&self, validator: Validator) -> Bytes {
        self.sign(validator, Role::Vote, SLOT, MESSAGE)
    }

    fn vote_claim(validator: Validator, signature: Bytes) -> Claim {
        Claim::One {
            validator,
            role: Role::Vote,
            slot: SLOT,
            message: MESSAGE,
            signature,
        }
    }

    fn verify(&self, claims: &[Claim]) -> Vec<bool> {
        Self::with_ctx(|ctx| verify_claims(self.scheme(), self.keys(), claims, &[2; 32], ctx))
    }

    fn statement(&self, cell: Cell) -> Statement {
        self.unit_statement(Layer::Aggregate, cell.into())
    }

    fn committee_statement(&self, committee: u16) -> Statement {
        let unit = self.assignment.layout().committee(committee);
        self.unit_statement(Layer::Collection, unit)
    }

    fn unit_statement(&self, layer: Layer, unit: Unit) -> Statement {
        let range = self.assignment.layout().unit_range(unit);
        Statement {
            layer,
            first: range.start,
            len: range.end - range.start,
            slot: SLOT,
            message: MESSAGE,
        }
    }

    /// Votes of a statement's positions, in order.
    fn votes(&self, statement: &Statement, positions: &[u32]) -> Vec<(u32, Bytes)> {
        positions
            .iter()
            .map(|position| {
                (
                    *position,
                    self.vote(self.assignment.member(statement.first + position)),
                )
            })
            .collect()
    }

    fn aggregate(&self, statement: &Statement, votes: &[(u32, Bytes)]) -> Evidence {
        Self::with_ctx(|ctx| self.scheme().aggregate(self.keys(), statement, votes, ctx))
            .expect("honest votes aggregate")
    }

    fn combine(
        &self,
        statement: &Statement,
        parts: &[Part],
        max: u8,
    ) -> Result<Evidence, crate::SchemeError> {
        Self::with_ctx(|ctx| {
            self.scheme()
                .combine(self.keys(), statement, parts, max, ctx)
        })
    }

    fn holds(&self, statement: &Statement, evidence: &Evidence) -> bool {
        self.verify(&[Claim::Group {
            statement: *statement,
            evidence: evidence.clone(),
        }]) == [true]
    }
}

/// Runs a job as a single-threaded lane does.
fn run(work: &Work, env: &Env) -> Result<Product, crate::TaskError> {
    let output = work.run(env, &mut Ctx::single(&mut Scratch::default()))?;
    Ok(output.product)
}

/// Runs `f` with a context over a pool of `threads`.
fn with_pool<T>(threads: usize, f: impl FnOnce(&mut Ctx<'_, Scratch>) -> T) -> T {
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(threads)
        .build()
        .expect("a small pool");
    let mut scratch = Scratch::default();
    f(&mut Ctx::pooled(
        &pool,
        Stop::default(),
        Arc::default(),
        &mut scratch,
    ))
}
