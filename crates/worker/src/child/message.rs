//! Contents of the frames.

use super::Frame;
use alphorn_types::{DecodeError, Reader, Writer};

/// Maximum size of the data that sets up the environment of a child, in bytes.
pub const SETUP_BYTES_MAX: usize = 256 << 20;
/// Maximum size of a task or of its result, in bytes.
const BYTES_MAX: usize = 300 << 20;
/// Maximum size of a reason in bytes; longer ones are truncated.
const REASON_BYTES_MAX: usize = 1 << 10;
/// Maximum number of bad inputs per job.
const INVALID_MAX: u32 = 1 << 20;

/// The first frame to a child: its limits, and the data from which it builds its environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Init {
    /// Process id of the parent. A child whose actual parent differs has already lost it.
    pub parent: u32,
    /// Number of threads of the child's pool.
    pub threads: u16,
    /// Amount added to its niceness.
    pub nice: u8,
    /// Limit of its data segment in bytes; zero for none.
    pub data_bytes_max: u64,
    /// Milliseconds between two beats.
    pub beat_ms: u16,
    /// Input of the embedder's set-up function; no secrets.
    pub setup: Vec<u8>,
}

/// A job for a child.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobFrame {
    /// Run on portable kernels.
    pub portable: bool,
    /// Seed of the search for bad inputs.
    pub seed: u64,
    /// The task.
    pub task: Vec<u8>,
}

/// How a job ended in a child that is still alive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The bytes of its result.
    Done(Vec<u8>),
    /// Bad inputs, ascending.
    Invalid(Vec<usize>),
    /// The child cannot do it.
    Refused(String),
    /// It was stopped.
    Stopped,
    /// Its result failed the public verifier.
    Faulty,
}

/// The content of a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// To the child: set up.
    Init(Init),
    /// To the child: run this job.
    Job(JobFrame),
    /// To the child: stop the job.
    Stop,
    /// From the child: the environment is ready.
    Ready,
    /// From the child: the environment cannot be built.
    Unfit(String),
    /// From the child: number of beats of its job so far.
    Beat(u64),
    /// From the child: its job has ended.
    Result {
        /// Processor time in nanoseconds.
        cpu_ns: u64,
        /// Peak memory beyond that before the job, in bytes; zero if unknown.
        peak_bytes: u64,
        /// How it ended.
        answer: Answer,
    },
}

impl Message {
    /// Builds the frame for a child's generation and a job.
    pub fn frame(&self, generation: u32, job: u64) -> Frame {
        let mut w = Writer::with_capacity(64);
        let kind = match self {
            Message::Init(init) => {
                w.u32(init.parent);
                w.u16(init.threads);
                w.u8(init.nice);
                w.u64(init.data_bytes_max);
                w.u16(init.beat_ms);
                w.bytes_u32_prefixed(&init.setup);
                0
            }
            Message::Job(job) => {
                w.u8(u8::from(job.portable));
                w.u64(job.seed);
                w.bytes_u32_prefixed(&job.task);
                1
            }
            Message::Stop => 2,
            Message::Ready => 3,
            Message::Unfit(reason) => {
                w.bytes_u32_prefixed(cut(reason).as_bytes());
                4
            }
            Message::Beat(beats) => {
                w.u64(*beats);
                5
            }
            Message::Result {
                cpu_ns,
                peak_bytes,
                answer,
            } => {
                w.u64(*cpu_ns);
                w.u64(*peak_bytes);
                put_answer(&mut w, answer);
                6
            }
        };
        Frame {
            kind,
            generation,
            job,
            payload: w.into_vec(),
        }
    }

    /// Decodes a frame.
    ///
    /// # Errors
    ///
    /// [`DecodeError`] for anything that [`Message::frame`] does not produce.
    pub fn decode(frame: &Frame) -> Result<Self, DecodeError> {
        let mut r = Reader::new(&frame.payload);
        let message = match frame.kind {
            0 => Message::Init(Init {
                parent: r.u32()?,
                threads: r.u16()?,
                nice: r.u8()?,
                data_bytes_max: r.u64()?,
                beat_ms: r.u16()?,
                setup: r.bytes_u32_prefixed(SETUP_BYTES_MAX)?.to_vec(),
            }),
            1 => {
                let flags = r.u8()?;
                if flags > 1 {
                    return Err(unknown("flags of a job", flags));
                }
                Message::Job(JobFrame {
                    portable: flags == 1,
                    seed: r.u64()?,
                    task: r.bytes_u32_prefixed(BYTES_MAX)?.to_vec(),
                })
            }
            2 => Message::Stop,
            3 => Message::Ready,
            4 => Message::Unfit(reason(&mut r)?),
            5 => Message::Beat(r.u64()?),
            6 => Message::Result {
                cpu_ns: r.u64()?,
                peak_bytes: r.u64()?,
                answer: answer(&mut r)?,
            },
            kind => return Err(unknown("kind of frame", kind)),
        };
        r.finish()?;
        Ok(message)
    }
}

fn unknown(what: &'static str, value: u8) -> DecodeError {
    let value = u64::from(value);
    DecodeError::UnknownTag { what, value }
}

/// The text, truncated at a character boundary if it is too long.
fn cut(text: &str) -> &str {
    let ends = (0..=text.len().min(REASON_BYTES_MAX)).rev();
    let end = ends.into_iter().find(|end| text.is_char_boundary(*end));
    &text[..end.unwrap_or(0)]
}

fn reason(r: &mut Reader<'_>) -> Result<String, DecodeError> {
    let bytes = r.bytes_u32_prefixed(REASON_BYTES_MAX)?;
    Ok(String::from_utf8_lossy(bytes).into_owned())
}

fn put_answer(w: &mut Writer, answer: &Answer) {
    match answer {
        Answer::Done(bytes) => {
            w.u8(0);
            w.bytes_u32_prefixed(bytes);
        }
        Answer::Invalid(bad) => {
            w.u8(1);
            w.u32(bad.len() as u32);
            bad.iter().for_each(|index| w.u32(*index as u32));
        }
        Answer::Refused(reason) => {
            w.u8(2);
            w.bytes_u32_prefixed(cut(reason).as_bytes());
        }
        Answer::Stopped => w.u8(3),
        Answer::Faulty => w.u8(4),
    }
}

fn answer(r: &mut Reader<'_>) -> Result<Answer, DecodeError> {
    Ok(match r.u8()? {
        0 => Answer::Done(r.bytes_u32_prefixed(BYTES_MAX)?.to_vec()),
        1 => {
            let count = r.u32_at_most("bad inputs", INVALID_MAX)?;
            let bad = (0..count).map(|_| r.u32().map(|index| index as usize));
            Answer::Invalid(bad.collect::<Result<_, _>>()?)
        }
        2 => Answer::Refused(reason(r)?),
        3 => Answer::Stopped,
        4 => Answer::Faulty,
        tag => return Err(unknown("answer", tag)),
    })
}
