# SPDX-License-Identifier: MIT
"""A target that does what a test wrote down, with results captured from a real boot."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from rtgate import boards
from rtgate.measure import Arm
from rtgate.profiles import profile
from rtgate.record import KernelIdentity
from rtgate.target.outcome import Outcome, State
from rtgate.target.plan import Plan

CAPTURE = Path(__file__).with_name("data") / "plan" / "virt-arm64-hackbench"
Act = Callable[[Plan], Outcome]


def files(**changes: bytes | None) -> dict[str, bytes]:
    """Return what the plan of a real boot collected; `a_b=data` changes the file `a.b`, None removes it."""
    found = {path.name: path.read_bytes() for path in CAPTURE.iterdir()}
    for word, data in changes.items():
        name = word if "." in word else word.replace("_", ".")
        found.pop(name, None)
        if data is not None:
            found[name] = data
    return found


def measured(**changes: bytes | None) -> Outcome:
    """Return the outcome of a real boot, with some files changed."""
    return Outcome(
        state=State.MEASURED,
        files=files(**changes),
        console=b"booting\r\nrtgate: plan started\r\n",
        seconds={"boot": 0.5, "total": 1.5},
        machine={"qemu": "QEMU emulator version 7.2.22"},
    )


def slow() -> Outcome:
    """Return the outcome of a boot in which one wake-up took 120 virtual us."""
    text = files()["cyclictest.json"]
    return measured(
        cyclictest_json=text.replace(b'"45360": 1', b'"120000": 1').replace(b'"max": 45360', b'"max": 120000')
    )


@dataclass
class FakeTarget:
    """Does for each seed what is written down for it, otherwise what is written down for None."""

    script: Mapping[int | None, Outcome | BaseException | Act] = field(default_factory=lambda: {None: measured()})
    plans: list[Plan] = field(default_factory=list)

    def run(self, plan: Plan) -> Outcome:
        self.plans.append(plan)
        act = self.script.get(plan.seed, self.script.get(None, measured()))
        if isinstance(act, BaseException):
            raise act
        return act if isinstance(act, Outcome) else act(plan)


def arm(target: FakeTarget, name: str = "candidate", time: str = "virtual", board: str = "virt-arm64") -> Arm:
    """Return an arm of a board of the project whose boots are faked."""
    return Arm(
        name=name,
        board=boards.board(board),
        kernel=KernelIdentity(
            name=f"kernel-{name}",
            flavour="preempt_rt",
            release="6.12.117",
            image_sha256="a" * 64,
            source="a tree",
            provenance="rtgate",
        ),
        profile=profile("smoke"),
        time=time,
        target=target,
        rootfs="b" * 64,
    )


def arms(*made: Arm) -> Callable[[object], tuple[tuple[Arm, ...], threading.Event]]:
    """Return what replaces `rtgate.cli.arms.make_arms`."""
    return lambda _: (made, threading.Event())
