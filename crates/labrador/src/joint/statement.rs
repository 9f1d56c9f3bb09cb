//! The statement and both sides of its first level.

use alphorn_exec::{Exec, Stopped};

use super::fold::amortised;
use super::layout::{BASE, BLOCK, FORMS_MAX, IMAGE_FACTOR, Layout};
use super::lift::{Lifts, Public};
use super::sums::Sums;
use super::tile::FormTile;
use super::{DrawnForms, Forms, TILE, witness};
use crate::error::{Invalid, ProveError, Reject, StatementError};
use crate::folded::{Folded, Keys, Openings};
use crate::form::Quadratic;
use crate::kernel::{Dispatch, Pass, Vectors};
use crate::projection::{LIFTS, Projection, ROWS, image_norm_sq};
use crate::prove::{Prover, cross_sums, draw_challenges, draw_weights, lie_at};
use crate::ring::{DEGREE, Ntt, Rq, Small, Transforms, norm_sq};
use crate::schedule::{Level, PublicBounds};
use crate::sis::Profile;
use crate::system::FrontEnd;
use crate::transcript::{Seed, Transcript};
use crate::verify::Verifier;

/// `N` columns of `rows` ring elements with a squared norm of at most `norm_sq` each, exactly, and
/// linear forms over all of them.
pub struct DachshundJoint<'a> {
    layout: Layout,
    profile: Profile,
    forms: &'a dyn Forms,
    context: Vec<u8>,
}

impl<'a> DachshundJoint<'a> {
    /// A statement about `columns` columns. `context` is absorbed before anything is drawn: it
    /// must bind whatever the forms are made of.
    ///
    /// # Errors
    /// If a number is beyond its limit, or norms or forms might wrap around the modulus.
    pub fn new(
        columns: usize,
        rows: usize,
        norm_sq: u64,
        profile: Profile,
        forms: &'a dyn Forms,
        context: Vec<u8>,
    ) -> Result<Self, StatementError> {
        let count = forms.count();
        if !(1..=FORMS_MAX).contains(&count) {
            return Err(StatementError::Forms { forms: count });
        }
        let modulus = forms.modulus();
        if modulus.is_multiple_of(2) || modulus >= 1 << 15 {
            return Err(StatementError::FormModulus { modulus });
        }
        let layout = Layout::new(columns, rows, norm_sq)?;
        layout.check_modulus(modulus)?;
        Ok(Self {
            layout,
            profile,
            forms,
            context,
        })
    }

    /// The bounds of all statements with these numbers, whatever their forms: what a
    /// [`crate::System`] is made from.
    ///
    /// # Errors
    /// If a number is beyond its limit.
    pub fn bounds_for(
        columns: usize,
        rows: usize,
        norm_sq: u64,
        profile: Profile,
    ) -> Result<PublicBounds, StatementError> {
        Ok(Layout::new(columns, rows, norm_sq)?.bounds(profile))
    }

    /// The bound of the absolute value of every quotient `v_k`.
    fn quotient_max(&self) -> u64 {
        let modulus = self.forms.modulus();
        (self.layout.form_max(modulus) / u128::from(modulus)) as u64 + 1
    }

    /// `L_k` of the columns in `S0`, as integers.
    fn evaluate(
        &self,
        drawn: &dyn DrawnForms,
        s: &[Small],
        exec: Exec<'_>,
    ) -> Result<Vec<i64>, Stopped> {
        let (layout, count) = (&self.layout, self.forms.count());
        let tiles = layout.columns.div_ceil(TILE);
        let parts = exec.try_map(tiles, |index| {
            let first = index * TILE;
            let columns = TILE.min(layout.columns - first);
            let mut tile = FormTile::new(layout, count);
            tile.load_columns(drawn, first, columns, exec.backend());
            exec.backend().run(Evaluate {
                layout,
                tile: &tile,
                s,
                first,
                columns,
                count,
            })
        })?;
        let mut out = vec![0; count];
        for part in parts {
            for (sum, x) in out.iter_mut().zip(part) {
                *sum += x;
            }
        }
        Ok(out)
    }

    /// The quotients `(L_k(s) - tau_k) / q`, rounded down where the relation is false.
    fn quotients(
        &self,
        drawn: &dyn DrawnForms,
        s: &[Small],
        exec: Exec<'_>,
    ) -> Result<Vec<i64>, Stopped> {
        let modulus = self.forms.modulus() as i64;
        let values = self.evaluate(drawn, s, exec)?.into_iter();
        Ok(values
            .zip(drawn.targets())
            .map(|(x, &tau)| (x - tau as i64).div_euclid(modulus))
            .collect())
    }

