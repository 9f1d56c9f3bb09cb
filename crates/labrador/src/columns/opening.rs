//! The lifts of the first level as families of linear forms that all pieces share.
//!
//! The value `s(r) = y` in `F` is three equations on constant coefficients, one per coordinate.
//! At a position, the form of a coordinate is a sum over `m` of coordinate `m` of `eq(r, column)`, which
//! all pieces share, times an element that depends only on row and coordinate. With parts, column `k`
//! of part `j` has one factor `eq` for the lowest bit and one for the others. Blocks share the columns of
//! `J` under a scalar per block, times a scalar per piece. So with
//!
//! | family | number | form at a position |
//! |---|---|---|
//! | scalars | 3 for each row of a piece | coordinate `m` of `eq(r, column)` in this row, 0 in the others |
//! | blocks | 3 | `e''_(l,b)` times the column of `J` under the weights of lift `l` |
//! | images | 1 for each piece of images | the forms of all lifts over the digits, and a weight per zero after them |
//!
//! the form of a piece is a sum of these times elements that both sides compute.

use alphorn_exec::{Backend, Exec, Stopped};

use super::layout::Layout;
use super::sumcheck::Point;
use crate::cut::Cut;
use crate::field::{COORDINATES, F, eq_table};
use crate::folded::{Combine, Families};
use crate::form::weights_of_padding;
use crate::images::{Images, ShownLifts};
use crate::kernel::{Dispatch, Pass, Vectors};
use crate::lanes::eq_lanes;
use crate::modulus::fold;
use crate::pieces::Pieces;
use crate::projection::{LIFTS, Lifts, NO_LIFTS};
use crate::prove::draw_weights;
use crate::ring::{DEGREE, Ntt, Rq, Scaled, Small, Transforms, add_mod, mul_mod};
use crate::transcript::{Stream, Transcript, is_left_out};

/// Positions per task.
const PLACES: usize = 32;

/// The lifts of the first level.
pub(super) struct Opening {
    layout: Layout,
    images: Images,
    shown: ShownLifts,
    /// Scalars of the three equations of the value, for each lift.
    scalars: [[u64; COORDINATES]; LIFTS],
    /// The constant coefficients of the right sides.
    pub(super) constants: [u64; LIFTS],
    point: Point,
    /// Coordinate by coordinate, for all columns of a part.
    columns: [Vec<u64>; COORDINATES],
}

impl Opening {
    pub(super) fn draw(
        layout: &Layout,
        shown: ShownLifts,
        point: Point,
        value: F,
        transcript: &Transcript,
        backend: Backend,
    ) -> Self {
        let images = layout.images();
        let scalars: [[u64; COORDINATES]; LIFTS] = std::array::from_fn(|l| {
            let mut stream = transcript.seed("lift equations", l as u64).stream();
            let mut scalars = std::array::from_fn(|_| stream.residue());
            if is_left_out!(transcript, Value) {
                scalars.fill(0);
            }
            scalars
        });
        let constants = std::array::from_fn(|l| {
            let terms = scalars[l].iter().zip(value.0);
            terms.fold(shown.constant(l), |sum, (&m, y)| {
                add_mod(sum, mul_mod(m, y))
            })
        });
        let high = &point.column[layout.divisions.ilog2() as usize..];
        let high = eq_lanes(high, backend);
        let count = layout.columns.div_ceil(layout.divisions);
        let columns = std::array::from_fn(|m| {
            let all = high.iter().flat_map(|eight| eight.0[m]);
            all.take(count).collect()
        });
        Self {
            layout: *layout,
            images,
            shown,
            scalars,
            constants,
            point,
            columns,
        }
    }

    fn scalar_families(&self) -> usize {
        COORDINATES * self.layout.stack
    }

    fn pieces(&self) -> usize {
        self.images.pieces() + self.images.image_pieces()
    }

    /// Returns, for each row of a piece and each piece that has it, the factors of its coefficients at the point.
    /// The elements of all lifts and families are computed from these.
    fn factors(&self) -> Vec<Option<[F; DEGREE]>> {
        let layout = &self.layout;
        let rows = eq_table(&self.point.row);
        let parts = eq_table(&self.point.column[..layout.divisions.ilog2() as usize]);
        let coefficients = eq_table(&self.point.coefficient);
        let places =
            (0..layout.stack).flat_map(|layer| (0..self.pieces()).map(move |piece| (layer, piece)));
        let factor = |(layer, piece): (usize, usize)| {
            let row = (piece < self.images.pieces()).then(|| layout.row_of(piece, layer));
            let (row, part) = row.flatten()?;
            let shared = rows[row].times(parts[part]);
            Some(std::array::from_fn(|k| shared.times(coefficients[k])))
        };
        places.map(factor).collect()
    }

