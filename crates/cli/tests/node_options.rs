//! Where the options of a node come from, what a dry run shows of them, and what is refused.

mod bench;

use bench::Bench;

/// The options of a node of the network in `net`.
const NODE: &str = "node --node-id node-0 --data-dir data --node-key net/node-0/node.key";

fn network() -> Bench {
    let bench = Bench::new();
    bench
        .run("genesis --out net --nodes 2 --genesis-time 4000000000")
        .expect(0, "256 validators");
    bench
}

#[test]
fn a_dry_run_shows_where_each_option_comes_from_and_writes_nothing() {
    let bench = network();
    let file = "genesis: net\napi-port: 7777\nprove-threads: 3\nmemory-budget: 512\n";
    std::fs::write(bench.path("node.yaml"), file).unwrap();
    let ended = bench.run(&format!(
        "{NODE} --config node.yaml --api-port 8888 --dry-run --transport both --json options.json"
    ));
    ended.expect(0, "node-0: 128 of 256 validators of bls");
    let told = bench.json("options.json");
    for (name, value, from) in [
        ("genesis", Some("net"), "file"),
        ("api-port", Some("8888"), "command line"),
        ("transport", Some("both"), "command line"),
        ("isolation", Some("process"), "default"),
        ("record", None, "not set"),
    ] {
        let option = &told[name];
        assert_eq!(option["value"].as_str(), value, "{name}");
        assert_eq!(option["from"], from, "{name}");
    }
    assert!(ended.stdout.contains("1 prove lane of 3 threads"));
    assert!(!bench.path("data").exists());
}

/// The code of large messages is the network's, not a node's.
#[test]
fn the_code_of_a_network_stands_in_its_files() {
    let bench = Bench::new();
    bench
        .run("genesis --out net --nodes 2 --broadcast-code rlnc --genesis-time 4000000000")
        .expect(0, "256 validators");
    let config = std::fs::read_to_string(bench.path("net/config.yaml")).unwrap();
    assert!(config.contains("ALPHORN_BROADCAST_CODE: rlnc"), "{config}");
    let line = format!("{NODE} --genesis net --dry-run");
    bench.run(&line).expect(0, "large messages in rlnc");
    bench
        .run(&format!("{line} --broadcast-code rlnc"))
        .expect(2, "--broadcast-code");
}

/// So is its fork choice, and part of its identity.
#[test]
fn the_fork_choice_of_a_network_stands_in_its_files() {
    let bench = Bench::new();
    let line = "genesis --out net --nodes 2 --genesis-time 4000000000";
    bench
        .run(&format!("{line} --fork-choice view-merge"))
        .expect(0, "256 validators");
    let path = bench.path("net/config.yaml");
    let config = std::fs::read_to_string(&path).unwrap();
    let key = "ALPHORN_FORK_CHOICE: view-merge";
    assert!(config.contains(key), "{config}");
    let line = format!("{NODE} --genesis net --dry-run");
    bench.run(&line).expect(0, "");
    std::fs::write(&path, config.replace(key, "ALPHORN_FORK_CHOICE: latest")).unwrap();
    bench.run(&line).expect(
        2,
        "ALPHORN_FORK_CHOICE latest: must be one of lmd, proposer-boost, view-merge",
    );
}

#[test]
fn options_that_no_node_can_have_are_refused() {
    let bench = network();
    std::fs::write(bench.path("slip.yaml"), "api-prot: 1\n").unwrap();
    std::fs::write(bench.path("high.yaml"), "api-port: 70000\n").unwrap();
    for (options, named) in [
        ("--config slip.yaml", "unknown option api-prot"),
        (
            "--config high.yaml --genesis net",
            "70000 is not in 0..=65535",
        ),
        ("--config none.yaml", "none.yaml"),
        ("", "--genesis <DIR>"),
        ("--genesis net --prove-threads 0", "0 is not in 1..=1024"),
        ("--genesis net --fast-threads 65", "65 is not in 1..=64"),
        ("--genesis net --memory-budget 63", "63 is not in 64..="),
        ("--genesis net --threads 0", "--threads 0"),
        // What a node draws nobody may foresee.
        ("--genesis net --seed 1", "unexpected argument '--seed'"),
        (
            "--genesis net --checkpoint none",
            "--checkpoint none: No such file",
        ),
        ("--genesis net --http-allow-host ", "--http-allow-host"),
        (
            "--genesis net --sign-log /proc/x",
            "--sign-log /proc/x: no file can be made in /proc",
        ),
        (
            "--genesis net --record net/config.yaml",
            "must be a new file",
        ),
        (
            "--genesis net --json net/config.yaml",
            "net/config.yaml: is read here",
        ),
        ("--genesis net --json net/node-0/node.key", "a key is there"),
        (
            "--genesis net --record log --sign-log ./log",
            "./log: would be written twice",
        ),
        (
            "--genesis net --api-port 7001 --metrics-port 7001",
            "--metrics-port 7001: the HTTP interface has that port",
        ),
        (
            "--genesis net --api-port 7001 --metrics-port 7001 --metrics-address 0.0.0.0",
            "--metrics-port 7001: the HTTP interface has that port",
        ),
    ] {
        let line = format!("{NODE} --dry-run {options}");
        let line = match options {
            "" => line.trim_end(),
            _ => &line,
        };
        bench.run(line).expect(2, named);
    }
    // Of different addresses, or where any port will do, two ports are not one.
    for options in [
        "--api-port 7001 --metrics-port 7001 --metrics-address 127.0.0.2",
        "--api-port 0 --metrics-port 0",
    ] {
        let line = format!("{NODE} --dry-run --genesis net {options}");
        bench.run(&line).expect(0, "interop keys; no checkpoint; ");
    }
    let elsewhere = NODE.replace("--data-dir data", "--data-dir /proc/x/data");
    bench
        .run(&format!("{elsewhere} --genesis net --dry-run"))
        .expect(2, "--data-dir /proc/x/data: no file can be made in /proc");
    assert!(!bench.path("data").exists());
}

