//! Bytes of messages that are actually built: the protocol's own encoders over drawn participation.

use super::Args;
use crate::attack::{AttackedCell, Play, Setting};
use crate::draw::{
    Aggregates, Draw, Network, aggregates as draw_aggregates, cell_ranges, covered, flipped, join,
    missing,
};
use alphorn_proto::horn::{Config, SchemeInfo};
use alphorn_proto::wire::digest::body_digest;
use alphorn_proto::wire::{Aggregate, Block, Body, Context, Entry, Header, Vote, WireFormat};
use alphorn_scheme::{Bytes, Evidence};
use alphorn_types::support_code::Coding;
use alphorn_types::{Bitfield, Cell, Slot, Support, Validator};
use anyhow::Context as _;
use rayon::prelude::*;
use std::ops::AddAssign;
use std::sync::Arc;

/// Bytes of a set of messages under each encoding of supports.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Encoded {
    /// Whether the messages are collections.
    pub(super) is_collections: bool,
    pub(super) messages: u64,
    /// Raw, with the greatest multiplicities.
    pub(super) raw_bytes: u64,
    pub(super) rice_bytes: u64,
    /// The part of these bytes that encodes supports.
    pub(super) rice_support_bytes: u64,
    /// Rice with the previous slot as context.
    pub(super) chain_bytes: u64,
    pub(super) chain_support_bytes: u64,
}

impl AddAssign for Encoded {
    fn add_assign(&mut self, other: Self) {
        self.is_collections |= other.is_collections;
        self.messages += other.messages;
        self.raw_bytes += other.raw_bytes;
        self.rice_bytes += other.rice_bytes;
        self.rice_support_bytes += other.rice_support_bytes;
        self.chain_bytes += other.chain_bytes;
        self.chain_support_bytes += other.chain_support_bytes;
    }
}

/// Bytes of one block.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Blocks {
    pub(super) entries: u64,
    pub(super) raw_bytes: u64,
    pub(super) rice_bytes: u64,
    pub(super) chain_bytes: u64,
}

/// What the collections of a committee contain.
#[derive(Clone, Copy, Debug)]
pub(super) enum Content {
    /// Each has its own part of the votes: the share that it misses.
    Misses(f64),
    /// The sum of aggregates that miss this share, by the configured cover.
    Covered(f64),
    /// The same under a griefing attack, each group of Eve's voters dropping the votes that it pays for.
    Attacked(Setting),
}

/// The three encodings of a support.
struct Formats {
    raw: WireFormat,
    rice: WireFormat,
    chain: WireFormat,
}

impl Formats {
    fn of(config: &Config, info: &SchemeInfo) -> Self {
        let format = |coding, context| WireFormat {
            coding,
            context,
            ..config.format(info)
        };
        Formats {
            raw: format(Coding::Raw, Context::None),
            rice: format(Coding::Rice, Context::None),
            chain: format(Coding::Rice, Context::Chain),
        }
    }
}

fn random_bytes(draw: &mut Draw, len: usize) -> Bytes {
    let mut bytes = vec![0; len];
    draw.fill(&mut bytes);
    bytes.into()
}

fn vote() -> Vote {
    Vote {
        slot: Slot(1),
        ..Vote::default()
    }
}

/// Returns the bytes of the support's code in `message`, given the bytes under raw planes.
fn support_bytes(message: usize, raw_message: usize, raw_support: &Support) -> u64 {
    let raw_code = alphorn_types::support_code::HEADER_BYTES
        + raw_support.planes_count() * raw_support.len().div_ceil(8);
    (message + raw_code - raw_message) as u64
}

/// Aggregates of the first committee, and of all.
pub(super) struct Cells {
    pub(super) first_committee: Encoded,
    pub(super) all: Encoded,
}

/// Encodes the aggregates of every cell.
pub(super) fn aggregates(
    network: &Network,
    config: &Config,
    info: &SchemeInfo,
    args: &Args,
) -> Cells {
    let formats = Formats::of(config, info);
    let one = |c: u16| {
        let mut draw = Draw::new(args.common.seed, u64::from(c));
        let online = network.online(c, &mut draw);
        let before = flipped(&online, args.flip, &mut draw);
        let mut sum = Encoded::default();
        for (subcommittee, range) in (0..).zip(cell_ranges(&network.layout, c)) {
            let cell = Cell {
                committee: c,
                subcommittee,
            };
            let online = online.extract(range);
            let made = draw_aggregates(
                &online,
                args.aggregators,
                args.aggregate_misses(),
                &mut draw,
            );
            for (_, signers) in made {
                let aggregate = Aggregate {
                    vote: vote(),
                    unit: cell.into(),
                    sender: Validator(0),
                    proof: formats
                        .raw
                        .selection_proof_bytes
                        .map(|len| random_bytes(&mut draw, len)),
                    evidence: evidence(&mut draw, Support::from_bits(signers), info, true),
                    envelope: random_bytes(&mut draw, formats.raw.duty_signature_bytes),
                };
                sum += encode_aggregate(&aggregate, &formats, &before);
            }
        }
        sum
    };
    let committees: Vec<Encoded> = (0..network.layout.committees())
        .into_par_iter()
        .map(one)
        .collect();
    let mut all = Encoded::default();
    committees.iter().for_each(|committee| all += *committee);
    Cells {
        first_committee: committees.first().copied().unwrap_or_default(),
        all,
    }
}

