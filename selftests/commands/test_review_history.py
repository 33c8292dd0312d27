# SPDX-License-Identifier: MIT
"""What a review on a board takes from the history: boots of good kernels, and never of a revoked one."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from selftests.commands.test_review import LIMITS, Builds, _left, _review, builds, repository
from selftests.unit.cli.conftest import _forget_qemu, _undrawn, lab
from selftests.unit.history.conftest import NOW, Fill, fill, history, make_good, record, url
from selftests.unit.kernel.test_merge import Repository
from selftests.written_records import write

from rtgate.cli.main import main
from rtgate.history import queries
from rtgate.history.database import History
from rtgate.history.qualifying import examine, keep
from rtgate.history.queries import BootFilter
from rtgate.judge.learn.qualification import CaseStanding
from rtgate.measure.case import Case
from rtgate.tools.cyclictest import Cyclictest
from rtgate.workflow import review_boards, suites

__all__ = ["_forget_qemu", "_undrawn", "builds", "fill", "history", "lab", "repository", "url"]

GOOD, NOISY, BASELINE = "a" * 64, "b" * 64, "c" * 64
BOARDS = "boards:\n  - {board: bench, build: virt-arm64-generic, cases: all}\n"
_P = re.compile(r"winsorised mean x[\d.]+ \(between x[\d.]+ and x[\d.]+\), p ([\de.-]+)")


@pytest.fixture
def bench(
    repository: Repository,
    builds: Builds,
    history: History,
    fill: Fill,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A merge request for a kernel on a lab's board that is qualified, and whose jobs measure at once."""
    monkeypatch.setenv("RTGATE_LAVA_URL", "http://lava.invalid")
    monkeypatch.setenv("RTGATE_LAVA_TOKEN", "0123456789abcdef")
    (tmp_path / "site" / "boards").mkdir(parents=True)
    shipped = Path(__file__).parents[2] / "boards" / "rk3568-evb1.yaml"
    (tmp_path / "site" / "boards" / "bench.yaml").write_text(shipped.read_text())
    monkeypatch.setenv("RTGATE_SITE", str(tmp_path / "site"))
    monkeypatch.setattr(suites, "cases", lambda *_, **__: (Case(suite="latency", tool=Cyclictest(), load="idle"),))
    monkeypatch.setattr("rtgate.workflow.review._screen", lambda *_: ())
    monkeypatch.setattr(review_boards, "prepare_series", lambda *_: None)
    monkeypatch.setattr(review_boards, "carry_out", lambda _, output: _measure(output))
    repository.commit("a board", **{".rtgate/policy.yaml": BOARDS, ".rtgate/thresholds.yaml": LIMITS})
    repository.branch("mine")
    repository.commit("be tidy", **{"kernel/time.c": "two"})
    fill("night-1", [1 + number % 3 / 1000 for number in range(24)])
    boots = queries.find(history, BootFilter(runs=["night-1"]))
    examined = examine(history, boots)
    assert examined is not None
    like, standing = examined
    keep(history, boots, like, _qualified(standing), NOW)


def _qualified(standing: CaseStanding) -> CaseStanding:
    """Return that a board is good enough, whatever so few samples say."""
    return replace(standing, problems=())


def _measure(output: Path) -> list[object]:
    for arm, image in (("baseline", BASELINE), ("candidate", "d" * 64)):
        for number in range(1, 7):
            scale = 1.1 if arm == "candidate" else 1.0
            write(record(100 + number, scale=scale, arm=arm, image=image), output / "records")
    return []


def how_unlikely(url: str) -> float:
    """Review a kernel whose latencies are a tenth longer, and return the p of its body; 1 where nothing is worse."""
    _review("--history", url)
    verdicts, _, _ = _left()
    (told,) = (
        one["sentence"] for one in verdicts["verdicts"] if one["board"] == "bench" and "pairs" in one["sentence"]
    )
    print(told)
    match = _P.search(told)
    return float(match[1]) if match else 1.0


def test_boots_of_a_kernel_count_from_its_promotion_to_its_revocation(
    bench: None, url: str, fill: Fill, history: History, capsys: pytest.CaptureFixture[str]
) -> None:
    fill("mr-6", [1.0, 3.0] * 12, first=50, good=False, arm="baseline", image=NOISY)
    calm = how_unlikely(url)
    make_good(history, [record(50, image=NOISY)])
    assert how_unlikely(url) > 10 * calm
    assert main(["baseline", "revoke", NOISY, "--reason", "it is noisy", "--history", url]) == 0
    capsys.readouterr()
    assert how_unlikely(url) == calm
    assert "history: left out, boots: 24: bbbbbbbbbbbb was revoked on " in capsys.readouterr().err


def test_bad_kernels_that_a_review_rests_on_are_in_its_answer(
    bench: None, url: str, fill: Fill, history: History
) -> None:
    """One had qualified the board, which judges nothing any more; the other is the baseline."""
    fill("mr-6", [1.0], first=50, good=False, image=BASELINE)
    for image in (GOOD, BASELINE):
        assert main(["baseline", "revoke", image, "--reason", "loses wake-ups", "--history", url]) == 0
    _review("--history", url)
    verdicts, markdown, text = _left()
    told = " ".join(one["sentence"] for one in verdicts["verdicts"])
    assert "not judged: bench bench-01 was qualified on 2026-11-22T03:00:00Z with a kernel that is not good" in told
    assert "the baseline's kernel is known to be bad: cccccccccccc was revoked on " in " ".join(text.split())
    assert "the baseline's kernel is known to be bad" in markdown
