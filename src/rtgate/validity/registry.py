# SPDX-License-Identifier: MIT
"""All validity checks: may a record's measurements be judged at all?

Every check reads evidence that is stored in the record, so a replay checks again. What a plan reads, what a board's
file may declare not applicable and the page of the checks derive from the two lists here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from fnmatch import fnmatchcase

from rtgate import site
from rtgate.board import boards
from rtgate.board.boards import Board
from rtgate.errors import ConfigError
from rtgate.records.record import Record
from rtgate.validity import (
    aer,
    affinity,
    clock,
    counts,
    cpus,
    cycles,
    duration,
    figures,
    firmware,
    flavour,
    health,
    isolation,
    kernel,
    load,
    log,
    page_faults,
    settings,
    sources,
    steady,
    suspend,
    temperature,
    threads,
)
from rtgate.validity.check import Check, CheckResult, PlanInputs, ValidityCheck

CHECKS: tuple[ValidityCheck, ...] = (
    flavour.CHECK,
    kernel.CHECK,
    cpus.CHECK,
    log.CHECK,
    threads.CHECK,
    affinity.CHECK,
    cycles.CHECK,
    counts.CHECK,
    duration.CHECK,
    clock.CHECK,
    load.CHECK,
    settings.CHECK,
    isolation.CHECK,
    suspend.CHECK,
    temperature.CHECK,
    firmware.CHECK,
    steady.CHECK,
    health.CHECK,
    aer.CHECK,
    page_faults.CHECK,
)
"""In the order in which they are judged."""

OF_THE_RECORD: tuple[ValidityCheck, ...] = (sources.CHECK, figures.CHECK)
"""Whether the record itself was changed: no board may declare these not applicable, and only a failure is told."""

_NAMES = {check.name: check for check in CHECKS}


def checks(record: Record, reasons: Mapping[str, str]) -> tuple[Check, ...]:
    """Return every check of a record that was measured.

    Args:
        record: the record.
        reasons: by check, why the board declares a check not applicable.
    """
    return (*failed_edit_checks(record), *_of_measurement(record, reasons))


def failed_edit_checks(record: Record) -> tuple[Check, ...]:
    """Return the checks that say that a record, which was measured, was changed since; empty if it was not."""
    answers = (_judge_check(check, record, frozenset()) for check in OF_THE_RECORD)
    return tuple(check for check in answers if check.result is CheckResult.FAILED)


def _of_measurement(record: Record, reasons: Mapping[str, str]) -> Iterator[Check]:
    failures: set[str] = set()
    for check in CHECKS:
        outcome = _judge_check(check, record, failures)
        if check.name in reasons:
            outcome = replace(outcome, result=CheckResult.NOT_APPLICABLE, sentence=reasons[check.name], unseen=False)
        if outcome.result is CheckResult.FAILED:
            failures.add(check.name)
        yield outcome


def _judge_check(check: ValidityCheck, record: Record, failures: frozenset[str] | set[str]) -> Check:
    answer = check.judge(record)
    result = CheckResult.NOT_APPLICABLE if answer.follows in failures else answer.result
    invalidates = answer.invalidates or check.invalidates
    return Check(
        name=check.name, result=result, invalidates=invalidates, sentence=answer.sentence, unseen=answer.unseen
    )


def not_applicable(board: Board) -> dict[str, str]:
    """Return why checks do not apply on a board, by check.

    Raises:
        ConfigError: the board's file names no check (path:line:column).
    """
    for name, declaration in board.not_applicable.items():
        if name not in _NAMES:
            names = ", ".join(sorted(_NAMES))
            raise ConfigError(f"unknown key {name!r} (allowed: {names})", declaration.location)
    return {name: declaration.reason for name, declaration in board.not_applicable.items()}


def not_applicable_on(board: str) -> dict[str, str]:
    """Return the same of a board by its name; nothing where no file describes it. Raises as `not_applicable`."""
    return not_applicable(boards.board(board)) if board in site.names("boards") else {}


def files(inputs: PlanInputs) -> tuple[str, ...]:
    """Return what a plan reads before and after measuring, as patterns of the shell.

    The last check's come first, as in the plans with which the limits of virtual boards were learnt: there another
    order is another script, which moves the histogram.
    """
    return tuple(pattern for check in reversed(CHECKS) for pattern in check.reads(inputs))


def readings(around: Mapping[str, tuple[str, str]]) -> dict[str, tuple[str, str]]:
    """Return what is evidence of a check among what was read before and after, by path; the rest are settings."""
    patterns = [pattern for check in CHECKS for pattern in check.readings]
    return {path: texts for path, texts in around.items() if any(fnmatchcase(path, pattern) for pattern in patterns)}
