//! What griefing and censorship cost, and what collectors earn, in money.
//!
//! Everything is the difference of two ledgers: of the blocks that there are, and of those that there
//! would be without the attack.

use super::Args;
use crate::attack::{AttackedCell, Covering, Play};
use crate::report::table;
use crate::yaml;
use alphorn_proto::rewards::{Account, Inclusion, Ledger, Matches, RewardsError, Schedule};
use alphorn_types::{Slot, Validator};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::path::Path;

/// Validators of the network that the base reward follows from: Horn's.
const NETWORK_VALIDATORS: u64 = 1 << 20;
/// Wei of a gwei, and of an ETH.
const GWEI: f64 = 1e9;
const ETH: f64 = 1e18;
/// Share of the voters that a proposer leaves out, in percent.
const CENSORED_PERCENT: u32 = 10;
/// Blocks in which the votes come that were left out, counted from their slot: the first one after the
/// censor's, one that is late for the source, and none.
const CENSORED_UNTIL: [u64; 4] = [2, 3, 6, 33];
/// Validators of the network in which votes are censored.
const CENSORED_AMONG: u32 = 2_000;
/// Cells and validators of a committee whose collectors publish.
const CELLS: u32 = 64;
/// Collectors of a committee.
const COLLECTORS: u32 = 16;
/// What a later collection must add under staged publishing, in parts of a million of the committee:
/// `stage_gain_ppm` as configurations have it.
const STAGE_GAIN_PPM: u64 = 5_000;
/// Votes that a collection lacks that is published early, in parts of a million.
const MISSING_PPM: [u64; 6] = [0, 1_000, 4_000, 5_000, 10_000, 50_000];

/// A schedule as a file, with the names of the specification.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE", deny_unknown_fields)]
struct ScheduleFile {
    base_reward_factor: u64,
    effective_balance_increment: u64,
    weight_denominator: u32,
    timely_source_weight: u32,
    timely_target_weight: u32,
    timely_head_weight: u32,
    proposer_weight: u32,
    timely_source_slots: u64,
    timely_target_slots: u64,
    timely_head_slots: u64,
    votes_per_base_reward: u32,
    aggregator_weight: u32,
    collector_weight: u32,
}

impl From<ScheduleFile> for Schedule {
    fn from(file: ScheduleFile) -> Self {
        Schedule {
            source_weight: file.timely_source_weight,
            target_weight: file.timely_target_weight,
            head_weight: file.timely_head_weight,
            proposer_weight: file.proposer_weight,
            aggregator_weight: file.aggregator_weight,
            collector_weight: file.collector_weight,
            weight_denominator: file.weight_denominator,
            base_reward_factor: file.base_reward_factor,
            increment_gwei: file.effective_balance_increment,
            votes_per_base_reward: file.votes_per_base_reward,
            source_slots_max: file.timely_source_slots,
            target_slots_max: file.timely_target_slots,
            head_slots_max: file.timely_head_slots,
        }
    }
}

/// The schedule of a file, or Altair's.
pub(super) fn schedule(path: Option<&Path>) -> anyhow::Result<Schedule> {
    let file: ScheduleFile = match path {
        Some(path) => yaml::read(path).map_err(|error| anyhow::anyhow!("{error}"))?,
        None => serde_saphyr::from_str(include_str!("altair.yaml"))?,
    };
    let schedule = Schedule::from(file);
    schedule.validate()?;
    Ok(schedule)
}

/// What everybody is paid by.
#[derive(Clone, Copy, Debug)]
pub(super) struct Payment {
    pub(super) schedule: Schedule,
    /// Increments of each validator.
    pub(super) increments: u32,
}

impl Payment {
    pub(super) fn of(args: &Args) -> anyhow::Result<Self> {
        Ok(Payment {
            schedule: schedule(args.schedule.as_deref())?,
            increments: args.increments,
        })
    }

    fn ledger(&self, validators: usize) -> std::result::Result<Ledger, RewardsError> {
        let all = NETWORK_VALIDATORS * u64::from(self.increments);
        Ledger::new(self.schedule, &vec![self.increments; validators], all)
    }
}

