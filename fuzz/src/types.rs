//! Targets of `alphorn-types`.

use alphorn_types::{Bitfield, Coding, DecodeError, Reader, Support, Writer, support_code as code};

/// Reads fields as a script demands, and writes what was read: the bytes must be the same.
///
/// Input: `steps u8 | script | bytes`; each byte of the script names the next field.
///
/// # Panics
///
/// If reading and writing disagree, or [`Reader::finish`] is wrong about the end.
pub fn codec_reader(data: &[u8]) {
    let Some((&steps, rest)) = data.split_first() else {
        return;
    };
    let Some((script, bytes)) = rest.split_at_checked(usize::from(steps)) else {
        return;
    };
    let mut reader = Reader::new(bytes);
    let mut writer = Writer::default();
    for &step in script {
        if copy_field(step, &mut reader, &mut writer).is_err() {
            assert!(reader.left() <= bytes.len());
            return;
        }
    }
    let read = bytes.len() - reader.left();
    assert_eq!(reader.rest(), &bytes[read..]);
    assert_eq!(writer.as_slice(), &bytes[..read]);
    assert_eq!(reader.finish().is_ok(), read == bytes.len());
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

/// Decodes a support; what is accepted must be canonical and come back from every coding.
///
/// Input: `n u16 | multiplicity u8 | reference u8 | code`; the reference repeats its byte, 0 means
/// none.
///
/// # Panics
///
/// If an accepted support is out of bounds, has a second encoding, or does not survive one.
pub fn support_code(data: &[u8]) {
    let Some((header, bytes)) = data.split_at_checked(4) else {
        return;
    };
    let n = usize::from(u16::from_le_bytes([header[0], header[1]]));
    let multiplicity_max = 1 + header[2] % 15;
    let reference = reference(n, header[3]);
    let Ok(support) = code::decode(bytes, n, multiplicity_max, reference.as_ref()) else {
        return;
    };
    assert_eq!(support.len(), n);
    assert!(support.max_multiplicity() <= multiplicity_max);
    assert!(bytes.len() <= code::code_bytes_max(n, multiplicity_max));
    let codes: Vec<_> = CODINGS
        .iter()
        .map(|&coding| code::encode(&support, coding, reference.as_ref()))
        .collect();
    for code in &codes {
        let again = code::decode(code, n, multiplicity_max, reference.as_ref());
        assert_eq!(again.as_ref(), Ok(&support));
    }
    assert!(
        codes.iter().any(|code| code == bytes),
        "no coding gives back what was accepted"
    );
}

/// Every way to write a support.
const CODINGS: &[Coding] = &[Coding::Raw];

fn reference(n: usize, byte: u8) -> Option<Bitfield> {
    let mut bits = (byte != 0).then(|| Bitfield::new(n))?;
    for position in (0..n).filter(|position| byte >> (position % 8) & 1 == 1) {
        bits.set(position);
    }
    Some(bits)
}

/// Codes of supports of several lengths, densities and multiplicities.
pub(crate) fn support_code_seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for n in [0_u16, 1, 8, 9, 191, 600] {
        for (multiplicity_max, every) in [(1_u8, 1), (1, 9), (3, 2), (15, 1)] {
            let multiplicities: Vec<u8> = (0..n)
                .map(|i| {
                    if i % every == 0 {
                        1 + (i % u16::from(multiplicity_max)) as u8
                    } else {
                        0
                    }
                })
                .collect();
            let Ok(support) = Support::from_multiplicities(&multiplicities) else {
                continue;
            };
            for (byte, &coding) in [0_u8, 0xb7]
                .iter()
                .flat_map(|&b| CODINGS.iter().map(move |c| (b, c)))
            {
                let reference = reference(usize::from(n), byte);
                let mut seed = n.to_le_bytes().to_vec();
                seed.extend([multiplicity_max - 1, byte]);
                seed.extend(code::encode(&support, coding, reference.as_ref()));
                seeds.push(seed);
            }
        }
    }
    seeds
}
