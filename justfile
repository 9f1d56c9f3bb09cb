# Development tasks. Each recipe is a short cargo command, so it can be run by hand on a host without `just`.

# List the recipes.
default:
    @just --list

# Run everything that continuous integration runs.
ci:
    .ci/run

# Format all code.
fmt:
    cargo fmt --all

# Run the lints; warnings are errors.
lint:
    cargo clippy --workspace --all-targets -- -D warnings

# Check the project's own rules, which no lint covers.
tidy:
    cargo xtask tidy

# Check licences, bans and sources of the dependencies.
deny:
    cargo deny --locked check licenses bans sources

# Regenerate the vectors of docs/formats.md with the encoders themselves, and the proofs in vectors/proofs.
vectors:
    ALPHORN_WRITE_VECTORS=1 cargo test -p alphorn-proto --test conformance
    ALPHORN_WRITE_VECTORS=1 cargo test -p alphorn-xmss --lib vectors::formats
    ALPHORN_WRITE_VECTORS=1 cargo test -p alphorn-falcon --lib formats
    ALPHORN_WRITE_VECTORS=1 cargo test -p alphorn-labrador --lib formats
    ALPHORN_WRITE_VECTORS=1 cargo test -p alphorn-node --lib formats
    ALPHORN_WRITE_VECTORS=1 cargo test -p alphorn-bindings --test vectors

# Build the documentation, including private items.
doc:
    RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --document-private-items

# Run all unit tests, except those that run nodes, scenarios or the binary.
quick:
    cargo test --workspace --lib --bins

# Run all tests; PACKAGE limits them to one crate: `just test alphorn-types`.
test PACKAGE="*":
    cargo test -p '{{PACKAGE}}'

# Check AArch64, which runs portable kernels, on any Linux host: lint the workspace for it, and cross-compile the
# crates with kernels and test them under an emulator. Needs gcc-aarch64-linux-gnu, libc6-dev-arm64-cross, qemu-user
# and rustup's target aarch64-unknown-linux-gnu. The proofs of stark take more than half an hour there.
arm:
    CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc \
        cargo clippy --target aarch64-unknown-linux-gnu --workspace --all-targets -- -D warnings
    CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc \
    CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="qemu-aarch64 -L /usr/aarch64-linux-gnu" \
        cargo test --target aarch64-unknown-linux-gnu --lib \
        -p alphorn-exec -p alphorn-rlnc -p alphorn-bls -p alphorn-stark

# Test the dashboard page: its modules in Node, the full page in headless Chromium (docs/dashboard.md).
page-check:
    crates/dashboard/tests/page/check.sh

# Regenerate the header of the C library after a change to its interface (docs/bindings.md).
header:
    ALPHORN_WRITE_HEADER=1 cargo test --package alphorn-capi --test header

# Test the Python package: install the wheel in a fresh virtual environment and run its tests.
python-check:
    crates/python/tests/check.sh

# Compare the cost of a call from C and from Python with one from Rust; needs an otherwise idle host.
call-overhead:
    tools/call_overhead.sh

# Test the JavaScript library and the page of the book that uses it, in Node and in headless Chromium.
js-check:
    crates/capi/js/tests/check.sh

# Build the book, with the page that verifies a proof. Needs mdbook, and clang for the page's library.
book:
    mdbook build
    docs/browser/build.sh target/book/browser

# Run the long test tier: minutes to hours.
soak:
    cargo test --workspace --features soak

# Where the networks of soak-kills, soak-faults, soak-partition, soak-flood and lag keep their nodes'
# folders: in memory, as for the figures of docs/reliability.md, where no other program fills the
# disk. `just nodes=/var/tmp lag`, or ALPHORN_NODES in the environment, puts them on a disk instead.
nodes := env_var_or_default("ALPHORN_NODES", "/dev/shm")

