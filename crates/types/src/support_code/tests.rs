use super::{CellBounds, Coding, Reference, SupportCode, code_bytes_max, decode, encode};
use crate::{Bitfield, DecodeError, Layout, Reader, Support};
use proptest::prelude::*;

const CODINGS: [Coding; 4] = [Coding::Raw, Coding::Snappy, Coding::Rice, Coding::Range];

/// A fixed sequence of random numbers (SplitMix64, Steele, Lea and Flood 2014).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// True `per_million` times in a million.
    fn hit(&mut self, per_million: u64) -> bool {
        self.next() % 1_000_000 < per_million
    }

    fn bits(&mut self, n: usize, per_million: u64) -> Bitfield {
        let mut bits = Bitfield::new(n);
        for i in 0..n {
            if self.hit(per_million) {
                bits.set(i);
            }
        }
        bits
    }

    /// A copy of `bits` with each one lost and each zero gained at the given rates.
    fn disturb(&mut self, bits: &Bitfield, lost: u64, gained: u64) -> Bitfield {
        let mut out = bits.clone();
        for i in 0..bits.len() {
            let rate = if bits.get(i) { lost } else { gained };
            if self.hit(rate) {
                if bits.get(i) {
                    out.clear(i);
                } else {
                    out.set(i);
                }
            }
        }
        out
    }

    fn counted(&mut self, n: usize, max: u8, per_million: u64) -> Support {
        let list: Vec<u8> = (0..n)
            .map(|_| match self.hit(per_million) {
                true => 1 + (self.next() % u64::from(max)) as u8,
                false => 0,
            })
            .collect();
        Support::from_multiplicities(&list).unwrap()
    }
}

fn committee() -> CellBounds {
    CellBounds::committee(&Layout::new(1 << 20, 32, 64).unwrap(), 3)
}

fn round_trip(code: &SupportCode<'_>, support: &Support) -> Vec<u8> {
    let bytes = code.encode(support);
    assert_eq!(code.decode(&bytes).as_ref(), Ok(support), "{code:?}");
    let max = code_bytes_max(support.len(), support.max_multiplicity().max(1));
    assert!(bytes.len() <= max, "{} bytes, {max} allowed", bytes.len());
    bytes
}

#[test]
fn raw_codes_have_one_form() {
    let bits = Support::from_multiplicities(&[1, 0, 1, 1, 0, 0, 0, 0, 1]).unwrap();
    let code = encode(&bits, Coding::Raw, None);
    assert_eq!(code, [0, 0x10, 2, 0, 0, 0, 0x0d, 0x01]);
    assert_eq!(decode(&code, 9, 1, None), Ok(bits));
    let counted = Support::from_multiplicities(&[1, 2, 3]).unwrap();
    let code = encode(&counted, Coding::Raw, None);
    assert_eq!(code, [1, 0x20, 2, 0, 0, 0, 0b101, 0b110]);
    assert_eq!(decode(&code, 3, 3, None), Ok(counted));
    assert!(code.len() <= code_bytes_max(3, 3));
    assert_eq!(
        decode(&code, 3, 1, None),
        Err(DecodeError::TooLong {
            what: "byte string",
            value: 2,
            max: 1
        })
    );
    // An empty top plane, the multi-plane form of one plane, padding, a context, a truncation, a
    // tail.
    for bad in [
        &[1, 0x20, 2, 0, 0, 0, 0b101, 0][..],
        &[1, 0x10, 1, 0, 0, 0, 0b101],
        &[0, 0x10, 1, 0, 0, 0, 0b1101],
        &[0, 0x11, 1, 0, 0, 0, 0b101],
        &[0, 0x10, 1, 0, 0, 0],
        &[0, 0x10, 1, 0, 0, 0, 0b101, 0],
        &[9, 0x10, 1, 0, 0, 0, 0b101],
    ] {
        assert!(decode(bad, 3, 3, None).is_err(), "{bad:?}");
    }
}

#[test]
fn rice_codes_have_the_bits_of_the_lecture() {
    // 32 positions, all but position 20: one class, one rarer symbol (a zero), k = 4, gap 20:
    // a count of 1 digit of at most 5, in 3 bits: 100, no further digit, zeros are rarer: 1, then
    // quotient 1 = 01 and 0010 with its low bit first.
    let mut bits = Bitfield::ones(32);
    bits.clear(20);
    let support = Support::from_bits(bits);
    let code = encode(&support, Coding::Rice, None);
    assert_eq!(code, [16, 0x10, 0b0010_1001, 0b0000_0001]);
    assert_eq!(decode(&code, 32, 1, None), Ok(support));
}

