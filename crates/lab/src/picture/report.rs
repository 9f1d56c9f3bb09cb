//! Selects what to draw from a report's JSON.

mod million;

pub use million::million;

use super::{Level, Slot, Span};
use crate::text::{bytes, count, each_once, seconds, sentence, significant};
use serde_json::Value;

fn number(value: &Value, key: &str) -> Option<f64> {
    value.get(key)?.as_f64()
}

fn whole(value: &Value, key: &str) -> Option<u64> {
    value.get(key)?.as_u64()
}

fn word<'v>(value: &'v Value, key: &str) -> Option<&'v str> {
    value.get(key)?.as_str()
}

fn list<'v>(value: &'v Value, key: &str) -> Option<&'v Vec<Value>> {
    value.get(key)?.as_array()
}

fn size(value: f64) -> String {
    bytes(value.round() as u64)
}

/// Formats a count with its noun; `what` is the plural.
fn many(number: u64, what: &str) -> String {
    match number {
        1 => format!("1 {}", what.trim_end_matches('s')),
        _ => format!("{} {what}", count(number)),
    }
}

/// Lays out segments one after the other, given by name, seconds and label.
fn sequence(parts: impl IntoIterator<Item = (String, f64, String)>) -> Vec<Span> {
    let mut at_s = 0.0;
    let span = |(name, length_s, text): (String, f64, String)| {
        let begin_s = at_s;
        at_s += length_s;
        Span {
            name,
            begin_s,
            end_s: at_s,
            text,
        }
    };
    parts.into_iter().map(span).collect()
}

/// Returns a slot of a million votes for each scheme of `compare`: at the largest committees that all
/// forms have, in the form with which a node receives least.
pub(crate) fn of_compare(cases: &Value, million: &Value) -> Vec<Slot> {
    let lines = || million.as_array().into_iter().flatten();
    let common = lines().filter(|line| line["common"] == true);
    let committee = common.filter_map(|line| whole(line, "committee")).max();
    let here = || lines().filter(move |line| whole(line, "committee") == committee);
    let scheme = |line: &'_ Value| {
        word(line, "form")
            .and_then(|form| form.split(' ').next())
            .map(str::to_owned)
    };
    let names: Vec<String> = here().filter_map(scheme).collect();
    let names = each_once(names.iter().map(String::as_str));
    let best = |name: &&str| {
        let own = here().filter(|line| scheme(line).as_deref() == Some(*name));
        let least = own.min_by_key(|line| whole(line, "topic_bytes"))?;
        let case = cases
            .as_array()?
            .iter()
            .find(|case| case["form"] == least["form"] && case["votes"] == least["committee"])?;
        form(case, least)
    };
    names.iter().filter_map(best).collect()
}

fn form(case: &Value, line: &Value) -> Option<Slot> {
    let name = word(line, "form")?;
    let votes = count(number(case, "votes")? as u64);
    Some(Slot {
        title: format!("{name}, committees of {votes}"),
        levels: form_levels(case, line)?,
        times: sequence(form_steps(case, line)?),
        pays: form_pays(case, line)?,
        source: String::new(),
    })
}

/// Returns how many parts each level of a form sums, from the top down.
fn fan_out(of: &Value) -> Option<Vec<u64>> {
    let found = list(of, "fan_out")?;
    Some(found.iter().filter_map(Value::as_u64).collect())
}

