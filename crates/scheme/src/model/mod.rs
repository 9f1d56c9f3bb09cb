//! Cost tables, and a scheme without cryptography that charges them.

mod bundle;
mod codes;
mod error;
mod rows;
mod scheme;
mod table;

pub use codes::{CodeCost, CodeOp, CodeTable};
pub use error::{SCHEMA, TableError};
pub use rows::Row;
pub use scheme::{Model, ModelKeys, ModelRegistry, ModelSigners};
pub use table::{CostTable, EvidenceBytes, FigureKind, Merged, OpCost, TableSizes};
