use super::*;
use clap::Parser;

#[derive(Parser)]
struct Cli {
    #[command(flatten)]
    args: super::super::Args,
}

/// Parses the options with a small network.
fn cli(options: &[&str]) -> super::super::Args {
    let small = [
        "griefing",
        "--rewards",
        "--set",
        "sim.nodes=48",
        "--set",
        "protocol.validators=1024",
        "--set",
        "protocol.subcommittees=4",
        "--set",
        "protocol.slots=4",
    ];
    let cli = Cli::try_parse_from([&small, options].concat());
    cli.unwrap_or_else(|error| panic!("{error}")).args
}

fn cases_of(options: &[&str]) -> Vec<Case> {
    let args = cli(options);
    cases(&args.rewards, &args.common, Schedule::ALTAIR).unwrap()
}

#[test]
fn the_file_is_the_schedule_of_altair() {
    assert_eq!(schedule(None).unwrap(), Schedule::ALTAIR);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("own.yaml");
    let text = include_str!("../altair.yaml").replace("COLLECTOR_WEIGHT: 1", "COLLECTOR_WEIGHT: 2");
    std::fs::write(&path, &text).unwrap();
    let error = schedule(Some(&path)).unwrap_err().to_string();
    assert!(
        error.contains("sum of all weights = 65, must be 0 to 64"),
        "{error}"
    );
    std::fs::write(&path, text.replace("TIMELY_HEAD", "TIMELY_TAIL")).unwrap();
    assert!(schedule(Some(&path)).is_err(), "an unknown key");
}

#[test]
fn the_standard_attackers_cost_what_they_take() {
    let cases = cases_of(&["--threads", "2"]);
    let of = |name: &str| {
        let found = cases.iter().find(|case| case.name == name);
        &found.unwrap_or_else(|| panic!("{name}")).harm
    };
    // Without an attacker every vote counts, and no validator earns less than that.
    for name in ["nobody", "nobody, protocol.multiplicity_max=1"] {
        let nobody = of(name);
        assert_eq!((nobody.lost, nobody.late, nobody.attackers), (0, 0, 0));
        assert_eq!((nobody.cast, nobody.honest_wei), (4 * 1024, 0), "{name}");
    }
    // One honest aggregator or collector is enough.
    for name in [
        "aggregators drop a tenth of the votes",
        "collectors leave out half of the cells",
        "collectors publish one vote each",
        "collectors publish a second early",
    ] {
        assert_eq!((of(name).lost, of(name).late), (0, 0), "{name}");
    }
    // None is too few, and so is the best aggregate alone.
    for name in [
        "all aggregators of a cell drop a tenth",
        "all collectors of a committee do",
        "the same, where the best aggregate counts alone",
    ] {
        let harm = of(name);
        assert!(harm.lost > 0 && harm.honest_wei > 0, "{name}: {harm:?}");
        assert!(
            harm.factor().is_none_or(|factor| factor > 0.5),
            "{name}: {harm:?}"
        );
    }
    let bought = of("the same, where the best aggregate counts alone");
    assert!(bought.lost > 10 * of("aggregators hide their votes and drop as many").lost);
    let censor = of("a proposer leaves out half of the committees");
    assert!((censor.lost, censor.late > 400) == (0, true), "{censor:?}");
    assert!(
        censor.honest_wei > 0 && censor.attackers_wei > 0,
        "{censor:?}"
    );
}

#[test]
fn slots_are_as_long_as_those_of_the_preset() {
    let of = |name| slots(&source::load(name, &[]).unwrap()).unwrap();
    assert_eq!(of("horn-pq-1m-10k"), (1, 24_000));
    assert_eq!(of("horn-griefing"), (6, 22_000));
}

#[test]
fn own_attackers_take_the_place_of_the_standard_ones() {
    let fault = "kind = \"leave_cells\", share_pct = 20";
    let once = cases_of(&["--fault", fault]);
    let names: Vec<&str> = once.iter().map(|case| &*case.name).collect();
    assert_eq!(names, ["nobody", fault]);
    let again = cases_of(&["--fault", fault, "--increments", "64"]);
    assert_eq!(once[1].harm.lost, again[1].harm.lost);
    // Twice the stake earns the square root of two times as much per increment, and every validator has
    // two.
    let wei = |cases: &[Case]| cases[1].harm.attackers_wei as f64;
    let ratio = wei(&again) / wei(&once);
    assert!(
        wei(&once) == 0.0 || (ratio - 2f64.sqrt()).abs() < 0.01,
        "{ratio}"
    );
}

#[test]
fn what_cannot_be_run_is_named() {
    let refused = |options: &[&str]| {
        let args = cli(options);
        let error = cases(&args.rewards, &args.common, Schedule::ALTAIR).unwrap_err();
        error.to_string()
    };
    for (options, part) in [
        (
            &["--set", "protocol.slots=3"][..],
            "protocol.slots = 3: attackers need 4",
        ),
        (&["--scenario", "broadcast-20"], "unknown field"),
        (&["--fault", "kind = \"theft\""], "theft"),
        (
            &["--fault", "kind = \"censor\", share_pct = 1"],
            "1 % of 48 nodes are none",
        ),
    ] {
        let error = refused(options);
        assert!(error.contains(part), "{options:?}: {error}");
    }
}
