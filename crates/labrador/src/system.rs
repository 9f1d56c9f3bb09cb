//! The parameters and keys for statements with the same bounds, and the prover and verifier that use them.

use std::sync::Arc;

use alphorn_exec::{Backend, Exec};

use crate::columns::Columns;
use crate::error::{ProveError, Reject};
use crate::folded::Keys;
use crate::prove::{Prover, cut_witness};
use crate::ring::Small;
use crate::schedule::{Level, ParamError, PublicBounds, Schedule};
use crate::sis::Profile;
use crate::transcript::Transcript;
use crate::verify::Verifier;
use crate::wire::{Receiver, Sender, check_frame, check_header, transcript};

/// Parameters and keys for all statements with the same bounds.
pub struct System {
    bounds: PublicBounds,
    schedule: Schedule,
    keys: Arc<Keys>,
}

impl System {
    /// Derives the parameters and draws the keys, for the portable kernels.
    ///
    /// # Errors
    /// If no parameters exist for the bounds.
    pub fn new(bounds: &PublicBounds) -> Result<Self, ParamError> {
        Self::on(bounds, Backend::Portable)
    }

    /// The same on a backend.
    ///
    /// # Errors
    /// If no parameters exist for the bounds.
    pub(crate) fn on(bounds: &PublicBounds, backend: Backend) -> Result<Self, ParamError> {
        let schedule = Schedule::derive(bounds)?;
        Ok(Self {
            keys: Arc::new(Keys::expand(&schedule, backend)),
            bounds: bounds.clone(),
            schedule,
        })
    }

    /// Creates a system over keys that are already drawn. The schedule must be the one that follows from
    /// the bounds, otherwise proofs and verifiers of other systems do not match.
    ///
    /// # Panics
    /// If the keys do not [serve](Keys::serve) the schedule.
    pub fn with_keys(bounds: &PublicBounds, schedule: Schedule, keys: Arc<Keys>) -> Self {
        assert!(keys.serve(&schedule), "keys are long enough");
        Self {
            bounds: bounds.clone(),
            schedule,
            keys,
        }
    }

    /// Returns the parameters.
    #[must_use]
    pub fn schedule(&self) -> &Schedule {
        &self.schedule
    }

    /// Returns the commitment keys.
    #[must_use]
    pub fn keys(&self) -> &Arc<Keys> {
        &self.keys
    }

    /// Proves a statement. The witness, `s1` and `s2` of the columns one after another, is checked first, so no proof
    /// of a false statement is made.
    ///
    /// # Errors
    /// If the witness does not satisfy the statement, or a predicted size is exceeded in every
    /// attempt.
    ///
    /// # Panics
    /// If the system was made for other bounds.
    pub fn prove(&self, statement: &Columns<'_>, witness: &[Small]) -> Result<Vec<u8>, ProveError> {
        self.prove_on(statement, witness, self.serial())
    }

    /// Proves as [`System::prove`] does, on the kernel and threads of `exec`. The number of threads does not change
    /// the proof.
    ///
    /// # Errors
    /// As [`System::prove`], or if `exec` is stopped.
    ///
    /// # Panics
    /// As [`System::prove`].
    pub(crate) fn prove_on(
        &self,
        statement: &Columns<'_>,
        witness: &[Small],
        exec: Exec<'_>,
    ) -> Result<Vec<u8>, ProveError> {
        exec.step("witness check")?;
        statement.check(witness, exec)?;
        self.prove_unchecked_on(statement, witness, exec)
    }

    /// Proves as `System::prove_on` does, without checking the witness. An invalid witness does not yield a valid
    /// proof.
    ///
    /// # Errors
    /// If a size is exceeded in every attempt, or `exec` is stopped.
    ///
    /// # Panics
    /// If the system was made for other bounds.
    pub fn prove_unchecked_on(
        &self,
        statement: &Columns<'_>,
        witness: &[Small],
        exec: Exec<'_>,
    ) -> Result<Vec<u8>, ProveError> {
        let prover = Prover {
            sender: Sender::new(self.start(statement), Columns::ID, &self.schedule),
            #[cfg(test)]
            tamper: &mut crate::adversary::Honest,
            exec,
            number: 1,
        };
        self.prove_by(prover, statement, witness)
    }

