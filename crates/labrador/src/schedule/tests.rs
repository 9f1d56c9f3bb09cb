use super::*;
use crate::Columns;
use crate::images::Images;
use crate::sis::Profile;
use crate::tests::projections;

/// Bounds of columns of polynomials of any degree and norm.
fn bounds(columns: usize, degree: usize, norm_sq: u64, block_levels: usize) -> PublicBounds {
    let bounds = Columns::bounds_for(
        columns,
        degree,
        norm_sq,
        Profile::Core128,
        projections(block_levels),
    );
    bounds.expect("within limits")
}

/// Ratio of what a projection guarantees of a dense witness to the bound that is shown.
const DENSE: f64 = 128.0 / 30.0;

/// The same for a witness that the next level puts under blocks.
const BLOCKS: f64 = 38.0;

/// Returns the bound on each group's digits, restated, and what is guaranteed for the pieces and for everything
/// together.
fn check_images(images: &Images) -> (u128, Vec<f64>, f64) {
    let (mut digits, mut pieces, mut all) = (0, Vec::new(), 0.0);
    for group in &images.groups {
        let power = 4u128.pow(group.base);
        let numbers = 256 * group.pieces * images.rank.div_ceil(images.block());
        let bound = 160 * group.norm_sq / power + numbers as u128 * (power / 10 + 1);
        assert_eq!(group.digits_norm_sq, bound, "{images:?}");
        let of_digits = 160.0 / 28.0 * bound as f64;
        let of_images = (1.0 + power as f64) * of_digits;
        assert!(of_images.sqrt() <= crate::ring::Q as f64 / 125.0);
        digits += bound;
        pieces.push(of_images / 28.0);
        all += of_images / 28.0 + of_digits;
    }
    (digits, pieces, all)
}

/// Checks every number of a level, restated from the specification and not from the search.
fn check_conditions(schedule: &Schedule, bounds: &PublicBounds) {
    let mut out = bounds.norm_sq;
    for (index, level) in schedule.levels.iter().enumerate() {
        let mut s = DENSE * level.norm_sq as f64;
        let mut digits = 0;
        if let Some(images) = &level.images {
            let pieces;
            (digits, pieces, s) = check_images(images);
            if index > 0 {
                assert_eq!(images.groups[0].norm_sq, out, "{level:?}");
                assert!(pieces[0] <= BLOCKS * out as f64, "{level:?}");
            }
        }
        // The bounds of a statement already include the digits of its images.
        let shown = if index > 0 { out + digits } else { out };
        assert_eq!(level.norm_sq, shown, "{level:?}");
        out = level.norm_sq_out;
        let next = schedule.levels.get(index + 1);
        let has_blocks = next.is_some_and(|level| level.images.is_some());
        let slack = if has_blocks { BLOCKS } else { DENSE };
        let of_out = slack * out as f64;
        let z = (of_out * (1.0 + 4f64.powi(level.z_base as i32))).sqrt();
        let inner = (128.0 * z).max(2.0 * z + 64.0 * s.sqrt());
        assert!(binds(schedule.profile, level.kappa, inner), "{level:?}");
        let outer = 2.0 * of_out.sqrt();
        assert!(
            binds(schedule.profile, level.kappa_outer, outer),
            "{level:?}"
        );
        assert!(2.0 * DENSE * (out as f64) < crate::ring::Q as f64);
        assert!(level.t_digits as u32 * level.t_base >= 48);
        assert!(48 - (level.t_digits as u32 - 1) * level.t_base <= 15);
    }
    let tail = &schedule.tail;
    assert_eq!(tail.norm_sq, out);
    let (z, s) = (
        (tail.norm_sq_out as f64).sqrt(),
        (DENSE * out as f64).sqrt(),
    );
    assert!(binds(
        schedule.profile,
        tail.kappa,
        (128.0 * z).max(2.0 * z + 64.0 * s)
    ));
}

