//! Reasons for refusing something, with their names and counts.

/// Defines names and indices of an enum of reasons, in variant order, and a counter for them.
#[macro_export]
macro_rules! reasons {
    ($vis:vis $reason:ident { $($variant:ident => $name:literal),+ $(,)? }) => {
        impl $reason {
            /// The names of all reasons, for counters.
            $vis const NAMES: [&'static str; [$($name),+].len()] = [$($name),+];

            /// The index of the reason in `NAMES`.
            $vis const fn index(self) -> usize {
                // A second enum, without fields, as variants with fields have no number.
                enum Index { $($variant),+ }
                match self { $(Self::$variant { .. } => Index::$variant as usize),+ }
            }

            /// The name of the reason, for counters and metric labels.
            $vis const fn name(self) -> &'static str {
                Self::NAMES[self.index()]
            }
        }
    };
    ($(#[$attribute:meta])* $vis:vis struct $counter:ident of $reason:ident) => {
        $(#[$attribute])*
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        $vis struct $counter([u32; $reason::NAMES.len()]);

        impl $counter {
            /// Iterates over the name and count of every reason, in order.
            $vis fn reasons(&self) -> impl Iterator<Item = (&'static str, u32)> {
                $reason::NAMES.into_iter().zip(self.0)
            }

            #[inline]
            pub(super) fn add(&mut self, reason: $reason) {
                let count = &mut self.0[reason.index()];
                *count = count.saturating_add(1);
            }
        }
    };
}
