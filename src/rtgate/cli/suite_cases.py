# SPDX-License-Identifier: MIT
"""From the suites' test items to cases: what each measures, and what a profile and the command line leave of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pytest

from rtgate.errors import ConfigError
from rtgate.measure.case import Case
from rtgate.measure.profiles import Profile, profile
from rtgate.tools import Tool


@dataclass(frozen=True, slots=True)
class CaseMark:
    """What a test item measures: a tool under a load, which profiles may have to name."""

    tool: Tool
    load: str
    named: bool = False


@dataclass(frozen=True, slots=True)
class Offers:
    """What a profile measures of the suites, on each board; of no board as on those that it does not name."""

    chosen: Profile
    on: Mapping[str | None, Profile]

    @classmethod
    def of(cls, config: pytest.Config, name: str, boards: Sequence[str | None]) -> Offers:
        """Return what the profile of the command line offers, or else the one of this name. Raises ConfigError."""
        main_profile = profile(config.getoption("--profile") or name)
        return cls(main_profile, {board: main_profile.on(board) for board in boards})

    def boards(self, item: pytest.Item) -> frozenset[str | None]:
        """Return the boards on which an item is measured."""
        mark = case_mark(item)
        if mark is None:
            return frozenset()
        what = (item.path.parent.name, mark.tool.name, mark.load)
        return frozenset(board for board, here in self.on.items() if here.has(*what, named=mark.named))


def offered_cases(items: Sequence[pytest.Item], offers: Offers, tuning: str) -> dict[str, Case]:
    """Return the cases that a profile offers, by test item."""
    return {
        item.nodeid: Case(suite=suite, tool=offers.chosen.fit(mark.tool, suite), load=mark.load, tuning=tuning)
        for item in items
        if (mark := case_mark(item)) and (suite := item.path.parent.name) and offers.boards(item)
    }


def selected_cases(config: pytest.Config, items: list[pytest.Item], offers: Offers) -> dict[str, Case]:
    """Return what is measured, by test item; items that the profile leaves out are gone. Raises ConfigError."""
    all_cases = offered_cases(items, offers, config.getoption("--tuning"))
    case_names = set(config.getoption("--case"))
    unknown_names = case_names - {case.name for case in all_cases.values()}
    if unknown_names:
        choices = ", ".join(sorted(case.name for case in all_cases.values()))
        raise ConfigError(f"--case {', '.join(sorted(unknown_names))}: no such case here (there are: {choices})")
    cases = {key: case for key, case in all_cases.items() if not case_names or case.name in case_names}
    other_items = [item for item in items if case_mark(item) and item.nodeid not in cases]
    if other_items:
        config.hook.pytest_deselected(items=other_items)
        items[:] = [item for item in items if item not in other_items]
    names = [case.name for case in cases.values()]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ConfigError(f"two tests measure {', '.join(twice)}: their records would overwrite each other")
    return cases


def case_mark(item: pytest.Item) -> CaseMark | None:
    """Return what an item measures, or None for an item that is not ours."""
    call = getattr(item, "callspec", None)
    mark = call.params.get("measure") if call else None
    return mark if isinstance(mark, CaseMark) else None
