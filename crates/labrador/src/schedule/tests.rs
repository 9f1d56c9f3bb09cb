use super::*;

fn bounds(pieces: usize, rank: usize, norm_sq: u128) -> PublicBounds {
    PublicBounds {
        pieces,
        rank,
        norm_sq,
        images: None,
        families: 0,
        front_bytes: 0,
        block_levels: 0,
        quadratic: true,
        profile: Profile::Core128,
    }
}

/// Every number of a level restated from the specification, not from the search.
fn check_conditions(schedule: &Schedule, bounds: &PublicBounds) {
    let mut norm_sq = bounds.norm_sq as f64;
    let slack = 128.0 / 30.0;
    for level in &schedule.levels {
        assert_eq!(level.norm_sq as f64, norm_sq);
        let out = level.norm_sq_out as f64;
        let z = (slack * out * (1.0 + 4f64.powi(level.z_base as i32))).sqrt();
        let s = (slack * norm_sq).sqrt();
        let inner = (128.0 * z).max(2.0 * z + 64.0 * s);
        assert!(binds(schedule.profile, level.kappa, inner), "{level:?}");
        assert!(binds(
            schedule.profile,
            level.kappa_outer,
            2.0 * (slack * out).sqrt()
        ));
        assert!((slack * out).sqrt() < crate::ring::Q as f64 / 125.0);
        assert!(level.t_digits as u32 * level.t_base >= 48);
        assert!(48 - (level.t_digits as u32 - 1) * level.t_base <= 15);
        // The top digit of garbage fits 16 bits for every witness within the norm.
        let top = level.g_base * (level.g_digits as u32 - 1) + 15;
        assert!(2f64.powi(top as i32) > norm_sq, "{level:?}");
        norm_sq = out;
    }
    let tail = &schedule.tail;
    assert_eq!(tail.norm_sq as f64, norm_sq);
    let (z, s) = ((tail.norm_sq_out as f64).sqrt(), (slack * norm_sq).sqrt());
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
    for (pieces, rank) in [(1, 1), (1, 16), (3, 17), (8, 64), (38, 300), (38, 10_000)] {
        for log in [4, 12, 20, 30, 39] {
            let bounds = bounds(pieces, rank, 1 << log);
            let schedule = Schedule::derive(&bounds).expect("short enough");
            check_conditions(&schedule, &bounds);
            assert_eq!(schedule, Schedule::derive(&bounds).expect("the same again"));
        }
    }
}

#[test]
fn cuts_hold_the_whole_output() {
    let schedule = Schedule::derive(&bounds(38, 10_000, 1 << 38)).expect("short enough");
    assert!(schedule.levels.len() >= 3, "{}", schedule.levels.len());
    let cuts = schedule.levels[1..].iter().map(|l| l.cut);
    for (before, cut) in schedule.levels.iter().zip(cuts.chain([schedule.tail.cut])) {
        assert!(cut.z_pieces * cut.rank >= before.cut.rank);
        assert!((cut.pieces - 2 * cut.z_pieces) * cut.rank >= before.digits());
    }
}

#[test]
fn statements_beyond_the_limits_are_refused_by_name() {
    let refuse = |pieces, rank, norm_sq| Schedule::derive(&bounds(pieces, rank, norm_sq)).err();
    assert_eq!(refuse(0, 4, 9), Some(ParamError::Pieces { pieces: 0 }));
    let pieces = PIECES_MAX + 1;
    assert_eq!(refuse(pieces, 4, 9), Some(ParamError::Pieces { pieces }));
    assert_eq!(refuse(2, 0, 9), Some(ParamError::Elements { elements: 0 }));
    let elements = 2 * ELEMENTS_MAX;
    assert_eq!(
        refuse(2, ELEMENTS_MAX, 9),
        Some(ParamError::Elements { elements })
    );
    for norm_sq in [1 << 46, u128::MAX] {
        assert_eq!(refuse(2, 4, norm_sq), Some(ParamError::Norm { norm_sq }));
    }
}

#[test]
fn the_weaker_profile_is_smaller() {
    let strong = bounds(38, 2000, 1 << 36);
    let weak = PublicBounds {
        profile: Profile::Falcon,
        ..strong.clone()
    };
    let strong = Schedule::derive(&strong).expect("short enough");
    let weak = Schedule::derive(&weak).expect("short enough");
    assert!(weak.bytes < strong.bytes);
    assert_ne!(weak.encode(), strong.encode());
}
