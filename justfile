# Chores. Each recipe is a short call of cargo, so a machine without `just` can run it by hand.

# List the recipes.
default:
    @just --list

# Everything that the continuous integration runs.
ci:
    .ci/run

# Format all code.
fmt:
    cargo fmt --all

# Lints; a warning is an error.
lint:
    cargo clippy --workspace --all-targets -- -D warnings

# The rules of the house that no lint knows.
tidy:
    cargo xtask tidy

# Licences, bans and sources of the dependencies.
deny:
    cargo deny --locked check licenses bans sources

# The vectors of docs/formats.md, by the encoders themselves, and the proofs of vectors/proofs.
vectors:
    ALPHORN_WRITE_VECTORS=1 cargo test -p alphorn-proto --test conformance
    ALPHORN_WRITE_VECTORS=1 cargo test -p alphorn-xmss --lib vectors::formats
    ALPHORN_WRITE_VECTORS=1 cargo test -p alphorn-falcon --lib formats
    ALPHORN_WRITE_VECTORS=1 cargo test -p alphorn-labrador --lib formats
    ALPHORN_WRITE_VECTORS=1 cargo test -p alphorn-node --lib formats
    ALPHORN_WRITE_VECTORS=1 cargo test -p alphorn-bindings --test vectors

# The documentation, private items included.
doc:
    RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --document-private-items

# All unit tests, without those that run nodes, scenarios or the binary.
quick:
    cargo test --workspace --lib --bins

# All tests; PACKAGE limits them to one crate: `just test alphorn-types`.
test PACKAGE="*":
    cargo test -p '{{PACKAGE}}'

# What AArch64 runs, portable kernels, on any Linux machine: the workspace linted for it, and the crates with kernels
# cross-compiled and tested under an emulator. Needs gcc-aarch64-linux-gnu, libc6-dev-arm64-cross, qemu-user and
# the target aarch64-unknown-linux-gnu of rustup. The proofs of stark take it more than half an hour.
arm:
    CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc \
        cargo clippy --target aarch64-unknown-linux-gnu --workspace --all-targets -- -D warnings
    CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc \
    CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="qemu-aarch64 -L /usr/aarch64-linux-gnu" \
        cargo test --target aarch64-unknown-linux-gnu --lib \
        -p alphorn-exec -p alphorn-rlnc -p alphorn-bls -p alphorn-stark

# The page: its modules in Node, the whole of it in a headless Chromium (docs/dashboard.md).
page-check:
    crates/dashboard/tests/page/check.sh

# The header of the C library once more, after a change of its border (docs/bindings.md).
header:
    ALPHORN_WRITE_HEADER=1 cargo test --package alphorn-capi --test header

# The package for Python: the wheel in a fresh virtual environment, and its tests.
python-check:
    crates/python/tests/check.sh

# What a call costs from C and from Python beside one from Rust: only where nothing else runs.
call-overhead:
    tools/call_overhead.sh

# The library for JavaScript and the page of the book that uses it: in Node and in a headless Chromium.
js-check:
    crates/capi/js/tests/check.sh

# The book, with the page that verifies a proof. Needs mdbook, and clang for the library of the page.
book:
    mdbook build
    docs/browser/build.sh target/book/browser

# The long tier: minutes to hours.
soak:
    cargo test --workspace --features soak

# Where the networks of soak-kills, soak-faults, soak-partition, soak-flood and lag have the folders of
# their nodes: in memory, as for the figures of docs/reliability.md, where no other program fills the
# disk. `just nodes=/var/tmp lag`, or ALPHORN_NODES in the environment, puts them on a disk instead.
nodes := env_var_or_default("ALPHORN_NODES", "/dev/shm")

# Kill nodes of a devnet so many times, one every six slots of a second: what was signed twice, what
# was lost, how long a start took (docs/reliability.md). A hundred take ten minutes.
soak-kills COUNT="500" SEED="1":
    cargo build --release --package alphorn
    TMPDIR={{nodes}} target/release/alphorn devnet --preset custom:1000:0,200,400,600,800 --faults kill --fault-every 6 \
        --slots $((6 * {{COUNT}} + 9)) --seed {{SEED}} --json target/kills.json

# Kill, end, pause, slow down and part nodes of a devnet so many times, one every ten slots of a second.
soak-faults COUNT="100" SEED="1":
    cargo build --release --package alphorn
    TMPDIR={{nodes}} target/release/alphorn devnet --preset custom:1000:0,200,400,600,800 \
        --faults kill,term,pause,slow,partition --fault-every 10 \
        --slots $((10 * {{COUNT}} + 9)) --seed {{SEED}} --json target/faults.json

# Cut a devnet of four nodes into halves for so many slots of a second, and heal it: the two slots after
# the end are the last that may miss anything.
soak-partition SLOTS="32" SEED="1":
    cargo build --release --package alphorn
    TMPDIR={{nodes}} target/release/alphorn devnet --preset custom:1000:0,200,400,600,800 \
        --faults partition --partition-slots {{SLOTS}} --fault-every $((2 * {{SLOTS}} + 10)) \
        --slots $(({{SLOTS}} + 20)) --seed {{SEED}} --json target/partition.json

