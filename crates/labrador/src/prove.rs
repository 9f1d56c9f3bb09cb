//! The prover: one level after another, then the tail.

use crate::adversary::{Step, Tamper};
use crate::challenge::{challenge, weight};
use crate::digits::decompose;
use crate::error::ProveError;
use crate::folded::{Folded, Keys, Openings, place};
use crate::form::{Equations, Form, Garbage, lifts};
use crate::kernel::{Backend, Pass, Vectors};
use crate::principal::{Products, inner_products};
use crate::projection::{LIFTS, Projection, ROWS, image_norm_sq, weigh, weights};
use crate::ring::{DEGREE, Ntt, Rq, Small, norm_sq};
use crate::schedule::{Cut, Level, Tail};
use crate::transcript::{Stream, Transcript};
use crate::wire::Sender;

/// A projection is accepted up to this multiple of the bound of the squared norm, which it
/// reaches on average if the vector is as long as the bound.
pub(crate) const PROJECTION_FACTOR: u128 = 128;

/// What runs through all levels.
pub struct Prover<'a> {
    pub(crate) sender: Sender,
    pub(crate) tamper: &'a mut dyn Tamper,
    /// The level at work, from 1.
    pub(crate) number: usize,
}

/// Challenge `index` of a level, given its transcript after the last message before it.
pub(crate) fn draw_challenge(transcript: &Transcript, index: usize) -> Ntt {
    Ntt::from_small_bounded(&challenge(&transcript.seed("challenge", index as u64)), 2)
}

/// The challenges of a level that is followed by another one.
pub(crate) fn draw_challenges(transcript: &Transcript, count: usize) -> Vec<Ntt> {
    (0..count).map(|i| draw_challenge(transcript, i)).collect()
}

/// `sum c_i x_i` over the pieces of a vector.
pub(crate) fn amortise(
    cut: &Cut,
    challenges: &[Ntt],
    vector: &[Ntt],
    backend: Backend,
) -> Vec<Ntt> {
    backend.run(Amortise {
        cut,
        challenges,
        vector,
    })
}

struct Amortise<'a> {
    cut: &'a Cut,
    challenges: &'a [Ntt],
    vector: &'a [Ntt],
}

impl Pass for Amortise<'_> {
    type Output = Vec<Ntt>;

    #[inline(always)]
    fn run<V: Vectors>(self) -> Vec<Ntt> {
        let rank = self.cut.rank;
        let mut out = Vec::with_capacity(rank);
        for k in 0..rank {
            let pieces = self.challenges.iter().enumerate();
            let pairs = pieces.map(|(i, c)| (c, &self.vector[i * rank + k]));
            out.push(Ntt::dot_in::<V>(pairs));
        }
        out
    }
}