/// What an attack on the cells of a slot costs.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Money {
    /// Gwei that a victim loses with its vote.
    pub(super) victim_gwei: f64,
    /// ETH that honest voters of 2^20 validators lose in a slot.
    pub(super) honest_eth: f64,
    /// The same of Eve's.
    pub(super) eve_eth: f64,
    /// The same of proposer, aggregators and collectors.
    pub(super) carriers_eth: f64,
}

impl Money {
    /// What honest voters lose for each ETH of Eve's.
    fn factor(&self) -> f64 {
        self.honest_eth / self.eve_eth
    }
}

fn votes(slot: u64, voters: Vec<Validator>) -> Inclusion {
    Inclusion {
        slot: Slot(slot),
        matches: Matches::ALL,
        voters,
        aggregator: None,
        collector: None,
    }
}

/// What voters lost, in wei: all that is paid for votes.
fn lost(before: &Account, after: &Account) -> f64 {
    let votes = |one: &Account| one.source + one.target + one.head + one.penalty;
    (votes(before) - votes(after)) as f64
}

/// What a play costs against a rule: the next block has what the collectors have, and no later one more.
pub(super) fn griefing(
    payment: &Payment,
    cells: &[AttackedCell],
    play: Play,
    rule: Covering,
) -> anyhow::Result<Money> {
    let size = cells.first().map_or(0, |cell| cell.honest().len());
    let validators = size * cells.len();
    let (mut all, mut kept, mut victims) = (Vec::new(), Vec::new(), Vec::new());
    let (mut honest, mut eve) = (Vec::new(), Vec::new());
    for (base, cell) in (0..validators).step_by(size.max(1)).zip(cells) {
        let support = rule.apply(&cell.aggregates(play)).0.signers();
        let id = |position: usize| Validator((base + position) as u32);
        honest.extend(cell.honest().iter_ones().map(id));
        eve.extend(cell.eve().iter().map(|position| id(*position)));
        kept.extend(support.iter_ones().map(id));
        let missed = cell.honest().iter_ones().filter(|at| !support.get(*at));
        victims.extend(missed.map(id));
    }
    all.extend(honest.iter().chain(&eve).copied());
    // Somebody beside the cells carries everything.
    let paid = |voters: Vec<Validator>| -> std::result::Result<Vec<Account>, RewardsError> {
        let mut ledger = payment.ledger(validators + 1)?;
        let carrier = Validator(validators as u32);
        let one = Inclusion {
            aggregator: Some(carrier),
            collector: Some(carrier),
            ..votes(1, voters)
        };
        ledger.block(Slot(2), carrier, &[one])?;
        ledger.close(Slot(1));
        Ok(ledger.accounts().to_vec())
    };
    let (before, after) = (paid(all)?, paid(kept)?);
    let sum = |who: &[Validator]| -> f64 {
        let each = who.iter().map(|one| one.0 as usize);
        each.map(|one| lost(&before[one], &after[one])).sum()
    };
    let network = NETWORK_VALIDATORS as f64 / validators.max(1) as f64 / ETH;
    let carried = |one: &Account| one.inclusion + one.aggregation + one.collection;
    let carriers = carried(&before[validators]) - carried(&after[validators]);
    Ok(Money {
        victim_gwei: sum(&victims) / victims.len().max(1) as f64 / GWEI,
        honest_eth: sum(&honest) * network,
        eve_eth: sum(&eve) * network,
        carriers_eth: carriers as f64 * network,
    })
}

/// What it costs to leave out votes until a block of a later slot.
#[derive(Clone, Copy, Debug)]
pub(super) struct Censorship {
    /// The slots after that of the votes; the blocks before are the censors'.
    until: u64,
    /// Gwei that a victim loses.
    victim_gwei: f64,
    /// Gwei that the censors lose for each of them.
    censor_gwei: f64,
    /// Gwei that the proposer gets for each of them that includes them at last.
    next_gwei: f64,
}

