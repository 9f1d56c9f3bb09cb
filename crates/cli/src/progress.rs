//! Progress bars on a terminal, none in a pipe.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;

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
        let style = ProgressStyle::with_template("{msg:24} {bar:40} {pos:>9}/{len:9} {elapsed}");
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

    /// Removes the bar.
    pub(crate) fn clear(&self) {
        self.bar.finish_and_clear();
    }
}

impl alphorn_sim::Progress for Bars {
    fn phase(&mut self, name: &str, done: u64, total: u64) {
        self.show(name, done, total);
    }
}
