//! A trace file, checked line by line before it is offered and while it is sent.

use crate::assets::guards;
use crate::clients::{CHUNK_BYTES, Clients, Sink};
use crate::live::full;
use alphorn_types::trace::{TraceError, TraceReader};
use axum::body::Body;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};
use thiserror::Error;
use tokio::runtime::Handle;

/// Maximum size in bytes of a served trace file: a browser cannot hold more.
pub const TRACE_BYTES_MAX: u64 = 1 << 30;

/// Why a file is not offered.
#[derive(Debug, Error)]
pub enum TraceFileError {
    /// It cannot be opened.
    #[error("trace {path}: {error}")]
    Open {
        /// The file.
        path: PathBuf,
        /// The cause.
        error: io::Error,
    },
    /// It is too large.
    #[error("trace {path}: {bytes} bytes, must be at most {TRACE_BYTES_MAX}")]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// Its size.
        bytes: u64,
    },
    /// One of its lines is not a record.
    #[error("trace {path}, line {line}: {error}")]
    Line {
        /// The file.
        path: PathBuf,
        /// Number of the line, from 1.
        line: u64,
        /// What is wrong with it.
        error: TraceError,
    },
}

/// A trace file in which every line was a record when it was opened.
#[derive(Clone, Debug)]
pub struct TraceFile {
    path: PathBuf,
    records: u64,
}

impl TraceFile {
    /// Reads the whole file once and keeps its path.
    ///
    /// # Errors
    ///
    /// If it cannot be read, is above [`TRACE_BYTES_MAX`], or has a line that is not a record: the error names
    /// the first such line.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, TraceFileError> {
        let mut file = Self {
            path: path.as_ref().to_owned(),
            records: 0,
        };
        let mut records = 0;
        file.read(|_| {
            records += 1;
            true
        })?;
        file.records = records;
        Ok(file)
    }

    /// Number of records when the file was opened.
    #[must_use]
    pub const fn records(&self) -> u64 {
        self.records
    }

    /// Passes each line that is a record to `take`, until it returns false.
    fn read(&self, mut take: impl FnMut(&[u8]) -> bool) -> Result<(), TraceFileError> {
        let path = || self.path.clone();
        let opened = File::open(&self.path).and_then(|file| Ok((file.metadata()?.len(), file)));
        let (bytes, file) = opened.map_err(|error| TraceFileError::Open {
            path: path(),
            error,
        })?;
        if bytes > TRACE_BYTES_MAX {
            return Err(TraceFileError::TooLarge {
                path: path(),
                bytes,
            });
        }
        // A file that grows meanwhile is read up to the bound and no further.
        let mut reader = TraceReader::new(BufReader::new(file.take(TRACE_BYTES_MAX)));
        while let Some(record) = reader.next() {
            record.map_err(|error| TraceFileError::Line {
                path: path(),
                line: reader.line_number(),
                error,
            })?;
            if !take(reader.line()) {
                break;
            }
        }
        Ok(())
    }

    /// Sends the records in chunks of whole lines, until all are sent or the client is gone. Blocking: must not
    /// run on a thread of the event loop.
    fn send(&self, sink: &mut Sink, runtime: &Handle) {
        let mut chunk = Vec::with_capacity(CHUNK_BYTES + CHUNK_BYTES / 4);
        let result = self.read(|line| {
            chunk.extend_from_slice(line);
            chunk.push(b'\n');
            chunk.len() < CHUNK_BYTES
                || runtime.block_on(sink.send(Ok(std::mem::take(&mut chunk).into())))
        });
        // An error cuts the response short, which a client notices; a client that is gone needs no end marker.
        let last = match result {
            Ok(()) => Ok(chunk.into()),
            Err(error) => Err(io::Error::other(error)),
        };
        runtime.block_on(sink.send(last));
    }
}

/// Responds to a request for the trace.
pub(crate) async fn serve(file: TraceFile, clients: Clients) -> Response {
    let Some((mut sink, body)) = clients.admit() else {
        return full();
    };
    let runtime = Handle::current();
    // Ends by itself: at the end of the file, or when the client is gone or does not read.
    tokio::task::spawn_blocking(move || file.send(&mut sink, &runtime));
    let headers = [
        (CONTENT_TYPE, "application/jsonl; charset=utf-8"),
        (CACHE_CONTROL, "no-store"),
    ];
    (guards(), headers, Body::from_stream(body)).into_response()
}