impl Prover<'_> {
    pub(crate) fn margin(&self, step: &'static str) -> ProveError {
        ProveError::ScheduleMargin {
            level: self.number,
            step,
        }
    }

    /// The digits of all elements, element by element.
    pub(crate) fn digits(
        &self,
        elements: &[Rq],
        base: u32,
        count: usize,
        step: &'static str,
    ) -> Result<Vec<Small>, ProveError> {
        let mut out = Vec::with_capacity(elements.len() * count);
        for element in elements {
            let digits = decompose(&element.centred(), base, count);
            out.extend(digits.ok_or_else(|| self.margin(step))?);
        }
        Ok(out)
    }

    /// Sends the first projection that is short enough.
    fn project(
        &mut self,
        s: &[Small],
        bound: u128,
        backend: Backend,
    ) -> Result<(Projection, [i64; ROWS]), ProveError> {
        for nonce in 0..=u8::MAX {
            let seed = self.sender.transcript.seed("projection", u64::from(nonce));
            let projection = Projection::new(seed);
            let mut image = projection.project(s, backend);
            self.tamper.at(self.number, Step::Projection(&mut image));
            if image_norm_sq(&image) <= PROJECTION_FACTOR * bound || self.tamper.forces(self.number)
            {
                self.sender.byte("projection nonce", nonce);
                self.sender.gaussian("projection", &image, bound / 2);
                return Ok((projection, image));
            }
        }
        Err(self.margin("the projection"))
    }

    /// Sends the lifts and completes their right sides.
    pub(crate) fn send_lifts(
        &mut self,
        forms: &mut [Form; LIFTS],
        g: &Garbage,
        s_ntt: &[Ntt],
        backend: Backend,
    ) {
        let evaluate = |form: &Form| form.evaluate(g, s_ntt, backend);
        let mut values: Vec<Rq> = forms.iter().map(evaluate).collect();
        self.tamper.at(self.number, Step::Lifts(&mut values));
        self.sender.elements_without_constant("lifts", &values);
        for (form, value) in forms.iter_mut().zip(values) {
            let constant = form.rhs.coefficients()[0];
            form.rhs = value;
            form.rhs.set_constant(constant);
        }
    }

    /// From the commitments of a level to its one remaining equation.
    #[allow(clippy::too_many_arguments)]
    fn aggregate(
        &mut self,
        equations: &dyn Equations,
        cut: &Cut,
        s: &[Small],
        s_ntt: &[Ntt],
        g: &Garbage,
        bound: u128,
        backend: Backend,
    ) -> Result<Form, ProveError> {
        let (projection, image) = self.project(s, bound, backend)?;
        let transcript = &self.sender.transcript;
        let omegas = weights(&mut transcript.seed("lift projection", 0).stream());
        let mut streams =
            std::array::from_fn(|l| transcript.seed("lift equations", l as u64).stream());
        let images = std::array::from_fn(|l| weigh(&omegas[l], &image));
        let mut forms = lifts(
            equations,
            cut,
            &projection,
            &omegas,
            images,
            &mut streams,
            backend,
        );
        self.send_lifts(&mut forms, g, s_ntt, backend);
        Ok(combine(
            &self.sender.transcript,
            equations,
            cut,
            &forms,
            backend,
        ))
    }

    /// One level: from equations and a cut witness to the relation of the next.
    pub(crate) fn level<'k>(
        &mut self,
        keys: &'k Keys,
        level: &'k Level,
        equations: &dyn Equations,
        mut s: Vec<Small>,
    ) -> Result<(Folded<'k>, Vec<Small>), ProveError> {
        let cut = &level.cut;
        self.tamper.at(self.number, Step::Witness(&mut s));
        let backend = keys.backend;
        let s_ntt = backend.residues(&s);
        let mut t = commit_pieces(keys, cut, level.kappa, &s_ntt);
        let mut g = if level.g_digits > 0 {
            inner_products(cut, &s_ntt, backend).elements
        } else {
            Vec::new()
        };
        self.tamper
            .at(self.number, Step::Commitments(&mut t, &mut g));
        let mut v = self.digits(&t, level.t_base, level.t_digits, "a commitment")?;
        v.extend(self.digits(&g, level.g_base, level.g_digits.max(1), "quadratic garbage")?);
        let mut u1 = (keys.outer).commit(level.kappa_outer, &backend.residues(&v), backend);
        self.tamper.at(self.number, Step::Outer(&mut u1));
        self.sender.elements("u1", &u1);
        let g = garbage_or_zero(cut, g);
        let form = self.aggregate(equations, cut, &s, &s_ntt, &g, level.norm_sq, backend)?;
        self.fold_level(keys, level, form, &s_ntt, v, Openings::one(u1))
    }

    /// The second half of a level: from its one remaining equation to the relation of the next.
    /// `v` are the digits of `t` and `g`.
    pub(crate) fn fold_level<'k>(
        &mut self,
        keys: &'k Keys,
        level: &'k Level,
        form: Form,
        s_ntt: &[Ntt],
        mut v: Vec<Small>,
        openings: Openings,
    ) -> Result<(Folded<'k>, Vec<Small>), ProveError> {
        let cut = &level.cut;
        let backend = keys.backend;
        let phi_ntt = backend.transforms(&form.phi);
        let mut h = backend.run(Products {
            cut,
            phi: &phi_ntt,
            witness: s_ntt,
        });
        self.tamper.at(self.number, Step::Garbage(&mut h));
        let h = self.digits(&h, level.t_base, level.t_digits, "linear garbage")?;
        let mut u2 = (keys.garbage).commit(level.kappa_outer, &backend.residues(&h), backend);
        self.tamper.at(self.number, Step::OuterGarbage(&mut u2));
        self.sender.elements("u2", &u2);
        v.extend(h);
        let (challenges, witness) = self.respond(level, s_ntt, v, backend)?;
        let phi = amortise(cut, &challenges, &phi_ntt, backend);
        let folded = Folded {
            level,
            keys,
            challenges,
            phi: backend.elements(&phi),
            quadratic: form.quadratic,
            rhs: form.rhs,
            openings,
            u2,
        };
        Ok((folded, witness))
    }

    /// The first response within the bound, as digits, and `v` behind it.
    fn respond(
        &mut self,
        level: &Level,
        s_ntt: &[Ntt],
        v: Vec<Small>,
        backend: Backend,
    ) -> Result<(Vec<Ntt>, Vec<Small>), ProveError> {
        let before = self.sender.transcript.clone();
        for nonce in 0..=u8::MAX {
            let mut transcript = before.clone();
            transcript.absorb("challenge nonce", &[nonce]);
            let challenges = draw_challenges(&transcript, level.cut.pieces);
            let Some(mut witness) = self.response_digits(level, &challenges, s_ntt, backend) else {
                continue;
            };
            witness.extend_from_slice(&v);
            if norm_sq(&witness) <= level.norm_sq_out || self.tamper.forces(self.number) {
                self.sender.byte("challenge nonce", nonce);
                return Ok((challenges, witness));
            }
        }
        Err(self.margin("the response"))
    }

    fn response_digits(
        &mut self,
        level: &Level,
        challenges: &[Ntt],
        s_ntt: &[Ntt],
        backend: Backend,
    ) -> Option<Vec<Small>> {
        let z = backend.elements(&amortise(&level.cut, challenges, s_ntt, backend));
        let mut z: Vec<[i64; DEGREE]> = z.iter().map(Rq::centred).collect();
        self.tamper.at(self.number, Step::Response(&mut z));
        let mut low = Vec::with_capacity(2 * z.len());
        let mut high = Vec::with_capacity(z.len());
        for element in &z {
            let mut digits = decompose(element, level.z_base, 2)?.into_iter();
            low.extend(digits.next());
            high.extend(digits.next());
        }
        low.append(&mut high);
        Some(low)
    }

    /// The last level: everything in clear.
    pub(crate) fn tail(
        &mut self,
        keys: &Keys,
        tail: &Tail,
        equations: &dyn Equations,
        mut s: Vec<Small>,
    ) -> Result<(), ProveError> {
        let cut = &tail.cut;
        self.tamper.at(self.number, Step::Witness(&mut s));
        let backend = keys.backend;
        let s_ntt = backend.residues(&s);
        let mut t = commit_pieces(keys, cut, tail.kappa, &s_ntt);
        let mut g = if tail.quadratic {
            inner_products(cut, &s_ntt, backend).elements
        } else {
            Vec::new()
        };
        self.tamper
            .at(self.number, Step::Commitments(&mut t, &mut g));
        self.sender.elements("t", &t);
        let flat: Vec<i64> = g.iter().flat_map(Rq::centred).collect();
        self.sender.gaussian("g", &flat, tail.g_variance);
        let g = garbage_or_zero(cut, g);
        let form = self.aggregate(equations, cut, &s, &s_ntt, &g, tail.norm_sq, backend)?;
        let phi = backend.transforms(&form.phi);
        self.respond_in_clear(tail, &phi, &s_ntt)
    }

    /// Sends the first response that is short enough.
    fn respond_in_clear(
        &mut self,
        tail: &Tail,
        phi: &[Ntt],
        s_ntt: &[Ntt],
    ) -> Result<(), ProveError> {
        let before = self.sender.clone();
        for nonce in 0..=u8::MAX {
            self.sender = before.clone();
            self.sender.byte("challenge nonce", nonce);
            let mut z = self.fold(&tail.cut, phi, s_ntt);
            self.tamper.at(self.number, Step::Response(&mut z));
            let norm: u128 = (z.iter().flatten())
                .map(|&c| u128::from(c.unsigned_abs()).pow(2))
                .sum();
            if norm <= tail.norm_sq_out || self.tamper.forces(self.number) {
                let flat: Vec<i64> = z.iter().flatten().copied().collect();
                self.sender.gaussian("z", &flat, tail.z_variance);
                return Ok(());
            }
        }
        Err(self.margin("the response"))
    }

    /// Folds the pieces one after another and sends the linear garbage of each step before its
    /// challenge.
    fn fold(&mut self, cut: &Cut, phi: &[Ntt], s_ntt: &[Ntt]) -> Vec<[i64; DEGREE]> {
        let mut z = vec![Ntt::zero(); cut.rank];
        let mut form = vec![Ntt::zero(); cut.rank];
        for i in 0..cut.pieces {
            let s = &s_ntt[i * cut.rank..(i + 1) * cut.rank];
            let phi = &phi[i * cut.rank..(i + 1) * cut.rank];
            let mut garbage = Vec::with_capacity(2);
            if i > 0 {
                let mut mixed = Ntt::dot(phi.iter().zip(&z)).to_rq();
                mixed.add(&Ntt::dot(form.iter().zip(s)).to_rq());
                garbage.push(mixed);
            }
            garbage.push(Ntt::dot(phi.iter().zip(s)).to_rq());
            self.tamper.at(self.number, Step::Garbage(&mut garbage));
            self.sender.elements("h", &garbage);
            let challenge = draw_challenge(&self.sender.transcript, i);
            for k in 0..cut.rank {
                z[k].add(&challenge.times(&s[k]));
                form[k].add(&challenge.times(&phi[k]));
            }
        }
        z.iter().map(|z| z.to_rq().centred()).collect()
    }
}

