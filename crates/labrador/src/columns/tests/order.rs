//! The order in which both sides absorb and draw.

use super::*;
use crate::projection::LIFTS;
use crate::schedule::Schedule;

/// The sequence of absorbed and drawn values by the specification, level by level.
struct Expected(Vec<String>);

impl Expected {
    fn absorb(&mut self, label: &str) {
        self.0.push(format!("absorb {label}"));
    }

    fn draw(&mut self, label: &str) {
        self.0.push(format!("draw {label}"));
    }

    /// A matrix is drawn from the state before its nonce, by a verifier that has read the nonce.
    fn matrix(&mut self, label: &str) {
        self.absorb(&format!("{label} nonce"));
        self.draw(label);
    }

    /// The data that shows that a witness is short: one image per group, or a single one.
    fn shown(&mut self, groups: usize) {
        for _ in 0..groups {
            self.matrix("projection");
            self.absorb("projection");
        }
    }

    /// The commitments of a level, and the data that shows that its witness is short.
    fn commitments(&mut self, images: Option<&Images>) {
        if images.is_some() {
            self.absorb("u0");
            self.matrix("blocks");
        }
        self.absorb("u1");
        self.shown(images.map_or(1, |images| images.groups.len()));
    }

    fn sumcheck(&mut self, rounds: usize) {
        self.draw("sumcheck");
        for _ in 0..rounds {
            self.absorb("round");
            self.draw("round");
        }
        self.absorb("value");
    }

    /// The first level has an equation of the opened value.
    fn lifts(&mut self, has_blocks: bool, is_first: bool) {
        self.draw("lift projection");
        let shown = if has_blocks {
            "lift blocks"
        } else {
            "lift parts"
        };
        for (label, is_drawn) in [(shown, true), ("lift equations", is_first)] {
            if is_drawn {
                (0..LIFTS).for_each(|_| self.draw(label));
            }
        }
        self.absorb("lifts");
        self.draw("weights");
    }

    fn challenges(&mut self, pieces: usize) {
        self.absorb("u2");
        self.absorb("challenge nonce");
        (0..pieces).for_each(|_| self.draw("challenge"));
    }

    /// The garbage of each step before its challenge.
    fn tail(&mut self, pieces: usize) {
        self.absorb("t");
        self.shown(1);
        self.lifts(false, false);
        self.absorb("challenge nonce");
        for _ in 0..pieces {
            self.absorb("h");
            self.draw("challenge");
        }
        self.absorb("z");
    }

    fn of(schedule: &Schedule, rounds: usize) -> Vec<String> {
        let mut out = Self(Vec::new());
        for label in [
            "alphorn/labrador/v1",
            "header",
            "schedule",
            "statement",
            "context",
        ] {
            out.absorb(label);
        }
        for (index, level) in schedule.levels.iter().enumerate() {
            out.commitments(level.images.as_ref());
            if index == 0 {
                out.sumcheck(rounds);
            }
            out.lifts(level.images.is_some(), index == 0);
            out.challenges(level.cut.pieces);
        }
        out.tail(schedule.tail.cut.pieces);
        out.0
    }
}

/// The verifier absorbs and draws what the specification says, in its order and from the state after the last
/// message: no challenge precedes the message that it depends on. The prover goes through the same states.
#[test]
fn both_sides_absorb_and_draw_the_same_in_the_same_order() {
    let sample = Sample::new("order", 400, DEGREE, 40_000);
    let relation = sample.relation();
    let statement = statement(&sample, &relation, 1);
    let system = System::on(&statement.bounds(), KERNELS.measured()).expect("short enough");
    let (proof, proved) = system.prove_and_log(&statement, &sample.witness);
    let (verdict, verified) = system.verify_and_log(&statement, &proof.expect("a true statement"));
    assert_eq!(verdict, Ok(()));
    let levels = &system.schedule().levels;
    let blocks: Vec<bool> = levels.iter().map(|level| level.images.is_some()).collect();
    assert!(blocks[1] && blocks.contains(&false), "levels of both kinds");
    // Six rounds for a coefficient, two for four rows and nine for 400 columns.
    let expected = Expected::of(system.schedule(), 6 + 2 + 9);
    let labels = verified.iter().map(|(label, _)| label);
    for (step, (found, expected)) in labels.zip(&expected).enumerate() {
        assert_eq!(found, expected, "step {step}");
    }
    assert_eq!(verified.len(), expected.len());
    let mut states = Vec::new();
    for (label, state) in &verified {
        if label.starts_with("absorb") {
            states.push(state);
            continue;
        }
        let before_nonce = usize::from(["draw blocks", "draw projection"].contains(&&label[..]));
        assert_eq!(*state, *states[states.len() - 1 - before_nonce], "{label}");
    }
    // A prover that tries several nonces absorbs and draws more.
    let is_absorbed = |step: &&(String, _)| step.0.starts_with("absorb");
    let mut rest = proved.iter().filter(is_absorbed);
    for step in verified.iter().filter(is_absorbed) {
        assert!(rest.any(|known| known == step), "{}", step.0);
    }
    for step in &verified {
        assert!(proved.contains(step), "{}", step.0);
    }
}