    /// The same with a prover that lies.
    #[cfg(test)]
    pub(crate) fn prove_with(
        &self,
        statement: &Columns<'_>,
        witness: &[Small],
        tamper: &mut dyn crate::adversary::Tamper,
    ) -> Result<Vec<u8>, ProveError> {
        self.prove_without(statement, witness, tamper, None)
    }

    /// The same with a defence left out.
    #[cfg(test)]
    pub(crate) fn prove_without(
        &self,
        statement: &Columns<'_>,
        witness: &[Small],
        tamper: &mut dyn crate::adversary::Tamper,
        without: Option<crate::adversary::Defence>,
    ) -> Result<Vec<u8>, ProveError> {
        let mut transcript = self.start(statement);
        transcript.watched.without = without;
        let prover = Prover {
            sender: Sender::new(transcript, Columns::ID, &self.schedule),
            tamper,
            exec: self.serial(),
            number: 1,
        };
        self.prove_by(prover, statement, witness)
    }

    /// Verifies with a defence left out.
    #[cfg(test)]
    pub(crate) fn verify_without(
        &self,
        statement: &Columns<'_>,
        proof: &[u8],
        without: Option<crate::adversary::Defence>,
    ) -> Result<(), Reject> {
        let mut transcript = self.start(statement);
        transcript.watched.without = without;
        let receiver = Receiver::new(transcript, Columns::ID, &self.schedule, proof)?;
        self.run(statement, receiver, self.serial())
    }

    /// Proves, and returns what was absorbed and drawn.
    #[cfg(test)]
    pub(crate) fn prove_and_log(
        &self,
        statement: &Columns<'_>,
        witness: &[Small],
    ) -> (Result<Vec<u8>, ProveError>, crate::transcript::Log) {
        let transcript = self.start(statement);
        let log = transcript.watched.log.clone();
        let prover = Prover {
            sender: Sender::new(transcript, Columns::ID, &self.schedule),
            tamper: &mut crate::adversary::Honest,
            exec: self.serial(),
            number: 1,
        };
        let proof = self.prove_by(prover, statement, witness);
        let log = log.lock().expect("nothing panicked").clone();
        (proof, log)
    }

    /// Verifies, and returns what was absorbed and drawn.
    #[cfg(test)]
    pub(crate) fn verify_and_log(
        &self,
        statement: &Columns<'_>,
        proof: &[u8],
    ) -> (Result<(), Reject>, crate::transcript::Log) {
        let transcript = self.start(statement);
        let log = transcript.watched.log.clone();
        let receiver = Receiver::new(transcript, Columns::ID, &self.schedule, proof);
        let verdict = receiver.and_then(|receiver| self.run(statement, receiver, self.serial()));
        let log = log.lock().expect("nothing panicked").clone();
        (verdict, log)
    }

    fn prove_by(
        &self,
        mut prover: Prover<'_>,
        statement: &Columns<'_>,
        witness: &[Small],
    ) -> Result<Vec<u8>, ProveError> {
        let (first, later) = self.levels();
        let (mut folded, mut s) = statement.prove(&mut prover, &self.keys, first, witness)?;
        for level in later {
            prover.number += 1;
            let cut = cut_witness(&level.cut, folded.level.cut.rank, s);
            (folded, s) = prover.level(&self.keys, level, &folded, cut)?;
        }
        prover.number += 1;
        let cut = cut_witness(&self.schedule.tail.cut, folded.level.cut.rank, s);
        prover.tail(&self.keys, &self.schedule.tail, &folded, cut)?;
        Ok(prover.sender.finish())
    }