pub(super) fn censorship(payment: &Payment) -> anyhow::Result<Vec<Censorship>> {
    let victims = CENSORED_AMONG * CENSORED_PERCENT / 100;
    let (censor, next) = (Validator(CENSORED_AMONG), Validator(CENSORED_AMONG + 1));
    let range = |range: std::ops::Range<u32>| range.map(Validator).collect::<Vec<_>>();
    let paid = |until: u64| -> std::result::Result<Vec<Account>, RewardsError> {
        let mut ledger = payment.ledger(CENSORED_AMONG as usize + 2)?;
        let rest = votes(1, range(victims..CENSORED_AMONG + 2));
        ledger.block(Slot(2), censor, &[rest])?;
        if until <= alphorn_proto::chain::INCLUSION_SLOTS {
            let proposer = if until == 1 { censor } else { next };
            let left_out = votes(1, range(0..victims));
            ledger.block(Slot(1 + until), proposer, &[left_out])?;
        }
        ledger.close(Slot(1));
        Ok(ledger.accounts().to_vec())
    };
    let before = paid(1)?;
    let each = f64::from(victims) * GWEI;
    let row = |until: u64| {
        let after = paid(until)?;
        let inclusion = |who: Validator| {
            let [before, after] = [&before, &after].map(|all| all[who.0 as usize].inclusion);
            (before - after) as f64 / each
        };
        let lost: f64 = (0..victims as usize)
            .map(|one| lost(&before[one], &after[one]))
            .sum();
        Ok(Censorship {
            until,
            victim_gwei: lost / each,
            censor_gwei: inclusion(censor),
            next_gwei: -inclusion(next),
        })
    };
    CENSORED_UNTIL.into_iter().map(row).collect()
}

/// What collectors earn where one of them publishes before the others.
#[derive(Clone, Copy, Debug)]
pub(super) struct Publishing {
    /// Votes that its collection lacks, in parts of a million of the committee.
    missing_ppm: u64,
    /// Whether the first rank publishes after it.
    is_answered: bool,
    /// Gwei for the early one.
    early_gwei: f64,
    /// Gwei for the first rank.
    first_gwei: f64,
    /// Share of the votes that no collection has.
    lost: f64,
}

/// A collection comes early, and lacks votes that came after it. Under staged publishing the others are
/// silent if theirs adds less than [`STAGE_GAIN_PPM`]; else the first rank publishes all votes, and the
/// proposer takes the larger one first.
pub(super) fn publishing(payment: &Payment, cell_size: u32) -> anyhow::Result<Vec<Publishing>> {
    let voters = CELLS * cell_size;
    let people = voters + 3;
    let [early, first, proposer] = [0, 1, 2].map(|one| Validator(voters + one));
    let of = |collector: Validator, count: u32| Inclusion {
        collector: Some(collector),
        ..votes(1, (0..count).map(Validator).collect())
    };
    let row = |missing_ppm: u64| {
        let missing = (u64::from(voters) * missing_ppm / 1_000_000) as u32;
        let least = (u64::from(voters) * STAGE_GAIN_PPM)
            .div_ceil(1_000_000)
            .max(1);
        let is_answered = u64::from(missing) >= least;
        let mut collections = vec![of(early, voters - missing)];
        if is_answered {
            collections.insert(0, of(first, voters));
        }
        let mut ledger = payment.ledger(people as usize)?;
        ledger.block(Slot(2), proposer, &collections)?;
        let earned = |who: Validator| ledger.accounts()[who.0 as usize].collection as f64 / GWEI;
        Ok(Publishing {
            missing_ppm,
            is_answered,
            early_gwei: earned(early),
            first_gwei: earned(first),
            lost: if is_answered {
                0.0
            } else {
                f64::from(missing) / f64::from(voters)
            },
        })
    };
    MISSING_PPM.into_iter().map(row).collect()
}

/// A figure of gwei, and a factor that may have no bound.
fn gwei(value: f64) -> String {
    // No negative zero.
    format!("{:.1}", value + 0.0)
}

fn factor(value: f64) -> String {
    match value.is_finite() {
        true => format!("{value:.1}"),
        false => "-".into(),
    }
}

