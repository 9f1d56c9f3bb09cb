use super::*;
use crate::extension::Ext;
use crate::field::Fp;
use crate::multilinear::{eq_table, powers};
use crate::test_random::Random;

#[test]
fn the_weight_of_a_power_is_multilinear() {
    let mut random = Random::new(1);
    let (point, x) = (random.exts(5), random.fp());
    let table = eq_table(Ext::ONE, &point);
    let direct: Ext = table
        .iter()
        .zip(powers(Fp::ONE, x, 32))
        .map(|(e, p)| *e * p)
        .sum();
    assert_eq!(power_at(Ext::ONE, &point, x), direct);
}
