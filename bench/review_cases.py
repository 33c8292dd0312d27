# SPDX-License-Identifier: MIT
"""Changes of the pinned kernel that a review must answer, and what the answer must say.

The slow ones delay one timer wake-up in a thousand by 70 us or more: a virtual board shows that in each boot.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import partial

from bench import ROOT
from bench.kernel_repository import Edit, KernelRepository

MAIN, BOTH_FLAVOURS = "main", "both-flavours"
_TIMERS, _LIMITS = "kernel/time/hrtimer.c", ".rtgate/thresholds.yaml"
_POLICY = "screen: [{board: virt-arm64, profile: compare, select: idle}]\n"
_PIPELINE = 'include:\n  - local: rtgate.yml\n    inputs: {image: "bookworm:rtgate"}\n'
_SLEEPER = "\tstruct task_struct *task = t->task;\n"
_MEASURED = "latency/cyclictest:idle"
_HOSTILE = (
    "/merge @all **PASS** <img src=x onerror=alert(1)> `x` ![y](http://127.0.0.1/y) [no regression](http://x.test)"
)


class Incident(Enum):
    """What happens while a change is measured."""

    NONE = ""
    REPLACED = "a newer version of the change is pushed"
    AWAY = "the forge is away for two minutes"
    KILLED = "SIGKILL, then started again"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A change, and its answer.

    Attributes:
        branch: its source branch; its last word without signs names files.
        edits: files of the kernel, and how they change.
        code: exit code of the review.
        words: what the answer must have, on both forges.
        base: its target branch.
        newer: what replaces the change, with `Incident.REPLACED`; the answer is about that.
    """

    branch: str
    title: str
    edits: Mapping[str, Edit]
    code: int
    words: tuple[str, ...]
    base: str = MAIN
    incident: Incident = Incident.NONE
    newer: Mapping[str, Edit] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """What files and tables call it."""
        return re.sub(r"[^a-z-]", "", self.branch.rsplit("/", 1)[-1])

    @property
    def vote(self) -> dict[str, int]:
        """What Gerrit must show."""
        return {0: {"bot": 1}, 1: {"bot": -1}}.get(self.code, {})

    @property
    def newer_branch(self) -> str:
        """The branch of what replaces the change."""
        return f"{self.branch}-newer"


def _swap(old: str, new: str, text: str) -> str:
    assert text.count(old) == 1, old
    return text.replace(old, new)


def slow(delay_us: int) -> dict[str, Edit]:
    """Return a change that delays one wake-up in a thousand."""

    def edit(text: str) -> str:
        text = _swap("#include <linux/cpu.h>\n", "#include <linux/cpu.h>\n#include <linux/delay.h>\n", text)
        return _swap(_SLEEPER, f"{_SLEEPER}\tstatic unsigned int wakeups;\n\n{_delay(delay_us)}", text)

    return {_TIMERS: edit}


def _delay(delay_us: int) -> str:
    return f"\tif (++wakeups % 1000 == 0)\n\t\tudelay({delay_us});\n"


