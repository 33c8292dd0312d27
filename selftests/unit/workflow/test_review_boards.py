# SPDX-License-Identifier: MIT
"""Boards of a lab in a review: what is asked of them, with jobs that are not submitted."""

from __future__ import annotations

import argparse
import tarfile
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from selftests.lava_server import TOKEN, LavaServer, Story
from selftests.unit.lava.client.test_server import job
from selftests.unit.lava.conftest import _no_identities, lava, server

from rtgate import durations
from rtgate.board import boards
from rtgate.cli import submit
from rtgate.errors import BuildError, ConfigError, InfrastructureError, RtgateError
from rtgate.judge.verdict import Kind, Status, Verdict, exit_code
from rtgate.kernel import artefacts
from rtgate.kernel.merge import Commits
from rtgate.lava.client import access
from rtgate.lava.client.server import Lava
from rtgate.measure.case import Case
from rtgate.rootfs import images
from rtgate.tools.cyclictest import Cyclictest
from rtgate.tools.xenomai import XenomaiLatency
from rtgate.workflow import kernels, lab_jobs, review_boards, suites
from rtgate.workflow.judging import Criteria
from rtgate.workflow.policy import LabBoard
from rtgate.workflow.review_boards import BoardsRequest, check_lab, measure_on_boards

__all__ = ["_no_identities", "lava", "server"]

ENTRY = LabBoard(board="lab-virt-arm64", build="virt-arm64-preempt_rt", all_cases=True)
TYPE = boards.board(ENTRY.board).lava.device_type  # type: ignore[union-attr]
COMMITS = Commits(base="b" * 40, head="c" * 40, candidate="d" * 40, subject="x")
CASES = (Case(suite="latency", tool=Cyclictest(), load="idle"),)
DEAD = Verdict(
    status=Status.FAIL,
    kind=Kind.BOOT,
    sentence="does not boot",
    board="virt-arm64",
    arm="candidate",
    flavour="",
    case="a",
)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Any]:
    """Return what is submitted."""
    submitted: list[Any] = []
    monkeypatch.setenv("RTGATE_LAVA_URL", "http://127.0.0.1:1")
    monkeypatch.setattr(suites, "cases", lambda *_, **__: CASES)
    monkeypatch.setattr(kernels, "build_commit", lambda *_: tmp_path / "kernel")
    monkeypatch.setattr(review_boards, "prepare_series", lambda submission, *_: submitted.append(submission))
    monkeypatch.setattr(review_boards, "carry_out", lambda *_: [])
    return submitted


def _request(tmp_path: Path, merge_request: str = "") -> BoardsRequest:
    builds = kernels.CommitBuilds(tmp_path)
    return BoardsRequest(
        entries=[ENTRY],
        builds=builds,
        commits=COMMITS,
        merge_request=merge_request,
        output=tmp_path,
        criteria=Criteria(history="sqlite:///history.db"),
    )


def test_both_kernels_are_submitted_in_looks(asked: list[Any], tmp_path: Path) -> None:
    done = measure_on_boards(_request(tmp_path), [])
    (submission,) = asked
    assert set(submission.kernels) == {"baseline", "candidate"}
    assert submission.in_looks
    assert submission.options.metadata == ()
    parser = argparse.ArgumentParser()
    submit.add_options(parser)
    queue_s = durations.parse(parser.get_default("queue_timeout"))
    assert (submission.options.queue_s, submission.options.retries) == (queue_s, parser.get_default("retries"))
    refusal = submission.budget.refusal(90.0, "more")  # who reviews has no option --budget
    assert refusal.endswith("are spent: `budget: 90min` of lab-virt-arm64 in policy.yaml allows it")
    assert submission.criteria.history == "sqlite:///history.db"
    assert done.cases == {"lab-virt-arm64": ["latency/cyclictest:idle"]}
    assert set(done.arms["lab-virt-arm64"]) == {"baseline", "candidate"}
    assert done.verdicts == []


