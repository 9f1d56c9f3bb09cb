//! The prover: one level after another, then the tail.

use alphorn_exec::{Exec, Stopped};

#[cfg(test)]
use crate::adversary::Tamper;
use crate::challenge::{challenge, weight};
use crate::digits::decompose;
use crate::error::ProveError;
use crate::folded::{Folded, Keys, Openings, place};
use crate::form::{Equations, Form, Garbage, lifts, pairs};
use crate::projection::{LIFTS, Projection, ROWS, image_norm_sq};
use crate::ring::{DEGREE, Ntt, Rq, Small, Transforms, norm_sq};
use crate::schedule::{Cut, Level, Tail};
use crate::tiles::Tiles;
use crate::transcript::{Stream, Transcript};
use crate::wire::Sender;

/// A projection is accepted up to this multiple of the bound of the squared norm, which it
/// reaches on average if the vector is as long as the bound.
pub(crate) const PROJECTION_FACTOR: u128 = 128;

/// Where the prover of a test may lie, see [`crate::adversary`]: nothing is there in a build that is none.
macro_rules! lie_at {
    ($prover:expr, $step:ident($($held:expr),+)) => {
        #[cfg(test)]
        $prover
            .tamper
            .at($prover.number, crate::adversary::Step::$step($($held),+));
        #[cfg(not(test))]
        let _ = ($($held,)+);
    };
}
pub(crate) use lie_at;

/// What runs through all levels.
pub struct Prover<'a> {
    pub(crate) sender: Sender,
    /// Who lies for a test.
    #[cfg(test)]
    pub(crate) tamper: &'a mut dyn Tamper,
    pub(crate) exec: Exec<'a>,
    /// The level at work, from 1.
    pub(crate) number: usize,
}

/// What a front end committed to before the rest of its witness was known.
pub(crate) struct Beginning {
    /// The residues of the pieces under the commitment, with room for the others.
    pub(crate) tiles: Tiles,
    /// How many pieces these are.
    pub(crate) pieces: usize,
    /// The digits of their inner commitments.
    pub(crate) digits: Vec<Small>,
    /// The commitment; empty if there are no pieces.
    pub(crate) u0: Vec<Rq>,
}

/// Challenge `index` of a level, given its transcript after the last message before it.
pub(crate) fn draw_challenge(transcript: &Transcript, index: usize) -> Ntt {
    Ntt::from_small_bounded(&challenge(&transcript.seed("challenge", index as u64)), 2)
}

/// The challenges of a level that is followed by another one.
pub(crate) fn draw_challenges(transcript: &Transcript, count: usize) -> Vec<Ntt> {
    (0..count).map(|i| draw_challenge(transcript, i)).collect()
}

