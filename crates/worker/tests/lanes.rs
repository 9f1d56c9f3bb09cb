//! Process lanes with real children: this binary is its own child.
//!
//! It has no test harness, because a child's standard output belongs to its frames.

mod toy;

use alphorn_scheme::{Class, JobId, Outcome};
use alphorn_types::Time;
use alphorn_worker::{
    ChildCommand, Config, Finished, Request, Worker, WorkerConfig, serve_child, steady_time,
};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::process::{Command, ExitCode};
use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};
use toy::{
    ABORT, BAD, DEAF, GOOD, HANG, OOM, PANIC, Toy, ToyEnv, WRONG, WRONG_BYTES, WRONG_EVERYWHERE,
    group, request,
};

/// The argument that makes this binary a child.
const CHILD: &str = "--serve-child";

/// Descriptors that this process was started with; the system hands them on.
static DESCRIPTORS: OnceLock<usize> = OnceLock::new();

/// Open descriptors of a process, but for the one that looks.
fn descriptors(process: &str) -> usize {
    let files = std::fs::read_dir(format!("/proc/{process}/fd")).expect("it lives");
    files.count() - usize::from(process == "self")
}

fn main() -> ExitCode {
    DESCRIPTORS.get_or_init(|| descriptors("self"));
    let mut args = std::env::args().skip(1);
    let filter = args.next();
    if filter.as_deref() == Some(CHILD) {
        return serve_child::<Toy>(|setup| match setup {
            b"unfit" => Err("commanded".into()),
            b"sleeps" => {
                std::thread::sleep(Duration::from_secs(600));
                Err("awake".into())
            }
            _ if is_born_dead(setup) => std::process::abort(),
            _ => Ok(ToyEnv::default()),
        });
    }
    let tests: &[(&str, fn())] = &[
        ("a_job_runs_in_a_child", a_job_runs_in_a_child),
        ("a_child_is_limited", a_child_is_limited),
        (
            "faults_end_children_and_not_this_process",
            faults_end_children_and_not_this_process,
        ),
        (
            "the_input_that_kills_is_found",
            the_input_that_kills_is_found,
        ),
        ("a_deaf_child_is_killed", a_deaf_child_is_killed),
        (
            "no_wrong_result_comes_from_a_child",
            no_wrong_result_comes_from_a_child,
        ),
        (
            "a_child_that_cannot_be_set_up_refuses",
            a_child_that_cannot_be_set_up_refuses,
        ),
        (
            "no_job_is_blamed_for_what_died_before_it",
            no_job_is_blamed_for_what_died_before_it,
        ),
        (
            "low_memory_takes_a_child_for_each_job",
            low_memory_takes_a_child_for_each_job,
        ),
        ("no_child_is_left_behind", no_child_is_left_behind),
    ];
    let wanted = |name: &str| filter.as_deref().is_none_or(|filter| name.contains(filter));
    for (name, test) in tests.iter().filter(|(name, _)| wanted(name)) {
        let start = Instant::now();
        test();
        println!(
            "test {name} ... ok ({:.2} s)",
            start.elapsed().as_secs_f64()
        );
    }
    ExitCode::SUCCESS
}

fn far() -> Time {
    Time::from_nanos(u64::MAX / 2)
}

fn child(setup: &[u8]) -> ChildCommand {
    ChildCommand {
        program: std::env::current_exe().expect("known"),
        args: vec![CHILD.into()],
        setup: setup.into(),
    }
}

fn config() -> WorkerConfig {
    WorkerConfig {
        plan: Config {
            prove_threads: 1,
            memory_budget_bytes: 512 << 20,
            ..Config::default()
        },
        child: Some(child(&[])),
        // Long enough for a child that waits for a processor.
        hang_after_ms: 3_000,
        stop_grace_ms: 200,
        beat_ms: 20,
        ..WorkerConfig::default()
    }
}

fn worker(config: WorkerConfig) -> (Worker<Toy>, Receiver<()>) {
    let (wake, woken) = channel();
    let wake = move || {
        let _ = wake.send(());
    };
    (
        Worker::start(ToyEnv::default(), config, steady_time(), wake).expect("threads"),
        woken,
    )
}

fn proof(inputs: &[u8], seed: u64) -> Request<Toy> {
    let toy = Toy {
        isolate: true,
        seed,
        ..Toy::new(inputs)
    };
    let mut request = request(Class::Current, 0, toy, far(), far());
    request.group = group((seed % 1000) as u16);
    request
}

