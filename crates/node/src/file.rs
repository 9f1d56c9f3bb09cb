//! A redb file that keeps working after a disk failure.
//!
//! After a failed write, redb no longer trusts its open file and refuses everything. The file is therefore closed, and
//! reopened at the next use. Durable data is there and the rest is gone, as after a crash. A full disk needs no restart
//! of the node.
//!
//! A file changed behind redb's back can make it panic. Every page is therefore verified when a file is opened, up to
//! [`VERIFIED_BYTES_MAX`], and a panic becomes an error instead of ending a thread.

use redb::{Database, DatabaseError, StorageError};
use std::fs::{self, File};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

type Opener = Box<dyn Fn() -> Result<Database, DatabaseError> + Send + Sync>;

/// Files up to this length are read completely when opened, which takes a second on a fast disk. In longer ones, which
/// only the cache of blocks can become, damage is noticed when it is read.
const VERIFIED_BYTES_MAX: u64 = 1 << 30;

/// An open file, or the means to open it.
pub(crate) struct DataFile {
    open: Opener,
    state: Mutex<State>,
    /// Its path, if it may be recreated when damaged.
    cache: Option<PathBuf>,
}

struct State {
    database: Option<Database>,
    /// Whether the contents have yet to be compared with known data since the file was reopened.
    is_new: bool,
    /// Set aside before it is reopened.
    is_damaged: bool,
}

impl DataFile {
    /// Opens or creates a file. Later it is only reopened, so that a vanished file is an error. The library caches at
    /// most `cache_bytes` of it in memory.
    pub(crate) fn create(path: &Path, cache_bytes: usize) -> Result<Self, redb::Error> {
        if !path.exists() {
            make(path)?;
        }
        let database = open(path, cache_bytes)?;
        let path = path.to_owned();
        Ok(Self::with(database, move || open(&path, cache_bytes)))
    }

    /// The same for a file that only duplicates data available elsewhere. A damaged one is set aside under another
    /// name, now and later, and a new one created. Returns what was wrong, if anything.
    pub(crate) fn create_cache(
        path: &Path,
        cache_bytes: usize,
    ) -> Result<(Self, Option<String>), redb::Error> {
        let (file, why) = match Self::create(path, cache_bytes) {
            Ok(file) => (file, None),
            Err(error) if is_damage(&error) => {
                set_aside(path)?;
                (Self::create(path, cache_bytes)?, Some(error.to_string()))
            }
            Err(error) => return Err(error),
        };
        let cache = Some(path.to_owned());
        Ok((DataFile { cache, ..file }, why))
    }

