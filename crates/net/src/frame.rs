//! Frames on a stream: `length || payload`, or `code || length || payload` where a frame has a
//! type. The length is an unsigned LEB128 number in its shortest form.
//!
//! The decoder holds no socket: bytes are pushed in pieces of any size.

use thiserror::Error;

/// Longest possible request, in bytes.
#[cfg(feature = "swarm")]
pub(crate) const REQUEST_BYTES_LIMIT: usize = 64 * 1024;

/// Longest possible chunk of a response, in bytes.
#[cfg(any(test, feature = "swarm"))]
pub(crate) const CHUNK_BYTES_LIMIT: usize = 16 * 1024 * 1024 + 64 * 1024;

/// Bytes of the longest length: 2^28 - 1 is far above every limit.
const LENGTH_BYTES_MAX: u32 = 4;

/// Most bytes reserved before any arrive. The buffer grows with the data.
const RESERVED_BYTES: usize = 8 * 1024;

/// A stream that is not a sequence of frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum FrameError {
    /// The length is above its limit.
    #[error("frame of {length} bytes, must have at most {bytes_max}")]
    Long {
        /// The length in the frame.
        length: usize,
        /// The maximum of the protocol.
        bytes_max: usize,
    },
    /// The length does not end, or is not in its shortest form.
    #[error("length of a frame is not a LEB128 number of at most {LENGTH_BYTES_MAX} bytes")]
    Length,
    /// The stream ended inside a frame.
    #[error("stream ended inside a frame, after {0} bytes of it")]
    Cut(usize),
}

/// A decoded frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Its code, or 0 where the protocol has none.
    pub code: u8,
    /// Its bytes.
    pub payload: Vec<u8>,
}

#[derive(Clone, Debug)]
enum State {
    Code,
    Length { value: usize, bytes: u32 },
    Payload { left: usize },
    Done,
}

/// Extracts frames from the pieces of a stream. Holds at most one frame.
#[derive(Clone, Debug)]
pub struct Deframer {
    with_code: bool,
    bytes_max: usize,
    state: State,
    code: u8,
    payload: Vec<u8>,
    /// Bytes of the frame so far, including the head.
    taken: usize,
}

impl Deframer {
    /// A decoder of `length || payload`.
    pub fn plain(bytes_max: usize) -> Self {
        Self::new(false, bytes_max)
    }

    /// A decoder of `code || length || payload`.
    pub fn coded(bytes_max: usize) -> Self {
        Self::new(true, bytes_max)
    }

    fn new(with_code: bool, bytes_max: usize) -> Self {
        let mut deframer = Self {
            with_code,
            bytes_max,
            state: State::Done,
            code: 0,
            payload: Vec::new(),
            taken: 0,
        };
        deframer.restart();
        deframer
    }

    fn restart(&mut self) {
        self.state = if self.with_code {
            State::Code
        } else {
            State::Length { value: 0, bytes: 0 }
        };
        self.code = 0;
        self.taken = 0;
    }

    /// Consumes bytes up to the end of the current frame, and returns their number. Consumes none
    /// while a finished frame waits for [`take`](Self::take).
    ///
    /// # Errors
    ///
    /// A length above the limit or not in its shortest form. Nothing sensible follows.
    pub fn push(&mut self, input: &[u8]) -> Result<usize, FrameError> {
        let mut used = 0;
        while used < input.len() {
            match &mut self.state {
                State::Done => break,
                State::Code => {
                    self.code = input[used];
                    used += 1;
                    self.state = State::Length { value: 0, bytes: 0 };
                }
                State::Length { value, bytes } => {
                    let byte = input[used];
                    used += 1;
                    // Four bytes at most, hence 28 bits: nothing is shifted out.
                    *value |= usize::from(byte & 0x7f) << (7 * *bytes);
                    *bytes += 1;
                    if byte & 0x80 != 0 {
                        if *bytes == LENGTH_BYTES_MAX {
                            return Err(FrameError::Length);
                        }
                        continue;
                    }
                    // A last byte of zero adds nothing: the length has a shorter form.
                    if byte == 0 && *bytes > 1 {
                        return Err(FrameError::Length);
                    }
                    let length = *value;
                    self.begin_payload(length)?;
                }
                State::Payload { left } => {
                    let count = (*left).min(input.len() - used);
                    self.payload.extend_from_slice(&input[used..used + count]);
                    used += count;
                    *left -= count;
                    if *left == 0 {
                        self.state = State::Done;
                    }
                }
            }
        }
        self.taken += used;
        Ok(used)
    }

    fn begin_payload(&mut self, length: usize) -> Result<(), FrameError> {
        if length > self.bytes_max {
            return Err(FrameError::Long {
                length,
                bytes_max: self.bytes_max,
            });
        }
        self.payload = Vec::with_capacity(length.min(RESERVED_BYTES));
        self.state = if length == 0 {
            State::Done
        } else {
            State::Payload { left: length }
        };
        Ok(())
    }

