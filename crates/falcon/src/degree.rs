//! Everything that depends on the degree of the ring. Types and functions take the degree as a constant `N`.

/// Degree of the ring of Falcon-512, the default of all types.
pub const DEGREE: usize = 512;

/// The degrees of Falcon. Items of any other degree do not compile.
pub const DEGREES: [usize; 2] = [DEGREE, 1024];

/// The largest degree.
pub(crate) const DEGREE_MAX: usize = DEGREES[1];

/// The parameters of Falcon in a ring of one degree (Falcon specification, table 3.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// `log2` of the degree.
    pub(crate) degree_log2: u8,
    /// Bound on `||s1||^2 + ||s2||^2`.
    pub norm_sq_max: u64,
    /// Bytes of a public key: a header and 14-bit coefficients.
    pub public_key_bytes: usize,
    /// Bytes of a salted signature: a header, the salt, `s2` in a compressed code, padded with zeros.
    pub signature_bytes: usize,
    /// Bits per coefficient of the short vectors `f` and `g` of a secret key.
    pub(crate) short_bits: usize,
}

impl Parameters {
    /// Returns the parameters of a degree.
    ///
    /// # Panics
    /// If the degree is neither 512 nor 1024; in a constant, at compile time.
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

    /// Returns the first byte of a public key.
    pub(crate) const fn key_header(self) -> u8 {
        self.degree_log2
    }

    /// Returns the first byte of a signature, which marks a compressed code.
    pub(crate) const fn signature_header(self) -> u8 {
        0x30 + self.degree_log2
    }

    /// Returns the first byte of a secret key.
    pub(crate) const fn secret_header(self) -> u8 {
        0x50 + self.degree_log2
    }
}

/// Suffix that is hashed after the seed of a key, so that no seed generates keys of two degrees from one stream.
/// Empty for degree 512, which was once the only one.
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
