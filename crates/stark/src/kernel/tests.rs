use super::*;
use crate::field::P;
use crate::poseidon::kernels::KERNELS;
use proptest::prelude::*;

/// Every operation on the first `Packed::LANES` elements, in the order of [`expected`].
struct Operations<'a> {
    x: &'a [Vec<Fp>],
    row: &'a [Fp],
    small: &'a [u64],
}

impl Pass for Operations<'_> {
    type Output = (usize, Vec<Vec<Fp>>);

    #[inline(always)]
    fn run<V: Packed>(self) -> Self::Output {
        let x: Vec<V> = self.x.iter().map(|x| V::load(x)).collect();
        let split: Vec<V::Split> = x.iter().map(|x| x.split()).collect();
        let words: Vec<u64> = self.row.iter().map(|w| u64::from(w.word())).collect();
        let [dot, same] = V::dot(&split, [&words, &words]);
        let [small] = V::dot_small(&split, [self.small]);
        let five: [V::Split; 5] = std::array::from_fn(|i| split[i % split.len()]);
        let products = V::products(five, five);
        let fewer = V::products([five[0], five[1], five[2]], [five[1], five[1], five[0]]);
        let (a, b) = (x[0], x[1]);
        let c = V::splat(self.row[0]);
        let results = [
            a.add(b),
            a.sub(b),
            a.mul(b),
            a.cube(),
            a.mul(c),
            dot,
            same,
            small,
            products,
            fewer,
            a.over::<1>(),
            a.over::<8>(),
            a.over::<24>(),
        ];
        let store = |v: V| {
            let mut out = vec![Fp::ZERO; V::LANES];
            v.store(&mut out);
            out
        };
        (V::LANES, results.map(store).to_vec())
    }
}

/// The same for one position, element by element.
fn expected(x: &[Vec<Fp>], row: &[Fp], small: &[u64], i: usize) -> [Fp; 13] {
    let (a, b) = (x[0][i], x[1][i]);
    let dot = x.iter().zip(row).map(|(x, w)| x[i] * *w).sum();
    // Words of `dot_small` are plain integers.
    let small = x
        .iter()
        .zip(small)
        .map(|(x, w)| x[i] * Fp::new(*w as u32))
        .sum();
    let products = (0..5).map(|k| x[k % x.len()][i] * x[k % x.len()][i]).sum();
    let fewer = a * b + b * b + x[2 % x.len()][i] * a;
    let cube = a * a * a;
    let over = |log2: u32| a * Fp::new(1 << log2).inverse().unwrap();
    [
        a + b,
        a - b,
        a * b,
        cube,
        a * row[0],
        dot,
        dot,
        small,
        products,
        fewer,
        over(1),
        over(8),
        over(24),
    ]
}

fn agrees(x: &[Vec<Fp>], row: &[Fp], small: &[u64]) {
    for backend in KERNELS.available() {
        let (lanes, results) = backend.run(Operations { x, row, small });
        for i in 0..lanes {
            let here: Vec<Fp> = results.iter().map(|result| result[i]).collect();
            assert_eq!(here, expected(x, row, small, i), "{backend}, position {i}");
        }
    }
}

#[test]
fn extreme_values_agree() {
    for value in [0, 1, P / 2, P - 2, P - 1] {
        // The extreme words in Montgomery form differ from those in canonical form, so both are used.
        for element in [Fp::new(value), Fp::from_word(value)] {
            for terms in [2, 3, 4, 5, 17, DOT_MAX] {
                let x = vec![vec![element; 16]; terms];
                let mut small = vec![0; terms];
                small[terms - 1] = SMALL_SUM_MAX;
                agrees(&x, &vec![element; terms], &small);
            }
        }
    }
}

/// A circulant matrix times sixteen vectors.
struct Mix<'a>(&'a Circulant, &'a [Vec<Fp>]);

impl Pass for Mix<'_> {
    type Output = (usize, Vec<Vec<Fp>>);

    #[inline(always)]
    fn run<V: Packed>(self) -> Self::Output {
        let mut split = [V::splat(Fp::ZERO).split(); MIXED];
        for (split, x) in split.iter_mut().zip(self.1) {
            *split = V::load(x).split();
        }
        let mut out = vec![vec![Fp::ZERO; V::LANES]; MIXED];
        for (out, mixed) in out.iter_mut().zip(V::mix(self.0, &split)) {
            mixed.store(out);
        }
        (V::LANES, out)
    }
}

/// For the row with the greatest entries, and Poseidon's, on elements with the greatest words and others.
#[test]
fn mixtures_are_sums_of_products() {
    let extreme = [
        Fp::from_word(P - 1),
        Fp::ZERO,
        Fp::new(P / 2),
        Fp::new(12345),
    ];
    let rows = [
        [32; MIXED],
        [1, 3, 13, 22, 67, 2, 15, 63, 101, 1, 2, 17, 11, 1, 51, 1],
    ];
    for (row, shift) in rows
        .iter()
        .flat_map(|row| [0, 1, 2, 3].map(|shift| (row, shift)))
    {
        let x: Vec<Vec<Fp>> = (0..MIXED)
            .map(|i| {
                (0..16)
                    .map(|lane| extreme[(i * lane / 3 + i + shift) % 4])
                    .collect()
            })
            .collect();
        let matrix = Circulant::new(row);
        for backend in KERNELS.available() {
            let (lanes, mixed) = backend.run(Mix(&matrix, &x));
            for (i, mixed) in mixed.iter().enumerate() {
                for lane in 0..lanes {
                    let entry = |j: usize| Fp::new(row[(MIXED + j - i) % MIXED]);
                    let expected: Fp = (0..MIXED).map(|j| entry(j) * x[j][lane]).sum();
                    assert_eq!(mixed[lane], expected, "{backend}, row {i}, position {lane}");
                }
            }
        }
    }
}

proptest! {
    #[test]
    fn every_kernel_agrees_with_single_elements(
        words in proptest::collection::vec(0..P, 16 * 20),
        row in proptest::collection::vec(0..P, 20),
        small in proptest::collection::vec(0..25u64, 20),
    ) {
        let x: Vec<Vec<Fp>> = words
            .chunks(16)
            .map(|chunk| chunk.iter().map(|w| Fp::from_word(*w)).collect())
            .collect();
        let row: Vec<Fp> = row.into_iter().map(Fp::from_word).collect();
        agrees(&x, &row, &small);
    }
}