# Flood a node of a devnet with forged votes for about so many seconds, with 64 and with 256 validators:
# memory of all nodes against their bound, honest votes in blocks against those before the flood.
soak-flood SECONDS="600" MACHINES="16":
    cargo build --release --package alphorn
    for validators in 64 256; do \
        TMPDIR={{nodes}} target/release/alphorn devnet --validators $validators --flood {{MACHINES}} \
            --slots $(({{SECONDS}} / 4 + 8)) --allow-missed 1000000000 \
            --json target/flood-$validators.json || exit 1; \
    done

# The runs of docs/reliability.md whose folders must be on a real disk: an hour, 400 slots of each scheme,
# 500 kills and 100 faults, one after the other, some six hours. What is on memory is refused. Give the
# disk to nothing else: a commit that waits for others' writes costs votes.
soak-disk DIR="/var/tmp": (on-disk DIR)
    just nodes={{DIR}} soak-hour
    for scheme in bls falcon xmss; do just nodes={{DIR}} soak-slots $scheme || exit 1; done
    just nodes={{DIR}} soak-kills
    just nodes={{DIR}} soak-faults

# Refuse a folder that is in memory or not there.
[private]
on-disk DIR:
    @kind=$(stat --file-system --format=%T {{DIR}}) && case $kind in \
        tmpfs|ramfs) echo "{{DIR}} is $kind: in memory, not on a disk"; exit 1;; \
        *) echo "folders of nodes in {{DIR}}, on $kind";; \
    esac

# Four nodes with 256 validators for so many hours of slots of 4 s; 24 for a day.
soak-hour HOURS="1":
    cargo build --release --package alphorn
    TMPDIR={{nodes}} target/release/alphorn devnet --nodes 4 --scheme bls --validators 256 \
        --slots $((900 * {{HOURS}})) --json target/hours-{{HOURS}}.json

# A day: what grows slowly, what is only done once in 8,192 slots (old blocks go), clocks that drift.
soak-day: (soak-hour "24")

# Four nodes of a scheme for so many slots; of XMSS with collections that are proved.
soak-slots SCHEME="bls" SLOTS="400":
    cargo build --release --package alphorn
    case {{SCHEME}} in \
        bls) options="--validators 256";; \
        falcon) options="--validators 64";; \
        xmss) options="--validators 64 --layers list/proof --preset lean";; \
        *) echo "SCHEME={{SCHEME}}, must be bls, falcon or xmss"; exit 2;; \
    esac; \
    TMPDIR={{nodes}} target/release/alphorn devnet --nodes 4 --scheme {{SCHEME}} $options \
        --slots {{SLOTS}} --json target/slots-{{SCHEME}}.json

# XMSS whose aggregates and collections are proofs, with the numbers that are published for it.
soak-proofs-of-cells SLOTS="20":
    cargo build --release --package alphorn
    TMPDIR={{nodes}} target/release/alphorn devnet --scheme xmss --layers proof/proof --slots {{SLOTS}} \
        --json target/proofs-of-cells.json

# How late phases begin: the same devnet with idle lanes, then with prove lanes that are always busy.
lag SLOTS="80":
    cargo build --release --package alphorn
    TMPDIR={{nodes}} target/release/alphorn devnet --preset custom:1000:0,200,400,600,800 --slots {{SLOTS}} --json target/lag-idle.json
    TMPDIR={{nodes}} target/release/alphorn devnet --preset custom:1000:0,200,400,600,800 --slots {{SLOTS}} --saturate --json target/lag-busy.json

# Collections of 430 kB on eight real nodes of this machine in three ways, one network after the other, and
# the same payload over a simulated network: by how much later than their publication they came to all
# others (`arrivals` of target/three-ways-*.json; modelled in target/three-ways-*-model.json), and bytes.
three-ways SLOTS="20":
    cargo build --release --package alphorn
    node="--set protocol.policy=medium --set protocol.places=false --set protocol.source_privacy=blend \
        --set protocol.unverified=64"; \
    for way in gossip rs rlnc; do \
        case $way in \
            gossip) how="--broadcast-above 16777216"; model="";; \
            rs) how="--broadcast-code reed-solomon"; model="$node";; \
            rlnc) how="--broadcast-code rlnc"; model="$node";; \
        esac; \
        TMPDIR={{nodes}} target/release/alphorn devnet --nodes 8 --scheme falcon --validators 640 --committees 1 \
            --preset custom:6000:0,1200,2400,3600,4800 --slots {{SLOTS}} --allow-missed 1000000000 $how \
            --json target/three-ways-$way.json || exit 1; \
        target/release/alphorn sim run coded-devnet --set protocol.strategy=$way $model \
            --json target/three-ways-$way-model.json || exit 1; \
    done

