//! Dachshund: an exact norm for each column with its slack in binary, and a relation as forms or
//! with quotients.

use alphorn_exec::Exec;

use super::equations::{Columns, evaluate};
use super::layout::Layout;
use super::product::{Products, interleaved};
use crate::challenge::arrangement;
use crate::error::{Invalid, ProveError, Reject, StatementError};
use crate::folded::{Folded, Keys};
use crate::joint::{DrawnForms, FORMS_MAX, Forms};
use crate::prove::Prover;
use crate::prove::lie_at;
use crate::ring::{DEGREE, Ntt, Q, Small, norm_sq};
use crate::schedule::{Level, PublicBounds, with_slack};
use crate::sis::Profile;
use crate::system::FrontEnd;
use crate::transcript::{Seed, Transcript};
use crate::verify::Verifier;

/// What the columns satisfy beside their norms.
#[derive(Clone, Copy)]
pub enum Relation<'a> {
    /// Random linear forms, as in [`crate::DachshundJoint`].
    Forms(&'a dyn Forms),
    /// `s_1 + h s_2 + q v = t`, with `v` among the vectors. A column is `s_1`, then `s_2`.
    Products(&'a Products),
}

/// `N` columns of `rows` ring elements with a squared norm of at most `norm_sq` each, exactly, and
/// a relation.
pub struct Dachshund<'a> {
    layout: Layout,
    profile: Profile,
    relation: Relation<'a>,
    context: Vec<u8>,
}

impl<'a> Dachshund<'a> {
    /// A statement about `columns` columns. `context` is absorbed before anything is drawn: it
    /// must bind whatever forms are made of.
    ///
    /// # Errors
    /// If a number is beyond its limit, something might wrap around the modulus, or the relation
    /// is of other columns.
    pub fn new(
        columns: usize,
        rows: usize,
        norm_sq: u64,
        profile: Profile,
        relation: Relation<'a>,
        context: Vec<u8>,
    ) -> Result<Self, StatementError> {
        let quotient_rows = match relation {
            Relation::Forms(forms) => {
                let (count, modulus) = (forms.count(), forms.modulus());
                if !(1..=FORMS_MAX).contains(&count) {
                    return Err(StatementError::Forms { forms: count });
                }
                if modulus.is_multiple_of(2) || modulus >= 1 << 15 {
                    return Err(StatementError::FormModulus { modulus });
                }
                0
            }
            Relation::Products(products) => {
                let e = products.extension();
                if products.columns() != columns || rows != 2 * e {
                    return Err(StatementError::Polynomials {
                        coefficients: products.columns() * e * DEGREE,
                        degree: rows * DEGREE / 2,
                    });
                }
                products.extension()
            }
        };
        let layout = Layout::new(columns, rows, norm_sq, quotient_rows)?;
        let fits = match relation {
            Relation::Forms(forms) => {
                let modulus = forms.modulus();
                2 * layout.form_max(modulus) + 2 * u128::from(modulus) < u128::from(Q)
            }
            Relation::Products(products) => {
                let (column_sq, quotient_sq) = (u128::from(norm_sq), with_slack(layout.norm_sq()));
                Products::fits(quotient_rows, products.modulus(), column_sq, quotient_sq, Q)
            }
        };
        if !fits {
            return Err(StatementError::Wraps { columns });
        }
        Ok(Self {
            layout,
            profile,
            relation,
            context,
        })
    }

    /// The bounds of all statements with these numbers: with forms for no `quotient_rows`, with
    /// quotients of so many elements otherwise.
    ///
    /// # Errors
    /// If a number is beyond its limit.
    pub fn bounds_for(
        columns: usize,
        rows: usize,
        norm_sq: u64,
        quotient_rows: usize,
        profile: Profile,
    ) -> Result<PublicBounds, StatementError> {
        Ok(Layout::new(columns, rows, norm_sq, quotient_rows)?.bounds(profile))
    }

    /// The elements of a column as they are committed to.
    fn elements(&self, column: &[Small]) -> Vec<Small> {
        match self.relation {
            Relation::Forms(_) => column.to_vec(),
            Relation::Products(products) => {
                let flat: Vec<i16> = column.iter().flat_map(|s| s.0).collect();
                let e = products.extension();
                let halves = flat.chunks_exact(e * DEGREE);
                halves.flat_map(|half| interleaved(half, e)).collect()
            }
        }
    }

