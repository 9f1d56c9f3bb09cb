use super::*;

const TEXT: &str = r#"
name = "rlnc-1mb"
schema = 1
[sim]
seeds = "1..20"
nodes = 10000
[graph]
kind = "permutations"
degree = 120
[latency]
kind = "regions"
matrix = "libp2p-2025"
intra_ms_min = 15
[link]
transport = "window"
[[class]]
name = "attester"
share_pct = 80
down_mbps = 50
up_mbps = 25
cores = 8
[[class]]
name = "supernode"
share_pct = 20
down_mbps = 1024
up_mbps = 1024
[protocol]
kind = "broadcast"
strategy = "rlnc"
[traffic]
bytes = 1000000
source_class = "attester"
[[fault]]
kind = "withhold"
share_pct = 10
until_ms = 10000
[expect]
t99_ms_max = 400
sent_max = 1.3
delivered_pct_min = 100
[sweep]
"traffic.bytes" = [118750, 1000000]
"#;

fn with(change: &str) -> Result<Scenario, ScenarioError> {
    Scenario::parse(TEXT, &[parse_override(change)?])
}

#[test]
fn a_scenario_is_what_it_writes() {
    let scenario = Scenario::parse(TEXT, &[]).unwrap();
    let again = Scenario::parse(&scenario.to_toml().unwrap(), &[]).unwrap();
    assert_eq!(scenario, again);
    assert_eq!(scenario.hash(), again.hash());
    assert_eq!(scenario.sim.seeds.count(), 20);
    assert_eq!(scenario.link.overhead_bytes, 60);
}

