//! The kernels of a crate, and the choice between them.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use thiserror::Error;

use crate::{Backend, InstructionSet};

/// The kernels of a crate in addition to its portable one, and the time that a typical piece of its work takes
/// on each.
#[derive(Clone, Copy, Debug)]
pub struct Kernels {
    /// The crate's name on the command line.
    pub of: &'static str,
    /// The instruction sets with a kernel, narrowest first.
    pub sets: &'static [InstructionSet],
    /// The work that `measure` times.
    pub work: &'static str,
    /// The minimum time of one such piece over a few milliseconds of runs.
    pub measure: fn(Backend) -> Duration,
}

/// How often the kernels take turns: another process that occupied the processor in one turn may be gone in the
/// next.
const TURNS: usize = 3;
/// How long each kernel runs on all threads in a turn before its times count: a processor that lowers its clock
/// for wide units does so within a millisecond, and takes about as long to raise it again.
const WARM: Duration = Duration::from_millis(10);
/// How long the times count.
const TIMED: Duration = Duration::from_millis(15);
/// A wider kernel must be faster by this factor: a draw goes to the narrower one, which does not lower the
/// clock of neighbouring cores.
const MARGIN: f64 = 1.05;

/// The choices made in this process, by crate and number of threads.
static CHOSEN: Mutex<BTreeMap<(&str, usize), Backend>> = Mutex::new(BTreeMap::new());

/// Why a name does not yield a [`Backend`].
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum BackendError {
    /// The crate has no such kernel.
    #[error("{of} has no kernel {name:?}: expected {expected}")]
    Unknown {
        /// The crate.
        of: &'static str,
        /// The requested name.
        name: String,
        /// The available names.
        expected: String,
    },
    /// This processor lacks instructions that the kernel needs.
    #[error("this processor cannot run the kernel {name} of {of}, which needs {needs}")]
    Unavailable {
        /// The crate.
        of: &'static str,
        /// The requested name.
        name: &'static str,
        /// All instruction sets of the kernel; at least one of them is missing.
        needs: String,
    },
}

impl Kernels {
    /// All backends that this processor can run, the portable one first.
    #[must_use]
    pub fn available(&self) -> Vec<Backend> {
        let wider = self.sets.iter().filter_map(|set| set.detect());
        std::iter::once(Backend::Portable).chain(wider).collect()
    }

    /// The time of a piece on each kernel that this processor can run, while all threads run it: the minimum of
    /// three turns, since other processes only slow a turn down. Within a turn it is the mean over threads of
    /// their median times, so that a brief change of the clock favours no kernel.
    #[must_use]
    pub fn times(&self, threads: usize) -> Vec<(Backend, Duration)> {
        let available = self.available();
        let mut times = vec![Duration::MAX; available.len()];
        for _ in 0..TURNS {
            for (backend, least) in available.iter().zip(&mut times) {
                *least = (*least).min(self.time_on_all(*backend, threads.max(1)));
            }
        }
        available.into_iter().zip(times).collect()
    }

    fn time_on_all(&self, backend: Backend, threads: usize) -> Duration {
        let on_one = || {
            let start = Instant::now();
            let mut times = Vec::new();
            // Once more than the time allows, however slow the kernel is.
            while times.is_empty() || start.elapsed() < WARM + TIMED {
                let time = (self.measure)(backend);
                if start.elapsed() >= WARM {
                    times.push(time);
                }
            }
            times.sort_unstable();
            times[times.len() / 2]
        };
        let sum: Duration = std::thread::scope(|scope| {
            let others: Vec<_> = (1..threads).map(|_| scope.spawn(on_one)).collect();
            let own = on_one();
            // A thread that did not finish counts with this thread's time.
            let join = |other: std::thread::ScopedJoinHandle<'_, _>| other.join().unwrap_or(own);
            own + others.into_iter().map(join).sum::<Duration>()
        });
        sum / u32::try_from(threads).unwrap_or(u32::MAX)
    }

    /// Selects the fastest kernel by time, given narrowest first: a wider one is chosen if it is faster by a
    /// twentieth.
    #[must_use]
    pub fn fastest(times: &[(Backend, Duration)]) -> Backend {
        let fastest =
            times
                .iter()
                .copied()
                .reduce(|best, next| match next.1.mul_f64(MARGIN) < best.1 {
                    true => next,
                    false => best,
                });
        fastest.map_or(Backend::Portable, |(backend, _)| backend)
    }

    /// The fastest kernel here on this many threads at once, measured once per process: some 75 ms per kernel,
    /// and nothing if there is only one.
    #[must_use]
    pub(crate) fn measured_on(&self, threads: usize) -> Backend {
        self.chosen(threads).unwrap_or_else(|| {
            // One measurement at a time: two would disturb each other.
            static MEASURING: Mutex<()> = Mutex::new(());
            let _measuring = MEASURING
                .lock()
                .unwrap_or_else(|poisoned| poisoned.into_inner());
            // Another thread may have measured while this one waited.
            if let Some(chosen) = self.chosen(threads) {
                return chosen;
            }
            let fastest = match self.available()[..] {
                [only] => only,
                _ => Self::fastest(&self.times(threads)),
            };
            self.choose(threads, fastest);
            fastest
        })
    }

