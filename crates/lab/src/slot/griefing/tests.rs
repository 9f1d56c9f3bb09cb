use super::*;
use crate::slot::horn_config;
use alphorn_proto::horn::Selection;
use alphorn_sim::slot::{Failure, Griefing, SlotConfig, SlotInputs, run_slot};
use alphorn_types::Bitfield;
use clap::Parser;

#[derive(Parser)]
struct Cli {
    #[command(flatten)]
    args: Args,
}

fn args(options: &[&str]) -> Args {
    let cli = Cli::try_parse_from([&["slot", "--griefing"], options].concat());
    cli.unwrap_or_else(|error| panic!("{error}")).args
}

/// Returns the cases of a run, by play.
fn cases(options: &[&str]) -> Vec<Vec<Case>> {
    let args = args(options);
    let plan = plan(&args).unwrap();
    let attack = Attack::of(&args, &plan).unwrap();
    let pool = crate::options::pool(2).unwrap();
    let (_, cases) = attack
        .of_scheme(&args, &plan, &pool, &mut Bars::new())
        .unwrap();
    assert_eq!(
        failure(&cases),
        None,
        "nothing is refused, unions lose nothing"
    );
    let mut rows = cases.into_iter();
    let of_play = |_| rows.by_ref().take(attack.rules.len()).collect();
    attack.plays.iter().map(of_play).collect()
}

fn refusal(options: &[&str]) -> String {
    let args = args(options);
    let report = Report::begin("slot", args.common.seed);
    match run(&args, &report) {
        Err(Error::Usage(error)) => error.to_string(),
        other => panic!("{options:?}: {other:?}"),
    }
}

#[test]
fn eve_takes_votes_from_the_best_aggregate_and_none_from_the_union() {
    let found = cases(&[
        "--validators",
        "512",
        "--committees",
        "2",
        "--subcommittees",
        "2",
        "--eve",
        "0.2",
    ]);
    assert_eq!(found.len(), 2, "the simple and the split attack");
    let plays = [0, 1].map(|i: usize| found[i][0].play);
    assert_eq!((plays[0].split, plays[1].split), (1, 3));
    for cases in &found {
        let [best1, quorum3, union] = [0, 1, 2].map(|i: usize| cases[i].tally);
        for tally in [best1, quorum3, union] {
            assert_eq!((tally.refused, tally.collections, tally.cells), (0, 2, 4));
            assert_eq!(tally.aggregates, 64);
            assert_eq!((tally.cast, tally.unseen), (512, 0));
        }
        assert_eq!((union.lost, union.counted), (0, 512), "{:?}", cases[0].play);
        assert!(best1.lost > quorum3.lost && best1.picks == 4);
    }
    // All vote, Eve has 25 of 128 in each cell: 24 victims wherever she has an aggregator.
    assert_eq!(plays[0].drop, 24);
    let best1 = found[0][0].tally;
    assert!((84..=100).contains(&best1.lost), "{best1:?}");
    assert_eq!(best1.counted, 512 - best1.lost, "her votes are in");
}

/// The union of lists, as made by collectors of every scheme but BLS without a proof below.
#[test]
fn lists_unite_and_lose_nothing() {
    let found = cases(&[
        "--scheme",
        "xmss",
        "--layers",
        "list/list",
        "--validators",
        "60",
        "--subcommittees",
        "2",
        "--eve",
        "0.3",
        "--malicious",
        "0.4",
    ]);
    for cases in &found {
        let [best1, union] = [0, 2].map(|i: usize| cases[i].tally);
        assert!(best1.lost > 0 && union.lost == 0, "{:?}", cases[0].play);
        assert_eq!((best1.aggregates, best1.cast, union.counted), (32, 60, 60));
    }
}

/// Two kinds of rivals in one cell: honest aggregates, and those with three voters more and two victims
/// less. All are proofs, and the collector merges one of each.
#[test]
fn proofs_merge_to_the_union_and_the_best_one_alone_loses_the_victims() {
    let found = cases(&[
        "--scheme",
        "xmss",
        "--validators",
        "8",
        "--aggregators",
        "6",
        "--malicious",
        "0.5",
        "--eve",
        "0.4",
        "--misses",
        "0",
        "--split",
        "1",
        "--cover",
        "best1,union",
        "--seed",
        "2",
    ]);
    let [best1, union] = [0, 1].map(|i: usize| found[0][i].tally);
    assert_eq!((best1.aggregates, best1.honest), (6, 5));
    assert_eq!((best1.picks, best1.counted, best1.lost), (1, 6, 2));
    assert_eq!((union.picks, union.counted, union.lost), (2, 8, 0));
}

