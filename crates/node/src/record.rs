//! A record of all inputs to a node's state machines, and its replay.
//!
//! The state machines read no clock, entropy, file or socket. The same inputs at the same times therefore give the same
//! effects, byte for byte, on any host and without a prover: finished jobs are inputs. A [`Recorder`] writes them down
//! while a node runs, and digests all effects. [`replay`] feeds them to state machines of the same configuration and
//! compares the digests.
//!
//! A file is `MAGIC`, a header of the embedder with its length (4 bytes), and entries with theirs. A mark with the
//! digest so far follows every `MARK_INPUTS` inputs, and the last entry has the SHA-256 of the file before it. A file
//! without a last entry comes from a node that was killed, or could not be written fast enough. What it contains is
//! replayed. It holds no secrets, but everything that peers sent.

mod entry;
mod watch;

pub use entry::{EntryError, Mark};

use crate::engine::{Engine, Host, Settings};
use alphorn_proto::Input;
use alphorn_proto::chain::AnchorError;
use alphorn_proto::horn::Horn;
use alphorn_types::Time;
use entry::{ENTRY_BYTES_MAX, Entry};
pub(crate) use entry::{put_topic, take_topic};
use sha2::{Digest, Sha256};
use std::fs::OpenOptions;
use std::io::{self, BufWriter, Read, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use watch::Watch;

/// First bytes of a file.
pub(crate) const MAGIC: &[u8; 16] = b"alphorn-record2\n";
/// Inputs from one mark to the next.
pub(crate) const MARK_INPUTS: u64 = 1_024;
/// Longest header, in bytes: it has up to 2^20 local keys, each in some 20 bytes.
pub(crate) const HEADER_BYTES_MAX: u32 = 32 << 20;
/// Maximum length of a file. Recording ends there.
pub(crate) const FILE_BYTES_MAX: u64 = 8 << 30;
/// Entries that wait for the disk.
const QUEUE_MAX: usize = 16_384;
/// Bytes that wait for the disk.
const QUEUE_BYTES_MAX: u64 = 64 << 20;

/// Records the inputs of a node. The loop never waits for its file.
pub struct Recorder {
    digest: Sha256,
    inputs: u64,
    bytes: u64,
    /// None once something could not be written, because later entries would not fit.
    queue: Option<SyncSender<Vec<u8>>>,
    shared: Arc<Shared>,
    writer: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    waiting_bytes: AtomicU64,
    failed: AtomicBool,
}

/// The result of a recording.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Recorded {
    /// Number of inputs.
    pub(crate) inputs: u64,
    /// SHA-256 of all effects, in hexadecimal.
    pub(crate) outputs: String,
    /// Whether all of them are in the file.
    pub whole: bool,
}

impl Recorder {
    /// Starts a file that does not exist yet.
    ///
    /// # Errors
    /// If it cannot be created, or the header is longer than `HEADER_BYTES_MAX`.
    pub fn create(path: &Path, header: &[u8]) -> io::Result<Self> {
        let length = u32::try_from(header.len()).ok();
        let length = length.filter(|length| *length <= HEADER_BYTES_MAX);
        let Some(length) = length else {
            let text = format!(
                "a header of {} bytes, at most {HEADER_BYTES_MAX}",
                header.len()
            );
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        };
        let mut file = OpenOptions::new().write(true).create_new(true).open(path)?;
        let mut hash = Sha256::new();
        for part in [MAGIC.as_slice(), &length.to_le_bytes(), header] {
            file.write_all(part)?;
            hash.update(part);
        }
        let (queue, entries) = sync_channel(QUEUE_MAX);
        let shared = Arc::<Shared>::default();
        let told = shared.clone();
        let writer = std::thread::Builder::new().name("alphorn-record".into());
        let writer = writer.spawn(move || {
            if write_all(BufWriter::new(file), hash, &entries, &told).is_err() {
                told.failed.store(true, Ordering::Relaxed);
            }
        })?;
        Ok(Recorder {
            digest: Sha256::new(),
            inputs: 0,
            bytes: 0,
            queue: Some(queue),
            shared,
            writer: Some(writer),
        })
    }

