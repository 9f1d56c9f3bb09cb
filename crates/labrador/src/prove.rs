//! The prover: one level after another, then the tail.

use alphorn_exec::{Exec, Stopped};

#[cfg(test)]
use crate::adversary::Tamper;
use crate::aggregate::Aggregate;
use crate::challenge::{challenge, weight};
use crate::digits::decompose;
use crate::error::ProveError;
use crate::folded::{Folded, Keys, Linear, Openings, place};
use crate::form::{Form, pairs, right_side, weighted, weights_of_padding};
use crate::images::{IMAGE_FACTOR, Images, Parts, Shown, ShownLifts};
use crate::pieces::Pieces;
use crate::projection::{LIFTS, Projection, ROWS, image_norm_sq, image_variance};
use crate::ring::{DEGREE, Ntt, Rq, Small, Transforms, norm_sq};
use crate::schedule::{Cut, Level, Tail};
use crate::transcript::{Stream, Transcript};
use crate::wire::Sender;

/// A projection is accepted up to this multiple of the bound on the squared norm; a vector that is
/// as long as the bound reaches it on average.
pub(crate) const PROJECTION_FACTOR: u128 = 128;

/// Points where the prover of a test may lie, see [`crate::adversary`]. Expands to nothing outside test builds.
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

/// State that persists through all levels.
pub(crate) struct Prover<'a> {
    pub(crate) sender: Sender,
    /// The liar of a test.
    #[cfg(test)]
    pub(crate) tamper: &'a mut dyn Tamper,
    pub(crate) exec: Exec<'a>,
    /// The current level, from 1.
    pub(crate) number: usize,
}

/// What a level has sent before its equations are assembled.
pub(crate) struct Committed {
    /// The digits of `t`.
    pub(crate) v: Vec<Small>,
    pub(crate) openings: Openings,
}

/// Draws challenge `index` of a level, given its transcript after the last message before it.
pub(crate) fn draw_challenge(transcript: &Transcript, index: usize) -> Ntt {
    Ntt::from_small_bounded(&challenge(&transcript.seed("challenge", index as u64)), 2)
}

/// Draws the challenges of a level that is followed by another one.
pub(crate) fn draw_challenges(transcript: &Transcript, count: usize, exec: Exec<'_>) -> Vec<Ntt> {
    let drawn = exec.map(count, |i| {
        challenge(&transcript.seed("challenge", i as u64))
    });
    exec.backend().residues_bounded(&drawn, 2)
}

