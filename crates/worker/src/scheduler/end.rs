//! Turns the end of a run into the end of its ticket's job, or into another run.

use super::crash::{Next, Search};
use super::{At, Ended, Finished, Load, Report, Scheduler, Stage, Ticket};
use crate::plan::{self, End, Output, Request};
use alphorn_scheme::{Class, Outcome, Task};
use std::sync::Arc;

impl<T: Task> Scheduler<T> {
    /// Executes the plan's effects.
    pub(super) fn settle(&mut self, at: At) {
        while let Some(output) = self.plan.poll_output() {
            match output {
                Output::Stop { lane, job } => {
                    let on = self.posts[lane].on.as_ref();
                    if let Some(on) = on.filter(|on| on.job == job) {
                        on.stop.stop();
                    }
                }
                Output::Finished(finished) => self.run_ended(at, &finished),
            }
        }
    }

    /// Handles the end of a run of a ticket's job, including one that will not happen.
    fn run_ended(&mut self, at: At, finished: &plan::Finished) {
        // Each job of the plan has a ticket from submission to this point.
        let Some(mut ticket) = self.tickets.remove(&finished.job) else {
            return;
        };
        ticket.timing.queued_ns += finished.queued_ns;
        ticket.timing.ran_ns += finished.ran_ns;
        let ran = match finished.end {
            End::Ran | End::Crashed => self.report.take(),
            // A job that lost its value while it waited may end in the same call; the report is not
            // its.
            End::Cancelled if finished.ran_ns > 0 => self.report.take(),
            _ => None,
        };
        if let Some((report, _)) = &ran {
            ticket.timing.cpu_ns += report.cpu_ns;
        }
        match (finished.end, ticket.stage) {
            (End::Crashed, _) => self.crashed(at, ticket, finished, ran),
            // Whatever the result for the prefix, the run did not crash, which is all that the
            // search asks.
            (End::Ran, Stage::Search(search)) => self.searched(at, ticket, finished, search, false),
            (End::Ran, _) => {
                let ended = ran.map(|(report, _)| report.ended);
                self.deliver_run(ticket, finished, ended);
            }
            // A crashed job that is not rerun has crashed.
            (_, Stage::Again { .. } | Stage::Search(_)) => {
                self.deliver(ticket, finished, Outcome::Crashed, false);
            }
            (End::Superseded, Stage::First) => {
                self.deliver(ticket, finished, Outcome::Superseded, false);
            }
            (End::Cancelled, Stage::First) => {
                self.deliver(ticket, finished, Outcome::Cancelled, false);
            }
            (End::Refused(refused), Stage::First) => {
                let outcome = Outcome::Refused(refused.to_string());
                self.deliver(ticket, finished, outcome, false);
            }
        }
    }

    /// Delivers a lane's report of a completed run.
    fn deliver_run(
        &mut self,
        ticket: Ticket<T>,
        finished: &plan::Finished,
        ended: Option<Ended<T::Output>>,
    ) {
        let (outcome, crasher) = match ended {
            Some(Ended::Done(output)) => (Outcome::Done(output), false),
            Some(Ended::Invalid { bad, crasher }) => (Outcome::Invalid(bad), crasher),
            Some(Ended::Refused(reason)) => (Outcome::Refused(reason), false),
            Some(Ended::Faulty) => (Outcome::SelfVerifyFailed, false),
            Some(Ended::Stopped) => (Outcome::Cancelled, false),
            Some(Ended::Crashed(_) | Ended::Hung(_)) | None => (Outcome::Crashed, false),
        };
        self.deliver(ticket, finished, outcome, crasher);
    }

