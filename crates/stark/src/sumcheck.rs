//! Rounds of sumcheck, with the weight eq factored out.
//!
//! The claim is Σ_x eq(r, x)·g(x) = c. Let X be the first coordinate and r_1 its coordinate in r. The sum over the
//! others of eq·g gives a polynomial h(X) with (1 − r_1)·h(0) + r_1·h(1) = c: its degree is that of g, one less
//! than that of the sum itself. The prover sends h_1, …, h_d; the verifier computes h_0 = c − r_1·(h_1 + … + h_d),
//! so no check is needed, and continues with c' = h(x) for a random x. At the end the claim is g at the random
//! point. A wrong message makes c' wrong except for d values of x.
//!
//! A *plain* round has no weight: s(0) + s(1) = c, so s_0 = (c − s_1 − … − s_d)/2.

use alphorn_exec::{Exec, Stopped};

use crate::arith::Arith;
use crate::error::VerifyError;
use crate::extension::Ext;
use crate::field::{Fp, P};
use crate::multilinear::{Scalar, horner};
use crate::transcript::{Channel, Sender};

/// 1/2.
// (p + 1)/2, since p is odd.
const HALF: Fp = Fp::new(P.div_ceil(2));

/// The constant term of a round's polynomial with weight eq.
fn weighted_constant<E: Scalar>(claim: E, r: E, rest: &[E]) -> E {
    rest.iter().fold(claim, |sum, h| sum - r * *h)
}

/// Reads a round of a given degree with weight eq; returns the next claim and the challenge.
///
/// # Errors
/// [`VerifyError::Length`] if the proof ends.
pub(crate) fn read_round<A: Arith>(
    channel: &mut Channel<A>,
    claim: A::Ext,
    r: A::Ext,
    degree: usize,
) -> Result<(A::Ext, A::Ext), VerifyError> {
    let rest = channel.read(degree)?;
    let x = channel.challenge();
    let zero = channel.arith.ext(Ext::ZERO);
    let constant = weighted_constant(claim, r, &rest);
    Ok((constant + x * horner(zero, &rest, x), x))
}

/// Reads a plain round; returns the next claim and the challenge. If `work` is given, a proof of work of that many
/// bits comes before the challenge.
///
/// # Errors
/// [`VerifyError::Length`] if the proof ends, the error in `work` if the work is not proved.
pub(crate) fn read_plain_round<A: Arith>(
    channel: &mut Channel<A>,
    claim: A::Ext,
    degree: usize,
    work: Option<(u32, VerifyError)>,
) -> Result<(A::Ext, A::Ext), VerifyError> {
    let rest = channel.read(degree)?;
    if let Some((bits, error)) = work {
        channel.check_work(bits, error)?;
    }
    let x = channel.challenge();
    Ok((next_claim(&channel.arith, claim, &rest, x), x))
}

/// The claim after a plain round: h(x) for h with these coefficients after the constant one, and
/// h(0) + h(1) = claim.
pub(crate) fn next_claim<A: Arith>(arith: &A, claim: A::Ext, rest: &[A::Ext], x: A::Ext) -> A::Ext {
    let twice = rest.iter().fold(claim, |sum, h| sum - *h);
    let constant = twice * arith.base(HALF);
    constant + x * horner(arith.ext(Ext::ZERO), rest, x)
}

/// Sends a round's polynomial without its constant term; returns the challenge.
pub(crate) fn send_round(sender: &mut Sender, coefficients: &[Ext]) -> Ext {
    sender.send(&coefficients[1..]);
    sender.challenge()
}