fn form_levels(case: &Value, line: &Value) -> Option<Vec<Level>> {
    let (votes, committees) = (number(case, "votes")?, whole(line, "committees")?);
    let fan_out = fan_out(case)?;
    let last = *fan_out.first()?;
    let cells = committees * whole(case, "cells")?;
    // The input of the last step is the output of the level below.
    let part = format!(
        "{} each",
        size(number(line, "collector_bytes")? / last as f64)
    );
    let mut levels = vec![
        Level {
            name: format!("{} votes", count(votes as u64 * committees)),
            gives: format!(
                "{} each, to its cell",
                size(number(case, "signature_bytes")?)
            ),
        },
        Level {
            name: format!("{} cells", count(cells)),
            gives: part.clone(),
        },
    ];
    let groups = |level: usize| committees * fan_out[..level].iter().product::<u64>();
    if fan_out.len() > 1 {
        levels[1].gives = format!("{} each", size(number(case, "aggregate_bytes")?));
        for level in (1..fan_out.len()).rev() {
            let gives = if level == 1 {
                part.clone()
            } else {
                String::new()
            };
            levels.push(Level {
                name: format!("{} groups", count(groups(level))),
                gives,
            });
        }
    }
    levels.push(Level {
        name: many(committees, "committees"),
        gives: format!(
            "{} in all, to every node",
            size(number(line, "topic_bytes")?)
        ),
    });
    Some(levels)
}

/// Returns the seconds to sign one vote with a form.
fn form_sign_s(case: &Value) -> Option<f64> {
    let one = list(case, "times")?
        .iter()
        .find(|times| times["threads"] == 1)?;
    Some(number(one, "sign_ms")? / 1e3 / number(case, "votes")?)
}

fn form_steps(case: &Value, line: &Value) -> Option<Vec<(String, f64, String)>> {
    let (aggregator_s, last_s) = (number(line, "aggregator_s")?, number(line, "collector_s")?);
    let between_s = number(line, "path_s")? - aggregator_s - last_s;
    let step = |name: &str, length_s: f64| (name.to_owned(), length_s, seconds(length_s));
    let mut steps = vec![
        step("a vote signed", form_sign_s(case)?),
        step("a cell, from its votes", aggregator_s),
    ];
    if fan_out(case)?.len() > 1 {
        steps.push(step("a group of each level", between_s));
    }
    steps.push(step("a committee", last_s));
    let core_s = number(line, "core_s")?;
    steps.push(step("all committees verified, one core", core_s));
    Some(steps)
}

fn form_pays(case: &Value, line: &Value) -> Option<Vec<(String, String)>> {
    let taken = |bytes: &str, time_s: &str| {
        let (bytes, time_s) = (number(line, bytes)?, number(line, time_s)?);
        Some(format!("{} in, {}", size(bytes), seconds(time_s)))
    };
    let signature = size(number(case, "signature_bytes")?);
    let sign_s = form_sign_s(case)?;
    let node = format!(
        "{} in, {} of a core: {} Mbit/s, {} cores",
        size(number(line, "topic_bytes")?),
        seconds(number(line, "core_s")?),
        significant(number(line, "mbps")?),
        significant(number(line, "cores")?)
    );
    let pays = [
        (
            "voter",
            format!("{signature} out, {} of a core", seconds(sign_s)),
        ),
        ("aggregator", taken("aggregator_bytes", "aggregator_s")?),
        ("collector", taken("collector_bytes", "collector_s")?),
        ("every node", node),
    ];
    Some(pays.map(|(role, text)| (role.to_owned(), text)).into())
}

/// Topologies with levels, in order of preference for drawing.
const DRAWN: [&str; 4] = ["horn", "grid", "strawman", "today"];

/// Returns a slot for each scheme of `explore`: its best point under the first topology with levels.
pub(crate) fn of_explore(cases: &Value) -> Vec<Slot> {
    let all = || cases.as_array().into_iter().flatten();
    let schemes = each_once(all().filter_map(|case| word(case, "scheme")));
    let of = |scheme: &&str| {
        let own = |topology: &'static str| {
            all().filter(move |case| case["scheme"] == **scheme && case["topology"] == topology)
        };
        let topology = DRAWN
            .into_iter()
            .find(|topology| own(topology).next().is_some())?;
        // Those that fit first, ordered by time; then those that count most.
        let order = |case: &&Value| {
            let slot = &case["slot"];
            let time = slot["everywhere_s"]
                .as_f64()
                .filter(|_| case["fits"] == true);
            let counted = slot["counted"].as_f64().unwrap_or(-1.0);
            (time.unwrap_or(f64::INFINITY), -counted)
        };
        let best = own(topology).min_by(|a, b| {
            let (a, b) = (order(a), order(b));
            a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1))
        })?;
        simulated(best)
    };
    schemes.iter().filter_map(of).collect()
}