    /// The right side of the one equation that remains.
    fn right_side(&self, weights: &[Ntt; LIFTS], values: &[Rq], alpha_sum: &Rq) -> Rq {
        let values: Vec<Ntt> = values.iter().map(Ntt::from_rq).collect();
        let mut sum = Ntt::dot(weights.iter().zip(&values)).to_rq();
        sum.add(&alpha_sum.scaled(self.layout.norm_sq));
        sum
    }

    /// Draws challenges until `S2` and the images are short enough, and fills in both.
    fn second_part(&self, prover: &mut Prover<'_>, s: &mut [Small]) -> Result<Drawn, ProveError> {
        let (layout, exec) = (&self.layout, prover.exec);
        let first = layout.first_pieces() * layout.rank();
        let before = prover.sender.transcript.clone();
        for nonce in 0..=u8::MAX {
            let drawn = Drawn::new(layout, &before, nonce, exec);
            let of_first = &s[..first];
            let blocks = &drawn.blocks;
            let images = blocks.project_blocks(of_first, layout.rank(), BLOCK, exec)?;
            let forced = prover.is_forced();
            let long: u128 = images.iter().map(image_norm_sq).sum();
            if long > layout.images_norm_sq() && !forced
                || witness::conjugates(layout, &drawn.alphas, s, exec)?.is_none()
                || witness::image_digits(layout, &images, s).is_none()
            {
                continue;
            }
            let conjugates = &s[layout.conjugate_row(0)..layout.image_start()];
            if norm_sq(conjugates) <= layout.conjugates_norm_sq() || forced {
                lie_at!(prover, Second(&mut s[first..]));
                prover.sender.byte("blocks nonce", nonce);
                return Ok(drawn);
            }
        }
        Err(prover.margin("the images of the blocks"))
    }

    /// Sends the image of `(y; y_0; y_1)`.
    fn project(
        &self,
        prover: &mut Prover<'_>,
        s: &[Small],
    ) -> Result<(Projection, [i64; ROWS]), ProveError> {
        let exec = prover.exec;
        let (start, count) = (self.layout.image_start(), self.layout.image_elements());
        let (low, high) = s[start..start + 2 * count].split_at(count);
        let bound = self.layout.digits_norm_sq();
        for nonce in 0..=u8::MAX {
            let seed = prover
                .sender
                .transcript
                .seed("projection", u64::from(nonce));
            let projection = Projection::new(seed);
            let digits = projection.project_on(&s[start..start + 2 * count], exec)?;
            let whole = projection.project_from(2 * count, low, exec)?;
            let upper = projection.project_from(2 * count, high, exec)?;
            let mut image = std::array::from_fn(|i| digits[i] + whole[i] + (upper[i] << BASE));
            lie_at!(prover, Projection(&mut image));
            let short = image_norm_sq(&image) <= IMAGE_FACTOR * bound;
            if short || prover.is_forced() {
                prover.sender.byte("projection nonce", nonce);
                prover.sender.gaussian("projection", &image, bound / 2);
                return Ok((projection, image));
            }
        }
        Err(prover.margin("the projection"))
    }
}

/// What is drawn after the first commitment, beside the forms.
struct Drawn {
    alphas: Vec<Ntt>,
    /// The sum of all `alpha_i`.
    alpha_sum: Rq,
    blocks: Projection,
}

impl Drawn {
    fn new(layout: &Layout, transcript: &Transcript, nonce: u8, exec: Exec<'_>) -> Self {
        let alphas = witness::alphas(layout, &transcript.seed("alphas", u64::from(nonce)));
        let mut sum = [0i64; DEGREE];
        for alpha in &alphas {
            for (sum, &c) in sum.iter_mut().zip(&alpha.0) {
                *sum += i64::from(c);
            }
        }
        Self {
            alphas: exec.backend().residues_bounded(&alphas, 2),
            alpha_sum: Rq::from_integers(&sum),
            blocks: Projection::new(transcript.seed("blocks", u64::from(nonce))),
        }
    }
}

/// The quadratic part of `sum_p <S0_p, S2_p> - sum_i alpha_i sum_d 2^(9 d) S1_(d,i) =
/// sum_i alpha_i beta_i^2`, which has weight 1: the lifts have weights, and if all of them hold,
/// this one must.
fn norms(layout: &Layout) -> Quadratic {
    let first = layout.first_pieces();
    let pieces = 0..layout.long_pieces();
    pieces
        .map(|piece| ((piece, first + piece), Rq::constant(1)))
        .collect()
}

/// `L_k` of the columns of a tile.
struct Evaluate<'a> {
    layout: &'a Layout,
    tile: &'a FormTile,
    s: &'a [Small],
    first: usize,
    columns: usize,
    count: usize,
}