    fn put(&mut self, entry: Option<Vec<u8>>) {
        let Some(queue) = &self.queue else {
            return;
        };
        let sent = entry.is_some_and(|entry| {
            let length = entry.len() as u64;
            let before = self
                .shared
                .waiting_bytes
                .fetch_add(length, Ordering::Relaxed);
            self.bytes += length + 4;
            length <= u64::from(ENTRY_BYTES_MAX)
                && before + length <= QUEUE_BYTES_MAX
                && self.bytes <= FILE_BYTES_MAX
                && queue.try_send(entry).is_ok()
        });
        if !sent || self.shared.failed.load(Ordering::Relaxed) {
            self.queue = None;
        }
    }

    /// Records where the chain starts, if that is not genesis. Must come first.
    pub(crate) fn began_at(&mut self, anchor: &[u8]) {
        self.put(Some(Entry::encode_anchor(anchor)));
    }

    /// Records a block of an earlier run, before the first input.
    pub fn restored(&mut self, block: &[u8]) {
        self.put(Some(Entry::encode_restored(block)));
    }

    /// Passes an input to an engine, and records both.
    pub fn handle(&mut self, engine: &mut Engine, now: Time, input: Input, host: &mut dyn Host) {
        self.put(Entry::encode_input(now, &input));
        let mut watch = Watch {
            host: Some(host),
            digest: &mut self.digest,
        };
        engine.handle(now, input, &mut watch);
        self.inputs += 1;
        if self.inputs.is_multiple_of(MARK_INPUTS) {
            self.put(Some(Entry::encode_mark(&self.mark(), None)));
        }
    }

    fn mark(&self) -> Mark {
        Mark {
            inputs: self.inputs,
            outputs: self.digest.clone().finalize().into(),
        }
    }

    /// Closes the file, and waits until it is written.
    pub fn finish(mut self) -> Recorded {
        let mark = self.mark();
        // The writer adds the digest of the file.
        self.put(Some(Entry::encode_mark(&mark, Some(&[0; 32]))));
        let queued = self.queue.take().is_some();
        let written = self
            .writer
            .take()
            .is_some_and(|writer| writer.join().is_ok());
        let outputs = mark.outputs.iter().map(|byte| format!("{byte:02x}"));
        Recorded {
            inputs: mark.inputs,
            outputs: outputs.collect(),
            whole: queued && written && !self.shared.failed.load(Ordering::Relaxed),
        }
    }
}

fn write_all(
    mut file: BufWriter<std::fs::File>,
    mut hash: Sha256,
    entries: &Receiver<Vec<u8>>,
    shared: &Shared,
) -> io::Result<()> {
    for mut entry in entries {
        let length = entry.len();
        if let Ok(Entry::End(mark, _)) = Entry::decode(&entry) {
            let log = hash.clone().finalize().into();
            entry = Entry::encode_mark(&mark, Some(&log));
        }
        for part in [(length as u32).to_le_bytes().as_slice(), &entry] {
            file.write_all(part)?;
            hash.update(part);
        }
        shared
            .waiting_bytes
            .fetch_sub(length as u64, Ordering::Relaxed);
    }
    file.flush()?;
    file.get_ref().sync_all()
}

/// A record cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The file cannot be read.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// It does not begin like a record.
    #[error(
        "no record of inputs: it does not begin with {:?}",
        String::from_utf8_lossy(MAGIC)
    )]
    Magic,
    /// A header or entry is too long.
    #[error("{what} of {value} bytes, must be at most {max}")]
    TooLong {
        /// What.
        what: &'static str,
        /// Its length.
        value: u32,
        /// The bound.
        max: u32,
    },
    /// An entry is invalid.
    #[error("entry {number}: {source}")]
    Entry {
        /// Its number, from 0.
        number: u64,
        /// The reason.
        #[source]
        source: EntryError,
    },
    /// A block of an earlier run after an input, or an entry after the last one.
    #[error("entry {number} may not come here")]
    Order {
        /// Its number, from 0.
        number: u64,
    },
    /// The chain cannot start where the record says.
    #[error(transparent)]
    Anchor(#[from] AnchorError),
    /// The file is not what was written.
    #[error("the bytes of the record are not those that were written")]
    Digest,
}

/// A record that is being read.
pub struct Record<R> {
    source: R,
    hash: Sha256,
    header: Vec<u8>,
    entries: u64,
}

/// The result of a replay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replayed {
    /// Inputs and their effects here.
    pub mark: Mark,
    /// The effects according to the last entry. None if the file has no end.
    pub end: Option<Mark>,
    /// The first mark that differs from the effects here.
    pub differs: Option<Mark>,
    /// Times of the first and the last input.
    pub times: Option<(Time, Time)>,
    /// The slot that is final at the end.
    pub finalised_slot: u64,
}

