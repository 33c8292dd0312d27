# SPDX-License-Identifier: MIT
"""What a kernel tree takes of the configurations of all builds, as a table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from rtgate.kernel.config_check import ConfigCheck
from rtgate.kernel.fragments import Option
from rtgate.kernel.version import KernelVersion

_COLUMNS = ("build", "arch", "options", "lost")


def lines(checks: Sequence[ConfigCheck], version: KernelVersion) -> Iterator[str]:
    """Yield a row for each build, then what was lost or failed with reasons, then how many builds this tree serves."""
    width = max((len(check.description.name) for check in checks), default=0)
    yield _row(_COLUMNS, width)
    for check in checks:
        numbers = ("-", "-") if check.unsupported or check.failure else (str(check.requested), str(len(check.lost)))
        row = _row((check.description.name, check.description.arch, *numbers), width)
        yield f"{row}  {check.unsupported or ('cannot be configured' if check.failure else '')}".rstrip()
    yield from _losses(checks)
    for option in dict.fromkeys(option for check in checks for option in check.unrequested):
        yield unrequested_line(option, version)
    yield from _failures(checks)
    lossy_count = sum(bool(check.lost) for check in checks)
    unsupported_count = sum(bool(check.unsupported) for check in checks)
    failure_count = sum(bool(check.failure) for check in checks)
    whole = len(checks) - lossy_count - unsupported_count - failure_count
    counts = f"{whole} of {len(checks)} builds get all their options, {lossy_count} do not"
    failures = f", {failure_count} cannot be configured" if failure_count else ""
    yield f"Linux {version}: {counts}, {unsupported_count} are not for this tree{failures}"


def unrequested_line(option: Option, version: KernelVersion) -> str:
    """Return a hint at a range of versions that may be wrong."""
    place = f"asked at {option.location}"
    return f"CONFIG_{option.symbol}: Linux {version} has it, and it is asked of {option.versions} alone ({place})"


def _row(cells: Sequence[str], width: int) -> str:
    name, arch, options, losses = cells
    return f"{name:{width}}  {arch:6}  {options:>7}  {losses:>4}"


def _losses(checks: Sequence[ConfigCheck]) -> Iterator[str]:
    """Yield each lost option once, under the names of the builds that lose the same ones."""
    lossy_checks = sorted(
        (check for check in checks if check.lost),
        key=lambda check: ([str(option) for option in check.lost], check.hint),
    )
    for (losses, hint), losers in groupby(lossy_checks, key=lambda check: (check.lost, check.hint)):
        yield f"{', '.join(check.description.name for check in losers)}{hint}:"
        yield from (f"  {option}" for option in losses)


def _failures(checks: Sequence[ConfigCheck]) -> Iterator[str]:
    """Yield each failure once, under the names of the builds that it stops."""
    failed_checks = sorted((check for check in checks if check.failure), key=lambda check: check.failure)
    for failure, group in groupby(failed_checks, key=lambda check: check.failure):
        yield f"{', '.join(check.description.name for check in group)}:"
        yield from (f"  {line}" for line in failure.splitlines())
