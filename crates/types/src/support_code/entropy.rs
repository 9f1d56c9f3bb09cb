//! The lower bound of any code: the entropy of the symbols in their classes.

use super::classes::Class;
use super::planes::Sink;
use crate::Bitfield;

/// Sums N·H(m/N) over the classes, plus one bit per flag.
#[derive(Default)]
pub(super) struct EntropySink {
    pub(super) bits: f64,
}

impl Sink for EntropySink {
    fn flags(&mut self, flags: &Bitfield) {
        self.bits += flags.len() as f64;
    }

    fn class(&mut self, class: &Class) {
        let len = class.len() as f64;
        for count in [class.minority_count, class.len() - class.minority_count] {
            if count > 0 {
                let count = count as f64;
                self.bits += count * (len / count).log2();
            }
        }
    }
}
