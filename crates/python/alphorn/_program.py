"""Runs the program `alphorn` and reads its reports: the figures of Python are those of the command line."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd


def report(*arguments: str) -> dict[str, Any]:
    """The JSON report of a command.

    The program is the one that the environment's ALPHORN names, or the one in the path. Raises FileNotFoundError
    without one, and RuntimeError with what it said if it fails.
    """
    program = os.environ.get("ALPHORN") or shutil.which("alphorn")
    if program is None:
        raise FileNotFoundError(
            "the program alphorn is not in the path: cargo install --path crates/cli, or ALPHORN=FILE"
        )
    command = [program, *arguments, "--json", "-"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: exit code {done.returncode}\n{done.stderr}")
    read: dict[str, Any] = json.loads(done.stdout)
    return read


def frame(rows: list[dict[str, Any]], about: dict[str, Any]) -> pd.DataFrame:
    """Rows as a table; what is nested has names with dots, and `attrs` says what the rows are of."""
    import pandas as pd

    table = pd.json_normalize(rows)
    table.attrs.update(about)
    return table


def compare(
    validators: Sequence[int] = (1024,), schemes: Sequence[str] = ("bls", "falcon", "xmss")
) -> pd.DataFrame:
    """The schemes side by side on the same votes: `alphorn compare`, a row for each form, size and thread count.

    Measured on this machine, which `attrs["machine"]` describes; `attrs["million"]` has the rows that are modelled
    from it. Needs pandas.
    """
    sizes = ",".join(str(int(size)) for size in validators)
    whole = report("compare", "--validators", sizes, "--scheme", ",".join(schemes))
    rows: list[dict[str, Any]] = []
    for case in whole.pop("cases"):
        rows.extend({**case, **times} for times in case.pop("times"))
    return frame(rows, whole)


def explore(
    validators: int | None = None,
    nodes: int | None = None,
    schemes: Sequence[str] = (),
    topologies: Sequence[str] = (),
) -> pd.DataFrame:
    """Schemes and topologies in a simulated network: `alphorn explore`, a row for each point; modelled, not measured.

    What is not given is as on the command line. A point that does not do its work says `why`. Needs pandas.
    """
    arguments = ["explore"]
    for option, value in (("--validators", validators), ("--nodes", nodes)):
        if value is not None:
            arguments += [option, str(int(value))]
    for option, names in (("--scheme", schemes), ("--topology", topologies)):
        if names:
            arguments += [option, ",".join(names)]
    whole = report(*arguments)
    return frame(whole.pop("cases"), whole)
