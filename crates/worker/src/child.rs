//! Frames between a process lane and its child, over the child's standard input and output.
//!
//! A frame is a header of `HEADER_BYTES` and a payload, all little-endian:
//!
//! | field | bytes | |
//! |---|---|---|
//! | length | 4 | of the payload, at most `FRAME_BYTES_MAX` |
//! | kind | 1 | |
//! | generation | 4 | of the child: frames from a replaced one are ignored |
//! | job | 8 | zero if the frame concerns no job |
//! | checksum | 8 | XXH3 over the fields above and the payload: protects against faults, not adversaries |

mod message;
mod pool;
mod serve;
#[cfg(test)]
mod tests;

use alphorn_types::{DecodeError, Reader, Writer};
use std::hash::Hasher;
use std::io::{self, Read, Write};
use twox_hash::XxHash3_64;

pub use message::{Answer, Init, JobFrame, Message, SETUP_BYTES_MAX};
pub use pool::ChildCommand;
pub(crate) use pool::{AtWork, ChildPool, Limits, Told};
pub use serve::{ServeError, serve_child};

/// Bytes before the payload.
pub(crate) const HEADER_BYTES: usize = 25;

/// Maximum payload size: a full queue's inputs and their lengths.
pub(crate) const FRAME_BYTES_MAX: u32 = 320 << 20;

/// One frame, with its payload not yet decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Payload kind, see [`Message`].
    pub(crate) kind: u8,
    /// The child's generation.
    pub generation: u32,
    /// The job; zero for none.
    pub job: u64,
    /// The content.
    pub(crate) payload: Vec<u8>,
}

/// Why no frame could be read.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// The other side closed the stream between two frames.
    #[error("the stream ended")]
    Closed,
    /// The stream failed, or ended within a frame.
    #[error("the stream failed: {0}")]
    Io(#[from] io::Error),
    /// A length above `FRAME_BYTES_MAX`, or invalid content.
    #[error("not a frame: {0}")]
    Decode(#[from] DecodeError),
    /// The bytes are not those that were sent.
    #[error("checksum {got:#x} of a frame that has {want:#x}")]
    Checksum {
        /// Checksum of the bytes.
        want: u64,
        /// Checksum in the header.
        got: u64,
    },
}

impl Frame {
    /// The fields of the header before the checksum.
    fn head(&self) -> [u8; HEADER_BYTES - 8] {
        let mut w = Writer::with_capacity(HEADER_BYTES);
        w.u32(self.payload.len() as u32);
        w.u8(self.kind);
        w.u32(self.generation);
        w.u64(self.job);
        let mut head = [0; HEADER_BYTES - 8];
        head.copy_from_slice(w.as_slice());
        head
    }

    fn checksum(&self) -> u64 {
        let mut hasher = XxHash3_64::new();
        hasher.write(&self.head());
        hasher.write(&self.payload);
        hasher.finish()
    }

    /// Writes the frame and flushes.
    ///
    /// # Errors
    ///
    /// I/O errors of the stream, and `InvalidInput` for a payload above `FRAME_BYTES_MAX`.
    pub fn write_to(&self, stream: &mut dyn Write) -> io::Result<()> {
        if self.payload.len() > FRAME_BYTES_MAX as usize {
            let length = self.payload.len();
            let text = format!("a payload of {length} bytes, at most {FRAME_BYTES_MAX}");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        stream.write_all(&self.head())?;
        stream.write_all(&self.checksum().to_le_bytes())?;
        stream.write_all(&self.payload)?;
        stream.flush()
    }

    /// Reads the next frame. Memory grows with the data received, not with the length in the
    /// header.
    ///
    /// # Errors
    ///
    /// [`FrameError`]; the stream is unusable afterwards.
    pub fn read_from(stream: &mut dyn Read) -> Result<Self, FrameError> {
        let mut header = [0; HEADER_BYTES];
        let mut filled = 0;
        while filled < HEADER_BYTES {
            match stream.read(&mut header[filled..]) {
                Ok(0) if filled == 0 => return Err(FrameError::Closed),
                Ok(0) => return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        let mut r = Reader::new(&header);
        let length = r.u32_at_most("payload bytes", FRAME_BYTES_MAX)?;
        let (kind, generation, job, got) = (r.u8()?, r.u32()?, r.u64()?, r.u64()?);
        let mut payload = Vec::new();
        let read = stream.take(length.into()).read_to_end(&mut payload)?;
        if read != length as usize {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
        let frame = Self {
            kind,
            generation,
            job,
            payload,
        };
        let want = frame.checksum();
        match want == got {
            true => Ok(frame),
            false => Err(FrameError::Checksum { want, got }),
        }
    }
}
