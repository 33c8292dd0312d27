# SPDX-License-Identifier: MIT
"""A board inside a LAVA job: LAVA has booted it, plans are carried out over its console, LAVA turns it off.

One boot serves all cases. A kernel that died in one of them cannot be measured any more: the cases that are left say
so at once instead of waiting for a shell, and the fault stays with the case in which it happened.
"""

from __future__ import annotations

import re
import threading
from dataclasses import dataclass, field, replace

from rtgate.board.boards import Board
from rtgate.board.boot import TimeBase
from rtgate.console.shell import Waits
from rtgate.errors import InfrastructureError
from rtgate.lava.in_job.cooling import cool
from rtgate.lava.job.environment import InJob
from rtgate.measure.profiles import Profile
from rtgate.target.live import LiveTarget, waits_of
from rtgate.target.outcome import Outcome, State
from rtgate.target.plan import Plan
from rtgate.target.power import PowerCycledTarget
from rtgate.tools.case_name import CaseName

# An emulated board gets what its host has left: minutes of silence say nothing about its kernel.
_PATIENT = Waits(target=2.0, hang=90.0)


def time_of(board: Board) -> TimeBase:
    """Return which time a lab's board measures: a virtual machine has that of the machine below it."""
    return TimeBase.HOST if board.virtual or board.soc == "none" else TimeBase.REAL


def _waits(board: Board) -> Waits:
    """Return how long to wait for what on a board in a lab."""
    return waits_of(board, Waits() if time_of(board) == TimeBase.REAL else _PATIENT)


def given_up_after_s(board: Board, plan: Plan) -> float:
    """Return the seconds after which a plan on a board in a lab is given up whose target fell silent.

    They are those of `LiveTarget.run`: the plan's own deadline, the search for a shell, and the one after Ctrl-C.
    """
    waits = _waits(board)
    return waits.target * plan.deadline_s + waits.spare + waits.hang + waits.attach


_NETWORK_ROOT = re.compile(rb"^/proc/cmdline:(?:.* )?(?:root=/dev/nfs|nfsroot=)", re.MULTILINE)


def refuse_nfs_latencies(plan: Plan, outcome: Outcome, profile: Profile) -> Outcome:
    """Return the outcome, or the refusal of one that holds latencies of a board whose root file system is NFS.

    A page that has to come over the network is a latency of the network, and its interrupts are a load.
    """
    if (
        profile.nfs
        or CaseName.parse(plan.case).suite != "latency"
        or not _NETWORK_ROOT.search(outcome.files.get("facts", b""))
    ):
        return outcome
    message = (
        f"latency on a root file system over NFS is refused; boot a ramdisk, or allow it: `nfs: true` in {profile.name}"
    )
    return replace(outcome, state=State.LAB, message=message)


@dataclass(slots=True)
class JobTarget:
    """The board of a job.

    Attributes:
        live: carries out plans on the job's console.
        job: what the job tells.
        profile: what may be measured.
    """

    live: LiveTarget
    job: InJob
    profile: Profile
    _board: PowerCycledTarget = field(init=False)
    _hot: str | None = None  # why the board is too hot to be measured; None before somebody looked

    def __post_init__(self) -> None:
        self._board = PowerCycledTarget(live=self.live, cycle=self._reset)

    @classmethod
    def of(cls, board: Board, job: InJob, profile: Profile, stop: threading.Event) -> JobTarget:
        """Return the board of this job."""
        live = replace(LiveTarget.of_console(board, job.console, stop), waits=_waits(board))
        return cls(live, job, profile)

    def run(self, plan: Plan) -> Outcome:
        """Carry out a plan. Raises Interrupted as `LiveTarget.run`."""
        if self._hot is None:
            self._hot = self._heat(plan)
        if self._hot:
            return Outcome(state=State.LAB, message=f"not measured: {self._hot}", machine=self.job.machine)
        outcome = self._board.run(plan)
        return refuse_nfs_latencies(plan, replace(outcome, machine=self.job.machine), self.profile)

    def _heat(self, plan: Plan) -> str:
        """Wait until the board is as cool as its file asks; return why it is not, empty for a board that is."""
        limit = self.live.board.cool_to
        try:
            if limit is not None:
                cool(self.live, plan, limit)
        except InfrastructureError as error:
            return str(error)
        return ""

    def _reset(self) -> None:
        """Turn the board off and on. Raises InfrastructureError: the lab cannot, or something else would boot."""
        if not self.job.power_cycle:
            raise InfrastructureError("a reset would not boot this kernel again")
        self.job.reset()
