# SPDX-License-Identifier: MIT
"""What a job was to measure, kept in the job's own metadata: whoever has the number can judge it, on any machine.

LAVA shows metadata to all who may see the job, so nothing secret is in it.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from rtgate.board import boards
from rtgate.errors import ConfigError
from rtgate.lava.in_job.cooling import LONGEST_S
from rtgate.lava.in_job.target import given_up_after_s
from rtgate.lava.job import cases as cases_file
from rtgate.lava.job import environment
from rtgate.lava.job.definition import ARMS, Transport
from rtgate.lava.job.multinode import ENDPOINT, ROOT_COMPLEX
from rtgate.lava.job.server_definition import Definition
from rtgate.lava.results.expected import Expected
from rtgate.measure.case import Case
from rtgate.measure.case_plan import plan
from rtgate.measure.profiles import profile
from rtgate.records.codec import reject_unknown_fields
from rtgate.records.record import KernelIdentity
from rtgate.records.schedule import Steps, format_steps, parse_steps

NONCE = "rtgate.nonce"
_KEYS = {"": "rtgate.order", ROOT_COMPLEX: "rtgate.order", ENDPOINT: "rtgate.endpoint"}  # by the role of a board
_FORMAT = 1
_FIELDS = (
    *("format", "board", "boots", "suites", "profile", "tuning", "transport", "before", "looks", "screen"),
    *("kernels", "cases"),
)
_CASE_S = 120.0  # uploading a plan, its frames over a slow line, deadlines of its own
_AROUND_S = 300.0  # starting and ending the test on a worker that has much to do
_USUAL_CASE_S, _USUAL_AROUND_S = 10.0, 60.0
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}(?:/[A-Za-z0-9][A-Za-z0-9_.:+-]{0,199})?")
_REMEDY = "fetch with the version that submitted it"
_MOST_PAIRS = 10_000  # as many as a job may have boots
_PART = 1500  # characters: a value of metadata stays below what templates and databases cut off


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasurementRequest:
    """What was asked for.

    Attributes:
        kernels: by arm.
        boots: the arm of each boot, in order.
        before: pairs of boots that earlier jobs of the same comparison measured.
        looks: when somebody is going to look at the pairs; empty if not before all are measured.
        screen: whether the boots are compared with the history only.
        is_part: whether other jobs measure other boots of the same comparison; the job itself need not know.
    """

    board: str
    kernels: Mapping[str, KernelIdentity]
    boots: tuple[str, ...]
    cases: tuple[Case, ...]
    suites: tuple[str, ...]
    profile: str
    tuning: str
    transport: Transport
    before: int = 0
    looks: Steps = ()
    screen: bool = False
    is_part: bool = False

    def expected(self) -> Expected:
        """Return what the job brings if all goes well. Raises ConfigError: names in it that nobody knows here."""
        board = boards.board(self.board)
        board.tuning(self.tuning)
        return Expected(
            board=board,
            profile=profile(self.profile, self.board),
            tuning=self.tuning,
            cases=self.cases,
            boots=self.boots,
            kernels=self.kernels,
        )

    @property
    def boot_s(self) -> int:
        """Seconds that the tests of one boot may take: each tool's time, half as much again, and what is around it.

        One of them may hang, and rtgate must have given it up before LAVA ends the test: else the lab would be blamed.
        """
        expectation = self.expected()
        arm = expectation.arm(1)
        plans = [plan(case, arm, 1) for case in self.cases]
        usual = [
            1.5 * length + _CASE_S + (case_plan.storage.preparation_s if case_plan.storage else 0.0)
            for length, case_plan in zip(self._lengths(), plans, strict=True)
        ]
        hanging = [given_up_after_s(arm.board, case_plan) for case_plan in plans]
        further = max(late - in_time for late, in_time in zip(hanging, usual, strict=True))
        # LAVA would end the test of a board that is still cooling down, and that would look like a kernel that hangs.
        cooling = 0.0 if arm.board.cool_to is None else LONGEST_S
        return int(_AROUND_S + cooling + sum(usual) + max(further, 0.0))

    @property
    def usual_s(self) -> float:
        """Seconds that one boot with its tests usually takes."""
        return usual_test_s(self._lengths())

    def _lengths(self) -> list[float]:
        job_profile = profile(self.profile)
        return [job_profile.of(case.tool.name, case.suite, case.load).duration_s for case in self.cases]

    def parts(self, longest_s: float = 3600.0) -> tuple[MeasurementRequest, ...]:
        """Return the order in parts of one job each, so that no job holds a board longer than about an hour.

        Boots that belong together, one of each arm, stay together.
        """
        together = len(self.kernels)
        many = max(1, int(longest_s / self.usual_s) // together) * together
        return tuple(
            replace(
                self,
                boots=self.boots[start : start + many],
                before=self.before + start // together,
                is_part=self.is_part or len(self.boots) > many,
            )
            for start in range(0, len(self.boots), many)
        )

    def mark(self, boot: int) -> Mapping[str, str]:
        """Return what records of a boot, counted from 1, say of its place in a comparison."""
        if self.screen:
            return {"stage": "screen"}
        return {"pair": str(self.before + (boot - 1) // len(self.kernels) + 1)}

    def as_metadata(self, role_name: str = "") -> dict[str, str]:
        """Return the order as entries of a job's metadata; a job of two boards has one order for each role."""
        data = {
            "format": _FORMAT,
            **{name: getattr(self, name) for name in ("board", "boots", "suites", "profile", "tuning", "transport")},
            **({"before": self.before} if self.before else {}),
            **({"looks": format_steps(self.looks)} if self.looks else {}),
            **({"screen": True} if self.screen else {}),
            "kernels": {arm: asdict(kernel) for arm, kernel in self.kernels.items()},
            "cases": [cases_file.as_json(case) for case in self.cases],
        }
        text = json.dumps(data, separators=(",", ":"))
        parts = [text[start : start + _PART] for start in range(0, len(text), _PART)]
        return {f"{_KEYS[role_name]}.{number}": part for number, part in enumerate(parts, 1)}