    /// Handles a crash: reruns the job, then searches for the input that causes it.
    fn crashed(
        &mut self,
        at: At,
        mut ticket: Ticket<T>,
        finished: &plan::Finished,
        ran: Option<(Report<T::Output>, Arc<T>)>,
    ) {
        self.counts.crashes += 1;
        let hung = matches!(&ran, Some((report, _)) if matches!(report.ended, Ended::Hung(_)));
        if hung && ticket.request.work.verifies() {
            // Do not blame the inputs it was to verify: the host was slow, or suspended.
            return self.deliver(ticket, finished, Outcome::Crashed, false);
        }
        if ticket.stage == Stage::First {
            let slot = ticket.request.session.slot.0;
            self.groups.crashed(ticket.request.group, slot);
            ticket.cut = finished.leftover;
        }
        // A job that hung in a thread is not run again.
        let mut may_again = false;
        if let Some((report, task)) = ran {
            if let Ended::Crashed(name) | Ended::Hung(name) = report.ended {
                ticket.name = ticket.name.or(name);
            }
            may_again = matches!(report.ended, Ended::Crashed(_)) && !self.closing;
            if ticket.stage == Stage::First {
                ticket.request.work = task;
            }
        }
        let next = match ticket.stage {
            _ if !may_again => None,
            Stage::First if self.config.crash_retries_max > 0 => Some(Stage::Again {
                left: self.config.crash_retries_max - 1,
            }),
            Stage::Again { left } if left > 0 => Some(Stage::Again { left: left - 1 }),
            Stage::First | Stage::Again { .. } => {
                let features = ticket.request.work.features(self.env.on(true));
                Some(Stage::Search(Search::new(features.inputs)))
            }
            Stage::Search(search) => {
                return self.searched(at, ticket, finished, search, true);
            }
        };
        match next {
            Some(again @ Stage::Again { .. }) => {
                let (class, work) = (ticket.request.class, ticket.request.work.clone());
                ticket.stage = again;
                self.run_again(at, ticket, finished, class, work);
            }
            Some(Stage::Search(search)) => self.search_on(at, ticket, finished, search),
            Some(Stage::First) | None => self.deliver_crashed(ticket, finished),
        }
    }

    /// Handles the end of a search run.
    fn searched(
        &mut self,
        at: At,
        ticket: Ticket<T>,
        finished: &plan::Finished,
        mut search: Search,
        crashed: bool,
    ) {
        search.answer(crashed);
        self.search_on(at, ticket, finished, search);
    }

    /// Runs the next part of a crashing task, or reports the input that causes it.
    fn search_on(
        &mut self,
        at: At,
        mut ticket: Ticket<T>,
        finished: &plan::Finished,
        search: Search,
    ) {
        match search.next() {
            Next::Found(index) => {
                let index = index as usize;
                if let Some(name) = ticket.request.work.input_digest(index) {
                    Arc::make_mut(&mut self.quarantine).insert(name);
                }
                self.deliver(ticket, finished, Outcome::Invalid(vec![index]), true);
            }
            Next::Run(inputs) => {
                let inputs = inputs.start as usize..inputs.end as usize;
                match ticket.request.work.part(inputs) {
                    Some(part) if !self.closing => {
                        ticket.stage = Stage::Search(search);
                        let part = Arc::new(part);
                        // The lowest class: these are many runs of a job that has already failed.
                        self.run_again(at, ticket, finished, Class::Maintenance, part);
                    }
                    Some(_) | None => self.deliver_crashed(ticket, finished),
                }
            }
            Next::Lost => self.deliver_crashed(ticket, finished),
        }
    }

    /// Delivers a crash with no known causing input: the whole task is not run again.
    fn deliver_crashed(&mut self, ticket: Ticket<T>, finished: &plan::Finished) {
        if let Some(name) = ticket.name {
            let quarantine = Arc::make_mut(&mut self.quarantine);
            quarantine.tasks = true;
            quarantine.insert(name);
        }
        self.deliver(ticket, finished, Outcome::Crashed, false);
    }

    /// Queues another run of a ticket's job; the job has crashed if there is no room.
    fn run_again(
        &mut self,
        at: At,
        ticket: Ticket<T>,
        finished: &plan::Finished,
        class: Class,
        work: Arc<T>,
    ) {
        let load = Load::new(work, self.env.clone());
        let request = Request {
            // Newer jobs of its group do not end the search.
            replaces: None,
            class,
            ..ticket.request.with(load)
        };
        match self.plan.submit(at.now, request) {
            Ok(job) => {
                self.tickets.insert(job, ticket);
            }
            Err(_) => self.deliver(ticket, finished, Outcome::Crashed, false),
        }
    }

    /// Exchanges the ticket for its end.
    fn deliver(
        &mut self,
        ticket: Ticket<T>,
        finished: &plan::Finished,
        outcome: Outcome<T::Output>,
        crasher: bool,
    ) {
        let counts = &mut self.counts;
        counts.delivered += 1;
        match &outcome {
            Outcome::Done(_) => {
                counts.done += 1;
                counts.late += u64::from(finished.late);
            }
            Outcome::Invalid(_) => counts.invalid += 1,
            _ => {}
        }
        self.done.push_back(Finished {
            job: ticket.job,
            session: ticket.request.session,
            group: ticket.request.group,
            outcome,
            late: finished.late,
            leftover: match ticket.stage {
                Stage::First => finished.leftover,
                Stage::Again { .. } | Stage::Search(_) => ticket.cut,
            },
            crasher,
            timing: ticket.timing,
            run: ticket.run,
        });
        self.news = true;
    }
}