#[test]
fn counted_codes_have_the_bits_of_the_lecture() {
    // 40 positions in two cells, twice each, but position 5 once and position 30 not at all.
    // u1: head 100 1, k = 5, gap 30: 1 01111. u2 of 39: flags 11, head 100 0, k = 5, gap 5:
    // 1 10100. u3 of 38: flags 00, head 000 0.
    let cells = CellBounds::committee(&Layout::new(40, 1, 2).unwrap(), 0);
    let mut list = [2; 40];
    (list[5], list[30]) = (1, 0);
    let support = Support::from_multiplicities(&list).unwrap();
    let code = SupportCode::new(Coding::Rice, 3, &cells, Reference::None);
    let bytes = code.encode(&support);
    assert_eq!(bytes, [16, 0x20, 0xd9, 0x1f, 0x0b, 0]);
    assert_eq!(code.decode(&bytes), Ok(support));
}

#[test]
#[should_panic(expected = "part of `any`")]
fn a_link_reference_must_be_consistent() {
    let (none, ones) = (Bitfield::new(8), Bitfield::ones(8));
    let reference = Reference::Link {
        chain: &none,
        any: &none,
        all: &ones,
    };
    let cells = CellBounds::one(8);
    let _ = SupportCode::new(Coding::Rice, 1, &cells, reference);
}

#[test]
fn every_length_round_trips() {
    let mut random = Random(1);
    for n in (0..600).chain([1 << 15]) {
        let cells = CellBounds::one(n as u32);
        for per_million in [0, 2_000, 30_000, 350_000, 500_000, 990_000, 1_000_000] {
            let chain = random.bits(n, per_million);
            let bits = random.disturb(&chain, 5_000, 3_000);
            let any = random.disturb(&bits, 0, 2_000);
            let all = random.disturb(&bits, 2_000, 0);
            let link = Reference::Link {
                chain: &chain,
                any: &any,
                all: &all,
            };
            let counted = random.counted(n, 1 + (n % 15) as u8, per_million);
            for reference in [Reference::None, Reference::Chain(&chain), link] {
                for coding in CODINGS {
                    let code = SupportCode::new(coding, 15, &cells, reference);
                    round_trip(&code, &Support::from_bits(bits.clone()));
                    if n < 600 || coding != Coding::Range {
                        round_trip(&code, &counted);
                    }
                }
            }
        }
    }
}

#[test]
fn cells_of_any_shape_round_trip() {
    let mut random = Random(2);
    for (n, c, s) in [(10, 3, 7), (3, 2, 256), (5_000, 4, 33), (40_000, 1, 64)] {
        let layout = Layout::new(n, c, s).unwrap();
        for committee in 0..c {
            let cells = CellBounds::committee(&layout, committee);
            let len = layout.committee_len(committee) as usize;
            for max in [1, 2, 3, 7, 15] {
                for coding in CODINGS {
                    let code = SupportCode::new(coding, max, &cells, Reference::None);
                    round_trip(&code, &random.counted(len, max, 900_000));
                    round_trip(&code, &random.counted(len, max, 20_000));
                }
            }
        }
    }
}

/// Every single-bit change gives an error or another support with that very code. Every truncation
/// and every tail is rejected.
fn attack(code: &SupportCode<'_>, support: &Support) {
    let bytes = code.encode(support);
    for bit in 0..bytes.len() * 8 {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        if let Ok(other) = code.decode(&flipped) {
            assert_ne!(&other, support, "bit {bit} of {bytes:?}");
            assert_eq!(code.encode(&other), flipped, "a second code: {flipped:?}");
        }
    }
    let has_length = bytes[0] != super::TAG_RICE;
    for cut in 0..bytes.len() {
        assert!(code.decode(&bytes[..cut]).is_err());
        if has_length && cut >= super::HEADER_BYTES {
            // A truncation consistent with the length field.
            let mut shorter = bytes[..cut].to_vec();
            shorter[2..6].copy_from_slice(&((cut - 6) as u32).to_le_bytes());
            if let Ok(other) = code.decode(&shorter) {
                assert_eq!(code.encode(&other), shorter);
            }
        }
    }
    let mut longer = bytes.clone();
    longer.push(0);
    assert!(code.decode(&longer).is_err());
    // In a message more data follows, and none of it is touched.
    let mut reader = Reader::new(&longer);
    assert_eq!(code.decode_prefix(&mut reader).as_ref(), Ok(support));
    assert_eq!(reader.rest(), [0]);
    if has_length {
        let body_len = (longer.len() - 6) as u32;
        longer[2..6].copy_from_slice(&body_len.to_le_bytes());
        assert!(code.decode(&longer).is_err());
    }
}