impl<R: Read> Record<R> {
    /// Reads the header.
    ///
    /// # Errors
    /// [`RecordError`].
    pub fn open(mut source: R) -> Result<Self, RecordError> {
        let mut hash = Sha256::new();
        let mut magic = [0; MAGIC.len()];
        source.read_exact(&mut magic)?;
        if magic != *MAGIC {
            return Err(RecordError::Magic);
        }
        hash.update(magic);
        let header = read_part(&mut source, &mut hash, "a header", HEADER_BYTES_MAX)?;
        Ok(Record {
            source,
            hash,
            header: header.unwrap_or_default(),
            entries: 0,
        })
    }

    /// What the embedder recorded of its configuration.
    pub fn header(&self) -> &[u8] {
        &self.header
    }

    /// The next entry. None at the end of the file, even within an entry.
    fn next(&mut self) -> Result<Option<Entry>, RecordError> {
        let before: [u8; 32] = self.hash.clone().finalize().into();
        let part = read_part(
            &mut self.source,
            &mut self.hash,
            "an entry",
            ENTRY_BYTES_MAX,
        )?;
        let Some(bytes) = part else {
            return Ok(None);
        };
        let number = self.entries;
        self.entries += 1;
        let entry = Entry::decode(&bytes);
        let entry = entry.map_err(|source| RecordError::Entry { number, source })?;
        match &entry {
            Entry::End(_, log) if *log != before => Err(RecordError::Digest),
            _ => Ok(Some(entry)),
        }
    }
}

/// Reads a part preceded by its length. None if the source ends before or within it. Memory grows with the data
/// present, not with the announced length.
fn read_part(
    source: &mut impl Read,
    hash: &mut Sha256,
    what: &'static str,
    max: u32,
) -> Result<Option<Vec<u8>>, RecordError> {
    let mut length = Vec::new();
    source.by_ref().take(4).read_to_end(&mut length)?;
    let Ok(length) = <[u8; 4]>::try_from(length.as_slice()) else {
        return Ok(None);
    };
    let value = u32::from_le_bytes(length);
    if value > max {
        return Err(RecordError::TooLong { what, value, max });
    }
    let mut bytes = Vec::new();
    source.by_ref().take(value.into()).read_to_end(&mut bytes)?;
    if bytes.len() != value as usize {
        return Ok(None);
    }
    hash.update(length);
    hash.update(&bytes);
    Ok(Some(bytes))
}

/// Replays a record on state machines with the configuration that its header names.
///
/// # Errors
/// [`RecordError`]. Effects that differ are not an error, but reported in [`Replayed::differs`].
pub fn replay<R: Read>(
    mut record: Record<R>,
    mut horn: Horn,
    settings: Settings,
) -> Result<Replayed, RecordError> {
    let mut digest = Sha256::new();
    let mut replayed = Replayed {
        mark: Mark::default(),
        end: None,
        differs: None,
        times: None,
        finalised_slot: 0,
    };
    let mut next = record.next()?;
    if let Some(Entry::Anchor(anchor)) = &next {
        horn.begin_at(anchor)?;
        next = record.next()?;
    }
    while let Some(Entry::Restored(block)) = &next {
        // A block that did not fit then does not fit now.
        let _ = horn.restore(block);
        next = record.next()?;
    }
    let mut engine = Engine::new(horn, settings);
    while let Some(entry) = next {
        let number = record.entries - 1;
        let told = match entry {
            _ if replayed.end.is_some() => return Err(RecordError::Order { number }),
            Entry::Anchor(_) | Entry::Restored(_) => return Err(RecordError::Order { number }),
            Entry::Input(now, input) => {
                let mut watch = Watch {
                    host: None,
                    digest: &mut digest,
                };
                engine.handle(now, input, &mut watch);
                replayed.mark.inputs += 1;
                let first = replayed.times.map_or(now, |(first, _)| first);
                replayed.times = Some((first, now));
                None
            }
            Entry::Mark(mark) => Some(mark),
            Entry::End(mark, _) => {
                replayed.end = Some(mark);
                Some(mark)
            }
        };
        if let Some(told) = told {
            replayed.mark.outputs = digest.clone().finalize().into();
            if told != replayed.mark {
                replayed.differs = replayed.differs.or(Some(told));
            }
        }
        next = record.next()?;
    }
    replayed.mark.outputs = digest.finalize().into();
    replayed.finalised_slot = engine.horn().chain().finalised().slot.0;
    Ok(replayed)
}