/// The same through the roles: the collectors' own cover, job and messages, without a draw.
#[test]
fn collectors_merge_the_proofs_of_rivals() {
    let options = [
        "--scheme",
        "xmss",
        "--validators",
        "8",
        "--selection",
        "rank",
    ];
    let args = args(&options);
    let plan = plan(&args).unwrap();
    let (_, scheme) = xmss::scheme(&args, &plan).unwrap();
    let mut horn = horn_config(&args, &plan, &scheme).unwrap();
    assert_eq!(horn.selection, Selection::Rank);
    // All validators aggregate, so that each side does.
    horn.levels[0].publishers = 8;
    let pool = crate::options::pool(2).unwrap();
    let (signers, registry) = xmss::keys(&args, &plan.layout, &pool, &mut Bars::new()).unwrap();
    let set = |range: std::ops::Range<usize>| {
        let mut set = Bitfield::new(8);
        set.set_range(range);
        set
    };
    let config = SlotConfig {
        griefing: Some(Griefing {
            eve: set(0..3),
            victims: set(3..5),
        }),
        ..SlotConfig::new(horn, args.common.seed, 2)
    };
    let inputs = SlotInputs::new(scheme, registry, signers, &plan.layout);
    let outcome = run_slot(config, inputs).unwrap();
    let votes = outcome.votes;
    assert_eq!((votes.cast, votes.verified), (8, 5), "three are withheld");
    assert_eq!(
        (votes.in_collections, votes.in_block),
        (8, 8),
        "none is lost"
    );
    // One entry has all of them: a merge, since the proofs of either side do not.
    assert_eq!(outcome.block.entries, 1);
    let withheld = Failure::Unverified {
        cast: 8,
        verified: 5,
        expected: 8,
    };
    assert_eq!(outcome.failures(), [withheld], "and nothing else");
}

#[test]
fn without_voters_there_is_nothing_to_lose() {
    let options = ["--validators", "40", "--participation", "0", "--eve", "0"];
    for case in cases(&options).iter().flatten() {
        let tally = case.tally;
        assert_eq!((tally.honest, tally.lost, tally.collections), (0, 0, 0));
    }
}

#[test]
fn a_union_that_loses_a_vote_fails() {
    // There is no honest aggregator to include the victims.
    let options = ["--validators", "40", "--malicious", "1", "--cover", "union"];
    let args = args(&options);
    let report = Report::begin("slot", args.common.seed);
    let Err(Error::Check(failure)) = run(&args, &report) else {
        panic!("the union loses what no aggregator has");
    };
    assert!(
        failure.contains("3 honest votes are lost under union; 36"),
        "{failure}"
    );
}

#[test]
fn options_of_the_attack_need_the_attack() {
    for options in [
        &["--eve", "0.1"][..],
        &["--split", "3"],
        &["--drop", "1"],
        &["--aggregators", "4"],
    ] {
        assert!(Cli::try_parse_from([&["slot"], options].concat()).is_err());
    }
    let wrong = args(&["--validators", "100", "--drop", "101"]);
    let layout = plan(&wrong).unwrap().layout;
    let error = wrong.griefing.plays(&wrong.griefing.setting(), &layout);
    assert!(error.unwrap_err().to_string().contains("--drop 101"));
    assert!(rules(&args(&["--cover", "best1,first"])).is_err());
}

#[test]
fn sizes_and_sets_that_do_not_merge_are_named() {
    for (options, words) in [
        (
            &["--validators", "4097", "--subcommittees", "8"][..],
            "--validators 4097",
        ),
        (
            &["--validators", "800", "--subcommittees", "1"],
            "--subcommittees 2 or more",
        ),
        (
            &["--validators", "200", "--subcommittees", "200"],
            "3200 proofs of a committee, of which merges hold at most 2401",
        ),
        (
            &[
                "--set",
                "prod",
                "--validators",
                "500",
                "--subcommittees",
                "1",
            ],
            "has at most 448 signatures",
        ),
        (&["--preset", "small"], "only proofs of fast"),
    ] {
        let error = refusal(&[&["--scheme", "xmss"], options].concat());
        assert!(error.contains(words), "{options:?}: {error}");
    }
    let falcon = refusal(&["--scheme", "falcon", "--layers", "proof/proof"]);
    assert!(falcon.contains("do not merge"), "{falcon}");
}