fn simulated(case: &Value) -> Option<Slot> {
    let slot = case.get("slot").filter(|slot| !slot.is_null())?;
    let verdict = match word(case, "why") {
        Some(why) => sentence(&format!("{why}.")),
        None => format!(
            "{} of {} votes counted.",
            count(whole(slot, "counted")?),
            count(whole(slot, "votes")?)
        ),
    };
    Some(Slot {
        title: format!(
            "{} {}: {}",
            word(case, "scheme")?,
            word(case, "topology")?,
            word(case, "units")?
        ),
        levels: simulated_levels(list(case, "levels")?),
        times: simulated_times(list(case, "phases")?, slot),
        pays: list(case, "pays")?
            .iter()
            .filter_map(simulated_pay)
            .collect(),
        source: verdict,
    })
}

fn simulated_levels(found: &[Value]) -> Vec<Level> {
    let level = |(at, level): (usize, &Value)| {
        let to = match at + 1 == found.len() {
            true => "each, to every node",
            false => "each",
        };
        Some(Level {
            name: many(whole(level, "count")?, word(level, "what")?),
            // A message that was never sent has no length.
            gives: whole(level, "message_bytes")
                .map_or(String::new(), |each| format!("{} {to}", bytes(each))),
        })
    };
    found.iter().enumerate().filter_map(level).collect()
}

/// Returns the phases with their loads, followed by the time when the votes were there.
fn simulated_times(phases: &[Value], slot: &Value) -> Vec<Span> {
    let mut times: Vec<Span> = phases.iter().filter_map(simulated_phase).collect();
    for (name, key) in [
        ("2/3 of the votes at the proposer", "two_thirds_s"),
        ("99 % at 99 % of the nodes", "everywhere_s"),
    ] {
        let at_s = number(slot, key);
        times.push(Span {
            name: name.into(),
            begin_s: 0.0,
            end_s: at_s.unwrap_or(0.0),
            text: at_s.map_or("never".into(), |at_s| format!("after {}", seconds(at_s))),
        });
    }
    times
}

fn simulated_phase(phase: &Value) -> Option<Span> {
    let mean = phase.get("mean")?;
    let name = match word(phase, "phase")? {
        "propose" => "block of the slot before",
        "vote" => "votes",
        "aggregate" => "evidence of cells",
        "collect" => "evidence above cells",
        "collect_3" | "collect_4" => "the next level",
        other => other,
    };
    Some(Span {
        name: name.to_owned(),
        begin_s: number(phase, "begin_s")?,
        end_s: number(phase, "end_s")?,
        text: format!(
            "{} Mbit/s, {} cores",
            significant(number(mean, "down_mbps")?),
            significant(number(mean, "cores")?)
        ),
    })
}

fn simulated_pay(pay: &Value) -> Option<(String, String)> {
    let role = word(pay, "role")?;
    if role == "node" {
        let (mean, peak) = (pay.get("mean")?, pay.get("peak")?);
        return Some((
            word(pay, "class")?.to_owned(),
            format!(
                "{} Mbit/s, peak {}; {} cores",
                significant(number(mean, "down_mbps")?),
                significant(number(peak, "down_mbps")?),
                significant(number(mean, "cores")?)
            ),
        ));
    }
    let way = [("sent_bytes", "out"), ("received_bytes", "in")].into_iter();
    let way = way.filter_map(|(key, way)| Some(format!("{} {way}, ", bytes(whole(pay, key)?))));
    let way: String = way.collect();
    Some((
        role.to_owned(),
        format!("{way}{} of a core", seconds(number(pay, "core_s")?)),
    ))
}

#[cfg(test)]
mod tests;
