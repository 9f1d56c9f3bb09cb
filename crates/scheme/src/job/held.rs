//! A scheme with its keys, with types erased: the code that schedules and drives jobs is compiled once, however many
//! schemes a program has.

use crate::{
    Abilities, Bundled, Bytes, Claim, Cost, Ctx, Evidence, Op, Part, Reservation, Scheme,
    SchemeError, SignItem, Signatures, Statement, Tail, TaskError, verify_claims,
};
use alphorn_types::{Assignment, Slot, Validator};
use std::any::Any;
use std::ops::Range;
use std::sync::Arc;

/// Scratch memory of a lane, for any scheme.
#[derive(Default)]
pub struct Scratch(Option<Box<dyn Any + Send>>);

impl Scratch {
    /// Returns the memory as a scheme's own type, newly created if it belonged to another scheme.
    fn of<W: Default + Send + 'static>(&mut self) -> &mut W {
        // Tested before it is borrowed: a mutable borrow that one branch returns would last through the other
        // one, which replaces the memory.
        if !self.0.as_ref().is_some_and(|memory| memory.is::<W>()) {
            self.0 = Some(Box::<W>::default());
        }
        let memory = self.0.as_mut().and_then(|memory| memory.downcast_mut());
        memory.expect("made of this type above")
    }
}

impl Ctx<'_, Scratch> {
    /// The same context with the scratch memory of a scheme.
    fn typed<W: Default + Send + 'static>(&mut self) -> Ctx<'_, W> {
        Ctx {
            pool: self.pool,
            stop: self.stop.clone(),
            beats: self.beats.clone(),
            scratch: self.scratch.of(),
        }
    }
}

/// The key table of an epoch, for any scheme.
#[derive(Clone)]
pub struct Keys(Arc<dyn Any + Send + Sync>);

impl Keys {
    /// Wraps a scheme's key table.
    pub(crate) fn new<K: Send + Sync + 'static>(keys: Arc<K>) -> Self {
        Keys(keys)
    }

    /// The table as its scheme's own type; none if another scheme made it.
    pub fn get<K: Send + Sync + 'static>(&self) -> Option<&K> {
        self.0.downcast_ref()
    }
}

/// Claims decoded by a scheme.
pub(super) type Prepared = Box<dyn Any + Send + Sync>;

