//! Sending and receiving a proof: the transcript absorbs each message as the bytes that are sent.
//!
//! A proof is a header and the messages in order. Their lengths come from the schedule, so there
//! is no length field to forge. Elements of `R_Q` take six bytes per coefficient, little endian, below `Q`;
//! projections, garbage and the response are entropy-coded.

mod bits;
mod gauss;
pub(crate) mod header;

pub(crate) use header::check_header;
pub use header::{HEADER_BYTES, MAGIC, PROOF_BYTES_MAX};

use bits::{BitReader, BitWriter};
use gauss::GaussianCode;
use header::header;

use crate::error::Reject;
use crate::ring::{DEGREE, Q, RESIDUE_BYTES, Rq};
use crate::schedule::Schedule;
use crate::transcript::Transcript;

const ELEMENT_BYTES: usize = DEGREE * RESIDUE_BYTES;

/// Checks what can be checked without the statement: the header, and that there are enough bytes.
pub(crate) fn check_frame(front_end: u8, schedule: &Schedule, bytes: &[u8]) -> Result<(), Reject> {
    check_header(front_end, schedule.profile, bytes)?;
    if (bytes.len() as u64) < schedule.least_bytes() {
        return Err(Reject::Length { bytes: bytes.len() });
    }
    Ok(())
}

/// Returns the transcript of a proof before the statement is absorbed.
pub(crate) fn transcript(front_end: u8, schedule: &Schedule) -> Transcript {
    let mut transcript = Transcript::new("alphorn/labrador/v1");
    transcript.absorb("header", &header(front_end, schedule.profile));
    transcript.absorb("schedule", &schedule.encode());
    transcript
}

/// The prover's side: writes and absorbs.
#[derive(Clone)]
pub(crate) struct Sender {
    pub(crate) transcript: Transcript,
    bytes: Vec<u8>,
}

impl Sender {
    pub(crate) fn new(transcript: Transcript, front_end: u8, schedule: &Schedule) -> Self {
        Self {
            transcript,
            bytes: header(front_end, schedule.profile).to_vec(),
        }
    }

    fn send(&mut self, field: &'static str, data: &[u8]) {
        self.transcript.absorb(field, data);
        self.bytes.extend_from_slice(data);
    }

    pub(crate) fn byte(&mut self, field: &'static str, value: u8) {
        self.send(field, &[value]);
    }

    /// Sends residues modulo `Q`.
    pub(crate) fn residues<'x>(
        &mut self,
        field: &'static str,
        residues: impl IntoIterator<Item = &'x u64>,
    ) {
        let mut data = Vec::new();
        for x in residues {
            data.extend_from_slice(&x.to_le_bytes()[..RESIDUE_BYTES]);
        }
        self.send(field, &data);
    }

    pub(crate) fn elements(&mut self, field: &'static str, elements: &[Rq]) {
        self.residues(field, elements.iter().flat_map(Rq::coefficients));
    }

    /// Sends all coefficients except the constant ones.
    pub(crate) fn elements_without_constant(&mut self, field: &'static str, elements: &[Rq]) {
        self.residues(field, elements.iter().flat_map(|x| &x.coefficients()[1..]));
    }

    pub(crate) fn gaussian(&mut self, field: &'static str, values: &[i64], variance: u128) {
        let code = GaussianCode::new(variance);
        let mut out = BitWriter::default();
        for &x in values {
            code.write(x, &mut out);
        }
        self.send(field, &out.finish());
    }

    pub(crate) fn finish(self) -> Vec<u8> {
        self.bytes
    }
}

/// The verifier's side: reads and absorbs.
pub(crate) struct Receiver<'a> {
    pub(crate) transcript: Transcript,
    /// The level whose messages are being read, from 1.
    pub(crate) level: usize,
    bytes: &'a [u8],
    position: usize,
    /// The check that a deliberately weak verifier leaves out.
    #[cfg(test)]
    pub(crate) weak: Option<Reject>,
}

impl<'a> Receiver<'a> {
    /// Checks header and length.
    pub(crate) fn new(
        transcript: Transcript,
        front_end: u8,
        schedule: &Schedule,
        bytes: &'a [u8],
    ) -> Result<Self, Reject> {
        check_frame(front_end, schedule, bytes)?;
        Ok(Self {
            transcript,
            level: 1,
            bytes,
            position: HEADER_BYTES,
            #[cfg(test)]
            weak: None,
        })
    }

