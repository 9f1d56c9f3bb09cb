//! The verifier run by another interpreter, which counts the operations of its circuit.

use std::cell::Cell;
use std::ops::{Add, Mul, Sub};

use super::*;
use crate::arith::Arith;
use crate::hash::compress;
use crate::merkle::Opened;
use crate::poseidon::kernels::KERNELS;

/// Number of operations of each kind that the verifier executes.
#[derive(Debug, Default)]
struct Counts {
    hashes: Cell<usize>,
    reads: Cell<usize>,
    products: Cell<usize>,
    base_products: Cell<usize>,
}

fn count(cell: &Cell<usize>) {
    cell.set(cell.get() + 1);
}

#[derive(Clone, Copy)]
struct Base<'a>(Fp, &'a Counts);

#[derive(Clone, Copy)]
struct Extended<'a>(Ext, &'a Counts);

macro_rules! operator {
    ($left:ident, $trait:ident, $method:ident, $right:ident, $counter:expr) => {
        impl<'a> $trait<$right<'a>> for $left<'a> {
            type Output = $left<'a>;
            fn $method(self, other: $right<'a>) -> $left<'a> {
                $counter(self.1);
                $left(self.0.$method(other.0), self.1)
            }
        }
    };
}

operator!(Base, Add, add, Base, |_: &Counts| ());
operator!(Base, Sub, sub, Base, |_: &Counts| ());
operator!(Base, Mul, mul, Base, |c: &Counts| count(&c.base_products));
operator!(Extended, Add, add, Extended, |_: &Counts| ());
operator!(Extended, Sub, sub, Extended, |_: &Counts| ());
operator!(Extended, Mul, mul, Extended, |c: &Counts| count(
    &c.products
));
operator!(Extended, Mul, mul, Base, |c: &Counts| count(
    &c.base_products
));

/// Counts operations, and computes the same as [`Native`].
struct Meter<'a> {
    proof: &'a [Fp],
    counts: &'a Counts,
}

impl<'a> Arith for Meter<'a> {
    type Base = Base<'a>;
    type Ext = Extended<'a>;

    fn base(&self, value: Fp) -> Base<'a> {
        Base(value, self.counts)
    }

    fn ext(&self, value: Ext) -> Extended<'a> {
        Extended(value, self.counts)
    }

    fn join(&self, coefficients: [Base<'a>; 5]) -> Extended<'a> {
        Extended(Ext(coefficients.map(|x| x.0)), self.counts)
    }

    fn compress(&mut self, left: [Base<'a>; 8], right: [Base<'a>; 8]) -> [Base<'a>; 8] {
        count(&self.counts.hashes);
        compress(left.map(|x| x.0), right.map(|x| x.0)).map(|x| Base(x, self.counts))
    }

    fn read(&mut self) -> Result<Base<'a>, VerifyError> {
        let index = self.counts.reads.get();
        count(&self.counts.reads);
        Ok(Base(self.proof[index], self.counts))
    }

    fn read_where(&mut self, flag: Base<'a>) -> Result<Base<'a>, VerifyError> {
        match flag.0 == Fp::ONE {
            true => self.read(),
            false => Ok(self.base(Fp::ZERO)),
        }
    }

    /// The arguments open nothing.
    fn open(
        &mut self,
        tree: &Opened<'_, Base<'a>>,
        _: &[Vec<Base<'a>>],
    ) -> Result<Vec<Vec<Base<'a>>>, VerifyError> {
        Err(tree.error)
    }

    fn low_bits(&mut self, value: Base<'a>, count: usize) -> Vec<Base<'a>> {
        let value = value.0.canonical();
        let bit = |i: usize| Base(Fp::new(value >> i & 1), self.counts);
        (0..count).map(bit).collect()
    }

    fn assert_zero(&mut self, value: Extended<'a>, error: VerifyError) -> Result<(), VerifyError> {
        (value.0 == Ext::ZERO).then_some(()).ok_or(error)
    }

    fn assert_nonzero(
        &mut self,
        value: Extended<'a>,
        error: VerifyError,
    ) -> Result<(), VerifyError> {
        (value.0 != Ext::ZERO).then_some(()).ok_or(error)
    }
}

/// The operations of the verifier on a proof, and the values of the claims it ends with.
fn metered(example: &Example, proof: &Proof) -> (Counts, Vec<Ext>) {
    let public = example.chains.public(&example.statement, &example.registry);
    let counts = Counts::default();
    let arith = Meter {
        proof: &proof.elements,
        counts: &counts,
    };
    let known = Known {
        digest: public.digest.map(|x| arith.base(x)),
        publics: public.values.iter().map(|x| arith.base(*x)).collect(),
        used: vec![arith.base(Fp::ONE); proof.groups],
    };
    let relation = example.chains.relation();
    let (reduced, _) = reduce(arith, relation, &known).unwrap();
    let claims = reduced.ledger.all().into_iter();
    let values = claims.map(|claim| claim.value.0).collect();
    (counts, values)
}

#[test]
fn the_verifier_in_numbers() {
    let example = Example::new(Parameters::COMPACT, 2, 77);
    let proof = proved(&example, Exec::new(KERNELS.measured(), None));
    let (counts, values) = metered(&example, &proof);
    assert_eq!(counts.reads.get(), elements_said(example.chains.relation()));
    println!("{counts:?}");
    // A circuit has room for 7.7 thousand hashes per child, two thousand of them for the transcript.
    assert!(
        counts.hashes.get() < 2_100,
        "{} hashes",
        counts.hashes.get()
    );
    assert!(
        counts.products.get() < 25_000,
        "{} products",
        counts.products.get()
    );

    let public = example.chains.public(&example.statement, &example.registry);
    let known = Known {
        digest: public.digest,
        publics: public.values.clone(),
        used: vec![Fp::ONE; proof.groups],
    };
    let arith = Native::new(&proof.elements);
    let (reduced, _) = reduce(arith, example.chains.relation(), &known).unwrap();
    let claims = reduced.ledger.all().into_iter();
    let native: Vec<Ext> = claims.map(|claim| claim.value).collect();
    assert_eq!(native, values);
}

/// The same steps for every proof of a shape: a circuit has no branches.
#[test]
fn the_verifier_does_the_same_for_every_proof() {
    let steps = |slot: u32, count: usize| {
        let example = Example::new(MINI, count, slot);
        let (counts, _) = metered(&example, &proved(&example, exec()));
        [
            counts.hashes,
            counts.reads,
            counts.products,
            counts.base_products,
        ]
        .map(|c| c.get())
    };
    assert_eq!(steps(0, 2), steps(3, 4));
}
