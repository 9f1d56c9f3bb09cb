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
    ] {
        let line = format!("{NODE} --dry-run {options}");
        bench.run(line.trim_end()).expect(2, named);
    }
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
