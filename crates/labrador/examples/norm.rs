//! Proves that a secret vector has exactly a claimed norm: `cargo run --release -p alphorn-labrador --example
//! norm -- 64` for a vector of 64 ring elements.

use alphorn_labrador::ring::{Rq, Small, norm_sq};
use alphorn_labrador::sis::Profile;
use alphorn_labrador::{Equation, Kind, QuadraticTerm, Statement, System};
use std::error::Error;

/// The statement: two vectors of `rank` elements, of which the second is the conjugate of the first, and the
/// constant coefficient of their inner product. `bound` is of both norms together, and decides the parameters.
fn statement(rank: usize, bound: u128, claimed: u128) -> Result<Statement, Box<dyn Error>> {
    let product = QuadraticTerm {
        i: 0,
        j: 1,
        coefficient: Rq::constant(1),
    };
    let norm = Equation {
        kind: Kind::Constant,
        quadratic: vec![product],
        linear: vec![],
        target: Rq::constant(i64::try_from(claimed)?),
    };
    // Without these the product would be that of any two vectors, and say nothing of either's norm.
    let equations = Equation::conjugates(0, 1, rank).chain([norm]).collect();
    Ok(Statement::new(2, rank, bound, Profile::Core128, equations)?)
}

fn main() -> Result<(), Box<dyn Error>> {
    let rank: usize = std::env::args()
        .nth(1)
        .map_or(Ok(64), |text| text.parse())?;
    let element = |e: usize| {
        Small(std::array::from_fn(|k| {
            ((e * 31 + k * 7) % 101) as i16 - 50
        }))
    };
    let vector: Vec<Small> = (0..rank).map(element).collect();
    // The norm is the constant coefficient of a vector's product with its conjugate.
    let conjugate: Option<Vec<Small>> = vector.iter().map(Small::sigma).collect();
    let conjugate = conjugate.ok_or("no coefficient is the least integer")?;
    let claimed = norm_sq(&vector);
    let witness = [vector, conjugate].concat();

    let statement = |norm_sq| statement(rank, 2 * claimed, norm_sq);
    let truth = statement(claimed)?;
    let system = System::new(&truth.bounds())?;
    let proof = system.prove(&truth, &witness[..])?;
    system.verify(&truth, &proof)?;
    println!("norm² = {claimed}: proven in {} bytes", proof.len());
    match system.verify(&statement(claimed - 1)?, &proof) {
        Ok(()) => Err("a false norm was accepted".into()),
        Err(reject) => {
            println!("norm² = {}: {reject}", claimed - 1);
            Ok(())
        }
    }
}