impl Prover<'_> {
    /// Whether a test goes on with what is too long instead of trying again.
    pub(crate) fn is_forced(&self) -> bool {
        #[cfg(test)]
        return self.tamper.forces(self.number);
        #[cfg(not(test))]
        false
    }

    /// Begins a step, unless nobody waits for the proof any more.
    pub(crate) fn step(&self, name: &'static str) -> Result<(), Stopped> {
        self.exec.step(name)
    }

    /// Begins a step of a level: the first one has names of its own.
    fn step_of_level(&self, first: &'static str, later: &'static str) -> Result<(), Stopped> {
        self.step(if self.number == 1 { first } else { later })
    }

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
    ) -> Result<(Projection, [i64; ROWS]), ProveError> {
        for nonce in 0..=u8::MAX {
            let seed = self.sender.transcript.seed("projection", u64::from(nonce));
            let projection = Projection::new(seed);
            let mut image = projection.project_on(s, self.exec)?;
            lie_at!(self, Projection(&mut image));
            if image_norm_sq(&image) <= PROJECTION_FACTOR * bound || self.is_forced() {
                self.sender.byte("projection nonce", nonce);
                self.sender.gaussian("projection", &image, bound / 2);
                return Ok((projection, image));
            }
        }
        Err(self.margin("the projection"))
    }

    /// Sends the values of the lifts, whose constants are known already, and returns them.
    pub(crate) fn send_lifts(&mut self, mut values: Vec<Rq>, constants: &[u64; LIFTS]) -> Vec<Rq> {
        lie_at!(self, Lifts(&mut values));
        self.sender.elements_without_constant("lifts", &values);
        for (value, &constant) in values.iter_mut().zip(constants) {
            value.set_constant(constant);
        }
        values
    }

    /// From the commitments of a level to its one remaining equation.
    fn aggregate(
        &mut self,
        equations: &dyn Equations,
        cut: &Cut,
        s: &[Small],
        tiles: &Tiles,
        g: &Garbage,
        bound: u128,
    ) -> Result<Form, ProveError> {
        self.step_of_level("projection", "later: projections")?;
        let (projection, image) = self.project(s, bound)?;
        self.step_of_level("lifts", "later: lifts")?;
        let transcript = &self.sender.transcript;
        let mut forms = lifts(equations, cut, &projection, &image, transcript, self.exec)?;
        let phis = forms.each_ref().map(|form| &form.phi[..]);
        let mut values = tiles.evaluate(&phis, self.exec)?;
        for (value, form) in values.iter_mut().zip(&forms) {
            value.add(&form.quadratic_value(g));
        }
        let constants = forms.each_ref().map(|form| form.rhs.coefficients()[0]);
        let values = self.send_lifts(values, &constants);
        for (form, value) in forms.iter_mut().zip(values) {
            form.rhs = value;
        }
        self.step_of_level("one equation", "later: one equation")?;
        Ok(combine(
            &self.sender.transcript,
            equations,
            cut,
            &forms,
            self.exec,
        )?)
    }

    /// Commits to the first pieces of a witness and sends the commitment.
    pub(crate) fn begin(
        &mut self,
        keys: &Keys,
        level: &Level,
        s: &[Small],
        pieces: usize,
    ) -> Result<Beginning, ProveError> {
        let exec = self.exec;
        let tiles = Tiles::first_short(&level.cut, pieces, s, exec)?;
        let t = tiles.commit(&keys.inner, level.kappa, 0..pieces, exec)?;
        let digits = self.digits(&t, level.t_base, level.t_digits, "a commitment")?;
        let mut u0 = keys.first.commit(level.kappa_outer, &digits, exec)?;
        lie_at!(self, First(&mut u0));
        self.sender.elements("u0", &u0);
        Ok(Beginning {
            tiles,
            pieces,
            digits,
            u0,
        })
    }

    /// One level: from equations and a cut witness to the relation of the next.
    pub(crate) fn level<'k>(
        &mut self,
        keys: &'k Keys,
        level: &'k Level,
        equations: &dyn Equations,
        mut s: Vec<Small>,
    ) -> Result<(Folded<'k>, Vec<Small>), ProveError> {
        lie_at!(self, Witness(&mut s));
        let nothing = Beginning {
            tiles: Tiles::first_short(&level.cut, 0, &s, self.exec)?,
            pieces: 0,
            digits: Vec::new(),
            u0: Vec::new(),
        };
        self.level_after(keys, level, equations, s, nothing)
    }

    /// A level whose first pieces may be committed to already.
    pub(crate) fn level_after<'k>(
        &mut self,
        keys: &'k Keys,
        level: &'k Level,
        equations: &dyn Equations,
        s: Vec<Small>,
        beginning: Beginning,
    ) -> Result<(Folded<'k>, Vec<Small>), ProveError> {
        let (cut, exec) = (&level.cut, self.exec);
        self.step_of_level("second commitment", "later: commitments")?;
        let tiles = beginning.tiles.with_short(cut.pieces, &s, exec)?;
        let own = beginning.pieces..cut.pieces;
        let mut t = tiles.commit(&keys.inner, level.kappa, own, exec)?;
        let mut g = if level.g_digits > 0 {
            tiles.squares(exec)?
        } else {
            Vec::new()
        };
        lie_at!(self, Commitments(&mut t, &mut g));
        let (mut v, u0) = (beginning.digits, beginning.u0);
        let first_digits = v.len();
        v.extend(self.digits(&t, level.t_base, level.t_digits, "a commitment")?);
        v.extend(self.digits(&g, level.g_base, level.g_digits.max(1), "quadratic garbage")?);
        let own = &v[first_digits..];
        let mut u1 = keys.outer.commit(level.kappa_outer, own, exec)?;
        lie_at!(self, Outer(&mut u1));
        self.sender.elements("u1", &u1);
        let g = garbage_or_zero(cut, g);
        let form = self.aggregate(equations, cut, &s, &tiles, &g, level.norm_sq)?;
        self.step_of_level("linear garbage", "later: garbage")?;
        let phi = Tiles::wide(cut, &form.phi, exec)?;
        let products = phi.products(&tiles, exec)?;
        let h = cross_sums(cut, |i, j| products.get(i, j).to_rq());
        let (u2, h) = self.send_garbage(keys, level, h)?;
        v.extend(h);
        self.step_of_level("response", "later: responses")?;
        let (challenges, witness) = self.respond(level, &tiles, v)?;
        let folded = Folded {
            level,
            keys,
            phi: phi.amortise(&challenges, exec)?,
            challenges,
            quadratic: form.quadratic,
            rhs: form.rhs,
            openings: Openings {
                u0,
                first_digits,
                u1,
            },
            u2,
        };
        Ok((folded, witness))
    }

    /// Commits to the linear garbage: the commitment, and the digits.
    pub(crate) fn send_garbage(
        &mut self,
        keys: &Keys,
        level: &Level,
        mut h: Vec<Rq>,
    ) -> Result<(Vec<Rq>, Vec<Small>), ProveError> {
        lie_at!(self, Garbage(&mut h));
        let h = self.digits(&h, level.t_base, level.t_digits, "linear garbage")?;
        let mut u2 = keys.garbage.commit(level.kappa_outer, &h, self.exec)?;
        lie_at!(self, OuterGarbage(&mut u2));
        self.sender.elements("u2", &u2);
        Ok((u2, h))
    }

    /// The first response within the bound, as digits, and `v` behind it.
    pub(crate) fn respond(
        &mut self,
        level: &Level,
        tiles: &Tiles,
        v: Vec<Small>,
    ) -> Result<(Vec<Ntt>, Vec<Small>), ProveError> {
        let before = self.sender.transcript.clone();
        for nonce in 0..=u8::MAX {
            let mut transcript = before.clone();
            transcript.absorb("challenge nonce", &[nonce]);
            let challenges = draw_challenges(&transcript, level.cut.pieces);
            let z = tiles.amortise(&challenges, self.exec)?;
            let Some(mut witness) = self.response_digits(level, &z) else {
                continue;
            };
            witness.extend_from_slice(&v);
            if norm_sq(&witness) <= level.norm_sq_out || self.is_forced() {
                self.sender.byte("challenge nonce", nonce);
                return Ok((challenges, witness));
            }
        }
        Err(self.margin("the response"))
    }

    fn response_digits(&mut self, level: &Level, z: &[Rq]) -> Option<Vec<Small>> {
        let mut z: Vec<[i64; DEGREE]> = z.iter().map(Rq::centred).collect();
        lie_at!(self, Response(&mut z));
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
        lie_at!(self, Witness(&mut s));
        let exec = self.exec;
        self.step("last level")?;
        let tiles = Tiles::short(cut, &s, exec)?;
        let mut t = tiles.commit(&keys.inner, tail.kappa, 0..cut.pieces, exec)?;
        let mut g = if tail.quadratic {
            tiles.squares(exec)?
        } else {
            Vec::new()
        };
        lie_at!(self, Commitments(&mut t, &mut g));
        self.sender.elements("t", &t);
        let flat: Vec<i64> = g.iter().flat_map(Rq::centred).collect();
        self.sender.gaussian("g", &flat, tail.g_variance);
        let g = garbage_or_zero(cut, g);
        let form = self.aggregate(equations, cut, &s, &tiles, &g, tail.norm_sq)?;
        self.step("last level")?;
        let phi = exec.backend().transforms(&form.phi);
        self.respond_in_clear(tail, &phi, &exec.backend().residues(&s))
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
            lie_at!(self, Response(&mut z));
            let norm: u128 = (z.iter().flatten())
                .map(|&c| u128::from(c.unsigned_abs()).pow(2))
                .sum();
            if norm <= tail.norm_sq_out || self.is_forced() {
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
            lie_at!(self, Garbage(&mut garbage));
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

/// `x_ii`, and `x_ij + x_ji` for `i < j`, upper triangle by rows.
pub(crate) fn cross_sums(cut: &Cut, x: impl Fn(usize, usize) -> Rq) -> Vec<Rq> {
    let sum = |(i, j)| {
        let mut sum = x(i, j);
        if i != j {
            sum.add(&x(j, i));
        }
        sum
    };
    pairs(cut.pieces).map(sum).collect()
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
    exec: Exec<'_>,
) -> Result<Form, Stopped> {
    let mut stream = transcript.seed("weights", 0).stream();
    let weights = draw_weights(&mut stream);
    let mut form = Form::weighted(&weights, lifts, exec)?;
    if let Some(aggregate) = equations.aggregate(cut, &mut stream, &mut form, exec)? {
        aggregate.add_to(&mut form.phi, exec)?;
    }
    Ok(form)
}
