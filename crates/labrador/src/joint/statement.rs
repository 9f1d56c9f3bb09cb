//! The statement and both sides of its first level.

use super::fold::amortised;
use super::layout::{BASE, BLOCK, FORMS_MAX, IMAGE_FACTOR, Layout, PRODUCT_DIGITS};
use super::lift::{Lifts, LinearTile, Public};
use super::{DrawnForms, Forms, TILE, witness};
use crate::adversary::Step;
use crate::error::{Invalid, ProveError, Reject, StatementError};
use crate::folded::{Folded, Keys, Openings};
use crate::form::{Equations, Form, Garbage};
use crate::kernel::Backend;
use crate::principal::inner_products;
use crate::projection::{LIFTS, Projection, ROWS, image_norm_sq};
use crate::prove::{Prover, combine, commit_pieces, draw_challenges, draw_weights};
use crate::ring::{DEGREE, Ntt, Rq, Small, norm_sq};
use crate::schedule::{Cut, Level, PublicBounds};
use crate::sis::Profile;
use crate::system::FrontEnd;
use crate::transcript::{Seed, Stream, Transcript};
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
    fn evaluate(&self, drawn: &dyn DrawnForms, s: &[Small]) -> Vec<i64> {
        let layout = &self.layout;
        let mut tile = LinearTile::weights_only(layout, self.forms.count());
        let mut sums = vec![0i64; self.forms.count()];
        for first in (0..layout.columns).step_by(TILE) {
            let count = TILE.min(layout.columns - first);
            tile.load(drawn, first, count);
            for column in 0..count {
                for (form, sum) in sums.iter_mut().enumerate() {
                    let rows = tile.row(column, form).as_chunks::<DEGREE>().0;
                    for (row, weights) in rows.iter().enumerate() {
                        let element = &s[layout.long_row(row) + first + column];
                        *sum += inner_product(weights, element);
                    }
                }
            }
        }
        sums
    }

    /// The quotients `(L_k(s) - tau_k) / q`, rounded down where the relation is false.
    fn quotients(&self, drawn: &dyn DrawnForms, s: &[Small]) -> Vec<i64> {
        let modulus = self.forms.modulus() as i64;
        let values = self.evaluate(drawn, s).into_iter().zip(drawn.targets());
        values
            .map(|(x, &tau)| (x - tau as i64).div_euclid(modulus))
            .collect()
    }

    /// Draws challenges until `S2` and the images are short enough, and fills in both.
    fn second_part(
        &self,
        prover: &mut Prover<'_>,
        s: &mut [Small],
        backend: Backend,
    ) -> Result<Drawn, ProveError> {
        let layout = &self.layout;
        let first = layout.first_pieces() * layout.rank();
        let before = prover.sender.transcript.clone();
        for nonce in 0..=u8::MAX {
            let drawn = Drawn::new(layout, &before, nonce);
            let mut images =
                (drawn.blocks).project_blocks(&s[..first], layout.rank(), BLOCK, backend);
            prover.tamper.at(prover.number, Step::Images(&mut images));
            let forced = prover.tamper.forces(prover.number);
            let long: u128 = images.iter().map(image_norm_sq).sum();
            if long > layout.images_norm_sq() && !forced
                || witness::conjugates(layout, &drawn.alphas, s).is_none()
                || witness::image_digits(layout, &images, s).is_none()
            {
                continue;
            }
            let conjugates = &s[layout.conjugate_row(0)..layout.image_start()];
            if norm_sq(conjugates) <= layout.conjugates_norm_sq() || forced {
                prover
                    .tamper
                    .at(prover.number, Step::Second(&mut s[first..]));
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
        backend: Backend,
    ) -> Result<(Projection, [i64; ROWS]), ProveError> {
        let (start, count) = (self.layout.image_start(), self.layout.image_elements());
        let (low, high) = s[start..start + 2 * count].split_at(count);
        let bound = self.layout.digits_norm_sq();
        for nonce in 0..=u8::MAX {
            let seed = prover
                .sender
                .transcript
                .seed("projection", u64::from(nonce));
            let projection = Projection::new(seed);
            let digits = projection.project(&s[start..start + 2 * count], backend);
            let whole = projection.project_from(2 * count, low, backend);
            let upper = projection.project_from(2 * count, high, backend);
            let mut image = std::array::from_fn(|i| digits[i] + whole[i] + (upper[i] << BASE));
            prover
                .tamper
                .at(prover.number, Step::Projection(&mut image));
            let short = image_norm_sq(&image) <= IMAGE_FACTOR * bound;
            if short || prover.tamper.forces(prover.number) {
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
    blocks: Projection,
}

impl Drawn {
    fn new(layout: &Layout, transcript: &Transcript, nonce: u8) -> Self {
        Self {
            alphas: witness::alphas(layout, &transcript.seed("alphas", u64::from(nonce))),
            blocks: Projection::new(transcript.seed("blocks", u64::from(nonce))),
        }
    }
}

fn inner_product(weights: &[i16; DEGREE], element: &Small) -> i64 {
    // 64 products below 2^14 * 2^15.
    let products = (weights.iter().zip(&element.0)).map(|(&w, &c)| i32::from(w) * i32::from(c));
    products.map(i64::from).sum()
}

/// `sum_p <S0_p, S2_p> - sum_i alpha_i sum_d 2^(9 d) S1_(d,i) = sum_i alpha_i beta_i^2`, with
/// weight 1: the lifts have weights, and if all of them hold, this one must.
struct Norms<'a> {
    layout: &'a Layout,
    alphas: &'a [Ntt],
}

impl Norms<'_> {
    fn quadratic(&self) -> impl Iterator<Item = ((usize, usize), Rq)> {
        let first = self.layout.first_pieces();
        (0..self.layout.long_pieces()).map(move |piece| ((piece, first + piece), Rq::constant(1)))
    }

    fn right_side(&self) -> Rq {
        let mut sum = Rq::ZERO;
        for alpha in self.alphas {
            sum.add(&alpha.to_rq());
        }
        sum.scaled(self.layout.norm_sq)
    }
}

impl Equations for Norms<'_> {
    fn aggregate(&self, _: &Cut, _: &mut Stream, form: &mut Form) {
        for ((i, j), one) in self.quadratic() {
            form.add_quadratic(i, j, &one);
        }
        for (i, alpha) in self.alphas.iter().enumerate() {
            let alpha = alpha.to_rq();
            for digit in 0..PRODUCT_DIGITS {
                let power = 1 << (BASE * digit as u32);
                form.phi[self.layout.digit_row(digit) + i].sub(&alpha.scaled(power));
            }
        }
        form.rhs.add(&self.right_side());
    }

    fn lift(&self, _: &Cut, _: &mut Stream, _: &mut Form) {}

    fn padding(&self, _: &Cut) -> Vec<usize> {
        Vec::new()
    }
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

    fn check(&self, columns: &[Small]) -> Result<(), Invalid> {
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
        let values = self.evaluate(drawn.as_ref(), &s);
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
        let (layout, cut, backend) = (&self.layout, &level.cut, keys.backend);
        let first = layout.first_pieces() * layout.rank();
        let mut s = witness::columns(layout, columns);
        witness::products(layout, &mut s).ok_or_else(|| prover.margin("a product"))?;
        prover.tamper.at(prover.number, Step::Witness(&mut s));
        let mut s_ntt = backend.residues(&s[..first]);
        let t = commit_pieces(keys, cut, level.kappa, &s_ntt);
        let mut v = prover.digits(&t, level.t_base, level.t_digits, "a commitment")?;
        let mut u0 = (keys.first).commit(level.kappa_outer, &backend.residues(&v), backend);
        prover.tamper.at(prover.number, Step::First(&mut u0));
        prover.sender.elements("u0", &u0);
        let first_digits = v.len();

        let forms = self.forms.draw(&prover.sender.transcript.seed("forms", 0));
        let drawn = self.second_part(prover, &mut s, backend)?;
        s_ntt = backend.residues(&s);
        let mut t = commit_pieces(keys, cut, level.kappa, &s_ntt[first..]);
        let mut g = inner_products(cut, &s_ntt, backend).elements;
        prover
            .tamper
            .at(prover.number, Step::Commitments(&mut t, &mut g));
        v.extend(prover.digits(&t, level.t_base, level.t_digits, "a commitment")?);
        v.extend(prover.digits(&g, level.g_base, level.g_digits, "quadratic garbage")?);
        let mut u1 = (keys.outer).commit(
            level.kappa_outer,
            &backend.residues(&v[first_digits..]),
            backend,
        );
        prover.tamper.at(prover.number, Step::Outer(&mut u1));
        prover.sender.elements("u1", &u1);
        let mut quotients = self.quotients(forms.as_ref(), &s);
        prover
            .tamper
            .at(prover.number, Step::Quotients(&mut quotients));
        prover.sender.integers("quotients", &quotients);

        let (projection, image) = self.project(prover, &s, backend)?;
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
        let g = Garbage::new(cut.pieces, g);
        let lifts = Lifts::draw(layout, self.forms.count(), &prover.sender.transcript);
        let mut lifted = public.forms(cut, &lifts, keys.backend);
        prover.send_lifts(&mut lifted, &g, &s_ntt, backend);
        let alphas = &public.alphas;
        let norms = Norms { layout, alphas };
        let form = combine(&prover.sender.transcript, &norms, cut, &lifted, backend);
        let openings = Openings {
            u0,
            first_digits,
            u1,
        };
        prover.fold_level(keys, level, form, &s_ntt, v, openings)
    }

    fn reduce<'k>(
        &self,
        verifier: &mut Verifier<'_>,
        keys: &'k Keys,
        level: &'k Level,
    ) -> Result<Folded<'k>, Reject> {
        let layout = &self.layout;
        let receiver = &mut verifier.receiver;
        let u0 = receiver.elements("u0", level.kappa_outer)?;
        let forms = self.forms.draw(&receiver.transcript.seed("forms", 0));
        let before = receiver.transcript.clone();
        let drawn = Drawn::new(layout, &before, receiver.byte("blocks nonce")?);
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
        let lifts = Lifts::draw(layout, self.forms.count(), &receiver.transcript);
        let constants: [u64; LIFTS] = std::array::from_fn(|l| public.constant(&lifts, l));
        let values = receiver.elements_with_constants("lifts", &constants)?;
        let weights = draw_weights(&mut receiver.transcript.seed("weights", 0).stream());
        let u2 = receiver.elements("u2", level.kappa_outer)?;
        receiver.byte("challenge nonce")?;
        let challenges = draw_challenges(&receiver.transcript, level.cut.pieces);
        receiver.level += 1;
        let alphas = &public.alphas;
        let norms = Norms { layout, alphas };
        let values: Vec<Ntt> = values.iter().map(Ntt::from_rq).collect();
        let mut rhs = Ntt::dot(weights.iter().zip(&values)).to_rq();
        rhs.add(&norms.right_side());
        Ok(Folded {
            level,
            keys,
            phi: amortised(&public, &lifts, &weights, &challenges, keys.backend),
            challenges,
            quadratic: norms.quadratic().collect(),
            rhs,
            openings: Openings {
                u0,
                first_digits: layout.first_pieces() * level.kappa * level.t_digits,
                u1,
            },
            u2,
        })
    }
}