@pytest.mark.parametrize(
    ("said", "more", "codes", "measured"),
    [
        ((Status.PASS, Kind.NO_WORSE), 0.5, 5, 0),
        ((Status.PASS, Kind.NO_WORSE), 2.1, 0, 1),
        ((Status.FAIL, Kind.REGRESSION), 0.5, 1, 0),
    ],
)
def test_what_is_always_measured_and_does_not_fit_the_budget_is_open(
    asked: list[Any], tmp_path: Path, said: tuple[Status, Kind], more: float, codes: int, measured: int
) -> None:
    """As `rtgate select-cases`, which ends with 5: the screen looked at virtual time alone."""
    entry = replace(ENTRY, board="rk3568-evb1", build="rk3568-preempt_rt", all_cases=False)
    entry = replace(entry, budget=review_boards._wish(entry).booting + more)
    screen = replace(DEAD, status=said[0], kind=said[1], case=CASES[0].name)
    done = measure_on_boards(replace(_request(tmp_path), entries=[entry]), [screen])
    assert exit_code([screen, *done.verdicts]) == codes
    assert len(asked) == len(done.cases) == measured
    for one in done.verdicts:
        assert (one.board, one.case) == (entry.board, CASES[0].name)
        assert "board-minutes do not fit `budget` of rk3568-evb1 in policy.yaml (" in one.sentence
    assert len(done.verdicts) == 1 - measured


@pytest.mark.parametrize(("budget", "warnings"), [(1.0, 1), (600.0, 0)])
def test_all_cases_are_measured_once_whatever_the_budget_is_and_a_smaller_one_is_said(
    asked: list[Any], tmp_path: Path, capsys: pytest.CaptureFixture[str], budget: float, warnings: int
) -> None:
    entry = replace(ENTRY, budget=budget)
    measure_on_boards(replace(_request(tmp_path), entries=[entry]), [])
    assert len(asked) == 1
    said = capsys.readouterr().err
    assert said.count("min for the first 3 pairs of boots; its budget of 1 min allows no more after them") == warnings


