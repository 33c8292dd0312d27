# SPDX-License-Identifier: MIT
from __future__ import annotations

import pytest

from rtgate.board.boot import State
from rtgate.lava.results.blame import KernelTrial, assign_blame
from rtgate.lava.results.classify import Blame, Ending

SILENT = Ending(
    blame=Blame.SILENT, sentence="the kernel began and never came to its prompt", state=State.NO_BOOT, boot=2
)


@pytest.mark.parametrize(
    ("tried", "blame", "told"),
    [
        (KernelTrial(by="job 2", good=True, again=False, job=3), Blame.PRODUCT, "and this one failed again (job 3)"),
        (KernelTrial(by="job 2", good=True, again=True, job=3), Blame.SILENT, "nobody is proved at fault"),
        (
            KernelTrial(by="job 2", good=True, reason="the lab failed"),
            Blame.SILENT,
            "fails again is open: the lab failed",
        ),
        (KernelTrial(by="job 2", good=False), Blame.LAB, "a known-good kernel (job 2) does not boot there either"),
        (KernelTrial(by="job 2", reason="no board became free"), Blame.SILENT, "; no board became free"),
    ],
)
def test_only_a_second_failure_after_a_good_boot_blames_the_kernel(tried: KernelTrial, blame: Blame, told: str) -> None:
    found = assign_blame(SILENT, tried)
    assert found.blame is blame
    assert found.sentence.startswith(SILENT.sentence)
    assert told in found.sentence
