#!/usr/bin/env python3
"""A client of `alphorn worker` with nothing but the standard library.

    alphorn worker --listen 127.0.0.1:5062 &
    python3 client.py http://127.0.0.1:5062 keys/public-keys.json votes/*.json --out proof.bin

It uploads the keys of a committee, has the signatures checked one by one, has each half of them proved
while it follows the progress, merges the two proofs, has the result verified, and writes it to a file.
Bodies are SSZ but for one in JSON: both say the same.
"""

import argparse
import hashlib
import http.client
import json
import struct
import sys
import urllib.parse

SETS = {"xmss-test": ("test", 2), "xmss-prod": ("prod", 1), "xmss-compact": ("compact", 3)}


def unhex(text):
    return bytes.fromhex(text.removeprefix("0x"))


def bitlist(positions, length):
    """SSZ Bitlist: the bits, and one more that says how many there are."""
    bits = bytearray(length // 8 + 1)
    for position in list(positions) + [length]:
        bits[position // 8] |= 1 << position % 8
    return bytes(bits)


def votes_ssz(registry, slot, message, positions, length, signatures):
    bits = bitlist(positions, length)
    fixed = registry + struct.pack("<Q", slot) + message + struct.pack("<II", 80, 80 + len(bits))
    return fixed + bits + b"".join(signatures)


def entries_ssz(entries, length):
    """entries: (registry, slot, message, positions, proof)."""
    blobs = []
    for registry, slot, message, positions, proof in entries:
        bits = bitlist(positions, length)
        head = registry + struct.pack("<Q", slot) + message + struct.pack("<I", 76)
        blobs.append(head + struct.pack("<II", 8, 8 + len(bits)) + bits + proof)
    offsets, at = b"", 4 * len(blobs)
    for blob in blobs:
        offsets += struct.pack("<I", at)
        at += len(blob)
    return struct.pack("<I", 4) + offsets + b"".join(blobs)


class Worker:
    def __init__(self, url, token=None):
        self.address = urllib.parse.urlsplit(url).netloc
        self.headers = {"Authorization": f"Bearer {token}"} if token else {}

    def open(self, method, path, body=None, media="application/octet-stream"):
        connection = http.client.HTTPConnection(self.address, timeout=60)
        headers = dict(self.headers)
        if body is not None:
            headers["Content-Type"] = media
        connection.request(method, path, body, headers)
        return connection.getresponse()

    def ask(self, method, path, body=None, media="application/octet-stream", want=(200, 201, 202)):
        answer = self.open(method, path, body, media)
        content = answer.read()
        if answer.status not in want:
            raise SystemExit(f"{method} {path}: {answer.status} {content.decode(errors='replace')}")
        is_json = answer.getheader("Content-Type", "").startswith("application/json")
        return json.loads(content) if is_json else content

    def follow(self, job):
        """Prints the states of a job until it has ended, and returns the last one."""
        answer = self.open("GET", f"/worker/v1/jobs/{job}/events")
        kind = None
        for line in answer:
            name, _, value = line.decode().rstrip("\n").partition(": ")
            if name == "event":
                kind = value
            elif name == "data" and kind in ("queued", "running", "progress", "ended"):
                state = json.loads(value)
                print(f"{kind}: {state.get('running_ms', 0)} of about {state.get('predicted_ms', 0)} ms")
                if kind == "ended":
                    return state
        raise SystemExit("the stream of events ended before the job")


def proved(worker, state):
    if state["state"] != "done":
        raise SystemExit(f"no proof: {json.dumps(state)}")
    proof = worker.ask("GET", f"/worker/v1/jobs/{state['id']}/proof")
    if hashlib.sha256(proof).hexdigest() != state["proof_sha256"].removeprefix("0x"):
        raise SystemExit("the proof is not the one that was announced")
    return proof


def read(keys_file, vote_files):
    with open(keys_file) as file:
        document = json.load(file)
    keys = [unhex(entry["public_key"]) for entry in document["keys"]]
    votes = {}
    for name in vote_files:
        with open(name) as file:
            vote = json.load(file)
        votes[keys.index(unhex(vote["public_key"]))] = vote
    return document["scheme"], keys, votes


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("url")
    parser.add_argument("keys")
    parser.add_argument("votes", nargs="+")
    parser.add_argument("--out", required=True)
    parser.add_argument("--token-file", help="a file with the token alone")
    options = parser.parse_args()
    token = None
    if options.token_file:
        with open(options.token_file) as file:
            token = file.read().strip()
    worker = Worker(options.url, token)
    scheme, keys, votes = read(options.keys, options.votes)
    name, number = SETS[scheme]
    about = worker.ask("GET", "/worker/v1")
    if name not in [one["set"] for one in about["sets"]]:
        raise SystemExit(f"this worker does not serve the set {name}")

    # The digest can be known before: a client that has uploaded a registry need not do so again.
    everything = b"".join(keys)
    digest = hashlib.sha256(b"alphorn-registry-1" + struct.pack("<BI", number, 0) + everything)
    registry = worker.ask("POST", f"/worker/v1/registries?set={name}", everything)
    if unhex(registry["digest"]) != digest.digest():
        raise SystemExit("the worker has other keys")
    registry = digest.digest()

    positions = sorted(votes)
    slot, message = votes[positions[0]]["slot"], unhex(votes[positions[0]]["message"])
    signatures = [unhex(votes[position]["signature"]) for position in positions]
    body = votes_ssz(registry, slot, message, positions, len(keys), signatures)
    checked = worker.ask("POST", "/worker/v1/jobs/verify-signatures?wait_ms=20000&priority=verdict", body)
    if checked["state"] != "done":
        raise SystemExit(f"not checked: {json.dumps(checked)}")
    for index, reason in zip(checked["bad"], checked["reasons"]):
        print(f"signature {index}, of position {positions[index]}: {reason}")
    if checked["bad"]:
        return 1

    # Two aggregators, each with its half; both are jobs of one session, which one call would cancel.
    half = (len(positions) + 1) // 2
    jobs = []
    for part in (slice(None, half), slice(half, None)):
        body = votes_ssz(registry, slot, message, positions[part], len(keys), signatures[part])
        session = f"session=slot-{slot}&soft_ms=60000&hard_ms=300000"
        jobs.append(worker.ask("POST", f"/worker/v1/jobs/prove?{session}", body))
    proofs = [proved(worker, worker.follow(job["id"])) for job in jobs]

    # The same in JSON.
    common = {"registry": "0x" + registry.hex(), "slot": slot, "message": "0x" + message.hex()}
    entries = [
        {**common, "participants": positions[:half], "proof_data": "0x" + proofs[0].hex()},
        {**common, "participants": positions[half:], "proof_data": "0x" + proofs[1].hex()},
    ]
    body = json.dumps({"entries": entries}).encode()
    job = worker.ask("POST", "/worker/v1/jobs/merge", body, "application/json")
    merged = proved(worker, worker.follow(job["id"]))

    # What anybody asks who gets the proof, and one who gets another one.
    entry = (registry, slot, message, positions, merged)
    broken = bytearray(merged)
    broken[len(broken) // 2] ^= 1
    body = entries_ssz([entry, entry[:4] + (bytes(broken),)], len(keys))
    verdicts = worker.ask("POST", "/worker/v1/jobs/verify?wait_ms=20000", body)
    print(f"verified: {verdicts['valid']}, {verdicts['reasons'][1]}")
    if verdicts["valid"] != [True, False]:
        return 1

    with open(options.out, "wb") as file:
        file.write(merged)
    print(f"{len(positions)} signatures in {len(merged)} bytes: {options.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
