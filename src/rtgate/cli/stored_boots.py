# SPDX-License-Identifier: MIT
"""Boots of a history as the commands about it take them: runs that are there, and boots like the one stored last."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from rtgate.errors import ConfigError
from rtgate.history.queries import Boot
from rtgate.report.notices import say


def run_names(text: str) -> tuple[str, ...]:
    """Read the value of an option such as `--runs night-1,night-2`."""
    return tuple(filter(None, text.split(",")))


def require_runs(option: str, names: Iterable[str], runs: Iterable[str]) -> None:
    """Refuse runs without boots. Raises ConfigError, naming the option."""
    known_names = set(runs)
    unknown_names = [name for name in names if name not in known_names]
    if unknown_names:
        allowed = f" (allowed: {', '.join(sorted(known_names))})" if known_names else ""
        raise ConfigError(f"{option}: no good boots of {', '.join(unknown_names)}{allowed}: see rtgate history list")


def by_case(boots: Iterable[Boot]) -> Mapping[str, Sequence[Boot]]:
    """Return the boots of each case, in the order of the cases' names."""
    cases: defaultdict[str, list[Boot]] = defaultdict(list)
    for boot in boots:
        cases[boot.case].append(boot)
    return dict(sorted(cases.items()))


def of_newest_environment(boots: Sequence[Boot]) -> list[Boot]:
    """Return the boots of a case that may be compared with the one that was stored last; say how many are left out."""
    same = [boot for boot in boots if boot.comparable == boots[-1].comparable]
    if len(same) < len(boots):
        rest = len(boots) - len(same)
        say(
            f"{boots[0].case}: {rest} of {len(boots)} boots are left out: their environment is not that of the boot "
            f"stored last (run {boots[-1].run})"
        )
    return same
