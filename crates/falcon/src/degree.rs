//! What the degree of the ring decides: types and functions have it as a constant `N`.

/// Degree of the ring of Falcon-512, the default of all types.
pub const DEGREE: usize = 512;

/// The degrees of Falcon: an item of any other one does not compile.
pub const DEGREES: [usize; 2] = [DEGREE, 1024];

/// The largest of them.
pub(crate) const DEGREE_MAX: usize = DEGREES[1];

/// The numbers of Falcon in a ring of one degree (Falcon specification, table 3.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// `log2` of the degree.
    pub(crate) degree_log2: u8,
    /// The bound of `||s1||^2 + ||s2||^2`.
    pub norm_sq_max: u64,
    /// Bytes of a public key: a header, coefficients of 14 bits.
    pub public_key_bytes: usize,
    /// Bytes of a signature that has a salt: a header, the salt, `s2` in a compressed code, zeros to this length.
    pub signature_bytes: usize,
    /// Bits of a coefficient of the short vectors `f` and `g` of a secret key.
    pub(crate) short_bits: usize,
}

impl Parameters {
    /// Those of a degree.
    ///
    /// # Panics
    /// If the degree is neither 512 nor 1024; in a constant, when it is compiled.
    #[must_use]
    pub const fn of(degree: usize) -> Self {
        match degree {
            512 => Self {
                degree_log2: 9,
                norm_sq_max: 34_034_726,
                public_key_bytes: 897,
                signature_bytes: 666,
                short_bits: 6,
            },
            1024 => Self {
                degree_log2: 10,
                norm_sq_max: 70_265_242,
                public_key_bytes: 1793,
                signature_bytes: 1280,
                short_bits: 5,
            },
            _ => panic!("Falcon has degree 512 or 1024"),
        }
    }

    /// The first byte of a public key.
    pub(crate) const fn key_header(self) -> u8 {
        self.degree_log2
    }

    /// The first byte of a signature: its code is compressed.
    pub(crate) const fn signature_header(self) -> u8 {
        0x30 + self.degree_log2
    }

    /// The first byte of a secret key.
    pub(crate) const fn secret_header(self) -> u8 {
        0x50 + self.degree_log2
    }
}

/// What is hashed behind a seed of a key, so that no seed makes keys of two degrees from one stream: nothing for
/// degree 512, which was alone once.
pub(crate) const fn seed_suffix(degree: usize) -> &'static [u8] {
    match degree {
        DEGREE => b"",
        _ => b"/1024",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fn_dsa::{sign_key_size, signature_size, vrfy_key_size};

    #[test]
    fn sizes_are_those_of_the_library() {
        for degree in DEGREES {
            let parameters = Parameters::of(degree);
            let log2 = u32::from(parameters.degree_log2);
            assert_eq!(1 << log2, degree);
            assert_eq!(parameters.public_key_bytes, vrfy_key_size(log2));
            assert_eq!(parameters.signature_bytes, signature_size(log2));
            let basis = 1 + 2 * degree * parameters.short_bits / 8 + degree;
            assert_eq!(basis + 64, sign_key_size(log2), "a digest behind it");
        }
    }

    #[test]
    #[should_panic(expected = "degree 512 or 1024")]
    fn other_degrees_are_refused() {
        let _ = Parameters::of(256);
    }
}
