//! The lifts by their definition, as forms over the whole witness: the oracle of the structured
//! sums of both sides.

use alphorn_exec::{Backend, Exec};

use super::layout::{BASE, BLOCK, Layout, PRODUCT_DIGITS};
use super::lift::{Lift, Lifts, Public};
use super::tile::FormTile;
use super::{TILE, fold, sums};
use crate::kernel::KERNELS;
use crate::projection::{LIFTS, Projection, ROWS};
use crate::prove::draw_weights;
use crate::ring::{DEGREE, Ntt, Rq, Small, Transforms, add_mod, mul_mod};
use crate::schedule::Cut;
use crate::tiles::Tiles;
use crate::transcript::{Seed, Stream, Transcript};
use crate::{DrawnForms, challenge};

/// Forms without any structure.
struct Arbitrary {
    rows: usize,
    count: usize,
}

impl DrawnForms for Arbitrary {
    fn targets(&self) -> &[u64] {
        &[]
    }

    fn weights(&self, first: usize, _: usize, out: &mut [[i16; TILE]]) {
        let width = self.rows * 64;
        for (place, row) in out.iter_mut().enumerate() {
            for (column, x) in row.iter_mut().enumerate() {
                let k = (column * self.count + place / width) * width + place % width;
                let (number, place) = (first + column, k % 1000);
                *x = (number as i16).wrapping_mul(37) % 6145 - (place as i16 * 6) % 6145;
            }
        }
    }
}

/// Every lift, term by term.
fn forms(public: &Public<'_>, lifts: &Lifts, exec: Exec<'_>) -> [Vec<Rq>; LIFTS] {
    let layout = &public.layout;
    let images = public.image_elements(lifts, exec).expect("never stopped");
    std::array::from_fn(|l| {
        let lift = &lifts.each[l];
        let mut phi = vec![Rq::ZERO; layout.elements()];
        add_blocks(public, lift, &mut phi);
        let padding = lift.padding.iter().map(|&g| lift.theta.scaled(g));
        let behind = images[l].iter().cloned().chain(padding);
        for (phi, image) in phi[layout.image_start()..].iter_mut().zip(behind) {
            phi.add(&image);
        }
        let theta = Ntt::from_rq(&lift.theta);
        for (i, (alpha, &g)) in public.alphas.iter().zip(&lift.columns).enumerate() {
            let turned = theta.times(alpha).sigma().to_rq();
            for (row, &f) in lift.long_rows.iter().enumerate() {
                let scalar = mul_mod(f, g);
                phi[layout.long_row(row) + i].sub(&turned.scaled(scalar));
                phi[layout.conjugate_row(row) + i].add(&lift.theta.scaled(scalar));
            }
        }
        for digit in 0..PRODUCT_DIGITS {
            for (phi, &g) in phi[layout.digit_row(digit)..]
                .iter_mut()
                .zip(&lift.products)
            {
                let scalar = mul_mod(g, 1 << (BASE * digit as u32));
                phi.set_constant(add_mod(phi.coefficients()[0], scalar));
            }
        }
        add_linear(public, lift, &mut phi);
        phi
    })
}

/// `- e_(p,b) <omega, J s_(p,b)>` on `S0` and `S1`.
fn add_blocks(public: &Public<'_>, lift: &Lift, phi: &mut [Rq]) {
    let layout = &public.layout;
    let span = BLOCK.min(layout.rank());
    let weights = std::array::from_fn(|_| lift.rows);
    let [columns, _, _] = public.blocks.collapse(0..span, &weights, Backend::Portable);
    for piece in 0..layout.first_pieces() {
        for k in 0..layout.rank() {
            let scalar = lift.blocks[piece * layout.piece_blocks() + k / BLOCK];
            phi[piece * layout.rank() + k].sub(&columns[k % BLOCK].scaled(scalar));
        }
    }
}

/// `sum mu_k L_k` on the rows of `S0` that are no slack.
fn add_linear(public: &Public<'_>, lift: &Lift, phi: &mut [Rq]) {
    let layout = &public.layout;
    let mut tile = FormTile::new(layout, lift.forms.len());
    for first in (0..layout.columns).step_by(TILE) {
        let count = TILE.min(layout.columns - first);
        tile.load(public.forms, first, count);
        for column in 0..count {
            for row in 0..layout.rows {
                let place = &mut phi[layout.long_row(row) + first + column];
                for (form, &mu) in lift.forms.iter().enumerate() {
                    let weights = &tile.form(form)[row * DEGREE..(row + 1) * DEGREE];
                    let wide = std::array::from_fn(|k| i64::from(weights[k][column]));
                    place.add(&Rq::from_integers(&wide).sigma().scaled(mu));
                }
            }
        }
    }
}

