//! The published model of coded broadcast in synchronous rounds (ethresear.ch 21370, January 2025).
//!
//! Every node draws its out-neighbours uniformly with replacement. In a round, all messages are created from the
//! state at its start, then delivered in the order (sender, neighbour). There is no latency, no bandwidth limit and
//! no loss: a round is a hop. This is a count, not a simulation of a network; the reports say so.
//!
//! The published comparison lets gossip send again in every round, and stops counting the code at completion. For a
//! like-for-like comparison, both send once and are counted until nothing is left to send: [`Sending::Once`] with
//! [`Stop::Quiescence`].

use crate::random;
use alphorn_proto::rlnc::{
    Coding, Cut, Distribution, HeaderError, Model16, PAYLOAD_BYTES_MAX, Subject,
};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::Rng;

/// Maximum number of nodes in a run.
pub const NODES_MAX: u32 = 1 << 20;
/// Maximum number of connections in a run, which is all out-neighbours of all nodes: 512 MB for the graph.
pub const LINKS_MAX: u64 = 1 << 27;
/// Maximum number of rounds in a run: a run that needs more has nodes without in-neighbours.
pub(crate) const ROUNDS_MAX: u32 = 200;

/// How a payload travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Whole, sent by nodes that have it.
    Gossip,
    /// As combinations of `chunks` source chunks, sent by nodes that have any.
    Rlnc {
        /// Source chunks, 1 to 64.
        chunks: u16,
    },
}

/// In which rounds a node sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sending {
    /// In the round after it first has something to send, and never again.
    Once,
    /// In every round from then on.
    Every,
}

/// When counting ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// After the round in which this share of the nodes, in percent, is complete.
    Percent(u8),
    /// When no node sends any more.
    Quiescence,
}

/// A run of the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Model {
    /// Number of nodes, 2 to [`NODES_MAX`]; node 0 is the source.
    pub nodes: u32,
    /// Out-neighbours that each node draws, 1 to 1,000; at most [`LINKS_MAX`] over all nodes.
    pub degree: u16,
    /// Size of the payload in bytes.
    pub payload_bytes: u32,
    /// What is sent.
    pub kind: Kind,
    /// When nodes send.
    pub sending: Sending,
    /// When counting ends.
    pub stop: Stop,
}

/// A model outside its bounds.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ModelError {
    /// A number outside its range.
    #[error("{what} = {value}, allowed {min} to {max}")]
    Range {
        /// Its name.
        what: &'static str,
        /// Its value.
        value: u64,
        /// Minimum allowed.
        min: u64,
        /// Maximum allowed.
        max: u64,
    },
    /// The payload cannot be split this way.
    #[error("payload: {0}")]
    Cut(#[from] HeaderError),
    /// Nodes that send in every round never stop by themselves.
    #[error("sending in every round until quiescence never ends")]
    Endless,
}

/// Counts of one run of the model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rounds {
    /// Number of nodes.
    pub nodes: u32,
    /// Rounds until the last node to complete was complete (or the requested share was).
    pub hops: u32,
    /// Whether the stop condition was reached; if not, the graph does not allow it.
    pub reached: bool,
    /// Complete nodes after each round, the source included.
    pub complete: Vec<u32>,
    /// Bytes sent by all nodes.
    pub sent_bytes: u64,
    /// Bytes of deliveries that carried nothing new to the receiver, over all nodes.
    pub wasted_bytes: u64,
}

impl Model {
    /// Counts one run.
    ///
    /// # Errors
    /// [`ModelError`] if the model is out of bounds.
    pub fn run(&self, seed: u64) -> Result<Rounds, ModelError> {
        self.check()?;
        let graph = Graph::draw(self.nodes, self.degree, seed);
        match self.kind {
            Kind::Gossip => Ok(self.count(&graph, Whole::new(self.nodes, self.payload_bytes))),
            Kind::Rlnc { chunks } => {
                let coded = Coded::new(self.nodes, self.payload_bytes, chunks, seed)?;
                Ok(self.count(&graph, coded))
            }
        }
    }

