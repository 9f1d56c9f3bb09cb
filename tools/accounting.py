#!/usr/bin/env python3
"""The account of a hash-based proof, computed anew from the lecture of alphorn-stark.

    alphorn proof security --json security.json
    tools/accounting.py security.json

Nothing is taken from the program but what it says at last: the sizes stand below, the formulas are those of
sections 2 to 9, 11 and 12 of crates/stark/src/LECTURE.md. Each row of each case must have the same number of
questions and the same bits to a tenth, and there must be no row more or less. Ends with 1 otherwise.
"""

import json
import sys
from math import log2, sqrt

FIELD_BITS = 5 * log2(2**31 - 2**24 + 1)
TOLERANCE = 0.1

# Sizes of a set: fractions on the bus, components of a tuple, outputs that are wired, coordinates of a column of
# the bitfield, claims of the arguments, and for each width lanes of a state, committed cubes, rounds that bind the
# rest of a permutation's place once its sixteen rows are bound, and how many of those bind units.
SETS = {
    "compact": dict(
        fractions=20,
        components=9,
        wires=316,
        column=15,
        claims=7,
        widths=[("permutations", 16, 19, 15, 9)],
        # Coordinates of a registry's elements, rows of inputs and outputs of a merge's circuits.
        merge=dict(registry=15 + 3, fixed_rows=3 + 2 * 5),
    ),
    "prod": dict(
        fractions=20,
        components=14,
        wires=486,
        column=15,
        claims=10,
        widths=[("permutations", 16, 19, 14, 8), ("width 24", 24, 22, 13, 7)],
        merge=dict(registry=15 + 4, fixed_rows=8 + 2 * 5),
    ),
}

# Oracles of a preset: log2 of the rows and of the slices, queries, bits of work in a round of folding, m; and the
# bits of work before rows are opened.
PRESETS = {
    "fast": ([(18, 8, 112, 10, 20), (15, 4, 74, 8, 18), (13, 4, 44, 8, 16)], 14),
    "merge": ([(18, 7, 112, 10, 20), (15, 4, 74, 8, 18), (13, 4, 44, 8, 16)], 14),
    "small": ([(20, 8, 53, 10, 10), (18, 4, 35, 11, 10), (16, 4, 26, 12, 10)], 20),
}
SLICE_LOG2 = 16

# A merge of any set, section 12: children; coordinates of a child, of a lane, of a permutation, of a row of a
# circuit, of a bitfield, of the wiring's rows and cells.
MERGE = dict(
    children=7,
    child=3,
    lanes=6,
    permutation=13,
    row=17,
    bitfield=15,
    wiring=22 + 20,
)


def roots(count):
    """Bits of a polynomial of so many roots, at a random element of the field."""
    return FIELD_BITS - log2(count)


def permutations(name, lanes, cubes, rounds, units):
    """Section 5: eight full rounds, and the partial ones as one layer more."""
    # A round of rows has degree 45; its weights L_h(z) add 15.
    skip = 45 + 15
    return [
        (f"{name}: lanes of a state", 8, roots(lanes - 1)),
        (f"{name}: cubes of partial rounds", 1, roots(cubes)),
        (f"{name}: skipped rows, last round", 1, roots(skip)),
        (f"{name}: skipped rows", 8, roots(skip)),
        (f"{name}: rounds of sumcheck", 9 * rounds, roots(4)),
        (f"{name}: last round, high coordinates", units, roots(4)),
    ]


# Eight elements of F_p, by the birthday bound.
COLLISIONS = ("collisions of digests", 0, 8 * log2(2**31 - 2**24 + 1) / 2)


def arguments(size):
    """Bus, wires, permutations, union: sections 4 to 7."""
    layers = size["fractions"]
    rows = [
        # Two multisets that differ give a rational function with as many roots as fractions times components.
        ("tuples: alpha, beta", 1, roots(2**layers * size["components"])),
        ("bus: joining claims", 2 * layers, roots(1)),
        # Layer k of the tree has k rounds; what is summed has degree 2, and eq one more.
        ("bus: rounds of sumcheck", sum(range(layers)), roots(3)),
        ("wires: tau", 1, roots(size["wires"] + 1)),
    ]
    for width in size["widths"]:
        rows += permutations(*width)
    joined = max(max(lanes, cubes) for _, lanes, cubes, _, _ in size["widths"])
    rows += [
        ("claims on cubes and inputs: eta", 1, roots(joined - 1)),
        ("union: point of the bitfield", 1, roots(size["column"])),
        ("union: rounds of sumcheck", size["column"], roots(3)),
        COLLISIONS,
    ]
    return rows


