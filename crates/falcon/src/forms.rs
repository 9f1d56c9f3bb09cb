//! The relation `s1 + s2 h = c` modulo `q` of many signatures, as random linear forms over the
//! integers.
//!
//! With `b_k` in `Z_q^512` and `a_(k,i)` in `Z_q`, drawn after the signatures are committed to,
//!
//! `L_k = sum_i <a b_k, s1_i> + <a b_k h*_i, s2_i>`, `h*(Y) = h(Y^-1)`,
//!
//! with every coefficient reduced modulo `q` and centred *first*, so that `L_k` is small; it must
//! be `tau_k = sum_i <a b_k, c_i>` modulo `q`. If the relation of some signature is false, its error
//! `e_i` is orthogonal to `b_k` with probability `1/q`; else exactly one value of `a_(k,i)` makes
//! the sum vanish. So a form misses with at most `2/q`, and eleven with `2^-138.4`.

use alphorn_exec::Backend;
use alphorn_labrador::joint::TILE;
use alphorn_labrador::transcript::{Seed, Stream};
use alphorn_labrador::{Dispatch, DrawnForms, Forms, Pass, Products, StatementError, Vectors};

use crate::ring::{LANES, Polys};
use crate::{DEGREE, MODULUS, PublicKey};

/// Linear forms of an aggregate (`K`).
pub(crate) const FORMS: usize = 11;

/// Coefficients of a column: those of `s1`, then those of `s2`.
const WIDTH: usize = 2 * DEGREE;

const _: () = assert!(TILE == LANES, "a tile is a batch");

/// The keys and hashed messages of an aggregate.
pub(crate) struct Relation<'a> {
    pub(crate) keys: Vec<&'a PublicKey>,
    /// `c_i`, centred.
    pub(crate) targets: Vec<[i16; DEGREE]>,
    pub(crate) backend: Backend,
}

impl Relation<'_> {
    /// The relation itself, `s1 + h s2 + q v = c` over the integers.
    pub(crate) fn products(&self) -> Result<Products, StatementError> {
        let mut factors = vec![0; self.keys.len() * DEGREE];
        let mut polys = Polys::<LANES>::zero();
        let chunks = factors.chunks_mut(LANES * DEGREE);
        for (keys, out) in self.keys.chunks(LANES).zip(chunks) {
            for (lane, key) in keys.iter().enumerate() {
                polys.load(lane, key.values());
            }
            polys.inverse();
            polys.centre();
            for (lane, out) in out.as_chunks_mut().0.iter_mut().enumerate() {
                polys.store(lane, out);
            }
        }
        let extension = DEGREE / alphorn_labrador::ring::DEGREE;
        let targets = self.targets.as_flattened();
        Products::new(extension, u64::from(MODULUS), &factors, targets)
    }
}

struct Drawn<'a> {
    relation: &'a Relation<'a>,
    /// `b_k`, centred, and its values.
    b: Vec<[i16; DEGREE]>,
    b_values: Vec<[i16; DEGREE]>,
    /// `a_(k,i)`, centred: for each column those of all forms.
    a: Vec<[i16; FORMS]>,
    targets: Vec<u64>,
}

/// Uniform residues, centred.
struct Residues {
    stream: Stream,
    buffer: [u8; 512],
    used: usize,
}

impl Residues {
    fn next(&mut self) -> i16 {
        loop {
            if self.used == self.buffer.len() {
                self.stream.fill(&mut self.buffer);
                self.used = 0;
            }
            let pair = [self.buffer[self.used], self.buffer[self.used + 1]];
            self.used += 2;
            let word = u16::from_le_bytes(pair);
            // Five times q: words below are uniform modulo q.
            if word < 5 * MODULUS {
                let residue = (word % MODULUS) as i16;
                let q = MODULUS as i16;
                return residue - if residue > q / 2 { q } else { 0 };
            }
        }
    }
}

impl Forms for Relation<'_> {
    fn count(&self) -> usize {
        FORMS
    }

    fn modulus(&self) -> u64 {
        u64::from(MODULUS)
    }

    fn draw<'a>(&'a self, seed: &Seed) -> Box<dyn DrawnForms + 'a> {
        let mut residues = Residues {
            stream: seed.stream(),
            buffer: [0; 512],
            used: 512,
        };
        let b: Vec<[i16; DEGREE]> = (0..FORMS)
            .map(|_| std::array::from_fn(|_| residues.next()))
            .collect();
        let a: Vec<[i16; FORMS]> = (self.keys.iter())
            .map(|_| std::array::from_fn(|_| residues.next()))
            .collect();
        let mut polys = Polys::<FORMS>::zero();
        let mut b_values = b.clone();
        for (lane, b) in b.iter().enumerate() {
            polys.load(lane, b);
        }
        polys.forward();
        for (lane, values) in b_values.iter_mut().enumerate() {
            polys.store(lane, values);
        }
        let targets = self.backend.run(Targets {
            b: &b,
            a: &a,
            targets: &self.targets,
        });
        Box::new(Drawn {
            relation: self,
            b,
            b_values,
            a,
            targets,
        })
    }
}

/// `tau_k`.
struct Targets<'a> {
    b: &'a [[i16; DEGREE]],
    a: &'a [[i16; FORMS]],
    targets: &'a [[i16; DEGREE]],
}

