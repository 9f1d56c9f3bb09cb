//! Targets of `alphorn-types`.

use alphorn_types::support_code::{CellBounds, Reference, SupportCode, code_bytes_max};
use alphorn_types::{
    Bitfield, Coding, DecodeError, Layout, MULTIPLICITY_LIMIT, Reader, Support, Writer,
};

/// Reads fields as a script demands, and writes what was read: the bytes must be the same.
///
/// Input: `steps u8 | script | bytes`; each byte of the script names the next field.
///
/// # Panics
///
/// If reading and writing disagree, or [`Reader::finish`] is wrong about the end.
pub fn codec_reader(data: &[u8]) -> bool {
    let Some((&steps, rest)) = data.split_first() else {
        return false;
    };
    let Some((script, bytes)) = rest.split_at_checked(usize::from(steps)) else {
        return false;
    };
    let mut reader = Reader::new(bytes);
    let mut writer = Writer::default();
    for &step in script {
        if copy_field(step, &mut reader, &mut writer).is_err() {
            assert!(reader.left() <= bytes.len());
            return false;
        }
    }
    let read = bytes.len() - reader.left();
    assert_eq!(reader.rest(), &bytes[read..]);
    assert_eq!(writer.as_slice(), &bytes[..read]);
    assert_eq!(reader.finish().is_ok(), read == bytes.len());
    true
}

fn copy_field(step: u8, reader: &mut Reader<'_>, writer: &mut Writer) -> Result<(), DecodeError> {
    match step % 8 {
        0 => writer.u8(reader.u8()?),
        1 => writer.u16(reader.u16()?),
        2 => writer.u32(reader.u32()?),
        3 => writer.u64(reader.u64()?),
        4 => writer.bytes(&reader.array::<7>()?),
        5 => writer.bytes(reader.bytes(usize::from(step))?),
        6 => writer.u32(reader.u32_at_most("field", u32::from(step))?),
        _ => writer.bytes_u32_prefixed(reader.bytes_u32_prefixed(usize::from(step))?),
    }
    Ok(())
}

/// Inputs whose scripts read to the end.
pub(crate) fn codec_reader_seeds() -> Vec<Vec<u8>> {
    let mut fixed = vec![6, 0, 1, 2, 3, 4, 5];
    fixed.extend(0..1 + 2 + 4 + 8 + 7 + 5);
    let prefixed = vec![2, 14, 15, 9, 0, 0, 0, 4, 0, 0, 0, b'h', b'o', b'r', b'n'];
    vec![fixed, prefixed]
}

/// Decodes a support under each coding and context; what is accepted must encode to itself.
///
/// Input: `n u16 | cells u8 | multiplicity u8 | coding and context u8 | reference u8 | code`; the
/// reference repeats its byte.
///
/// # Panics
///
/// If an accepted support is out of bounds or has a second encoding.
pub fn support_code(data: &[u8]) -> bool {
    let Some((parameters, bytes)) = data.split_first_chunk::<PARAMETER_BYTES>() else {
        return false;
    };
    Parameters::new(parameters).with_code(|code, n, multiplicity_max| {
        let Ok(support) = code.decode(bytes) else {
            return false;
        };
        assert_eq!(support.len(), n);
        assert!(support.max_multiplicity() <= multiplicity_max);
        assert!(bytes.len() <= code_bytes_max(n, multiplicity_max));
        assert_eq!(
            code.encode(&support),
            bytes,
            "a second encoding was accepted"
        );
        true
    })
}

const PARAMETER_BYTES: usize = 6;

const CODINGS: [Coding; 4] = [Coding::Raw, Coding::Snappy, Coding::Rice, Coding::Range];

/// Kinds of [`Reference`].
const CONTEXTS: u8 = 3;

/// What both sides of a support code know.
struct Parameters {
    n: u32,
    cells: CellBounds,
    multiplicity_max: u8,
    coding: Coding,
    context: u8,
    reference: u8,
}

impl Parameters {
    fn new(bytes: &[u8; PARAMETER_BYTES]) -> Self {
        let [low, high, cells, multiplicity, coding, reference] = *bytes;
        let n = u32::from(u16::from_le_bytes([low, high]));
        // Several cells need a layout, and that at least one validator a cell.
        let layout = Layout::new(n, 1, u16::from(cells));
        Self {
            n,
            cells: layout.map_or_else(|_| CellBounds::one(n), |l| CellBounds::committee(&l, 0)),
            multiplicity_max: 1 + multiplicity % MULTIPLICITY_LIMIT,
            coding: CODINGS[usize::from(coding) % CODINGS.len()],
            context: coding / 4 % CONTEXTS,
            reference,
        }
    }

    /// Calls `run` with the code, the number of positions and the bound on multiplicities.
    fn with_code<T>(&self, run: impl FnOnce(SupportCode<'_>, usize, u8) -> T) -> T {
        let n = self.n as usize;
        let chain = pattern(n, self.reference);
        let any = pattern(n, self.reference.rotate_left(3));
        let mut all = any.clone();
        all.intersect_with(&chain);
        let reference = match self.context {
            0 => Reference::None,
            1 => Reference::Chain(&chain),
            _ => Reference::Link {
                chain: &chain,
                any: &any,
                all: &all,
            },
        };
        let code = SupportCode::new(self.coding, self.multiplicity_max, &self.cells, reference);
        run(code, n, self.multiplicity_max)
    }
}

/// `n` bits that repeat those of `byte`.
fn pattern(n: usize, byte: u8) -> Bitfield {
    let mut bits = Bitfield::new(n);
    for position in (0..n).filter(|position| byte >> (position % 8) & 1 == 1) {
        bits.set(position);
    }
    bits
}

/// Codes of supports of several lengths and densities, under every coding and context.
pub(crate) fn support_code_seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for (n, cells) in [(0_u16, 1_u8), (1, 1), (9, 1), (191, 4), (600, 64)] {
        for (multiplicity_max, sparsity) in [(1_u8, 1), (1, 37), (3, 2)] {
            for coding in 0..CODINGS.len() as u8 * CONTEXTS {
                let [low, high] = n.to_le_bytes();
                let parameters = [low, high, cells, multiplicity_max - 1, coding, 0xb7];
                let multiplicity = |i: u16| match i % sparsity {
                    0 => 1 + (i % u16::from(multiplicity_max)) as u8,
                    _ => 0,
                };
                let multiplicities: Vec<u8> = (0..n).map(multiplicity).collect();
                let support = Support::from_multiplicities(&multiplicities)
                    .expect("multiplicities are within the limit");
                let mut seed = parameters.to_vec();
                Parameters::new(&parameters)
                    .with_code(|code, _, _| seed.extend(code.encode(&support)));
                seeds.push(seed);
            }
        }
    }
    seeds
}
