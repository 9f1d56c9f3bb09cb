//! The verifier: derives what the prover derived, and checks the last response.

use alphorn_exec::Exec;

use crate::challenge::CHALLENGE_NORM_SQ;
use crate::error::Reject;
use crate::folded::{Folded, Keys, Linear, Openings};
use crate::images::{IMAGE_FACTOR, Parts, Shown, ShownLifts};
use crate::pieces::Pieces;
use crate::projection::{LIFTS, Projection, ROWS, image_norm_sq, image_variance};
use crate::prove::{PROJECTION_FACTOR, draw_challenge, draw_challenges};
use crate::remaining::Remaining;
use crate::ring::{DEGREE, Ntt, Rq, Transforms};
use crate::schedule::{Cut, Level, Tail};
use crate::wire::Receiver;

/// Coefficients of the last response must be below this whatever the norm, so that its products fit the
/// residues. A response within its norm is far below: squared norms of witnesses are below `2^45`, and the
/// bound on this one is at most 7/4 times such a norm times [`CHALLENGE_NORM_SQ`], below `2^53`.
const RESPONSE_MAX: u64 = 1 << 32;

const _: () = assert!((CHALLENGE_NORM_SQ << 45) * 7 / 4 < (RESPONSE_MAX as u128).pow(2));

/// State that persists through all levels.
pub(crate) struct Verifier<'a> {
    pub(crate) receiver: Receiver<'a>,
    pub(crate) exec: Exec<'a>,
}

/// What the tail receives before its equation is checked.
struct Response {
    t: Vec<Ntt>,
    /// Garbage of each piece: with the preceding pieces, and its own.
    h: Vec<(Rq, Rq)>,
    challenges: Vec<Ntt>,
    z: Vec<Ntt>,
}

