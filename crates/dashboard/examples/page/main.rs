//! The page over a synthetic trace, for its tests and for whoever works on it.
//!
//! ```sh
//! page trace TRACE SUMMARY SLOTS      # write a trace of so many slots, and what it must add up to
//! page serve PORT none                # the page without a trace
//! page serve PORT file TRACE          # a recorded trace
//! page serve PORT live SLOTS RATE     # so many slots at once, then so many records a second
//! ```
//!
//! Serves on the loopback interface under `/dashboard` (port 0: any free one) until its input ends.

mod synthetic;

use alphorn_dashboard::{Source, TraceFile, router};
use alphorn_types::trace::{Record, Ring, RingLimits};
use axum::Router;
use std::error::Error;
use std::io::Read;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::net::TcpListener;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Slots that a live trace goes on for: ten minutes and more at any rate that a test asks for.
const LIVE_SLOTS: u64 = 400;

/// Pause between two pushes of a live trace.
const PUSH_PAUSE: Duration = Duration::from_millis(20);

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["trace", trace, summary, slots] => write(trace, summary, slots.parse()?),
        ["serve", port, "none"] => serve(port.parse()?, Source::None),
        ["serve", port, "file", trace] => {
            serve(port.parse()?, Source::File(TraceFile::open(trace)?))
        }
        ["serve", port, "live", slots, rate] => {
            let ring = ring()?;
            feed(&ring, slots.parse()?, rate.parse()?)?;
            serve(port.parse()?, Source::from(ring))
        }
        _ => Err(
            "usage: page trace TRACE SUMMARY SLOTS | page serve PORT none | page serve PORT \
                  file TRACE | page serve PORT live SLOTS RATE"
                .into(),
        ),
    }
}

/// Writes a trace and its summary.
fn write(trace: &str, summary: &str, slots: u64) -> Result<()> {
    let records = synthetic::records(slots);
    let mut text = String::new();
    for record in &records {
        text.push_str(&record.to_line()?);
    }
    std::fs::write(trace, text)?;
    std::fs::write(summary, synthetic::expected(&records).to_string())?;
    Ok(())
}

fn ring() -> Result<Arc<Mutex<Ring>>> {
    let started = SystemTime::now().duration_since(UNIX_EPOCH)?;
    let instance = u64::try_from(started.as_nanos())?;
    Ok(Arc::new(Mutex::new(Ring::new(
        instance,
        RingLimits::default(),
    ))))
}

fn push(ring: &Mutex<Ring>, records: &[Record]) {
    let mut ring = ring.lock().expect("no thread panics with the lock");
    for record in records {
        ring.push(record).expect("a synthetic record is short");
    }
}

/// Fills a ring with the first slots and goes on with the next at a rate a second.
fn feed(ring: &Arc<Mutex<Ring>>, slots: u64, rate: u64) -> Result<()> {
    let now = synthetic::records(slots);
    push(ring, &now);
    if rate > 0 {
        let later = synthetic::records(slots + LIVE_SLOTS).split_off(now.len());
        let ring = Arc::clone(ring);
        let at_once = usize::try_from(rate)?.div_ceil(50);
        std::thread::spawn(move || {
            for part in later.chunks(at_once) {
                push(&ring, part);
                std::thread::sleep(PUSH_PAUSE);
            }
        });
    }
    Ok(())
}

#[tokio::main]
async fn serve(port: u16, source: Source) -> Result<()> {
    let listener = TcpListener::bind(("127.0.0.1", port)).await?;
    println!("http://{}/dashboard/", listener.local_addr()?);
    std::thread::spawn(|| {
        // Whoever started this holds the other end: it ends with them.
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        std::process::exit(0);
    });
    axum::serve(
        listener,
        Router::new().nest_service("/dashboard", router(source)),
    )
    .await?;
    Ok(())
}
