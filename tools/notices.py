#!/usr/bin/env python3
"""Prints the licences of the crates that are in the program: notices.py > THIRD-PARTY.txt

Each crate with version, licence, authors and source, then the texts that lie in its package; a text that several
have is printed once. A package without one has the standard text of its licence, which its authors are named for.
"""

import json
import pathlib
import subprocess
import sys

NAMES = ("LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE", "UNLICENSE")


def cargo(*arguments):
    return subprocess.run(["cargo", *arguments, "--locked"], check=True, capture_output=True, text=True).stdout


def main():
    root = pathlib.Path(__file__).resolve().parent.parent
    host = cargo_host()
    tree = cargo("tree", "--manifest-path", root / "Cargo.toml", "--package", "alphorn", "--edges", "normal",
                 "--target", host, "--prefix", "none", "--format", "{p}")
    linked = {tuple(line.split()[:2]) for line in tree.splitlines() if line}
    metadata = cargo("metadata", "--manifest-path", root / "Cargo.toml", "--format-version", "1",
                     "--filter-platform", host)
    packages = [package for package in json.loads(metadata)["packages"]
                if package["source"] and (package["name"], "v" + package["version"]) in linked]
    if not packages:
        sys.exit("notices.py: no crate of others is linked, which cannot be")
    texts = {}
    for package in sorted(packages, key=lambda package: (package["name"], package["version"])):
        name = f"{package['name']} {package['version']}"
        about = [package["license"] or "see its text", ", ".join(package["authors"]), package["repository"]]
        print(f"{name}: {'; '.join(filter(None, about))}")
        folder = pathlib.Path(package["manifest_path"]).parent
        # Also below it: of sources in C that a crate brings with it.
        for file in sorted(folder.rglob("*")):
            if file.is_file() and file.name.upper().startswith(NAMES):
                text = file.read_text(encoding="utf-8", errors="replace").strip()
                names = texts.setdefault(text, [])
                if name not in names:
                    names.append(name)
    print("The standard library of Rust: MIT OR Apache-2.0; https://github.com/rust-lang/rust")
    for text, names in texts.items():
        print(f"\n{'=' * 78}\n{', '.join(names)}\n{'=' * 78}\n\n{text}")


def cargo_host():
    version = subprocess.run(["rustc", "-vV"], check=True, capture_output=True, text=True).stdout
    return next(line.removeprefix("host: ") for line in version.splitlines() if line.startswith("host: "))


if __name__ == "__main__":
    main()
