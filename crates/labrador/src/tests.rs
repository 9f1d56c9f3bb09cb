//! Whole proofs: completeness, mutations, and provers that lie at one step after the first level. Lies at the first
//! level are covered by the tests of [`crate::columns`].

mod cheating;
mod complete;
mod known;
pub(crate) mod oracle;

use alphorn_exec::Exec;

use crate::kernel::KERNELS;
use crate::ring::{DEGREE, Rq, Small};
use crate::schedule::Projections;
use crate::sis::Profile;
use crate::transcript::Seed;
use crate::{Columns, Reject, Relation, System};

const MODULUS: i64 = 12_289;

/// Columns that satisfy a relation of their own, and its polynomials.
pub(crate) struct Sample {
    pub(crate) degree: usize,
    pub(crate) norm_sq: u64,
    pub(crate) h: Vec<Vec<i16>>,
    pub(crate) c: Vec<Vec<i16>>,
    pub(crate) witness: Vec<Small>,
}

fn centred(x: i64) -> i16 {
    let residue = x.rem_euclid(MODULUS);
    (residue - if residue > MODULUS / 2 { MODULUS } else { 0 }) as i16
}

/// Returns `s1 + h s2` modulo `q`.
fn target(h: &[i16], s: &[Small]) -> Vec<i16> {
    let (s1, s2) = s.split_at(s.len() / 2);
    let degree = h.len();
    let mut out: Vec<i64> = s1.iter().flat_map(|s| s.0).map(i64::from).collect();
    for (i, &h) in h.iter().enumerate() {
        for (j, c) in s2.iter().flat_map(|s| s.0).enumerate() {
            let product = i64::from(h) * i64::from(c);
            match i + j {
                k if k < degree => out[k] += product,
                k => out[k - degree] -= product,
            }
        }
    }
    out.into_iter().map(centred).collect()
}

impl Sample {
    /// Creates columns of about three quarters of the norm.
    pub(crate) fn new(name: &str, columns: usize, degree: usize, norm_sq: u64) -> Self {
        let mut stream = Seed::of_name(name).stream();
        let each = 2 * degree / DEGREE;
        // The square of a uniform coefficient in [-b, b] is b^2 / 3 on average.
        let bound = ((norm_sq as f64 * 2.2 / (2 * degree) as f64).sqrt() as i64).max(1);
        let mut element = |bound: i64| stream.element().centred().map(|c| c % (bound + 1));
        let witness: Vec<Small> = (0..columns * each)
            .map(|_| Small(element(bound).map(|c| c as i16)))
            .collect();
        let flat: Vec<i16> = (0..columns * each / 2)
            .flat_map(|_| element(6144).map(|c| c as i16))
            .collect();
        let h: Vec<Vec<i16>> = flat.chunks_exact(degree).map(<[i16]>::to_vec).collect();
        let mut out = Self {
            degree,
            norm_sq,
            h,
            c: Vec::new(),
            witness,
        };
        out.aim();
        out
    }

    /// Sets the relation to one that the columns satisfy.
    pub(crate) fn aim(&mut self) {
        let each = 2 * self.degree / DEGREE;
        let columns = self.h.iter().zip(self.witness.chunks_exact(each));
        self.c = columns.map(|(h, s)| target(h, s)).collect();
    }

    pub(crate) fn relation(&self) -> Relation<'_> {
        Relation::new(
            self.degree,
            MODULUS as u64,
            self.h.iter().map(|x| &x[..]).collect(),
            self.c.iter().map(|x| &x[..]).collect(),
            Exec::serial(),
        )
        .expect("centred polynomials")
    }
}

/// Block projections in `block_levels` levels after the first, and dense projections in two parts.
pub(crate) fn projections(block_levels: usize) -> Projections {
    Projections {
        block_levels,
        parts: 2,
    }
}

pub(crate) fn statement<'a>(
    sample: &Sample,
    relation: &'a Relation<'a>,
    blocks: usize,
) -> Columns<'a> {
    let context = b"context".to_vec();
    Columns::new(
        sample.norm_sq,
        Profile::Core128,
        projections(blocks),
        relation,
        context,
    )
    .expect("within limits")
}
