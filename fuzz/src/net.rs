//! Targets of `alphorn-net`.

use alphorn_net::frame::{Deframer, Frame, FrameError, head};

/// Limit of the frames below, in bytes: short enough for mutations to reach it.
const FRAME_BYTES_MAX: usize = 300;

/// Takes the chunks of a response out of a stream.
///
/// Input: `piece u8 | stream`; the stream comes in pieces of that many bytes.
///
/// # Panics
///
/// If the cut of the stream matters, a frame is above the limit, or frames have a second encoding.
pub fn reqresp_frame(data: &[u8]) -> bool {
    frames(data, &Deframer::coded(FRAME_BYTES_MAX), true)
}

pub(crate) fn reqresp_frame_seeds() -> Vec<Vec<u8>> {
    seeds(true)
}

/// Takes the frames of the broadcast protocol out of a stream.
///
/// Input and properties as [`reqresp_frame`].
///
/// # Panics
///
/// As [`reqresp_frame`].
pub fn broadcast_frame(data: &[u8]) -> bool {
    frames(data, &Deframer::plain(FRAME_BYTES_MAX), false)
}

pub(crate) fn broadcast_frame_seeds() -> Vec<Vec<u8>> {
    seeds(false)
}

fn frames(data: &[u8], deframer: &Deframer, with_code: bool) -> bool {
    let Some((&piece, stream)) = data.split_first() else {
        return false;
    };
    let whole = decode(deframer.clone(), stream, stream.len().max(1));
    let in_pieces = decode(deframer.clone(), stream, 1 + usize::from(piece));
    assert_eq!(whole, in_pieces, "the cut of the stream matters");
    let exact = decode_exactly(deframer.clone(), stream);
    assert_eq!(whole.is_ok(), exact.is_ok());
    let Ok(frames) = whole else {
        return false;
    };
    assert_eq!(exact.as_ref(), Ok(&frames));
    assert_eq!(encode(&frames, with_code), stream);
    frames
        .iter()
        .all(|frame| frame.payload.len() <= FRAME_BYTES_MAX)
}

fn decode(mut deframer: Deframer, stream: &[u8], piece: usize) -> Result<Vec<Frame>, FrameError> {
    let mut frames = Vec::new();
    for mut input in stream.chunks(piece) {
        while !input.is_empty() {
            let used = deframer.push(input)?;
            input = &input[used..];
            frames.extend(deframer.take());
        }
    }
    deframer.end()?;
    Ok(frames)
}

/// As a reader that must not read beyond a frame: no more bytes than the frame certainly has.
fn decode_exactly(mut deframer: Deframer, mut stream: &[u8]) -> Result<Vec<Frame>, FrameError> {
    let mut frames = Vec::new();
    while !stream.is_empty() {
        let wanted = deframer.wanted().min(stream.len());
        assert!(wanted > 0, "no progress");
        assert_eq!(deframer.push(&stream[..wanted])?, wanted);
        stream = &stream[wanted..];
        frames.extend(deframer.take());
    }
    deframer.end()?;
    Ok(frames)
}

fn encode(frames: &[Frame], with_code: bool) -> Vec<u8> {
    let mut stream = Vec::new();
    for frame in frames {
        let code = with_code.then_some(frame.code);
        stream.extend(head(code, frame.payload.len()));
        stream.extend(&frame.payload);
    }
    stream
}

fn seeds(with_code: bool) -> Vec<Vec<u8>> {
    let lengths: [&[usize]; 3] = [&[0], &[3, 0, 127], &[128, FRAME_BYTES_MAX]];
    let stream = |(piece, lengths): (usize, &&[usize])| {
        let frame = |length: &usize| Frame {
            code: *length as u8,
            payload: vec![0xa5; *length],
        };
        let frames: Vec<Frame> = lengths.iter().map(frame).collect();
        let mut seed = vec![piece as u8 * 5];
        seed.extend(encode(&frames, with_code));
        seed
    };
    lengths.iter().enumerate().map(stream).collect()
}
