# SPDX-License-Identifier: MIT
"""Whose fault a silent boot was: the kernel began, and never came to its prompt. Pure.

A boot that worked before proves nothing of the board that went silent after it. So what decides comes later, on the
same board: a known-good kernel boots, and this one fails once more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from rtgate.board.boot import State
from rtgate.console.faults import FATAL
from rtgate.lava.client.follow import FinishedJob
from rtgate.lava.job import multinode
from rtgate.lava.results.classify import Blame, Ending, classify
from rtgate.lava.results.log import LogLine
from rtgate.lava.results.phases import boots


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelTrial:
    """What came of trying a known-good kernel after a silent boot, and then the silent kernel again.

    Attributes:
        by: names the known-good kernel and its job.
        good: whether it booted; None if nobody could tell.
        again: whether the silent kernel booted when it was tried again; None if nobody could tell.
        reason: why nobody could, a sentence.
        job: in which the silent kernel was tried again, 0 for none.
    """

    by: str = ""
    good: bool | None = None
    again: bool | None = None
    reason: str = ""
    job: int = 0


def assign_blame(ending: Ending, trial: KernelTrial) -> Ending:
    """Return whose fault a silent boot was, by what was tried after it."""
    if trial.good is False:
        why = f"a known-good kernel ({trial.by}) does not boot there either"
        return replace(ending, blame=Blame.LAB, state=State.LAB, sentence=f"{ending.sentence}; {why}")
    if trial.good is None:
        why = trial.reason
    elif trial.again is None:
        why = (
            f"a known-good kernel ({trial.by}) then booted there; whether this one fails again is open: {trial.reason}"
        )
    elif trial.again:
        why = (
            f"a known-good kernel ({trial.by}) then booted there, and so did this one (job {trial.job}): it does not "
            "fail each time, so nobody is proved at fault; submit it again with more boots"
        )
    else:
        why = f"a known-good kernel ({trial.by}) then booted on the same board, and this one failed again"
        return replace(ending, blame=Blame.PRODUCT, sentence=f"{ending.sentence}; {why} (job {trial.job})")
    return replace(ending, sentence=f"{ending.sentence}; {why}")


def ending_without_trial(ending: Ending) -> Ending:
    """Return how a job ended that nobody followed, with what would prove whose fault a silent boot was."""
    if ending.blame is not Blame.SILENT:
        return ending
    why = "no known-good kernel was tried after it: `rtgate submit --wait` tries one, so submit it again"
    return replace(ending, sentence=f"{ending.sentence}; {why}")


def ending_with_endpoint(ending: Ending, lines: Sequence[LogLine], endpoint: Ending, number: int) -> Ending:
    """Return how the root complex's job ended, by its log and by how job `number`, its endpoint's, did.

    LAVA cancels the job of the one where that of the other breaks. A root complex without its endpoint may fail in any
    way, so it is blamed for what it said itself: that its kernel died. Nobody knows when the endpoint went, so what the
    root complex recorded does not count, unless it came to its end or the console shows its death.
    """
    died = ending.panics or any(fault.kind in FATAL for fault in ending.faults)
    if ending.blame is Blame.NOBODY or died:
        return ending
    if endpoint.blame not in {Blame.NOBODY, Blame.CANCELLED}:
        sentence, blame = f"the endpoint's job {number}: {endpoint.full_sentence}", endpoint.blame
    elif multinode.unanswered(line.text for line in lines):
        sentence, blame = f"the endpoint (job {number}) answers no more", Blame.LAB
    else:
        return ending
    return replace(ending, blame=blame, state=None, sentence=sentence, boot=0, without_endpoint=True)


def ending_of_endpoint(ending: Ending) -> Ending:
    """Return how an endpoint's job ended: its kernel is not the one that is judged, so what it does is the lab's.

    So is what its set-up raises, in words of its own.
    """
    ending = replace(ending, of_endpoint=True)
    raised = ending.blame is Blame.OURS and ending.state is State.UNREADABLE
    if ending.blame not in {Blame.PRODUCT, Blame.SILENT} and not ending.panics and not raised:
        return ending
    death = ending.panics[0] if ending.panics else None
    sentence = ending.sentence or (f"{death.kind}: {death.line}" if death else "")
    return replace(ending, blame=Blame.LAB, state=None, sentence=sentence, faults=(), panics=())


def ending_of(job: FinishedJob, *, emulated: bool) -> Ending:
    """Return how a job ended that was followed; `emulated` as `classify` has it."""
    return classify(job.job, job.lines, stopped_by=job.stopped_by, emulated=emulated)


def came_up(job: FinishedJob, number: int, *, emulated: bool) -> tuple[bool | None, str]:
    """Return whether a boot of a job came to its prompt, None with the reason if the job never came to that."""
    if any(boot.number == number and boot.has_booted for boot in boots(job.lines)):
        return True, ""
    ending = ending_of(job, emulated=emulated)
    if ending.boot == number and ending.blame in {Blame.PRODUCT, Blame.SILENT}:
        return False, ""
    return None, ending.sentence or "the job ended before it"


def known_kernel_booted(job: FinishedJob, *, emulated: bool) -> tuple[bool | None, str]:
    """Return whether the kernel of a health check booted, None with the reason if the check never came to that."""
    job_boots = boots(job.lines)
    has_run = job.job.health == "Complete" and any(boot.boot for boot in job_boots)
    if has_run or any(boot.has_booted for boot in job_boots):
        return True, ""
    ending = ending_of(job, emulated=emulated)
    if ending.blame in {Blame.PRODUCT, Blame.SILENT}:
        return False, ""
    return None, ending.sentence or "the lab's health check boots nothing"
