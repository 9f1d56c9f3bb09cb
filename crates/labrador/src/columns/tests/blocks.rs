//! Provers that lie about images of blocks: about their length, and at a level after the first.

use super::*;

/// A prover whose digits exceed their bound, though they are the digits of the images. Only the verifier's check
/// of each group's projection prevents this.
#[test]
fn long_digits_of_each_group_are_rejected() {
    let sample = Sample::new("long digits", 20, DEGREE, 40_000);
    let relation = sample.relation();
    let statement = statement(&sample, &relation, 0);
    let system = System::on(&statement.bounds(), KERNELS.measured()).expect("short enough");
    let layout = layout::Layout::new(20, DEGREE, 40_000).expect("within limits");
    let images = layout.images();
    assert_eq!(images.groups.len(), 2);
    for group in 0..images.groups.len() {
        let ((first, _), base) = (images.span(group), images.groups[group].base);
        // In a single number, the lower digit takes what the upper one gives, three times the bound in total.
        let each = (3 * images.groups[group].digits_norm_sq / DEGREE as u128).isqrt();
        let moved = (each >> base) as i16 + 1;
        let mut liar = Liar {
            lie: |level: usize, step: Step<'_>| {
                if let (1, Step::Second(digits)) = (level, step) {
                    let upper = first + images.elements();
                    for k in 0..DEGREE {
                        digits[first].0[k] += moved << base;
                        digits[upper].0[k] -= moved;
                    }
                }
            },
            forces: 1,
        };
        let proof = system.prove_with(&statement, &sample.witness, &mut liar);
        let proof = proof.expect("a forced proof");
        let long = Reject::ProjectionLong { level: 1 };
        let verdict = system.verify(&statement, &proof);
        assert_eq!(verdict, Err(long.clone()), "group {group}");
        let weak = system.verify_weakly(&statement, &proof, long);
        assert_eq!(weak, Ok(()), "group {group}, weakly");
    }
}

/// The second level has blocks of its own, under the equations that all later levels share.
#[test]
fn defences_of_blocks_stop_their_attacks_at_the_second_level_too() {
    let sample = Sample::new("second level", 400, DEGREE, 40_000);
    let relation = sample.relation();
    let statement = statement(&sample, &relation, 1);
    let system = System::on(&statement.bounds(), KERNELS.measured()).expect("short enough");
    let layout = layout::Layout::new(400, DEGREE, 40_000).expect("within limits");
    let images = system.schedule().levels[1].images.as_ref();
    let images = images.expect("a block projection");
    let places = images.image_pieces() * images.rank;
    assert!(2 * images.elements() < places, "there is padding");
    let defences = [
        Defence::Images,
        Defence::Projections,
        Defence::Padding,
        Defence::First,
        Defence::Outer,
        Defence::Garbage,
        Defence::Inner,
        Defence::Sum,
    ];
    for attack in attacks() {
        if defences.contains(&attack.defence) {
            attack.is_stopped_alone(&system, &statement, &sample.witness, 2, &layout, images);
        }
    }
}