impl Pass for Targets<'_> {
    type Output = Vec<u64>;

    #[inline(always)]
    fn run<V: Vectors>(self) -> Vec<u64> {
        let mut sums = [0i64; FORMS];
        for (a, target) in self.a.iter().zip(self.targets) {
            for ((sum, b), &a) in sums.iter_mut().zip(self.b).zip(a) {
                *sum += i64::from(a) * (dot(b, target) % i64::from(MODULUS));
            }
        }
        let residue = |sum: i64| sum.rem_euclid(i64::from(MODULUS)) as u64;
        sums.map(residue).to_vec()
    }
}

/// The inner product of centred residues: 32 products below `2^25.2` fit 32 bits.
#[inline(always)]
fn dot(x: &[i16; DEGREE], y: &[i16; DEGREE]) -> i64 {
    let chunks = x.as_chunks::<32>().0.iter().zip(y.as_chunks::<32>().0);
    chunks
        .map(|(x, y)| {
            let products = x.iter().zip(y).map(|(&x, &y)| i32::from(x) * i32::from(y));
            i64::from(products.sum::<i32>())
        })
        .sum()
}

impl DrawnForms for Drawn<'_> {
    fn targets(&self) -> &[u64] {
        &self.targets
    }

    fn weights(&self, first: usize, columns: usize, out: &mut [[i16; TILE]]) {
        self.relation.backend.run(Weights {
            drawn: self,
            keys: &self.relation.keys[first..first + columns],
            a: &self.a[first..first + columns],
            out,
        });
    }
}

/// The coefficients of all forms on the columns of a tile.
struct Weights<'a> {
    drawn: &'a Drawn<'a>,
    keys: &'a [&'a PublicKey],
    a: &'a [[i16; FORMS]],
    out: &'a mut [[i16; TILE]],
}

impl Pass for Weights<'_> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vectors>(self) {
        let mut keys = Polys::<LANES>::zero();
        let values = self.keys.iter().map(|key| key.values());
        keys.load_all::<V>(&values.collect::<Vec<_>>());
        // The root of index 511 - i is the inverse of that of index i.
        keys.0.reverse();
        let mut polys = Polys::<LANES>::zero();
        let forms = self.drawn.b.iter().zip(&self.drawn.b_values);
        for ((form, (b, values)), out) in (forms.enumerate()).zip(self.out.chunks_exact_mut(WIDTH))
        {
            let mut scalars = [0; LANES];
            for (scalar, a) in scalars.iter_mut().zip(self.a) {
                *scalar = a[form];
            }
            let (first, second) = out.split_at_mut(DEGREE);
            polys.multiples(b, &scalars);
            first.copy_from_slice(&polys.0);
            polys.scaled_products(values, &keys, &scalars);
            second.copy_from_slice(&polys.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plain::open_batch;
    use crate::{Flavour, Item, SecretKey};
    use alphorn_labrador::KERNELS;

    /// The forms of real signatures have their targets, those of changed ones do not, and every
    /// backend computes the same.
    #[test]
    fn forms_hold_for_signatures_and_for_nothing_else() {
        let secrets: Vec<SecretKey> = (0..35).map(SecretKey::interop).collect();
        let signatures: Vec<_> = secrets.iter().map(|key| key.sign(b"m", &[0; 32])).collect();
        let items: Vec<Item<'_>> = (secrets.iter().zip(&signatures))
            .map(|(key, signature)| Item {
                key: key.public(),
                message: b"m",
                signature,
            })
            .collect();
        let opened: Vec<_> = open_batch(&items, Backend::Portable);
        let opened: Vec<_> = opened.into_iter().map(|o| o.expect("valid")).collect();
        let q = i64::from(MODULUS);
        for backend in KERNELS.available() {
            let relation = Relation {
                keys: secrets.iter().map(SecretKey::public).collect(),
                targets: (secrets.iter().zip(&opened))
                    .map(|(key, o)| {
                        Flavour::FnDsa.centred_target(key.public(), o.salt.as_ref(), b"m")
                    })
                    .collect(),
                backend,
            };
            let drawn = relation.draw(&Seed::of_name("forms"));
            let mut tiles = vec![[[0; TILE]; FORMS * WIDTH]; 2];
            drawn.weights(0, TILE, &mut tiles[0]);
            drawn.weights(TILE, 3, &mut tiles[1]);
            let weights: Vec<i16> = (0..35)
                .flat_map(|i| tiles[i / TILE].iter().map(move |row| row[i % TILE]))
                .collect();
            assert!(weights.iter().all(|w| w.unsigned_abs() <= MODULUS / 2));
            let value = |form: usize, change: i64| {
                let columns = weights.chunks_exact(FORMS * WIDTH).zip(&opened);
                let sum: i64 = columns
                    .map(|(w, o)| {
                        let w = &w[form * WIDTH..(form + 1) * WIDTH];
                        let s = o.s1.iter().chain(&o.s2);
                        w.iter()
                            .zip(s)
                            .map(|(&w, &s)| i64::from(w) * i64::from(s))
                            .sum::<i64>()
                    })
                    .sum();
                (sum + change * i64::from(weights[form * WIDTH + 7])).rem_euclid(q) as u64
            };
            for (form, &target) in drawn.targets().iter().enumerate() {
                assert_eq!(value(form, 0), target, "{backend} {form}");
                assert_ne!(value(form, 1), target, "{backend} {form}");
            }
        }
    }
}
