//! Multiplicities as unary planes, and the classes of each plane: shared by all context codings.
//!
//! Plane u_j holds \[m >= j\] at the positions of u_(j-1); u_0 is all positions. The traversal of
//! the planes is written once for encoders ([`write`]) and once for decoders ([`read`]). The coding
//! determines how a class is converted to bits.

use super::SupportCode;
use super::classes::Class;
use crate::{Bitfield, DecodeError, Support};

/// Receives the parts of a support in coding order.
pub(super) trait Sink {
    /// Bits without a model, one per cell.
    fn flags(&mut self, flags: &Bitfield);
    /// The symbols of a non-empty class.
    fn class(&mut self, class: &Class);
    /// True once the parts so far are so long that the rest does not matter.
    fn is_full(&self) -> bool {
        false
    }
}

/// Delivers the parts in the same order.
pub(super) trait Source {
    /// `len` bits without a model.
    fn flags(&mut self, len: usize) -> Result<Bitfield, DecodeError>;
    /// The symbols of a class of `len` > 0 positions.
    fn class(&mut self, len: usize) -> Result<Class, DecodeError>;
}

/// Number of unary planes that `planes_count` binary planes can need.
fn unary_max(planes_count: usize) -> u8 {
    (1 << planes_count) - 1
}

/// Passes the planes of `support` to `sink`.
pub(super) fn write(support: &Support, code: &SupportCode<'_>, sink: &mut impl Sink) {
    let mut below = support.signers();
    for mask in code.reference.masks(support.len()) {
        if mask.any() {
            sink.class(&Class::gather(&below, &mask));
        }
    }
    for j in 2..=unary_max(support.planes_count()) {
        if below.none() || sink.is_full() {
            break;
        }
        let plane = support.at_least(j);
        let majorities = code.majorities(&plane, &below);
        sink.flags(&majorities);
        let mut deviations = code.fill(&majorities);
        deviations.toggle(&plane);
        sink.class(&Class::gather(&deviations, &below));
        below = plane;
    }
}

/// Builds a support of `planes_count` binary planes from the parts of `source`.
pub(super) fn read(
    planes_count: usize,
    code: &SupportCode<'_>,
    source: &mut impl Source,
) -> Result<Support, DecodeError> {
    let n = code.len();
    let mut below = Bitfield::new(n);
    for mask in code.reference.masks(n) {
        let len = mask.count_ones();
        if len > 0 {
            source.class(len)?.scatter(&mask, &mut below);
        }
    }
    let mut planes = vec![Bitfield::new(n); planes_count];
    increment(&mut planes, &below);
    for _ in 2..=unary_max(planes_count) {
        let len = below.count_ones();
        if len == 0 {
            break;
        }
        let majorities = source.flags(code.cells_count())?;
        let mut plane = Bitfield::new(n);
        source.class(len)?.scatter(&below, &mut plane);
        plane.toggle(&code.fill(&majorities));
        // Filling a cell also sets its positions outside of `below`.
        plane.intersect_with(&below);
        // Other flags would describe the same plane by other deviations.
        if code.majorities(&plane, &below) != majorities {
            return Err(DecodeError::NotCanonical {
                what: "majority bits of a support code",
            });
        }
        increment(&mut planes, &plane);
        below = plane;
    }
    // Fails if the top plane is empty: the support then has a code with fewer planes.
    Support::from_planes(planes).ok_or(DecodeError::NotCanonical {
        what: "number of planes of a support code",
    })
}

/// Adds 1 at the positions of `plane`; the caller adds at most 2^planes - 1 times.
fn increment(planes: &mut [Bitfield], plane: &Bitfield) {
    let mut carry = plane.clone();
    for out in planes {
        let mut both = out.clone();
        both.intersect_with(&carry);
        out.toggle(&carry);
        carry = both;
    }
}
