//! What cases of proofs and of merges share: runs that are repeated, and verification.

use super::Point;
use super::world;
use crate::error::{Error, Result};
use alphorn_exec::Exec;
use alphorn_types::Bitfield;
use alphorn_xmss::{Claimed, ProofRegistry};
use std::time::Instant;

/// Runs that all made the same bytes.
pub(super) struct Runs<T> {
    /// Seconds of the first one.
    pub(super) cold_s: f64,
    /// Seconds of the others, ascending.
    pub(super) warm_s: Vec<f64>,
    pub(super) bytes: Vec<u8>,
    /// What the fastest of the others came with; of the first one if it is alone.
    pub(super) fastest: T,
}

impl<T> Runs<T> {
    /// Makes something once, and so many times more.
    pub(super) fn of(runs: usize, mut make: impl FnMut() -> Result<(Vec<u8>, T)>) -> Result<Self> {
        Runs::timed(runs, || {
            let begun = Instant::now();
            let (bytes, beside) = make()?;
            Ok((begun.elapsed().as_secs_f64(), bytes, beside))
        })
    }

    /// The same of what knows its seconds.
    fn timed(runs: usize, mut timed: impl FnMut() -> Result<(f64, Vec<u8>, T)>) -> Result<Self> {
        let (cold_s, bytes, mut fastest) = timed()?;
        let mut warm_s: Vec<f64> = Vec::with_capacity(runs);
        for _ in 0..runs {
            let (seconds, again, beside) = timed()?;
            if again != bytes {
                return Err(Error::Check("two runs made different proofs".into()));
            }
            if warm_s.iter().all(|other| seconds < *other) {
                fastest = beside;
            }
            warm_s.push(seconds);
        }
        warm_s.sort_by(f64::total_cmp);
        Ok(Runs {
            cold_s,
            warm_s,
            bytes,
            fastest,
        })
    }

    /// The value below which a share of the warm runs lies.
    pub(super) fn quantile_s(&self, share: f64) -> f64 {
        let last = self.warm_s.len().saturating_sub(1);
        let at = (share * last as f64).ceil() as usize;
        self.warm_s.get(at).copied().unwrap_or(self.cold_s)
    }

    pub(super) fn median_s(&self) -> f64 {
        self.quantile_s(0.5)
    }
}

/// Seconds of a verification on one thread, the least of some.
pub(super) fn verified(
    point: &Point,
    registry: &ProofRegistry,
    signers: &Bitfield,
    bytes: &[u8],
    runs: usize,
) -> Result<f64> {
    let claimed = Claimed {
        slot: world::SLOT,
        message: &world::MESSAGE,
        signers,
    };
    let exec = Exec::new(point.kernel, None);
    let verify = || point.proofs.verify(exec, registry, &claimed, bytes);
    verify().map_err(|refused| Error::Check(format!("a proof of this run: {refused}")))?;
    Ok(super::super::least(runs.max(3), verify).0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_agree_and_the_fastest_is_known() {
        let mut seconds = [9.0, 30.0, 2.0, 15.0].into_iter().enumerate();
        let runs = Runs::timed(3, || {
            let (at, seconds) = seconds.next().unwrap();
            Ok((seconds, vec![7], at))
        });
        let runs = runs.unwrap_or_else(|_| panic!("the same bytes"));
        assert_eq!((runs.fastest, &runs.bytes[..]), (2, &[7][..]));
        assert_eq!(
            (runs.cold_s, &runs.warm_s[..]),
            (9.0, &[2.0, 15.0, 30.0][..])
        );
        assert_eq!(
            (runs.quantile_s(0.0), runs.median_s(), runs.quantile_s(0.9)),
            (2.0, 15.0, 30.0)
        );
        let mut at = 0;
        let differ = Runs::of(1, || {
            at += 1;
            Ok((vec![at], ()))
        });
        assert!(differ.is_err());
    }
}
