//! The principal relation of LaBRADOR: short vectors under quadratic and linear equations.

use alphorn_exec::{Backend, Exec, Stopped};

use crate::aggregate::Aggregate;
use crate::challenge::weight;
use crate::error::{Invalid, StatementError};
use crate::form::{Equations, Form};
use crate::ring::{DEGREE, Ntt, Rq, Small, Transforms, add_mod, mul_mod, norm_sq};
use crate::schedule::{Cut, PublicBounds};
use crate::sis::Profile;
use crate::transcript::{Stream, Transcript};

/// Equations of a statement are at most this many.
pub(crate) const EQUATIONS_MAX: usize = 1 << 16;

/// Where an equation must hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// In `R_Q`, in every coefficient.
    Ring,
    /// In the constant coefficient alone: an equation over the integers modulo `Q`. With
    /// `<a, b> = ct(sigma(a) b)` on coefficient vectors these are norms and inner products.
    Constant,
}

/// `coefficient <s_i, s_j>`, the sum of the ring products without conjugation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuadraticTerm {
    /// The first vector.
    pub i: usize,
    /// The second vector; may be the first.
    pub j: usize,
    /// The factor.
    pub coefficient: Rq,
}

/// `sum_k coefficients[k] s_piece[start + k]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinearTerm {
    /// The vector.
    pub piece: usize,
    /// Its first element under the form.
    pub start: usize,
    /// The factors of its elements from there on.
    pub coefficients: Vec<Rq>,
}

/// An equation: the sum of its terms is `target`, modulo `Q`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Equation {
    /// Where it must hold.
    pub kind: Kind,
    /// Its quadratic terms.
    pub quadratic: Vec<QuadraticTerm>,
    /// Its linear terms.
    pub linear: Vec<LinearTerm>,
    /// Its right side; for [`Kind::Constant`] only the constant coefficient counts.
    pub target: Rq,
}

/// Vectors of equal length, a bound of their norm, and equations.
///
/// A proof shows knowledge of vectors that satisfy every equation modulo `Q` and whose squared
/// norms together are at most `128/30 norm_sq`: the projection lemma loses that factor. An exact
/// norm is an equation of [`Kind::Constant`] over a vector and its conjugate, and those of
/// [`Equation::conjugates`], without which the other vector may be any. It holds over the
/// integers because [`crate::schedule::Schedule::derive`] only admits bounds with
/// `128/30 norm_sq < Q / 2`, which no inner product of such vectors exceeds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement {
    pieces: usize,
    rank: usize,
    norm_sq: u128,
    profile: Profile,
    equations: Vec<Equation>,
}

impl Statement {
    /// A statement about `pieces` vectors of `rank` elements.
    ///
    /// # Errors
    /// If an equation names a vector or an element that does not exist, or there are more than
    /// `EQUATIONS_MAX`.
    pub fn new(
        pieces: usize,
        rank: usize,
        norm_sq: u128,
        profile: Profile,
        equations: Vec<Equation>,
    ) -> Result<Self, StatementError> {
        if equations.len() > EQUATIONS_MAX {
            return Err(StatementError::Equations {
                equations: equations.len(),
                max: EQUATIONS_MAX,
            });
        }
        for (index, equation) in equations.iter().enumerate() {
            equation.check(index, pieces, rank)?;
        }
        Ok(Self {
            pieces,
            rank,
            norm_sq,
            profile,
            equations,
        })
    }

    /// What decides the parameters.
    #[must_use]
    pub fn bounds(&self) -> PublicBounds {
        PublicBounds {
            pieces: self.pieces,
            rank: self.rank,
            norm_sq: self.norm_sq,
            images: None,
            families: 0,
            front_bytes: 0,
            block_levels: 0,
            quadratic: self.equations.iter().any(|e| !e.quadratic.is_empty()),
            profile: self.profile,
        }
    }

    /// Checks a witness: all vectors one after another.
    ///
    /// # Errors
    /// The first thing that does not hold.
    pub(crate) fn check(&self, witness: &[Small]) -> Result<(), Invalid> {
        let expected = self.pieces * self.rank;
        if witness.len() != expected {
            return Err(Invalid::Shape {
                elements: witness.len(),
                expected,
            });
        }
        let norm_sq = norm_sq(witness);
        if norm_sq > self.norm_sq {
            return Err(Invalid::Norm {
                norm_sq,
                max: self.norm_sq,
            });
        }
        let residues = Backend::Portable.residues(witness);
        let piece = |i: usize| &residues[i * self.rank..(i + 1) * self.rank];
        for (index, equation) in self.equations.iter().enumerate() {
            let mut sum = Rq::ZERO;
            for term in &equation.quadratic {
                let product = Ntt::dot(piece(term.i).iter().zip(piece(term.j)));
                let product = Ntt::from_rq(&product.to_rq());
                sum.add(&product.times(&Ntt::from_rq(&term.coefficient)).to_rq());
            }
            for term in &equation.linear {
                let factors: Vec<Ntt> = term.coefficients.iter().map(Ntt::from_rq).collect();
                let elements = &piece(term.piece)[term.start..];
                sum.add(&Ntt::dot(factors.iter().zip(elements)).to_rq());
            }
            let holds = match equation.kind {
                Kind::Ring => sum == equation.target,
                Kind::Constant => sum.coefficients()[0] == equation.target.coefficients()[0],
            };
            if !holds {
                return Err(Invalid::Equation { equation: index });
            }
        }
        Ok(())
    }

