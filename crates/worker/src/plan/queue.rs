//! The waiting jobs, in the three orders in which they are searched.

use super::{Rank, Request, Waiting};
use alphorn_scheme::{Class, Group, JobId, SessionId};
use alphorn_types::Time;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// Waiting jobs; every operation except a search by session is logarithmic.
#[derive(Debug)]
pub(super) struct Queue<T> {
    /// Boxed: a map node reserves space for eleven.
    jobs: BTreeMap<JobId, Box<Waiting<T>>>,
    /// By client, best first.
    order: BTreeSet<(u32, Class, Time, JobId)>,
    /// Worst first, used when the queue is full.
    worst: BTreeSet<(Rank, JobId)>,
    /// By the time at which they lose their value.
    by_hard: BTreeSet<(Time, JobId)>,
    /// The waiting job of each group, by role.
    groups: BTreeMap<(Group, u16), JobId>,
    bytes: u64,
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        Self {
            jobs: BTreeMap::new(),
            order: BTreeSet::new(),
            worst: BTreeSet::new(),
            by_hard: BTreeSet::new(),
            groups: BTreeMap::new(),
            bytes: 0,
        }
    }
}

impl<T> Queue<T> {
    pub(super) fn len(&self) -> usize {
        self.jobs.len()
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn bytes_of(&self, job: JobId) -> u64 {
        self.jobs[&job].request.bytes
    }

    pub(super) fn get(&self, job: JobId) -> &Waiting<T> {
        &self.jobs[&job]
    }

    pub(super) fn rank(request: &Request<T>) -> Rank {
        (Reverse(request.class), request.session.slot)
    }

    pub(super) fn insert(&mut self, job: JobId, waiting: Waiting<T>) {
        let request = &waiting.request;
        let client = request.client;
        self.order
            .insert((client, request.class, request.soft, job));
        self.worst.insert((Self::rank(request), job));
        self.by_hard.insert((request.hard, job));
        if let Some(role) = request.replaces {
            self.groups.insert((request.group, role), job);
        }
        self.bytes += request.bytes;
        self.jobs.insert(job, Box::new(waiting));
    }

    /// Removes a job.
    ///
    /// # Panics
    ///
    /// If it is not waiting.
    pub(super) fn remove(&mut self, job: JobId) -> Waiting<T> {
        let waiting = *self.jobs.remove(&job).expect("the job waits");
        let request = &waiting.request;
        let client = request.client;
        self.order
            .remove(&(client, request.class, request.soft, job));
        self.worst.remove(&(Self::rank(request), job));
        self.by_hard.remove(&(request.hard, job));
        if let Some(role) = request.replaces {
            self.groups.remove(&(request.group, role));
        }
        self.bytes -= request.bytes;
        if self.jobs.is_empty() {
            // An empty map keeps an allocation for eleven.
            *self = Self::default();
        }
        waiting
    }

    /// Returns the job that the request replaces.
    pub(super) fn same_group(&self, request: &Request<T>) -> Option<JobId> {
        let key = (request.group, request.replaces?);
        self.groups.get(&key).copied()
    }

    pub(super) fn of_session(&self, session: SessionId) -> Vec<JobId> {
        let jobs = self.jobs.iter();
        let of_session = jobs.filter(|(_, waiting)| waiting.request.session == session);
        of_session.map(|(job, _)| *job).collect()
    }

    pub(super) fn worst_first(&self) -> impl Iterator<Item = (Rank, JobId)> {
        self.worst.iter().copied()
    }

    /// The numbers of clients with waiting jobs, starting from `first`.
    pub(super) fn clients_from(&self, first: u32) -> impl Iterator<Item = u32> {
        let from = |client: u32| {
            let first = (client, Class::ALL[0], Time::ZERO, JobId(0));
            self.order.range(first..).next().map(|key| key.0)
        };
        std::iter::successors(from(first), move |client| from(client.checked_add(1)?))
    }

    /// A client's jobs of a class, earliest `soft` first.
    pub(super) fn of_class(&self, client: u32, class: Class) -> impl Iterator<Item = JobId> {
        let first = (client, class, Time::ZERO, JobId(0));
        let last = (client, class, Time::MAX, JobId(u64::MAX));
        self.order.range(first..=last).map(|(.., job)| *job)
    }

    /// Returns a job whose `hard` has passed.
    pub(super) fn expired(&self, now: Time) -> Option<JobId> {
        let (hard, job) = self.by_hard.first()?;
        (*hard <= now).then_some(*job)
    }

    /// Time at which the first job loses its value.
    pub(super) fn next_expiry(&self) -> Option<Time> {
        self.by_hard.first().map(|(hard, _)| *hard)
    }

    /// Time at which the first job of the current phase becomes late.
    pub(super) fn next_late(&self) -> Option<Time> {
        self.first_of(Class::Current).map(|(soft, _)| soft)
    }

    /// Moves jobs of the current phase whose `soft` has passed to the class of late ones.
    pub(super) fn expire_soft(&mut self, now: Time) {
        while let Some((soft, job)) = self.first_of(Class::Current) {
            if soft > now {
                break;
            }
            let mut waiting = self.remove(job);
            waiting.request.class = Class::Backfill;
            self.insert(job, waiting);
        }
    }

    /// The job of a class with the earliest `soft`, for any client.
    fn first_of(&self, class: Class) -> Option<(Time, JobId)> {
        let firsts = self.clients_from(0).filter_map(|client| {
            let job = self.of_class(client, class).next()?;
            Some((self.get(job).request.soft, job))
        });
        firsts.min()
    }
}