#[test]
fn changed_bits_never_give_the_same_support() {
    let mut random = Random(3);
    let layout = Layout::new(1_200, 2, 5).unwrap();
    let cells = CellBounds::committee(&layout, 1);
    let chain = random.bits(600, 900_000);
    for coding in CODINGS {
        for reference in [Reference::None, Reference::Chain(&chain)] {
            let code = SupportCode::new(coding, 15, &cells, reference);
            for per_million in [1_000, 20_000, 300_000, 500_000, 950_000] {
                attack(&code, &Support::from_bits(random.bits(600, per_million)));
            }
            attack(&code, &random.counted(600, 3, 950_000));
            attack(&code, &random.counted(600, 15, 100_000));
        }
    }
    let cells = committee();
    let code = SupportCode::new(Coding::Rice, 3, &cells, Reference::None);
    attack(&code, &Support::from_bits(random.bits(1 << 15, 990_000)));
}

#[test]
fn every_short_body_is_refused_or_canonical() {
    for n in [9, 16, 17, 20, 24] {
        let cells = CellBounds::one(n);
        for planes in 1..=2u8 {
            let code = SupportCode::new(Coding::Rice, 3, &cells, Reference::None);
            let mut accepted = 0;
            for body in 0..=0xffffu16 {
                let body = body.to_le_bytes();
                for len in 1..=2 {
                    let mut bytes = vec![16, planes << 4];
                    bytes.extend_from_slice(&body[..len]);
                    if let Ok(support) = code.decode(&bytes) {
                        accepted += 1;
                        assert_eq!(code.encode(&support), bytes);
                    }
                }
            }
            // A body must be shorter than raw, which is two bytes up to 16 positions: one byte
            // holds the head of a class and up to four bits.
            assert!(accepted > 0, "{n} positions, {planes} planes");
        }
    }
}

fn rice_body(
    n: u32,
    multiplicity_max: u8,
    planes: u8,
    body: &[u8],
) -> Result<Support, DecodeError> {
    let cells = CellBounds::one(n);
    let mut bytes = vec![16, planes << 4];
    bytes.extend_from_slice(body);
    SupportCode::new(Coding::Rice, multiplicity_max, &cells, Reference::None).decode(&bytes)
}

#[test]
fn counts_and_quotients_at_the_limits_are_refused() {
    let n = 1 << 15;
    // The head: five bits for 0 to 15 digits of a count, or 16 for symbols; then the digits
    // without the first one.
    let head = |digits: u64, rest: u64| (digits | rest << 5).to_le_bytes();
    assert_eq!(
        rice_body(n, 1, 1, &head(15, 1)),
        Err(DecodeError::OutOfRange {
            what: "count of rarer symbols of a support code",
            value: (1 << 14) + 1,
            max: 1 << 14
        })
    );
    // As many rarer symbols as possible, but no gaps; k = 0, which is never shorter than raw.
    assert!(matches!(
        rice_body(n, 1, 1, &head(15, 0)),
        Err(DecodeError::NotCanonical { .. })
    ));
    // A thousand rarer symbols without bits for them.
    assert!(matches!(
        rice_body(n, 1, 1, &head(10, 1_000 - 512)),
        Err(DecodeError::Truncated { .. })
    ));
    // Numbers of digits that no count and no symbols have.
    for digits in 17..32 {
        assert_eq!(
            rice_body(n, 1, 1, &head(digits, 0)),
            Err(DecodeError::NotCanonical {
                what: "head of a class of a support code"
            })
        );
    }
    // Plain symbols when gaps are shorter, and plain symbols that would make the code as long as
    // the raw one.
    let mut symbols = vec![0; 4_097];
    symbols[0] = 16;
    assert!(rice_body(n, 1, 1, &symbols).is_err());
    // One rarer symbol whose quotient is all zeros to the end, or beyond the class.
    let mut body = vec![0; 4_000];
    body[0] = 1;
    assert!(matches!(
        rice_body(n, 1, 1, &body),
        Err(DecodeError::OutOfRange { .. })
    ));
    for huge in [u32::MAX, 4_097] {
        let mut bytes = vec![0, 0x10];
        bytes.extend_from_slice(&huge.to_le_bytes());
        assert_eq!(
            decode(&bytes, 1 << 15, 1, None),
            Err(DecodeError::TooLong {
                what: "byte string",
                value: u64::from(huge),
                max: 4_096
            })
        );
    }
}