    fn check(&self) -> Result<(), ModelError> {
        let range = |what, value: u64, min: u64, max: u64| {
            if (min..=max).contains(&value) {
                Ok(())
            } else {
                Err(ModelError::Range {
                    what,
                    value,
                    min,
                    max,
                })
            }
        };
        range("nodes", self.nodes.into(), 2, NODES_MAX.into())?;
        range("degree", self.degree.into(), 1, 1000)?;
        let links = u64::from(self.nodes) * u64::from(self.degree);
        range("nodes times degree", links, 1, LINKS_MAX)?;
        if let Stop::Percent(percent) = self.stop {
            range("percent", percent.into(), 1, 100)?;
        }
        if (self.sending, self.stop) == (Sending::Every, Stop::Quiescence) {
            return Err(ModelError::Endless);
        }
        Ok(())
    }

    fn count<S: Spread>(&self, graph: &Graph, mut spread: S) -> Rounds {
        let nodes = self.nodes as usize;
        let mut sent = vec![false; nodes];
        let mut full = vec![false; nodes];
        full[0] = true;
        let mut rounds = Rounds {
            nodes: self.nodes,
            hops: 0,
            reached: false,
            complete: Vec::new(),
            sent_bytes: 0,
            wasted_bytes: 0,
        };
        let goal = match self.stop {
            Stop::Percent(percent) => (u64::from(self.nodes) * u64::from(percent)).div_ceil(100),
            Stop::Quiescence => u64::MAX,
        };
        let mut complete = 1_u32;
        for round in 1..=ROUNDS_MAX {
            let mut messages = Vec::new();
            for (node, has_sent) in sent.iter_mut().enumerate() {
                if !spread.may_send(node) || (self.sending == Sending::Once && *has_sent) {
                    continue;
                }
                *has_sent = true;
                for &to in graph.neighbours(node) {
                    if to as usize != node {
                        messages.push((to, spread.make(node)));
                    }
                }
            }
            if messages.is_empty() {
                rounds.reached = self.stop == Stop::Quiescence;
                break;
            }
            rounds.sent_bytes += messages.len() as u64 * spread.message_bytes();
            for (to, message) in messages {
                let node = to as usize;
                if !spread.deliver(node, message) {
                    rounds.wasted_bytes += spread.message_bytes();
                } else if !full[node] && spread.is_complete(node) {
                    full[node] = true;
                    complete += 1;
                    rounds.hops = round;
                }
            }
            rounds.complete.push(complete);
            if u64::from(complete) >= goal {
                rounds.reached = true;
                break;
            }
        }
        rounds
    }
}

/// Out-neighbours of all nodes, row by row.
struct Graph {
    degree: usize,
    to: Vec<u32>,
}

impl Graph {
    fn draw(nodes: u32, degree: u16, seed: u64) -> Graph {
        let mut rng = random::stream(seed, "rounds graph", 0);
        let count = nodes as usize * usize::from(degree);
        Graph {
            degree: usize::from(degree),
            to: (0..count).map(|_| below(&mut rng, nodes)).collect(),
        }
    }

    fn neighbours(&self, node: usize) -> &[u32] {
        &self.to[node * self.degree..(node + 1) * self.degree]
    }
}

/// Uniform below `bound`: the high half of a product, with a negligible bias of `bound`/2^64.
fn below(rng: &mut ChaCha8Rng, bound: u32) -> u32 {
    let product = u128::from(rng.next_u64()) * u128::from(bound);
    (product >> 64) as u32
}

/// State of the nodes, and the messages between them.
trait Spread {
    type Message;
    fn may_send(&self, node: usize) -> bool;
    fn make(&mut self, node: usize) -> Self::Message;
    fn message_bytes(&self) -> u64;
    /// Whether the message carried anything new for the node.
    fn deliver(&mut self, node: usize, message: Self::Message) -> bool;
    fn is_complete(&self, node: usize) -> bool;
}

struct Whole {
    has: Vec<bool>,
    bytes: u64,
}

impl Whole {
    fn new(nodes: u32, bytes: u32) -> Whole {
        let mut has = vec![false; nodes as usize];
        has[0] = true;
        Whole {
            has,
            bytes: bytes.into(),
        }
    }
}

impl Spread for Whole {
    type Message = ();

    fn may_send(&self, node: usize) -> bool {
        self.has[node]
    }