    /// The finished frame, if there is one.
    pub fn take(&mut self) -> Option<Frame> {
        if !matches!(self.state, State::Done) {
            return None;
        }
        let frame = Frame {
            code: self.code,
            payload: std::mem::take(&mut self.payload),
        };
        self.restart();
        Some(frame)
    }

    /// Changes the limit for frames that have not begun.
    #[cfg(feature = "swarm")]
    pub(crate) fn limit(&mut self, bytes_max: usize) {
        self.bytes_max = bytes_max;
    }

    /// How many bytes the frame still has at least. Reading no more than that leaves the next frame
    /// untouched.
    pub fn wanted(&self) -> usize {
        match self.state {
            // The code, and at least one byte of the length.
            State::Code => 2,
            State::Length { .. } => 1,
            State::Payload { left } => left,
            State::Done => 0,
        }
    }

    /// Checks that a stream may end here.
    ///
    /// # Errors
    ///
    /// If a frame has begun and is not finished.
    pub fn end(&self) -> Result<(), FrameError> {
        if self.taken == 0 {
            Ok(())
        } else {
            Err(FrameError::Cut(self.taken))
        }
    }
}

/// The head in front of a frame's payload. `code` is present only where the protocol has one.
///
/// # Panics
///
/// If `length` is 2^28 or more.
pub fn head(code: Option<u8>, length: usize) -> Vec<u8> {
    assert!(
        length < 1 << (7 * LENGTH_BYTES_MAX),
        "frame of {length} bytes"
    );
    let mut head: Vec<u8> = code.into_iter().collect();
    let mut rest = length;
    while rest >= 0x80 {
        head.push((rest & 0x7f) as u8 | 0x80);
        rest >>= 7;
    }
    head.push(rest as u8);
    head
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn encode(frames: &[(u8, Vec<u8>)], with_code: bool) -> Vec<u8> {
        let mut stream = Vec::new();
        for (code, payload) in frames {
            stream.extend(head(with_code.then_some(*code), payload.len()));
            stream.extend(payload);
        }
        stream
    }

    fn decode(
        deframer: &mut Deframer,
        stream: &[u8],
        piece: usize,
    ) -> Result<Vec<(u8, Vec<u8>)>, FrameError> {
        let mut frames = Vec::new();
        for mut input in stream.chunks(piece) {
            while !input.is_empty() {
                let used = deframer.push(input)?;
                input = &input[used..];
                while let Some(frame) = deframer.take() {
                    frames.push((frame.code, frame.payload));
                }
            }
        }
        deframer.end()?;
        Ok(frames)
    }

    proptest! {
        #[test]
        fn frames_survive_any_cut_of_the_stream(
            frames in proptest::collection::vec((any::<u8>(), proptest::collection::vec(any::<u8>(), 0..300)), 0..6),
            with_code: bool,
            piece in 1usize..40,
        ) {
            let frames: Vec<_> = frames
                .into_iter()
                .map(|(code, payload)| (if with_code { code } else { 0 }, payload))
                .collect();
            let stream = encode(&frames, with_code);
            let mut deframer = Deframer::new(with_code, 300);
            prop_assert_eq!(decode(&mut deframer, &stream, piece), Ok(frames.clone()));
            if let Some(cut) = stream.len().checked_sub(1) {
                let mut deframer = Deframer::new(with_code, 300);
                prop_assert_ne!(decode(&mut deframer, &stream[..cut], piece), Ok(frames));
            }
        }

        #[test]
        fn no_bytes_make_it_panic_or_hold_more_than_its_limit(
            stream in proptest::collection::vec(any::<u8>(), 0..400),
            with_code: bool,
        ) {
            let mut deframer = Deframer::new(with_code, 20);
            if let Ok(frames) = decode(&mut deframer, &stream, 7) {
                prop_assert!(frames.iter().all(|(_, payload)| payload.len() <= 20));
                prop_assert_eq!(encode(&frames, with_code), stream);
            }
        }
    }

    #[test]
    fn lengths_are_checked_before_anything_is_reserved() {
        let mut deframer = Deframer::coded(1000);
        assert_eq!(
            deframer.push(&[7, 0xe9, 0x07]),
            Err(FrameError::Long {
                length: 1001,
                bytes_max: 1000
            })
        );
        assert_eq!(Deframer::plain(9).push(&[0x80, 0]), Err(FrameError::Length));
        assert_eq!(
            Deframer::plain(9).push(&[0xff, 0xff, 0xff, 0xff, 0x01]),
            Err(FrameError::Length)
        );
        let mut deframer = Deframer::plain(CHUNK_BYTES_LIMIT);
        let head = head(None, CHUNK_BYTES_LIMIT);
        assert_eq!(deframer.push(&head), Ok(4));
        assert!(deframer.payload.capacity() <= RESERVED_BYTES);
        assert_eq!(deframer.end(), Err(FrameError::Cut(4)));
    }
}