# It runs with every wake-up that is measured: what does not run is not known to be harmless.
HARMLESS: dict[str, Edit] = {_TIMERS: partial(_swap, _SLEEPER, f'{_SLEEPER}\n\tasm volatile("nop");\n')}
_SYNTAX: dict[str, Edit] = {_TIMERS: partial(_swap, _SLEEPER, _SLEEPER.replace(";", ""))}
_PANIC: dict[str, Edit] = {
    "init/main.c": partial(
        _swap,
        "\twait_for_completion(&kthreadd_done);\n\n\tkernel_init_freeable();",
        '\twait_for_completion(&kthreadd_done);\n\n\tkernel_init_freeable();\n\tpanic("the change does not boot");',
    )
}
_ONE_FLAVOUR: dict[str, Edit] = {
    _TIMERS: lambda text: f'{text}\nstatic_assert(IS_ENABLED(CONFIG_PREEMPT_RT), "this needs PREEMPT_RT");\n'
}
_OWN_LIMITS: dict[str, Edit] = {
    **slow(70),
    _LIMITS: lambda text: re.sub(r"limit: \S+ virtual us", "limit: 900 virtual us", text),
}
_FAILS = ("FAIL", _MEASURED, "limit")
CASES = (
    Case(branch="slow", title="hrtimer: count wake-ups", edits=slow(70), code=1, words=_FAILS),
    Case(branch="harmless", title="hrtimer: one nop more", edits=HARMLESS, code=0, words=("PASS", "no worse")),
    Case(
        branch="no-build",
        title="hrtimer: lose a semicolon",
        edits=_SYNTAX,
        code=1,
        words=("FAIL", "cannot be built", "hrtimer.c"),
    ),
    Case(
        branch="no-boot",
        title="init: panic",
        edits=_PANIC,
        code=1,
        words=("FAIL", "panic", "the change does not boot"),
    ),
    Case(
        branch="one-flavour",
        title="hrtimer: need PREEMPT_RT",
        edits=_ONE_FLAVOUR,
        code=1,
        words=("FAIL", "virt-arm64-generic", "this needs PREEMPT_RT", "hrtimer.c"),
        base=BOTH_FLAVOURS,
    ),
    Case(
        branch="own-limits",
        title="hrtimer: count wake-ups, allow 900 us",
        edits=_OWN_LIMITS,
        code=1,
        words=(*_FAILS, _LIMITS),
    ),
    Case(branch="<b>@all</b>-`rm`-__PASS__/hostile", title=_HOSTILE, edits=slow(70), code=1, words=_FAILS),
    Case(
        branch="replaced",
        title="hrtimer: count wake-ups",
        edits=slow(80),
        code=0,
        words=("PASS", "no worse"),
        incident=Incident.REPLACED,
        newer=HARMLESS,
    ),
    Case(
        branch="away",
        title="hrtimer: count wake-ups, while the forge is away",
        edits=slow(70),
        code=1,
        words=_FAILS,
        incident=Incident.AWAY,
    ),
    Case(
        branch="killed",
        title="hrtimer: count wake-ups, killed",
        edits=slow(80),
        code=1,
        words=_FAILS,
        incident=Incident.KILLED,
    ),
)
GUILTY = "hrtimer: count wake-ups"
_SERIES = (
    ("hrtimer: one nop more", HARMLESS),
    (GUILTY, slow(70)),
    ("init: note it once more", {"init/calibrate.c": lambda text: f"{text}\nint calibrations_noted;\n"}),
)


def prepare(repository: KernelRepository) -> None:
    """Give the target branches what a kernel repository has for rtgate, and make every change."""
    files: dict[str, Edit] = {
        ".gitlab-ci.yml": lambda _: _PIPELINE,
        "rtgate.yml": lambda _: (ROOT / "ci" / "gitlab" / "rtgate.yml").read_text(encoding="utf-8"),
        ".rtgate/policy.yaml": lambda _: _POLICY,
        _LIMITS: lambda _: (ROOT / "thresholds.yaml").read_text(encoding="utf-8"),
    }
    repository.branch("prepared", "ci: gate merge requests", files)
    repository.git("merge", "--quiet", "--ff-only", "prepared")
    both: dict[str, Edit] = {".rtgate/policy.yaml": lambda text: f"{text}builds: [virt-arm64-generic]\n"}
    repository.branch(BOTH_FLAVOURS, "ci: the other flavour must build", both)
    for case in CASES:
        repository.branch(case.branch, case.title, case.edits, case.base)
        if case.newer:
            repository.branch(case.newer_branch, case.title, case.newer, case.base, case.branch)
    base = MAIN
    for number, (title, edits) in enumerate(_SERIES, 1):
        repository.branch(f"series-{number}", title, edits, base)
        base = f"series-{number}"


def series(repository: KernelRepository) -> str:
    """Return a series of three patches, the second one slow, as it is mailed."""
    tip = f"series-{len(_SERIES)}"
    mailbox = repository.git("format-patch", "--stdout", "--cover-letter", f"--base={MAIN}", f"{MAIN}..{tip}")
    return mailbox.replace("*** SUBJECT HERE ***", "Count wake-ups").replace("*** BLURB HERE ***", "See 2/3.") + "\n"
