//! Progress bars on a terminal, none in a pipe.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::time::Duration;

/// One bar that shows the phase at work.
pub(crate) struct Bars {
    bar: ProgressBar,
    phase: String,
}

impl Bars {
    /// A bar on standard error if that is a terminal.
    pub(crate) fn new() -> Self {
        let bar = ProgressBar::new(0);
        if !std::io::stderr().is_terminal() {
            bar.set_draw_target(ProgressDrawTarget::hidden());
        }
        let style =
            ProgressStyle::with_template("{msg:24} {bar:40} {pos:>9}/{len:9} {elapsed}{prefix}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        Bars {
            bar,
            phase: String::new(),
        }
    }

    /// `done` of `total` units of a phase are finished.
    pub(crate) fn show(&mut self, phase: &str, done: u64, total: u64) {
        if self.phase != phase {
            phase.clone_into(&mut self.phase);
            self.bar.reset_elapsed();
            self.bar.set_message(phase.to_owned());
        }
        self.bar.set_length(total);
        self.bar.set_position(done);
    }

    /// The same for units that take about as long each: with the time that is left, if they go on so.
    pub(crate) fn show_left(&mut self, phase: &str, done: u64, total: u64) {
        self.show(phase, done, total);
        if let Some(left) = left(self.bar.elapsed(), done, total) {
            self.bar
                .set_prefix(format!(", about {} s left", left.as_secs()));
        }
    }

    /// Removes the bar.
    pub(crate) fn clear(&self) {
        self.bar.finish_and_clear();
    }
}

/// What the units that are left will take; none before the first is done.
fn left(elapsed: Duration, done: u64, total: u64) -> Option<Duration> {
    let each = elapsed.checked_div(u32::try_from(done).ok()?)?;
    each.checked_mul(u32::try_from(total.saturating_sub(done)).ok()?)
}

impl alphorn_sim::Progress for Bars {
    fn phase(&mut self, name: &str, done: u64, total: u64) {
        self.show(name, done, total);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_follows_what_was_done() {
        let seconds = |n| Some(Duration::from_secs(n));
        assert_eq!(left(Duration::from_secs(6), 0, 15), None);
        assert_eq!(left(Duration::from_secs(6), 3, 15), seconds(24));
        assert_eq!(left(Duration::from_secs(6), 15, 15), seconds(0));
        assert_eq!(left(Duration::from_secs(6), 16, 15), seconds(0));
    }
}