/// Sends a plain round of degree 2 by its constant and leading coefficients, with a proof of work of `bits`;
/// returns the challenge, and replaces the claim by the next one. Fails if `exec` is stopped.
pub(crate) fn prove_product_round(
    sender: &mut Sender,
    exec: Exec<'_>,
    claim: &mut Ext,
    [constant, leading]: [Ext; 2],
    bits: Option<u32>,
) -> Result<Ext, Stopped> {
    // s(0) + s(1) is the claim.
    let linear = *claim - constant - constant - leading;
    sender.send(&[linear, leading]);
    if let Some(bits) = bits {
        sender.grind(exec, bits)?;
    }
    let x = sender.challenge();
    *claim = constant + x * (linear + x * leading);
    Ok(x)
}

/// Coefficients of a polynomial of degree 2 from h(0), h(1) and its leading coefficient.
pub(crate) fn quadratic([zero, one, leading]: [Ext; 3]) -> [Ext; 3] {
    [zero, one - zero - leading, leading]
}

/// Coefficients of a polynomial of degree 3 from h(0), h(1), h(−1) and its leading coefficient.
pub(crate) fn cubic([zero, one, minus, leading]: [Ext; 4]) -> [Ext; 4] {
    // `even` is h_2, `odd` is h_1 + h_3. A constant added to all of h changes neither, so callers may leave one
    // out.
    let even = (one + minus) * HALF - zero;
    let odd = (one - minus) * HALF;
    [zero, odd - leading, even, leading]
}

/// Coefficients of a polynomial from its values at 0, 1, 2, …
pub(crate) fn interpolate(values: &[Ext]) -> Vec<Ext> {
    // Newton's divided differences, then the products (X − 0)(X − 1)… expanded from the inside.
    let mut differences = values.to_vec();
    for order in 1..values.len() {
        let inverse = Fp::new(order as u32).inverse().unwrap_or_default();
        for i in (order..values.len()).rev() {
            differences[i] = (differences[i] - differences[i - 1]) * inverse;
        }
    }
    let mut coefficients = vec![Ext::ZERO; values.len()];
    for (i, difference) in differences.iter().enumerate().rev() {
        for k in (1..values.len()).rev() {
            coefficients[k] = coefficients[k - 1] - coefficients[k] * Fp::new(i as u32);
        }
        coefficients[0] = *difference - coefficients[0] * Fp::new(i as u32);
    }
    coefficients
}

/// Binds the highest coordinate of a multilinear polynomial.
pub(crate) fn bind(values: &mut Vec<Ext>, x: Ext) {
    let half = values.len() / 2;
    for i in 0..half {
        values[i] = values[i] + x * (values[half + i] - values[i]);
    }
    values.truncate(half);
}

