//! A redb file that goes on after a failure of its disk.
//!
//! After a write that failed redb trusts its open file no more and refuses everything. So the file
//! is closed then, and opened again at the next use: what was durable is there, what was not is gone,
//! as after a crash. A disk that was full needs no restart of the node.

use redb::{Database, DatabaseError, StorageError};
use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

type Opener = Box<dyn Fn() -> Result<Database, DatabaseError> + Send + Sync>;

/// An open file, or the way to open it.
pub(crate) struct DataFile {
    open: Opener,
    state: Mutex<State>,
}

struct State {
    database: Option<Database>,
    /// Whether what the file has was not compared with what is known since it was opened again.
    is_new: bool,
}

impl DataFile {
    /// Opens or makes a file; later it is only opened, so that one that vanished is an error. The
    /// library keeps at most `cache_bytes` of it in memory.
    pub(crate) fn create(path: &Path, cache_bytes: usize) -> Result<Self, DatabaseError> {
        let builder = move || {
            let mut builder = Database::builder();
            builder.set_cache_size(cache_bytes);
            builder
        };
        if !path.exists() {
            make(path)?;
        }
        let database = builder().open(path)?;
        let path = path.to_owned();
        Ok(Self::with(database, move || builder().open(&path)))
    }

    /// The same over an opener.
    pub(crate) fn with(
        database: Database,
        open: impl Fn() -> Result<Database, DatabaseError> + Send + Sync + 'static,
    ) -> Self {
        DataFile {
            open: Box::new(open),
            state: Mutex::new(State {
                database: Some(database),
                is_new: false,
            }),
        }
    }

    /// Runs what needs the file; it is told whether the file was opened again since the last success.
    ///
    /// # Errors
    /// Its own, and those of opening. The file is closed then.
    pub(crate) fn run<T, E: From<redb::Error>>(
        &self,
        act: impl FnOnce(&Database, bool) -> Result<T, E>,
    ) -> Result<T, E> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.database.is_none() {
            state.database = Some((self.open)().map_err(redb::Error::from)?);
            state.is_new = true;
        }
        let is_new = state.is_new;
        let done = match &state.database {
            Some(database) => act(database, is_new),
            // It was opened just now.
            None => Err(redb::Error::DatabaseClosed.into()),
        };
        match &done {
            Ok(_) => state.is_new = false,
            Err(_) => state.database = None,
        }
        done
    }
}

/// Makes an empty file, which takes its name when it is whole: what is left where the power fails
/// while redb writes its first pages does not open any more.
fn make(path: &Path) -> Result<(), DatabaseError> {
    let new = path.with_extension("new");
    match fs::remove_file(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
        _ => {}
    }
    drop(Database::create(&new)?);
    let sync = |path: &Path| File::open(path)?.sync_all();
    sync(&new).map_err(failed)?;
    fs::rename(&new, path).map_err(failed)?;
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    sync(folder.unwrap_or(Path::new("."))).map_err(failed)
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
        // As an earlier start left it that lost power.
        fs::write(folder.path().join("a.new"), [0; 4_096]).unwrap();
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
}