impl Verifier<'_> {
    /// Receives images, whose squared norms sum to at most `factor` times the bound, and derives their matrix.
    fn receive_projection(
        &mut self,
        count: usize,
        bound: u128,
        factor: u128,
        variance: u128,
    ) -> Result<(Projection, Vec<[i64; ROWS]>), Reject> {
        let receiver = &mut self.receiver;
        // The matrix depends on the state before its nonce is absorbed.
        let before = receiver.transcript.clone();
        let nonce = receiver.byte("projection nonce")?;
        let projection = Projection::new(before.seed("projection", u64::from(nonce)));
        let numbers = receiver.gaussian("projection", count * ROWS, variance)?;
        let images = numbers.as_chunks().0.to_vec();
        let level = receiver.level;
        let short = image_norm_sq(&images) <= factor * bound;
        receiver.require(short, Reject::ProjectionLong { level })?;
        Ok((projection, images))
    }

    /// Receives the data that shows that the witness of a level is short.
    pub(crate) fn shown(
        &mut self,
        level: &Level,
        matrix: Option<Projection>,
    ) -> Result<Shown, Reject> {
        let (Some(images), Some(matrix)) = (&level.images, matrix) else {
            return self.shown_parts(level.parts, level.norm_sq);
        };
        let groups = images.groups.iter().map(|group| {
            let bound = group.digits_norm_sq;
            let received = self.receive_projection(1, bound, IMAGE_FACTOR, image_variance(bound));
            received.map(|(matrix, image)| (matrix, image[0]))
        });
        let groups = groups.collect::<Result<_, _>>()?;
        Ok(Shown::Blocks(images.clone(), matrix, groups))
    }

    /// The same for a witness in parts.
    fn shown_parts(&mut self, parts: Parts, norm_sq: u128) -> Result<Shown, Reject> {
        let variance = parts.image_variance(norm_sq);
        let (matrix, images) =
            self.receive_projection(parts.count, norm_sq, PROJECTION_FACTOR, variance)?;
        Ok(Shown::Dense(parts, matrix, images))
    }

    /// Processes a level from its commitments to its one remaining equation.
    fn aggregate<'e>(
        &mut self,
        before: &'e Folded<'e>,
        cut: &Cut,
        shown: Shown,
    ) -> Result<Remaining<'e>, Reject> {
        self.exec.step("later: lifts")?;
        // The order of messages and draws is that of `Prover::aggregate`.
        let padding = shown.without_digits(before.padding(cut));
        let receiver = &mut self.receiver;
        let shown = ShownLifts::draw(shown, &receiver.transcript);
        // Only this ties the images to the witness: constant coefficients of lifts are not sent but follow from images.
        let constants: [u64; LIFTS] = std::array::from_fn(|l| shown.constant(l));
        let values = receiver.elements_with_constants("lifts", &constants)?;
        self.exec.step("later: one equation")?;
        let mut stream = self.receiver.transcript.seed("weights", 0).stream();
        let remaining =
            Remaining::draw(before, cut, shown, &values, padding, &mut stream, self.exec);
        Ok(remaining?)
    }

    /// Receives the commitments of a level and derives the matrix of its block projection.
    pub(crate) fn commitments(
        &mut self,
        level: &Level,
    ) -> Result<(Openings, Option<Projection>), Reject> {
        let receiver = &mut self.receiver;
        let (mut u0, mut matrix) = (Vec::new(), None);
        if level.images.is_some() {
            u0 = receiver.elements("u0", level.kappa_outer)?;
            // As in `receive_projection`, the matrix depends on the state before its nonce, but after `u0`.
            let before = receiver.transcript.clone();
            let nonce = receiver.byte("blocks nonce")?;
            matrix = Some(Projection::new(before.seed("blocks", u64::from(nonce))));
        }
        let openings = Openings {
            u0,
            first_digits: level.first_pieces() * level.kappa * level.t_digits,
            u1: receiver.elements("u1", level.kappa_outer)?,
        };
        Ok((openings, matrix))
    }

    /// Receives the commitment to the linear garbage and derives the challenges.
    pub(crate) fn garbage_and_challenges(
        &mut self,
        level: &Level,
    ) -> Result<(Vec<Rq>, Vec<Ntt>), Reject> {
        let u2 = self.receiver.elements("u2", level.kappa_outer)?;
        // Its value is not checked: whatever the challenges are, the response is shown to be short by what follows.
        self.receiver.byte("challenge nonce")?;
        let challenges = draw_challenges(&self.receiver.transcript, level.cut.pieces, self.exec);
        self.receiver.level += 1;
        Ok((u2, challenges))
    }

    /// Processes a level after the first: from a relation to the relation of the next level.
    pub(crate) fn level<'k>(
        &mut self,
        keys: &'k Keys,
        level: &'k Level,
        before: &Folded<'_>,
    ) -> Result<Folded<'k>, Reject> {
        let (openings, matrix) = self.commitments(level)?;
        let shown = self.shown(level, matrix)?;
        let remaining = self.aggregate(before, &level.cut, shown)?;
        let (u2, challenges) = self.garbage_and_challenges(level)?;
        self.exec.step("later: responses")?;
        let phi = remaining.amortise(&level.cut, &challenges, self.exec)?;
        Ok(Folded {
            level,
            keys,
            linear: Linear::One(phi),
            challenges,
            rhs: remaining.rhs,
            openings,
            u2,
        })
    }

    /// Processes the last level and performs its checks.
    pub(crate) fn tail(
        &mut self,
        keys: &Keys,
        tail: &Tail,
        before: &Folded<'_>,
    ) -> Result<(), Reject> {
        let cut = &tail.cut;
        let t = self.receiver.elements("t", tail.kappa * cut.pieces)?;
        let shown = self.shown_parts(tail.parts, tail.norm_sq)?;
        let remaining = self.aggregate(before, cut, shown)?;
        self.exec.step("last level")?;
        let (h, challenges, z) = self.receive_response(tail)?;
        let response = Response {
            t: self.exec.backend().transforms(&t),
            h,
            challenges,
            z,
        };
        self.check(keys, tail, &remaining, &response)
    }

    /// Receives the linear garbage, deriving the challenge after each step, and then the response.
    #[allow(clippy::type_complexity)]
    fn receive_response(
        &mut self,
        tail: &Tail,
    ) -> Result<(Vec<(Rq, Rq)>, Vec<Ntt>, Vec<Ntt>), Reject> {
        let receiver = &mut self.receiver;
        receiver.byte("challenge nonce")?;
        let (mut h, mut challenges) = (Vec::new(), Vec::new());
        for i in 0..tail.cut.pieces {
            let mut step = receiver
                .elements("h", if i == 0 { 1 } else { 2 })?
                .into_iter();
            let mixed = if i == 0 { None } else { step.next() };
            h.push((mixed.unwrap_or(Rq::ZERO), step.next().unwrap_or(Rq::ZERO)));
            challenges.push(draw_challenge(&receiver.transcript, i));
        }
        let flat = receiver.gaussian("z", tail.cut.rank * DEGREE, tail.z_variance)?;
        if flat.iter().any(|c| c.unsigned_abs() >= RESPONSE_MAX) {
            return Err(Reject::NormBound);
        }
        let norm = flat
            .iter()
            .map(|&c| u128::from(c.unsigned_abs()).pow(2))
            .sum::<u128>();
        receiver.require(norm <= tail.norm_sq_out, Reject::NormBound)?;
        let z = polynomials(&flat)
            .map(|z| Ntt::from_integers(&z, RESPONSE_MAX, self.exec.backend()))
            .collect();
        Ok((h, challenges, z))
    }

    fn check(
        &self,
        keys: &Keys,
        tail: &Tail,
        remaining: &Remaining<'_>,
        response: &Response,
    ) -> Result<(), Reject> {
        let (cut, c, z) = (&tail.cut, &response.challenges, &response.z);
        let (exec, backend) = (self.exec, self.exec.backend());
        let one = Cut {
            z_pieces: 0,
            pieces: 1,
            rank: cut.rank,
        };
        let z_alone = Pieces::of_residues(&one, z);
        let opened = z_alone.commit(&keys.inner, tail.kappa, 0..1, exec)?;
        // `A z = sum c_i t_i`.
        let opens = opened.iter().enumerate().all(|(row, left)| {
            let column = (0..cut.pieces).map(|i| &response.t[i * tail.kappa + row]);
            *left == backend.element(&backend.dot(c.iter().zip(column)))
        });
        self.receiver.require(opens, Reject::InnerOpening)?;
        let phi = remaining.amortise(cut, c, exec)?;
        let phi = backend.transforms(&phi);
        let left = backend.element(&backend.dot(phi.iter().zip(z)));
        // `<sum c_i phi_i, sum c_i s_i>`, collected by steps: `c_i` times what step `i` sent about it and all pieces
        // before it, and `c_i^2` times its own product.
        let mut right = Rq::ZERO;
        for ((mixed, own), c) in response.h.iter().zip(c) {
            let square = backend.product(c, c);
            let both = [backend.transform(mixed), backend.transform(own)];
            let terms = both.iter().zip([c, &square]);
            right.add(&backend.element(&backend.dot(terms)));
        }
        self.receiver
            .require(left == right, Reject::LinearGarbage)?;
        // This sum is `sum <phi_i, s_i>`: the one equation that all equations of all levels have become.
        let mut sum = Rq::ZERO;
        for (_, own) in &response.h {
            sum.add(own);
        }
        self.receiver
            .require(sum == remaining.rhs, Reject::Equations)
    }
}

fn polynomials(flat: &[i64]) -> impl Iterator<Item = [i64; DEGREE]> {
    flat.as_chunks::<DEGREE>().0.iter().copied()
}