fn evidence(draw: &mut Draw, support: Support, info: &SchemeInfo, of_cell: bool) -> Evidence {
    let length = info.evidence[usize::from(!of_cell)];
    Evidence {
        support: Arc::new(support),
        bytes: random_bytes(draw, length.max_bytes()),
    }
}

fn encode_aggregate(aggregate: &Aggregate, formats: &Formats, before: &Bitfield) -> Encoded {
    let references = |_: &Vote, _: u16| Some(before.clone());
    let bytes = |format: &WireFormat| {
        let encoded = aggregate.encode(format, &references);
        encoded.expect("the reference is always known").len()
    };
    let (raw, rice, chain) = (
        bytes(&formats.raw),
        bytes(&formats.rice),
        bytes(&formats.chain),
    );
    let support = &aggregate.evidence.support;
    Encoded {
        is_collections: false,
        messages: 1,
        raw_bytes: raw as u64,
        rice_bytes: rice as u64,
        rice_support_bytes: support_bytes(rice, raw, support),
        chain_bytes: chain as u64,
        chain_support_bytes: support_bytes(chain, raw, support),
    }
}

/// Collections of a slot, and a block of them.
pub(super) struct Drawn {
    pub(super) bytes: Encoded,
    pub(super) blocks: Blocks,
}

/// One committee's collections with what the chain shows of the previous slot.
struct Committee {
    before: Bitfield,
    bytes: Encoded,
    /// The collections that a block can include.
    kept: Vec<Aggregate>,
}

/// Encodes the collections of every committee, and a block.
pub(super) fn collections(
    network: &Network,
    config: &Config,
    info: &SchemeInfo,
    args: &Args,
    content: Content,
) -> anyhow::Result<Drawn> {
    let formats = Formats::of(config, info);
    let committees: Vec<Committee> = (0..network.layout.committees())
        .into_par_iter()
        .map(|c| committee(network, config, info, args, content, &formats, c))
        .collect();
    let mut bytes = Encoded::default();
    committees
        .iter()
        .for_each(|committee| bytes += committee.bytes);
    let blocks = block(&committees, config, &formats)?;
    Ok(Drawn { bytes, blocks })
}

fn committee(
    network: &Network,
    config: &Config,
    info: &SchemeInfo,
    args: &Args,
    content: Content,
    formats: &Formats,
    c: u16,
) -> Committee {
    let mut draw = Draw::new(args.common.seed, u64::from(c));
    let online = network.online(c, &mut draw);
    let before = flipped(&online, args.flip, &mut draw);
    let mut bytes = Encoded::default();
    let mut kept = Vec::new();
    // A block takes committees in round-robin order.
    let committees = usize::from(network.layout.committees());
    let kept_max = usize::from(config.collections_per_block_max).div_ceil(committees);
    let sum = match content {
        Content::Misses(_) => None,
        Content::Covered(_) | Content::Attacked(_) => Some(cover_committee(
            network, config, &online, content, c, &mut draw,
        )),
    };
    for _ in 0..config.levels[1].publishers {
        let support = match (&sum, content) {
            (None, Content::Misses(misses)) => {
                Support::from_bits(missing(&online, misses, &mut draw))
            }
            (Some(sum), _) => sum.clone(),
            (None, _) => Support::new(online.len()),
        };
        let collection = Aggregate {
            vote: vote(),
            unit: config.layout.committee(c),
            sender: Validator(0),
            proof: formats
                .raw
                .selection_proof_bytes
                .map(|len| random_bytes(&mut draw, len)),
            evidence: evidence(&mut draw, support, info, false),
            envelope: random_bytes(&mut draw, formats.raw.duty_signature_bytes),
        };
        bytes += encode_collection(&collection, config, formats, &before);
        if kept.len() < kept_max {
            kept.push(collection);
        }
    }
    Committee {
        before,
        bytes,
        kept,
    }
}