impl Pass for Evaluate<'_> {
    type Output = Vec<i64>;

    #[inline(always)]
    fn run<V: Vectors>(self) -> Vec<i64> {
        let mut sums = vec![0i64; self.count];
        for column in 0..self.columns {
            for (form, sum) in sums.iter_mut().enumerate() {
                let rows = self.tile.row(column, form).as_chunks::<DEGREE>().0;
                for (row, weights) in rows.iter().enumerate() {
                    let place = self.layout.long_row(row) + self.first + column;
                    *sum += inner_product(weights, &self.s[place]);
                }
            }
        }
        sums
    }
}

#[inline(always)]
fn inner_product(weights: &[i16; DEGREE], element: &Small) -> i64 {
    // 64 products below 2^14 * 2^15.
    let products = (weights.iter().zip(&element.0)).map(|(&w, &c)| i32::from(w) * i32::from(c));
    products.map(i64::from).sum()
}

impl FrontEnd for DachshundJoint<'_> {
    /// The columns one after another.
    type Witness = [Small];

    const ID: u8 = 1;

    fn bounds(&self) -> PublicBounds {
        self.layout.bounds(self.profile)
    }

    fn absorb(&self, transcript: &mut Transcript) {
        let layout = &self.layout;
        let numbers = [
            layout.columns as u64,
            layout.rows as u64,
            layout.norm_sq,
            self.forms.count() as u64,
            self.forms.modulus(),
        ];
        let data: Vec<u8> = numbers.iter().flat_map(|x| x.to_le_bytes()).collect();
        transcript.absorb("statement", &data);
        transcript.absorb("context", &self.context);
    }

    fn check(&self, columns: &[Small], exec: Exec<'_>) -> Result<(), Invalid> {
        let layout = &self.layout;
        let expected = layout.columns * layout.rows;
        if columns.len() != expected {
            let elements = columns.len();
            return Err(Invalid::Shape { elements, expected });
        }
        for (column, elements) in columns.chunks_exact(layout.rows).enumerate() {
            let norm_sq = norm_sq(elements);
            if norm_sq > u128::from(layout.norm_sq) {
                return Err(Invalid::Column {
                    column,
                    norm_sq,
                    max: layout.norm_sq,
                });
            }
        }
        // Some forms, fixed here: false relations survive them as rarely as those of a proof.
        let drawn = self
            .forms
            .draw(&Seed::of_name("alphorn/labrador/joint/check"));
        let s = witness::columns(layout, columns);
        let values = self.evaluate(drawn.as_ref(), &s, exec)?;
        for (form, (x, &tau)) in values.into_iter().zip(drawn.targets()).enumerate() {
            if (x - tau as i64) % self.forms.modulus() as i64 != 0 {
                return Err(Invalid::Form { form });
            }
        }
        Ok(())
    }

    fn prove<'k>(
        &self,
        prover: &mut Prover<'_>,
        keys: &'k Keys,
        level: &'k Level,
        columns: &[Small],
    ) -> Result<(Folded<'k>, Vec<Small>), ProveError> {
        let (layout, cut, exec) = (&self.layout, &level.cut, prover.exec);
        let (pieces, first_pieces) = (layout.pieces(), layout.first_pieces());
        prover.step("slack and products")?;
        let mut s = witness::columns(layout, columns);
        witness::products(layout, &mut s, exec)?.ok_or_else(|| prover.margin("a product"))?;
        lie_at!(prover, Witness(&mut s));
        prover.step("first commitment")?;
        let beginning = prover.begin(keys, level, &s, first_pieces)?;
        let (mut v, u0) = (beginning.digits, beginning.u0);
        let first_digits = v.len();

        prover.step("conjugates and images")?;
        let forms = self.forms.draw(&prover.sender.transcript.seed("forms", 0));
        let drawn = self.second_part(prover, &mut s)?;
        prover.step("second commitment")?;
        let tiles = beginning.tiles.with_short(pieces, &s, exec)?;
        let mut t = tiles.commit(&keys.inner, level.kappa, first_pieces..pieces, exec)?;
        prover.step("quadratic garbage")?;
        let mut g = tiles.squares(exec)?;
        lie_at!(prover, Commitments(&mut t, &mut g));
        v.extend(prover.digits(&t, level.t_base, level.t_digits, "a commitment")?);
        v.extend(prover.digits(&g, level.g_base, level.g_digits, "quadratic garbage")?);
        let mut u1 = keys
            .outer
            .commit(level.kappa_outer, &v[first_digits..], exec)?;
        lie_at!(prover, Outer(&mut u1));
        prover.sender.elements("u1", &u1);
        prover.step("quotients")?;
        let mut quotients = self.quotients(forms.as_ref(), &s, exec)?;
        lie_at!(prover, Quotients(&mut quotients));
        prover.sender.integers("quotients", &quotients);

        prover.step("projection")?;
        let (projection, image) = self.project(prover, &s)?;
        let public = Public {
            layout: *layout,
            modulus: self.forms.modulus(),
            forms: forms.as_ref(),
            alphas: drawn.alphas,
            blocks: drawn.blocks,
            quotients,
            projection,
            image,
        };
        prover.step("lifts")?;
        let lifts = Lifts::draw(layout, self.forms.count(), &prover.sender.transcript);
        let sums = Sums::new(&public, &lifts, &tiles, exec)?;
        let constants = std::array::from_fn(|l| public.constant(&lifts, l));
        let values = prover.send_lifts(sums.values(), &constants);
        let weights = draw_weights(&mut prover.sender.transcript.seed("weights", 0).stream());
        prover.step("linear garbage")?;
        let products = sums.combined(&weights, exec);
        let h = cross_sums(cut, |i, j| products[i * pieces + j].clone());
        let (u2, h) = prover.send_garbage(keys, level, h)?;
        v.extend(h);
        prover.step("response")?;
        let (challenges, witness) = prover.respond(level, &tiles, v)?;
        drop(tiles);
        prover.step("amortised form")?;
        let folded = Folded {
            level,
            keys,
            phi: amortised(&public, &lifts, &weights, &challenges, exec)?,
            challenges,
            quadratic: norms(layout),
            rhs: self.right_side(&weights, &values, &drawn.alpha_sum),
            openings: Openings {
                u0,
                first_digits,
                u1,
            },
            u2,
        };
        Ok((folded, witness))
    }

    fn reduce<'k>(
        &self,
        verifier: &mut Verifier<'_>,
        keys: &'k Keys,
        level: &'k Level,
    ) -> Result<Folded<'k>, Reject> {
        let (layout, exec) = (&self.layout, verifier.exec);
        exec.step("challenges of columns")?;
        let receiver = &mut verifier.receiver;
        let u0 = receiver.elements("u0", level.kappa_outer)?;
        let forms = self.forms.draw(&receiver.transcript.seed("forms", 0));
        let before = receiver.transcript.clone();
        let drawn = Drawn::new(layout, &before, receiver.byte("blocks nonce")?, exec);
        let u1 = receiver.elements("u1", level.kappa_outer)?;
        let quotients = receiver.integers("quotients", self.forms.count())?;
        for (form, v) in quotients.iter().enumerate() {
            let within = v.unsigned_abs() <= self.quotient_max();
            receiver.require(within, Reject::FormRange { form })?;
        }
        let before = receiver.transcript.clone();
        let nonce = receiver.byte("projection nonce")?;
        let projection = Projection::new(before.seed("projection", u64::from(nonce)));
        let bound = layout.digits_norm_sq();
        let image = receiver.gaussian("projection", ROWS, bound / 2)?;
        let image: [i64; ROWS] = image.try_into().map_err(|_| Reject::NormBound)?;
        let short = image_norm_sq(&image) <= IMAGE_FACTOR * bound;
        receiver.require(short, Reject::ProjectionLong { level: 1 })?;
        let public = Public {
            layout: *layout,
            modulus: self.forms.modulus(),
            forms: forms.as_ref(),
            alphas: drawn.alphas,
            blocks: drawn.blocks,
            quotients,
            projection,
            image,
        };
        exec.step("weights of lifts")?;
        let lifts = Lifts::draw(layout, self.forms.count(), &receiver.transcript);
        let constants: [u64; LIFTS] = std::array::from_fn(|l| public.constant(&lifts, l));
        let values = receiver.elements_with_constants("lifts", &constants)?;
        let weights = draw_weights(&mut receiver.transcript.seed("weights", 0).stream());
        let u2 = receiver.elements("u2", level.kappa_outer)?;
        receiver.byte("challenge nonce")?;
        let challenges = draw_challenges(&receiver.transcript, level.cut.pieces);
        receiver.level += 1;
        exec.step("amortised form")?;
        Ok(Folded {
            level,
            keys,
            phi: amortised(&public, &lifts, &weights, &challenges, exec)?,
            challenges,
            quadratic: norms(layout),
            rhs: self.right_side(&weights, &values, &drawn.alpha_sum),
            openings: Openings {
                u0,
                first_digits: layout.first_pieces() * level.kappa * level.t_digits,
                u1,
            },
            u2,
        })
    }
}