    fn make(&mut self, _: usize) {}

    fn message_bytes(&self) -> u64 {
        self.bytes
    }

    fn deliver(&mut self, node: usize, (): ()) -> bool {
        !std::mem::replace(&mut self.has[node], true)
    }

    fn is_complete(&self, node: usize) -> bool {
        self.has[node]
    }
}

/// Combinations of source chunks, with the code's own rows.
struct Coded {
    code: Model16,
    decoders: Vec<<Model16 as Coding>::Decoder>,
    chunk_bytes: u64,
    rng: ChaCha8Rng,
}

impl Coded {
    fn new(nodes: u32, bytes: u32, chunks: u16, seed: u64) -> Result<Coded, ModelError> {
        let code = Model16::new(PAYLOAD_BYTES_MAX);
        let subject = Subject {
            kind: 1,
            slot: 0,
            source: 0,
            index: 0,
        };
        // The model carries no data: an all-zero payload of the right length.
        let source = code.publish(subject, &vec![0; bytes as usize], Cut::rlnc(chunks))?;
        let mut decoders = vec![code.decoder(&source.header); nodes as usize];
        decoders[0] = source.decoder;
        Ok(Coded {
            code,
            decoders,
            chunk_bytes: u64::from(bytes).div_ceil(u64::from(chunks)),
            rng: random::stream(seed, "rounds coefficients", 0),
        })
    }
}

impl Spread for Coded {
    type Message = Option<<Model16 as Coding>::Piece>;

    fn may_send(&self, node: usize) -> bool {
        self.code.rank(&self.decoders[node], 0) > 0
    }

    fn make(&mut self, node: usize) -> Self::Message {
        let decoder = &self.decoders[node];
        self.code
            .draw(decoder, 0, Distribution::Fresh, &mut self.rng)
    }

    fn message_bytes(&self) -> u64 {
        self.chunk_bytes
    }

    fn deliver(&mut self, node: usize, message: Self::Message) -> bool {
        let decoder = &mut self.decoders[node];
        message.is_some_and(|piece| self.code.accept(decoder, piece))
    }

