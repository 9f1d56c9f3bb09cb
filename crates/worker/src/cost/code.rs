//! Bytes of a learned model, to be kept with the choice of kernels and read at the next start.

use super::{CostKey, CostModel, Factor, KEYS_MAX, SIGMA_MIN};
use alphorn_types::{DecodeError, Reader, Writer};

/// Version of the bytes.
const VERSION: u16 = 1;

/// Greatest |μ|: samples move it toward logarithms of ratios of two `u64`, below 64 ln 2.
const MEAN_MAX: f64 = 45.0;

/// Greatest variance: samples move it by at most (ln 2)^2 each.
const VARIANCE_MAX: f64 = 1.0;

impl CostModel {
    /// The bytes, little-endian: version u16, count u16, then for each key, ascending, kind u16,
    /// class u8, threads u16, busy lanes u16, mean and variance as f64, streak i8, slot u64.
    pub fn encode(&self) -> Vec<u8> {
        let mut w = Writer::with_capacity(4 + 32 * self.factors.len());
        w.u16(VERSION);
        w.u16(self.factors.len() as u16);
        for (key, factor) in &self.factors {
            w.u16(key.kind);
            w.u8(key.class);
            w.u16(key.threads);
            w.u16(key.lanes_busy);
            w.u64(factor.mean.to_bits());
            w.u64(factor.variance.to_bits());
            w.u8(factor.streak.to_le_bytes()[0]);
            w.u64(factor.slot);
        }
        w.into_vec()
    }

    /// The inverse of [`CostModel::encode`].
    ///
    /// # Errors
    ///
    /// [`DecodeError`] for anything that `encode` does not make: another version, too many keys,
    /// keys out of order, numbers that no samples lead to.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut r = Reader::new(bytes);
        let version = r.u16()?;
        if version != VERSION {
            return Err(DecodeError::UnknownTag {
                what: "version of a cost model",
                value: u64::from(version),
            });
        }
        let count = r.u16()?;
        let out_of_range = |what, value, max| DecodeError::OutOfRange { what, value, max };
        if usize::from(count) > KEYS_MAX {
            let max = KEYS_MAX as u64;
            return Err(out_of_range("keys of a cost model", count.into(), max));
        }
        let mut model = Self::new();
        for place in 0..count {
            let key = CostKey {
                kind: r.u16()?,
                class: r.u8()?,
                threads: r.u16()?,
                lanes_busy: r.u16()?,
            };
            let last = model.factors.last_key_value().map(|(last, _)| *last);
            if last.is_some_and(|last| last >= key) {
                return Err(out_of_range("place of a key", place.into(), 0));
            }
            let mean = within(&mut r, "mean", -MEAN_MAX, MEAN_MAX)?;
            let variance = within(&mut r, "variance", SIGMA_MIN * SIGMA_MIN, VARIANCE_MAX)?;
            let factor = Factor {
                mean,
                variance,
                streak: i8::from_le_bytes([r.u8()?]),
                slot: r.u64()?,
            };
            model.factors.insert(key, factor);
        }
        r.finish()?;
        Ok(model)
    }
}

/// A number between bounds; not a number is not.
fn within(r: &mut Reader<'_>, what: &'static str, min: f64, max: f64) -> Result<f64, DecodeError> {
    let bits = r.u64()?;
    let value = f64::from_bits(bits);
    match (min..=max).contains(&value) {
        true => Ok(value),
        false => Err(DecodeError::OutOfRange {
            what,
            value: bits,
            max: max.to_bits(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn learned() -> CostModel {
        let mut model = CostModel::new();
        for i in 0..40_u16 {
            let key = CostKey {
                kind: i % 5,
                class: 3,
                threads: 1,
                lanes_busy: i % 3,
            };
            model.learn(key, 1_000_000, 1_000_000 + 90_000 * u64::from(i), i.into());
        }
        model
    }

    #[test]
    fn a_model_comes_back_from_its_bytes() {
        let model = learned();
        let bytes = model.encode();
        let back = CostModel::decode(&bytes).expect("what `encode` writes");
        assert_eq!(back.factors, model.factors);
        for cut in 0..bytes.len() {
            assert!(CostModel::decode(&bytes[..cut]).is_err(), "cut at {cut}");
        }
    }

    #[test]
    fn numbers_that_no_samples_lead_to_are_refused() {
        let bytes = learned().encode();
        for wrong in [f64::NAN, f64::INFINITY, 1e9, -1e9] {
            for at in [11, 19] {
                let mut bytes = bytes.clone();
                bytes[at..at + 8].copy_from_slice(&wrong.to_bits().to_le_bytes());
                assert!(CostModel::decode(&bytes).is_err(), "{wrong} at {at}");
            }
        }
        let mut twice = bytes.clone();
        twice.extend_from_within(4..36);
        twice[2] += 1;
        assert!(CostModel::decode(&twice).is_err());
        assert!(CostModel::decode(&[2, 0, 0, 0]).is_err());
    }
}