def merge(size):
    """Section 12: what is argued of the circuits, and what is left of them."""
    children, child, column = size["children"], size["child"], size["bitfield"]
    # Of a permutation's place four coordinates are the sixteen rows; children are groups of units.
    units = size["permutation"] - size["lanes"] - 4 + child
    rows = permutations("permutations", 16, 19, units + size["lanes"], units)
    of_rows = size["row"] + child
    rows += [
        ("inputs and outputs of circuits", 1, roots(child + size["lanes"] + size["fixed_rows"])),
        ("outputs of permutations: point", 1, roots(child + size["permutation"] + 3)),
        ("claims on cubes and inputs: eta", 2, roots(19)),
        ("rows of circuits: point", 1, roots(of_rows)),
        ("rows of circuits: rounds of sumcheck", of_rows, roots(3)),
        ("union: point and lambda", 1, roots(column + children)),
        ("union: rounds of sumcheck", column, roots(3)),
        ("words of bitfields: omega, mu", 1, roots(column + children)),
        ("registry: point of its columns", 1, roots(size["registry"] - column)),
        ("wiring, registry: joining claims", 3, roots(children + 1)),
        ("wiring, registry: rounds of sumcheck", size["wiring"] + size["registry"], roots(2)),
        COLLISIONS,
    ]
    return rows


def commitment(oracles, work, claims):
    """The opening: section 9, from 1 to 4."""
    rows = []
    coordinates, joined = oracles[0][1] + SLICE_LOG2, claims
    for rows_log2, slices_log2, queries, fold_work, m in oracles:
        rho = 2.0 ** (coordinates - slices_log2 - rows_log2)
        words = m / rho
        near = sqrt(rho) * (1 + 1 / (2 * m))
        gamma = 1 - near
        half = m + 0.5
        a = (2 * half**5 + 3 * half * gamma * rho) / (3 * rho**1.5) * 2**rows_log2
        a += half / sqrt(rho)
        rows += [
            ("oracle: sample out of domain", 1, roots(words**2 / 2 * coordinates)),
            ("oracle: joining claims", 1, roots(joined * words)),
            ("oracle: folding, with work", slices_log2, roots(a) + fold_work),
            ("oracle: queries, with work", 1, -queries * log2(near) + work),
        ]
        coordinates -= slices_log2
        # The sample of the next oracle, by the first power of a challenge, and the rows of this one.
        joined = queries + 1
    # The last polynomial is in clear: nothing is near it, and its rows have the same powers as if a sample were
    # joined with them.
    rows += [
        ("last polynomial: joining rows", 1, roots(joined)),
        ("last polynomial: rounds of sumcheck", coordinates, roots(2)),
    ]
    return rows


def differences(case):
    oracles, work = PRESETS[case["preset"]]
    if case["preset"] == "merge":
        rows = merge({**MERGE, **SETS[case["set"]]["merge"]})
        # Inputs and outputs, outputs of permutations, their inputs, cubes; three of rows; columns of bits and of
        # inverses; words; what each child leaves of its bitfield.
        claims = 4 + 3 + (MERGE["children"] + 1) + 1 + MERGE["children"]
    else:
        size = SETS[case["set"]]
        rows, claims = arguments(size), size["claims"]
    # One claim more: the sample.
    rows += commitment(oracles, work, claims + 1)
    said = [(term["name"], term["rounds"], term["bits"]) for term in case["terms"]]
    if [row[:2] for row in rows] != [row[:2] for row in said]:
        yield f"other questions: {[row[:2] for row in said]} for {[row[:2] for row in rows]}"
        return
    for (name, _, bits), (_, _, of_program) in zip(rows, said):
        if abs(bits - of_program) > TOLERANCE:
            yield f"{name}: {of_program:.2f} bits, by the lecture {bits:.2f}"
    least = min(bits for _, _, bits in rows)
    total = -log2(sum(rounds * 2**-bits for _, rounds, bits in rows))
    for what, ours, key in (("least", least, "security_bits"), ("all", total, "sum_bits")):
        if abs(ours - case[key]) > TOLERANCE:
            yield f"{what} rows: {case[key]:.2f} bits, by the lecture {ours:.2f}"


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        cases = json.load(file)["cases"]
    found = 0
    for case in cases:
        title = f"{case['set']}, {case['preset']}"
        wrong = list(differences(case))
        found += len(wrong)
        print(f"{title}: {len(case['terms'])} rows, " + ("as by the lecture" if not wrong else "WRONG"))
        for line in wrong:
            print(f"  {line}")
    return 1 if found or not cases else 0


if __name__ == "__main__":
    sys.exit(main())