    /// Returns the elements of all scalar families and pieces of one lift, family by family, from
    /// [`Opening::factors`].
    fn elements(&self, lift: usize, factors: &[Option<[F; DEGREE]>]) -> Vec<Rq> {
        // sum_c scalars[c] (coordinate c of Z^m x) is linear in x.
        let functional: [[u64; COORDINATES]; COORDINATES] = std::array::from_fn(|m| {
            std::array::from_fn(|k| {
                let power = F::power_of_z(m).times(F::power_of_z(k));
                dot(&self.scalars[lift], &power)
            })
        });
        let mut out = Vec::with_capacity(self.scalar_families() * self.pieces());
        for family in 0..self.scalar_families() {
            let (layer, m) = (family / COORDINATES, family % COORDINATES);
            for factors in &factors[layer * self.pieces()..(layer + 1) * self.pieces()] {
                out.push(factors.as_ref().map_or(Rq::ZERO, |factors| {
                    let element = factors.each_ref().map(|x| dot(&functional[m], x));
                    Rq::from_canonical(element).expect("residues").sigma()
                }));
            }
        }
        out
    }

    /// Returns all families except those of images as vectors, which the prover multiplies by the pieces.
    fn vectors(&self, exec: Exec<'_>) -> Result<(Cut, Vec<Ntt>), Stopped> {
        let (layout, backend) = (&self.layout, exec.backend());
        let (rank, count) = (layout.rank(), self.columns[0].len());
        let blocks = self.shown.residues(exec)?;
        let blocks = blocks.as_chunks::<LIFTS>().0;
        let families = self.scalar_families() + LIFTS;
        let mut all = vec![Ntt::zero(); families * rank];
        exec.try_fill(&mut all, rank, |family, out| {
            if let Some(l) = family.checked_sub(self.scalar_families()) {
                for (chunk, out) in out.chunks_mut(PLACES).enumerate() {
                    let place = |k: usize| {
                        let k = chunk * PLACES + k;
                        let block = self.shown.of_block(l, k / self.images.block());
                        (block, &blocks[k % self.images.block()][l])
                    };
                    let scalars: Vec<u64> = (0..out.len()).map(|k| place(k).0).collect();
                    let constants = Ntt::constants(&scalars, backend);
                    let products = constants.iter().enumerate();
                    let products: Vec<Ntt> = products
                        .map(|(k, c)| backend.product(c, place(k).1))
                        .collect();
                    // Reduced modulo `Q`: products of the unreduced ones and pieces would not fit the residues.
                    out.clone_from_slice(&backend.transforms(&backend.elements(&products)));
                }
            } else {
                let (layer, m) = (family / COORDINATES, family % COORDINATES);
                let own = &mut out[layer * count..(layer + 1) * count];
                own.clone_from_slice(&Ntt::constants(&self.columns[m], backend));
            }
        })?;
        let cut = Cut {
            z_pieces: 0,
            pieces: families,
            rank,
        };
        Ok((cut, all))
    }

    /// Returns the inner products of all families except those of images with all pieces, family by family.
    pub(super) fn products(&self, s: &Pieces<'_>, exec: Exec<'_>) -> Result<Vec<Rq>, Stopped> {
        let (cut, vectors) = self.vectors(exec)?;
        let matrix = Pieces::of_residues(&cut, &vectors).products(s, exec)?;
        Ok(matrix.elements(exec.backend()))
    }

    /// Returns the values of the lifts.
    pub(super) fn values(
        &self,
        products: &[Rq],
        s: &Pieces<'_>,
        exec: Exec<'_>,
    ) -> Result<Vec<Rq>, Stopped> {
        let (pieces, backend) = (self.pieces(), exec.backend());
        let scalars = self.scalar_families() * pieces;
        let first = backend.transforms(&products[..scalars]);
        // The forms of images belong to the last pieces.
        let digits = self.shown.of_images(exec)?;
        let forms = digits.each_ref().map(|form| &form[..]);
        let mut out = s.evaluate(self.images.pieces(), &forms, exec)?;
        let factors = self.factors();
        for (l, value) in out.iter_mut().enumerate() {
            let elements = backend.transforms(&self.elements(l, &factors));
            for (a, x) in elements.iter().zip(&first) {
                value.add(&backend.element(&backend.product(a, x)));
            }
            for piece in 0..self.images.pieces() {
                let x = &products[scalars + l * pieces + piece];
                value.sub(&x.scaled(self.shown.of_piece(l, piece)));
            }
        }
        Ok(out)
    }