impl Prover<'_> {
    /// Whether a test continues with values that are too long instead of retrying.
    pub(crate) fn is_forced(&self) -> bool {
        #[cfg(test)]
        return self.tamper.forces(self.number);
        #[cfg(not(test))]
        false
    }

    /// Begins a step, or fails if the proof is no longer needed.
    pub(crate) fn step(&self, name: &'static str) -> Result<(), Stopped> {
        self.exec.step(name)
    }

    /// Begins a step of a level; the first level has step names of its own.
    fn step_of_level(&self, first: &'static str, later: &'static str) -> Result<(), Stopped> {
        self.step(if self.number == 1 { first } else { later })
    }

    pub(crate) fn margin(&self, step: &'static str) -> ProveError {
        ProveError::ScheduleMargin {
            level: self.number,
            step,
        }
    }

    /// Returns the digits of all elements, element by element.
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

    /// Computes images with `project` under successive matrices, and sends the first ones that are at most `factor`
    /// times the bound.
    fn send_projection(
        &mut self,
        bound: u128,
        factor: u128,
        variance: u128,
        project: impl Fn(&Projection, Exec<'_>) -> Result<Vec<[i64; ROWS]>, Stopped>,
    ) -> Result<(Projection, Vec<[i64; ROWS]>), ProveError> {
        for nonce in 0..=u8::MAX {
            // `seed` does not change the transcript, so a rejected matrix leaves no trace: only the accepted nonce is
            // absorbed.
            let seed = self.sender.transcript.seed("projection", u64::from(nonce));
            let projection = Projection::new(seed);
            let mut images = project(&projection, self.exec)?;
            lie_at!(self, Projection(&mut images));
            if image_norm_sq(&images) <= factor * bound || self.is_forced() {
                self.sender.byte("projection nonce", nonce);
                (self.sender).gaussian("projection", images.as_flattened(), variance);
                return Ok((projection, images));
            }
        }
        Err(self.margin("the projection"))
    }

    /// Shows that the witness of a level is short, by images of its blocks under `matrix` if it has any.
    pub(crate) fn show(
        &mut self,
        level: &Level,
        matrix: Option<Projection>,
        s: &[Small],
    ) -> Result<Shown, ProveError> {
        let (Some(images), Some(matrix)) = (&level.images, matrix) else {
            return self.show_parts(&level.cut, level.parts, s, level.norm_sq);
        };
        let groups = (0..images.groups.len()).map(|group| {
            let project =
                |matrix: &Projection, exec: Exec<'_>| images.project(group, matrix, s, exec);
            let bound = images.groups[group].digits_norm_sq;
            let sent = self.send_projection(bound, IMAGE_FACTOR, image_variance(bound), project);
            sent.map(|(matrix, image)| (matrix, image[0]))
        });
        let groups = groups.collect::<Result<_, _>>()?;
        Ok(Shown::Blocks(images.clone(), matrix, groups))
    }

    /// Shows that a witness of at most this squared norm is short, by the images of its parts.
    fn show_parts(
        &mut self,
        cut: &Cut,
        parts: Parts,
        s: &[Small],
        norm_sq: u128,
    ) -> Result<Shown, ProveError> {
        let each = parts.pieces * cut.rank;
        let project = |matrix: &Projection, exec: Exec<'_>| matrix.project_parts(s, each, exec);
        let variance = parts.image_variance(norm_sq);
        let (matrix, images) =
            self.send_projection(norm_sq, PROJECTION_FACTOR, variance, project)?;
        Ok(Shown::Dense(parts, matrix, images))
    }

    /// Sends the values of the lifts, whose constant coefficients are already known, and returns them.
    pub(crate) fn send_lifts(&mut self, mut values: Vec<Rq>, constants: &[u64; LIFTS]) -> Vec<Rq> {
        lie_at!(self, Lifts(&mut values));
        self.sender.elements_without_constant("lifts", &values);
        // The verifier computes the constant coefficients from the images it was sent. They are all that ties images
        // to the witness, so a false image makes a false value here.
        for (value, &constant) in values.iter_mut().zip(constants) {
            value.set_constant(constant);
        }
        values
    }

    /// Processes a level from its commitments to its one remaining equation: the sum of its lifts and of the
    /// equations of the relation `before`, including those of padding, each with a short weight from the transcript.
    fn aggregate(
        &mut self,
        before: &Folded<'_>,
        cut: &Cut,
        shown: Shown,
        pieces: &Pieces<'_>,
    ) -> Result<Form, ProveError> {
        self.step("later: lifts")?;
        let exec = self.exec;
        let padding = shown.without_digits(before.padding(cut));
        let shown = ShownLifts::draw(shown, &self.sender.transcript);
        let lifts = shown.forms(cut, exec)?;
        let lifts = lifts.each_ref().map(|phi| &phi[..]);
        let values = pieces.evaluate(0, &lifts, exec)?;
        let constants = std::array::from_fn(|l| shown.constant(l));
        let values = self.send_lifts(values, &constants);
        self.step("later: one equation")?;
        // One stream for all weights, in the order of `Remaining::draw`: lifts, relation, padding.
        let mut stream = self.sender.transcript.seed("weights", 0).stream();
        let weights = draw_weights(&mut stream);
        let mut form = Form {
            phi: weighted(&weights, lifts, exec)?,
            rhs: right_side(&weights, &values),
        };
        let aggregate = Aggregate::draw(before, cut, &mut stream, exec)?;
        aggregate.add_to(&mut form.phi, exec)?;
        form.rhs.add(&aggregate.right_side(exec.backend()));
        let weights = weights_of_padding(padding.len(), &mut stream);
        for (&place, weight) in padding.iter().zip(&weights) {
            form.phi[place].add(&Rq::from_small(weight));
        }
        Ok(form)
    }

    /// Draws block projections until the images are short enough, and writes the images after the pieces.
    fn add_images(&mut self, images: &Images, s: &mut [Small]) -> Result<Projection, ProveError> {
        let before = self.sender.transcript.clone();
        for nonce in 0..=u8::MAX {
            let matrix = Projection::new(before.seed("blocks", u64::from(nonce)));
            let pieces = &s[..images.start()];
            let blocks = matrix.project_blocks(pieces, images.rank, images.block(), self.exec)?;
            // What was written until a digit did not fit is overwritten under the next matrix.
            if images.write_digits(&blocks, s).is_none() {
                continue;
            }
            if images.are_short(s) || self.is_forced() {
                lie_at!(self, Second(&mut s[images.start()..]));
                self.sender.byte("blocks nonce", nonce);
                return Ok(matrix);
            }
        }
        Err(self.margin("the images of the blocks"))
    }

    /// Commits to a witness. If the level has a block projection, commits first to the pieces under it, and then to
    /// their images, which this appends.
    pub(crate) fn commit(
        &mut self,
        keys: &Keys,
        level: &Level,
        s: &mut Vec<Small>,
    ) -> Result<(Committed, Option<Projection>), ProveError> {
        let (cut, exec, first) = (&level.cut, self.exec, level.first_pieces());
        lie_at!(self, Witness(&mut *s));
        self.step_of_level("first commitment", "later: commitments")?;
        // Without a block projection `first` is 0: nothing is committed to here, and `u1` opens all of `t`.
        let mut t = Pieces::short(cut, s).commit(&keys.inner, level.kappa, 0..first, exec)?;
        let mut v = self.digits(&t, level.t_base, level.t_digits, "a commitment")?;
        // The images exist only under a matrix, and the matrix may be drawn only when the pieces are fixed. So pieces
        // are bound by a commitment of their own, which must be sent first.
        let (first_digits, mut u0, mut matrix) = (v.len(), Vec::new(), None);
        if let Some(images) = &level.images {
            u0 = keys.first.commit(level.kappa_outer, &v, exec)?;
            lie_at!(self, First(&mut u0));
            self.sender.elements("u0", &u0);
            let all = cut.pieces * cut.rank;
            // At the first level the witness ends with the pieces; `cut_witness` has already left space at the
            // others.
            s.reserve_exact(all.saturating_sub(s.len()));
            s.resize(all, Small::ZERO);
            self.step_of_level("images of blocks", "later: projections")?;
            matrix = Some(self.add_images(images, s)?);
        }
        self.step_of_level("second commitment", "later: commitments")?;
        let pieces = Pieces::short(cut, s);
        t = pieces.commit(&keys.inner, level.kappa, first..cut.pieces, exec)?;
        lie_at!(self, Commitments(&mut t));
        v.extend(self.digits(&t, level.t_base, level.t_digits, "a commitment")?);
        let own = &v[first_digits..];
        let mut u1 = keys.outer.commit(level.kappa_outer, own, exec)?;
        lie_at!(self, Outer(&mut u1));
        self.sender.elements("u1", &u1);
        let committed = Committed {
            v,
            openings: Openings {
                u0,
                first_digits,
                u1,
            },
        };
        Ok((committed, matrix))
    }

    /// Processes a level after the first: from a relation and its cut witness to the relation of the next level.
    pub(crate) fn level<'k>(
        &mut self,
        keys: &'k Keys,
        level: &'k Level,
        before: &Folded<'_>,
        mut s: Vec<Small>,
    ) -> Result<(Folded<'k>, Vec<Small>), ProveError> {
        let (cut, exec) = (&level.cut, self.exec);
        let (committed, matrix) = self.commit(keys, level, &mut s)?;
        self.step("later: projections")?;
        let shown = self.show(level, matrix, &s)?;
        let Committed { mut v, openings } = committed;
        let pieces = Pieces::short(cut, &s);
        let form = self.aggregate(before, cut, shown, &pieces)?;
        self.step("later: garbage")?;
        let phi = Pieces::wide(cut, &form.phi);
        let products = phi.products(&pieces, exec)?;
        let h = cross_sums(cut, |i, j| products.get(i, j).to_rq());
        let (u2, h) = self.send_garbage(keys, level, h)?;
        v.extend(h);
        self.step("later: responses")?;
        let (challenges, witness) = self.respond(level, &pieces, v)?;
        let folded = Folded {
            level,
            keys,
            linear: Linear::One(phi.amortise(&challenges, exec)?),
            challenges,
            rhs: form.rhs,
            openings,
            u2,
        };
        Ok((folded, witness))
    }

    /// Commits to the linear garbage; returns the commitment and the digits.
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

    /// Returns the first response within the bound, as digits, followed by `v`.
    pub(crate) fn respond(
        &mut self,
        level: &Level,
        pieces: &Pieces<'_>,
        v: Vec<Small>,
    ) -> Result<(Vec<Ntt>, Vec<Small>), ProveError> {
        let before = self.sender.transcript.clone();
        for nonce in 0..=u8::MAX {
            // Challenges, unlike a matrix, are drawn after their nonce is absorbed. Attempts use a copy, so that only
            // the accepted nonce enters the proof.
            let mut transcript = before.clone();
            transcript.absorb("challenge nonce", &[nonce]);
            let challenges = draw_challenges(&transcript, level.cut.pieces, self.exec);
            let z = pieces.amortise(&challenges, self.exec)?;
            // A digit that does not fit is as good a reason for the next challenges as a response that is too long.
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

    /// Processes the last level, sending everything in clear.
    pub(crate) fn tail(
        &mut self,
        keys: &Keys,
        tail: &Tail,
        before: &Folded<'_>,
        mut s: Vec<Small>,
    ) -> Result<(), ProveError> {
        let cut = &tail.cut;
        lie_at!(self, Witness(&mut s));
        let exec = self.exec;
        self.step("last level")?;
        let pieces = Pieces::short(cut, &s);
        let mut t = pieces.commit(&keys.inner, tail.kappa, 0..cut.pieces, exec)?;
        lie_at!(self, Commitments(&mut t));
        self.sender.elements("t", &t);
        let shown = self.show_parts(cut, tail.parts, &s, tail.norm_sq)?;
        let form = self.aggregate(before, cut, shown, &pieces)?;
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
            // Each attempt has garbage of its own, since it depends on the challenges before it. Restoring the sender
            // also removes what a failed attempt wrote.
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

    /// Folds the pieces one after another, sending the linear garbage of each step before its challenge.
    fn fold(&mut self, cut: &Cut, phi: &[Ntt], s_ntt: &[Ntt]) -> Vec<[i64; DEGREE]> {
        let mut z = vec![Ntt::zero(); cut.rank];
        let mut form = vec![Ntt::zero(); cut.rank];
        for i in 0..cut.pieces {
            let s = &s_ntt[i * cut.rank..(i + 1) * cut.rank];
            let phi = &phi[i * cut.rank..(i + 1) * cut.rank];
            let mut garbage = Vec::with_capacity(2);
            // Before the first piece `z` and `form` are zero, so the mixed term is zero and not sent.
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

/// Returns `x_ii`, and `x_ij + x_ji` for `i < j`, upper triangle by rows.
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

/// Returns the witness of a level, with zeros after its halves of `z`, after `v`, and where its images
/// will be stored.
pub(crate) fn cut_witness(cut: &Cut, rank: usize, witness: Vec<Small>) -> Vec<Small> {
    let mut out = vec![Small::ZERO; cut.pieces * cut.rank];
    for (index, element) in witness.into_iter().enumerate() {
        out[place(cut, rank, index)] = element;
    }
    out
}

/// Draws the weights of the lifts.
pub(crate) fn draw_weights(stream: &mut Stream) -> [Ntt; LIFTS] {
    std::array::from_fn(|_| Ntt::from_small_bounded(&weight(stream), 2))
}
