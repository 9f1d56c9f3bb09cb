//! Work that is no scheme's, on the same lanes.

use super::Product;
use crate::{Features, TaskError};
use std::any::Any;
use std::fmt::Debug;
use std::sync::Arc;

/// Work of the protocol itself, as drawing committees. It needs no keys and runs in this process; it
/// has no inputs that could be bad, and cannot be cut.
pub trait Foreign: Any + Debug + Send + Sync {
    /// The name in traces and metrics.
    fn name(&self) -> &'static str;

    /// What a scheduler may know before it runs; kinds are above those of [`Op`](crate::Op).
    fn features(&self) -> Features;

    /// Does it.
    ///
    /// # Errors
    /// [`TaskError::Refused`].
    fn run(&self) -> Result<Product, TaskError>;
}

/// What foreign work yields, of a type that it knows; equal to its clones alone.
#[derive(Clone, Debug)]
pub struct Opaque(Arc<dyn Any + Send + Sync>);

impl Opaque {
    /// Wraps a value.
    pub fn new<T: Send + Sync + 'static>(value: T) -> Self {
        Opaque(Arc::new(value))
    }

    /// The value; none if it is of another type. It is cloned if there is another clone of this.
    pub fn take<T: Clone + Send + Sync + 'static>(self) -> Option<T> {
        self.0.downcast().ok().map(Arc::unwrap_or_clone)
    }
}

impl PartialEq for Opaque {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Opaque {}