fn binds(profile: Profile, rows: usize, norm: f64) -> bool {
    profile
        .rows_for((norm * norm * 0.999_999) as u128)
        .is_some_and(|least| least <= rows)
}

#[test]
fn every_row_of_many_schedules_meets_its_conditions() {
    for (columns, degree) in [
        (1, 64),
        (20, 1024),
        (300, 64),
        (900, 128),
        (8000, 256),
        (20_480, 64),
    ] {
        for log in [0, 10, 19, 28] {
            let bounds = bounds(columns, degree, 1 << log, log % 2);
            let schedule = Schedule::derive(&bounds).expect("short enough");
            check_conditions(&schedule, &bounds);
            assert_eq!(schedule, Schedule::derive(&bounds).expect("the same again"));
        }
    }
}

/// The same for the schedules of Falcon-512, with blocks in up to two levels after the first, more than the presets
/// use for few columns.
#[test]
fn every_row_of_the_schedules_of_columns_meets_its_conditions() {
    let edges = [31, 32, 149, 150, 299, 300, 511, 512, 849, 850, 999, 1000];
    let many = (1..200).step_by(9).chain((200..20_000).step_by(601));
    for columns in many.chain(edges).chain([6143, 6144, 20_000]) {
        for profile in Profile::ALL {
            for blocks in 0..=2 {
                let bounds =
                    Columns::bounds_for(columns, 512, 34_034_726, profile, projections(blocks));
                let bounds = bounds.expect("within limits");
                let schedule = Schedule::derive(&bounds).expect("short enough");
                let with_images = schedule.levels.iter().filter(|l| l.images.is_some());
                assert_eq!(with_images.count(), 1 + blocks, "{columns}");
                check_conditions(&schedule, &bounds);
            }
        }
    }
}

#[test]
fn cuts_hold_the_whole_output() {
    let schedule = Schedule::derive(&bounds(10_000, 512, 1 << 25, 0)).expect("short enough");
    assert!(schedule.levels.len() >= 3, "{}", schedule.levels.len());
    let cuts = schedule.levels[1..].iter().map(|l| l.cut);
    for (before, cut) in schedule.levels.iter().zip(cuts.chain([schedule.tail.cut])) {
        assert!(cut.z_pieces * cut.rank >= before.cut.rank);
        assert!((cut.pieces - 2 * cut.z_pieces) * cut.rank >= before.digits());
    }
}

/// Exceeds what columns can have.
#[test]
fn statements_beyond_the_limits_are_refused_by_name() {
    let legal = bounds(2, 64, 9, 0);
    let refuse = |pieces, rank| {
        let bounds = PublicBounds {
            pieces,
            rank,
            ..legal.clone()
        };
        Schedule::derive(&bounds).err()
    };
    assert_eq!(refuse(0, 4), Some(ParamError::Pieces { pieces: 0 }));
    let pieces = PIECES_MAX + 1;
    assert_eq!(refuse(pieces, 4), Some(ParamError::Pieces { pieces }));
    assert_eq!(refuse(2, 0), Some(ParamError::Elements { elements: 0 }));
    let elements = 2 * ELEMENTS_MAX;
    assert_eq!(
        refuse(2, ELEMENTS_MAX),
        Some(ParamError::Elements { elements })
    );
    let norm_sq = 1 << 86;
    let long = PublicBounds {
        norm_sq,
        images: Images::new(4, &[(2, norm_sq)]),
        ..legal
    };
    assert_eq!(
        Schedule::derive(&long).err(),
        Some(ParamError::Norm { norm_sq })
    );
}

#[test]
fn the_weaker_profile_is_smaller() {
    let strong = bounds(2000, 512, 1 << 25, 0);
    let weak = PublicBounds {
        profile: Profile::Falcon,
        ..strong.clone()
    };
    let strong = Schedule::derive(&strong).expect("short enough");
    let weak = Schedule::derive(&weak).expect("short enough");
    assert!(weak.bytes < strong.bytes);
    assert_ne!(weak.encode(), strong.encode());
}
