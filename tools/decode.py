#!/usr/bin/env python3
"""Decodes every format of docs/formats.md, from the chapter alone, and checks the vectors.

    python3 tools/decode.py vectors/formats              all vectors: what each says, or why it is refused
    python3 tools/decode.py vectors/formats/wire.json 3  what vector 3 of a file says

A vector is {"name", "format", "given", "bytes"} and either "says", what the bytes hold, or "refused", the
class of the first check that fails: length, tag, range, canonical, digest.
"""

import hashlib
import json
import pathlib
import sys


class Refused(Exception):
    def __init__(self, code, why):
        super().__init__(f"{code}: {why}")
        self.code = code


def sha256(*parts):
    return hashlib.sha256(b"".join(parts)).digest()


def need(code, holds, why):
    if not holds:
        raise Refused(code, why)


class Reader:
    """Little-endian fields, front to back."""

    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, count):
        need("length", self.at + count <= len(self.data), f"{count} bytes wanted at {self.at} of {len(self.data)}")
        self.at += count
        return self.data[self.at - count : self.at]

    def number(self, size):
        return int.from_bytes(self.take(size), "little")

    def below(self, size, bound, what):
        value = self.number(size)
        need("range", value < bound, f"{what} = {value}, must be below {bound}")
        return value

    def prefixed(self, limit):
        size = self.number(4)
        need("length", size <= limit, f"{size} bytes, at most {limit}")
        return self.take(size)

    def end(self):
        need("length", self.at == len(self.data), f"{len(self.data) - self.at} bytes too many")


# Supports


