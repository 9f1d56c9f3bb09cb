"""The simulator of networks: `alphorn sim`, in the program."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Union

from . import _program

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["run"]


def run(
    scenario: Union[str, os.PathLike[str]],
    set: Mapping[str, Any] | None = None,
    seeds: range | None = None,
    jobs: int | None = None,
) -> pd.DataFrame:
    """Runs a scenario: the path of a file, or the name of a preset. A row for each run; modelled, not measured.

    `set` replaces values, as {"traffic.bytes": 1000000}; `seeds` those of the scenario; `jobs` are threads. What a run
    yields in lists (its loads by class, for instance) stays in its cell. Needs pandas.
    """
    arguments = ["sim", "run", os.fspath(scenario)]
    for key, value in (set or {}).items():
        # A scenario is TOML.
        text = str(value).lower() if isinstance(value, bool) else value
        arguments += ["--set", f"{key}={text}"]
    if seeds is not None:
        if seeds.step != 1 or not seeds:
            raise ValueError(f"{seeds} is empty or has a step")
        arguments += ["--seeds", f"{seeds[0]}..{seeds[-1]}"]
    if jobs is not None:
        arguments += ["--jobs", str(jobs)]
    whole = _program.report(*arguments)
    return _program.frame(whole.pop("cases", None) or [whole], {"machine": whole.get("machine")})
