//! Rules that a test removes from the verifier on its thread, to show what each of them is for.

use std::cell::Cell;

/// A rule of the opening.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    /// The opened rows of an oracle are claims on the remaining vector.
    Rows(usize),
    /// The value of an oracle at a random point is a claim on it.
    Sample(usize),
    /// Paths lead to the cap.
    Paths,
    /// Hashes with nonces end in zeros.
    Work,
}

thread_local! {
    static OUT: Cell<Option<Rule>> = const { Cell::new(None) };
}

/// Whether a rule has been removed.
pub(crate) fn is_out(rule: Rule) -> bool {
    OUT.get() == Some(rule)
}

/// Runs a function without a rule.
pub(crate) fn without<T>(rule: Rule, run: impl FnOnce() -> T) -> T {
    OUT.set(Some(rule));
    let result = run();
    OUT.set(None);
    result
}
