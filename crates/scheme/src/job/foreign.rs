//! Work that does not belong to a scheme, on the same lanes.

use super::Product;
use crate::{Features, TaskError};
use std::any::Any;
use std::fmt::Debug;
use std::sync::Arc;

/// The protocol's own work, such as drawing committees. It needs no keys and runs in this process.
/// It has no inputs that could be bad, and cannot be cut.
pub trait Foreign: Any + Debug + Send + Sync {
    /// Name in traces and metrics.
    fn name(&self) -> &'static str;

    /// What a scheduler may know before it runs. Kinds are above those of [`Op`](crate::Op).
    fn features(&self) -> Features;

    /// Runs the work.
    ///
    /// # Errors
    /// [`TaskError::Refused`].
    fn run(&self) -> Result<Product, TaskError>;
}

/// The result of foreign work, with a type known only to it. It equals only its own clones.
#[derive(Clone, Debug)]
pub struct Opaque(Arc<dyn Any + Send + Sync>);

impl Opaque {
    /// Wraps a value.
    pub fn new<T: Send + Sync + 'static>(value: T) -> Self {
        Opaque(Arc::new(value))
    }

    /// The value; none if it has another type. It is cloned if other clones of this exist.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{CostTable, Model, ModelRegistry};
    use crate::{Ctx, Env, Scratch, Task, Work};

    /// Returns its number, and refuses zero.
    #[derive(Debug)]
    struct Number(u64);

    impl Foreign for Number {
        fn name(&self) -> &'static str {
            "number"
        }

        fn features(&self) -> Features {
            Features {
                kind: 0x300,
                class: 0,
                inputs: 1,
                prior_ns: self.0,
                memory_bytes: 0,
            }
        }

        fn run(&self) -> Result<Product, TaskError> {
            match self.0 {
                0 => Err(TaskError::Refused("nothing to yield".into())),
                number => Ok(Product::Foreign(Opaque::new(number))),
            }
        }
    }

    #[test]
    fn foreign_work_runs_beside_a_scheme_and_never_leaves_the_process() {
        let scheme = Arc::new(Model::new(CostTable::example()).unwrap());
        let registry = Arc::new(ModelRegistry { validators: 8 });
        let env = Env::new(scheme, registry, [1; 32]);
        let mut scratch = Scratch::default();
        let ctx = &mut Ctx::single(&mut scratch);

        let work = Work::Foreign(Box::new(Number(7)));
        assert_eq!((work.name(), work.features(&env).prior_ns), ("number", 7));
        assert_eq!(work.foreign().map(|number: &Number| number.0), Some(7));
        assert!(work.encode().is_none() && work.part(0..1).is_none() && !work.isolate(&env));
        let output = work.run(&env, ctx).expect("a number");
        assert!(work.verify_output(&env, &output, ctx));
        assert!(work.encode_output(&output).is_none());
        let Product::Foreign(product) = output.product else {
            panic!("foreign work yields what it likes");
        };
        assert_eq!(product.clone().take::<u32>(), None);
        assert_eq!(product.take(), Some(7_u64));

        let refused = Work::Foreign(Box::new(Number(0))).run(&env, ctx).err();
        assert_eq!(refused, Some(TaskError::Refused("nothing to yield".into())));
    }
}