#[test]
fn an_announced_length_allocates_nothing() {
    let cells = committee();
    let code = SupportCode::new(Coding::Snappy, 1, &cells, Reference::None);
    // A block that claims to hold 2^32 - 1 bytes.
    let bomb = [2, 0x10, 5, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0x0f];
    assert_eq!(
        code.decode(&bomb),
        Err(DecodeError::OutOfRange {
            what: "Snappy block of a support code",
            value: 0xffff_ffff,
            max: 4_096
        })
    );
}

#[test]
fn only_the_agreed_coding_and_context_are_accepted() {
    let mut random = Random(4);
    let cells = committee();
    let chain = random.bits(1 << 15, 990_000);
    let support = Support::from_bits(random.disturb(&chain, 3_000, 3_000));
    for sent in CODINGS {
        let bytes = SupportCode::new(sent, 3, &cells, Reference::None).encode(&support);
        for agreed in CODINGS {
            let code = SupportCode::new(agreed, 3, &cells, Reference::None);
            assert_eq!(code.decode(&bytes).is_ok(), sent == agreed);
        }
        let with_chain = SupportCode::new(sent, 3, &cells, Reference::Chain(&chain));
        let bytes_of_chain = with_chain.encode(&support);
        if matches!(sent, Coding::Rice | Coding::Range) {
            assert!(bytes_of_chain.len() < bytes.len());
            assert!(with_chain.decode(&bytes).is_err());
        } else {
            assert_eq!(bytes_of_chain, bytes);
        }
    }
    // Another reference: an error, or another support with that very code.
    let mut other = chain.clone();
    other.toggle(&random.bits(1 << 15, 1_000));
    let bytes =
        SupportCode::new(Coding::Rice, 3, &cells, Reference::Chain(&chain)).encode(&support);
    let code = SupportCode::new(Coding::Rice, 3, &cells, Reference::Chain(&other));
    if let Ok(wrong) = code.decode(&bytes) {
        assert_ne!(wrong, support);
        assert_eq!(code.encode(&wrong), bytes);
    }
    assert!(support.max_multiplicity() == 1 && code.decode(&[]).is_err());
}

#[test]
fn multiplicities_above_the_bound_are_refused() {
    let cells = CellBounds::one(400);
    let mut list = [0; 400];
    (list[7], list[300]) = (3, 1);
    let support = Support::from_multiplicities(&list).unwrap();
    for coding in [Coding::Raw, Coding::Rice, Coding::Range] {
        let bytes = SupportCode::new(coding, 3, &cells, Reference::None).encode(&support);
        let bound = SupportCode::new(coding, 2, &cells, Reference::None).decode(&bytes);
        assert_eq!(
            bound,
            Err(DecodeError::OutOfRange {
                what: "multiplicity",
                value: 3,
                max: 2
            })
        );
    }
}

#[test]
fn sizes_are_near_the_entropy() {
    let mut random = Random(6);
    let cells = committee();
    for coding in [Coding::Rice, Coding::Range] {
        let code = SupportCode::new(coding, 1, &cells, Reference::None);
        for per_mille in [
            0, 1, 2, 5, 10, 20, 50, 100, 150, 200, 250, 300, 333, 350, 370, 388, 400, 450, 500,
            735, 950, 990, 999, 1_000,
        ] {
            let support = Support::from_bits(random.bits(1 << 15, per_mille * 1_000));
            let bytes = round_trip(&code, &support).len() as f64;
            let entropy = code.entropy_bits(&support) / 8.0;
            let bound = match coding {
                Coding::Rice => entropy * 1.045 + 12.0,
                _ => entropy * 1.005 + 12.0,
            };
            assert!(
                bytes <= bound,
                "{coding:?} at {per_mille} per mille: {bytes} bytes, entropy {entropy}"
            );
        }
    }
}