    /// The same with a custom opener.
    pub(crate) fn with(
        database: Database,
        open: impl Fn() -> Result<Database, DatabaseError> + Send + Sync + 'static,
    ) -> Self {
        DataFile {
            open: Box::new(open),
            state: Mutex::new(State {
                database: Some(database),
                is_new: false,
                is_damaged: false,
            }),
            cache: None,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs an operation on the file. Its argument is whether the file was reopened since the last success.
    ///
    /// # Errors
    /// Errors of the operation and of opening. The file is closed then.
    pub(crate) fn run<T, E: From<redb::Error>>(
        &self,
        act: impl FnOnce(&Database, bool) -> Result<T, E>,
    ) -> Result<T, E> {
        let mut state = self.state();
        if state.database.is_none() {
            if let Some(path) = self.cache.as_ref().filter(|_| state.is_damaged) {
                // It may have been moved at the last attempt, when there was no room for a new one.
                if path.exists() {
                    set_aside(path)?;
                }
                make(path).map_err(redb::Error::from)?;
                state.is_damaged = false;
            }
            let opened = guarded(|| (self.open)().map_err(redb::Error::from));
            state.database = Some(opened.map_err(E::from)?);
            state.is_new = true;
        }
        let is_new = state.is_new;
        let done = match &state.database {
            Some(database) => guarded(|| act(database, is_new)),
            // It was opened just now.
            None => Err(redb::Error::DatabaseClosed.into()),
        };
        match &done {
            Ok(_) => state.is_new = false,
            Err(_) => {
                let database = state.database.take();
                // The remains of a file that panicked may panic again.
                let _ = catch_unwind(AssertUnwindSafe(|| drop(database)));
            }
        }
        done
    }

    /// The same for a file that may be recreated. The second value is whether that happens at the next use.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub(crate) fn run_cache<T>(
        &self,
        act: impl FnOnce(&Database) -> Result<T, redb::Error>,
    ) -> Result<T, redb::Error> {
        let done = self.run(|database, _| act(database));
        if let Err(error) = &done
            && is_damage(error)
        {
            self.state().is_damaged = true;
        }
        done
    }
}

/// Runs an operation that may panic because of a file's contents.
fn guarded<T, E: From<redb::Error>>(act: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
    catch_unwind(AssertUnwindSafe(act)).unwrap_or_else(|_| {
        let why = "the library of the database panicked".to_owned();
        Err(redb::Error::Corrupted(why).into())
    })
}

/// Opens an existing file, and verifies it.
fn open(path: &Path, cache_bytes: usize) -> Result<Database, DatabaseError> {
    let bytes = fs::metadata(path).map_err(failed)?.len();
    let opened = guarded(|| {
        let mut builder = Database::builder();
        builder.set_cache_size(cache_bytes);
        builder.set_check_integrity_on_open(bytes <= VERIFIED_BYTES_MAX);
        builder.open(path).map_err(Opened)
    });
    opened.map_err(|Opened(error)| error)
}

/// An error or a panic while opening.
struct Opened(DatabaseError);

impl From<redb::Error> for Opened {
    fn from(error: redb::Error) -> Self {
        Opened(StorageError::Corrupted(error.to_string()).into())
    }
}

/// Whether an error means that the contents are not what was written, rather than a disk failure.
pub(crate) fn is_damage(error: &redb::Error) -> bool {
    match error {
        redb::Error::Corrupted(_)
        | redb::Error::UpgradeRequired(_)
        | redb::Error::TableTypeMismatch { .. }
        | redb::Error::TableIsMultimap(_)
        | redb::Error::TypeDefinitionChanged { .. }
        | redb::Error::TableDoesNotExist(_) => true,
        redb::Error::Io(error) => matches!(
            error.kind(),
            io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof
        ),
        _ => false,
    }
}

/// Renames a file to a name under which it is never opened, replacing what was set aside before.
pub(crate) fn set_aside(path: &Path) -> Result<PathBuf, redb::Error> {
    let aside = path.with_extension("redb.damaged");
    fs::rename(path, &aside).map_err(redb::Error::Io)?;
    Ok(aside)
}

/// Creates an empty file, which gets its name once it is complete, because the remains of a power failure during redb's
/// first writes cannot be opened. If another process was faster, its file stays: that process holds it open.
fn make(path: &Path) -> Result<(), DatabaseError> {
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    let new = tempfile::NamedTempFile::new_in(folder).map_err(failed)?;
    drop(Database::create(new.path())?);
    new.as_file().sync_all().map_err(failed)?;
    match new.persist_noclobber(path) {
        Err(error) if error.error.kind() != io::ErrorKind::AlreadyExists => {
            return Err(failed(error.error));
        }
        _ => {}
    }
    File::open(folder)
        .and_then(|folder| folder.sync_all())
        .map_err(failed)
}

fn failed(error: io::Error) -> DatabaseError {
    StorageError::Io(error).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_takes_its_name_when_it_is_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.redb");
        drop(DataFile::create(&path, 1 << 20).unwrap());
        let names = fs::read_dir(folder.path()).unwrap();
        let names: Vec<_> = names.map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["a.redb"]);
        drop(DataFile::create(&path, 1 << 20).unwrap());
        fs::write(&path, [0; 4_096]).unwrap();
        assert!(
            DataFile::create(&path, 1 << 20).is_err(),
            "no file of ours is replaced"
        );
    }

    const TABLE: redb::TableDefinition<'_, u64, u64> = redb::TableDefinition::new("t");

    fn put(database: &Database, key: u64) -> Result<(), redb::Error> {
        let txn = database.begin_write()?;
        txn.open_table(TABLE)?.insert(key, key)?;
        txn.commit()?;
        Ok(())
    }

    fn has(database: &Database, key: u64) -> Result<bool, redb::Error> {
        use redb::ReadableDatabase;
        let txn = database.begin_read()?;
        Ok(txn.open_table(TABLE)?.get(key)?.is_some())
    }

    /// Two nodes that start in one folder for the first time: one holds the file with that name, the other holds none.
    #[test]
    fn of_two_first_starts_one_has_the_file() {
        let folder = tempfile::tempdir().unwrap();
        for round in 0..40 {
            let path = folder.path().join(format!("{round}.redb"));
            let both = std::sync::Barrier::new(2);
            let begin = |key| {
                both.wait();
                let begun = DataFile::create(&path, 1 << 20).ok()?;
                begun.run(|database, _| put(database, key)).unwrap();
                Some((begun, key))
            };
            let begun = std::thread::scope(|scope| {
                let starts = [1, 2].map(|key| scope.spawn(move || begin(key)));
                starts.map(|start| start.join().unwrap())
            });
            let mut begun: Vec<(DataFile, u64)> = begun.into_iter().flatten().collect();
            assert_eq!(begun.len(), 1, "round {round}");
            let (begun, key) = begun.remove(0);
            drop(begun);
            let there = DataFile::create(&path, 1 << 20).unwrap();
            assert!(there.run(|database, _| has(database, key)).unwrap());
        }
    }

    #[test]
    fn a_cache_that_is_damaged_is_made_anew_while_it_is_in_use() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.redb");
        let (file, why) = DataFile::create_cache(&path, 1 << 20).unwrap();
        assert_eq!(why, None);
        file.run_cache(|database| put(database, 1)).unwrap();
        let damaged = || -> Result<(), redb::Error> { Err(redb::Error::Corrupted("x".into())) };
        assert!(file.run_cache(|_| damaged()).is_err());
        file.run_cache(|database| put(database, 2)).unwrap();
        assert!(!file.run_cache(|database| has(database, 1)).unwrap());
        assert!(
            folder.path().join("a.redb.damaged").exists(),
            "to be looked at"
        );
        // A panic becomes an error, and the file is unchanged.
        assert!(
            file.run::<(), redb::Error>(|_, _| panic!("as redb may"))
                .is_err()
        );
        assert!(file.run_cache(|database| has(database, 2)).unwrap());
        // A full disk is not damage.
        let full = || -> Result<(), redb::Error> {
            Err(redb::Error::Io(io::ErrorKind::StorageFull.into()))
        };
        assert!(file.run_cache(|_| full()).is_err());
        assert!(file.run_cache(|database| has(database, 2)).unwrap());
    }

    #[test]
    fn a_cache_that_is_no_database_is_set_aside_at_the_start() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.redb");
        fs::write(&path, [7; 8_192]).unwrap();
        let (file, why) = DataFile::create_cache(&path, 1 << 20).unwrap();
        assert!(why.is_some());
        file.run_cache(|database| put(database, 1)).unwrap();
    }
}