    /// Everything that the first commitment holds. None if a number does not fit.
    fn first_part(&self, columns: &[Small]) -> Option<Vec<Small>> {
        let layout = &self.layout;
        let mut s = vec![Small::ZERO; layout.elements()];
        for (i, column) in columns.chunks_exact(layout.rows).enumerate() {
            // A prover that did not check its witness gets no slack for a column that is too long.
            let own = norm_sq(column);
            let rest = u128::from(layout.norm_sq).saturating_sub(own) as u64;
            let bits = Small(std::array::from_fn(|k| (rest >> k & 1) as i16));
            let column = self.elements(column);
            for (digit, element) in layout.digits(&column, &bits)?.into_iter().enumerate() {
                s[layout.digit_row(digit) + i] = element;
            }
            if let Relation::Products(products) = self.relation {
                let (first, second) = column.split_at(products.extension());
                let (quotient, _) = products.quotient(i, first, second)?;
                for (row, element) in quotient.into_iter().enumerate() {
                    s[layout.quotient_row(row) + i] = element;
                }
            }
            for (row, element) in column.into_iter().enumerate() {
                s[layout.long_row(row) + i] = element;
            }
            s[layout.bit_row(0) + i] = bits;
        }
        Some(s)
    }

    /// Draws challenges until the conjugates are short enough, and fills them in.
    fn second_part(
        &self,
        prover: &mut Prover<'_>,
        s: &mut [Small],
    ) -> Result<Vec<Ntt>, ProveError> {
        let layout = &self.layout;
        let start = layout.twin_row(0);
        let before = prover.sender.transcript.clone();
        for nonce in 0..=u8::MAX {
            let alphas = alphas(layout.columns, &before, nonce);
            let twins: Option<Vec<Small>> = (s[..layout.twin_rows() * layout.columns].iter())
                .zip(alphas.iter().cycle())
                .map(|(element, alpha)| {
                    let product = alpha.times(&Ntt::from_small(element).sigma());
                    let mut out = Small::ZERO;
                    for (o, c) in out.0.iter_mut().zip(product.to_rq().centred()) {
                        *o = i16::try_from(c).ok()?;
                    }
                    Some(out)
                })
                .collect();
            let Some(twins) = twins else {
                continue;
            };
            let forced = prover.is_forced();
            if norm_sq(&twins) <= layout.twins_norm_sq() || forced {
                s[start..start + twins.len()].clone_from_slice(&twins);
                prover.sender.byte("columns nonce", nonce);
                return Ok(alphas);
            }
        }
        Err(prover.margin("the conjugates"))
    }

    /// The bound of the absolute value of every form's quotient.
    fn quotient_max(&self, modulus: u64) -> u64 {
        (self.layout.form_max(modulus) / u128::from(modulus)) as u64 + 1
    }

    fn equations<'b>(
        &'b self,
        alphas: Vec<Ntt>,
        drawn: Option<&'b dyn DrawnForms>,
        quotients: Vec<i64>,
    ) -> Columns<'b> {
        Columns {
            layout: self.layout,
            relation: self.relation,
            alphas,
            drawn,
            quotients,
        }
    }
}

/// The challenges of all columns.
fn alphas(columns: usize, transcript: &Transcript, nonce: u8) -> Vec<Ntt> {
    let seed = transcript.seed("alphas", u64::from(nonce));
    let mut bytes = seed.stream().bytes();
    (0..columns)
        .map(|_| Ntt::from_small_bounded(&arrangement(&mut bytes), 2))
        .collect()
}

