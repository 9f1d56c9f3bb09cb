#!/usr/bin/env python3
"""What a call costs from C and from Python beside the same call from Rust: a verified collection of 32,768 votes.

One thread; the three take turns, so that what else the machine does meets all of them. It runs with the Python that has
the package, and gets the programs `calls` of crates/bindings/examples and crates/capi/examples:

    tools/call_overhead.sh
"""

import statistics
import subprocess
import sys
import tempfile
import time

import alphorn
from alphorn._native import Context

ROUNDS = 61
CALLS = 60


def call(folder: str) -> list[int]:
    """The nanoseconds of each call from Python."""

    def read(name: str) -> bytes:
        with open(f"{folder}/{name}", "rb") as file:
            return file.read()

    keys, signers, signature = read("keys"), read("signers"), read("signature")
    registry = alphorn.Registry.proven(keys, context=Context(threads=1))
    committees = alphorn.Committees(registry, sizes=[len(registry)])
    times = []
    for _ in range(CALLS):
        began = time.perf_counter_ns()
        collection = alphorn.Collection(0, signers, b"head of slot 7", signature)
        verdicts = committees.verify([collection])
        times.append(time.perf_counter_ns() - began)
        if list(verdicts) != [0]:
            sys.exit("the collection does not hold")
    return times


def main() -> None:
    if len(sys.argv) != 3:
        sys.exit(f"usage: {sys.argv[0]} RUST C")
    with tempfile.TemporaryDirectory() as folder:

        def run(program: str) -> list[int]:
            done = subprocess.run([program, folder], capture_output=True, text=True, check=True)
            return [int(line) for line in done.stdout.split()]

        ways = {"Rust": lambda: run(sys.argv[1]), "C": lambda: run(sys.argv[2]), "Python": lambda: call(folder)}
        # The shortest call of a round is the one that nothing interrupted.
        least: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(ROUNDS):
            for name, way in ways.items():
                least[name].append(min(way()))
    for name, of_rounds in least.items():
        ratios = [own / rust for own, rust in zip(of_rounds, least["Rust"])]
        print(
            f"{name:6} {statistics.median(of_rounds) / 1e6:.3f} ms; beside Rust of the same round "
            f"{statistics.median(ratios):.4f}, from {min(ratios):.4f} to {max(ratios):.4f}"
        )


if __name__ == "__main__":
    main()