# Kill nodes of a devnet COUNT times, one every six slots of a second: reports what was signed twice, what
# was lost, and how long a start took (docs/reliability.md). A hundred kills take ten minutes.
soak-kills COUNT="500" SEED="1":
    cargo build --release --package alphorn
    TMPDIR={{nodes}} target/release/alphorn devnet --preset custom:1000:0,200,400,600,800 --faults kill --fault-every 6 \
        --slots $((6 * {{COUNT}} + 9)) --seed {{SEED}} --json target/kills.json

# Kill, terminate, pause, slow down and partition nodes of a devnet COUNT times, one every ten slots of a second.
soak-faults COUNT="100" SEED="1":
    cargo build --release --package alphorn
    TMPDIR={{nodes}} target/release/alphorn devnet --preset custom:1000:0,200,400,600,800 \
        --faults kill,term,pause,slow,partition --fault-every 10 \
        --slots $((10 * {{COUNT}} + 9)) --seed {{SEED}} --json target/faults.json

# Partition a devnet of four nodes into halves for SLOTS slots of a second, and heal it: the two slots
# after the end are the last that may miss anything.
soak-partition SLOTS="32" SEED="1":
    cargo build --release --package alphorn
    TMPDIR={{nodes}} target/release/alphorn devnet --preset custom:1000:0,200,400,600,800 \
        --faults partition --partition-slots {{SLOTS}} --fault-every $((2 * {{SLOTS}} + 10)) \
        --slots $(({{SLOTS}} + 20)) --seed {{SEED}} --json target/partition.json

# Flood a node of a devnet with forged votes for about SECONDS seconds, with 64 and with 256 validators:
# compares the memory of all nodes with their bound, and honest votes in blocks with those before the flood.
soak-flood SECONDS="600" MACHINES="16":
    cargo build --release --package alphorn
    for validators in 64 256; do \
        TMPDIR={{nodes}} target/release/alphorn devnet --validators $validators --flood {{MACHINES}} \
            --slots $(({{SECONDS}} / 4 + 8)) --allow-missed 1000000000 \
            --json target/flood-$validators.json || exit 1; \
    done

# Run those parts of docs/reliability.md whose folders must be on a real disk: an hour, 400 slots of each
# scheme, 500 kills and 100 faults, one after the other, some six hours. In-memory folders are refused. Use
# the disk for nothing else: a commit that waits for other programs' writes costs votes.
soak-disk DIR="/var/tmp": (on-disk DIR)
    just nodes={{DIR}} soak-hour
    for scheme in bls falcon xmss; do just nodes={{DIR}} soak-slots $scheme || exit 1; done
    just nodes={{DIR}} soak-kills
    just nodes={{DIR}} soak-faults

# Refuse a folder that is in memory or missing.
[private]
on-disk DIR:
    @kind=$(stat --file-system --format=%T {{DIR}}) && case $kind in \
        tmpfs|ramfs) echo "{{DIR}} is $kind: in memory, not on a disk"; exit 1;; \
        *) echo "folders of nodes in {{DIR}}, on $kind";; \
    esac

# Run four nodes with 256 validators for HOURS hours of 4 s slots; 24 for a day.
soak-hour HOURS="1":
    cargo build --release --package alphorn
    TMPDIR={{nodes}} target/release/alphorn devnet --nodes 4 --scheme bls --validators 256 \
        --slots $((900 * {{HOURS}})) --json target/hours-{{HOURS}}.json

# Run for a day: covers slow growth, what happens only once in 8,192 slots (old blocks go), and clock drift.
soak-day: (soak-hour "24")

# Run four nodes of a scheme for SLOTS slots; XMSS with proved collections.
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

# Run XMSS whose aggregates and collections are proofs, with the numbers published for it.
soak-proofs-of-cells SLOTS="20":
    cargo build --release --package alphorn
    TMPDIR={{nodes}} target/release/alphorn devnet --scheme xmss --layers proof/proof --slots {{SLOTS}} \
        --json target/proofs-of-cells.json