fn receive(worker: &Worker<Toy>, woken: &Receiver<()>) -> Finished<u64> {
    loop {
        if let Some(finished) = worker.try_recv() {
            return finished;
        }
        woken
            .recv_timeout(Duration::from_secs(60))
            .expect("a job ends");
    }
}

fn run(worker: &Worker<Toy>, woken: &Receiver<()>, request: Request<Toy>) -> Finished<u64> {
    let job = worker.submit(request).expect("there is room");
    let finished = receive(worker, woken);
    assert_eq!(finished.job, job);
    finished
}

/// Process ids of the children of this process.
fn children() -> Vec<u32> {
    let tasks = std::fs::read_dir("/proc/self/task").expect("Linux");
    let lists =
        tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("children")).ok());
    let lists: Vec<String> = lists.collect();
    let ids = lists.iter().flat_map(|list| list.split_whitespace());
    ids.filter_map(|id| id.parse().ok()).collect()
}

fn a_job_runs_in_a_child() {
    let (worker, woken) = worker(config());
    let finished = run(&worker, &woken, proof(&[GOOD; 5], 1));
    assert_eq!(finished.outcome, Outcome::Done(5));
    assert_eq!(children().len(), 2, "one works, one stands by");
    let bad = run(&worker, &woken, proof(&[GOOD, BAD, GOOD, BAD], 2));
    assert_eq!(bad.outcome, Outcome::Invalid(vec![1, 3]));
    // A new environment gets new children.
    let before = children();
    worker.replace_env(ToyEnv { portable: true }, Some(b"other".as_slice().into()));
    assert_eq!(
        run(&worker, &woken, proof(&[GOOD; 6], 3)).outcome,
        Outcome::Done(6)
    );
    assert!(children().iter().all(|id| !before.contains(id)));
}

/// A number that Linux says of the first thread of a process, by its place in proc(5).
fn stat(process: &str, field: usize) -> Option<i32> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // Behind the name, which is the second.
    let after_name = stat.rsplit(')').next()?;
    after_name.split_whitespace().nth(field - 3)?.parse().ok()
}

fn niceness(process: &str) -> Option<i32> {
    stat(process, 19)
}

/// What a child may not do, or what is missing of it.
fn limits_of(child: u32) -> Result<(), String> {
    let read = |file: &str| {
        let text = std::fs::read_to_string(format!("/proc/{child}/{file}"));
        text.map_err(|error| format!("{file}: {error}"))
    };
    let limits = read("limits")?;
    let limit = |name: &str| {
        let line = limits.lines().find(|line| line.starts_with(name))?;
        line.split_whitespace().nth(name.split_whitespace().count())
    };
    let core = limit("Max core file size");
    let data = limit("Max data size").and_then(|text| text.parse::<u64>().ok());
    let badness = read("oom_score_adj")?;
    let nice = niceness(&child.to_string());
    let expected = niceness("self").map(|own| own.saturating_add(10).min(19));
    let holds = core == Some("0")
        && data.is_some_and(|bytes| (600 << 20..1200 << 20).contains(&bytes))
        && badness.trim() == "500"
        && nice.is_some()
        && nice == expected;
    let seen = format!("core {core:?}, data {data:?}, badness {badness:?}, nice {nice:?}");
    holds.then_some(()).ok_or(seen)
}

fn a_child_is_limited() {
    let (worker, woken) = worker(config());
    run(&worker, &woken, proof(&[GOOD], 1));
    for id in children() {
        // The one that stands by may still be on its way, and sets one limit after the other.
        let until = Instant::now() + Duration::from_secs(10);
        let mut seen = limits_of(id);
        while seen.is_err() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
            seen = limits_of(id);
        }
        assert_eq!(seen, Ok(()));
        let handed_on = DESCRIPTORS.get().copied();
        assert_eq!(
            Some(descriptors(&id.to_string())),
            handed_on,
            "nothing of ours is inherited"
        );
        // Ctrl-C on a terminal goes to every process of the parent's group, and would end the jobs that
        // the parent gives time to end.
        let group = stat(&id.to_string(), 5);
        assert_eq!(group, i32::try_from(id).ok(), "a group of its own");
    }
}