/// Returns the collections that every collector of a committee makes of its aggregates.
fn cover_committee(
    network: &Network,
    config: &Config,
    online: &Bitfield,
    content: Content,
    c: u16,
    draw: &mut Draw,
) -> Support {
    let overlap = alphorn_scheme::Overlap::Counted {
        max: config.multiplicity_max,
    };
    let (rule, picks) = config.levels[1]
        .cover
        .under(overlap, config.multiplicity_max);
    let cells: Vec<Support> = cell_ranges(&network.layout, c)
        .into_iter()
        .map(|range| {
            let online = online.extract(range);
            let aggregates: Aggregates = match content {
                Content::Attacked(setting) => {
                    let drop = (setting.eve_voters(online.len()) as u32).saturating_sub(1);
                    let play = Play { split: 1, drop };
                    AttackedCell::draw(&online, &setting, draw).aggregates(play)
                }
                Content::Covered(misses) | Content::Misses(misses) => {
                    draw_aggregates(&online, config.levels[0].publishers, misses, draw)
                }
            };
            covered(&aggregates, rule, picks).0
        })
        .collect();
    join(&network.layout, c, &cells)
}

/// Returns a support of the same length with every multiplicity at `max`: the maximum cost of raw planes.
fn greatest(support: &Support, max: u8) -> Support {
    let plane = Bitfield::ones(support.len());
    let planes = u8::BITS - max.leading_zeros();
    Support::from_planes(vec![plane; planes as usize]).unwrap_or_else(|| support.clone())
}

fn encode_collection(
    collection: &Aggregate,
    config: &Config,
    formats: &Formats,
    before: &Bitfield,
) -> Encoded {
    let references = |_: &Vote, _: u16| Some(before.clone());
    let bytes = |collection: &Aggregate, format: &WireFormat| {
        let encoded = collection.encode(format, &references);
        encoded.expect("the reference is always known").len()
    };
    let support = &collection.evidence.support;
    let mut largest = collection.clone();
    largest.evidence.support = Arc::new(greatest(support, config.multiplicity_max));
    let raw = bytes(collection, &formats.raw);
    let rice = bytes(collection, &formats.rice);
    let chain = bytes(collection, &formats.chain);
    Encoded {
        is_collections: true,
        messages: 1,
        raw_bytes: bytes(&largest, &formats.raw) as u64,
        rice_bytes: rice as u64,
        rice_support_bytes: support_bytes(rice, raw, support),
        chain_bytes: chain as u64,
        chain_support_bytes: support_bytes(chain, raw, support),
    }
}

/// Builds blocks of as many collections as fit, from the committees in turn.
fn block(committees: &[Committee], config: &Config, formats: &Formats) -> anyhow::Result<Blocks> {
    let references = |_: &Vote, c: u16| Some(committees[usize::from(c)].before.clone());
    let entries: Vec<Entry> = (0..usize::from(config.collections_per_block_max))
        .filter_map(|i| {
            let committee = &committees[i % committees.len()];
            committee.kept.get(i / committees.len()).map(Entry::from)
        })
        .collect();
    let largest: Vec<Entry> = entries
        .iter()
        .map(|entry| {
            let mut entry = entry.clone();
            let support = greatest(&entry.evidence.support, config.multiplicity_max);
            entry.evidence.support = Arc::new(support);
            entry
        })
        .collect();
    let encode = |entries: &[Entry], format: &WireFormat| -> anyhow::Result<usize> {
        let body = Body {
            entries: entries.to_vec(),
            bundle: Arc::from([]),
            filler: Arc::from([]),
        };
        let digest = body_digest(&body.encode(format, &references)?);
        let block = Block {
            header: Header {
                body: digest,
                ..Header::default()
            },
            signature: vec![0; format.duty_signature_bytes].into(),
            body,
        };
        block
            .encode(format, &references)
            .map(|bytes| bytes.len())
            .context("cannot encode a block")
    };
    let mut fitting = largest.len();
    let mut raw_bytes = encode(&largest, &formats.raw)?;
    while raw_bytes > config.block_bytes_max && fitting > 0 {
        fitting -= 1;
        raw_bytes = encode(&largest[..fitting], &formats.raw)?;
    }
    Ok(Blocks {
        entries: fitting as u64,
        raw_bytes: raw_bytes as u64,
        rice_bytes: encode(&entries[..fitting], &formats.rice)? as u64,
        chain_bytes: encode(&entries[..fitting], &formats.chain)? as u64,
    })
}
