"""Each operation as a user has it, and the answers to wrong arguments. Run by tests/check.sh."""

import json
import os
import stat
import tempfile
import threading
import unittest
from pathlib import Path

import numpy as np

import alphorn
from alphorn import Collection, Committees, Registry, bls, broadcast, proofs, xmss

MESSAGE = bytes(range(32))


class TestCommittees(unittest.TestCase):
    def setUp(self):
        secrets = [bls.interop_secret_key(i) for i in range(12)]
        self.keys = np.array([list(bls.public_key(s)) for s in secrets], dtype=np.uint8)
        self.proofs = [bls.pop_prove(s) for s in secrets]
        self.votes = [bls.sign(s, b"head") for s in secrets]

    def test_collections_have_each_a_verdict(self):
        registry = Registry(self.keys, self.proofs)
        self.assertEqual((len(registry), len(registry.digest)), (12, 32))
        committees = Committees(registry, [8, 4])
        multiplicities = [0, 1, 0, 3, 0, 0, 1, 0]
        signed = [vote for vote, times in zip(self.votes, multiplicities) for _ in range(times)]
        signers = alphorn.pack(multiplicities)
        self.assertEqual(len(signers), 2)
        good = Collection(0, signers, b"head", bls.aggregate(signed))
        items = [
            good,
            good._replace(message=b"tail"),
            good._replace(signers=alphorn.pack([False] * 8)),
            good._replace(committee=2),
            good._replace(signature=np.zeros(96, dtype=np.uint8)),
        ]
        verdicts = committees.verify(items)
        self.assertEqual((verdicts.dtype, verdicts.tolist()), (np.uint8, [0, 4, 3, 1, 2]))
        self.assertTrue(verdicts.flags.writeable)
        self.assertEqual(len(alphorn.VERDICTS), 5)
        self.assertTrue(bls.verify(committees.sum(0, signers), b"head", good.signature))

    def test_wrong_arguments_are_named(self):
        with self.assertRaises(ValueError) as caught:
            Registry(self.keys[:, :47].copy(), self.proofs)
        self.assertIn("must be (n, 48)", str(caught.exception))
        with self.assertRaises(alphorn.Error) as caught:
            Registry(self.keys.tobytes()[1:], self.proofs)
        self.assertEqual(caught.exception.code, "argument")
        self.assertIn("must be a multiple of 48", str(caught.exception))
        # Two that have the right length together would stand at other places.
        shifted = [b"", self.keys[:2].tobytes(), *self.keys[2:]]
        with self.assertRaises(ValueError) as caught:
            Registry.proven(shifted)
        self.assertEqual(str(caught.exception), "length of keys[0] = 0 bytes, must be 48")
        with self.assertRaises(alphorn.Error) as caught:
            Registry(self.keys, self.proofs[1:] + self.proofs[:1])
        self.assertEqual(caught.exception.code, "invalid")
        with self.assertRaises(TypeError):
            Registry(self.keys.astype(np.int64), self.proofs)
        with self.assertRaises(TypeError):
            Registry.proven("text")
        with self.assertRaises(ValueError):
            alphorn.pack([16])
        for fractions in ([0.5, 1.0], np.ones(3), ["1"]):
            with self.assertRaises(TypeError):
                alphorn.pack(fractions)
        self.assertEqual(alphorn.pack([]), b"")
        with self.assertRaises(alphorn.Error):
            alphorn.Context(100_000)

    def test_threads_share_committees_while_the_interpreter_is_free(self):
        committees = Committees(Registry.proven(self.keys), [12])
        good = Collection(0, alphorn.pack([1] * 12), b"head", bls.aggregate(self.votes))
        found = []
        work = lambda: found.extend(committees.verify([good] * 3).tolist())
        threads = [threading.Thread(target=work) for _ in range(4)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        self.assertEqual(found, [0] * 12)


class TestXmss(unittest.TestCase):
    def test_a_permit_is_used_once_and_proofs_merge(self):
        keys, signatures = [], []
        with tempfile.TemporaryDirectory() as folder:
            for validator in range(4):
                key = xmss.Key.interop(validator, range(5, 7))
                with xmss.Marks.create(Path(folder) / str(validator), key) as marks:
                    permit = marks.reserve(5, MESSAGE)
                    self.assertEqual(marks.slot_next(), 6)
                    with self.assertRaises(alphorn.Error) as caught:
                        marks.reserve(5, bytes(32))
                    self.assertEqual(caught.exception.code, "refused")
                with self.assertRaises(alphorn.Error):
                    marks.reserve(6, MESSAGE)
                signatures.append(key.sign(permit))
                keys.append(key.public_key)
                with self.assertRaises(alphorn.Error) as caught:
                    key.sign(permit)
                self.assertEqual(str(caught.exception), "the permit was used")
        again = xmss.Key.from_files(key.secret_file(), key.tree_file())
        self.assertEqual((again.public_key, again.slots), (keys[3], range(5, 7)))
        self.assertEqual(len(keys[0]), xmss.public_key_bytes("compact"))
        changed = signatures[:3] + [bytes(len(signatures[0]))]
        holds = xmss.verify(keys, np.array([5, 5, 6, 5]), [MESSAGE] * 4, changed)
        self.assertEqual((holds.dtype, holds.tolist()), (np.bool_, [True, True, False, False]))
        with self.assertRaises(alphorn.Error):
            xmss.verify(keys, [5], [MESSAGE] * 4, signatures)
        cut = [signatures[0] + signatures[1][:1], signatures[1][1:], signatures[2], b""]
        holds = xmss.verify(keys, [5] * 4, [MESSAGE] * 4, cut)
        self.assertEqual(holds.tolist(), [False, False, True, False])

        members, steps = proofs.Members(keys), []
        first = members.prove(5, MESSAGE, [0, 2], [signatures[0], signatures[2]], steps.append)
        self.assertGreater(len(steps), 3)
        second = members.prove(5, MESSAGE, [3], signatures[3])
        merged = members.merge(
            5, MESSAGE, [(alphorn.pack([1, 0, 1, 0]), first), (alphorn.pack([0, 0, 0, 1]), second)]
        )
        self.assertTrue(members.verify(5, MESSAGE, alphorn.pack([1, 0, 1, 1]), merged))
        self.assertFalse(members.verify(5, MESSAGE, alphorn.pack([1, 0, 1, 0]), merged))
        self.assertFalse(members.verify(5, MESSAGE, alphorn.pack([1, 0, 1, 1]), merged[:-1]))
        with self.assertRaises(alphorn.Error):
            members.verify(5, MESSAGE, b"", merged)
        with self.assertRaises(alphorn.Error) as caught:
            members.prove(5, MESSAGE, [3], signatures[3], lambda name: name != "witness")
        self.assertEqual(caught.exception.code, "stopped")

        def fails(name):
            raise KeyError(name)

        with self.assertRaises(KeyError):
            members.prove(5, MESSAGE, [3], signatures[3], fails)


class TestBroadcast(unittest.TestCase):
    def test_a_payload_comes_back_under_both_codes(self):
        payload = np.arange(20_000, dtype=np.uint32).astype(np.uint8)
        for code in ["rlnc", "reed-solomon"]:
            source = broadcast.Broadcast.publish(payload, code, slot=7)
            node = broadcast.Broadcast.receive(source.header, 1 << 20)
            for generation in range(source.commitment_lists):
                node.add_commitments(generation, source.commitments(generation))
            count = 0
            while not node.is_full:
                self.assertTrue(node.add(source.piece(count % source.selectors)))
                count += 1
            self.assertEqual(node.payload(), payload.tobytes())
            with self.assertRaises(alphorn.Error) as caught:
                node.add(b"xyz")
            self.assertEqual(caught.exception.code, "decode")
            self.assertEqual(len(source.signing_root(bytes(32))), 32)


class TestProgram(unittest.TestCase):
    """What the program says becomes a table. The program is a stand-in here; docs/bindings.md runs the real one."""

    def say(self, folder, report, code=0):
        path = Path(folder) / "alphorn"
        path.write_text(f"#!/bin/sh\necho \"$@\" > {folder}/arguments\ncat {folder}/report\nexit {code}\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        (Path(folder) / "report").write_text(json.dumps(report))
        os.environ["ALPHORN"] = str(path)
        self.addCleanup(os.environ.pop, "ALPHORN", None)

    def test_reports_become_tables(self):
        with tempfile.TemporaryDirectory() as folder:
            times = [{"threads": 1, "verify_ms": 2.0}, {"threads": 2, "verify_ms": 1.0}]
            case = {"form": "bls sum", "votes": 64, "times": times}
            self.say(folder, {"machine": {"cpu": "x"}, "cases": [case], "million": []})
            table = alphorn.compare([64], ["bls"])
            self.assertEqual(table["verify_ms"].tolist(), [2.0, 1.0])
            self.assertEqual(table.attrs["machine"], {"cpu": "x"})
            arguments = (Path(folder) / "arguments").read_text()
            self.assertEqual(arguments, "compare --validators 64 --scheme bls --json -\n")
            self.say(folder, {"machine": {}, "t99_ms": 3, "votes": {"cast": 1}})
            table = alphorn.sim.run("horn", {"sim.nodes": 20, "protocol.bundled": True}, range(1, 4))
            self.assertEqual(table.loc[0, "votes.cast"], 1)
            arguments = (Path(folder) / "arguments").read_text()
            self.assertEqual(arguments, "sim run horn --set sim.nodes=20 --set protocol.bundled=true --seeds 1..3 --json -\n")
            cases = [{"scheme": "bls", "slot": {"votes": 9}, "why": None}, {"scheme": "falcon", "slot": None, "why": "late"}]
            self.say(folder, {"config": {"nodes": 64}, "cases": cases})
            table = alphorn.explore(512, 64, ["bls", "falcon"])
            self.assertEqual(table.loc[0, "slot.votes"], 9)
            self.assertEqual(table.loc[1, "why"], "late")
            self.assertEqual(table.attrs["config"], {"nodes": 64})
            arguments = (Path(folder) / "arguments").read_text()
            self.assertEqual(arguments, "explore --validators 512 --nodes 64 --scheme bls,falcon --json -\n")
            self.say(folder, {}, code=2)
            with self.assertRaisesRegex(RuntimeError, "exit code 2"):
                alphorn.compare()


if __name__ == "__main__":
    unittest.main()