def test_what_the_screen_left_open_and_the_board_cannot_answer_stays_open(
    asked: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Slower by less than fails, as the screen says: alone that is exit code 0."""
    cases = (*CASES, Case(suite="latency", tool=XenomaiLatency(), load="idle"))
    monkeypatch.setattr(suites, "cases", lambda *_, **__: cases)
    entry = replace(ENTRY, board="rk3568-evb1", build="rk3568-preempt_rt", all_cases=False, profile="mr", budget=900.0)
    screen = replace(DEAD, status=Status.PASS, kind=Kind.SLOWER, case=cases[1].name)
    done = measure_on_boards(replace(_request(tmp_path), entries=[entry]), [screen])
    (left_open,) = [one for one in done.verdicts if one.case == screen.case]
    assert (left_open.status, left_open.kind) == (Status.DONE, Kind.INCONCLUSIVE)
    assert "rk3568-evb1 cannot answer it: " in left_open.sentence
    assert exit_code([screen, *done.verdicts]) == 5
    assert len(asked) == 1  # what else there is is measured


def test_a_case_that_was_only_not_exercised_may_wait(asked: list[Any], tmp_path: Path) -> None:
    entry = replace(ENTRY, board="rk3568-evb1", build="rk3568-preempt_rt", all_cases=False, profile="smoke")
    entry = replace(entry, budget=review_boards._wish(entry).booting + 0.1)
    done = measure_on_boards(replace(_request(tmp_path), entries=[entry]), [])
    assert (done.verdicts, done.cases, asked) == ([], {}, [])


def test_a_kernel_that_dies_on_virtual_time_is_sent_to_no_board(asked: list[Any], tmp_path: Path) -> None:
    done = measure_on_boards(_request(tmp_path), [DEAD])
    assert (asked, done.cases, done.verdicts) == ([], {}, [])


def test_a_kernel_that_cannot_be_built_for_the_board_fails(
    asked: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def build(_build: str, _tree: Path, _commit: str, label: str, *_: object) -> Path:
        if label == "candidate":
            raise BuildError("no")
        return tmp_path

    monkeypatch.setattr(kernels, "build_commit", build)
    (verdict,) = measure_on_boards(_request(tmp_path), []).verdicts
    assert (verdict.status, verdict.kind, verdict.board) == (Status.FAIL, Kind.BUILD, "lab-virt-arm64")
    assert asked == []


def _kernel(place: Path, dtb: str) -> Path:
    """Return a build of a kernel, whose archive of device trees has one of this name."""
    place.mkdir()
    (place / "Image").write_bytes(bytes(56) + b"ARM\x64" + bytes(8))
    (place / "config").write_text("CONFIG_PREEMPT_RT=y\n")
    with tarfile.open(place / "dtbs.tar.xz", "w:xz") as archive:
        archive.addfile(tarfile.TarInfo(f"rockchip/{dtb}"))
    return place


@pytest.mark.parametrize(
    ("baseline", "candidate", "kinds"),
    [("rk3568-evb1-v10.dtb", "other.dtb", [Kind.BUILD]), ("other.dtb", "other.dtb", [])],
    ids=["lost", "never there"],
)
def test_a_kernel_that_lost_the_boards_device_tree_fails(
    asked: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, baseline: str, candidate: str, kinds: list[Kind]
) -> None:
    """Where the baseline has none either, whoever runs the lab must act: `prepare_series` says it."""
    (tmp_path / "ramdisk").touch()
    monkeypatch.setattr(images, "image", lambda *_, **__: SimpleNamespace(path=tmp_path / "ramdisk"))
    load = artefacts.load
    monkeypatch.setattr(artefacts, "load", lambda place: replace(load(place), dtbs=place / "dtbs.tar.xz"))
    built = {"base": _kernel(tmp_path / "old", baseline), "candidate": _kernel(tmp_path / "new", candidate)}
    monkeypatch.setattr(kernels, "build_commit", lambda _build, _tree, _commit, label, *_: built[label])
    entry = replace(ENTRY, board="rk3568-evb1", build="rk3568-preempt_rt")
    done = measure_on_boards(replace(_request(tmp_path), entries=[entry]), [])
    assert [verdict.kind for verdict in done.verdicts] == kinds
    assert len(asked) == len(done.cases) == (0 if kinds else 1)
    for verdict in done.verdicts:
        assert (verdict.status, verdict.board) == (Status.FAIL, "rk3568-evb1")
        assert "has no rockchip/rk3568-evb1-v10.dtb" in verdict.sentence


@pytest.mark.parametrize("kind", [InfrastructureError, ConfigError])
def test_a_lab_that_is_away_or_takes_no_job_is_missed(
    asked: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: type[RtgateError]
) -> None:
    """What the screen has measured stands: an error here would take it away."""

    def away(*_: object) -> None:
        raise kind("the lab takes no job")

    monkeypatch.setattr(review_boards, "prepare_series", away)
    done = measure_on_boards(_request(tmp_path), [])
    assert [(one.status, one.kind, one.sentence) for one in done.verdicts] == [
        (Status.MISS, Kind.LAB, "not measured: the lab takes no job")
    ]
    assert done.cases  # what it had to measure is missed, too


def test_a_policy_with_boards_needs_a_token(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RTGATE_LAVA_TOKEN", "RTGATE_LAVA_TOKEN_FILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("RTGATE_LAVA_URL", "http://127.0.0.1:1")
    check_lab([])
    with pytest.raises(ConfigError, match=r"boards of a lab \(lab-virt-arm64\).*RTGATE_LAVA_TOKEN_FILE"):
        check_lab([ENTRY])


@pytest.mark.parametrize(
    ("types", "tags", "message"),
    [({"board": ""}, (), "knows no device type"), ({"board": "", TYPE: ""}, ("fast",), "has no device of type")],
)
def test_a_lab_without_the_board_is_said_before_anything_is_built(
    server: LavaServer, monkeypatch: pytest.MonkeyPatch, types: dict[str, str], tags: tuple[str, ...], message: str
) -> None:
    server.types = types
    monkeypatch.setenv("RTGATE_LAVA_URL", server.url)
    monkeypatch.setenv("RTGATE_LAVA_TOKEN", TOKEN)
    with pytest.raises(ConfigError, match=message):
        check_lab([replace(ENTRY, tags=tags)])


def test_a_lab_that_is_away_before_the_screen_is_asked_again_after_it(
    server: LavaServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    server.moods = [("GET", "", "503")] * 100
    monkeypatch.setenv("RTGATE_LAVA_URL", server.url)
    monkeypatch.setenv("RTGATE_LAVA_TOKEN", TOKEN)
    check_lab([ENTRY])
    assert "the lab is asked again after the screen" in capsys.readouterr().err


def test_a_review_without_any_lab_leaves_its_boards_open(
    asked: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As of merge requests in which nobody may have the lab's token (docs/how-to/review-unknown-code.md)."""
    monkeypatch.setattr(access, "LAB_TOKEN", tmp_path / "none")
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("RTGATE_LAVA_URL", "RTGATE_LAVA_TOKEN", "RTGATE_LAVA_TOKEN_FILE"):
        monkeypatch.delenv(name, raising=False)
    check_lab([ENTRY])
    done = measure_on_boards(_request(tmp_path), [])
    assert [(one.status, one.kind, one.board) for one in done.verdicts] == [
        (Status.DONE, Kind.INCONCLUSIVE, "lab-virt-arm64")
    ]
    assert (done.cases, asked) == ({}, [])
    assert exit_code([replace(done.verdicts[0], status=Status.PASS, kind=Kind.NO_WORSE), *done.verdicts]) == 5
    assert "no board is asked (lab-virt-arm64): this review has no lab" in capsys.readouterr().err


def test_jobs_of_a_former_review_of_the_same_merge_request_are_cancelled(
    server: LavaServer, lava: Lava, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lab_jobs, "_LATEST", 1)  # however many others have submitted since
    numbers = []
    for number, review in enumerate(("https://x/1", "https://x/2", "https://x/1"), 1):
        server.stories.append(Story(endless=True))
        definition = job(f"n{number}, review: '{review}'")
        numbers.append(lava.submit(definition, f"n{number}"))
    lab_jobs.cancel_former(lava, "https://x/1")
    assert [lava.job(number).state in {"Canceling", "Finished"} for number in numbers] == [True, False, True]


UNBUILT = replace(DEAD, kind=Kind.BUILD, sentence="x86 does not build", board="", arm="", case="")
GOOD = replace(DEAD, status=Status.PASS, kind=Kind.NO_WORSE, case=CASES[0].name)


@pytest.mark.parametrize("said", [[], [DEAD], [UNBUILT], [GOOD]], ids=["measured", "dies", "unbuilt", "no case"])
def test_former_jobs_are_cancelled_whatever_is_measured_now(
    asked: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: list[Verdict]
) -> None:
    """A new commit that does not even build has made them out of date as well."""
    cancelled: list[str] = []
    monkeypatch.setattr(review_boards, "cancel_former", lambda _, review: cancelled.append(review))
    entry = replace(ENTRY, all_cases=said != [GOOD], profile="smoke")
    done = measure_on_boards(replace(_request(tmp_path, "https://x/1"), entries=[entry] * 2), said)
    assert cancelled == ["https://x/1"]
    assert len(asked) == (2 if not said else 0)
    assert done.verdicts == []


def test_former_jobs_that_cannot_be_cancelled_take_nothing_away(
    asked: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def away(*_: object) -> None:
        raise InfrastructureError("the lab is away")

    monkeypatch.setattr(review_boards, "cancel_former", away)
    assert measure_on_boards(_request(tmp_path, "https://x/1"), []).verdicts == []
    assert len(asked) == 1
    assert "jobs of a former review may go on: the lab is away" in capsys.readouterr().err