/// The linear part of the equation of the norms.
fn norms(public: &Public<'_>) -> Vec<Rq> {
    let layout = &public.layout;
    let mut phi = vec![Rq::ZERO; layout.elements()];
    for (i, alpha) in public.alphas.iter().enumerate() {
        for digit in 0..PRODUCT_DIGITS {
            let power = 1 << (BASE * digit as u32);
            phi[layout.digit_row(digit) + i].sub(&alpha.to_rq().scaled(power));
        }
    }
    phi
}

fn many(stream: &mut Stream, count: usize) -> Vec<Small> {
    let small = |stream: &mut Stream| {
        let wide = stream.element().centred();
        Small(std::array::from_fn(|i| (wide[i] % 30_000) as i16))
    };
    (0..count).map(|_| small(stream)).collect()
}

/// `sum phi_k s_k`.
fn dot(phi: &[Ntt], s: &[Ntt]) -> Rq {
    Ntt::dot(phi.iter().zip(s)).to_rq()
}

fn check(columns: usize, rows: usize, forms_count: usize, backend: Backend) {
    let layout = Layout::new(columns, rows, 34_034_726).expect("within limits");
    let seed = Seed::of_name("dense");
    let mut stream = seed.stream();
    let arbitrary = Arbitrary {
        rows,
        count: forms_count,
    };
    let alphas = (0..columns).map(|_| Ntt::from_small_bounded(&challenge::weight(&mut stream), 2));
    let public = Public {
        layout,
        modulus: 12_289,
        forms: &arbitrary,
        alphas: alphas.collect(),
        blocks: Projection::new(Seed::of_name("dense blocks")),
        quotients: Vec::new(),
        projection: Projection::new(Seed::of_name("dense projection")),
        image: [0; ROWS],
    };
    let lifts = Lifts::draw(&layout, forms_count, &Transcript::new("dense"));
    let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build();
    let pool = pool.expect("two threads");
    let exec = Exec::new(backend, Some(&pool));
    let cut = Cut {
        z_pieces: 0,
        pieces: layout.pieces(),
        rank: layout.rank(),
    };
    let s = many(&mut stream, layout.elements());
    let tiles = Tiles::short(&cut, &s, exec).expect("never stopped");
    let sums = sums::Sums::new(&public, &lifts, &tiles, exec).expect("never stopped");
    let weights = draw_weights(&mut stream);
    let challenges: Vec<Ntt> = (0..cut.pieces)
        .map(|_| Ntt::from_small_bounded(&challenge::weight(&mut stream), 2))
        .collect();
    let folded = fold::amortised(&public, &lifts, &weights, &challenges, exec);
    let folded = folded.expect("never stopped");

    let dense = forms(&public, &lifts, exec);
    let s = backend.residues(&s);
    for (phi, value) in dense.iter().zip(sums.values()) {
        assert_eq!(
            dot(&backend.transforms(phi), &s),
            value,
            "a lift of {columns} columns"
        );
    }
    let mut whole = norms(&public);
    for (weight, phi) in weights.iter().zip(&dense) {
        let weighted = backend.products(weight, &backend.transforms(phi));
        for (sum, x) in whole.iter_mut().zip(&weighted) {
            sum.add(x);
        }
    }
    let whole = backend.transforms(&whole);
    let rank = cut.rank;
    let piece = |p: usize| p * rank..(p + 1) * rank;
    let combined = sums.combined(&weights, exec);
    for p in 0..cut.pieces {
        for q in 0..cut.pieces {
            let product = dot(&whole[piece(p)], &s[piece(q)]);
            assert_eq!(
                product,
                combined[p * cut.pieces + q],
                "{columns} columns, {p}, {q}"
            );
        }
    }
    for (k, phi) in folded.iter().enumerate() {
        let column = (0..cut.pieces).map(|p| &whole[p * rank + k]);
        assert_eq!(
            Ntt::dot(challenges.iter().zip(column)).to_rq(),
            *phi,
            "place {k}"
        );
    }
}

#[test]
fn structured_sums_are_those_of_dense_forms() {
    for (columns, rows, forms) in [(1, 2, 1), (5, 16, 11), (50, 7, 2), (600, 2, 3)] {
        check(columns, rows, forms, KERNELS.measured());
    }
    for backend in KERNELS.available() {
        check(33, 3, 3, backend);
    }
}
