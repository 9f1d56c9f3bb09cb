//! The log of a node: `tracing` events, as lines of text or of JSON.

use crate::report::Sink;
use tracing::level_filters::LevelFilter;
use tracing_appender::non_blocking::{NonBlocking, NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::{Registry, fmt};

/// Maximum number of lines queued for a slow reader; further lines are dropped.
const LINES_MAX: usize = 4_096;

/// What a node writes in its log, and how.
#[derive(clap::Args, Clone, Copy, Debug)]
pub(crate) struct LogOptions {
    /// Format of the log
    #[arg(long, value_enum, default_value_t = Format::Text)]
    log_format: Format,
    /// Lowest severity that is logged
    #[arg(long, value_enum, default_value_t = Level::Info)]
    log_level: Level,
}

/// How a log is written.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    /// Lines of text
    Text,
    /// One JSON object per line
    Json,
}

/// What a log has.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    /// Events that an operator must act on
    Error,
    /// Also missed duties and failed jobs
    Warn,
    /// Also normal activity: for a node, one line per slot
    Info,
    /// Also peers, blocks and finality
    Debug,
}

impl LogOptions {
    /// Returns the same options for the command line of a node.
    pub(crate) fn words(self) -> [String; 4] {
        [
            "--log-format".to_owned(),
            word(self.log_format),
            "--log-level".to_owned(),
            word(self.log_level),
        ]
    }

    /// Starts the log of this process: on standard output, or on standard error if standard output is
    /// taken. It ends, and is flushed, when the returned guard is dropped. No thread blocks on a slow
    /// reader.
    pub(crate) fn begin(self, quiet: bool, sink: &Sink) -> WorkerGuard {
        let lines = NonBlockingBuilder::default().buffered_lines_limit(LINES_MAX);
        let (writer, guard) = match sink.is_stdout() {
            true => lines.finish(std::io::stderr()),
            false => lines.finish(std::io::stdout()),
        };
        // A process has one log, and it is started only here.
        let _ = tracing::subscriber::set_global_default(self.subscriber(quiet, writer));
        guard
    }

    fn subscriber(self, quiet: bool, writer: NonBlocking) -> impl tracing::Subscriber {
        let level = match self.log_level {
            level if quiet => level.min(Level::Warn),
            level => level,
        };
        let level = match level {
            Level::Error => LevelFilter::ERROR,
            Level::Warn => LevelFilter::WARN,
            Level::Info => LevelFilter::INFO,
            Level::Debug => LevelFilter::DEBUG,
        };
        let lines = fmt::layer().with_writer(writer).with_target(false);
        let lines: Box<dyn Layer<Registry> + Send + Sync> = match self.log_format {
            Format::Text => lines.boxed(),
            Format::Json => lines.json().flatten_event(true).boxed(),
        };
        // Peers can influence what libraries log.
        let own = Targets::new().with_target("alphorn", level);
        tracing_subscriber::registry().with(lines.with_filter(own))
    }
}

/// Returns a value as written on a command line; none of these is hidden.
fn word(value: impl clap::ValueEnum) -> String {
    let value = value.to_possible_value();
    value.map_or_else(String::new, |value| value.get_name().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::sync::{Arc, Mutex};

    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl Write for Written {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    /// Returns what is logged of a slot, a peer, a warning and a library.
    fn log(log_format: Format, log_level: Level, quiet: bool) -> String {
        let written = Written::default();
        let (writer, guard) = NonBlockingBuilder::default().finish(written.clone());
        let options = LogOptions {
            log_format,
            log_level,
        };
        tracing::subscriber::with_default(options.subscriber(quiet, writer), || {
            tracing::info!(slot = 7, done = 3, "slot");
            tracing::debug!("a peer");
            tracing::warn!(slot = 8, "duties were missed");
            tracing::error!(target: "libp2p", "what a peer has it say");
        });
        drop(guard);
        String::from_utf8(written.0.lock().unwrap().clone()).unwrap()
    }

    #[test]
    fn a_log_has_what_was_asked_for_and_nothing_of_libraries() {
        let text = log(Format::Text, Level::Info, false);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 2, "{text}");
        assert!(lines[0].ends_with(" INFO slot slot=7 done=3"), "{text}");
        assert!(
            lines[1].ends_with(" WARN duties were missed slot=8"),
            "{text}"
        );
        assert_eq!(log(Format::Text, Level::Debug, false).lines().count(), 3);
        assert_eq!(log(Format::Text, Level::Debug, true).lines().count(), 1);
        assert_eq!(log(Format::Text, Level::Error, false), "");
    }

    #[test]
    fn a_log_of_json_has_an_object_a_line() {
        let text = log(Format::Json, Level::Info, true);
        let line: serde_json::Value = serde_json::from_str(text.trim_end()).unwrap();
        assert_eq!(line["level"], "WARN");
        assert_eq!(line["message"], "duties were missed");
        assert_eq!(line["slot"], 8);
        assert!(line["timestamp"].is_string(), "{line}");
    }

    #[test]
    fn options_of_a_devnet_are_those_of_its_nodes() {
        let options = LogOptions {
            log_format: Format::Json,
            log_level: Level::Warn,
        };
        let words = ["--log-format", "json", "--log-level", "warn"];
        assert_eq!(options.words(), words);
    }
}
