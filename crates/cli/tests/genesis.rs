//! Networks made by `alphorn genesis`: their files, a devnet and a node with keystores that run them,
//! and what is refused.

mod api;
mod bench;
mod ports;

use api::get;
use bench::Bench;
use ports::two_ports;
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Slots of a second, so that a few of them fit into a test.
const SECONDS: &str = "--preset custom:1000:0,200,400,600,800";

#[test]
fn the_files_say_what_was_asked_for() {
    let bench = Bench::new();
    let ips = "127.0.0.1,127.0.0.1,192.0.2.7";
    bench
        .run(&format!(
            "genesis --out net --nodes 3 --validators 50 --committees 4 --genesis-time 4000000000 \
             --ips {ips} --json made.json"
        ))
        .expect(0, "50 validators of bls on 3 nodes, slot 0 at 4000000000");
    let made = bench.json("made.json");
    assert_eq!(made["network"]["VALIDATOR_COUNT"], 50);
    let hosted = |i: usize| made["nodes"][i]["validators"].as_u64().unwrap();
    assert_eq!([0, 1, 2].map(hosted), [17, 17, 16]);
    let config = fs::read_to_string(bench.path("net/config.yaml")).unwrap();
    assert!(config.contains("GENESIS_TIME: 4000000000"), "{config}");
    assert!(
        config.contains("ATTESTATION_COMMITTEE_COUNT: 4"),
        "{config}"
    );
    for absent in ["ALPHORN_KEYS", "ALPHORN_BROADCAST_CODE"] {
        assert!(!config.contains(absent), "{config}");
    }
    let nodes = fs::read_to_string(bench.path("net/nodes.yaml")).unwrap();
    // Ports count up among the nodes of one address.
    for place in [
        "127.0.0.1/udp/9000/",
        "127.0.0.1/udp/9001/",
        "192.0.2.7/udp/9000/",
    ] {
        assert!(nodes.contains(place), "{nodes}");
    }
    let targets = bench.json("net/prometheus-targets.json");
    assert_eq!(targets[1]["targets"][0], "127.0.0.1:5053");
    assert!(bench.path("net/node-2/node.key").exists());
    bench
        .run("devnet --genesis net --slots 1")
        .expect(2, "must be loopback");
}

#[test]
fn what_no_node_can_run_is_refused_and_nothing_is_written() {
    let bench = Bench::new();
    for (options, named) in [
        (
            "--nodes 8 --validators 4",
            "--validators 4: each of 8 nodes",
        ),
        (
            "--aggregators 65",
            "publishers of level 1 = 65, must be 1 to 64",
        ),
        (
            "--collectors 0",
            "publishers of level 2 = 0, must be 1 to 64",
        ),
        ("--committees 2049", "2049"),
        ("--preset fast", "unknown slot timing"),
        ("--layers list/proof", "with bls list/list"),
        (
            "--scheme falcon --layers proof/proof",
            "with falcon list/list or list/proof",
        ),
        (
            "--scheme xmss --layers proof/proof --validators 2000",
            "cells of 1000 validators, with proof/proof at most 768",
        ),
        ("--ips 127.0.0.1", "--ips: 1 addresses, --nodes has 4"),
        (
            "--nodes 1 --ips 0.0.0.0",
            "--ips: 0.0.0.0, must be an address",
        ),
        (
            "--port 65534",
            "node 2 would have port 65536, at most 65535",
        ),
        ("--nodes 0", "0 is not in 1..=4096"),
        ("--genesis-time 0", "0 is not in"),
        (
            "--key-slots 64",
            "--key-slots 64: keys of bls have no slots, of xmss have",
        ),
        ("--validators 2^32", "a number of validators from 1 to"),
        ("--keys none.json", "none.json"),
    ] {
        bench
            .run(&format!("genesis --out net {options}"))
            .expect(2, named);
        assert!(!bench.path("net").exists(), "{options}");
    }
    fs::create_dir(bench.path("net")).unwrap();
    bench
        .run("genesis --out net")
        .expect(2, "must be a folder that is not there yet");
}

