//! Exact odds of selection: sums of binomial and hypergeometric terms, no normal approximation.

/// P\[X = 0\] for X = successes among `n` with probability `p` each: (1 - p)^n.
pub(crate) fn none(n: f64, p: f64) -> f64 {
    if n == 0.0 {
        return 1.0;
    }
    (n * (-p).ln_1p()).exp()
}

/// P\[at least one of `groups` events\] of probability `p` each: 1 - (1 - p)^groups.
pub(crate) fn any(p: f64, groups: f64) -> f64 {
    if groups == 0.0 {
        return 0.0;
    }
    -(groups * (-p).ln_1p()).exp_m1()
}

/// P\[X >= k\] for a binomial X of `n` trials with probability `p`.
pub(crate) fn binomial_at_least(n: u32, p: f64, k: u32) -> f64 {
    match (k, p) {
        (0, _) => return 1.0,
        _ if k > n => return 0.0,
        (_, p) if p >= 1.0 => return 1.0,
        _ => {}
    }
    let (n, last) = (f64::from(n), n);
    let head: f64 = (0..k)
        .map(|i| ((n - f64::from(i)) / f64::from(i + 1) * p).ln())
        .sum();
    let mut term = (head + (n - f64::from(k)) * (-p).ln_1p()).exp();
    let mut sum = 0.0;
    for j in k..=last {
        sum += term;
        term *= (n - f64::from(j)) / f64::from(j + 1) * p / (1.0 - p);
        // Beyond the mode the terms decrease; what is left cannot change the sum.
        if f64::from(j) > n * p && term < sum * f64::EPSILON {
            break;
        }
    }
    sum.min(1.0)
}

/// P\[none of `drawn` members is among `marked`\] for a draw without replacement out of `n`.
pub(crate) fn none_without_repetition(n: u32, marked: u32, drawn: u32) -> f64 {
    let (n, marked) = (f64::from(n), f64::from(marked));
    (0..drawn)
        .map(|i| ((n - marked - f64::from(i)) / (n - f64::from(i))).max(0.0))
        .take_while(|factor| !factor.is_nan())
        .product()
}

/// Expected number of collectors of a committee that publish under staged publishing, if each of
/// `members` is honest with probability `honest` and the first honest one ends the queue:
/// (1 - (1 - h)^members) / h.
pub(crate) fn staged_publications(members: f64, honest: f64) -> f64 {
    if honest <= 0.0 {
        return members;
    }
    if honest >= 1.0 {
        return members.min(1.0);
    }
    any(honest, members) / honest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(value: f64, expected: f64, relative: f64) {
        let error = (value / expected - 1.0).abs();
        assert!(error <= relative, "{value} is not {expected}");
    }

    #[test]
    fn the_odds_of_the_horn_table() {
        let p = 16.0 / 512.0;
        close(none(512.0, p), 8.7e-8, 0.01);
        close(any(none(512.0, p), 2048.0), 1.8e-4, 0.02);
        let committees =
            |target: f64, honest: f64| any(none(32_768.0 * honest, target / 32_768.0), 32.0);
        close(committees(16.0, 0.5), 0.0107, 0.01);
        close(committees(16.0, 0.8), 8.8e-5, 0.01);
        close(committees(8.0, 0.5), 0.447, 0.01);
        close(committees(8.0, 0.8), 0.052, 0.01);
        let rank = |honest: u32| any(none_without_repetition(32_768, honest, 16), 32.0);
        close(rank(16_384), 4.9e-4, 0.02);
        close(rank(26_214), 2e-10, 0.06);
        // A very large group is close to the Poisson limit.
        close(
            binomial_at_least(1 << 22, 16.0 / f64::from(1 << 22), 48),
            8e-11,
            0.1,
        );
        close(binomial_at_least(16, 1.0 / 3.0, 9), 0.05, 0.01);
    }

    #[test]
    fn sums_agree_with_counting() {
        for (n, p) in [(1u32, 0.3), (7, 0.5), (16, 0.9), (40, 0.02)] {
            let mut exact = vec![1.0f64];
            for _ in 0..n {
                let mut next = vec![0.0; exact.len() + 1];
                for (k, value) in exact.iter().enumerate() {
                    next[k] += value * (1.0 - p);
                    next[k + 1] += value * p;
                }
                exact = next;
            }
            for k in 0..=n {
                let tail: f64 = exact[k as usize..].iter().sum();
                close(binomial_at_least(n, p, k), tail, 1e-9);
            }
            close(none(f64::from(n), p), exact[0], 1e-9);
        }
    }

    #[test]
    fn ends_have_no_surprises() {
        assert_eq!(none(0.0, 1.0), 1.0);
        assert_eq!(none(3.0, 1.0), 0.0);
        assert_eq!(any(1.0, 3.0), 1.0);
        assert_eq!(any(0.5, 0.0), 0.0);
        assert_eq!(binomial_at_least(4, 1.0, 4), 1.0);
        assert_eq!(binomial_at_least(4, 0.5, 5), 0.0);
        assert_eq!(none_without_repetition(4, 1, 4), 0.0);
        assert_eq!(none_without_repetition(0, 0, 0), 1.0);
        assert_eq!(none_without_repetition(16, 0, 16), 1.0);
        assert_eq!(staged_publications(16.0, 1.0), 1.0);
        assert_eq!(staged_publications(16.0, 0.0), 16.0);
        close(staged_publications(16.0, 0.5), 2.0, 1e-4);
        close(staged_publications(16.0, 0.8), 1.25, 1e-9);
    }
}