/// [`Scheme`] with the registry and signers it was given.
///
/// # Panics
/// In all methods, if keys or prepared claims come from another scheme: an environment holds only one.
pub(super) trait Held: Send + Sync {
    fn abilities(&self) -> Abilities;
    fn cost(&self, op: Op, n: u64, m: u64) -> Cost;
    fn portable(&self) -> Arc<dyn Held>;
    fn keys(
        &self,
        assignment: &Arc<Assignment>,
        ctx: &mut Ctx<'_, Scratch>,
    ) -> Result<Keys, SchemeError>;
    fn assignment<'k>(&self, keys: &'k Keys) -> &'k Assignment;
    fn sign(
        &self,
        slot: Slot,
        items: &[SignItem],
        permits: Vec<Reservation>,
        ctx: &mut Ctx<'_, Scratch>,
    ) -> Result<Signatures, TaskError>;
    fn select(
        &self,
        message: &[u8; 32],
        validators: &[Validator],
        ctx: &mut Ctx<'_, Scratch>,
    ) -> Result<Signatures, TaskError>;
    fn verify(
        &self,
        keys: &Keys,
        claims: &[Claim],
        secret: &[u8; 32],
        ctx: &mut Ctx<'_, Scratch>,
    ) -> Vec<bool>;
    fn prepare(
        &self,
        keys: &Keys,
        claims: &[Claim],
        secret: &[u8; 32],
        ctx: &mut Ctx<'_, Scratch>,
    ) -> Prepared;
    fn check(&self, keys: &Keys, prepared: &Prepared, range: Range<usize>) -> bool;
    fn locate(
        &self,
        keys: &Keys,
        prepared: &Prepared,
        ctx: &mut Ctx<'_, Scratch>,
    ) -> Option<Vec<usize>>;
    fn aggregate(
        &self,
        keys: &Keys,
        statement: &Statement,
        votes: &[(u32, Tail)],
        ctx: &mut Ctx<'_, Scratch>,
    ) -> Result<Evidence, SchemeError>;
    fn combine(
        &self,
        keys: &Keys,
        statement: &Statement,
        parts: &[Part],
        multiplicity_max: u8,
        ctx: &mut Ctx<'_, Scratch>,
    ) -> Result<Evidence, SchemeError>;
    fn bundle(
        &self,
        collections: &[(Bundled<'_, Keys>, &[u8])],
        ctx: &mut Ctx<'_, Scratch>,
    ) -> Result<Bytes, SchemeError>;
    fn verify_bundle(
        &self,
        collections: &[Bundled<'_, Keys>],
        evidence: &[u8],
        ctx: &mut Ctx<'_, Scratch>,
    ) -> bool;
}

/// A scheme, the public keys of all validators, and the secret keys held here.
pub(super) struct With<S: Scheme> {
    pub(super) scheme: Arc<S>,
    pub(super) registry: Arc<S::Registry>,
    pub(super) signers: Option<Arc<S::Signers>>,
}

impl<S: Scheme> With<S> {
    fn signers(&self) -> Result<&S::Signers, TaskError> {
        let none = || TaskError::Refused("no secret keys here".into());
        self.signers.as_deref().ok_or_else(none)
    }
}

const OTHER_SCHEME: &str = "an environment holds the tables of one scheme";

/// The same collection with a table of the scheme's own type.
fn typed<'a, K: 'static>(of: &Bundled<'a, Keys>) -> Bundled<'a, K> {
    Bundled {
        keys: own(&*of.keys.0),
        statement: of.statement,
        support: of.support,
    }
}

fn own<T: 'static>(value: &(dyn Any + Send + Sync)) -> &T {
    value.downcast_ref().expect(OTHER_SCHEME)
}

impl<S: Scheme> Held for With<S> {
    fn abilities(&self) -> Abilities {
        self.scheme.abilities()
    }

    fn cost(&self, op: Op, n: u64, m: u64) -> Cost {
        self.scheme.cost(op, n, m)
    }

    fn portable(&self) -> Arc<dyn Held> {
        Arc::new(With {
            scheme: Arc::new(self.scheme.portable()),
            registry: self.registry.clone(),
            signers: self.signers.clone(),
        })
    }

    fn keys(
        &self,
        assignment: &Arc<Assignment>,
        ctx: &mut Ctx<'_, Scratch>,
    ) -> Result<Keys, SchemeError> {
        let keys = self
            .scheme
            .keys(&self.registry, assignment, &mut ctx.typed())?;
        Ok(Keys::new(Arc::new(keys)))
    }

    fn assignment<'k>(&self, keys: &'k Keys) -> &'k Assignment {
        self.scheme.assignment(own(&*keys.0))
    }

    fn sign(
        &self,
        slot: Slot,
        items: &[SignItem],
        permits: Vec<Reservation>,
        ctx: &mut Ctx<'_, Scratch>,
    ) -> Result<Signatures, TaskError> {
        let signed = self
            .scheme
            .sign(self.signers()?, slot, items, permits, &mut ctx.typed());
        signed.map_err(TaskError::from)
    }

    fn select(
        &self,
        message: &[u8; 32],
        validators: &[Validator],
        ctx: &mut Ctx<'_, Scratch>,
    ) -> Result<Signatures, TaskError> {
        let proofs = self
            .scheme
            .select(self.signers()?, message, validators, &mut ctx.typed());
        proofs.map_err(TaskError::from)
    }

    fn verify(
        &self,
        keys: &Keys,
        claims: &[Claim],
        secret: &[u8; 32],
        ctx: &mut Ctx<'_, Scratch>,
    ) -> Vec<bool> {
        verify_claims(
            &*self.scheme,
            own(&*keys.0),
            claims,
            secret,
            &mut ctx.typed(),
        )
    }

    fn prepare(
        &self,
        keys: &Keys,
        claims: &[Claim],
        secret: &[u8; 32],
        ctx: &mut Ctx<'_, Scratch>,
    ) -> Prepared {
        Box::new(
            self.scheme
                .prepare(own(&*keys.0), claims, secret, &mut ctx.typed()),
        )
    }

    fn check(&self, keys: &Keys, prepared: &Prepared, range: Range<usize>) -> bool {
        self.scheme.check(own(&*keys.0), own(&**prepared), range)
    }

    fn locate(
        &self,
        keys: &Keys,
        prepared: &Prepared,
        ctx: &mut Ctx<'_, Scratch>,
    ) -> Option<Vec<usize>> {
        self.scheme
            .locate(own(&*keys.0), own(&**prepared), &mut ctx.typed())
    }

    fn aggregate(
        &self,
        keys: &Keys,
        statement: &Statement,
        votes: &[(u32, Tail)],
        ctx: &mut Ctx<'_, Scratch>,
    ) -> Result<Evidence, SchemeError> {
        self.scheme
            .aggregate(own(&*keys.0), statement, votes, &mut ctx.typed())
    }

    fn combine(
        &self,
        keys: &Keys,
        statement: &Statement,
        parts: &[Part],
        multiplicity_max: u8,
        ctx: &mut Ctx<'_, Scratch>,
    ) -> Result<Evidence, SchemeError> {
        let keys = own(&*keys.0);
        self.scheme
            .combine(keys, statement, parts, multiplicity_max, &mut ctx.typed())
    }

    fn bundle(
        &self,
        collections: &[(Bundled<'_, Keys>, &[u8])],
        ctx: &mut Ctx<'_, Scratch>,
    ) -> Result<Bytes, SchemeError> {
        let typed = collections.iter().map(|(of, bytes)| (typed(of), *bytes));
        self.scheme
            .bundle(&typed.collect::<Vec<_>>(), &mut ctx.typed())
    }

    fn verify_bundle(
        &self,
        collections: &[Bundled<'_, Keys>],
        evidence: &[u8],
        ctx: &mut Ctx<'_, Scratch>,
    ) -> bool {
        let typed: Vec<_> = collections.iter().map(typed).collect();
        self.scheme
            .verify_bundle(&typed, evidence, &mut ctx.typed())
    }
}