    /// The kernel that [`Kernels::measured`] has measured, or [`Kernels::choose`] has chosen, in this process.
    #[must_use]
    pub fn chosen(&self, threads: usize) -> Option<Backend> {
        // The lock is held only for a look-up or an insertion, so a panic elsewhere leaves the map whole.
        let chosen = CHOSEN
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        chosen.get(&(self.of, threads)).copied()
    }

    /// Sets the result of [`Kernels::measured`] for this process, for instance to what an earlier process
    /// measured.
    pub fn choose(&self, threads: usize, backend: Backend) {
        let mut chosen = CHOSEN
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        chosen.insert((self.of, threads), backend);
    }

    /// The fastest kernel here on all processors at once.
    #[must_use]
    pub fn measured(&self) -> Backend {
        self.measured_on(std::thread::available_parallelism().map_or(1, usize::from))
    }

    /// The kernel with this name; `auto` is [`Kernels::measured`].
    ///
    /// # Errors
    /// [`BackendError`] if no kernel has this name, or this processor cannot run it.
    pub fn parse(&self, name: &str) -> Result<Backend, BackendError> {
        match name {
            "auto" => return Ok(self.measured()),
            "portable" => return Ok(Backend::Portable),
            _ => {}
        }
        let Some(set) = self.sets.iter().find(|set| set.name() == name) else {
            let wider = self.sets.iter().map(|set| set.name());
            let names: Vec<&str> = ["auto", "portable"].into_iter().chain(wider).collect();
            return Err(BackendError::Unknown {
                of: self.of,
                name: name.to_owned(),
                expected: names.join(", "),
            });
        };
        set.detect().ok_or_else(|| BackendError::Unavailable {
            of: self.of,
            name: set.name(),
            needs: set.needs().join(", "),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WIDE: InstructionSet = InstructionSet::Avx512Ifma;

    fn kernels(of: &'static str, measure: fn(Backend) -> Duration) -> Kernels {
        Kernels {
            of,
            sets: &[InstructionSet::Avx2, WIDE],
            work: "nothing",
            measure,
        }
    }

    #[test]
    fn names_lead_back_to_what_this_processor_can_run() {
        let kernels = kernels("names", |_| Duration::from_nanos(1));
        let available = kernels.available();
        for backend in &available {
            assert_eq!(kernels.parse(backend.name()), Ok(*backend));
        }
        assert_eq!(available[0], Backend::Portable);
        assert_eq!(kernels.parse("avx512").is_ok(), WIDE.detect().is_some());
        let unknown = kernels.parse("sse9").unwrap_err().to_string();
        assert!(unknown.contains("sse9") && unknown.contains("auto, portable, avx2, avx512"));
    }

    #[test]
    fn a_draw_goes_to_the_narrower_kernel_and_a_gain_to_the_wider() {
        let draw = kernels("draw", |_| Duration::from_nanos(1000));
        assert_eq!(draw.measured(), Backend::Portable);
        assert_eq!(draw.parse("auto"), Ok(Backend::Portable));
        let gain = kernels("gain", |backend| match backend {
            Backend::Portable => Duration::from_nanos(1000),
            Backend::Avx2(_) => Duration::from_nanos(900),
            _ => Duration::from_nanos(800),
        });
        assert_eq!(gain.available().last(), Some(&gain.measured()));
    }

    #[test]
    fn a_neighbour_in_one_turn_changes_no_choice() {
        use std::sync::atomic::{AtomicBool, Ordering};
        static BEFORE: AtomicBool = AtomicBool::new(true);
        // The wide kernels are ten times as slow until the portable one has its second turn.
        static WIDE_RAN: AtomicBool = AtomicBool::new(false);
        let disturbed = kernels("disturbed", |backend| {
            let wide = backend != Backend::Portable;
            match wide {
                true => WIDE_RAN.store(true, Ordering::Relaxed),
                false if WIDE_RAN.load(Ordering::Relaxed) => BEFORE.store(false, Ordering::Relaxed),
                false => {}
            }
            Duration::from_nanos(match (wide, BEFORE.load(Ordering::Relaxed)) {
                (true, true) => 8000,
                (true, false) => 800,
                (false, _) => 1000,
            })
        });
        let measured = disturbed.measured_on(1);
        assert_eq!(
            disturbed.available().get(1).is_some(),
            measured != Backend::Portable
        );
    }

    #[test]
    fn a_choice_is_measured_once_and_can_be_remembered() {
        use std::sync::atomic::{AtomicUsize, Ordering};
        static CALLS: AtomicUsize = AtomicUsize::new(0);
        let counted = kernels("counted", |_| {
            CALLS.fetch_add(1, Ordering::Relaxed);
            std::thread::sleep(Duration::from_millis(5));
            Duration::from_nanos(1)
        });
        assert_eq!(counted.measured_on(2), Backend::Portable);
        let calls = CALLS.load(Ordering::Relaxed);
        // Two threads, each until its time in each turn is over; none if there is nothing to choose from.
        match counted.available().len() {
            1 => assert_eq!(calls, 0),
            kernels => assert!(calls >= TURNS * 2 * kernels),
        }
        assert_eq!(counted.measured_on(2), Backend::Portable);
        assert_eq!(CALLS.load(Ordering::Relaxed), calls);
        let widest = counted.available().last().copied().unwrap_or_default();
        assert_eq!(counted.chosen(3), None);
        counted.choose(3, widest);
        assert_eq!(counted.measured_on(3), widest);
        assert_eq!(CALLS.load(Ordering::Relaxed), calls);
    }
}
