//! Callbacks that are notified of a computation's steps and may stop it.

use std::ffi::{CString, c_char, c_int, c_void};

use alphorn_bindings::Watch;

/// Who watches a long computation.
#[repr(C)]
pub struct alphorn_watch {
    /// Given to the callbacks as it is.
    pub user: *mut c_void,
    /// Not 0 if the computation is to end; once so, always so. NULL for never. Called at least every 10 ms
    /// by any thread, by several at once: it must be quick.
    pub stopped: Option<unsafe extern "C" fn(user: *mut c_void) -> c_int>,
    /// A step begins; its name ends with a zero and lives as long as the call. NULL for nobody. Called by
    /// one thread at a time, not always the same.
    pub step: Option<unsafe extern "C" fn(user: *mut c_void, name: *const c_char)>,
}

// SAFETY: `user` is only handed back to the callbacks, which the contract of `alphorn_watch` lets any
// thread call.
unsafe impl Sync for alphorn_watch {}

impl Watch for alphorn_watch {
    fn stopped(&self) -> bool {
        // SAFETY: the contract of `alphorn_watch`: a function that takes its `user`, from any thread.
        self.stopped
            .is_some_and(|stopped| unsafe { stopped(self.user) } != 0)
    }

    fn step(&self, name: &'static str) {
        // Names of steps are string constants of this library, without a zero.
        if let (Some(step), Ok(name)) = (self.step, CString::new(name)) {
            // SAFETY: the contract of `alphorn_watch`: a function that takes its `user` and a string,
            // which lives until it returns.
            unsafe { step(self.user, name.as_ptr()) };
        }
    }
}

/// The watch at a pointer, if there is one.
///
/// # Safety
/// `watch` is NULL or leads to one that stays as it is for the lifetime.
pub(super) unsafe fn watch_at<'a>(watch: *const alphorn_watch) -> Option<&'a dyn Watch> {
    // SAFETY: as the caller promises.
    unsafe { watch.as_ref() }.map(|watch| watch as &dyn Watch)
}