/// A dry run finds what a start would: a wrong password, and a keystore that is lacking.
#[test]
fn a_dry_run_opens_the_keystores() {
    let bench = Bench::new();
    bench
        .run("keys new --out keys --count 4 --password-file password --kdf pbkdf2 --kdf-cost 10")
        .expect(0, "4 keys");
    bench
        .run("genesis --out net --nodes 1 --keys keys/public-keys.json --committees 1")
        .expect(0, "4 validators");
    let rehearse = |keys: &str| bench.run(&format!("{NODE} --genesis net --dry-run {keys}"));
    let opened = rehearse("--keystores keys --password-file password");
    opened.expect(0, "keystores of 4 validators are open");
    // The port that the folder announces.
    assert!(opened.stdout.contains("interface at 127.0.0.1:5052"));
    bench.write_secret("wrong", "battery staple\n");
    rehearse("--keystores keys --password-file wrong").expect(2, "wrong password");
    std::fs::remove_file(bench.path("keys/keystore-3.json")).unwrap();
    rehearse("--keystores keys --password-file password")
        .expect(2, "that of validator 3 is not there");
    assert!(!bench.path("data").exists());
}

/// What would let others speak in a node's name.
#[cfg(unix)]
#[test]
fn folders_that_others_can_change_and_keys_of_others_are_refused() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let bench = network();
    let run = || bench.run(&format!("{NODE} --genesis net --dry-run"));
    std::fs::create_dir(bench.path("data")).unwrap();
    let set = |mode| {
        let permissions = PermissionsExt::from_mode(mode);
        std::fs::set_permissions(bench.path("data"), permissions).unwrap();
    };
    set(0o777);
    run().expect(2, "--data-dir data: mode 0777 lets others write in it");
    set(0o700);
    run().expect(0, "node-0: 128 of 256");
    std::fs::remove_dir(bench.path("data")).unwrap();
    std::fs::create_dir(bench.path("elsewhere")).unwrap();
    symlink(bench.path("elsewhere"), bench.path("data")).unwrap();
    run().expect(2, "--data-dir data: is a symbolic link");
    std::fs::remove_file(bench.path("data")).unwrap();
    let line = NODE.replace("net/node-0/node.key", "net/node-1/node.key");
    bench
        .run(&format!("{line} --genesis net --dry-run"))
        .expect(2, "--node-key net/node-1/node.key: is that of");
    // Two nodes of one name, and one key for two nodes.
    let nodes = std::fs::read_to_string(bench.path("net/nodes.yaml")).unwrap();
    std::fs::write(
        bench.path("net/nodes.yaml"),
        nodes.replace("node-1", "node-0"),
    )
    .unwrap();
    run().expect(2, "two nodes have the name node-0");
    let address = |name: &str| {
        let after = nodes.split(&format!("name: {name}")).nth(1).unwrap();
        let line = after.lines().find(|line| line.contains("/p2p/")).unwrap();
        line.split("/p2p/")
            .nth(1)
            .unwrap()
            .trim_matches(['"', '\''])
            .to_owned()
    };
    let same = nodes.replace(&address("node-1"), &address("node-0"));
    std::fs::write(bench.path("net/nodes.yaml"), same).unwrap();
    run().expect(2, "node-1 has the key of another node");
    std::fs::write(bench.path("net/nodes.yaml"), nodes).unwrap();
    let config = std::fs::read_to_string(bench.path("net/config.yaml")).unwrap();
    let late = config.replace("GENESIS_TIME: 4000000000", "GENESIS_TIME: 9214646401");
    std::fs::write(bench.path("net/config.yaml"), late).unwrap();
    run().expect(2, "GENESIS_TIME 9214646401, must be at most 9214646400");
}

/// A hundred thousand validators of BLS on one core are refused before a key is made, with what would do.
#[test]
fn a_network_that_this_machine_cannot_carry_is_not_begun() {
    let bench = Bench::new();
    let line =
        "devnet --nodes 2 --validators 100000 --committees 16 --subcommittees 16 --threads 1";
    let ended = bench.run(line);
    ended.expect(2, " cores would do");
    ended.expect(2, "--force begins nevertheless");
    ended.expect(2, " validators, slots of ");
}

