# SPDX-License-Identifier: MIT
"""The stages of a wake-up: in which of them a kernel became slower.

The bound (`bound`) knows the longest pieces only. Here each measured wake-up is cut at the same events
(`wakeup_stages`), and each stage has its mean and its longest. Nothing is judged by them.
"""

from __future__ import annotations

from dataclasses import dataclass

STAGES = (
    "postponed",  # from when the timer is due to the vector of its interrupt
    "interrupt entry",  # to hrtimer_interrupt()
    "timer handler",  # to hrtimer_wakeup()
    "wake-up",  # to where wake_up_process() has returned
    "rest of the interrupt",  # to its end, as `sections.PASSAGE` has it
    "until the scheduler",  # to __schedule()
    "scheduler",  # to __switch_to()
    "switch",  # until preemption is enabled in the program's thread
    "return to the program",  # to its reading of the clock
)
INTERRUPTS = "other interrupts"
WHOLE = "whole wake-up"


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage of wake-ups, in instructions.

    Attributes:
        total: of all of them.
        longest: in one wake-up.
    """

    name: str
    total: int
    longest: int

    def __add__(self, other: Stage) -> Stage:
        return Stage(self.name, self.total + other.total, max(self.longest, other.longest))


@dataclass(frozen=True, slots=True, kw_only=True)
class WakeUpStages:
    """The stages of all wake-ups that went the usual way.

    Attributes:
        count: how many they are.
        others: how many had another order of events.
        stages: `STAGES`, then other interrupts that came and ended meanwhile; together they are the whole.
        whole: from when the timer is due to the reading of the clock.
    """

    count: int
    others: int
    stages: tuple[Stage, ...]
    whole: Stage

    def __add__(self, other: WakeUpStages) -> WakeUpStages:
        return WakeUpStages(
            count=self.count + other.count,
            others=self.others + other.others,
            stages=tuple(mine + theirs for mine, theirs in zip(self.stages, other.stages, strict=True)),
            whole=self.whole + other.whole,
        )