    /// Absorbs everything that is public.
    pub(crate) fn absorb(&self, transcript: &mut Transcript) {
        let mut data = Vec::new();
        for x in [self.pieces, self.rank, self.equations.len()] {
            data.extend((x as u64).to_le_bytes());
        }
        data.extend(self.norm_sq.to_le_bytes());
        transcript.absorb("statement", &data);
        for equation in &self.equations {
            transcript.absorb("equation", &equation.encode());
        }
    }
}

impl Equation {
    /// The equations by which vector `j` is the conjugate of vector `i`, coefficient by coefficient:
    /// conjugation is not linear over the ring, but it is over the integers. They are 64 for each of the
    /// `rank` elements.
    pub fn conjugates(i: usize, j: usize, rank: usize) -> impl Iterator<Item = Self> {
        // The constant coefficient of this factor times `s` is coefficient `k` of `s`, as `X^64 = -1`.
        let coefficient = |k: usize, sign: i64| {
            let mut factor = [0; DEGREE];
            factor[(DEGREE - k) % DEGREE] = if k == 0 { sign } else { -sign };
            vec![Rq::from_integers(&factor)]
        };
        let term = |piece, start, coefficients| LinearTerm {
            piece,
            start,
            coefficients,
        };
        let places = (0..rank).flat_map(|element| (0..DEGREE).map(move |k| (element, k)));
        places.map(move |(element, k)| Self {
            kind: Kind::Constant,
            quadratic: vec![],
            linear: vec![
                term(i, element, coefficient(k, 1)),
                // The conjugate has the constant coefficient itself, and the others negated and backwards.
                term(
                    j,
                    element,
                    coefficient((DEGREE - k) % DEGREE, if k == 0 { -1 } else { 1 }),
                ),
            ],
            target: Rq::ZERO,
        })
    }

    fn check(&self, equation: usize, pieces: usize, rank: usize) -> Result<(), StatementError> {
        let quadratic = self.quadratic.iter().flat_map(|t| [t.i, t.j]);
        let mut named = quadratic.chain(self.linear.iter().map(|t| t.piece));
        if let Some(piece) = named.find(|&piece| piece >= pieces) {
            return Err(StatementError::Piece {
                equation,
                piece,
                pieces,
            });
        }
        for term in &self.linear {
            let end = term.start.saturating_add(term.coefficients.len());
            if end > rank {
                return Err(StatementError::Rank {
                    equation,
                    end,
                    rank,
                });
            }
        }
        Ok(())
    }

    fn encode(&self) -> Vec<u8> {
        let mut out = vec![u8::from(self.kind == Kind::Constant)];
        let number = |out: &mut Vec<u8>, x: usize| out.extend((x as u64).to_le_bytes());
        let element = |out: &mut Vec<u8>, x: &Rq| {
            out.extend(x.coefficients().iter().flat_map(|c| c.to_le_bytes()));
        };
        number(&mut out, self.quadratic.len());
        for term in &self.quadratic {
            number(&mut out, term.i);
            number(&mut out, term.j);
            element(&mut out, &term.coefficient);
        }
        number(&mut out, self.linear.len());
        for term in &self.linear {
            for x in [term.piece, term.start, term.coefficients.len()] {
                number(&mut out, x);
            }
            for coefficient in &term.coefficients {
                element(&mut out, coefficient);
            }
        }
        element(&mut out, &self.target);
        out
    }

    /// Adds the left side to a form, each factor mapped by `times`.
    fn add_terms(&self, cut: &Cut, form: &mut Form, times: impl Fn(&Rq) -> Rq) {
        for term in &self.quadratic {
            form.add_quadratic(term.i, term.j, &times(&term.coefficient));
        }
        for term in &self.linear {
            let start = term.piece * cut.rank + term.start;
            for (phi, coefficient) in form.phi[start..].iter_mut().zip(&term.coefficients) {
                phi.add(&times(coefficient));
            }
        }
    }
}

impl Equations for Statement {
    fn aggregate<'a>(
        &'a self,
        cut: &Cut,
        stream: &mut Stream,
        form: &mut Form,
        _: Exec<'_>,
    ) -> Result<Option<Aggregate<'a>>, Stopped> {
        for equation in self.equations.iter().filter(|e| e.kind == Kind::Ring) {
            let weight = Ntt::from_small_bounded(&weight(stream), 2);
            let times = |x: &Rq| Ntt::from_rq(x).times(&weight).to_rq();
            equation.add_terms(cut, form, times);
            form.rhs.add(&times(&equation.target));
        }
        Ok(None)
    }

    fn lift(&self, cut: &Cut, stream: &mut Stream, form: &mut Form) {
        for equation in self.equations.iter().filter(|e| e.kind == Kind::Constant) {
            let scalar = stream.residue();
            equation.add_terms(cut, form, |x| x.scaled(scalar));
            let constant = form.rhs.coefficients()[0];
            let target = mul_mod(equation.target.coefficients()[0], scalar);
            form.rhs.set_constant(add_mod(constant, target));
        }
    }

    fn has_linear_form(&self) -> bool {
        true
    }

    fn padding(&self, _: &Cut) -> Vec<usize> {
        Vec::new()
    }
}