proptest! {
    #[test]
    fn any_support_round_trips(
        list in proptest::collection::vec(0u8..=15, 0..600),
        max in 1u8..=15,
        reference in proptest::collection::vec(any::<bool>(), 600),
        s in 1u16..70,
    ) {
        let list: Vec<u8> = list.into_iter().map(|m| m % (max + 1)).collect();
        let support = Support::from_multiplicities(&list).unwrap();
        let cells = match Layout::new(list.len() as u32, 1, s) {
            Ok(layout) => CellBounds::committee(&layout, 0),
            Err(_) => CellBounds::one(0),
        };
        let mut chain = Bitfield::new(list.len());
        (0..list.len()).filter(|&i| reference[i]).for_each(|i| chain.set(i));
        for coding in CODINGS {
            for reference in [Reference::None, Reference::Chain(&chain)] {
                round_trip(&SupportCode::new(coding, max, &cells, reference), &support);
            }
        }
        for coding in [Coding::Raw, Coding::Rice] {
            let bytes = encode(&support, coding, Some(&chain));
            prop_assert_eq!(decode(&bytes, list.len(), max, Some(&chain)), Ok(support.clone()));
        }
    }

    #[test]
    fn any_bytes_are_refused_or_canonical(
        tag in prop::sample::select(vec![0u8, 1, 2, 16, 17]),
        planes in 0u8..6,
        body in proptest::collection::vec(any::<u8>(), 0..60),
        n in 0u32..200,
    ) {
        let mut bytes = vec![tag, planes << 4];
        if tag != 16 {
            bytes.extend_from_slice(&(body.len() as u32).to_le_bytes());
        }
        bytes.extend_from_slice(&body);
        let cells = CellBounds::one(n);
        for coding in CODINGS {
            let code = SupportCode::new(coding, 15, &cells, Reference::None);
            if let Ok(support) = code.decode(&bytes) {
                prop_assert_eq!(&code.encode(&support), &bytes);
            }
        }
    }
}

/// Size of `collections` in KiB for 32 such committees, with each collection in a separate message.
fn slot_kib(coding: Coding, collections: &[Bitfield], chain: Option<&Bitfield>, link: bool) -> f64 {
    let n = collections[0].len();
    let cells = CellBounds::one(n as u32);
    let (mut any, mut all) = (Bitfield::new(n), Bitfield::new(n));
    let mut bytes = 0;
    for (i, collection) in collections.iter().enumerate() {
        let reference = match chain {
            None => Reference::None,
            Some(chain) if !link => Reference::Chain(chain),
            Some(chain) => Reference::Link {
                chain,
                any: &any,
                all: &all,
            },
        };
        let code = SupportCode::new(coding, 1, &cells, reference);
        bytes += round_trip(&code, &Support::from_bits(collection.clone())).len();
        any.union_with(collection);
        if i == 0 {
            all = collection.clone();
        } else {
            all.intersect_with(collection);
        }
    }
    bytes as f64 * 32.0 / 1024.0
}

/// The collections of one committee of 2^15: 0.3 % of all bits differ from the last slot, and each
/// of 16 collections misses 0.2 % of the votes.
fn collections(random: &mut Random, percent: u64) -> (Bitfield, Vec<Bitfield>) {
    let online = random.bits(1 << 15, percent * 10_000);
    let chain = random.disturb(&online, 3_000, 3_000);
    let collections = (0..16).map(|_| random.disturb(&online, 2_000, 0));
    (chain, collections.collect())
}

#[test]
fn sizes_of_a_slot() {
    // The table of the lecture: participation in percent, then Snappy, Rice without context and
    // with chain and link, range with chain and link; KiB, 3 % of play for another random draw.
    let table = [
        (50, [2051.0, 2051.0, 78.0, 29.0, 80.0, 30.0]),
        (95, [1305.0, 614.0, 78.0, 46.0, 80.0, 48.0]),
        (99, [561.0, 197.0, 65.0, 47.0, 68.0, 48.0]),
    ];
    let mut random = Random(7);
    for (percent, expected) in table {
        let (chain, collections) = collections(&mut random, percent);
        let sizes = [
            slot_kib(Coding::Snappy, &collections, None, false),
            slot_kib(Coding::Rice, &collections, None, false),
            slot_kib(Coding::Rice, &collections, Some(&chain), false),
            slot_kib(Coding::Rice, &collections, Some(&chain), true),
            slot_kib(Coding::Range, &collections, Some(&chain), false),
            slot_kib(Coding::Range, &collections, Some(&chain), true),
        ];
        println!("{percent} %: {sizes:.0?}");
        for (size, expected) in sizes.iter().zip(&expected) {
            let play = 0.03 * expected + 5.0;
            assert!((size - expected).abs() <= play, "{percent} %: {sizes:?}");
        }
    }
}

