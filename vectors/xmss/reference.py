"""A second implementation of XMSS compact and of the hashes of all sets, the source of known-answers.json.

    python3 vectors/xmss/reference.py > vectors/xmss/known-answers.json

Written from the definitions in crates/xmss/src/LECTURE.md and the lean consensus specification, one
value at a time and with integers only; it shares nothing with the Rust code. Standard library alone.
"""

import hashlib
import json
import re

P = 2**31 - 2**24 + 1
PARTIAL = {16: 20, 24: 23}
# First row of the circulant matrix of each width.
ROW = {
    16: [1, 1, 51, 1, 11, 17, 2, 1, 101, 63, 15, 2, 67, 22, 13, 3],
    24: [
        int(x, 16)
        for x in "2D0AAAAB 64850517 17F5551D 04ECBEB5 6D91A8D5 60703026 18D6F3CA 729601A7 77CDA9E2 "
        "3C0F5038 26D52A61 0360405D 68FC71C8 2495A71D 5D57AFC2 1689DD98 3C2C3DBE 0C23DC41 0524C7F2 "
        "6BE4DF69 0A6E572C 5C7790FA 17E118F6 0878A07F".split()
    ],
}


def grain(width):
    """Round constants from the Grain register (Poseidon paper, appendix E)."""
    fields = [(1, 2), (0, 4), (31, 12), (width, 12), (8, 10), (PARTIAL[width], 10), (2**30 - 1, 30)]
    state = [int(b) for value, bits in fields for b in format(value, f"0{bits}b")]

    def step():
        bit = state[62] ^ state[51] ^ state[38] ^ state[23] ^ state[13] ^ state[0]
        state.pop(0)
        state.append(bit)
        return bit

    def bit():
        while True:
            counts, value = step(), step()
            if counts:
                return value

    for _ in range(160):
        step()
    rounds = []
    for _ in range(8 + PARTIAL[width]):
        row = []
        while len(row) < width:
            value = int("".join(str(bit()) for _ in range(31)), 2)
            if value < P:
                row.append(value)
        rounds.append(row)
    return rounds


CONSTANTS = {width: grain(width) for width in ROW}


def permute(state):
    t = len(state)
    row = ROW[t]
    for r, constants in enumerate(CONSTANTS[t]):
        state = [(x + c) % P for x, c in zip(state, constants)]
        full = r < 4 or r >= 4 + PARTIAL[t]
        state = [pow(x, 3, P) if full or i == 0 else x for i, x in enumerate(state)]
        state = [sum(row[(j - i) % t] * state[j] for j in range(t)) % P for i in range(t)]
    return state


def compress(values, width, count):
    state = values + [0] * (width - len(values))
    return [(a + b) % P for a, b in zip(permute(state), state)][:count]


def limbs(value, count):
    out = []
    for _ in range(count):
        out.append(value % P)
        value //= P
    assert value == 0
    return out


def separator(lengths):
    joined = 0
    for length in lengths:
        joined = joined << 32 | length
    return compress(limbs(joined, 24), 24, 9)


def sponge(values, capacity):
    values = values + [0] * (-len(values) % 15)
    state = capacity + [0] * 15
    for at in range(0, len(values), 15):
        state = permute(state[:9] + values[at : at + 15])
    return state[9:17]


DOMAIN = bytes.fromhex("aeae22ff0001faff21af12000111ff00")


def prf(tag, key, fields, count):
    out = hashlib.shake_128(DOMAIN + bytes([tag]) + key + fields).digest(16 * count)
    return [int.from_bytes(out[i : i + 16], "big") % P for i in range(0, len(out), 16)]


