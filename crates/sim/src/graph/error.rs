//! Why a graph cannot be constructed.

/// Why a graph cannot be constructed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GraphError {
    /// Too many connections.
    #[error("ends of connections = {value}, must be at most {max}")]
    TooMany {
        /// Number given.
        value: u64,
        /// Maximum allowed.
        max: u64,
    },
    /// A line of the file is not an edge.
    #[error("line {line} of the graph: {text:?}, expected two numbers below {nodes}")]
    Line {
        /// Its number, from 1.
        line: usize,
        /// Text of the line.
        text: String,
        /// Number of nodes.
        nodes: u32,
    },
    /// The file was not supplied with the scenario.
    #[error("graph file {path:?} was not read")]
    Missing {
        /// Its name.
        path: String,
    },
}