/// A folder is there whole or not at all, and can be asked for again.
#[test]
fn a_network_that_is_cut_off_is_not_there() {
    let bench = Bench::new();
    let alphorn = env!("CARGO_BIN_EXE_alphorn");
    // No file can be written: the first one ends the process, as a kill would.
    let limited = format!("ulimit -f 0; exec {alphorn} genesis --out net");
    let status = std::process::Command::new("sh")
        .args(["-c", &limited])
        .current_dir(bench.path(""))
        .status();
    assert!(!status.unwrap().success());
    assert!(!bench.path("net").exists());
    let again = bench.run("genesis --out net --validators 2^8");
    again.expect(0, "256 validators");
    let mode = |name: &str| fs::metadata(bench.path(name)).unwrap().permissions().mode();
    fs::create_dir(bench.path("plain")).unwrap();
    assert_eq!(mode("net"), mode("plain"));
}

/// Two nodes from their files. How many duties are done depends on the machine's other work.
#[test]
fn a_devnet_runs_the_network_of_a_folder() {
    let bench = Bench::new();
    bench
        .run("genesis --out late --delay 0 --nodes 2")
        .expect(0, "late");
    bench.run("devnet --genesis late").expect(2, "GENESIS_TIME");
    bench
        .run(&format!(
            "genesis --out net --delay 10 --nodes 2 --validators 16 --committees 1 {SECONDS} \
             --port {} --api-port {}",
            two_ports(),
            two_ports()
        ))
        .expect(0, "16 validators");
    let ended = bench.run(
        "devnet --genesis net --warmup-slots 0 --slots 3 --allow-missed 1000000 --json report.json",
    );
    assert!(
        matches!(ended.code, 0 | 5),
        "{}{}",
        ended.stdout,
        ended.stderr
    );
    let report = bench.json("report.json");
    assert_eq!(report["agreement"], true);
    let nodes = report["nodes"].as_array().unwrap();
    assert_eq!(nodes.len(), 2);
    assert!(nodes.iter().all(|node| node["local_validators"] == 8));
}

/// The commands that `genesis --help` shows, for two nodes on one machine: the interface of each is where
/// the list for Prometheus says, and each tells where its page is and what became of its duties.
#[test]
fn two_nodes_of_a_folder_have_the_ports_that_it_announces() {
    let bench = Bench::new();
    let (peers, api) = (two_ports(), two_ports());
    bench
        .run(&format!(
            "genesis --out net --delay 3 --nodes 2 --validators 16 --committees 1 {SECONDS} \
             --port {peers} --api-port {api}"
        ))
        .expect(0, "16 validators");
    let start = |name: &str| {
        let line = format!(
            "node --genesis net --node-id {name} --data-dir {name}/data \
             --node-key net/{name}/node.key --exit-on-stdin-eof"
        );
        fs::create_dir(bench.path(name)).unwrap();
        Command::new(env!("CARGO_BIN_EXE_alphorn"))
            .args(line.split(' '))
            .current_dir(bench.path("."))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    };
    let names = ["node-0", "node-1"];
    let mut running = names.map(start);
    let targets = bench.json("net/prometheus-targets.json");
    for (i, name) in names.iter().enumerate() {
        let until = Instant::now() + Duration::from_secs(120);
        let ready = bench.path(name).join("data/ready.json");
        while !ready.exists() {
            assert!(Instant::now() < until, "{name} does not start");
            assert!(running[i].try_wait().unwrap().is_none(), "{name} has ended");
            std::thread::sleep(Duration::from_millis(50));
        }
        let ready = bench.json(&format!("{name}/data/ready.json"));
        assert_eq!(ready["api"], targets[i]["targets"][0], "{name}");
        let page = get(&bench.path(name), "/dashboard/");
        assert!(page.contains("<title>"), "{page}");
    }
    // A port that is taken names the way out.
    bench
        .run(&format!(
            "node --genesis net --node-id node-0 --data-dir other --node-key net/node-0/node.key \
             --gossipsub-port 0 --api-port {api}"
        ))
        .expect(3, "--api-port takes another port");
    // Until some slots have lines.
    std::thread::sleep(Duration::from_secs(5));
    // The same on a terminal: both are well, once the first blocks are final.
    for name in names {
        let until = Instant::now() + Duration::from_secs(120);
        loop {
            let status = bench.run(&format!(
                "node status --data-dir {name}/data --json {name}.json"
            ));
            let report = bench.json(&format!("{name}.json"));
            assert_eq!(report["summary"]["name"], name);
            assert_eq!(status.code == 0, report["health"] == 200, "{report}");
            if status.code == 0 {
                status.expect(0, &format!("{name} (bls): able to do its duties"));
                break;
            }
            assert!(Instant::now() < until, "not well: {}", status.stderr);
            std::thread::sleep(Duration::from_millis(500));
        }
    }
    for one in &mut running {
        drop(one.stdin.take());
    }
    for (i, one) in running.into_iter().enumerate() {
        let output = one.wait_with_output().unwrap();
        assert!(output.status.success());
        let said = String::from_utf8(output.stdout).unwrap();
        let port = usize::from(api) + i;
        let page = format!("page http://127.0.0.1:{port}/dashboard/");
        // A line is its time, its level and what is said.
        let said_at = |line: &'_ str| line.split_once(" INFO ").map(|(_, text)| text.to_owned());
        let lines: Vec<String> = said.lines().filter_map(said_at).collect();
        assert!(lines[0].starts_with("predicted"), "{said}");
        assert!(lines[1].starts_with(names[i]), "{said}");
        assert!(lines[2].contains(&page), "{said}");
        let slots = lines.iter().filter(|line| line.starts_with("slot "));
        assert!(slots.count() >= 2, "{said}");
        let last = lines.last().unwrap();
        assert!(
            last.starts_with(&format!("{} ended in slot", names[i])),
            "{said}"
        );
        assert!(last.contains("duties done"), "{said}");
    }
}