def usual_test_s(lengths_s: Iterable[float]) -> float:
    """Return the seconds that the tests of one boot usually take, whose measurements are so long."""
    return _USUAL_AROUND_S + sum(length + _USUAL_CASE_S for length in lengths_s)


def new_nonce() -> str:
    """Return what a job's metadata hold so that its submission is found again; no other job has it."""
    return f"rtgate-{secrets.token_hex(12)}"


def in_turns(arms: tuple[str, ...], count: int) -> tuple[str, ...]:
    """Return the arm of each boot, `count` boots of each: B C C B B C ..., so that drift hits both alike."""
    if len(arms) == 1:
        return arms * count
    return tuple(arm for number in range(count) for arm in (arms if number % 2 == 0 else arms[::-1]))


def read(definition: Definition, what: str, role_name: str = "") -> MeasurementRequest:
    """Return what a job was to measure: on the board with this role, by default on its own.

    `what` names it in a ConfigError: it is not a job of rtgate's.
    """
    entries = definition.metadata
    key = _KEYS.get(role_name or definition.role, "")
    parts = [entries[f"{key}.{number}"] for number in range(1, len(entries) + 1) if f"{key}.{number}" in entries]
    if not parts:
        raise ConfigError(f"{what} was not submitted by rtgate: its metadata say nothing of cases")
    try:
        return _decode(json.loads("".join(parts)), what)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ConfigError(f"{what}: its metadata are damaged: {type(error).__name__} {error}") from error


def _decode(data: dict[str, Any], what: str) -> MeasurementRequest:
    if data["format"] != _FORMAT:
        raise ConfigError(f"{what}: request format {data['format']}, this rtgate reads {_FORMAT}")
    reject_unknown_fields(data, _FIELDS)
    cases = tuple(cases_file.from_json(entry) for entry in data["cases"])
    # These become names of directories, and whoever submitted the job has chosen them.
    for name in (data["board"], *(f"{case.suite}/{case.name.partition('/')[2]}" for case in cases)):
        if not _NAME.fullmatch(str(name)):
            raise ConfigError(f"{what}: {str(name)[:60]!r} is not a name of a board or a case")
    kernels = {str(arm): environment.identity(entry, what, _REMEDY) for arm, entry in data["kernels"].items()}
    boots = _boots(data, what)
    for name in ("kernels", "boots", "cases"):
        if not data[name]:
            raise ConfigError(f"{what}: its metadata list no {name}, so it measures nothing")
    return MeasurementRequest(
        board=str(data["board"]),
        kernels=kernels,
        boots=boots,
        cases=cases,
        suites=tuple(str(suite) for suite in data["suites"]),
        profile=str(data["profile"]),
        tuning=str(data["tuning"]),
        transport=Transport(data["transport"]),
        before=_before(data.get("before", 0)),
        looks=parse_steps(data["looks"]) if "looks" in data else (),
        screen=bool(data.get("screen", False)),
    )


def _before(number: object) -> int:
    """Return how many pairs came before. Raises ValueError: it is not such a number."""
    if type(number) is not int or not 0 <= number <= _MOST_PAIRS:
        raise ValueError(f"before {number!r:.40} is not a number of pairs (allowed: 0 to {_MOST_PAIRS})")
    return number


def _boots(data: dict[str, Any], what: str) -> tuple[str, ...]:
    """Return the arm of each boot; arms become names of directories, too. Raises ConfigError."""
    kernels, boots = set(data["kernels"]), tuple(str(arm) for arm in data["boots"])
    for arm in (*kernels, *boots):
        if arm not in ARMS:
            raise ConfigError(f"{what}: {str(arm)[:60]!r} is not a name of a kernel (allowed: {', '.join(ARMS)})")
    if not set(boots) <= kernels:
        raise ConfigError(f"{what}: it boots {', '.join(sorted(set(boots) - kernels))}, of which it names no kernel")
    return boots