    /// Combines the families under the next weights of the stream: the weights of the lifts, which are returned, and
    /// those of the zeros after the digits.
    pub(super) fn weighted(self, stream: &mut Stream, exec: Exec<'_>) -> Result<Weighted, Stopped> {
        let weights = &draw_weights(stream);
        let pieces = self.pieces();
        let count = self.scalar_families() * pieces;
        let factors = self.factors();
        let elements = exec.try_map(LIFTS, |l| self.elements(l, &factors))?;
        let lifts: [&[Rq]; LIFTS] = std::array::from_fn(|l| &elements[l][..]);
        let mut coefficients = crate::form::weighted(weights, lifts, exec)?;
        debug_assert_eq!(coefficients.len(), count);
        for (l, weight) in weights.iter().enumerate() {
            let weight = weight.to_rq();
            coefficients.extend((0..pieces).map(|piece| {
                let mut out = Rq::ZERO;
                if piece < self.images.pieces() {
                    out.sub(&weight.scaled(self.shown.of_piece(l, piece)));
                }
                out
            }));
        }
        for own in self.images.pieces()..pieces {
            coefficients.extend((0..pieces).map(|piece| Rq::constant(i64::from(piece == own))));
        }
        let each = vec![weights.clone(); self.images.image_pieces()];
        let digits = self.shown.images_under(&each, exec)?;
        let padding = self.images.image_pieces() * self.images.rank - digits.len();
        let padding = weights_of_padding(padding, stream);
        let weights = weights.clone();
        let shared = Shared {
            opening: self,
            digits,
            padding,
        };
        Ok(Weighted {
            shared,
            coefficients,
            weights,
        })
    }
}

/// Returns `sum_c a_c x_c`, a sum of three products below `2^96`.
fn dot(a: &[u64; COORDINATES], x: &F) -> u64 {
    let terms = a.iter().zip(x.0);
    fold(terms.map(|(&a, x)| u128::from(a) * u128::from(x)).sum())
}

/// The one equation.
pub(super) struct Weighted {
    pub(super) shared: Shared,
    /// The factors of the families for all pieces, family by family.
    pub(super) coefficients: Vec<Rq>,
    /// The weights of the lifts.
    pub(super) weights: [Ntt; LIFTS],
}

/// The families of the one equation.
pub(super) struct Shared {
    opening: Opening,
    /// The forms of the images, piece by piece: those of digits, and the weights of the zeros after them.
    digits: Vec<Ntt>,
    padding: Vec<Small>,
}

impl Shared {
    /// Returns the inner products of the families of images with all pieces.
    pub(super) fn image_products(
        &self,
        s: &Pieces<'_>,
        exec: Exec<'_>,
    ) -> Result<Vec<Rq>, Stopped> {
        let images = &self.opening.images;
        let cut = Cut {
            z_pieces: 0,
            pieces: images.image_pieces(),
            rank: images.rank,
        };
        let mut forms = self.digits.clone();
        forms.append(&mut exec.backend().residues_bounded(&self.padding, 2));
        let forms = Pieces::of_residues(&cut, &forms);
        Ok(forms.products(s, exec)?.elements(exec.backend()))
    }

    /// Returns `sum_i c_i phi_i` over pieces with forms of their own.
    pub(super) fn amortised(
        &self,
        coefficients: &[Rq],
        challenges: &[Ntt],
        exec: Exec<'_>,
    ) -> Result<Vec<Rq>, Stopped> {
        let backend = exec.backend();
        let pieces = challenges.len();
        // The form of a piece of images belongs to that piece alone, with factor 1.
        let own = &challenges[self.opening.images.pieces()..];
        let shared = coefficients.len() - own.len() * pieces;
        let sums = coefficients[..shared]
            .chunks_exact(pieces)
            .map(|of_family| {
                let of_family = backend.transforms(of_family);
                backend.element(&backend.dot(of_family.iter().zip(challenges)))
            });
        let mut factors = backend.transforms(&sums.collect::<Vec<_>>());
        factors.extend_from_slice(own);
        self.combine(&factors, exec)
    }