/// Cells of the tables of the cases: title, and what stands for a rule.
pub(super) type Column = (&'static str, fn(&Money) -> String);

pub(super) const COLUMNS: [Column; 4] = [
    ("A victim loses, gwei a vote", |money| {
        gwei(money.victim_gwei)
    }),
    (
        "Honest voters lose, ETH a slot of 2^20 validators",
        |money| format!("{:.4}", money.honest_eth),
    ),
    ("Eve's voters lose, ETH a slot", |money| {
        format!("{:.4}", money.eve_eth)
    }),
    ("Honest ETH lost for each ETH of Eve's", |money| {
        factor(money.factor())
    }),
];

/// The tables of proposers and collectors.
pub(super) fn print(censored: &[Censorship], published: &[Publishing]) -> String {
    let header = [
        "in the block of slot",
        "a victim loses",
        "censors lose",
        "factor",
        "next proposer gets",
    ];
    let rows = censored.iter().map(|row| {
        let slot = match row.until <= alphorn_proto::chain::INCLUSION_SLOTS {
            true => format!("s + {}", row.until),
            false => "none".into(),
        };
        let lost = factor(row.victim_gwei / row.censor_gwei);
        vec![
            slot,
            gwei(row.victim_gwei),
            gwei(row.censor_gwei),
            lost,
            gwei(row.next_gwei),
        ]
    });
    let rows: Vec<Vec<String>> = rows.collect();
    let censored = table(&header, &rows);
    let header = [
        "lacks",
        "others",
        "early one gets",
        "first rank gets",
        "votes lost",
    ];
    let rows = published.iter().map(|row| {
        let others = if row.is_answered {
            "publish"
        } else {
            "are silent"
        };
        vec![
            format!("{:.1} %", row.missing_ppm as f64 / 1e4),
            others.into(),
            gwei(row.early_gwei),
            gwei(row.first_gwei),
            format!("{:.2} %", row.lost * 100.0),
        ]
    });
    let rows: Vec<Vec<String>> = rows.collect();
    let honest = published
        .iter()
        .map(|row| row.early_gwei.max(row.first_gwei));
    let honest = honest.fold(0.0, f64::max) / f64::from(COLLECTORS);
    format!(
        "Votes of slot s that proposers leave out, {CENSORED_PERCENT} % of all, gwei a vote\n{censored}\n\n\
         A collection that is published early, gwei; whoever waits for its rank gets {} a duty on average\n{}\n",
        gwei(honest),
        table(&header, &rows)
    )
}

pub(super) fn money_json(money: &Money) -> Value {
    json!({
        "victim_gwei": money.victim_gwei,
        "honest_eth": money.honest_eth,
        "eve_eth": money.eve_eth,
        "carriers_eth": money.carriers_eth,
    })
}

pub(super) fn json(censored: &[Censorship], published: &[Publishing]) -> Value {
    let censored = censored.iter().map(|row| {
        json!({
            "until_slots": row.until,
            "victim_gwei": row.victim_gwei,
            "censor_gwei": row.censor_gwei,
            "next_gwei": row.next_gwei,
        })
    });
    let published = published.iter().map(|row| {
        json!({
            "missing_ppm": row.missing_ppm,
            "answered": row.is_answered,
            "early_gwei": row.early_gwei,
            "first_gwei": row.first_gwei,
            "lost": row.lost,
        })
    });
    json!({
        "censorship": censored.collect::<Vec<_>>(),
        "publishing": published.collect::<Vec<_>>(),
    })
}

/// The schedule and the balances, among the settings of a report.
pub(super) fn config_json(payment: &Payment) -> Value {
    let schedule = &payment.schedule;
    json!({
        "increments": payment.increments,
        "network_validators": NETWORK_VALIDATORS,
        "source_weight": schedule.source_weight,
        "target_weight": schedule.target_weight,
        "head_weight": schedule.head_weight,
        "proposer_weight": schedule.proposer_weight,
        "aggregator_weight": schedule.aggregator_weight,
        "collector_weight": schedule.collector_weight,
        "weight_denominator": schedule.weight_denominator,
        "base_reward_factor": schedule.base_reward_factor,
        "increment_gwei": schedule.increment_gwei,
        "votes_per_base_reward": schedule.votes_per_base_reward,
        "source_slots_max": schedule.source_slots_max,
        "target_slots_max": schedule.target_slots_max,
        "head_slots_max": schedule.head_slots_max,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attack::Setting;
    use crate::draw::Draw;

    const PAYMENT: Payment = Payment {
        schedule: Schedule::ALTAIR,
        increments: 32,
    };
    /// The base reward of a vote: 32 increments of 349 gwei, a 32nd of it.
    const BASE: f64 = 349.0;

    fn close(found: f64, expected: f64) {
        assert!(
            (found - expected).abs() < 0.01 * expected.abs(),
            "{found} is not {expected}"
        );
    }

    #[test]
    fn the_file_is_the_schedule_of_altair() {
        assert_eq!(schedule(None).unwrap(), Schedule::ALTAIR);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("own.yaml");
        let text =
            include_str!("altair.yaml").replace("COLLECTOR_WEIGHT: 1", "COLLECTOR_WEIGHT: 2");
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
    fn a_victim_loses_its_rewards_and_pays_for_source_and_target() {
        let setting = Setting {
            aggregators: 16,
            malicious: 1.0 / 3.0,
            eve: 0.1,
            misses: 0.0,
        };
        let cell = |i| {
            let mut draw = Draw::new(1, i);
            let online = draw.bits(512, 1.0);
            AttackedCell::draw(&online, &setting, &mut draw)
        };
        let cells: Vec<AttackedCell> = (0..8).map(cell).collect();
        let play = Play { split: 1, drop: 50 };
        let money = |rule: &str| griefing(&PAYMENT, &cells, play, rule.parse().unwrap()).unwrap();
        let best = money("best1");
        close(best.victim_gwei, BASE * (54.0 + 40.0) / 64.0);
        // 50 of 512 lose that; the other honest votes lose the same share of their rewards, and so do
        // Eve's, who loses nothing else.
        let share = 50.0 / 512.0;
        let voters = NETWORK_VALIDATORS as f64 * BASE * GWEI / ETH;
        close(best.eve_eth, voters * (51.0 / 512.0) * share * 54.0 / 64.0);
        let kept = (461.0 - 50.0) / 512.0;
        let honest = share * 94.0 / 64.0 + kept * share * 54.0 / 64.0;
        close(best.honest_eth, voters * honest);
        assert!(best.factor() > 20.0 && best.carriers_eth > 0.0);
        let union = money("union");
        assert_eq!(
            (union.victim_gwei, union.honest_eth, union.carriers_eth),
            (0.0, 0.0, 0.0)
        );
    }

    #[test]
    fn who_censors_loses_the_inclusion_and_his_victim_the_head() {
        let rows = censorship(&PAYMENT).unwrap();
        let weights = |row: &Censorship| [row.victim_gwei, row.censor_gwei, row.next_gwei];
        for (row, [victim, censor, next]) in rows.iter().zip([
            [14.0, 54.0 / 7.0, 40.0 / 7.0],
            [14.0, 54.0 / 7.0, 40.0 / 7.0],
            [14.0 + 14.0 + 14.0, 54.0 / 7.0, 26.0 / 7.0],
            [54.0 + 40.0, 54.0 / 7.0, 0.0],
        ]) {
            let expected = [victim, censor, next].map(|weight| BASE * weight / 64.0);
            let found = weights(row);
            (0..3).for_each(|i| assert!((found[i] - expected[i]).abs() < 0.5, "{row:?}"));
        }
    }

    #[test]
    fn whoever_is_just_complete_enough_takes_all() {
        let rows = publishing(&PAYMENT, 512).unwrap();
        let whole = 64.0 * 512.0 * BASE * 54.0 / (56.0 * 64.0);
        for row in &rows {
            // 5,000 parts of a million are 163.84 votes, and 164 would be enough.
            assert_eq!(row.is_answered, row.missing_ppm > 5_000);
            let (one, other) = match row.is_answered {
                true => (row.first_gwei, row.early_gwei),
                false => (row.early_gwei, row.first_gwei),
            };
            close(one, whole * (1.0 - row.lost));
            assert_eq!(other, 0.0);
        }
        assert!(!rows[0].is_answered && rows.last().unwrap().is_answered);
    }
}
