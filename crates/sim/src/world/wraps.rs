//! The wrappers of a node, which see its inputs and outputs before others do.

use crate::fault::Wrap;
use crate::role::{Input, Output, Role};
use alphorn_types::Time;

/// The wrappers of a node's state machine, innermost first.
pub(super) type Wraps<R> = Vec<Box<dyn Wrap<R>>>;

/// Passes an input through the wrappers and returns what is left of it. Outputs of the wrappers themselves are
/// added to `own`.
#[inline]
pub(super) fn pass<R: Role>(
    wraps: &mut [Box<dyn Wrap<R>>],
    now: Time,
    input: Input<R>,
    own: &mut Vec<Output<R>>,
) -> Option<Input<R>> {
    let mut wraps = wraps.iter_mut();
    wraps.try_fold(input, |input, wrap| wrap.input(now, input, own))
}

/// Passes an output through the wrappers.
#[cold]
pub(super) fn through<R: Role>(
    wraps: &mut [Box<dyn Wrap<R>>],
    now: Time,
    output: Output<R>,
) -> Vec<Output<R>> {
    wraps.iter_mut().fold(vec![output], |before, wrap| {
        let mut after = Vec::new();
        for output in before {
            wrap.output(now, output, &mut after);
        }
        after
    })
}
