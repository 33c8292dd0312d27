# SPDX-License-Identifier: MIT
"""Whose fault it is that a job ended as it did. Pure: log lines in, one sentence out.

`Complete` says only that LAVA came to the end, and LAVA's `error_type` names who would have to act in LAVA's world
(`lava_common/exceptions.py`): a kernel's panic is type Job there, as is a file that could not be fetched. So the log
decides: how far the boot came, what the kernel said, which action failed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import Enum
from typing import Any

from rtgate.board.boot import State
from rtgate.console.faults import FATAL, Fault, FaultKind, scan
from rtgate.lava.client.follow import StoppedBy
from rtgate.lava.client.server import Job
from rtgate.lava.results.frames import collect_frames
from rtgate.lava.results.log import LogLine
from rtgate.lava.results.phases import Boot, boots
from rtgate.lava.results.plain_text import phrase

IN_JOB = "rtgate.in-job"
"""The result by which `rtgate in-job` tells LAVA whether it measured everything."""
SAYS = "rtgate: "
"""How its own words begin."""

INFRA = "infra:"
"""How a test begins what it raises (`lava-test-raise`) for a fault of the lab."""


class Blame(Enum):
    """Who must act."""

    NOBODY = "nobody"  # the job came to its end; its records tell the rest
    PRODUCT = "product"  # the kernel
    LAB = "lab"
    OURS = "rtgate"  # a job that LAVA cannot carry out as we wrote it
    CANCELLED = "cancelled"
    QUEUE = "queue"  # no board became free in time
    SILENT = "silent boot"  # the kernel, or the board: a known-good kernel on the same board decides


@dataclass(frozen=True, slots=True, kw_only=True)
class Panic:
    """A boot attempt that ended in a kernel's panic or oops, whatever the attempts after it did."""

    boot: int
    kind: str
    line: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How a job ended.

    Attributes:
        sentence: what happened, for a report.
        state: what a boot that left no record is; None if nothing broke.
        boot: the boot in which it happened, 0 if in none.
        line: the number of the log line that says so, -1 without one.
        faults: of the boot in which it happened.
        panics: of all boots, from which LAVA may have recovered by trying again.
        of_endpoint: the kernel is an endpoint's, and so not the one that is judged.
        without_endpoint: a root complex lost its endpoint: only a death that it recorded is its kernel's.
    """

    blame: Blame
    sentence: str
    state: State | None = None
    boot: int = 0
    line: int = -1
    faults: tuple[Fault, ...] = ()
    panics: tuple[Panic, ...] = ()
    of_endpoint: bool = False
    without_endpoint: bool = False

    @property
    def full_sentence(self) -> str:
        """The sentence with the boot that it is about."""
        return f"boot {self.boot}: {self.sentence}" if self.boot else self.sentence

    @property
    def may_retry(self) -> bool:
        """Whether another attempt may help: a lab's faults pass, a kernel's do not."""
        return self.blame is Blame.LAB


@dataclass(frozen=True, slots=True)
class _JobFailure:
    """What LAVA says of its own end: result `lava.job`, and the action that failed last."""

    kind: str
    message: str
    action: str
    line: int


# U-Boot's words for an image that is none: LAVA calls that Infrastructure, but it is the file that we sent.
_IMAGE = re.compile(
    r"Bad Linux (?:ARM64|ARM|RISCV) Image magic|Ramdisk image is corrupt|Wrong Image Format|Invalid Image|"
    r"Bad (?:Data|Header) (?:CRC|Magic)|ERROR: (?:new format )?image (?:overwritten|is corrupt)|zimage: Bad magic",
    re.IGNORECASE,
)
# What rtgate says of a name that its own files lack: of a suite, a profile, a case, a tuning.
_LACKING = re.compile(r"unknown [a-z ]+ '|no such case|has no tuning '")
_STILL_S = 20.0  # lines of a boot that goes on are no further apart; LAVA's deadline for one is minutes
_DEADLINE = re.compile(r"timed out|timeout", re.IGNORECASE)


def classify(
    job: Job, lines: Sequence[LogLine], *, stopped_by: StoppedBy | None = None, emulated: bool = False
) -> Ending:
    """Return how a job ended.

    Args:
        job: as it is after its end.
        lines: its whole log.
        stopped_by: why rtgate cancelled it; None if rtgate did not.
        emulated: the board gets what processor time its host has left, so a slow boot says nothing of its kernel.
    """
    job_boots = boots(lines)
    panics = tuple(_panics(job_boots))
    if stopped_by in {StoppedBy.QUEUE, StoppedBy.AWAY}:
        sentence = StoppedBy.QUEUE.value if stopped_by is StoppedBy.QUEUE else _unfit(job)
        return Ending(blame=Blame.QUEUE, sentence=sentence, panics=panics)
    if job.health == "Canceled" and job_boots and _deadly(job_boots[-1]):
        # It was cancelled because nothing could come any more: LAVA waits minutes for a kernel that has restarted.
        return _in_boot(job_boots[-1], _JobFailure("Canceled", "cancelled", "", -1), panics)
    if job.health == "Canceled":
        sentence = f"rtgate cancelled the job: {stopped_by.value}" if stopped_by else "the job was cancelled"
        return Ending(blame=Blame.CANCELLED, sentence=sentence, boot=len(job_boots), panics=panics)
    failure = _job_failure(lines)
    if job.health == "Complete" and (failure is None or not failure.kind):
        refusal = next((boot for boot in job_boots if _ended_before_start(boot)), None)
        return Ending(blame=Blame.NOBODY, sentence="", panics=panics) if refusal is None else _cannot(refusal, panics)
    if failure is None or not job_boots:
        return _before(job, failure, panics)
    ending = _in_boot(job_boots[-1], failure, panics)
    return _slow(ending, job_boots[-1]) if emulated else ending


def _unfit(job: Job) -> str:
    tags = job.definition.tags
    condition = f" with the tags {', '.join(tags)}" if tags else ""
    return f"no device of type {job.device_type}{condition} is fit for work any more: see its health in LAVA"


def _slow(ending: Ending, boot: Boot) -> Ending:
    """Return the ending of an emulated board's boot: one that went on until LAVA's time was over was slow, not hung."""
    times = [_seconds(line) for line in boot.boot]
    output_times = [_seconds(line) for line in boot.boot if line.level == "target" and line.text.strip()]
    quiet = max(times, default=0.0) - max(output_times, default=0.0)
    if ending.blame is not Blame.SILENT or quiet > _STILL_S:
        return ending
    sentence = (
        f"{ending.sentence}; the board is emulated and was still booting {quiet:.0f} s before LAVA gave it up: "
        "its host was too busy, look at what else runs there"
    )
    return replace(ending, blame=Blame.LAB, state=State.LAB, sentence=sentence)


def _seconds(line: LogLine) -> float:
    """Return when a line was logged, 0 for a time that cannot be read."""
    try:
        return datetime.fromisoformat(line.time).timestamp()
    except ValueError:
        return 0.0


def _ended_before_start(boot: Boot) -> bool:
    """Return whether rtgate ended in the container before it announced what it measures."""
    failed = any(line.result.get("case") == IN_JOB and line.result.get("result") == "fail" for line in boot.test)
    return failed and all(units.keys() <= {"z"} for units in collect_frames(line.text for line in boot.shell).values())


def _cannot(boot: Boot, panics: tuple[Panic, ...]) -> Ending:
    """Return the ending of a job in whose container rtgate measured nothing: it may lack what the job asks for."""
    messages = [line for line in boot.shell if line.text.startswith(SAYS)]
    why = messages[-1].text.removeprefix(SAYS) if messages else "it does not say why"
    sentence = f"rtgate in the worker's container measured nothing: {phrase(why)}"
    if _LACKING.search(why):
        sentence += (
            "; whoever keeps the lab must load an image of this rtgate with the site's suites and profiles "
            "(ci/image/build --load), or measure without it: --transport board"
        )
    line = messages[-1].number if messages else -1
    return Ending(blame=Blame.OURS, sentence=sentence, state=State.LAB, boot=boot.number, line=line, panics=panics)


def _before(job: Job, failure: _JobFailure | None, panics: tuple[Panic, ...]) -> Ending:
    """Return what it means that no action of the job began, or that LAVA never said why it ended."""
    if failure is None:
        reason = job.comment or f"LAVA gave it up without a word (health {job.health})"
        return Ending(blame=Blame.LAB, sentence=phrase(reason), state=State.LAB, panics=panics)
    blame = Blame.OURS if failure.kind == "Job" else Blame.LAB
    what = "LAVA cannot carry the job out" if blame is Blame.OURS else _KINDS.get(failure.kind, failure.kind)
    return Ending(blame=blame, sentence=f"{what}: {failure.message}", state=State.LAB, line=failure.line, panics=panics)


_KINDS = {
    "Infrastructure": "the lab failed",
    "Configuration": "the lab's configuration is wrong",
    "Bug": "LAVA's worker failed",
    "MultinodeTimeout": "boards of the job did not meet",
}


def _in_boot(boot: Boot, failure: _JobFailure, panics: tuple[Panic, ...]) -> Ending:
    blame, state, sentence = _decide(boot, failure)
    return Ending(
        blame=blame,
        sentence=sentence,
        state=state,
        boot=boot.number,
        line=failure.line,
        faults=scan(boot.console),
        panics=panics,
    )


def _decide(boot: Boot, failure: _JobFailure) -> tuple[Blame, State, str]:
    """Return blame, state and sentence of the boot in which a job ended."""
    deadly = _deadly(boot)
    if deadly is not None:
        state = State.FAULT if boot.has_booted else State.NO_BOOT
        return Blame.PRODUCT, state, f"{deadly.kind.value}: {phrase(deadly.line)}"
    if not boot.has_booted:
        return _while_booting(boot, failure)
    if failure.kind == "Test":
        return _while_testing(boot, failure)
    hint = " (docker does not run there, or has no such image)" if "'docker'" in failure.message else ""
    return (
        Blame.LAB,
        State.LAB,
        f"{_KINDS.get(failure.kind, 'the lab failed')} during the test{hint}: {failure.message}",
    )


def _deadly(boot: Boot) -> Fault | None:
    return next((fault for fault in scan(boot.console) if fault.kind in FATAL), None)


def _while_booting(boot: Boot, failure: _JobFailure) -> tuple[Blame, State, str]:
    image = next((line.text for line in boot.boot if line.level == "target" and _IMAGE.search(line.text)), "")
    if image or _IMAGE.search(failure.message):
        return Blame.PRODUCT, State.NO_BOOT, f"the boot loader refuses the image: {phrase(image or failure.message)}"
    if failure.kind == "Job" and boot.kernel_began:
        last = _last(boot)
        return Blame.SILENT, State.NO_BOOT, f"the kernel began and never came to its prompt ({failure.message}); {last}"
    if failure.kind == "Job" and not boot.boot:
        return Blame.LAB, State.LAB, f"the worker could not fetch what the job boots: {failure.message}"
    what = _KINDS.get(failure.kind, "the board failed")
    began = "after" if boot.kernel_began else "before"
    return Blame.LAB, State.LAB, f"{what} {began} the kernel began ({failure.action or 'no action'}): {failure.message}"


def _while_testing(boot: Boot, failure: _JobFailure) -> tuple[Blame, State, str]:
    if failure.message.startswith(INFRA):
        return Blame.LAB, State.LAB, failure.message
    if not boot.shell:
        return Blame.LAB, State.LAB, f"the test's shell said nothing at all: {failure.message}"
    if _DEADLINE.search(failure.message) and not boot.on_board:
        # There rtgate has deadlines of its own, and LAVA's is longer (`MeasurementRequest.boot_s`): a hang is recorded.
        return Blame.LAB, State.LAB, f"LAVA ended the test in the worker's container: {failure.message}"
    if _DEADLINE.search(failure.message):
        return Blame.PRODUCT, State.HANG, f"the test hung: {failure.message}"
    return (
        Blame.OURS,
        State.UNREADABLE,
        f"the test raised this, or its output is not what LAVA takes: {failure.message}",
    )


def _job_failure(lines: Sequence[LogLine]) -> _JobFailure | None:
    """Return the result `lava.job`, with the last action that failed before it; None if it never came."""
    action = ""
    for line in lines:
        result = line.result
        if result.get("definition") != "lava":
            continue
        if result.get("case") == "job":
            message = phrase(str(result.get("error_msg") or "no reason given"))
            kind = str(result.get("error_type") or ("" if result.get("result") == "pass" else "Bug"))
            return _JobFailure(kind, message, action, line.number)
        if result.get("result") == "fail" and result.get("case") != "kernel-messages":
            action = str(result.get("case", ""))[:80]
    return None


def _panics(job_boots: Sequence[Boot]) -> Iterator[Panic]:
    """Yield every death of a kernel: its own words, and those that LAVA noticed."""
    for boot in job_boots:
        faults = [fault for fault in scan(boot.console) if fault.kind in FATAL]
        for fault in faults:
            yield Panic(boot=boot.number, kind=fault.kind, line=phrase(fault.line))
        for line in () if faults else boot.lines:
            result = line.result
            if result.get("case") == "kernel-messages" and result.get("result") == "fail" and not _only_reset(result):
                sentence = "LAVA saw the kernel fail in an attempt to boot"
                yield Panic(boot=boot.number, kind=FaultKind.PANIC, line=sentence)


def _only_reset(result: Mapping[str, Any]) -> bool:
    """Return whether LAVA gave up because of the board's boot loader (`DUT_has_reset`, LAVA 2025.04 and later).

    A board may start again because its power failed: whose fault that is, other boots tell. The last message is the one
    for which LAVA gave up; those before it, such as warnings, it only lists (`lava_dispatcher/utils/messages.py`).
    """
    extra = result.get("extra")
    messages = extra.get("extra") if isinstance(extra, Mapping) else None
    last = messages[-1] if isinstance(messages, list) and messages else None
    return isinstance(last, Mapping) and last.get("kind") == "DUT_has_reset"


def _last(boot: Boot) -> str:
    lines = [line.text for line in boot.boot if line.level == "target" and line.text.strip()]
    return f"its last line: {phrase(lines[-1])}" if lines else "it said nothing"