/// R13: a panic, an abort, a hang and memory without end in a child, in turn.
fn faults_end_children_and_not_this_process() {
    let (worker, woken) = worker(config());
    run(&worker, &woken, proof(&[GOOD], 0));
    let mut restarts_ms = Vec::new();
    for seed in 1..=8 {
        let fault = [PANIC, ABORT, HANG, OOM][seed as usize % 4];
        let finished = run(&worker, &woken, proof(&[fault], seed));
        assert_eq!(finished.outcome, Outcome::Invalid(vec![0]), "fault {fault}");
        assert!(finished.crasher);
        let start = Instant::now();
        assert_eq!(
            run(&worker, &woken, proof(&[GOOD], 100 + seed)).outcome,
            Outcome::Done(1)
        );
        restarts_ms.push(start.elapsed().as_secs_f64() * 1e3);
    }
    restarts_ms.sort_by(f64::total_cmp);
    println!("     next job done after a fault: {restarts_ms:.1?} ms");
    let status = worker.status();
    assert_eq!(
        (status.abandoned, status.counts.crashes),
        (0, 16),
        "each is run twice"
    );
    // On a busy machine memory without end is slow, and may hang before it is refused.
    assert!(status.counts.hangs >= 4);
    assert_eq!(status.counts.accepted, status.counts.delivered);
}

fn the_input_that_kills_is_found() {
    let (worker, woken) = worker(config());
    let mut inputs = [GOOD; 64];
    inputs[41] = ABORT;
    let finished = run(&worker, &woken, proof(&inputs, 1));
    assert_eq!(
        (finished.outcome, finished.crasher),
        (Outcome::Invalid(vec![41]), true)
    );
    let crashes = worker.status().counts.crashes;
    assert!(crashes <= 2 + 2 * 6 + 4, "{crashes} crashes");
    let again = run(&worker, &woken, proof(&[GOOD, ABORT], 1));
    assert_eq!(again.outcome, Outcome::Invalid(vec![1]));
    assert_eq!(worker.status().counts.crashes, crashes);
}

fn a_deaf_child_is_killed() {
    let (worker, woken) = worker(config());
    let request = proof(&[DEAF], 1);
    let session = request.session;
    worker.submit(request).expect("there is room");
    while worker.status().running == 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
    std::thread::sleep(Duration::from_millis(100));
    worker.cancel(session);
    assert_eq!(receive(&worker, &woken).outcome, Outcome::Cancelled);
    assert_eq!(worker.status().counts.crashes, 0);
    assert_eq!(
        run(&worker, &woken, proof(&[GOOD], 2)).outcome,
        Outcome::Done(1)
    );
}

/// R12 in a child.
fn no_wrong_result_comes_from_a_child() {
    let (worker, woken) = worker(config());
    for (wrong, expected) in [
        (WRONG_EVERYWHERE, Outcome::SelfVerifyFailed),
        (WRONG_BYTES, Outcome::SelfVerifyFailed),
        (WRONG, Outcome::Done(8)),
    ] {
        let finished = run(&worker, &woken, proof(&[GOOD, wrong], u64::from(wrong)));
        assert_eq!(finished.outcome, expected);
    }
    assert!(worker.status().kernel_disabled);
}

fn a_child_that_cannot_be_set_up_refuses() {
    let (worker, woken) = worker(WorkerConfig {
        child: Some(child(b"unfit")),
        ..config()
    });
    let refused = run(&worker, &woken, proof(&[GOOD], 1)).outcome;
    assert_eq!(refused, Outcome::Refused("commanded".into()));
    let missing = ChildCommand {
        program: "/nowhere".into(),
        ..ChildCommand::default()
    };
    let (worker, woken) = self::worker(WorkerConfig {
        child: Some(missing),
        ..config()
    });
    let refused = run(&worker, &woken, proof(&[GOOD], 1)).outcome;
    assert!(matches!(refused, Outcome::Refused(reason) if reason.contains("no child process")));
}

/// Whether a child is one of the first so many, which die while they set up. Each leaves a byte in the file.
fn is_born_dead(setup: &[u8]) -> bool {
    let Some((deaths, file)) = setup.strip_prefix(b"dies ").and_then(<[u8]>::split_first) else {
        return false;
    };
    let path = std::str::from_utf8(file).expect("a path");
    let mut file = File::options()
        .append(true)
        .open(path)
        .expect("it is there");
    file.write_all(&[0]).expect("a byte");
    file.metadata().expect("open").len() <= u64::from(*deaths)
}