    fn is_complete(&self, node: usize) -> bool {
        self.code.is_full(&self.decoders[node])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rayon::prelude::*;

    /// The payload of the published table.
    const BYTES: u32 = 10_000;
    const NODES: u32 = 10_000;

    fn gossip(degree: u16, sending: Sending, stop: Stop) -> Model {
        Model {
            nodes: NODES,
            degree,
            payload_bytes: BYTES,
            kind: Kind::Gossip,
            sending,
            stop,
        }
    }

    fn rlnc(degree: u16, sending: Sending, stop: Stop) -> Model {
        Model {
            kind: Kind::Rlnc { chunks: 10 },
            ..gossip(degree, sending, stop)
        }
    }

    /// Checks that hops are equal and that the mean waste per node is within four standard deviations of that of 20
    /// other seeds.
    fn holds(model: Model, seeds: u64, hops: u32, mean: u64, deviation: u64) {
        (1..=seeds).into_par_iter().for_each(|seed| {
            let rounds = model.run(seed).unwrap();
            let waste = rounds.wasted_bytes / u64::from(NODES);
            assert!(rounds.reached, "seed {seed}: {rounds:?}");
            assert_eq!(rounds.hops, hops, "seed {seed}: {rounds:?}");
            assert!(
                waste.abs_diff(mean) <= 4 * deviation,
                "seed {seed}: waste {waste}, expected {mean} within {}",
                4 * deviation
            );
        });
    }

    #[test]
    fn gossip_takes_the_published_hops_and_waste() {
        holds(
            gossip(6, Sending::Every, Stop::Percent(99)),
            20,
            7,
            92_990,
            468,
        );
        holds(
            gossip(8, Sending::Every, Stop::Percent(99)),
            20,
            6,
            100_027,
            545,
        );
    }

    #[test]
    fn coded_broadcast_takes_the_published_hops_and_waste() {
        holds(
            rlnc(40, Sending::Once, Stop::Percent(100)),
            6,
            4,
            29_898,
            20,
        );
        holds(
            rlnc(80, Sending::Once, Stop::Percent(100)),
            6,
            3,
            28_009,
            313,
        );
    }

    #[test]
    fn like_for_like_gossip_of_8_and_chunks_to_80_waste_the_same() {
        let waste = |model: Model| model.run(1).unwrap().wasted_bytes / u64::from(NODES);
        let gossip_waste = waste(gossip(8, Sending::Once, Stop::Quiescence));
        let rlnc_waste = waste(rlnc(80, Sending::Once, Stop::Quiescence));
        assert!(gossip_waste.abs_diff(69_969) <= 4 * 13, "{gossip_waste}");
        // 80 chunks of a tenth each, minus the ten that are new; a sender skips itself.
        assert!((69_900..=70_000).contains(&rlnc_waste), "{rlnc_waste}");
        let six = waste(gossip(6, Sending::Once, Stop::Quiescence));
        assert!(six.abs_diff(49_879) <= 4 * 25, "{six}");
    }

    #[test]
    fn few_neighbours_and_many_chunks_take_longer_than_published() {
        let ten = rlnc(10, Sending::Every, Stop::Percent(99)).run(1).unwrap();
        assert_eq!((ten.hops, ten.reached), (8, true));
        let six = rlnc(6, Sending::Every, Stop::Percent(99)).run(1).unwrap();
        // 1.5 % of the nodes have one in-neighbour, so some of them are among the first 99 %: they get one chunk a
        // round, five rounds after the source's first.
        assert_eq!((six.hops, six.reached), (15, true));
        assert!(
            six.complete[9] > 9_500,
            "95 % are done as published: {six:?}"
        );
        let fewer = Model {
            kind: Kind::Rlnc { chunks: 5 },
            ..rlnc(6, Sending::Every, Stop::Percent(99))
        };
        assert_eq!(fewer.run(1).unwrap().hops, 10, "a round a chunk");
        // A fraction e^-6 of the nodes have no in-neighbour and wait forever.
        let few = Model {
            nodes: 1000,
            ..rlnc(6, Sending::Every, Stop::Percent(100))
        };
        let few = few.run(1).unwrap();
        assert!(!few.reached && few.complete.len() == ROUNDS_MAX as usize);
        assert!((990..1000).contains(few.complete.last().unwrap()));
    }

    /// x_t = 1 - exp(-D·x_(t-1)) with the exponential as the limit of (1 - 1/n)^k.
    #[test]
    fn gossip_follows_the_mean_field() {
        for degree in [6, 8] {
            let rounds = gossip(degree, Sending::Every, Stop::Percent(99))
                .run(3)
                .unwrap();
            let mut share = 1.0 / f64::from(NODES);
            let mut hops = 0;
            while share < 0.99 {
                share = 1.0 - (-f64::from(degree) * share).exp();
                hops += 1;
            }
            assert_eq!(rounds.hops, hops);
        }
    }

    #[test]
    fn a_run_is_a_function_of_its_seed() {
        let model = Model {
            nodes: 500,
            ..rlnc(20, Sending::Once, Stop::Quiescence)
        };
        assert_eq!(model.run(5), model.run(5));
        assert_ne!(model.run(5), model.run(6));
        let sent = model.run(5).unwrap();
        assert!(sent.sent_bytes > sent.wasted_bytes);
    }

    #[test]
    fn models_outside_their_bounds_are_refused_by_name() {
        let good = gossip(6, Sending::Once, Stop::Quiescence);
        let error = |model: Model| model.run(1).unwrap_err().to_string();
        assert!(error(Model { nodes: 1, ..good }).contains("nodes = 1, allowed 2"));
        assert!(error(Model { degree: 0, ..good }).contains("degree = 0"));
        let wide = Model {
            nodes: NODES_MAX,
            degree: 129,
            ..good
        };
        assert!(error(wide).contains("nodes times degree = 135266304, allowed 1 to 134217728"));
        assert!(
            error(Model {
                stop: Stop::Percent(101),
                ..good
            })
            .contains("percent = 101")
        );
        assert!(
            error(Model {
                sending: Sending::Every,
                ..good
            })
            .contains("never ends")
        );
        let chunks = Kind::Rlnc { chunks: 65 };
        assert!(
            error(Model {
                kind: chunks,
                ..good
            })
            .contains("65")
        );
    }
}