/// `A s_i` for every piece, piece by piece.
pub(crate) fn commit_pieces(keys: &Keys, cut: &Cut, rows: usize, s_ntt: &[Ntt]) -> Vec<Rq> {
    s_ntt
        .chunks_exact(cut.rank)
        .flat_map(|piece| keys.inner.commit(rows, piece, keys.backend))
        .collect()
}

fn garbage_or_zero(cut: &Cut, g: Vec<Rq>) -> Garbage {
    if g.is_empty() {
        Garbage::new(cut.pieces, vec![Rq::ZERO; cut.pairs()])
    } else {
        Garbage::new(cut.pieces, g)
    }
}

/// The witness of a level, with zeros behind its halves of `z` and behind `v`.
pub(crate) fn cut_witness(cut: &Cut, rank: usize, witness: Vec<Small>) -> Vec<Small> {
    let mut out = vec![Small::ZERO; cut.pieces * cut.rank];
    for (index, element) in witness.into_iter().enumerate() {
        out[place(cut, rank, index)] = element;
    }
    out
}

/// The weights of the lifts.
pub(crate) fn draw_weights(stream: &mut Stream) -> [Ntt; LIFTS] {
    std::array::from_fn(|_| Ntt::from_small_bounded(&weight(stream), 2))
}

/// The one equation that remains of a level: its lifts and its equations in `R_Q`, each with a
/// short weight of the transcript.
pub(crate) fn combine(
    transcript: &Transcript,
    equations: &dyn Equations,
    cut: &Cut,
    lifts: &[Form; LIFTS],
    backend: Backend,
) -> Form {
    let mut stream = transcript.seed("weights", 0).stream();
    let weights = draw_weights(&mut stream);
    let mut form = Form::weighted(cut, &weights, lifts, backend);
    equations.aggregate(cut, &mut stream, &mut form);
    form
}
