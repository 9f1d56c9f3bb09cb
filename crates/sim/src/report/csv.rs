//! Tables of a run as comma-separated values.

use super::Outcome;
use std::fmt::Write;

/// Header line of a summary table.
pub const SUMMARY_HEAD: &str = "seed,t50_ns,t90_ns,t95_ns,t99_ns,t100_ns,delivered_pct,sent_ratio,\
sent_truncated,waste_ratio,dup_ratio,bytes_up_p50,bytes_up_p99,cpu_ns_p99,lb1_ns,lb2_ns,lb3_ns,lb4_ns,\
events,event_hash\n";

fn cell(value: Option<u64>) -> String {
    value.map_or_else(|| "none".to_owned(), |value| value.to_string())
}

/// One line of a summary table.
pub fn summary_row(outcome: &Outcome) -> String {
    let s = outcome.summary();
    let times: Vec<String> = [s.t50_ns, s.t90_ns, s.t95_ns, s.t99_ns, s.t100_ns]
        .map(cell)
        .into();
    let b = &outcome.bounds;
    format!(
        "{},{},{:.4},{:.6},{},{},{:.6},{},{},{},{},{},{},{},{},{:016x}\n",
        outcome.seed,
        times.join(","),
        s.delivered_pct,
        s.sent_ratio,
        s.sent_truncated,
        s.waste_ratio
            .map_or_else(|| "none".to_owned(), |ratio| format!("{ratio:.6}")),
        s.dup_ratio,
        s.bytes_up_p50,
        s.bytes_up_p99,
        s.cpu_ns_p99,
        b.lb1_ns,
        b.lb2_ns,
        b.lb3_ns,
        b.lb4_ns,
        outcome.events,
        outcome.event_hash
    )
}

/// `nodes.csv`: one line per node, with classes and regions by name.
pub fn nodes(outcome: &Outcome, classes: &[&str], regions: &[&str]) -> String {
    let mut text =
        "node,class,region,role,first_ns,done_ns,bytes_up,bytes_down,msgs,dup_bytes,cpu_ns,\
                    queue_peak_bytes,peak_1s_up_bps,peak_1s_down_bps,peak_1s_jobs_ns\n"
            .to_owned();
    for n in &outcome.nodes {
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}",
            n.node,
            classes.get(usize::from(n.class)).unwrap_or(&""),
            regions.get(usize::from(n.region)).unwrap_or(&""),
            n.role,
            cell(n.first_ns),
            cell(n.done_ns),
            n.bytes_up,
            n.bytes_down,
            n.msgs,
            n.dup_bytes,
            n.cpu_ns,
            n.queue_peak_bytes,
            n.peak_1s_up_bps,
            n.peak_1s_down_bps,
            n.peak_1s_jobs_ns
        );
    }
    text
}

/// `cdf.csv`: cumulative deliveries at each delay; the last line shows how many never happened.
pub fn cdf(outcome: &Outcome) -> String {
    let mut delays: Vec<u64> = outcome.delays_ns.iter().flatten().copied().collect();
    delays.sort_unstable();
    let all = outcome.delays_ns.len();
    let mut text = "delay_ns,delivered,of\n".to_owned();
    for (i, delay) in delays.iter().enumerate() {
        // Equal delays share one line, with the count after the last of them.
        if delays.get(i + 1) != Some(delay) {
            let _ = writeln!(text, "{delay},{},{all}", i + 1);
        }
    }
    text
}

/// `series.csv`: messages and bytes sent by kind in each time bin.
pub fn series(outcome: &Outcome) -> String {
    let mut text = "from_ns,kind,msgs,bytes\n".to_owned();
    for bin in &outcome.series {
        let _ = writeln!(
            text,
            "{},{},{},{}",
            bin.from_ns, bin.kind, bin.msgs, bin.bytes
        );
    }
    text
}