/// Options of `keys new` for validators of a scheme.
fn new_keys(scheme: &str) -> String {
    let own = match scheme {
        "xmss" => " --slots 256 --duties",
        _ => "",
    };
    format!("--scheme {scheme}{own} --password-file password --kdf pbkdf2 --kdf-cost 10")
}

/// A network of four validators with keys of their own, their keystores in `keys`.
fn with_keystores(bench: &Bench, scheme: &str, options: &str) {
    bench
        .run(&format!(
            "keys new --out keys --count 4 {}",
            new_keys(scheme)
        ))
        .expect(0, "4 keys");
    bench
        .run(&format!(
            "genesis --scheme {scheme} --out net --keys keys/public-keys.json --committees 1 {options}"
        ))
        .expect(0, &format!("4 validators of {scheme}"));
}

/// The options of a node of the network.
fn node(name: &str, keys: &str) -> String {
    let line = format!(
        "node --genesis net --node-id {name} --data-dir data --node-key net/{name}/node.key \
         --api-port 0 {keys}"
    );
    line.trim_end().to_owned()
}

/// A node that runs.
struct Running<'a> {
    bench: &'a Bench,
    child: Child,
}

impl<'a> Running<'a> {
    /// Starts a node with the keystores of a folder, and waits until it runs.
    fn start(bench: &'a Bench, keys: &str) -> Self {
        let keys = format!("--keystores {keys} --password-file password --exit-on-stdin-eof");
        let _ = fs::remove_file(bench.path("data/ready.json"));
        let child = Command::new(env!("CARGO_BIN_EXE_alphorn"))
            .args(node("node-0", &keys).split(' '))
            .current_dir(bench.path("."))
            .env("ALPHORN_STATE_DIR", bench.path(&bench.state))
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut running = Running { bench, child };
        running.wait("the node starts", || {
            bench.path("data/ready.json").exists().then_some(())
        });
        running
    }