    /// Rejects with `otherwise` unless a check holds.
    pub(crate) fn require(&self, holds: bool, otherwise: Reject) -> Result<(), Reject> {
        #[cfg(test)]
        if self.weak.as_ref() == Some(&otherwise) {
            return Ok(());
        }
        if holds { Ok(()) } else { Err(otherwise) }
    }

    fn length(&self) -> Reject {
        Reject::Length {
            bytes: self.bytes.len(),
        }
    }

    fn canonical<T>(&self, field: &'static str, value: Option<T>) -> Result<T, Reject> {
        value.ok_or(Reject::NonCanonical {
            level: self.level,
            field,
        })
    }

    fn receive(&mut self, field: &'static str, count: usize) -> Result<&'a [u8], Reject> {
        let rest = &self.bytes[self.position..];
        let data = rest.get(..count).ok_or_else(|| self.length())?;
        self.position += count;
        self.transcript.absorb(field, data);
        Ok(data)
    }

    pub(crate) fn byte(&mut self, field: &'static str) -> Result<u8, Reject> {
        Ok(self.receive(field, 1)?[0])
    }

    pub(crate) fn residues(
        &mut self,
        field: &'static str,
        count: usize,
    ) -> Result<Vec<u64>, Reject> {
        let data = self.receive(field, count * RESIDUE_BYTES)?;
        let mut out = vec![0; count];
        fill(&mut out, data);
        self.canonical(field, out.iter().all(|&x| x < Q).then_some(out))
    }

    pub(crate) fn elements(
        &mut self,
        field: &'static str,
        count: usize,
    ) -> Result<Vec<Rq>, Reject> {
        let data = self.receive(field, count * ELEMENT_BYTES)?;
        let elements = data.chunks_exact(ELEMENT_BYTES).map(|chunk| {
            let mut coefficients = [0; DEGREE];
            fill(&mut coefficients, chunk);
            self.canonical(field, Rq::from_canonical(coefficients))
        });
        elements.collect()
    }

    /// Reads elements whose constant coefficients the verifier knows.
    pub(crate) fn elements_with_constants(
        &mut self,
        field: &'static str,
        constants: &[u64],
    ) -> Result<Vec<Rq>, Reject> {
        let size = ELEMENT_BYTES - RESIDUE_BYTES;
        let data = self.receive(field, constants.len() * size)?;
        let elements = data.chunks_exact(size).zip(constants).map(|(chunk, &c)| {
            let mut coefficients = [c; DEGREE];
            fill(&mut coefficients[1..], chunk);
            self.canonical(field, Rq::from_canonical(coefficients))
        });
        elements.collect()
    }

    pub(crate) fn gaussian(
        &mut self,
        field: &'static str,
        count: usize,
        variance: u128,
    ) -> Result<Vec<i64>, Reject> {
        let code = GaussianCode::new(variance);
        let rest = &self.bytes[self.position..];
        let mut input = BitReader::new(rest);
        let read: Option<Vec<i64>> = (0..count).map(|_| code.read(&mut input)).collect();
        // Decides only which error is reported: bytes that end too early are not a false encoding.
        if read.is_none() && input.consumed() == rest.len() {
            return Err(self.length());
        }
        let values = self.canonical(field, read)?;
        let consumed = input.consumed();
        // Padding that is not zero would be a second encoding of the same proof.
        self.canonical(field, input.finish().then_some(()))?;
        // Absorbed only now, because the length of the field is known once its numbers are read.
        self.receive(field, consumed)?;
        Ok(values)
    }

    /// Checks that no bytes are left.
    pub(crate) fn finish(self) -> Result<(), Reject> {
        if self.position == self.bytes.len() {
            Ok(())
        } else {
            Err(self.length())
        }
    }
}

fn fill(coefficients: &mut [u64], data: &[u8]) {
    for (c, chunk) in coefficients
        .iter_mut()
        .zip(data.chunks_exact(RESIDUE_BYTES))
    {
        let mut word = [0; 8];
        word[..RESIDUE_BYTES].copy_from_slice(chunk);
        *c = u64::from_le_bytes(word);
    }
}