/// Proves Σ_x eq(point, x)·h over a few polynomials, for small cubes. From the polynomials at 0 and 1, `values`
/// computes the `N` values of the round's polynomial that `coefficients` takes.
///
/// Returns the challenges; the polynomials are bound to their last values.
pub(crate) fn prove_small<const N: usize>(
    sender: &mut Sender,
    point: &[Ext],
    polynomials: &mut [Vec<Ext>],
    values: impl Fn(&[[Ext; 2]]) -> [Ext; N],
    coefficients: impl Fn([Ext; N]) -> [Ext; N],
) -> Vec<Ext> {
    let mut challenges = Vec::with_capacity(point.len());
    for round in 0..point.len() {
        let weights = crate::multilinear::eq_table(Ext::ONE, &point[round + 1..]);
        let mut sums = [Ext::ZERO; N];
        for (i, weight) in weights.iter().enumerate() {
            let pairs: Vec<[Ext; 2]> = polynomials
                .iter()
                .map(|values| [values[i], values[weights.len() + i]])
                .collect();
            for (sum, value) in sums.iter_mut().zip(values(&pairs)) {
                *sum += *weight * value;
            }
        }
        let x = send_round(sender, &coefficients(sums));
        polynomials.iter_mut().for_each(|values| bind(values, x));
        challenges.push(x);
    }
    challenges
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arith::Native;
    use crate::hash::DIGEST;
    use crate::multilinear::evaluate;
    use crate::test_random::Random;
    use crate::transcript::Lie;

    const VARIABLES: usize = 4;

    /// Proves and verifies Σ eq(r, x)·a(x)·b(x) = claim + `excess`; returns whether it is accepted.
    fn product(excess: Ext, lie: Option<Lie>) -> bool {
        let mut random = Random::new(9);
        let point = random.exts(VARIABLES);
        let (a, b) = (random.exts(1 << VARIABLES), random.exts(1 << VARIABLES));
        let weights = crate::multilinear::eq_table(Ext::ONE, &point);
        let terms = weights.iter().zip(a.iter().zip(&b));
        let claim: Ext = terms.map(|(w, (a, b))| *w * *a * *b).sum();
        let mut sender = Sender::new([Fp::ZERO; DIGEST]);
        sender.lies = lie.into_iter().collect();
        let mut polynomials = [a.clone(), b.clone()];
        let values = |pairs: &[[Ext; 2]]| {
            let [[a0, a1], [b0, b1]] = [pairs[0], pairs[1]];
            [a0 * b0, a1 * b1, (a1 - a0) * (b1 - b0)]
        };
        prove_small(&mut sender, &point, &mut polynomials, values, quadratic);
        let proof = sender.finish();
        assert_eq!(proof.len(), VARIABLES * 2 * 5);
        let mut channel = Channel::new(Native::new(&proof), [Fp::ZERO; DIGEST]);
        let (mut claim, mut at) = (claim + excess, Vec::new());
        for r in &point {
            let (next, x) = read_round(&mut channel, claim, *r, 2).unwrap();
            (claim, at) = (next, [at, vec![x]].concat());
        }
        claim == evaluate(&a, &at) * evaluate(&b, &at)
    }

    #[test]
    fn an_honest_sum_is_accepted_and_no_other() {
        assert!(product(Ext::ZERO, None));
        assert!(!product(Ext::ONE, None));
        assert!(!product(Ext::X, None));
    }

    #[test]
    fn each_wrong_message_is_refused_though_the_prover_goes_on_from_it() {
        for index in 0..VARIABLES * 10 {
            let delta = Fp::new(1 + index as u32);
            assert!(!product(Ext::ZERO, Some(Lie { index, delta })), "{index}");
        }
    }

    /// A prover that knows the next challenge could repair any lie, so the challenge must come after the message.
    /// Here the verifier's challenge is known, and the lie is accepted.
    #[test]
    fn a_known_challenge_would_repair_a_lie() {
        let mut random = Random::new(3);
        let (claim, r, x) = (random.ext(), random.ext(), random.ext());
        let honest = random.exts(2);
        let constant = weighted_constant(claim, r, &honest);
        let value = constant + x * horner(Ext::ZERO, &honest, x);
        // Shift h_1 and h_2 such that the value at x remains what the false claim needs.
        let delta = (x * x - r) * (x - r).inverse().unwrap();
        let forged = [honest[0] - delta, honest[1] + Ext::ONE];
        let constant = weighted_constant(claim, r, &forged);
        assert_eq!(constant + x * horner(Ext::ZERO, &forged, x), value);
    }

    #[test]
    fn polynomials_are_found_from_their_values() {
        let mut random = Random::new(4);
        for degree in 0..6 {
            let c = random.exts(degree + 1);
            let at = |x: Fp| horner(Ext::ZERO, &c, Ext::from(x));
            let values: Vec<Ext> = (0..=degree as u32).map(|x| at(Fp::new(x))).collect();
            assert_eq!(interpolate(&values), c);
            if degree == 2 {
                assert_eq!(quadratic([values[0], values[1], c[2]]).to_vec(), c);
            }
            if degree == 3 {
                let minus = at(-Fp::ONE);
                assert_eq!(cubic([values[0], values[1], minus, c[3]]).to_vec(), c);
            }
        }
        assert_eq!(HALF + HALF, Fp::ONE);
    }
}
