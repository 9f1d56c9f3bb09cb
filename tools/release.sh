#!/usr/bin/env bash
# Packs a release for this machine's target: release.sh [BINARY]
#
# Without BINARY it is built with the profile `dist`, which takes long. The archive and its SHA-256 sum are
# written to target/dist; the same binary at the same commit gives the same archive, byte for byte. Needs GNU tar and Python 3.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

out=${CARGO_TARGET_DIR:-target}/dist
binary=${1:-$out/alphorn}
if [ $# -eq 0 ]; then
    cargo build --locked --profile dist --package alphorn
fi

version=$(cargo pkgid --package alphorn | sed 's/.*[#@]//')
if [ "$("$binary" --version)" != "alphorn $version" ]; then
    echo "$binary is $("$binary" --version), must be alphorn $version" >&2
    exit 1
fi
name=alphorn-$version-$(rustc -vV | sed -n 's/^host: //p')

mkdir -p "$out"
staging=$(mktemp -d)
trap 'rm -rf "$staging"' EXIT
folder=$staging/$name
mkdir -p "$folder/completions"
cp LICENSE-APACHE LICENSE-MIT README.md CHANGELOG.md "$folder"
tools/notices.py > "$folder/THIRD-PARTY.txt"
install -m 755 "$binary" "$folder/alphorn"
"$binary" man "$folder/man/man1"
"$binary" completions bash > "$folder/completions/alphorn.bash"
"$binary" completions fish > "$folder/completions/alphorn.fish"
"$binary" completions zsh > "$folder/completions/_alphorn"

# Names in order, nobody's ids, the time of the commit: nothing of this machine.
tar --create --directory "$staging" --sort=name --owner=0 --group=0 --numeric-owner --mode=u+rwX,go+rX,go-w \
    --mtime="@$(git log -1 --format=%ct)" "$name" | gzip -9 -n > "$out/$name.tar.gz"
(cd "$out" && sha256sum "$name.tar.gz" | tee "$name.tar.gz.sha256")