    /// Rejects bytes that no system can have as a proof, by the header and by
    /// [`crate::PROOF_BYTES_MAX`], for callers that have not derived their parameters yet.
    ///
    /// # Errors
    /// [`Reject::Header`] or [`Reject::Length`].
    pub fn check_header(profile: Profile, proof: &[u8]) -> Result<(), Reject> {
        check_header(Columns::ID, profile, proof)
    }

    /// Rejects bytes that no statement can have as its proof, by header and length alone, for callers that
    /// have work to do before they know their statement.
    ///
    /// # Errors
    /// [`Reject::Header`] or [`Reject::Length`].
    pub fn check_frame(&self, proof: &[u8]) -> Result<(), Reject> {
        check_frame(Columns::ID, &self.schedule, proof)
    }

    /// Verifies a proof of a statement.
    ///
    /// # Errors
    /// The first check that fails.
    ///
    /// # Panics
    /// If the system was made for other bounds.
    pub fn verify(&self, statement: &Columns<'_>, proof: &[u8]) -> Result<(), Reject> {
        self.verify_on(statement, proof, self.serial())
    }

    /// Verifies as [`System::verify`] does, on the kernel and threads of `exec`.
    ///
    /// # Errors
    /// As [`System::verify`], or if `exec` is stopped.
    ///
    /// # Panics
    /// As [`System::verify`].
    pub fn verify_on(
        &self,
        statement: &Columns<'_>,
        proof: &[u8],
        exec: Exec<'_>,
    ) -> Result<(), Reject> {
        let transcript = self.start(statement);
        let receiver = Receiver::new(transcript, Columns::ID, &self.schedule, proof)?;
        self.run(statement, receiver, exec)
    }

    /// Verifies without one check: an attack must pass here, otherwise its test shows nothing.
    #[cfg(test)]
    pub(crate) fn verify_weakly(
        &self,
        statement: &Columns<'_>,
        proof: &[u8],
        without: Reject,
    ) -> Result<(), Reject> {
        let transcript = self.start(statement);
        let mut receiver = Receiver::new(transcript, Columns::ID, &self.schedule, proof)?;
        receiver.weak = Some(without);
        self.run(statement, receiver, self.serial())
    }

    /// Divides the bound on the witness of a level, counted from 1, which both sides then absorb.
    #[cfg(test)]
    pub(crate) fn shorten_witness(&mut self, level: usize, divisor: u128) {
        let level = self.schedule.levels.get_mut(level - 1);
        *level.map_or(&mut self.schedule.tail.norm_sq, |level| &mut level.norm_sq) /= divisor;
    }

    /// Divides the bound on the last response, which both sides then absorb.
    #[cfg(test)]
    pub(crate) fn shorten_tail(&mut self, divisor: u128) {
        self.schedule.tail.norm_sq_out /= divisor;
    }

    fn run(
        &self,
        statement: &Columns<'_>,
        receiver: Receiver<'_>,
        exec: Exec<'_>,
    ) -> Result<(), Reject> {
        exec.enter(|| {
            let mut verifier = Verifier { receiver, exec };
            let (first, later) = self.levels();
            let mut folded = statement.reduce(&mut verifier, &self.keys, first)?;
            for level in later {
                folded = verifier.level(&self.keys, level, &folded)?;
            }
            verifier.tail(&self.keys, &self.schedule.tail, &folded)?;
            verifier.receiver.finish()
        })
    }

    /// Runs on the calling thread, with the kernel of the keys.
    fn serial(&self) -> Exec<'static> {
        Exec::new(self.keys.backend, None)
    }

    fn levels(&self) -> (&Level, &[Level]) {
        let split = self.schedule.levels.split_first();
        split.expect("every schedule has a first level")
    }

    pub(crate) fn start(&self, statement: &Columns<'_>) -> Transcript {
        assert_eq!(
            self.bounds,
            statement.bounds(),
            "a system has one set of bounds"
        );
        let mut transcript = transcript(Columns::ID, &self.schedule);
        statement.absorb(&mut transcript);
        transcript
    }
}
