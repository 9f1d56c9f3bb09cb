//! A program supplied by the caller that proves and verifies the same signatures in the same run.

use super::fixture::Fixture;
use alphorn_lab::error::{Error, Result};
use anyhow::Context;
use serde::Deserialize;
use serde_json::{Value, json};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// What a program reports about its run, in the last line that it prints.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Ran {
    name: String,
    prove_s: f64,
    verify_s: f64,
    /// Time outside both measurements.
    setup_s: Option<f64>,
    /// Bytes of the proof, and of everything else that is sent with it.
    bytes: u64,
}

/// The fields of a run of `program COUNT THREADS FILE`, where the file has the first signatures of the measurement.
///
/// # Errors
/// A usage error if it cannot be started, a failed check if it does not end well or its last line is not what
/// [`Ran`] has.
pub(super) fn run<const N: usize>(
    program: &Path,
    fixture: &Fixture<N>,
    count: usize,
    threads: usize,
) -> Result<Value> {
    let shown = program.display();
    let mut file = tempfile::NamedTempFile::new().context("--peer: no file for the signatures")?;
    let written = file.write_all(&fixture.records(count));
    written
        .and_then(|()| file.flush())
        .context("--peer: the signatures cannot be written to a temporary file")?;
    let mut command = Command::new(program);
    command.args([count, threads].map(|number| number.to_string()));
    command.arg(file.path()).stdin(Stdio::null());
    let output = command.stderr(Stdio::inherit()).output();
    let output = output.with_context(|| format!("--peer {shown}: it cannot be run"))?;
    if !output.status.success() {
        return Err(Error::Check(format!("--peer {shown}: {}", output.status)));
    }
    let printed = String::from_utf8_lossy(&output.stdout);
    let last = printed.lines().rfind(|line| !line.trim().is_empty());
    let ran: Ran = serde_json::from_str(last.unwrap_or_default())
        .map_err(|error| Error::Check(format!("--peer {shown}: its last line: {error}")))?;
    let times = [Some(ran.prove_s), Some(ran.verify_s), ran.setup_s];
    match times.into_iter().flatten().find(|time| *time < 0.0) {
        Some(time) => Err(Error::Check(format!(
            "--peer {shown}: a time of {time} s, must be at least 0"
        ))),
        None => Ok(fields(&ran, threads)),
    }
}

/// Returns the fields of a program's run.
fn fields(ran: &Ran, threads: usize) -> Value {
    let mut fields = json!({
        "name": ran.name,
        "threads": threads,
        "prove_s": ran.prove_s,
        "verify_s": ran.verify_s,
        "bytes": ran.bytes,
        "kind": "same run",
    });
    if let Some(setup_s) = ran.setup_s {
        fields["setup_s"] = json!(setup_s);
    }
    fields
}
