#!/usr/bin/env python3
"""Does the runs of a plan on many machines by Dask, or on this one by processes.

    alphorn sim plan broadcast-20 --out plan.jsonl
    python3 tools/sweep_dask.py plan.jsonl sweep --local 4
    python3 tools/sweep_dask.py plan.jsonl sweep --dask 4
    python3 tools/sweep_dask.py plan.jsonl sweep --scheduler tcp://10.0.0.1:8786
    alphorn sim merge sweep

Each run is `alphorn sim run --plan PLAN --index I --out DIR`, one thread each. Runs whose folder is there
are not done again, a run that is lost with its machine is tried again, and a run that does not hold
(exit code 1) is a result, not an error. With Dask the plan travels with the task; a worker needs the
program alone, of the commit that made the plan, and its folder comes back as an archive.
"""

import argparse
import base64
import concurrent.futures
import contextlib
import io
import json
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile

# A lost machine or a full disk, not the run itself: the run may succeed elsewhere.
TRIES = 3


def read_plan(path):
    """The lines of the runs, after the first line that they share."""
    lines = pathlib.Path(path).read_text(encoding="utf-8").splitlines()
    head = json.loads(lines[0])
    runs = [json.loads(line) for line in lines[1:]]
    if head["runs"] != len(runs):
        sys.exit(f"{path}: {head['runs']} runs are announced, {len(runs)} follow")
    return runs


def place(out, run):
    """The folder of a run, named by the begin of its identity."""
    return pathlib.Path(out) / "runs" / run["id"][:16]


def is_done(out, run):
    """Whether its folder is there; folders appear as a whole or not at all."""
    try:
        manifest = json.loads((place(out, run) / "manifest.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return manifest.get("id") == run["id"]


def call(program, plan, index, out):
    """Does one run; raises if there is no result."""
    command = [program, "sim", "run", "--plan", str(plan), "--index", str(index)]
    command += ["--jobs", "1", "--out", str(out)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode not in (0, 1):
        raise RuntimeError(f"run {index}: exit code {result.returncode}: {result.stderr.strip()}")
    return result.returncode == 0


def call_remote(program, plan_text, run):
    """Does one run on a worker; gives back its folder as an archive in base64."""
    with tempfile.TemporaryDirectory() as folder:
        plan = pathlib.Path(folder) / "plan.jsonl"
        plan.write_text(plan_text, encoding="utf-8")
        holds = call(program, plan, run["index"], folder)
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
            archive.add(place(folder, run), arcname=".")
        return holds, base64.b64encode(buffer.getvalue()).decode()


def unpack(out, run, archive):
    """Puts the folder of a run to its place, as a whole."""
    target = place(out, run)
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".alphorn-", dir=target.parent) as folder:
        new = pathlib.Path(folder) / "run"
        with tarfile.open(fileobj=io.BytesIO(base64.b64decode(archive))) as packed:
            packed.extractall(new, filter="data")
        if target.exists():
            shutil.rmtree(target)
        new.rename(target)


def local(args, runs):
    """Does runs in processes of this machine; yields each run and whether it holds."""
    with concurrent.futures.ProcessPoolExecutor(args.local) as pool:
        futures = {
            pool.submit(call, args.program, args.plan, run["index"], args.out): run
            for run in runs
        }
        for future in concurrent.futures.as_completed(futures):
            yield futures[future], future.result()


def remote(args, runs):
    """Does runs on the workers of a Dask scheduler, or on workers of this machine."""
    from dask.distributed import Client, LocalCluster, as_completed

    with contextlib.ExitStack() as stack:
        where = args.scheduler
        if args.dask:
            # One run is one thread.
            where = stack.enter_context(
                LocalCluster(n_workers=args.dask, threads_per_worker=1, dashboard_address=None)
            )
        client = stack.enter_context(Client(where))
        plan = client.scatter(pathlib.Path(args.plan).read_text(encoding="utf-8"), broadcast=True)
        futures = {
            client.submit(call_remote, args.program, plan, run, retries=TRIES, pure=False): run
            for run in runs
        }
        for future in as_completed(futures):
            run = futures[future]
            holds, archive = future.result()
            unpack(args.out, run, archive)
            future.release()
            yield run, holds


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("plan", help="file written by: alphorn sim plan")
    parser.add_argument("out", help="folder of the sweep")
    parser.add_argument("--program", default="alphorn", help="the program, also on the workers")
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--local", type=int, metavar="N", help="processes on this machine")
    where.add_argument("--dask", type=int, metavar="N", help="workers of Dask on this machine")
    where.add_argument("--scheduler", metavar="ADDRESS", help="of Dask, as tcp://host:8786")
    args = parser.parse_args()
    runs = read_plan(args.plan)
    left = [run for run in runs if not is_done(args.out, run)]
    print(f"{len(runs)} runs, {len(runs) - len(left)} are done", file=sys.stderr)
    failed = 0
    does = local if args.local else remote
    for done, (run, holds) in enumerate(does(args, left) if left else (), start=1):
        failed += not holds
        print(f"{done} of {len(left)}: run {run['index']}{'' if holds else ' does not hold'}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