    pub(super) fn families(self, coefficients: Vec<Rq>) -> Families {
        Families {
            forms: Box::new(self),
            coefficients,
        }
    }
}

impl Combine for Shared {
    fn combine(&self, factors: &[Ntt], exec: Exec<'_>) -> Result<Vec<Rq>, Stopped> {
        let (opening, backend) = (&self.opening, exec.backend());
        let (scalars, rest) = factors.split_at(opening.scalar_families());
        let (blocks, images) = rest.split_at(LIFTS);
        let blocks: [Rq; LIFTS] = std::array::from_fn(|l| backend.element(&blocks[l]));
        let blocks: Vec<Lifts> = (0..opening.images.piece_blocks())
            .map(|b| {
                std::array::from_fn(|l| {
                    backend.transform(&blocks[l].scaled(opening.shown.of_block(l, b)))
                })
            })
            .collect();
        // A task covers the same positions of all blocks, so it generates their columns of `J` once and stores few.
        let block = opening.images.block();
        let mut out = vec![Rq::ZERO; opening.images.rank];
        let mut tasks: Vec<Vec<&mut [Rq]>> = Vec::new();
        tasks.resize_with(block.min(out.len()).div_ceil(PLACES), Vec::new);
        for of_block in out.chunks_mut(block) {
            for (task, places) in tasks.iter_mut().zip(of_block.chunks_mut(PLACES)) {
                task.push(places);
            }
        }
        let (images, rows) = (
            backend.scaled(images),
            opening.shown.weights_of_rows(backend),
        );
        exec.try_fill(&mut tasks, 1, |task, of_blocks| {
            let first = task * PLACES;
            let mut columns = [const { NO_LIFTS }; PLACES];
            let count = PLACES.min(block - first);
            opening
                .shown
                .some_residues(first, &rows, &mut columns[..count], backend);
            for (b, out) in of_blocks.iter_mut().flatten().enumerate() {
                let mut sums = [const { Ntt::zero() }; PLACES];
                let sums = &mut sums[..out.len()];
                backend.run(AddFamilies {
                    shared: self,
                    scalars,
                    columns: &columns,
                    factors: &blocks[b],
                    images: &images,
                    first: b * block + first,
                    sums,
                });
                out.clone_from_slice(&backend.elements(sums));
            }
        })?;
        Ok(out)
    }
}

/// Adds the forms of all families under their factors, at some positions of a block.
struct AddFamilies<'a> {
    shared: &'a Shared,
    scalars: &'a [Ntt],
    /// The columns of `J` at these positions, and their factors in this block.
    columns: &'a [Lifts],
    factors: &'a Lifts,
    images: &'a [Scaled],
    /// The first position.
    first: usize,
    sums: &'a mut [Ntt],
}

impl Pass for AddFamilies<'_> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vectors>(self) {
        let (shared, opening) = (self.shared, &self.shared.opening);
        let rank = opening.images.rank;
        let count = opening.columns[0].len();
        let mut values = Vec::with_capacity(COORDINATES * self.sums.len());
        for place in self.first..self.first + self.sums.len() {
            for column in &opening.columns {
                // A piece has its rows one after another, each with the same columns.
                values.push(column[place % count]);
            }
        }
        let rows = Ntt::constant_rows_in::<V>(&values);
        let mut constants = [const { Ntt::zero() }; COORDINATES];
        let mut residues = Ntt::zero();
        let places = (self.first..).zip(rows.as_chunks::<COORDINATES>().0);
        for (((place, rows), columns), sum) in places.zip(self.columns).zip(self.sums) {
            for (constant, row) in constants.iter_mut().zip(rows) {
                constant.set_constant(row);
            }
            let scalars = &self.scalars[COORDINATES * (place / count)..];
            let of_columns = columns.iter().zip(self.factors);
            // Three products of two residues are the largest sum there is room for; everything added to it is
            // below 2^96.
            sum.add_dot_in::<V>(constants.iter().zip(scalars).chain(of_columns));
            for (k, factor) in self.images.iter().enumerate() {
                let digit = k * rank + place;
                if let Some(form) = shared.digits.get(digit) {
                    sum.add_scaled_in::<V>(form, factor);
                } else {
                    let weight = &shared.padding[digit - shared.digits.len()];
                    residues.set_small_in::<V>(weight, 2);
                    sum.add_scaled_in::<V>(&residues, factor);
                }
            }
        }
    }
}
