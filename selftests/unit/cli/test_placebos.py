# SPDX-License-Identifier: MIT
from __future__ import annotations

from pathlib import Path

import pytest

from rtgate.cli import main
from rtgate.errors import InfrastructureError
from rtgate.kernel import source
from rtgate.kernel.harmless import harmless_changes
from rtgate.kernel.identity import SourceIdentity
from rtgate.kernel.source import Tree
from rtgate.kernel.version import KernelVersion
from rtgate.workflow import placebos
from rtgate.workflow.placebos import CaseResult, Request

TREE = Tree(
    Path("/linux"),
    KernelVersion(6, 18, 2),
    SourceIdentity(kind="git", version="6.18.2", path="/linux", fingerprint="f" * 64),
)
LEARN = ["placebos", "learn", "--board", "virt-arm64"]


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Request]:
    """What learning was asked for; nothing is built."""
    found: list[Request] = []
    for name in ("RTGATE_SITE", "RTGATE_TREE", "RTGATE_SHARE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(source, "open_tree", lambda _: TREE)
    monkeypatch.setattr(source, "default_tree", lambda _: TREE)

    def learn(request: Request) -> tuple[CaseResult, ...]:
        found.append(request)
        request.output.parent.mkdir(exist_ok=True)
        request.output.write_text("virt-arm64: {}\n")
        return (CaseResult("virt-arm64 latency/cyclictest:idle: 23 harmless kernels", has_model=True),)

    monkeypatch.setattr(placebos, "learn", learn)
    return found


def test_it_learns_everything_that_a_comparison_measures(
    asked: list[Request], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.main([*LEARN, "--tree", "linux"]) == 0
    (request,) = asked
    assert (request.board.name, request.build.name, request.profile) == (
        "virt-arm64",
        "virt-arm64-preempt_rt",
        "compare",
    )
    assert (request.cases, request.seeds) == ((), ())
    assert request.changes == harmless_changes()
    assert request.output == tmp_path / "placebos.yaml"
    assert request.work == placebos.work_directory("virt-arm64-preempt_rt", TREE).absolute()
    out = capsys.readouterr().out
    assert "virt-arm64 latency/cyclictest:idle: 23 harmless kernels" in out
    assert "gates use it as placebos.yaml of a site directory (rtgate --site DIR)" in out


def test_a_site_s_file_is_used_from_now_on(
    asked: list[Request], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "lab").mkdir()
    assert main.main(["--site", str(tmp_path / "lab"), *LEARN]) == 0
    assert asked[0].output == tmp_path / "lab" / "placebos.yaml"
    assert "gates use it from now on" in capsys.readouterr().out


@pytest.mark.parametrize("learnt", [0, 1])
def test_a_case_that_taught_nothing_ends_with_5_and_no_file_is_named_that_was_not_written(
    asked: list[Request], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], learnt: int
) -> None:
    results = [CaseResult("hackbench: nothing to learn from", has_model=False)]
    results += [CaseResult("idle: 23 harmless kernels", has_model=True)] * learnt
    monkeypatch.setattr(placebos, "learn", lambda _: tuple(results))
    assert main.main([*LEARN, "--tree", "linux"]) == 5
    out = capsys.readouterr().out
    assert "hackbench: nothing to learn from" in out
    assert ("gates use it" in out) == bool(learnt)


def test_parts_can_be_chosen(asked: list[Request], tmp_path: Path) -> None:
    words = ["--change", "one-word", "--change", "unused-text", "--seeds", "1-8", "--jobs", "3", "--work", "w"]
    assert main.main([*LEARN, *words, "--case", "latency/cyclictest:idle", "-o", "f.yaml"]) == 0
    (request,) = asked
    assert set(request.changes) == {"one-word", "unused-text"}
    assert (request.seeds, request.jobs, request.cases) == (tuple(range(1, 9)), 3, ("latency/cyclictest:idle",))
    assert (request.work, request.output) == (tmp_path / "w", tmp_path / "f.yaml")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--change", "no-such"], "--change no-such: no such harmless change (allowed: one-word, "),
        (["--commit", "v6.18"], "--commit is one of a kernel tree: name it with --tree DIR"),
        (["--seeds", "x"], "'x' names no seeds"),
        (["--build", "no-such"], "unknown name 'no-such' in kernel-configs"),
    ],
)
def test_a_mistake_ends_with_2(
    asked: list[Request], words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.main([*LEARN, *words]) == 2
    assert message in capsys.readouterr().err
    assert asked == []


def test_who_interrupts_is_told_that_nothing_is_lost(
    asked: list[Request], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(_: Request) -> tuple[CaseResult, ...]:
        raise KeyboardInterrupt

    monkeypatch.setattr(placebos, "learn", interrupted)
    assert main.main(LEARN) == 130
    assert "what is built and measured stays, and the same command goes on from there" in capsys.readouterr().err

    def failed(_: Request) -> tuple[CaseResult, ...]:
        raise InfrastructureError("the disk is full")

    monkeypatch.setattr(placebos, "learn", failed)
    assert main.main(LEARN) == 3
