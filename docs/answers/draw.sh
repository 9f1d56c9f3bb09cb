#!/bin/sh
# The pictures of docs/answers once more: draw.sh PROGRAM WORK PICTURES. Sweeps that are in WORK are not done again.
set -eu
program=$1 work=$2 pictures=$3
mkdir -p "$work" "$pictures"
sweep() { "$program" sim run "$1" --out "$work/$1"; }
chart() { "$program" sim chart "$@"; }

sweep answer-bandwidth
chart "$work/answer-bandwidth/points.csv" --x class.node.up_mbps --y t99_ms_mean --by protocol.vote_dissemination \
    --minus 8000 --x-label "uplink of every node, Mbit/s" --y-label "ms after collections may be published" \
    --title "When 99 % of the nodes have 99 % of the votes (modelled)" --out "$pictures/bandwidth-time.svg"
chart "$work/answer-bandwidth/points.csv" --x class.node.up_mbps --y bytes_up_p50_mean=median,bytes_up_p99_mean=p99 \
    --by protocol.vote_dissemination --scale 1e-6 --x-label "uplink of every node, Mbit/s" --y-label "MB sent in a slot" \
    --title "What nodes send in a slot (modelled)" --out "$pictures/bandwidth-bytes.svg"

"$program" bench codec --json "$work/codec.json"
chart "$work/codec.json" --x participation --y rice.none=stateless,rice.chain=chain,rice.link=link --scale 0.0009765625 \
    --y-label "KiB of all supports of a slot" --title "Supports of 512 collections, coded (measured bytes)" \
    --out "$pictures/compression-supports.svg"
sweep answer-compression
chart "$work/answer-compression/points.csv" --x protocol.supports --y bytes_up_p50_mean=half,bytes_up_p99_mean=p99 \
    --only protocol.multiplicity_max=3 --scale 1e-6 --y-label "MB sent by a node in a slot" \
    --title "What nodes send by how supports are written (modelled)" --out "$pictures/compression-sent.svg"

sweep answer-collectors
chart "$work/answer-collectors/points.csv" --x protocol.collectors --y delivered_pct_mean --by fault.0.share_pct \
    --x-label "collectors of a committee" --y-label "% of nodes that have 99 % of the votes" \
    --title "Nodes served, by percent of silent nodes (modelled)" --out "$pictures/collectors-served.svg"
chart "$work/answer-collectors/points.csv" --x protocol.collectors --y bytes_up_p50_mean --by fault.0.share_pct \
    --scale 1e-6 --x-label "collectors of a committee" --y-label "MB that half of the nodes send at most" \
    --title "Bytes, by percent of silent nodes (modelled)" --out "$pictures/collectors-bytes.svg"

"$program" horn griefing --json "$work/griefing.json"
chart "$work/griefing.json" --x malicious --only eve=0.1 --only misses=0.01 \
    --y "loss.best1=best single,loss.greedy2=two by greed,loss.greedy3=three by greed,loss.quorum2=quorum of two,loss.quorum3=quorum of three,loss.union=union" \
    --scale 100 --x-label "share of malicious aggregators" --y-label "% of honest votes lost" \
    --title "What a griefing aggregator takes, by cover rule (modelled)" --out "$pictures/bitfields-loss.svg"
sweep answer-bitfields

"$program" sim run horn-committees --seed 1 --out "$work/horn-committees"
chart "$work/horn-committees/points.csv" --x protocol.committees --y bytes_up_p99_mean --by protocol.subcommittees \
    --scale 1e-6 --x-label "committees" --y-label "MB that 99 % of the nodes send at most" \
    --title "Bytes by committees, and cells of a committee (modelled)" --out "$pictures/committees-bytes.svg"
chart "$work/horn-committees/points.csv" --x protocol.committees --y cpu_ms_p99_mean --by protocol.subcommittees \
    --x-label "committees" --y-label "ms of a core, 99 % of the nodes" \
    --title "Processor time by committees, and cells of a committee (modelled)" --out "$pictures/committees-cpu.svg"

sweep answer-consensus
chart "$work/answer-consensus/points.csv" --x fault.0.delay_ms --y delivered_pct_mean --by protocol.slot \
    --x-label "ms by which a third of the nodes is late" --y-label "% of nodes that have 99 % of the votes" \
    --title "How late messages may be (modelled)" --out "$pictures/consensus-late.svg"

sweep answer-tree
chart "$work/answer-tree/points.csv" --x protocol.replicas --y t99_ms_mean --by fault.0.share_pct \
    --x-label "nodes at a position" --y-label "ms until the root has finished" \
    --title "A tree in place of two layers, by percent of silent nodes (modelled)" --out "$pictures/tree-time.svg"

"$program" explore --full --csv "$work/explore.csv" --html "$work/explore.html" --json "$work/explore.json"
