use super::*;
use clap::Parser;

#[derive(Parser)]
struct Cli {
    #[command(flatten)]
    args: Args,
}

fn args(options: &[&str]) -> Args {
    Cli::try_parse_from([&["traffic"], options].concat())
        .unwrap_or_else(|error| panic!("{error}"))
        .args
}

fn run_tables(options: &[&str]) -> anyhow::Result<Tables> {
    let args = args(options);
    let network = args.network.network(&args.participation)?;
    let bls = Bls::new(alphorn_exec::Backend::Portable, Costs::default());
    let info = SchemeInfo::of(&bls, &network.layout);
    tables(&args, &network, &info, &mut Bars::new())
}

/// Horn's table: messages, bits and two signatures, all fields.
#[test]
fn formulas_give_the_table_of_the_proposal() {
    let args = args(&[]);
    let network = args.network.network(&args.participation).unwrap();
    let layout = network.layout;
    let bls = Bls::new(alphorn_exec::Backend::Portable, Costs::default());
    let info = SchemeInfo::of(&bls, &layout);
    let config = |m: &str| config_of(&args, &network, &info, m).unwrap();
    let fields = Fields::of(&config("3").format(&info));
    let numbers = |formula: Formula| (formula.messages, formula.horn_bytes, formula.full_bytes);
    assert_eq!(
        numbers(formula::aggregates(&layout, 1, 16, &fields)),
        (1024, 1024 * 256, 1024 * 489)
    );
    assert_eq!(
        numbers(formula::aggregates(&layout, 32, 16, &fields)),
        (32_768, 8_388_608, 32_768 * 489)
    );
    for (planes, horn, full) in [(1, 4288, 4521), (2, 8384, 8617), (4, 16_576, 16_809)] {
        assert_eq!(
            numbers(formula::collections(&layout, 16, planes, &fields)),
            (512, 512 * horn, 512 * full)
        );
    }
    assert_eq!(formula::block(&config("1"), &fields).entries_bytes, 276_480);
    assert_eq!(
        formula::block(&config("3"), &fields).entries_bytes,
        64 * 8416
    );
    assert_eq!([1, 3, 7, 15].map(formula::planes), [1, 2, 3, 4]);
}

#[test]
fn encoded_messages_are_those_of_the_formulas() {
    for options in [
        &[
            "--validators",
            "4096",
            "--committees",
            "4",
            "--subcommittees",
            "4",
        ][..],
        &[
            "--validators",
            "1000",
            "--multiplicity",
            "1,3,7,15",
            "--selection",
            "rank",
        ],
        &[
            "--validators",
            "3",
            "--committees",
            "2",
            "--subcommittees",
            "4",
        ],
        &[
            "--validators",
            "700",
            "--aggregators",
            "1",
            "--collectors",
            "1",
            "--participation",
            "0",
        ],
    ] {
        let tables = run_tables(options).unwrap();
        check(&tables).unwrap();
        for row in &tables.rows {
            assert!(
                row.encoded.rice_bytes <= row.encoded.raw_bytes,
                "{}",
                row.name
            );
            assert!(row.encoded.chain_support_bytes <= row.encoded.chain_bytes);
        }
        for (_, formula, blocks) in &tables.blocks {
            assert_eq!(formula.entries, blocks.entries);
            assert!(blocks.rice_bytes <= blocks.raw_bytes);
        }
    }
}

#[test]
fn a_difference_is_found() {
    let mut tables = run_tables(&[
        "--validators",
        "600",
        "--collectors",
        "2",
        "--aggregators",
        "2",
    ])
    .unwrap();
    tables.rows[0].encoded.raw_bytes += 1;
    assert!(matches!(check(&tables), Err(Error::Check(_))));
}

#[test]
fn context_and_code_save_bytes() {
    let tables = run_tables(&[
        "--validators",
        "32768",
        "--committees",
        "1",
        "--subcommittees",
        "64",
        "--multiplicity",
        "1,3",
        "--aggregators",
        "16",
        "--collectors",
        "2",
    ])
    .unwrap();
    let row = |name: &str| tables.rows.iter().find(|row| row.name == name).unwrap();
    let bitfield = &row("Horn, bitfield").encoded;
    let per_message = |bytes: u64| bytes / bitfield.messages;
    // Horn's size, 95 % online: 607 KiB and 76 KiB for 512 supports.
    assert!((1150..1280).contains(&per_message(bitfield.rice_support_bytes)));
    assert!((140..170).contains(&per_message(bitfield.chain_support_bytes)));
    let honest = &row("Horn, 2 planes (M = 3)").encoded;
    assert!((1500..1720).contains(&(honest.rice_support_bytes / honest.messages)));
    let attacked = &row("Horn, 2 planes (M = 3), under attack").encoded;
    assert!(attacked.rice_support_bytes > 2 * honest.rice_support_bytes);
}

#[test]
fn staged_publishing_is_the_expected_number_of_tries() {
    let tables = run_tables(&[
        "--validators",
        "600",
        "--committees",
        "2",
        "--subcommittees",
        "2",
    ])
    .unwrap();
    let messages = |name: &str| {
        let publication = tables
            .publications
            .iter()
            .find(|p| p.name.starts_with(name));
        publication.unwrap().messages
    };
    assert_eq!(messages("lottery, all"), 32.0);
    assert_eq!(messages("rank, staged, 100 %"), 2.0);
    assert!((messages("rank, staged, 50 %") - 4.0).abs() < 0.001);
    let raw = |name: &str| {
        tables
            .publications
            .iter()
            .find(|p| p.name.starts_with(name))
            .unwrap()
            .raw_bytes
    };
    assert_eq!(raw("lottery, all") - raw("rank, all"), 32.0 * 96.0);
}

#[test]
fn what_is_too_much_is_refused_with_its_bound() {
    let refused = |options: &[&str]| format!("{:#}", run_tables(options).err().unwrap());
    let error = refused(&[
        "--validators",
        "2^20",
        "--committees",
        "512",
        "--subcommittees",
        "128",
        "--aggregators",
        "64",
    ]);
    assert!(error.contains(&AGGREGATES_MAX.to_string()), "{error}");
    let error = refused(&[
        "--validators",
        "2^22",
        "--aggregators",
        "64",
        "--committees",
        "32",
    ]);
    assert!(error.contains(&POSITIONS_MAX.to_string()), "{error}");
    assert!(refused(&["--committees", "2049"]).contains("2048"));
    assert!(refused(&["--participation", "/nowhere"]).contains("meta.json"));
}