    /// Waits until something holds of the node.
    fn wait<T>(&mut self, what: &str, holds: impl Fn() -> Option<T>) -> T {
        let until = Instant::now() + Duration::from_secs(120);
        loop {
            if let Some(found) = holds() {
                return found;
            }
            assert!(Instant::now() < until, "in vain: {what}");
            assert!(self.child.try_wait().unwrap().is_none(), "it has ended");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Its first slot, once it has said anything of itself.
    fn first_slot(&mut self) -> u64 {
        let home = self.bench.path(".");
        self.wait("a summary", || {
            let summary: Value = serde_json::from_str(&get(&home, "/alphorn/v0/summary")).unwrap();
            (summary["name"] == "node-0").then(|| summary["first_slot"].as_u64().unwrap())
        })
    }

    /// Ends it as its parent's end does.
    fn end(mut self) -> Value {
        drop(self.child.stdin.take());
        let output = self.child.wait_with_output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{stderr}");
        self.bench.json("data/summary.json")
    }
}

/// A node whose keys come from keystores votes, and its votes come into blocks.
fn signs_with_keystores(scheme: &str) {
    let bench = Bench::new();
    let options = format!("--nodes 1 --delay 6 {SECONDS} --port {}", two_ports());
    with_keystores(&bench, scheme, &options);
    let config = fs::read_to_string(bench.path("net/config.yaml")).unwrap();
    assert!(
        config.contains("ALPHORN_KEYS: public-keys.json"),
        "{config}"
    );
    // The network's files have public keys only.
    assert!(!bench.path("net/keystore-0.json").exists());
    let mut running = Running::start(&bench, "keys");
    let here = bench.path(".");
    running.wait("a vote comes into a block", || {
        let summary: Value = serde_json::from_str(&get(&here, "/alphorn/v0/summary")).unwrap();
        let credited = summary["credited"].as_object().unwrap();
        let votes: u64 = credited.values().filter_map(Value::as_u64).sum();
        (votes > 0).then_some(())
    });
    let summary = running.end();
    assert_eq!(summary["validators"], 4);
    assert!(bench.path("data/safety.redb").exists());
}

#[test]
fn a_node_signs_with_keystores() {
    signs_with_keystores("bls");
}

#[test]
fn a_node_signs_with_keystores_of_falcon() {
    signs_with_keystores("falcon");
}

#[test]
fn a_node_signs_with_keystores_of_xmss() {
    signs_with_keystores("xmss");
}

/// An index that is used twice gives the key away: its mark goes from the keystore into the node's
/// folder, once, and nowhere else.
#[test]
fn an_xmss_key_moves_into_one_data_folder() {
    let bench = Bench::new();
    with_keystores(&bench, "xmss", "--nodes 1 --genesis-time 4000000000");
    let refused = |named: &str| {
        let line = node("node-0", "--keystores keys --password-file password");
        bench.run(&line).expect(2, named);
    };
    let inspect = |name: &str, said: &str| {
        let line = format!("keys inspect keys/{name}.json --scheme xmss");
        bench.run(&line).expect(0, said);
    };
    // Of one key nobody knows where it has signed.
    let mark = bench.path("keys/keystore-1-duty.mark");
    let saved = fs::read(&mark).unwrap();
    fs::remove_file(&mark).unwrap();
    refused("keystore-1-duty.mark: there is no mark of the slots that are signed");
    inspect("keystore-0", "slot next       0");
    fs::write(&mark, saved).unwrap();
    // One has signed as a file before, and holds the first slot of the node back.
    let message = "ab".repeat(32);
    bench
        .run(&format!(
            "sign --scheme xmss --key keys/keystore-2.json --password-file password \
             --message 0x{message} --slot 40 --out vote.json"
        ))
        .expect(0, "vote.json");
    let mut running = Running::start(&bench, "keys");
    assert_eq!(running.first_slot(), 41);
    running.end();
    for name in ["keystore-0", "keystore-1-duty", "keystore-2"] {
        inspect(name, "none: the key moved elsewhere");
    }
    bench
        .run(&format!(
            "sign --scheme xmss --key keys/keystore-0.json --password-file password \
             --message 0x{message} --slot 60 --out vote-0.json"
        ))
        .expect(1, "the key moved elsewhere");
    bench
        .run(&format!(
            "sign --scheme xmss --key keys/keystore-0-duty.json --password-file password \
             --message 0x{message} --slot 60 --out vote-0.json"
        ))
        .expect(2, "a key for duties, not for votes");
    // The same folder knows it, whatever lies beside the keystore; another one does not.
    fs::remove_file(&mark).unwrap();
    let mut running = Running::start(&bench, "keys");
    assert_eq!(running.first_slot(), 41);
    running.end();
    fs::rename(bench.path("data"), bench.path("first")).unwrap();
    refused("keystore-0.mark: the key moved elsewhere");
    // A mark that comes back raises the first slot; it does not come back where the node may have signed.
    fs::remove_dir_all(bench.path("data")).unwrap();
    fs::rename(bench.path("first"), bench.path("data")).unwrap();
    for (name, first) in [("keystore-3", 60), ("keystore-3-duty", 90)] {
        let import = |floor: u64| {
            bench.run(&format!(
                "keys import --scheme xmss keys/{name}.json --out back/{name}.json \
                 --password-file password --kdf pbkdf2 --kdf-cost 10 --floor {floor}"
            ))
        };
        fs::create_dir(bench.path("back")).unwrap();
        for floor in [7, 41] {
            import(floor).expect(1, "the key moved elsewhere");
            assert!(fs::read_dir(bench.path("back")).unwrap().next().is_none());
        }
        import(first).expect(0, &format!("back/{name}.json"));
        for file in fs::read_dir(bench.path("back")).unwrap() {
            let file = file.unwrap();
            fs::rename(file.path(), bench.path("keys").join(file.file_name())).unwrap();
        }
        fs::remove_dir(bench.path("back")).unwrap();
        inspect(name, &format!("slot next       {first}"));
        let mut running = Running::start(&bench, "keys");
        assert_eq!(running.first_slot(), first);
        running.end();
    }
}

#[test]
fn keystores_of_falcon_and_xmss_that_are_not_the_nodes_are_refused() {
    for (scheme, first, lacking) in [
        ("falcon", "keystore-0", "that of validator 2 is not there"),
        (
            "xmss",
            "keystore-0-duty",
            "that of validator 0 is not there",
        ),
    ] {
        let bench = Bench::new();
        with_keystores(&bench, scheme, "--nodes 2 --genesis-time 4000000000");
        fs::create_dir(bench.path("own")).unwrap();
        let copy = |from: &str, to: &str| {
            fs::copy(bench.path(from), bench.path(to)).unwrap();
        };
        let run = |keys: &str| bench.run(&node("node-0", keys));
        let both = "--keystores own --password-file password";
        run("").expect(2, "--keystores and --password-file");
        copy(&format!("keys/{first}.json"), "own/a.json");
        run(both).expect(2, lacking);
        copy(&format!("keys/{first}.json"), "own/b.json");
        run(both).expect(2, "b.json: the key of validator 0");
        copy("keys/keystore-1.json", "own/b.json");
        run(both).expect(2, "b.json: validator 1, which node-0 does not host");
        bench
            .run(&format!("keys new --out other {}", new_keys(scheme)))
            .expect(0, "1 key in other");
        copy("other/keystore-0.json", "own/b.json");
        run(both).expect(2, "b.json: the network has no validator with the key 0x");
        fs::remove_file(bench.path("own/b.json")).unwrap();
        bench.write_secret("wrong", "battery staple\n");
        run("--keystores own --password-file wrong").expect(2, "wrong password");
        run("--keystores own --password-file wrong --dry-run").expect(2, "wrong password");
        assert!(!bench.path("data").exists(), "nothing is begun");
    }
}

/// While a node waits for the password of its keystores, its process writes no core file, now or later.
#[cfg(target_os = "linux")]
#[test]
fn core_files_are_off_before_keystores_are_open() {
    let bench = Bench::new();
    with_keystores(&bench, "bls", "--nodes 1 --genesis-time 4000000000");
    for rehearsal in ["", " --dry-run"] {
        let keys = format!("--keystores keys --password-file -{rehearsal}");
        let mut child = Command::new(env!("CARGO_BIN_EXE_alphorn"))
            .args(node("node-0", &keys).split(' '))
            .current_dir(bench.path("."))
            .env("ALPHORN_STATE_DIR", bench.path(&bench.state))
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let limits = format!("/proc/{}/limits", child.id());
        let until = Instant::now() + Duration::from_secs(60);
        let is_off = || {
            let limits = fs::read_to_string(&limits).unwrap();
            let mut lines = limits.lines();
            let core = lines.find_map(|line| line.strip_prefix("Max core file size"));
            let words: Vec<&str> = core.unwrap().split_whitespace().take(2).collect();
            words == ["0", "0"]
        };
        while !is_off() && Instant::now() < until {
            assert!(child.try_wait().unwrap().is_none(), "it waits for nothing");
            std::thread::sleep(Duration::from_millis(20));
        }
        let off = is_off();
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(off, "{keys}");
    }
}

/// Lists that no network can be made of.
#[test]
fn public_keys_of_another_kind_are_refused() {
    let bench = Bench::new();
    let new = "--password-file password --kdf pbkdf2 --kdf-cost 10 --count 2";
    bench
        .run(&format!(
            "keys new --scheme xmss --slots 8 --out votes {new}"
        ))
        .expect(0, "2 keys");
    bench
        .run(&format!(
            "keys new --scheme xmss --slots 8 --duties --out both {new}"
        ))
        .expect(0, "each with one for duties");
    bench
        .run(&format!("keys new --duties --out bls {new}"))
        .expect(2, "--duties: bls signs duties with the key of votes");
    let genesis = |scheme: &str, keys: &str| {
        bench.run(&format!(
            "genesis --nodes 1 --out net --scheme {scheme} --keys {keys}"
        ))
    };
    let lists = "votes/public-keys.json";
    genesis("xmss", lists).expect(2, "public-keys.json: no keys for duties");
    genesis("falcon", lists).expect(
        2,
        "a file of --scheme xmss --set compact, not of --scheme falcon",
    );
    genesis("xmss", "both/keystore-0.json").expect(2, "no list of public keys");
    let list = fs::read_to_string(bench.path("both/public-keys.json")).unwrap();
    let parsed: Value = serde_json::from_str(&list).unwrap();
    let key = |i: usize, name: &str| parsed["keys"][i][name].as_str().unwrap().to_owned();
    let duty = key(1, "duty_key");
    for (from, to, named) in [
        (
            duty.clone(),
            key(0, "public_key"),
            "the key for duties 1 repeats a key of entry 0",
        ),
        (
            duty.clone(),
            duty[..20].to_owned(),
            "the key for duties 1 has 9 bytes: must have 32",
        ),
        (
            duty.clone(),
            format!("0x{}", "ff".repeat(32)),
            "public-keys.json: key 1",
        ),
        (
            duty,
            String::from("0x"),
            "1 keys for duties, must be 0 or 2",
        ),
    ] {
        fs::write(
            bench.path("both/public-keys.json"),
            list.replace(&from, &to),
        )
        .unwrap();
        genesis("xmss", "both/public-keys.json").expect(2, named);
    }
    assert!(!bench.path("net").exists());
}

#[test]
fn keystores_that_are_not_the_nodes_are_refused() {
    let bench = Bench::new();
    with_keystores(&bench, "bls", "--nodes 2 --genesis-time 4000000000");
    let both = "--keystores own --password-file password";
    fs::create_dir(bench.path("own")).unwrap();
    let copy = |from: &str, to: &str| {
        fs::copy(bench.path(from), bench.path(to)).unwrap();
    };
    let run = |keys: &str| bench.run(&node("node-0", keys));
    run("").expect(2, "--keystores and --password-file");
    run("--keystores own").expect(2, "--password-file");
    // node-0 hosts validators 0 and 2.
    run(both).expect(
        2,
        "0 keystores, node-0 hosts 2 validators; that of validator 0",
    );
    copy("keys/keystore-0.json", "own/a.json");
    run(both).expect(
        2,
        "1 keystores, node-0 hosts 2 validators; that of validator 2",
    );
    copy("keys/keystore-1.json", "own/b.json");
    run(both).expect(2, "b.json: validator 1, which node-0 does not host");
    copy("keys/keystore-0.json", "own/b.json");
    run(both).expect(2, "b.json: the key of validator 0, as own/a.json");
    bench
        .run("keys new --out other --password-file password --kdf pbkdf2 --kdf-cost 10")
        .expect(0, "1 key in other");
    copy("other/keystore-0.json", "own/b.json");
    run(both).expect(2, "b.json: the network has no validator with the key 0x");
    copy("keys/keystore-2.json", "own/b.json");
    bench.write_secret("wrong", "battery staple\n");
    run("--keystores own --password-file wrong").expect(2, "wrong password");
    fs::write(bench.path("own/c.json"), "{}").unwrap();
    run(both).expect(2, "c.json: neither a keystore");
    assert!(!bench.path("data").exists(), "nothing is begun");

    let config = fs::read_to_string(bench.path("net/config.yaml")).unwrap();
    for (from, to, named) in [
        (
            "public-keys.json",
            "../public-keys.json",
            "must be a file beside",
        ),
        (
            "VALIDATOR_COUNT: 4",
            "VALIDATOR_COUNT: 5",
            "has 4 public keys",
        ),
        ("ALPHORN_KEYS: public-keys.json", "", "has no ALPHORN_KEYS"),
    ] {
        fs::write(bench.path("net/config.yaml"), config.replace(from, to)).unwrap();
        run(both).expect(2, named);
    }
}