/// Its network dials by then, and must have ended before the process does.
#[test]
fn a_node_whose_port_is_taken_ends_with_its_code_every_time() {
    let bench = network();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    for option in ["--api-port", "--api-port 0 --metrics-port"] {
        let line = format!("{NODE} --genesis net --gossipsub-port 0 {option} {port}");
        for _ in 0..8 {
            bench.run(&line).expect(3, "takes another port");
        }
    }
}

#[test]
fn the_status_of_a_node_that_is_not_there_is_an_error() {
    let bench = Bench::new();
    bench
        .run("node status --api 127.0.0.1:1")
        .expect(1, "no node answers");
    bench
        .run("node status --data-dir none")
        .expect(2, "ready.json");
    bench
        .run("node status")
        .expect(2, "<--api <IP:PORT>|--data-dir <DIR>>");
    bench
        .run("node status --api 127.0.0.1:1 --data-dir none")
        .expect(2, "cannot be used with");
    // It computes nothing.
    for option in ["--threads 0", "--kernel auto", "--seed 1"] {
        bench
            .run(&format!("node status --api 127.0.0.1:1 {option}"))
            .expect(2, "unexpected argument");
    }
}

/// A network of lean-quickstart's nodes, as its file has them.
#[test]
fn a_file_of_lean_quickstart_makes_a_network() {
    let bench = Bench::new();
    let text = "shuffle: roundrobin\ndeployment_mode: local\nconfig:\n  activeEpoch: 18\n  keyType: \"hash-sig\"\n  \
                attestation_committee_count: 2\nvalidators:\n  - name: \"zeam_0\"\n    privkey: \
                \"bdf953adc161873ba026330c56450453f582e3c4ee6cb713644794bcfdd85fe5\"\n    enrFields:\n      ip: \
                \"127.0.0.1\"\n      quic: 9001\n    metricsPort: 8081\n    apiPort: 5055\n    isAggregator: false\n    \
                count: 8\n  - name: \"alphorn_0\"\n    privkey: \
                \"299550529a79bc2dce003747c52fb0639465c893e00b0440ac66144d625e066a\"\n    enrFields:\n      ip: \
                \"127.0.0.1\"\n      quic: 9002\n    metricsPort: 8082\n    count: 8\n";
    std::fs::write(bench.path("validator-config.yaml"), text).unwrap();
    bench
        .run("genesis --out net --validator-config validator-config.yaml --genesis-time 4000000000")
        .expect(0, "16 validators of bls on 2 nodes");
    bench
        .run("node --genesis net --node-id alphorn_0 --data-dir data --node-key net/alphorn_0/node.key --dry-run")
        .expect(0, "alphorn_0: 8 of 16 validators");
    // Its list of node records has the nodes of the network, and one more.
    let node = "node --genesis net --node-id alphorn_0 --data-dir data --node-key net/alphorn_0/node.key --dry-run";
    bench.run(node).expect(0, "; 1 peers to dial; ");
    // Of EIP-778, with a port for discovery alone.
    let discovery = "enr:-IS4QHCYrYZbAKWCBRlAy5zzaDZXJBGkcnh4MHcBFZntXNFrdvJjX04jRzjzCBOonrkTfj499SZuOh8R33Ls8RRc\
                     y5wBgmlkgnY0gmlwhH8AAAGJc2VjcDI1NmsxoQPKY0yuDUmstAHYpMa2_oxVtw0RW_QAdpzBQA8yWM0xOIN1ZHCCdl8";
    bench
        .run(&format!("{node} --bootnodes {discovery}"))
        .expect(2, "must have an IP address with a port for QUIC or TCP");
    let nodes = std::fs::read_to_string(bench.path("net/nodes.yaml")).unwrap();
    let own = nodes
        .lines()
        .filter_map(|line| Some(&line[line.find("/ip4/")?..]));
    let other =
        "/ip4/192.0.2.1/udp/9000/quic-v1/p2p/16Uiu2HAmGWGQVMvqi86rhuHbw9zPgcVbyAygKgiwCRTmVPK7RSS4";
    let list: String = own
        .chain([other])
        .map(|address| format!("- {}\n", address.trim_end_matches(['"', '\''])))
        .collect();
    std::fs::write(bench.path("bootnodes.yaml"), list).unwrap();
    bench
        .run(&format!("{node} --bootnodes bootnodes.yaml"))
        .expect(0, "; 2 peers to dial; ");
    bench
        .run(&format!("{node} --bootnodes {other},{other}"))
        .expect(0, "; 2 peers to dial; ");
    std::fs::write(bench.path("bootnodes.yaml"), "- nobody\n").unwrap();
    bench
        .run(&format!("{node} --bootnodes bootnodes.yaml"))
        .expect(
            2,
            "--bootnodes bootnodes.yaml: address `nobody` is not a multiaddr",
        );
    bench
        .run("genesis --out other --validator-config validator-config.yaml --nodes 3")
        .expect(2, "--nodes");
}