# Every byte of a proof changed, every kernel: about an hour on two cores.
soak-proofs:
    cargo test --package alphorn-xmss --features soak proof::

# Mutated proofs on which the circuits of merges and the verifiers must agree.
mutations COUNT="10000":
    MUTATIONS={{COUNT}} cargo test --package alphorn-stark --lib circuits_and_verifiers -- --nocapture

# Replay seeds, corpus and mutations through every fuzz target on stable Rust.
replay:
    cargo test --package alphorn-fuzz

# Fuzz one target with cargo-fuzz on stable Rust for some seconds.
fuzz TARGET SECONDS="60":
    cargo run --package alphorn-fuzz
    cargo fuzz run -s none --features libfuzzer {{TARGET}} fuzz/corpus-local/{{TARGET}} fuzz/corpus/{{TARGET}} -- -max_total_time={{SECONDS}}

# Fuzz every target for an hour, one after the other: executions and findings of each. The seconds
# can be fewer; logs are under target/fuzz, inputs that failed under fuzz/artifacts.
fuzz-hour SECONDS="3600":
    cargo run --package alphorn-fuzz
    mkdir -p target/fuzz
    for path in fuzz/fuzz_targets/*.rs; do \
        target=$(basename $path .rs); log=target/fuzz/$target.log; \
        cargo fuzz run -s none --features libfuzzer $target fuzz/corpus-local/$target fuzz/corpus/$target \
            -- -max_total_time={{SECONDS}} -timeout=10 -print_final_stats=1 > $log 2>&1; status=$?; \
        executions=$(sed -n 's/^stat::number_of_executed_units: *//p' $log); \
        findings=$(ls fuzz/artifacts/$target 2>/dev/null | wc -l); \
        echo "$target: ${executions:-no} executions in {{SECONDS}} s, $findings findings, exit code $status"; \
    done

# Measure BLS: `just bench-bls sums`, `just bench-bls verify --json -`.
bench-bls *ARGS:
    cargo run --release --package alphorn -- bench bls {{ARGS}}

# One slot end to end with real signatures.
slot *ARGS:
    cargo run --release --package alphorn -- slot {{ARGS}}

# A million post-quantum votes in one slot and one proof (docs/horn.md): proofs stand in FOLDER as they are
# made, and the same line goes on after a stop. In the end a node that has seen no vote decides about the block.
million-pq FOLDER="target/million-pq":
    cargo build --release --package alphorn
    mkdir -p {{FOLDER}}
    target/release/alphorn slot --scheme xmss --layers proof/proof --protocol horn-pq --validators 2^20 \
        --resume {{FOLDER}} --blocks {{FOLDER}}/blocks.json --json {{FOLDER}}/slot.json
    target/release/alphorn slot --scheme xmss --layers proof/proof --protocol horn-pq --validators 2^20 \
        --verify {{FOLDER}}/blocks.json --json {{FOLDER}}/verified.json

# The tables of docs/horn.md once more: what each `<!-- alphorn COMMAND -->` prints replaces the
# block behind it. A minute; times are those of this machine.
horn-doc BINARY="target/release/alphorn":
    test -x {{BINARY}} || cargo build --release --package alphorn
    awk -v binary={{BINARY}} ' \
        /^<!-- alphorn .* -->$/ { \
            print; command = $0; gsub(/^<!-- alphorn | -->$/, "", command); \
            command = binary " " command; getline; print; \
            blank = ""; \
            while ((command | getline line) > 0) { \
                if (line == "") blank = blank "\n"; \
                else { printf "%s%s\n", blank, line; blank = "" } \
            } \
            if (close(command) != 0) exit 1; \
            while ((getline line) > 0 && line != "```"); \
            print "```"; next \
        } \
        { print }' docs/horn.md > docs/horn.md.new
    mv docs/horn.md.new docs/horn.md

# Every figure of the documents once more, on this machine, on which nothing else should run: the recipe
# results/recipe.toml into results/MACHINE/, what is missing there or the NAMES that are given. An hour.
# The program is built outside, at a clean commit, so that each figure names a commit of the history.
figures MACHINE *NAMES:
    cargo build --release
    cargo xtask figures --measure target/release/alphorn {{MACHINE}} {{NAMES}}
    cargo xtask figures --write

# The commands that the documents show, as they are written.
documents *FILES:
    cargo build --release
    cargo xtask documents {{FILES}}

# The pictures of docs/answers once more, from scenarios/answer-*.toml and the analyses of Horn; tables
# stay under target/answers. Some minutes on two cores. BINARY=... takes another program.
answers BINARY="target/release/alphorn":
    test -x {{BINARY}} || cargo build --release --package alphorn
    docs/answers/draw.sh {{BINARY}} target/answers docs/answers/img

# The archive of a release for this machine and its SHA-256 sum, under target/dist (docs/releasing.md).
# Builds with the profile `dist`, which takes long; `just release BINARY` packs one that is there already.
release BINARY="":
    tools/release.sh {{BINARY}}
