//! Blocks, parts and images, by their definitions.

use super::*;
use crate::kernel::KERNELS;
use crate::transcript::Seed;

/// The parts contain whole pieces, none twice and none missing, and are no more than requested.
#[test]
fn parts_have_all_pieces() {
    let of = |pieces, count_max| {
        let parts = Parts::of(pieces, count_max);
        (parts.pieces, parts.count)
    };
    let found = [(1, 2), (5, 2), (4, 3), (3, 20), (3, 0)].map(|(p, max)| of(p, max));
    assert_eq!(found, [(1, 1), (3, 2), (2, 2), (1, 3), (3, 1)]);
}

/// Compares with all possible numbers of blocks.
#[test]
fn blocks_have_the_length_with_the_fewest_columns() {
    for (rank, pieces) in [
        (5000usize, 50),
        (1250, 14),
        (625, 8),
        (77, 3),
        (2, 40),
        (1, 1),
    ] {
        let columns = |block: usize| block + 8 * pieces * rank.div_ceil(block);
        let best = best_block(rank, pieces);
        assert!(
            (1..=rank).all(|block| columns(best) <= columns(block)),
            "{rank} {pieces}"
        );
    }
}
/// Pieces of an honest witness whose norm is the bound itself, and their images.
struct World {
    images: Images,
    s: Vec<Small>,
}

impl World {
    fn new(pieces: usize, rank: usize, size: i64) -> Self {
        let mut stream = Seed::of_name("images").stream();
        let s: Vec<Small> = (0..pieces * rank)
            .map(|_| {
                let wide = stream.element().centred();
                Small(std::array::from_fn(|i| (wide[i] % size) as i16))
            })
            .collect();
        let images = Images::new(rank, &[(pieces, norm_sq(&s))]);
        Self { images, s }
    }

    /// Returns the witness with the digits of its images under a matrix.
    fn under(&self, matrix: &Projection, exec: Exec<'_>) -> Vec<Small> {
        let Self { images, s } = self;
        let blocks = matrix.project_blocks(s, images.rank, images.block, exec);
        let blocks = blocks.expect("never stopped");
        let mut s = s.clone();
        let all = images.pieces() + images.image_pieces();
        s.resize(all * images.rank, Small::ZERO);
        let written = images.write_digits(&blocks, &mut s);
        written.expect("digits of 16 bits");
        s
    }
}

/// The numbers of the argument: with others the argument would differ, and all bounds would move with them.
#[test]
fn an_image_is_accepted_up_to_160_times_and_shows_a_28th() {
    let group = Group {
        pieces: 1,
        norm_sq: 1,
        base: 3,
        digits_norm_sq: 28_000,
    };
    assert_eq!(group.extracted_digits_norm_sq(), 160_001);
    assert_eq!(group.extracted_norm_sq(), 160_001 * 65 / 28 + 1);
    assert_eq!(IMAGE_FACTOR, 160);
}

/// An honest prover needs few nonces even though the norm of its witness equals the bound, and the verifier may
/// rely on little more than if the images themselves had been projected.
#[test]
fn honest_digits_are_as_short_as_the_bound_and_images_little_longer() {
    let exec = Exec::new(KERNELS.measured(), None);
    for (pieces, rank, size) in [(1, 1, 2), (2, 30, 200), (7, 300, 40), (3, 2100, 6000)] {
        let world = World::new(pieces, rank, size);
        let images = &world.images;
        let norm = images.groups[0].norm_sq;
        let extracted = images.extracted_norm_sq(0);
        let least = norm * IMAGE_FACTOR * IMAGE_FACTOR / (LEMMA_FACTOR * LEMMA_FACTOR);
        assert!(extracted > least, "{pieces} {rank}: {extracted} of {norm}");
        if size > 2 {
            assert!(
                4 * extracted < 5 * least,
                "{pieces} {rank}: {extracted} of {norm}"
            );
            assert!(images.added_norm_sq() < norm / 4, "{pieces} {rank}");
        }
        let (mut short, mut shown) = (0, 0);
        for nonce in 0..16 {
            let matrix = |what: &str| Projection::new(Seed::of_name(&format!("{what} {nonce}")));
            let s = world.under(&matrix("blocks"), exec);
            short += u32::from(images.are_short(&s));
            let p = images.project(0, &matrix("digits"), &s, exec);
            let p = crate::projection::image_norm_sq(&p.expect("never stopped"));
            shown += u32::from(p <= IMAGE_FACTOR * images.groups[0].digits_norm_sq);
        }
        assert!(
            short >= 14 && shown >= 14,
            "{pieces} {rank}: {short} and {shown} of 16"
        );
    }
}

/// A prover that commits to images that are too long has digits whose projection is too long, whichever
/// digits it puts the excess into.
#[test]
fn digits_of_long_images_have_long_projections() {
    let exec = Exec::new(KERNELS.measured(), None);
    let world = World::new(4, 300, 40);
    let images = &world.images;
    let honest = world.under(&Projection::new(Seed::of_name("blocks")), exec);
    let [low, high] = images.digits(0, &honest).map(<[Small]>::len);
    // What 28 instead of 160 leaves, plus a little.
    let factor = (images.groups[0].extracted_digits_norm_sq() * 9 / 8).isqrt();
    for digit in [0, low] {
        let mut s = honest.clone();
        let start = images.start();
        s[start..start + low + high].fill(Small::ZERO);
        let each = (factor / ((low * DEGREE) as u128).isqrt() + 1) as i16;
        s[start + digit..][..low].fill(Small([each; DEGREE]));
        for nonce in 0..8 {
            let matrix = Projection::new(Seed::of_name(&format!("digits {nonce}")));
            let p = images.project(0, &matrix, &s, exec).expect("never stopped");
            let p = crate::projection::image_norm_sq(&p);
            assert!(
                p > IMAGE_FACTOR * images.groups[0].digits_norm_sq,
                "{digit} {nonce}"
            );
        }
    }
}