class Lean:
    """The sets of the lean consensus specification."""

    family, digest, rho, parameter = 0x00, 8, 7, 5

    def __init__(self, chains, target, levels):
        self.chains, self.target, self.levels = chains, target, levels
        self.capacity = separator([5, 2, chains, 8])

    def chain_tweak(self, slot, chain, step):
        return limbs(slot << 24 | chain << 16 | step << 8, 2)

    def tree_tweak(self, level, index):
        return limbs(level << 40 | index << 8 | 1, 2)

    def message_tweak(self, slot):
        return limbs(slot << 8 | 2, 2)

    def step(self, p, slot, chain, position, digest):
        return compress(digest + p + self.chain_tweak(slot, chain, position + 1), 16, 8)

    def node(self, p, level, index, left, right):
        return compress(p + self.tree_tweak(level, index) + left + right, 24, 8)

    def leaf(self, p, slot, tips):
        return sponge(p + self.tree_tweak(0, slot) + sum(tips, []), self.capacity)

    def message(self, message):
        return limbs(int.from_bytes(message, "little"), 9)

    def code(self, p, slot, message, rho):
        lanes = compress(message + p + self.message_tweak(slot) + rho, 24, (self.chains + 7) // 8)
        return self.digits([lane // 127 for lane in lanes], lanes)

    def digits(self, values, lanes):
        if P - 1 in lanes:
            return None
        digits = [value >> 3 * i & 7 for value in values for i in range(8)][: self.chains]
        return digits if sum(digits) == self.target else None

    def signature_bytes(self, rho, hashes, path):
        def pack(values):
            return b"".join(x.to_bytes(4, "little") for x in values)

        path, hashes = pack(sum(path, [])), pack(sum(hashes, []))
        offsets = [36, 40 + len(path), 4]
        first, second, third = (x.to_bytes(4, "little") for x in offsets)
        return first + pack(rho) + second + third + path + hashes


class Compact(Lean):
    """The compact set: width 16 alone."""

    family, digest, rho, parameter = 0x10, 4, 6, 4

    def __init__(self):
        self.chains, self.target, self.levels = 42, 184, 32

    def tweak(self, kind, sub, index):
        return [(kind << 26) + ((index >> 16) << 10) + sub, index & 0xFFFF]

    def step(self, p, slot, chain, position, digest):
        tweak = self.tweak(0, 8 * chain + position, slot)
        return compress(tweak + [0, 0] + digest + p + [0] * 4, 16, 4)

    def node(self, p, level, index, left, right):
        return compress(self.tweak(2, level, index) + [0, 0] + p + left + right, 16, 4)

    def leaf(self, p, slot, tips):
        state = compress(self.tweak(1, 0, slot) + [0, 0] + p, 16, 8)
        for i in range(0, self.chains, 2):
            state = compress(state + tips[i] + tips[i + 1], 16, 8)
        return state[:4]

    def message(self, message):
        return compress(limbs(int.from_bytes(message, "little"), 9) + [0x616C70], 16, 8)

    def code(self, p, slot, message, rho):
        inner = compress(message + rho + self.tweak(3, 0, slot), 16, 8)
        lanes = compress(inner + p, 16, 8)
        return self.digits([lane & 0xFFFFFF for lane in lanes], lanes)

    def signature_bytes(self, rho, hashes, path):
        value = 0
        elements = rho + sum(hashes, []) + sum(path, [])
        for i, element in enumerate(elements):
            value |= element << 31 * i
        return value.to_bytes((31 * len(elements) + 7) // 8, "little")


class Key:
    """A key of a seed, active in a range of slots; nodes above no active slot are drawn."""

    def __init__(self, scheme, seed, active, p=None):
        self.scheme, self.seed, self.active = scheme, seed, active
        self.p = p or prf(scheme.family | 3, seed, b"", scheme.parameter)
        self.nodes = {}

    def start(self, slot, chain):
        fields = slot.to_bytes(4, "big") + chain.to_bytes(8, "big")
        return prf(self.scheme.family, self.seed, fields, self.scheme.digest)

    def walk(self, slot, chain, steps):
        digest = self.start(slot, chain)
        for position in range(steps):
            digest = self.scheme.step(self.p, slot, chain, position, digest)
        return digest

    def node(self, level, index):
        first, end = index << level, (index + 1) << level
        if not any(first < b and a < end for a, b in [self.active]):
            fields = bytes([level]) + index.to_bytes(8, "big")
            return prf(self.scheme.family | 2, self.seed, fields, self.scheme.digest)
        if (level, index) not in self.nodes:
            if level == 0:
                tips = [self.walk(index, chain, 7) for chain in range(self.scheme.chains)]
                node = self.scheme.leaf(self.p, index, tips)
            else:
                left, right = self.node(level - 1, 2 * index), self.node(level - 1, 2 * index + 1)
                node = self.scheme.node(self.p, level, index, left, right)
            self.nodes[level, index] = node
        return self.nodes[level, index]

    def public(self):
        elements = self.node(self.scheme.levels, 0) + self.p
        return b"".join(x.to_bytes(4, "little") for x in elements)

    def sign(self, slot, message):
        limbs_of = self.scheme.message(message)
        for counter in range(100_000):
            fields = slot.to_bytes(4, "big") + message + counter.to_bytes(8, "big")
            rho = prf(self.scheme.family | 1, self.seed, fields, self.scheme.rho)
            code = self.scheme.code(self.p, slot, limbs_of, rho)
            if code:
                break
        hashes = [self.walk(slot, chain, digit) for chain, digit in enumerate(code)]
        levels = range(self.scheme.levels)
        path = [self.node(level, slot >> level ^ 1) for level in levels]
        return counter, rho, code, self.scheme.signature_bytes(rho, hashes, path)


def signature_case(name, key, slot, message):
    counter, rho, code, signature = key.sign(slot, message)
    return {
        "set": name,
        "seed": key.seed.hex(),
        "active": list(key.active),
        "parameter": key.p,
        "public_key": key.public().hex(),
        "slot": slot,
        "message": message.hex(),
        "counter": counter,
        "randomness": rho,
        "code": "".join(map(str, code)),
        "signature_bytes": len(signature),
        "signature_sha256": hashlib.sha256(signature).hexdigest(),
    }


def main():
    seed = message = bytes(range(32))
    p5, p4 = [1, 2, 3, 4, 5], [1, 2, 3, 4]
    prod, compact = Lean(46, 200, 32), Compact()
    slot = 123456789
    count = lambda start, n: list(range(start, start + n))
    hashes = {
        "permute_16": permute(count(0, 16)),
        "permute_24": permute(count(0, 24)),
        "compress_16": compress(count(0, 8), 16, 8),
        "compress_24": compress(count(0, 8), 24, 8),
        "separator_prod": separator([5, 2, 46, 8]),
        "separator_test": separator([5, 2, 4, 8]),
        "sponge": sponge([1] * 5, separator([1, 2, 3, 4])),
        "lean_chain": prod.step([1] * 5, 0, 1, 0, count(0, 8)),
        "lean_node": prod.node(p5, 1, 0, count(0, 8), count(8, 8)),
        "prod_leaf": prod.leaf(p5, 7, [count(8 * i, 8) for i in range(46)]),
        "message_limbs": prod.message(message),
        "compact_chain": compact.step(p4, slot, 5, 3, count(10, 4)),
        "compact_node": compact.node(p4, 1, slot >> 1, count(1, 4), count(5, 4)),
        "compact_leaf": compact.leaf(p4, slot, [count(4 * i, 4) for i in range(42)]),
        "compact_message": compact.message(message),
    }
    cases = []
    for at in (0, slot, 2**32 - 1):
        cases.append(signature_case("compact", Key(compact, seed, (at, at + 1)), at, message))
    tweaks = {
        "tree_1_0": prod.tree_tweak(1, 0),
        "tree_32_0": prod.tree_tweak(32, 0),
        "chain_2_31_45_7": prod.chain_tweak(2**31, 45, 7),
        "message_last": prod.message_tweak(2**32 - 1),
        "compact_chain_5_3": compact.tweak(0, 8 * 5 + 3, slot),
        "compact_leaf": compact.tweak(1, 0, slot),
        "compact_node_1": compact.tweak(2, 1, slot >> 1),
        "compact_encoding": compact.tweak(3, 0, slot),
    }
    answers = {
        "prf_chain_start": prf(0, seed, (5).to_bytes(4, "big") + (3).to_bytes(8, "big"), 8),
        "prf_randomness": prf(1, seed, (5).to_bytes(4, "big") + message + bytes(8), 7),
        "tweaks": tweaks,
        "hashes": hashes,
        "signatures": cases,
    }
    text = json.dumps(answers, indent=1)
    # Lists of numbers on one line.
    print(re.sub(r"\[[\d,\s]+\]", lambda list: " ".join(list[0].split()), text))


if __name__ == "__main__":
    main()