/// Kills a child, and returns when it runs no more.
fn kill(child: &u32) {
    let id = child.to_string();
    assert!(
        Command::new("kill")
            .args(["-KILL", &id])
            .status()
            .expect("there is kill")
            .success()
    );
    // Its pipe is closed by the last of its threads.
    let runs = || {
        let threads = std::fs::read_dir(format!("/proc/{child}/task"));
        let stat = std::fs::read_to_string(format!("/proc/{child}/stat"));
        threads.is_ok_and(|threads| threads.count() > 1)
            || stat.is_ok_and(|stat| !stat.contains(") Z "))
    };
    let until = Instant::now() + Duration::from_secs(10);
    while runs() && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A child that dies while it sets up, or with nothing to do, says nothing about the job that finds it so:
/// another does the job, and where children only die the job is refused. No input is a crasher for it.
fn no_job_is_blamed_for_what_died_before_it() {
    let started = |deaths: u8, low_memory: bool| {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let path = file.path().to_str().expect("a path").as_bytes();
        let setup = [b"dies ".as_slice(), &[deaths], path].concat();
        let (worker, woken) = worker(WorkerConfig {
            child: Some(child(&setup)),
            low_memory,
            ..config()
        });
        (worker, woken, file)
    };
    // Without one that stands by it is a matter of how many are started for the job.
    let (worker, woken, _file) = started(2, true);
    let done = run(&worker, &woken, proof(&[GOOD, GOOD], 1));
    assert_eq!(done.outcome, Outcome::Done(2));
    assert_eq!(worker.status().counts.crashes, 0);
    let (worker, woken, _file) = started(u8::MAX, true);
    for seed in 1..=4 {
        let refused = run(&worker, &woken, proof(&[GOOD, GOOD], seed));
        assert!(!refused.crasher);
        let Outcome::Refused(reason) = refused.outcome else {
            panic!("{:?}", refused.outcome);
        };
        assert!(reason.contains("3 child processes in turn"), "{reason}");
    }
    let status = worker.status();
    assert_eq!((status.counts.crashes, status.quarantined), (0, 0));
    // One that never gets ready is killed, once, and so is one that was not needed in the end.
    let (worker, woken) = self::worker(WorkerConfig {
        child: Some(child(b"sleeps")),
        run_max_ms: 300,
        ..config()
    });
    let refused = run(&worker, &woken, proof(&[GOOD], 1));
    assert!(!refused.crasher);
    let reason = "a child process did not set up in time";
    assert_eq!(refused.outcome, Outcome::Refused(reason.into()));
    let counts = worker.status().counts;
    assert_eq!((counts.crashes, counts.hangs), (0, 1));
    let (worker, woken) = self::worker(WorkerConfig {
        child: Some(child(b"sleeps")),
        ..config()
    });
    let request = proof(&[GOOD], 2);
    let session = request.session;
    worker.submit(request).expect("there is room");
    while worker.status().running == 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
    worker.cancel(session);
    assert_eq!(receive(&worker, &woken).outcome, Outcome::Cancelled);
    assert_eq!(worker.status().counts.crashes, 0);
    // Those that wait for work are killed.
    let (worker, woken) = self::worker(config());
    for seed in 1..=4 {
        let done = run(&worker, &woken, proof(&[GOOD], seed));
        assert_eq!(done.outcome, Outcome::Done(1));
        children().iter().for_each(kill);
    }
    assert_eq!(worker.status().counts.crashes, 0);
}

fn low_memory_takes_a_child_for_each_job() {
    let (worker, woken) = worker(WorkerConfig {
        low_memory: true,
        ..config()
    });
    for seed in 0..3 {
        assert_eq!(
            run(&worker, &woken, proof(&[GOOD], seed)).outcome,
            Outcome::Done(1)
        );
        assert!(children().is_empty());
    }
}

fn no_child_is_left_behind() {
    let (worker, woken) = worker(config());
    let mut jobs = BTreeMap::<JobId, u32>::new();
    for seed in 0..4 {
        let mut request = proof(&[GOOD], seed);
        request.work.work_us = 20_000_000;
        jobs.insert(worker.submit(request).expect("there is room"), 0);
    }
    while children().is_empty() {
        std::thread::sleep(Duration::from_millis(1));
    }
    worker.shutdown(Duration::from_millis(300));
    for _ in 0..4 {
        let finished = receive(&worker, &woken);
        assert_eq!(finished.outcome, Outcome::Cancelled);
        *jobs.get_mut(&finished.job).expect("was accepted") += 1;
    }
    assert!(jobs.values().all(|ends| *ends == 1));
    assert_eq!(children(), Vec::<u32>::new());
}
