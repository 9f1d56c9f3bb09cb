//! Progress on standard error: a bar on a terminal, an occasional line elsewhere.

use crate::report::note;
use crate::text;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Time until the first line where there is no terminal: shorter phases are silent.
const FIRST_LINE: Duration = Duration::from_secs(1);
/// Time between two lines.
const NEXT_LINE: Duration = Duration::from_secs(10);

/// A bar that shows the current phase, or lines that report it.
pub struct Bars {
    bar: ProgressBar,
    phase: String,
    /// Absent on a terminal.
    lines: Option<Lines>,
}

impl Default for Bars {
    fn default() -> Self {
        Bars::new()
    }
}

impl Bars {
    /// Shows a bar if standard error is a terminal, and prints lines there otherwise.
    pub fn new() -> Self {
        let bar = ProgressBar::new(0);
        let mut lines = None;
        if !std::io::stderr().is_terminal() {
            bar.set_draw_target(ProgressDrawTarget::hidden());
            lines = Some(Lines::begin(note, FIRST_LINE, NEXT_LINE));
        }
        // Everything but the bar takes at most 62 columns; the bar gets the rest of an 80-column terminal.
        let style =
            ProgressStyle::with_template("{msg:20!} {wide_bar} {pos:>9}/{len:9} {elapsed}{prefix}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        Bars {
            bar,
            phase: String::new(),
            lines,
        }
    }

    /// Reports that `done` of `total` units of a phase are finished.
    pub fn show(&mut self, phase: &str, done: u64, total: u64) {
        if self.phase != phase {
            phase.clone_into(&mut self.phase);
            self.bar.reset_elapsed();
            self.bar.set_message(phase.to_owned());
        }
        self.bar.set_length(total);
        self.bar.set_position(done);
        if let Some(lines) = &self.lines {
            lines.set(format!(
                "{phase}: {} of {}",
                text::count(done),
                text::count(total)
            ));
        }
    }

    /// Like `show`, for units that take about equally long: also shows the estimated time left.
    pub(crate) fn show_left(&mut self, phase: &str, done: u64, total: u64) {
        self.show(phase, done, total);
        if let Some(left) = left(self.bar.elapsed(), done, total) {
            let left = format!(", {} s left", left.as_secs());
            if let Some(lines) = &self.lines {
                lines.append(&left);
            }
            self.bar.set_prefix(left);
        }
    }

    /// Removes the bar, and ends the lines.
    pub fn clear(&self) {
        self.bar.finish_and_clear();
        if let Some(lines) = &self.lines {
            lines.end();
        }
    }
}

/// Whoever has it may be what is waited for, as a run of a slot.
impl Drop for Bars {
    fn drop(&mut self) {
        self.clear();
    }
}

/// Lines printed from a separate thread, so that a phase that reports nothing for long still shows
/// signs of life.
struct Lines {
    shared: Arc<(Mutex<Told>, Condvar)>,
}

/// The next line to print.
#[derive(Default)]
struct Told {
    line: String,
    is_over: bool,
}

impl Lines {
    fn begin(print: impl Fn(&str) + Send + 'static, first: Duration, next: Duration) -> Self {
        let shared = Arc::new((Mutex::new(Told::default()), Condvar::new()));
        let (theirs, begin) = (shared.clone(), Instant::now());
        let tell = move || {
            let (told, wake) = &*theirs;
            let mut wait = first;
            loop {
                let told = told.lock().unwrap_or_else(PoisonError::into_inner);
                let waited = wake.wait_timeout_while(told, wait, |told| !told.is_over);
                let (told, _) = waited.unwrap_or_else(PoisonError::into_inner);
                if told.is_over {
                    return;
                }
                let line = told.line.clone();
                drop(told);
                wait = next;
                if !line.is_empty() {
                    print(&format!("{line}, {} s", begin.elapsed().as_secs()));
                }
            }
        };
        // Without the thread there are no lines, but everything else continues.
        let _ = std::thread::Builder::new()
            .name("progress".into())
            .spawn(tell);
        Lines { shared }
    }

    fn told(&self) -> MutexGuard<'_, Told> {
        self.shared.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, line: String) {
        self.told().line = line;
    }

    fn append(&self, words: &str) {
        self.told().line.push_str(words);
    }

    fn end(&self) {
        self.told().is_over = true;
        self.shared.1.notify_all();
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        self.end();
    }
}

/// Estimates the time for the remaining units; none before the first is done.
fn left(elapsed: Duration, done: u64, total: u64) -> Option<Duration> {
    let each = elapsed.checked_div(u32::try_from(done).ok()?)?;
    each.checked_mul(u32::try_from(total.saturating_sub(done)).ok()?)
}

impl alphorn_sim::Progress for Bars {
    fn phase(&mut self, name: &str, done: u64, total: u64) {
        self.show_left(name, done, total);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_phase_that_reports_nothing_is_told_again_until_its_end() {
        let (sender, lines) = std::sync::mpsc::channel();
        let print = move |line: &str| {
            let _ = sender.send(line.to_owned());
        };
        let short = Duration::from_millis(1);
        let told = Lines::begin(print, short, short);
        told.set("votes: 1,000 of 2,000".into());
        for _ in 0..2 {
            let line = lines.recv_timeout(Duration::from_secs(60)).unwrap();
            assert!(line.starts_with("votes: 1,000 of 2,000, "), "{line}");
        }
        drop(told);
        // The thread ends, and with it the channel.
        while lines.recv_timeout(Duration::from_secs(60)).is_ok() {}
        let over = lines.recv_timeout(Duration::ZERO).unwrap_err();
        assert_eq!(over, std::sync::mpsc::RecvTimeoutError::Disconnected);
    }

    #[test]
    fn what_is_left_follows_what_was_done() {
        let seconds = |n| Some(Duration::from_secs(n));
        assert_eq!(left(Duration::from_secs(6), 0, 15), None);
        assert_eq!(left(Duration::from_secs(6), 3, 15), seconds(24));
        assert_eq!(left(Duration::from_secs(6), 15, 15), seconds(0));
        assert_eq!(left(Duration::from_secs(6), 16, 15), seconds(0));
    }
}