#[test]
fn values_are_replaced_by_path() {
    assert_eq!(with("traffic.bytes=5").unwrap().traffic.bytes, 5);
    assert_eq!(
        with("class.attester.up_mbps = 7").unwrap().class[0].up_mbps,
        7
    );
    assert_eq!(with("class.1.cores=3").unwrap().class[1].cores, 3);
    // A name that is a number is still a name.
    let numbered = TEXT.replace("supernode", "0");
    let change = parse_override("class.0.cores=3").unwrap();
    let numbered = Scenario::parse(&numbered, &[change]).unwrap();
    assert_eq!((numbered.class[0].cores, numbered.class[1].cores), (8, 3));
    assert_eq!(with("sim.stop=t99").unwrap().sim.stop, Stop::T99);
    let timed = with("sim.stop={ time_ms = 9 }").unwrap();
    assert_eq!(timed.sim.stop, Stop::TimeMs(9));
    for wrong in [
        "traffic.bytes",
        "=4",
        "a=",
        "name.x=1",
        "class.none.cores=1",
    ] {
        assert!(with(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn every_wrong_value_is_named() {
    let wrong = [
        ("sim.nodes=1", "sim.nodes = 1, allowed 2 to 1048576"),
        ("class.attester.share_pct=70", "sum of class.share_pct = 90"),
        ("class.attester.up_mbps=0", "class.attester.up_mbps = 0"),
        ("graph.degree=121", "even degree"),
        ("link.loss_ppm=1000000", "link.loss_ppm"),
        ("traffic.source_class=none", "traffic.source_class = none"),
        ("fault.0.share_pct=0", "either share_pct or nodes"),
        ("fault.0.until_ms=-4", "-4"),
        ("latency.matrix=moon", "libp2p-2025"),
        ("expect.sent_max=-1.0", "expect.sent_max"),
        ("sim.seeds=3..1", "3..1"),
        ("protocol.chunk=4", "chunk"),
        ("graph.degre=4", "degre"),
        ("latency.mss=4", "mss"),
        ("links.loss_ppm=4", "links"),
        ("protocol.kind=pigeon", "pigeon"),
        ("schema=2", "schema = 2"),
        ("name=a b", "letters"),
    ];
    for (change, part) in wrong {
        let error = with(change).unwrap_err().to_string();
        assert!(error.contains(part), "{change}: {error}");
    }
}

#[test]
fn the_hash_covers_what_a_run_depends_on() {
    let hash = |change: &str| with(change).unwrap().hash();
    let base = Scenario::parse(TEXT, &[]).unwrap();
    for same in ["name=other", "sim.seeds=4", "expect.sent_max=2.0"] {
        assert_eq!(hash(same), base.hash(), "{same}");
    }
    for other in ["traffic.bytes=3", "link.loss_ppm=1", "compute.handle_ns=1"] {
        assert_ne!(hash(other), base.hash(), "{other}");
    }
    let mut filed = base.clone();
    filed.inputs.insert("costs.json".into(), "{}".into());
    assert_ne!(filed.hash(), base.hash());
}

/// A scenario with these lines, and why it is rejected.
fn refused(protocol: &str, more: &str) -> String {
    let class = match more.contains("[[class]]") {
        true => "",
        false => "[[class]]\nname = \"a\"\nshare_pct = 100\ndown_mbps = 50\nup_mbps = 25\n",
    };
    let text = format!(
        "name = \"t\"\nschema = 1\n[sim]\nnodes = 100\n{more}\n{class}[protocol]\n{protocol}\n"
    );
    let scenario = Scenario::parse(&text, &[]);
    scenario.map_or_else(|error| error.to_string(), |_| "taken".into())
}

#[test]
fn what_would_be_ignored_is_refused() {
    let gossip = "kind = \"gossip\"";
    let fault = |keys: &str| refused(gossip, &format!("[[fault]]\nshare_pct = 10\nkind = {keys}"));
    for (keys, part) in [
        ("\"crash\"\nrestart = \"cold\"", "taken"),
        (
            "\"crash\"\nfactor_pct = 50",
            "factor_pct = given: crash has none",
        ),
        (
            "\"late\"\ndelay_ms = 5\nrate = 3",
            "rate = given: late has none",
        ),
        ("\"grief\"\nbytes = 3", "bytes = given: grief has none"),
        (
            "\"withhold\"\ndelay_ms = 3",
            "delay_ms = given: withhold has none",
        ),
        (
            "\"grief\"\nfails_at = \"signature\"",
            "fails_at = given: grief has none",
        ),
        (
            "\"late\"\nrestart = \"cold\"",
            "restart = given: late has none",
        ),
        ("\"equivocate\"\nfrom_ms = 3", "equivocate has none"),
        ("\"invalid_flood\"\nrate = 3\nbytes = 5", "taken"),
        ("\"invalid_flood\"", "fault.0.rate = 0: a flood has a rate"),
        (
            "\"slow_cpu\"",
            "fault.0.factor_pct = 100: slow_cpu at 100 % changes nothing",
        ),
        ("\"slow_link\"\nfactor_pct = 99", "taken"),
        (
            "\"slow_link\"\nfactor_pct = 0",
            "fault.0.factor_pct = 0, allowed 1 to 100000",
        ),
        (
            "\"slow_cpu\"\nfactor_pct = 0",
            "fault.0.factor_pct = 0, allowed 1 to 100000",
        ),
        ("\"withhold\"\nfactor_pct = 1", "taken"),
        (
            "\"withhold\"\nfactor_pct = 0",
            "fault.0.factor_pct = 0, allowed 1 to 100",
        ),
        (
            "\"withhold\"\nfactor_pct = 101",
            "fault.0.factor_pct = 101, allowed 1 to 100",
        ),
        ("\"clock_skew\"", "fault.0.delay_ms = 0, allowed 1 to"),
        ("\"early_collection\"", "fault.0.delay_ms = 0, allowed 1 to"),
        // The start of a sweep over delays.
        ("\"late\"", "taken"),
        (
            "\"crash\"\nfrom_ms = 1000000",
            "fault.0.from_ms = 1000000, allowed 0 to 999999",
        ),
        ("\"grief\"\nhides = true", "hides = given: grief has none"),
        (
            "\"drop_votes\"\nhides = true\nfactor_pct = 101",
            "factor_pct = 101, allowed 1 to 100",
        ),
        (
            "\"censor\"\nposts_pct = 5",
            "either share_pct or nodes, or posts_pct",
        ),
        (
            "\"censor\"\nunits = [1]",
            "units = given: cells or committees of",
        ),
    ] {
        let why = fault(keys);
        assert!(why.contains(part), "{keys}: {why}");
    }
    let late =
        "stop = { time_ms = 900 }\n[[fault]]\nshare_pct = 10\nkind = \"crash\"\nfrom_ms = 900";
    let why = refused(gossip, late);
    assert!(
        why.contains("fault.0.from_ms = 900, allowed 0 to 899"),
        "{why}"
    );
    let posts = |protocol: &str, keys: &str| {
        refused(protocol, &format!("[[fault]]\nposts_pct = 10\n{keys}"))
    };
    for (protocol, keys, part) in [
        (
            gossip,
            "kind = \"grief\"",
            "fault.0.posts_pct = 10: gossip has no posts",
        ),
        (gossip, "kind = \"crash\"", "crash is no matter of a post"),
        (gossip, "kind = \"censor\"\nunits = [0]", "units = given"),
    ] {
        let why = posts(protocol, keys);
        assert!(why.contains(part), "{keys}: {why}");
    }
    let broadcast = "kind = \"broadcast\"\nstrategy = ";
    let cold = "[[fault]]\nkind = \"crash\"\nshare_pct = 10\nrestart = \"cold\"\n";
    let horn = "kind = \"horn\"\nvalidators = 1000";
    for (protocol, more, part) in [
        (
            &*format!("{broadcast}\"gossip\"\nchunks = 8"),
            "",
            "gossip has no policy",
        ),
        (
            &*format!("{broadcast}\"rlnc\"\nin_flight = 9"),
            "",
            "protocol.in_flight = 9, allowed 1 to 8",
        ),
        (
            &*format!("{broadcast}\"rlnc\"\nunverified = 65"),
            "",
            "protocol.unverified = 65, allowed 1 to 64",
        ),
        (horn, "", "taken"),
        (horn, "stop = \"t99\"", "ends with its slot"),
        (horn, "mode = \"bytes\"", "runs in mode rank alone"),
        (horn, "[traffic]\nbytes = 7", "makes its own traffic"),
        (horn, cold, "come back with all that they knew"),
        (gossip, "stop = { events = 0 }", "sim.stop.events = 0"),
    ] {
        let why = refused(protocol, more);
        assert!(why.contains(part), "{protocol} {more}: {why}");
    }
}

/// Streams retransmit lost packets: without them, a message of many packets would be lost with any one of
/// them.
#[test]
fn loss_is_of_packets_that_streams_send_again() {
    let lossy = |transport: &str| {
        let link = format!("[link]\nloss_ppm = 10000\n{transport}");
        refused("kind = \"gossip\"", &link)
    };
    let why = "link.loss_ppm = 10000: of packets, which streams send again: give link.transport = \"window\"";
    assert_eq!(lossy(""), why);
    assert_eq!(lossy("transport = \"none\""), why);
    assert_eq!(lossy("transport = \"window\""), "taken");
}

#[test]
fn computing_is_free_only_where_it_is_said() {
    let why = |class_pct: u32, table_pct: u32, slow_pct: u32| {
        let class = "[[class]]\nname = \"a\"\nshare_pct = 100\ndown_mbps = 50\nup_mbps = 25\n";
        let more = format!(
            "{class}cpu_factor_pct = {class_pct}\n[compute]\nfactor_pct = {table_pct}\n\
             [[fault]]\nkind = \"slow_cpu\"\nshare_pct = 10\nfactor_pct = {slow_pct}"
        );
        refused("kind = \"gossip\"", &more)
    };
    let free = "what nodes of class a compute would take less than 1 %";
    assert_eq!(why(1, 100, 200), "taken");
    assert_eq!(why(1, 0, 200), "taken");
    let none = "fault.0.factor_pct = 0, allowed 1 to 100000";
    assert_eq!(why(1, 100, 0), none, "no fault makes a processor free");
    assert_eq!(why(1, 99, 200), format!("compute.factor_pct = 99: {free}"));
    assert_eq!(why(9, 110, 200), "taken");
    assert_eq!(why(9, 110, 11), format!("fault.0.factor_pct = 11: {free}"));
    assert_eq!(why(9, 110, 12), "taken");
}

#[test]
fn keys_that_a_protocol_does_not_read_are_refused() {
    let horn = "kind = \"horn\"\nvalidators = 1000";
    let whole = "payloads that travel whole are sizes";
    let own_graph = "makes its own connections";
    let coded = |strategy: &str| format!("kind = \"broadcast\"\nstrategy = \"{strategy}\"");
    let graph = "[graph]\nkind = \"complete\"\n";
    for (protocol, more, part) in [
        (
            &*format!("{horn}\noffsets_ms = [0, 5]"),
            "",
            "protocol.offsets_ms = given: where the phases of slot_ms begin",
        ),
        ("kind = \"gossip\"", "mode = \"bytes\"", whole),
        ("kind = \"direct\"", "mode = \"bytes\"", whole),
        ("kind = \"grid\"", "mode = \"bytes\"", whole),
        (&*coded("gossip"), "mode = \"bytes\"", whole),
        (&*coded("rs"), "mode = \"bytes\"", "taken"),
        ("kind = \"direct\"", graph, own_graph),
        ("kind = \"grid\"", graph, own_graph),
        ("kind = \"tree\"", graph, own_graph),
        ("kind = \"gossip\"", graph, "taken"),
        ("kind = \"tree\"", "", "taken"),
        (
            horn,
            "[expect]\nwaste_max = 1.0",
            "expect.waste_max = 1: not with protocol.kind = horn",
        ),
        ("kind = \"gossip\"", "[expect]\nwaste_max = 1.0", "taken"),
        (
            "kind = \"tree\"",
            "[traffic]\ncount = 2",
            "tree makes its own traffic",
        ),
    ] {
        let why = refused(protocol, more);
        assert!(why.contains(part), "{protocol} {more}: {why}");
    }
}

#[test]
fn floods_have_what_they_read_and_nothing_else() {
    let horn = "kind = \"horn\"\nvalidators = 1000";
    let coded = "kind = \"broadcast\"\nstrategy = \"rs\"";
    let (idle, long) = ("a flood has a rate", "as long as what it stands for");
    let (forged, garbage) = ("fails_at = \"signature\"", "fails_at = \"decoding\"");
    for (protocol, keys, part) in [
        (horn, "", "taken"),
        (horn, "rate = 3", "in the votes that they cast"),
        (horn, "bytes = 3", long),
        (horn, forged, idle),
        (horn, &*format!("{forged}\nrate = 3"), "taken"),
        (horn, &*format!("{forged}\nrate = 3\nbytes = 3"), long),
        (coded, "", "taken"),
        (coded, "rate = 3", "taken"),
        (coded, "rate = 3\nbytes = 3", long),
        (coded, garbage, idle),
        (coded, &*format!("{garbage}\nrate = 3\nbytes = 3"), "taken"),
        (coded, forged, idle),
        ("kind = \"grid\"", "", idle),
        ("kind = \"direct\"", "rate = 3\nbytes = 3", "taken"),
    ] {
        let fault = format!("[[fault]]\nkind = \"invalid_flood\"\nshare_pct = 10\n{keys}");
        let why = refused(protocol, &fault);
        assert!(why.contains(part), "{protocol} {keys}: {why}");
    }
}
