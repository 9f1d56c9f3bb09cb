//! A disk for tests: it can be full, and its power can fail at any operation.

use redb::StorageBackend;
use std::io;
use std::sync::{Arc, Mutex};

/// The unit that a disk writes completely or not at all.
const SECTOR: usize = 512;

/// A disk that loses unsynced data: it keeps any subset of the sectors written since.
#[derive(Clone, Debug, Default)]
pub(crate) struct Disk {
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    seen: Vec<u8>,
    synced: Vec<u8>,
    /// Fails every write and sync from here on.
    full: bool,
    /// Writes and syncs left until the power fails.
    left: Option<u64>,
    operations: u64,
    syncs: u64,
}

impl State {
    fn begin(&mut self) -> io::Result<()> {
        if self.full {
            let why = "the disk is full";
            return Err(io::Error::new(io::ErrorKind::StorageFull, why));
        }
        match &mut self.left {
            Some(0) => return Err(io::Error::other("no power")),
            Some(left) => *left -= 1,
            None => {}
        }
        self.operations += 1;
        Ok(())
    }
}

impl Disk {
    fn with<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        act(&mut self.state.lock().unwrap())
    }

    /// Makes the disk full from now on, or no longer full.
    pub(crate) fn fill(&self, full: bool) {
        self.with(|state| state.full = full);
    }

    /// Makes the power fail after this many more writes and syncs, which are counted from here on.
    pub(crate) fn fail_after(&self, operations: Option<u64>) {
        self.with(|state| (state.left, state.operations) = (operations, 0));
    }

    /// Writes and syncs since then.
    pub(crate) fn operations(&self) -> u64 {
        self.with(|state| state.operations)
    }

    /// How often it has been synced since its creation.
    pub(crate) fn syncs(&self) -> u64 {
        self.with(|state| state.syncs)
    }

    /// The disk after a power failure. For each sector that differs, `keep` decides whether it was
    /// written.
    pub(crate) fn crashed(&self, mut keep: impl FnMut() -> bool) -> Disk {
        let left = self.with(|state| {
            let mut left = state.synced.clone();
            // The length is metadata, which may have been written alone.
            if state.seen.len() > left.len() && keep() {
                left.resize(state.seen.len(), 0);
            }
            for (i, sector) in state.seen.chunks(SECTOR).enumerate() {
                let at = i * SECTOR;
                let differs = left.get(at..at + sector.len()) != Some(sector);
                if differs && at + sector.len() <= left.len() && keep() {
                    left[at..at + sector.len()].copy_from_slice(sector);
                }
            }
            left
        });
        let state = State {
            seen: left.clone(),
            synced: left,
            ..State::default()
        };
        Disk {
            state: Arc::new(Mutex::new(state)),
        }
    }

    pub(crate) fn opener(&self) -> impl Fn() -> Disk + Send + Sync + 'static {
        let disk = self.clone();
        move || disk.clone()
    }
}

impl StorageBackend for Disk {
    fn len(&self) -> io::Result<u64> {
        self.with(|state| Ok(state.seen.len() as u64))
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.with(|state| {
            let at = offset as usize;
            let bytes = state.seen.get(at..at + out.len());
            out.copy_from_slice(bytes.ok_or(io::ErrorKind::UnexpectedEof)?);
            Ok(())
        })
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.with(|state| {
            state.begin()?;
            state.seen.resize(len as usize, 0);
            Ok(())
        })
    }

    fn sync_data(&self) -> io::Result<()> {
        self.with(|state| {
            state.begin()?;
            state.syncs += 1;
            state.synced.clone_from(&state.seen);
            Ok(())
        })
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.with(|state| {
            state.begin()?;
            let at = offset as usize;
            state.seen[at..at + data.len()].copy_from_slice(data);
            Ok(())
        })
    }
}