class Layout:
    """Chapter: Layouts."""

    def __init__(self, given):
        self.validators, self.committees, self.fan_out = given["validators"], given["committees"], given["fan_out"]
        self.levels = len(self.fan_out) + 1

    def units(self, level):
        count = 1
        for each in self.fan_out[level - 1 :]:
            count *= each
        return count

    def bounds(self, level, committee, index):
        """Where the cells of a unit begin and end, from the unit's first position on."""
        cells = self.units(1) // self.units(level)
        first = (committee * self.units(level) + index) * cells
        total = self.committees * self.units(1)
        starts = [self.validators * (first + i) // total for i in range(cells + 1)]
        return [start - starts[0] for start in starts]

    def in_committee(self, level, committee, index):
        cells = self.units(1) // self.units(level)
        start = self.bounds(self.levels, committee, 0)[index * cells]
        return range(start, start + self.bounds(level, committee, index)[-1])


class Bits:
    """A bit stream, the lowest bit of the first byte first."""

    def __init__(self, data=b""):
        self.value, self.size, self.at = int.from_bytes(data, "little"), 8 * len(data), 0

    def read(self, count):
        need("length", self.at + count <= self.size, "a Rice code goes on behind its longest length")
        self.at += count
        return self.value >> (self.at - count) & ((1 << count) - 1)

    def put(self, value, count):
        self.value |= value << self.size
        self.size += count


def rice_parameter(size, rarer):
    return (31536 * (2 * size - rarer) // (131072 * rarer)).bit_length()


def rice_read(bits, size):
    """The symbols of a class."""
    plain = (size // 2).bit_length() + 1
    digits = bits.read(plain.bit_length())
    if digits == plain:
        return [bits.read(1) for _ in range(size)]
    need("canonical", digits < plain, "head of a class")
    count = 0 if digits == 0 else 1 << digits - 1 | bits.read(digits - 1)
    need("range", count <= size // 2, f"{count} rarer symbols of {size}")
    common = bits.read(1)
    symbols, at = [common] * size, 0
    k = rice_parameter(size, count) if count else 0
    for _ in range(count):
        quotient = 0
        while bits.read(1) == 0:
            quotient += 1
            need("range", at + (quotient << k) < size, "a position behind its class")
        at += quotient << k | bits.read(k)
        need("range", at < size, f"position {at} of a class of {size}")
        symbols[at] = 1 - common
        at += 1
    return symbols


def rice_write(bits, symbols):
    size, ones = len(symbols), sum(symbols)
    common = 1 if ones > size - ones else 0
    count = min(ones, size - ones)
    plain = (size // 2).bit_length() + 1
    k = rice_parameter(size, count) if count else 0
    gaps = Bits()
    if count:
        gaps.put(count ^ 1 << count.bit_length() - 1, count.bit_length() - 1)
    gaps.put(common, 1)
    gap = 0
    for symbol in symbols if k or not count else []:
        if symbol == common:
            gap += 1
            continue
        gaps.put(1 << (gap >> k), (gap >> k) + 1)
        gaps.put(gap & (1 << k) - 1, k)
        gap = 0
    if (count and not k) or gaps.size >= size:
        bits.put(plain, plain.bit_length())
        for symbol in symbols:
            bits.put(symbol, 1)
    else:
        bits.put(count.bit_length(), plain.bit_length())
        bits.put(gaps.value, gaps.size)


def planes(support, bounds, reference, flags, code):
    """Walks over the classes of a support in their order; support[i] grows to the multiplicity."""
    size = bounds[-1]
    chosen = [range(size)] if reference is None else [
        [i for i in range(size) if reference[i]], [i for i in range(size) if not reference[i]]]
    for places in chosen:
        if places:
            code(1, list(places), None)
    level = 2
    while True:
        below = [i for i in range(size) if support[i] >= level - 1]
        if level > flags["most"] or not below:
            return
        code(level, below, bounds)
        level += 1


def majorities(bounds, below, ones):
    cells = list(zip(bounds, bounds[1:]))
    among = lambda places, cell: sum(1 for i in places if cell[0] <= i < cell[1])
    return [int(2 * among(ones, cell) > among(below, cell)) for cell in cells]


def cell_of(bounds, place):
    return next(i for i in range(len(bounds) - 1) if bounds[i] <= place < bounds[i + 1])


def support_rice(data, bounds, planes_count, reference):
    bits, support = Bits(data), [0] * bounds[-1]

    def code(level, places, cells):
        flags = [bits.read(1) for _ in cells[1:]] if cells else None
        symbols = rice_read(bits, len(places))
        ones = [i for i, s in zip(places, symbols) if s ^ (flags[cell_of(cells, i)] if cells else 0)]
        need("canonical", not cells or majorities(cells, places, ones) == flags, "majority of a cell")
        for i in ones:
            support[i] += 1

    planes(support, bounds, reference, {"most": (1 << planes_count) - 1}, code)
    need("canonical", bits.value >> bits.at & (1 << -bits.at % 8) - 1 == 0, "padding of a support")
    return support, (bits.at + 7) // 8


def support_write(support, bounds, coding, reference):
    size, top = bounds[-1], max(support, default=0)
    count = max(1, top.bit_length())
    raw = b"".join(bits_bytes([m >> j & 1 for m in support]) for j in range(count))
    if coding == "rice":
        bits = Bits()

        def code(level, places, cells):
            ones = [i for i in places if support[i] >= level]
            flags = majorities(cells, places, ones) if cells else None
            for flag in flags or []:
                bits.put(flag, 1)
            chosen = set(ones)
            rice_write(bits, [int(i in chosen) ^ (flags[cell_of(cells, i)] if cells else 0) for i in places])

        planes(support, bounds, reference, {"most": (1 << count) - 1}, code)
        body = bits.value.to_bytes((bits.size + 7) // 8, "little")
        if len(body) < len(raw):
            return bytes([16, count << 4 | (reference is not None)]) + body
    return bytes([0 if count == 1 else 1, count << 4]) + len(raw).to_bytes(4, "little") + raw


def bits_bytes(bits):
    return sum(bit << i for i, bit in enumerate(bits)).to_bytes((len(bits) + 7) // 8, "little")


def bits_of(data, size):
    value = int.from_bytes(data, "little")
    return [value >> i & 1 for i in range(size)]


def support(reader, bounds, most, coding, reference):
    """Chapter: Supports."""
    start, size = reader.at, bounds[-1]
    tag, info = reader.number(1), reader.number(1)
    need("tag", tag in (0, 1) or (tag == 16 and coding == "rice"), f"tag {tag} of a support")
    count, mode = info >> 4, info & 15
    counts = {0: [1], 1: [2, 3, 4], 16: [1, 2, 3, 4]}[tag]
    need("canonical", count in counts and mode == (tag == 16 and reference is not None), "info of a support")
    plane = (size + 7) // 8
    if tag == 16:
        limit = count * plane - 1
        need("canonical", limit >= 0, "a code that is not shorter than raw")
        found, used = support_rice(reader.data[reader.at : reader.at + limit], bounds, count, reference)
        reader.take(used)
    else:
        body = reader.prefixed(most.bit_length() * plane)
        need("length", len(body) == count * plane, f"{len(body)} bytes for {count} planes of {size}")
        parts = [body[i * plane : (i + 1) * plane] for i in range(count)]
        need("canonical", all(int.from_bytes(p, "little") >> size == 0 for p in parts), "padding of a support")
        found = [sum(bit << j for j, bit in enumerate(bits)) for bits in zip(*(bits_of(p, size) for p in parts))]
    need("canonical", count == max(1, max(found, default=0).bit_length()), "number of planes")
    need("range", max(found, default=0) <= most, f"multiplicity {max(found, default=0)}, at most {most}")
    written = support_write(found, bounds, coding, reference)
    need("canonical", written == reader.data[start : reader.at], "a support that is written otherwise")
    return found


def multiplicities(found):
    return "".join(f"{m:x}" for m in found)


def read_support(data, given):
    reader = Reader(data)
    reference = given.get("reference")
    reference = None if reference is None else bits_of(bytes.fromhex(reference), given["bounds"][-1])
    found = support(reader, given["bounds"], given["multiplicity_max"], given["coding"], reference)
    reader.end()
    return {"multiplicities": multiplicities(found)}


# Messages

CAPS = {"vote": 8 << 10, "aggregate": 2 << 20, "collection": 16 << 20, "block": 16 << 20}


def opened(data, kind, tag):
    need("length", len(data) <= CAPS[kind], f"{kind} of {len(data)} bytes, at most {CAPS[kind]}")
    reader = Reader(data)
    need("tag", reader.number(1) == 1, "version")
    need("tag", reader.number(1) == tag, "kind of message")
    return reader


def checkpoint(reader):
    return {"slot": reader.number(8), "root": reader.take(32).hex()}


def vote(reader):
    return {"slot": reader.number(8), "head": reader.take(32).hex(),
            "source": checkpoint(reader), "target": checkpoint(reader)}


def evidence(reader, length):
    kind, size = length
    return (reader.take(size) if kind == "fixed" else reader.prefixed(size)).hex()


def claims(reader, given, layout, unit):
    """The support of a unit, under the reference of its committee."""
    level, committee, _ = unit
    top = given["multiplicity_max"]
    most = 1 if level == 1 else min(top, 3) if level == 2 and layout.levels > 2 else top
    reference = None
    if given["context"] == "chain":
        whole = bits_of(bytes.fromhex(given["references"][committee]), layout.bounds(layout.levels, committee, 0)[-1])
        reference = [whole[i] for i in layout.in_committee(*unit)]
    return multiplicities(support(reader, layout.bounds(*unit), most, given["coding"], reference))


def read_vote(data, given):
    reader = opened(data, "vote", 1)
    says = {"vote": vote(reader), "validator": reader.below(4, given["layout"]["validators"], "validator"),
            "signature": reader.take(given["signature_bytes"]).hex()}
    reader.end()
    return says


def read_aggregate(data, given):
    layout, reader = Layout(given["layout"]), opened(data, "collection", 2)
    says = {"vote": vote(reader)}
    level = reader.number(1)
    need("range", 1 <= level <= layout.levels, f"level {level} of {layout.levels}")
    committee = reader.below(2, layout.committees, "committee")
    index = reader.below(2, layout.units(level), "index of the unit")
    kind = "collection" if level == layout.levels else "aggregate"
    need("length", len(data) <= CAPS[kind], f"{kind} of {len(data)} bytes")
    says["unit"] = [level, committee, index]
    says["sender"] = reader.below(4, layout.validators, "sender")
    proof = given["selection_proof_bytes"]
    says["proof"] = None if proof is None else reader.take(proof).hex()
    says["support"] = claims(reader, given, layout, (level, committee, index))
    says["evidence"] = evidence(reader, given["evidence"][level - 1])
    says["envelope"] = reader.take(given["duty_signature_bytes"]).hex()
    reader.end()
    return says


def read_block(data, given):
    layout, reader = Layout(given["layout"]), opened(data, "block", 4)
    start = reader.at
    says = {"slot": reader.number(8), "proposer": reader.below(4, layout.validators, "proposer"),
            "parent": reader.take(32).hex(), "body": reader.take(32).hex()}
    says["root"] = sha256(b"alphorn-block-v1", data[start : reader.at]).hex()
    says["signature"] = reader.take(given["duty_signature_bytes"]).hex()
    need("digest", sha256(b"alphorn-body-v1", data[reader.at :]).hex() == says["body"], "body of another header")
    entries, raw = [], 0
    for _ in range(reader.below(4, 2049, "entries")):
        entry = {"vote": vote(reader), "committee": reader.below(2, layout.committees, "committee")}
        entry["support"] = claims(reader, given, layout, (layout.levels, entry["committee"], 0))
        entry["evidence"] = "" if given["bundle"] else evidence(reader, given["evidence"][-1])
        count = max(1, int(max(entry["support"], default="0"), 16).bit_length())
        raw += 122 + count * ((len(entry["support"]) + 7) // 8) + len(entry["evidence"]) // 2
        need("length", raw <= CAPS["block"], "entries in raw planes")
        entries.append(entry)
    says["entries"] = entries
    says["bundle"] = evidence(reader, given["bundle"]) if given["bundle"] and entries else ""
    says["filler"] = reader.prefixed(CAPS["block"]).hex()
    reader.end()
    return says


# Coded broadcast

ORDER = 2**252 + 27742317777372353535851937790883648493


def coded_header(data, limit):
    reader = Reader(data)
    need("tag", reader.number(1) == 1, "version of a header")
    strategy = reader.number(1)
    need("tag", strategy in (1, 2), f"strategy {strategy}")
    says = {"strategy": ["rlnc", "rs"][strategy - 1], "kind": reader.number(1)}
    need("canonical", reader.number(1) == 0, "reserved byte")
    fields = [("slot", 8), ("source", 4), ("index", 4), ("len", 4), ("chunks", 2), ("shards_total", 2), ("generations", 2)]
    says.update({name: reader.number(size) for name, size in fields})
    need("canonical", reader.number(2) == 0, "reserved bytes")
    says.update({"unit": reader.number(4), "payload": reader.take(32).hex(), "commitments": reader.take(32).hex()})
    length, chunks, total, generations = (says[n] for n in ("len", "chunks", "shards_total", "generations"))
    need("range", 1 <= length <= min(limit, 32 << 20), f"payload of {length} bytes")
    if strategy == 1:
        need("range", 1 <= chunks <= 64 and total == 0 and 1 <= generations <= 16, "counts of a header")
        unit, bounds = -(-length // (31 * chunks * generations)), (1, 8192)
    else:
        need("range", 1 <= chunks <= 256 and chunks < total <= 1024 and generations == 1, "counts of a header")
        need("range", total & total - 1 == 0, f"{total} shards")
        unit, bounds = (-(-length // chunks) + 63) // 64 * 64, (64, 262144)
    need("canonical", says["unit"] == unit, f"unit {says['unit']}, must be {unit}")
    need("range", bounds[0] <= unit <= bounds[1], f"unit {unit}")
    return says


def shards(reader, total):
    data = reader.take((total + 7) // 8)
    need("length", int.from_bytes(data, "little") >> total == 0, "a shard that there is not")
    return [i for i, bit in enumerate(bits_of(data, total)) if bit]


def read_broadcast(data, given):
    need("length", len(data) <= 320 << 10, f"{len(data)} bytes")
    reader, known = Reader(data), coded_header(bytes.fromhex(given["header"]), given["payload_bytes_max"])
    tag, is_rlnc, network = reader.number(1), known["strategy"] == "rlnc", bytes.fromhex(given["network"])
    tags = {1: "header", 2: "commits", 3: "piece", 4: "piece", 5: "rank", 6: "done", 7: "need", 8: "ask"}
    need("tag", tag in tags and tag != (4 if is_rlnc else 3) and (is_rlnc or tag != 2), f"tag {tag}")
    says = {"message": tags[tag]}
    if tag == 1:
        header = reader.take(100)
        known = says["header"] = coded_header(header, given["payload_bytes_max"])
        says["id"] = sha256(b"alphorn/broadcast/v1\0", network, header).hex()
        size = reader.number(2)
        need("length", size <= given["auth_bytes_max"], f"authenticator of {size} bytes")
        says["auth"] = reader.take(size).hex()
    else:
        says["id"] = reader.take(32).hex()
    count = lambda n: (n - 1).bit_length()
    commitments = 32 * (known["chunks"] + count(known["generations"])) if is_rlnc else 0
    if tag == 1:
        says["commitments"] = reader.take(commitments if known["generations"] == 1 else 0).hex()
    elif tag == 2:
        says.update({"generation": reader.below(2, known["generations"], "generation"), "commitments": reader.take(commitments).hex()})
    elif tag == 3:
        says.update({"generation": reader.below(2, known["generations"], "generation"), "shard": None,
                     "hop": reader.number(1), "rank": reader.number(2)})
        start, width = reader.at, reader.number(1)
        need("tag", width in (1, 2, 3, 4, 6, 8, 16, 32), f"width {width}")
        row = [reader.below(width, ORDER, "coefficient") for _ in range(known["chunks"])]
        need("range", any(row), "a row of zeros")
        says["extra"] = data[start : reader.at].hex()
        start = reader.at
        [reader.below(32, ORDER, "element") for _ in range(known["unit"])]
        says["data"] = data[start : reader.at].hex()
    elif tag == 4:
        says.update({"generation": 0, "shard": reader.below(2, known["shards_total"], "shard"), "hop": reader.number(1),
                     "rank": reader.number(2), "extra": reader.take(32 * count(known["shards_total"])).hex()})
        says["data"] = reader.take(known["unit"]).hex()
    elif tag == 7:
        says["generation"] = reader.below(2, known["generations"], "generation")
        says.update({"count": reader.number(2)} if is_rlnc else {"shards": shards(reader, known["shards_total"])})
    elif tag == 5 and is_rlnc:
        says["ranks"] = [reader.below(2, known["chunks"] + 1, "rank") for _ in range(known["generations"])]
    elif tag == 5:
        says["shards"] = shards(reader, known["shards_total"])
    reader.end()
    return says


# Requests between nodes


def read_status(data, given):
    reader = Reader(data)
    says = {"network": reader.take(4).hex(), "slot": reader.number(8), "head_slot": reader.number(8),
            "head": reader.take(32).hex(), "finalised_slot": reader.number(8), "finalised": reader.take(32).hex(),
            "time_ms": reader.number(8)}
    reader.end()
    return says


def read_range(data, given):
    reader = Reader(data)
    says = {"from": reader.number(8), "count": reader.number(2)}
    reader.end()
    return says


def read_response(data, given):
    reader, chunks, code = Reader(data), [], 0
    while code == 0:
        code, length, at = reader.number(1), 0, 0
        while True:
            byte = reader.number(1)
            length |= (byte & 127) << 7 * at
            at += 1
            if byte < 128:
                break
            need("canonical", at < 4, "a length of more than four bytes")
        need("canonical", byte or at == 1, "a length that is longer than it must be")
        need("length", length <= given["chunk_bytes_max"], f"a chunk of {length} bytes")
        chunk = reader.take(length)
        if code == 0:
            chunks.append(chunk.hex())
    return {"code": code, "chunks": chunks}


# Keys and signatures of Falcon

FLAVOURS = {  # bits of a byte from the lowest on; bytes of a salt; largest coefficient
    "fndsa04": (True, 40, 840), "r3": (False, 40, 2047), "slot": (False, 0, 2047)}


def falcon_bits(data, lowest_first):
    return "".join(f"{byte:08b}"[::-1] if lowest_first else f"{byte:08b}" for byte in data)


def falcon_number(bits, lowest_first):
    return int(bits[::-1] if lowest_first else bits, 2)


def read_falcon_key(data, given):
    lowest_first, _, _ = FLAVOURS[given["flavour"]]
    need("length", len(data) == 897, f"{len(data)} bytes")
    need("tag", data[0] == 9, f"first byte {data[0]}")
    bits = falcon_bits(data[1:], lowest_first)
    numbers = [falcon_number(bits[i : i + 14], lowest_first) for i in range(0, len(bits), 14)]
    need("range", all(number < 12289 for number in numbers), "a number that is not below q")
    return {"numbers": numbers}


def read_falcon_secret(data, given):
    lowest_first, _, _ = FLAVOURS[given["flavour"]]
    digest = 64 if given["flavour"] == "fndsa04" else 0
    need("length", len(data) == 1281 + digest, f"{len(data)} bytes")
    need("tag", data[0] == 0x59, f"first byte {data[0]}")
    says = {}
    for name, begin, end, size in [("f", 1, 385, 6), ("g", 385, 769, 6), ("F", 769, 1281, 8)]:
        bits = falcon_bits(data[begin:end], lowest_first)
        numbers = [falcon_number(bits[i : i + size], lowest_first) for i in range(0, len(bits), size)]
        says[name] = [number - (number >> size - 1 << size) for number in numbers]
    return {**says, "digest": data[1281:].hex()}


def read_falcon_signature(data, given):
    lowest_first, salt, most = FLAVOURS[given["flavour"]]
    need("length", len(data) == 1 + salt + 625, f"{len(data)} bytes")
    need("tag", data[0] == 0x39, f"first byte {data[0]}")
    bits, at, s2 = falcon_bits(data[1 + salt :], lowest_first), 0, []
    for i in range(512):
        end = bits.find("1", at + 8)
        need("range", end >= 0, f"coefficient {i} is cut off")
        value = (end - at - 8) << 7 | falcon_number(bits[at + 1 : at + 8], lowest_first)
        need("range", value <= most, f"coefficient {i} of {value}, at most {most}")
        need("canonical", value > 0 or bits[at] == "0", f"coefficient {i} is a negative zero")
        s2.append(-value if bits[at] == "1" else value)
        at = end + 1
    need("canonical", "1" not in bits[at:], "bits behind the last coefficient")
    return {"salt": data[1 : 1 + salt].hex() if salt else None, "s2": s2}


# Keys, signatures, files and evidence of XMSS

P = 2**31 - 2**24 + 1
SETS = {  # elements of randomness, digest, parameter; chains, levels
    "prod": (7, 8, 5, 46, 32), "test": (7, 8, 5, 4, 8), "compact": (6, 4, 4, 42, 32)}
NAMES = {1: "prod", 2: "test", 3: "compact"}


def elements(reader, count):
    return [reader.below(4, P, "element") for _ in range(count)]


def packed(data, count):
    """Elements of 31 bits, the lowest bit first."""
    value = int.from_bytes(data, "little")
    found = [value >> 31 * i & 2**31 - 1 for i in range(count)]
    need("range", all(element < P for element in found), "an element that is not below p")
    need("canonical", value >> 31 * count == 0, "padding bits")
    return found


def rows(flat, width):
    return [flat[i : i + width] for i in range(0, len(flat), width)]


def read_public_key(data, given):
    _, digest, parameter, _, _ = SETS[given["set"]]
    need("length", len(data) == 4 * (digest + parameter), f"{len(data)} bytes")
    reader = Reader(data)
    says = {"root": elements(reader, digest), "parameter": elements(reader, parameter)}
    reader.end()
    return says


def read_signature(data, given):
    randomness, digest, _, chains, levels = SETS[given["set"]]
    counts = [randomness, chains * digest, levels * digest]
    if given["set"] == "compact":
        need("length", len(data) == (31 * sum(counts) + 7) // 8, f"{len(data)} bytes")
        flat = packed(data, sum(counts))
        rho, hashes, path = flat[: counts[0]], flat[counts[0] : -counts[2]], flat[-counts[2] :]
    else:
        need("length", len(data) == 12 + 4 * sum(counts), f"{len(data)} bytes")
        reader = Reader(data)
        first = reader.number(4)
        rho = elements(reader, randomness)
        offsets = [first, reader.number(4), reader.number(4)]
        want = [8 + 4 * randomness, 12 + 4 * randomness + 4 * counts[2], 4]
        need("canonical", offsets == want, f"offsets {offsets}, must be {want}")
        path, hashes = elements(reader, counts[2]), elements(reader, counts[1])
    return {"randomness": rho, "hashes": rows(hashes, digest), "path": rows(path, digest)}


def sealed(data, magic):
    """A file that begins with a magic and ends with the SHA-256 of all before."""
    need("tag", data[:4] == magic, f"does not begin with {magic}")
    need("digest", len(data) >= 36 and sha256(data[:-32]) == data[-32:], "checksum")
    reader = Reader(data[:-32])
    reader.take(4)
    return reader


def about_key(reader):
    number, purpose = reader.number(1), reader.number(1)
    need("tag", number in NAMES, f"set {number}")
    need("tag", purpose < 2, f"purpose {purpose}")
    first, end = reader.number(8), reader.number(8)
    lifetime = 2 ** SETS[NAMES[number]][4]
    need("range", first < end <= lifetime and end - first <= 2**28, f"indices {first} to {end}")
    return {"set": NAMES[number], "purpose": ["vote", "duty"][purpose], "first": first, "end": end}


def read_secret(data, given):
    reader = sealed(data, b"AXS1")
    says = {**about_key(reader), "seed": reader.take(32).hex()}
    reader.end()
    return says


def read_tree(data, given):
    reader = sealed(data, b"AXT1")
    says = about_key(reader)
    _, digest, parameter, _, _ = SETS[says["set"]]
    says["parameter"] = elements(reader, parameter)
    level = 0 if says["end"] - says["first"] <= 1024 else 8
    count = (says["end"] - 1 >> level) + 1 - (says["first"] >> level)
    says["nodes"] = rows(elements(reader, count * digest), digest)
    reader.end()
    return says


def read_marks(data, given):
    reader = sealed(data, b"AXW1")
    says = {"key": reader.take(32).hex(), "roles": []}
    for role in range(8):
        if role == 6 and reader.at == len(reader.data):
            # A file of the time when there were six.
            break
        numbers = {name: reader.number(8) for name in ("slot_next", "source_max", "target_max")}
        says["roles"].append({**numbers, "last": reader.take(32).hex()})
    reader.end()
    return says


def read_proof(data):
    """The header of a proof, and how many elements follow."""
    reader = Reader(data)
    need("tag", reader.take(4) == b"AHP3", "magic of a proof")
    relation, preset, large, kind, groups, children, level, flags = reader.take(8)
    need("tag", kind < 3 and preset in ((1, 2) if kind == 0 else (4,)), f"preset {preset}, kind {kind}")
    slices = list(reader.take(reader.number(2)))
    need("canonical", large == (len(slices) > 64), "class of slices")
    body = reader.prefixed(8 << 20)
    reader.end()
    count = len(body) * 8 // 31
    need("length", (31 * count + 7) // 8 == len(body), f"{len(body)} bytes are no whole elements")
    packed(body, count)
    says = {"relation": relation, "preset": {1: "fast", 2: "small", 4: "merge"}[preset],
            "kind": ["leaf", "merge", "bundle"][kind]}
    if kind:
        need("range", 1 <= children <= 7, f"{children} children")
        kinds = ["merge" if flags >> i & 1 else "bundle" if groups >> i & 1 else "leaf" for i in range(children)]
        says.update({"level": level, "children": kinds})
    else:
        need("canonical", children == level == flags == 0, "a leaf with children")
        says["groups"] = groups
    says.update({"slices": slices, "elements": count, "sha256": sha256(data).hex()})
    return says


def read_parts(reader, given):
    """Disjoint proofs that only together have room for all signers."""
    most, left, before, found = given["proof_signers_max"], set(range(given["registry"])), -1, []
    registry = [0, given["registry"]]
    for _ in range(-(-given["signers"] // most)):
        signers = {i for i, times in enumerate(support(reader, registry, 1, "rice", None)) if times}
        need("range", 0 < len(signers) <= most, f"{len(signers)} signers of a proof, at most {most}")
        need("canonical", min(signers) > before, "parts in another order")
        need("range", signers <= left, "a signer of two parts")
        left, before = left - signers, min(signers)
        bits = sum(1 << i for i in signers).to_bytes((given["registry"] + 7) // 8, "little")
        proof = read_proof(reader.prefixed(8 << 20))
        need("tag", proof["kind"] == "leaf", f"a {proof['kind']} as a part")
        found.append({**proof, "signers": bits.hex()})
    reader.end()
    signed = given["registry"] - len(left)
    need("range", signed == given["signers"], f"{signed} signers, must be {given['signers']}")
    return found


def read_evidence(data, given):
    randomness, digest, _, chains, levels = SETS[given["set"]]
    reader = Reader(data)
    tag = reader.number(1)
    if tag == 0:
        each = {"prod": 2536, "test": 424, "compact": 1171}[given["set"]]
        found = [reader.take(each).hex() for _ in range(given["signers"])]
        reader.end()
        return {"tag": 0, "signatures": found}
    if tag == 2:
        return {"tag": 2, "proofs": read_parts(reader, given)}
    need("tag", tag in (1, 3), f"evidence with tag {tag}")
    proof = read_proof(reader.data[1:])
    need("tag", (proof["kind"] == "merge") == (tag == 3), "a proof of another kind than its tag says")
    return {"tag": tag, "proofs": [proof]}


# Proofs over lattices

MODULUS_48 = 2**48 - 59
RATIOS = [4055731996, 4092883986, 4124388246, 4151067684, 4173635859, 4192708297, 4208813685, 4222404522]


def log2_sixteenths(x):
    """16 log2(x) from a mantissa of 32 bits, rounded down at each step."""
    whole = x.bit_length() - 1
    mantissa, fraction = (x << 31) >> whole, 0
    for _ in range(4):
        mantissa = mantissa * mantissa >> 31
        fraction = 2 * fraction + (mantissa >> 32)
        mantissa >>= mantissa >> 32
    return 16 * whole + fraction


class GaussianCode:
    """Chapter: Proofs over lattices. Symbol s is the high part s - 40, symbol 80 the escape."""

    def __init__(self, variance):
        sixteenths = log2_sixteenths(max(variance, 16))
        self.low_bits, ratio = sixteenths // 32 - 2, RATIOS[sixteenths % 32 // 4]
        weights, weight, quotient = [1 << 20] * 81, 1 << 40, 1 << 32
        for high in range(40):
            weights[40 + high] = weights[39 - high] = max(weight, 1 << 20)
            quotient = quotient * ratio >> 32
            weight = weight * quotient >> 32
        nodes, lengths = [(weight, [symbol]) for symbol, weight in enumerate(weights)], [0] * 81
        while len(nodes) > 1:
            pair = [nodes.pop(min(range(len(nodes)), key=lambda i: nodes[i][0])) for _ in range(2)]
            for symbol in pair[0][1] + pair[1][1]:
                lengths[symbol] += 1
            nodes.append((pair[0][0] + pair[1][0], pair[0][1] + pair[1][1]))
        word, before, self.words = 0, 0, {}
        for length, symbol in sorted((length, symbol) for symbol, length in enumerate(lengths)):
            word <<= length - before
            self.words[length, word] = symbol
            word, before = word + 1, length

    def read(self, bits):
        low, length, word = bits.read(self.low_bits), 0, 0
        while (length, word) not in self.words:
            word, length = word << 1 | bits.read(1), length + 1
            need("canonical", length <= 40, "no code word")
        high = self.words[length, word] - 40
        if high == 40:
            high = bits.read(48)
            high -= high >> 47 << 48
            need("canonical", not -40 <= high < 40, f"high part {high} has a word of its own")
            need("canonical", abs(high) < 1 << max(60 - self.low_bits, 0), f"high part {high}")
        return (high << self.low_bits) + low


def read_falcon_evidence(data, given):
    """The proof is read with its parameters: read_lattice_proof."""
    reader, (salt, each) = Reader(data), {"fndsa04": (40, 666), "r3": (40, 666), "slot": (0, 626)}[given["flavour"]]
    tag = reader.number(1)
    need("tag", tag < 2, f"evidence with tag {tag}")
    if tag == 0:
        found = [reader.take(each).hex() for _ in range(given["signers"])]
        reader.end()
        return {"tag": 0, "signatures": found}
    salts = [reader.take(salt).hex() for _ in range(given["signers"] if salt else 0)]
    proof = reader.data[reader.at :]
    need("tag", proof[:6] == b"ALPR\x03\x05", "magic, version or front end of a proof")
    return {"tag": 1, "salts": salts, "proof": {"bytes": len(proof), "sha256": sha256(proof).hex()}}


class Window:
    """Bits of the bytes from a place on, the lowest first."""

    def __init__(self, data):
        self.data, self.at = data, 0

    def read(self, count):
        need("length", self.at + count <= 8 * len(self.data), "ends within a number")
        first, self.at = self.at // 8, self.at + count
        part = int.from_bytes(self.data[first : (self.at + 7) // 8], "little")
        return part >> (self.at - count - 8 * first) & (1 << count) - 1


def read_lattice_proof(data, given):
    reader, fields = Reader(data), []
    need("length", 7 <= len(data) <= 1 << 20, f"{len(data)} bytes")
    need("tag", reader.take(5) == b"ALPR\x03" and reader.take(1) == b"\x05", "magic, version or front end")
    need("tag", reader.number(1) == {"core128": 0, "falcon": 1, "peer": 2}[given["profile"]], "profile")

    def note(field, numbers):
        packed = b"".join(x.to_bytes(8, "little", signed=True) for x in numbers)
        fields.append([field, len(numbers), sha256(packed).hex()])

    def byte(field):
        note(field, [reader.number(1)])

    def residues(field, count):
        numbers = [int.from_bytes(x, "little") for x in rows(reader.take(6 * count), 6)]
        need("canonical", max(numbers) < MODULUS_48, "a coefficient that is not below Q")
        note(field, numbers)

    def gaussian(field, count, variance):
        code, bits = GaussianCode(int(variance)), Window(data[reader.at :])
        numbers = [code.read(bits) for _ in range(count)]
        need("canonical", bits.read(-bits.at % 8) == 0, "bits behind the last number")
        reader.take(bits.at // 8)
        note(field, numbers)

    *levels, last = given["levels"]
    for number, level in enumerate(levels):
        if level["blocks"]:
            residues("u0", 64 * level["kappa1"])
            byte("blocks nonce")
        residues("u1", 64 * level["kappa1"])
        for variance in level["projection_variances"]:
            byte("projection nonce")
            gaussian("projection", 256 * level["parts"], variance)
        if number == 0:
            for coefficients in 6 * [2] + (5 + (given["n"] - 1).bit_length()) * [3]:
                residues("round", 3 * coefficients)
            residues("value", 3)
        residues("lifts", 3 * 63)
        residues("u2", 64 * level["kappa1"])
        byte("challenge nonce")
    residues("t", 64 * last["kappa"] * last["r"])
    byte("projection nonce")
    gaussian("projection", 256 * last["parts"], last["projection_variances"][0])
    residues("lifts", 3 * 63)
    byte("challenge nonce")
    residues("h", 64 * (2 * last["r"] - 1))
    gaussian("z", 64 * last["n"], last["z_variance"])
    reader.end()
    return {"front_end": 5, "fields": fields}


FORMATS = {
    "support": read_support, "vote": read_vote, "aggregate": read_aggregate, "block": read_block,
    "broadcast": read_broadcast, "status": read_status, "blocks_by_range": read_range, "response": read_response,
    "falcon_public_key": read_falcon_key, "falcon_secret_key": read_falcon_secret,
    "falcon_signature": read_falcon_signature, "lattice_proof": read_lattice_proof,
    "falcon_evidence": read_falcon_evidence,
    "xmss_public_key": read_public_key, "xmss_signature": read_signature, "xmss_secret_file": read_secret,
    "xmss_tree_file": read_tree, "marks_file": read_marks, "xmss_evidence": read_evidence,
    "xmss_bundle": lambda data, given: read_proof(data),
}


def check(vector):
    """What is wrong with a vector, or none."""
    try:
        says = FORMATS[vector["format"]](bytes.fromhex(vector["bytes"]), vector["given"])
    except Refused as refused:
        wanted = vector.get("refused")
        return None if refused.code == wanted else f"refused with {refused}, not {wanted}"
    if "refused" in vector:
        return f"read, and not refused with {vector['refused']}"
    return None if says == vector["says"] else f"says {says}"


def vectors(path):
    with open(path) as file:
        content = json.load(file)
    given = content.get("given", {})
    for vector in content["vectors"]:
        if isinstance(vector["given"], str):
            vector["given"] = given[vector["given"]]
    return content["vectors"]


def main(arguments):
    path = pathlib.Path(arguments[0])
    if len(arguments) > 1:
        vector = vectors(path)[int(arguments[1])]
        says = FORMATS[vector["format"]](bytes.fromhex(vector["bytes"]), vector["given"])
        print(json.dumps(says, indent=1))
        return 0
    wrong = read = refused = 0
    for file in sorted(path.glob("*.json")) if path.is_dir() else [path]:
        for vector in vectors(file):
            problem = check(vector)
            if problem:
                wrong += 1
                print(f"{file}: {vector['name']}: {problem}")
            read += "says" in vector
            refused += "refused" in vector
    print(f"{read} vectors read, {refused} refused, {wrong} wrong")
    return 1 if wrong or not read or not refused else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