#[test]
fn the_collections_of_a_slot_fit_in_80_kib() {
    for percent in [95, 99] {
        for seed in 0..4 {
            let mut random = Random(seed);
            let (mut bytes, mut entropy_bits) = (0, 0.0);
            for _ in 0..32 {
                let (chain, collections) = collections(&mut random, percent);
                let cells = committee();
                let code = SupportCode::new(Coding::Rice, 3, &cells, Reference::Chain(&chain));
                for collection in collections {
                    let support = Support::from_bits(collection);
                    bytes += round_trip(&code, &support).len();
                    entropy_bits += code.entropy_bits(&support);
                }
            }
            let (kib, least) = (bytes as f64 / 1024.0, entropy_bits / 8.0 / 1024.0);
            println!("{percent} %, seed {seed}: {kib:.1} KiB for 512, entropy {least:.1} KiB");
            assert!(kib <= 80.0, "{percent} %, seed {seed}: {kib} KiB");
        }
    }
}

#[test]
fn flags_of_cells_pay_for_picks_of_cells() {
    // 95 % online; nine cells of ten have two picks, each of which misses 1 %.
    let mut random = Random(8);
    let cells = committee();
    let mut list = vec![0; 1 << 15];
    for cell in list.chunks_mut(512) {
        let picks = if random.hit(900_000) { 2 } else { 1 };
        for m in cell {
            if random.hit(950_000) {
                *m = (0..picks).filter(|_| !random.hit(10_000)).count() as u8;
            }
        }
    }
    let support = Support::from_multiplicities(&list).unwrap();
    let one = CellBounds::one(1 << 15);
    let size = |cells| {
        round_trip(
            &SupportCode::new(Coding::Rice, 3, cells, Reference::None),
            &support,
        )
        .len()
    };
    let (with_cells, without) = (size(&cells), size(&one));
    assert!(
        with_cells < 1_900 && 4 * with_cells < 3 * without,
        "{with_cells} bytes, {without} as one cell"
    );
}

/// One bit for each of 392,036 positions, from a real epoch (`vectors/`).
fn goerli(flag: &str) -> Bitfield {
    let root = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../vectors/goerli-epoch-148260"
    );
    let bytes = std::fs::read(format!("{root}/{flag}.bits")).unwrap();
    Bitfield::from_bytes(&bytes, 392_036).unwrap()
}

#[test]
fn real_participation_round_trips_near_its_entropy() {
    let layout = Layout::new(392_036, 32, 64).unwrap();
    for flag in ["source", "target", "head"] {
        let bits = goerli(flag);
        for c in 0..32 {
            let range = layout.committee_range(c);
            let committee = bits.extract(range.start as usize..range.end as usize);
            let cells = CellBounds::committee(&layout, c);
            let code = SupportCode::new(Coding::Rice, 1, &cells, Reference::None);
            let support = Support::from_bits(committee);
            let bytes = round_trip(&code, &support).len();
            let entropy = code.entropy_bits(&support) / 8.0;
            // Whole cells without a vote (committees 29 to 31) are long runs, for which the gaps
            // are far from geometric.
            let play = if c < 29 { 1.045 } else { 1.09 };
            assert!(
                bytes as f64 <= entropy * play + 12.0,
                "{flag} {c}: {bytes} bytes, entropy {entropy}"
            );
            // The six slots with a late or missing block: a wrong bit order or boundary would
            // smear them.
            let is_late = flag == "head" && [13, 14, 24, 27, 29, 30].contains(&c);
            assert_eq!(support.is_empty(), is_late, "{flag} of committee {c}");
            if is_late {
                // Tag, info and the head of a class without a rarer symbol.
                assert_eq!(bytes, 3);
            }
            if (flag, c) == ("target", 0) {
                assert_eq!((support.len(), support.signer_count()), (12_251, 8_928));
            }
        }
    }
}
