# SPDX-License-Identifier: MIT
"""`explained.json`: what traced boots showed of two kernels, beside the candidate's boots of the case.

Tracing writes it, judging reads it: which functions differ, which of them ran while measuring, and where the
instructions of a slow wake-up went.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rtgate.records import case_file
from rtgate.records.codec import encode
from rtgate.units import plural

_NAME = "explained.json"
# Options that give a kernel its name: nothing that runs decides by it.
_NAMING = frozenset({"LOCALVERSION", "LOCALVERSION_AUTO", "BUILD_SALT", "DEFAULT_HOSTNAME"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What ran of the instructions of one function that are new or changed.

    Attributes:
        instructions: how many there are; 0 if they could not be located.
        times: how often the one ran that ran most.
        missed: those that did not run, each as function and offset.
        slow: those of `missed` that call or jump back, as the baseline's function did not: what can take long.
        boots: the function runs while booting only, so that it cannot run while measuring.
    """

    function: str
    instructions: int
    times: int
    missed: tuple[str, ...] = ()
    slow: tuple[str, ...] = ()
    boots: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseExplanation:
    """What was seen of one case in traced boots, of the candidate at least.

    Attributes:
        baseline_image, candidate_image: SHA-256 of the kernels that were traced.
        seed: of the boots.
        sentence: where what the candidate measured gained instructions; empty if nobody asked.
        warning_function: the function whose warning gained the most; empty if none did.
        executed: instructions by function that differs and ran while measuring.
        resting: functions that differ and did not run.
        others: differences that are no function: variables, options; nobody can say whether they were exercised.
        changes: by instruction, of functions that the candidate has; empty if nobody looked.
        other_loads: loads of no case of the run, beside which the candidate booted once more; each with a profile that
            measures beside it.
        reached_by: by function whose change ran in no case of the run, those of these loads beside which it ran.
        failed_loads: loads of no case of the run, beside which the candidate died or hung; each with its profile.
        untried_loads: those that could not be tried, or of whose boot nobody can say what ran.
    """

    baseline_image: str
    candidate_image: str
    seed: int
    sentence: str = ""
    warning_function: str = ""
    executed: Mapping[str, int]
    resting: tuple[str, ...]
    others: tuple[str, ...] = ()
    changes: tuple[Change, ...] = ()
    other_loads: Mapping[str, str] = field(default_factory=dict)
    reached_by: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    failed_loads: Mapping[str, str] = field(default_factory=dict)
    untried_loads: tuple[str, ...] = ()

    @property
    def images(self) -> set[str]:
        """The SHA-256 of the kernels that were traced."""
        return {self.baseline_image, self.candidate_image}

    @property
    def unknown(self) -> tuple[str, ...]:
        """Variables and options that differ and may matter; those that only name the kernel are none."""
        return tuple(name for name in self.others if name.removeprefix("CONFIG_") not in _NAMING)

    @property
    def is_exercised(self) -> bool:
        """Whether a function that differs ran, or nothing differs that could have run or been read."""
        return bool(self.executed) or not (self.resting or self.unknown)

    @property
    def why_not_exercised(self) -> str:
        """Why nothing can be said of what differs, in words."""
        names, of = self.resting, f"of {plural(len(self.resting), 'differing function')}"
        sentence = f"{of} ({_first_names(names)}) none ran" if names else "no function differs"
        return sentence + (
            f", and whether {_first_names(self.unknown)} took effect is not known" if self.unknown else ""
        )

    @property
    def summary(self) -> str:
        """Which functions ran, in words; those that ran most come first."""
        if not self.executed and not self.resting:
            return "no function differs" + (f", but {_first_names(self.others)}" if self.others else "")
        most = sorted(self.executed, key=lambda name: -self.executed[name])
        both = len(self.executed) + len(self.resting)
        return f"of {plural(both, 'differing function')} {len(most)} ran" + (f": {', '.join(most[:3])}" if most else "")


def _first_names(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + " and others" * (len(names) > 3)


def as_json(explanation: CaseExplanation) -> dict[str, Any]:
    """Return what was seen as it stands in files."""
    data: dict[str, Any] = encode(explanation)
    return data


def write(directory: Path, explanation: CaseExplanation) -> None:
    """Write down what was seen into the directory of the case, whole or not at all. Raises InfrastructureError."""
    case_file.write(directory / _NAME, explanation)


def read(directory: Path) -> CaseExplanation | None:
    """Return what was seen of a case; None if nobody traced it. Raises ConfigError: the file is damaged."""
    return case_file.read(directory / _NAME, CaseExplanation)
