# SPDX-License-Identifier: MIT
"""Kernels with known changes, built and booted with many seeds: what is there is not made again.

Below a directory lie `kernels/NAME` (builds) and `records/NAME/BOARD/ARM/CASE/SEED`; the kernel without a change is
called `unpatched`.
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path

from rtgate.board.boot import State
from rtgate.errors import ConfigError
from rtgate.kernel.harmless import UNPATCHED, KernelChange
from rtgate.measure.case import Arm, Case
from rtgate.measure.case_plan import beforehand, plan
from rtgate.measure.case_record import measure
from rtgate.records import record as records_file
from rtgate.records.record import Record
from rtgate.target.virtual import VirtualBoard
from rtgate.workflow.arms import ArmRequest, make_arms


@dataclass(frozen=True, slots=True, kw_only=True)
class Boot:
    """One boot that is to be measured.

    Attributes:
        kernel: the name of a change, or `unpatched`.
    """

    kernel: str
    board: str
    case: Case
    seed: int

    @property
    def place(self) -> tuple[str, str, str]:
        """Kernel, board and case: boots that belong together."""
        return (self.kernel, self.board, self.case.name)


@dataclass(slots=True, kw_only=True)
class ChangedKernels:
    """Kernels below a directory, ready to be booted.

    Attributes:
        kernels: has a build for each change that needs one.
        records: gets what is measured.
        changes: by name.
        profile: returns the profile with which a case is measured, by the case's name.
        stop: set to end all boots now.
    """

    kernels: Path
    records: Path
    changes: Mapping[str, KernelChange]
    profile: Callable[[str], str]
    stop: threading.Event = field(default_factory=threading.Event)
    _arms: dict[tuple[str, str, str], Arm] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def directory(self, name: str) -> Path:
        """Return where a change's kernel is: the unpatched one, if only words are added to its command line."""
        change = self.changes.get(name)
        return self.kernels / (name if change and change.is_built else UNPATCHED)

    def arm(self, boot: Boot) -> Arm:
        """Return a kernel on a board. Raises ConfigError, InfrastructureError as `make_arms`."""
        profile = self.profile(boot.case.name)
        key = (boot.kernel, boot.board, profile)
        with self._lock:
            if key not in self._arms:
                change = self.changes.get(boot.kernel)
                kernels = {"candidate" if change else "baseline": self.directory(boot.kernel)}
                (arm,) = make_arms(ArmRequest(board=boot.board, kernels=kernels, profile=profile), self.stop)
                self._arms[key] = _with_words(arm, change.command_line if change else "")
            return self._arms[key]

    def path(self, boot: Boot) -> Path:
        """Return where the record of a boot is, or is going to be."""
        place = records_file.Place(
            records=self.records / boot.kernel, board=boot.board, arm=self.arm(boot).name, case=boot.case.name
        )
        return place.directory / f"{boot.seed:03d}" / "record.json"

    def find_record(self, boot: Boot) -> Record | None:
        """Return the record of a boot that was made of the same; None if there is none.

        One that is damaged, or of which not all is known that QEMU was given, is none. Nor is one that the lab broke:
        it says nothing of the kernel, and the next one may hold. Of a case that the board cannot run nothing boots.
        """
        try:
            record = records_file.read(self.path(boot).parent)
        except ConfigError:
            return None
        if record.state == State.LAB:
            return None
        arm = self.arm(boot)
        boot_plan = plan(boot.case, arm, boot.seed)
        refusal = beforehand(boot.case, boot_plan, arm, boot.seed)
        if refusal is not None:
            return record if (record.state, record.message) == (refusal.state, refusal.message) else None
        assert isinstance(arm.target, VirtualBoard)
        inputs = arm.target.inputs(boot_plan)
        same = all(value and record.machine.get(name) == value for name, value in inputs.items())
        return record if same else None

    def measure(self, boots: Sequence[Boot], jobs: int) -> Iterator[Boot]:
        """Measure boots, several at a time, and yield each when its record is written.

        Raises:
            ConfigError, InfrastructureError, Interrupted: what is under way is ended, what was measured stays.
        """
        with ThreadPoolExecutor(max_workers=jobs) as pool:
            futures = [pool.submit(self._measure_boot, boot) for boot in boots]
            try:
                for future in as_completed(futures):
                    yield future.result()
            except BaseException:
                self.stop.set()
                pool.shutdown(wait=True, cancel_futures=True)
                raise

    def _measure_boot(self, boot: Boot) -> Boot:
        record, outcome = measure(boot.case, self.arm(boot), boot.seed)
        records_file.write(record, outcome.files, outcome.console, self.records / boot.kernel)
        return boot


def _with_words(arm: Arm, words: str) -> Arm:
    if not words:
        return arm
    board = dataclasses.replace(arm.board, command_line=f"{arm.board.command_line} {words}")
    assert isinstance(arm.target, VirtualBoard)
    return dataclasses.replace(arm, board=board, target=dataclasses.replace(arm.target, board=board))