# Measure how late phases begin: the same devnet with idle lanes, then with prove lanes that are always busy.
lag SLOTS="80":
    cargo build --release --package alphorn
    TMPDIR={{nodes}} target/release/alphorn devnet --preset custom:1000:0,200,400,600,800 --slots {{SLOTS}} --json target/lag-idle.json
    TMPDIR={{nodes}} target/release/alphorn devnet --preset custom:1000:0,200,400,600,800 --slots {{SLOTS}} --saturate --json target/lag-busy.json

# Send collections of 430 kB between eight real nodes on this host in three ways, one network after the other,
# and the same payload over a simulated network: reports the delay from publication to arrival at all other
# nodes (`arrivals` of target/three-ways-*.json; modelled in target/three-ways-*-model.json), and bytes.
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

# Test changes to every byte of a proof, with every kernel: about an hour on two cores.
soak-proofs:
    cargo test --package alphorn-xmss --features soak proof::

# Test mutated proofs, on which the circuits of merges and the verifiers must agree.
mutations COUNT="10000":
    MUTATIONS={{COUNT}} cargo test --package alphorn-stark --lib circuits_and_verifiers -- --nocapture

# Replay seeds, corpus and mutations through every fuzz target on stable Rust.
replay:
    cargo test --package alphorn-fuzz

# Fuzz one target with cargo-fuzz on stable Rust for SECONDS seconds.
fuzz TARGET SECONDS="60":
    cargo run --package alphorn-fuzz
    cargo fuzz run -s none --features libfuzzer {{TARGET}} fuzz/corpus-local/{{TARGET}} fuzz/corpus/{{TARGET}} -- -max_total_time={{SECONDS}}

# Fuzz every target for an hour (or SECONDS), one after the other, and print executions and findings of
# each; logs are under target/fuzz, failing inputs under fuzz/artifacts.
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

# Run one slot end to end with real signatures.
slot *ARGS:
    cargo run --release --package alphorn -- slot {{ARGS}}

# Prove a million post-quantum votes in one slot and one proof (docs/horn.md): proofs are stored in FOLDER as they
# are made, and the same command resumes after a stop. At the end a node that has seen no vote decides about the block.
million-pq FOLDER="target/million-pq":
    cargo build --release --package alphorn
    mkdir -p {{FOLDER}}
    target/release/alphorn slot --scheme xmss --layers proof/proof --protocol horn-pq --validators 2^20 \
        --resume {{FOLDER}} --blocks {{FOLDER}}/blocks.json --json {{FOLDER}}/slot.json
    target/release/alphorn slot --scheme xmss --layers proof/proof --protocol horn-pq --validators 2^20 \
        --verify {{FOLDER}}/blocks.json --json {{FOLDER}}/verified.json

# Regenerate the tables of docs/horn.md: the output of each `<!-- alphorn COMMAND -->` replaces the block
# after it. Takes a minute; times are those of this host.
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

# Measure the documents' figures again on this host, on which nothing else should run: runs the recipe
# results/recipe.toml into results/MACHINE/, for what is missing there or for the given NAMES. Takes an hour.
# The program is built outside, at a clean commit, so that each figure names a commit of the history.
figures MACHINE *NAMES:
    cargo build --release
    cargo xtask figures --measure target/release/alphorn {{MACHINE}} {{NAMES}}
    cargo xtask figures --write

# Run the commands shown in the documents, exactly as written.
documents *FILES:
    cargo build --release
    cargo xtask documents {{FILES}}

# Redraw the pictures of docs/answers from scenarios/answer-*.toml and the analyses of Horn; tables stay
# under target/answers. Takes some minutes on two cores. BINARY=... uses another program.
answers BINARY="target/release/alphorn":
    test -x {{BINARY}} || cargo build --release --package alphorn
    docs/answers/draw.sh {{BINARY}} target/answers docs/answers/img

# Pack a release archive for this host's target, with its SHA-256 sum, under target/dist (docs/releasing.md).
# Builds with the profile `dist`, which takes long; `just release BINARY` packs an existing binary.
release BINARY="":
    tools/release.sh {{BINARY}}