impl FrontEnd for Dachshund<'_> {
    /// The columns one after another.
    type Witness = [Small];

    const ID: u8 = 2;

    fn bounds(&self) -> PublicBounds {
        self.layout.bounds(self.profile)
    }

    fn absorb(&self, transcript: &mut Transcript) {
        let layout = &self.layout;
        let (kind, relation) = match self.relation {
            Relation::Forms(forms) => {
                let numbers = [forms.count() as u64, forms.modulus()];
                (0, numbers.map(u64::to_le_bytes).concat())
            }
            Relation::Products(products) => (1, products.encode()),
        };
        let numbers = [
            layout.columns as u64,
            layout.rows as u64,
            layout.norm_sq,
            kind,
        ];
        transcript.absorb("statement", &numbers.map(u64::to_le_bytes).concat());
        transcript.absorb("relation", &relation);
        transcript.absorb("context", &self.context);
    }

    fn check(&self, columns: &[Small], _: Exec<'_>) -> Result<(), Invalid> {
        let layout = &self.layout;
        check_columns(columns, layout.columns, layout.rows, layout.norm_sq)?;
        match self.relation {
            Relation::Forms(forms) => {
                let drawn = forms.draw(&Seed::of_name("alphorn/labrador/columns/check"));
                let mut s = vec![Small::ZERO; layout.elements()];
                for (i, column) in columns.chunks_exact(layout.rows).enumerate() {
                    for (row, element) in column.iter().enumerate() {
                        s[layout.long_row(row) + i] = element.clone();
                    }
                }
                let values = evaluate(layout, drawn.as_ref(), &s);
                for (form, (x, &tau)) in values.into_iter().zip(drawn.targets()).enumerate() {
                    if (x - tau as i64) % forms.modulus() as i64 != 0 {
                        return Err(Invalid::Form { form });
                    }
                }
                Ok(())
            }
            Relation::Products(products) => check_products(products, columns),
        }
    }

    fn prove<'k>(
        &self,
        prover: &mut Prover<'_>,
        keys: &'k Keys,
        level: &'k Level,
        columns: &[Small],
    ) -> Result<(Folded<'k>, Vec<Small>), ProveError> {
        prover.step("slack and products")?;
        let first = self.first_part(columns);
        let mut s = first.ok_or_else(|| prover.margin("a product or a quotient"))?;
        lie_at!(prover, Witness(&mut s));
        prover.step("first commitment")?;
        let beginning = prover.begin(keys, level, &s, self.layout.first_pieces())?;
        prover.step("conjugates and images")?;
        let seed = prover.sender.transcript.seed("forms", 0);
        let alphas = self.second_part(prover, &mut s)?;
        let second = &mut s[self.layout.twin_row(0)..];
        lie_at!(prover, Second(second));
        let (drawn, mut quotients) = match self.relation {
            Relation::Forms(forms) => {
                let drawn = forms.draw(&seed);
                let modulus = forms.modulus() as i64;
                let values = evaluate(&self.layout, drawn.as_ref(), &s).into_iter();
                let quotients = (values.zip(drawn.targets()))
                    .map(|(x, &tau)| (x - tau as i64).div_euclid(modulus))
                    .collect();
                (Some(drawn), quotients)
            }
            Relation::Products(_) => (None, Vec::new()),
        };
        lie_at!(prover, Quotients(&mut quotients));
        prover.sender.integers("quotients", &quotients);
        let equations = self.equations(alphas, drawn.as_deref(), quotients);
        prover.level_after(keys, level, &equations, s, beginning)
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
        let before = receiver.transcript.clone();
        let nonce = receiver.byte("columns nonce")?;
        let alphas = alphas(layout.columns, &before, nonce);
        let (drawn, quotients) = match self.relation {
            Relation::Forms(forms) => {
                let quotients = receiver.integers("quotients", forms.count())?;
                for (form, v) in quotients.iter().enumerate() {
                    let within = v.unsigned_abs() <= self.quotient_max(forms.modulus());
                    receiver.require(within, Reject::FormRange { form })?;
                }
                (Some(forms.draw(&before.seed("forms", 0))), quotients)
            }
            Relation::Products(_) => (None, receiver.integers("quotients", 0)?),
        };
        let equations = self.equations(alphas, drawn.as_deref(), quotients);
        verifier.level_after(keys, level, &equations, u0, layout.first_pieces())
    }
}

/// Checks the shape and the norms of columns.
pub(super) fn check_columns(
    columns: &[Small],
    count: usize,
    rows: usize,
    max: u64,
) -> Result<(), Invalid> {
    let expected = count * rows;
    if columns.len() != expected {
        let elements = columns.len();
        return Err(Invalid::Shape { elements, expected });
    }
    for (column, elements) in columns.chunks_exact(rows).enumerate() {
        let norm_sq = norm_sq(elements);
        if norm_sq > u128::from(max) {
            return Err(Invalid::Column {
                column,
                norm_sq,
                max,
            });
        }
    }
    Ok(())
}

/// Checks `s_1 + h s_2 = t` modulo `q` for every column.
pub(super) fn check_products(products: &Products, columns: &[Small]) -> Result<(), Invalid> {
    let e = products.extension();
    for (i, column) in columns.chunks_exact(2 * e).enumerate() {
        let flat: Vec<i16> = column.iter().flat_map(|s| s.0).collect();
        let (first, second) = flat.split_at(e * DEGREE);
        let quotient = products.quotient(i, &interleaved(first, e), &interleaved(second, e));
        // A quotient beyond 16 bits says nothing about the relation: the prover names it.
        if quotient.is_some_and(|(_, holds)| !holds) {
            return Err(Invalid::Equation { equation: i });
        }
    }
    Ok(())
}
