#!/usr/bin/env bash
# Tests of the page: its modules in Node, the whole of it in a headless Chromium.
#
# Needs Node 18 or newer, npm, and a Chromium: the one that CHROMIUM_PATH names, or one in the path.
# ALPHORN_NO_BROWSER=1 leaves the browser out, and the last line says so.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

if [ "${ALPHORN_NO_BROWSER:-}" = 1 ]; then
    node --test tests/page/reducer.test.mjs
    echo "page: modules tested; NOT tested in a browser, because ALPHORN_NO_BROWSER=1"
    exit
fi
# With the features of the whole workspace, so that what its tests have compiled serves here too.
cargo build --locked --workspace --example page --bin alphorn
npm ci --no-audit --no-fund --silent
node --test --test-concurrency=1 tests/page/*.test.mjs
echo "page: modules and browser tested"
