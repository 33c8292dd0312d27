# SPDX-License-Identifier: MIT
"""`rtgate submit --endpoint` and `rtgate fetch`: a job of two boards, from kernels to one verdict."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from selftests import lava_log
from selftests.commands.test_submit import CASES, WAIT, server, story, verdicts
from selftests.fake_target import measured_outcome
from selftests.lava_log import KERNEL, boot, boot_lines, deploy, end_lines, result
from selftests.lava_records import print_on_board, print_records
from selftests.lava_server import BOARD, SITE_BOARD, LavaServer, Story
from selftests.unit.cli.conftest import _forget_qemu, _undrawn
from selftests.unit.lava.results.test_classify import PANIC

from rtgate.cli import main
from rtgate.errors import DeadlineError
from rtgate.lava.client.follow import FinishedJob, Following
from rtgate.measure.case import Case
from rtgate.target.outcome import Outcome
from rtgate.tools.dmatest import Dmatest
from rtgate.workflow import suites

__all__ = ["_forget_qemu", "_undrawn", "server"]

ENDPOINT = "endpoint-one-cpu"
PAIR = (*WAIT, "--endpoint", ENDPOINT, "--endpoint-kernel", "kernel", "--endpoint-set-up", "set-up.sh")
POWER = [deploy(1), boot(2), result("reset-device", "fail"), end_lines("Infrastructure", "reset-device failed")]


@pytest.fixture
def lab(server: LavaServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LavaServer:
    """The lab with a second board, whose kernel lies on a server that nobody asks."""
    text = SITE_BOARD.replace(f"device_type: {BOARD}", f"device_type: {ENDPOINT}")
    (tmp_path / "site" / "boards" / f"{ENDPOINT}.yaml").write_text(text)
    (tmp_path / "set-up.sh").write_text("echo set up\n")
    server.types[ENDPOINT] = ""
    server.device("board-02")
    server.devices[1]["device_type"] = ENDPOINT
    monkeypatch.setattr("rtgate.workflow.submission.check_files", lambda _files: None)
    monkeypatch.setattr("rtgate.rootfs.images.image", lambda *_a, **_k: Place(tmp_path / "ramdisk.cpio.gz"))
    return server


class Place:
    def __init__(self, path: Path) -> None:
        self.path = path


def endpoint_story(*, test: str = "", end: str = "", booting: str = "", health: str = "Complete") -> Story:
    """Return an endpoint's job, which measures by itself, with its transport `board`."""
    log = [deploy(1), booting or boot_lines(2), test or endpoint_test(), end or end_lines()]
    return Story(log=log, health=health, device="board-02")


def endpoint_test(*then: str, outcome: Outcome | None = None, last_words: Sequence[str] | None = None) -> str:
    """Return the test of an endpoint: what it measured, or how far it came, and what it prints then."""
    lines = print_on_board(CASES, ENDPOINT, outcome=outcome, last_words=last_words)
    return lava_log.shell(3, [*lines, *then], lava_log.TOGETHER)


def records(board: str) -> list[Path]:
    return sorted(Path("report/records", board).rglob("record.json"))


def test_both_sides_are_judged_together(lab: LavaServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lab.stories += [story(tmp_path), endpoint_story()]
    assert main.main(PAIR) in {0, 5}
    told = capsys.readouterr()
    assert "1 of 1 boards usable" in told.err
    assert "job 1: Finished Complete" in told.err
    assert {verdict["board"] for verdict in verdicts()} == {BOARD, ENDPOINT}
    assert len(records(BOARD)) == len(records(ENDPOINT)) == 1
    assert sorted(path.name for path in Path("report/lava").glob("*.log")) == ["job-1.log", "job-2.log"]
    made = [yaml.safe_load(job.definition) for job in lab.jobs.values()]
    assert [part["device_type"] for part in made] == [BOARD, ENDPOINT]


def test_an_overlay_changes_the_endpoint_s_device_tree_alone(
    lab: LavaServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "endpoint.dtso").write_text("what is applied")
    trees = {ENDPOINT: {"dtb": "board.dtb"}}
    monkeypatch.setattr("rtgate.workflow.job_files._of_build", lambda board, *_: trees.get(board.name, {}))
    monkeypatch.setattr("rtgate.workflow.job_files._apply_overlays", lambda _dtb, overlays, _stack: overlays[0])
    lab.stories += [story(tmp_path), endpoint_story()]
    assert main.main((*PAIR, "--endpoint-overlay", "endpoint.dtso")) in {0, 5}
    own, other = (yaml.safe_load(job.definition) for job in lab.jobs.values())
    assert own["metadata"]["endpoint-overlays"] == "endpoint.dtso"
    deploys = [part["actions"][0]["deploy"] for part in (own, other)]
    assert "dtb" not in deploys[0]
    assert deploys[1]["dtb"]["url"].endswith("/endpoint.dtso")


def test_the_number_of_the_first_job_is_enough_to_judge_both_again(
    lab: LavaServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lab.stories += [story(tmp_path), endpoint_story()]
    main.main(PAIR)
    first = verdicts()
    assert main.main(["fetch", "1", "-o", "again"]) in {0, 5}
    assert verdicts(Path("again")) == first
    capsys.readouterr()
    assert main.main(["fetch", "2", "-o", "other"]) == 2
    assert "job 2 is the endpoint's part of job 1: fetch that" in capsys.readouterr().err


def test_an_endpoint_without_records_is_missed(lab: LavaServer, tmp_path: Path) -> None:
    """The root complex passes, and the whole does not."""
    lab.stories += [story(tmp_path), Story(log=[deploy(1), boot_lines(2), lava_log.shell(3), end_lines()])]
    assert main.main(PAIR) == 3
    (verdict,) = (one for one in verdicts() if one["board"] == ENDPOINT)
    assert verdict["status"] == "MISS"


def cancelled() -> Story:
    """LAVA ends the root complex's job where the endpoint's breaks."""
    return Story(log=[deploy(1)], health="Canceled")


def broken_endpoint(log: list[str]) -> Story:
    return Story(log=list(log), health="Incomplete", device="board-02")


def test_an_endpoint_that_the_lab_breaks_is_tried_again(
    lab: LavaServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lab.stories += [cancelled(), broken_endpoint(POWER), story(tmp_path), endpoint_story()]
    assert main.main(PAIR) in {0, 5}
    assert "the lab failed, trying again (1 of 2): the endpoint's job 2: " in capsys.readouterr().err
    assert len(records(BOARD)) == len(records(ENDPOINT)) == 1


def test_an_endpoint_whose_kernel_dies_is_no_failure_of_the_kernel_that_is_judged(
    lab: LavaServer, capsys: pytest.CaptureFixture[str]
) -> None:
    panic = [deploy(1), boot(2, *KERNEL, *PANIC), end_lines("Job", "kernel panic")]
    for _ in range(3):
        lab.stories += [cancelled(), broken_endpoint(panic)]
    assert main.main(PAIR) == 3
    assert {(one["board"], one["status"]) for one in verdicts()} == {(BOARD, "MISS"), (ENDPOINT, "MISS")}


def test_a_kernel_that_panics_fails_whatever_its_endpoint_does(lab: LavaServer, tmp_path: Path) -> None:
    panic = [deploy(1), boot(2, *KERNEL, *PANIC), end_lines("Job", "kernel panic")]
    lab.stories += [Story(log=panic, health="Incomplete"), Story(log=[deploy(1)], health="Canceled", device="board-02")]
    assert main.main(PAIR) == 1
    assert (BOARD, "FAIL") in {(one["board"], one["status"]) for one in verdicts()}


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--endpoint", ENDPOINT), "a second board needs --endpoint, --endpoint-kernel and --endpoint-set-up"),
        ((*PAIR[len(WAIT) :], "--baseline", "kernel"), "measures one kernel, so leave --baseline out"),
        (("--endpoint", BOARD, *PAIR[len(WAIT) + 2 :]), "give the endpoint a board file of its own"),
        (
            (*PAIR[len(WAIT) :], "--endpoint-kernel", "http://192.0.2.1/Image"),
            "name a directory that `rtgate build` made",
        ),
        ((*PAIR[len(WAIT) : -1], "nowhere.sh"), "--endpoint-set-up nowhere.sh: cannot be read"),
        ((*PAIR[len(WAIT) :], "--endpoint-overlay", "x.dtbo"), "--endpoint-overlay x.dtbo: expected a file of this"),
        (("--endpoint-overlay", "set-up.sh"), "a second board needs --endpoint, --endpoint-kernel"),
        (
            (*PAIR[len(WAIT) :], "--endpoint-overlay", "set-up.sh"),
            "set-up.sh: there is no device tree to apply it to: ",
        ),
        (("--endpoint", "virt-arm64", *PAIR[len(WAIT) + 2 :]), "no lab can boot it"),
    ],
)
def test_mistakes_are_found_before_anything_is_submitted(
    lab: LavaServer, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], says: str
) -> None:
    assert main.main((*WAIT, *arguments)) == 2
    assert says in capsys.readouterr().err
    assert not lab.jobs


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ((), 2),
        (("--tag", "pair-1"), 2),
        (("--tag", "pair-1", "--endpoint-tag", "ep-1"), 2),
        (("--tag", "rc-1", "--endpoint-tag", "ep-1"), 2),
        (("--device", "board-01", "--endpoint-tag", "ep-1"), 0),
    ],
)
def test_lava_gets_no_choice_of_boards_of_one_type(
    lab: LavaServer, tmp_path: Path, options: tuple[str, ...], code: int
) -> None:
    """It knows nothing of cables, and would swap the roles by chance."""
    text = SITE_BOARD.replace("description:", "description: the endpoint,")
    (tmp_path / "site" / "boards" / f"{ENDPOINT}.yaml").write_text(text)
    lab.tags.update({1: "pair-1", 2: "rc-1", 3: "ep-1"})
    for device, tags in zip(lab.devices, ([1, 2], [1, 3]), strict=True):
        device |= {"device_type": BOARD, "tags": tags}
    lab.stories += [story(tmp_path), endpoint_story()]
    assert (main.main((*PAIR, *options)) in {0, 5}) is (code == 0)
    assert bool(lab.jobs) is (code == 0)


def test_a_link_that_nobody_expects_would_not_be_missed(
    lab: LavaServer, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(suites, "cases", lambda *_arguments, **_: (Case(suite="pcie", tool=Dmatest(), load="idle"),))
    assert main.main(PAIR) == 2
    assert f"{BOARD}.yaml: list the endpoint under `pcie`" in capsys.readouterr().err
    assert not lab.jobs


def waiting(message: str) -> str:
    return lava_log.target(f"<LAVA_MULTI_NODE> <LAVA_WAIT {message}>")


@pytest.mark.parametrize("message", ["rtgate-endpoint-idle", "rtgate-endpoint-there"])
def test_a_root_complex_whose_endpoint_fell_silent_has_not_failed(
    lab: LavaServer, tmp_path: Path, message: str
) -> None:
    """LAVA ends it as a test that took too long, and reads nothing of the endpoint's console meanwhile."""
    over = end_lines("Test", "lava-multinode-docker-test-shell timed out after 3600 seconds")
    warning = lava_log.feedback("WARNING: CPU: 0 PID: 1 at drivers/pci/probe.c:1 pci_scan_device+0x1/0x2")
    log = [deploy(1), boot_lines(2), lava_log.start(3, "lava-docker-test"), waiting(message), warning, over]
    for _ in range(3):
        lab.stories += [
            Story(log=list(log), health="Incomplete"),
            Story(log=[deploy(1), boot_lines(2)], health="Canceled", device="board-02"),
        ]
    assert main.main(PAIR) == 3
    assert {(one["board"], one["status"]) for one in verdicts()} == {(BOARD, "MISS"), (ENDPOINT, "MISS")}
    assert any("the endpoint (job 6) answers no more" in one["sentence"] for one in verdicts())


def test_a_set_up_that_fails_in_words_of_its_own_is_missed(lab: LavaServer) -> None:
    test = lava_log.shell(3, ["+ lava-test-raise 'no controller'"], lava_log.TOGETHER)
    lab.stories += [cancelled(), endpoint_story(test=test, end=end_lines("Test", "no controller"), health="Incomplete")]
    assert main.main((*PAIR, "--retries", "0")) == 3
    assert {one["status"] for one in verdicts()} == {"MISS"}
    assert any("no controller" in one["sentence"] for one in verdicts())


def lost_endpoint(tmp_path: Path, log: bytes, *, silent: bool = False) -> list[Story]:
    """Return the jobs of a root complex that measured with this log of its kernel, and of its endpoint, which went."""
    lines = print_records(tmp_path / "sent-alone", CASES, board=BOARD, outcome=measured_outcome(dmesg=log))
    test = lava_log.shell(3, lines)
    if silent:
        over = end_lines("Test", "lava-multinode-docker-test-shell timed out after 3600 seconds")
        own = Story(log=[deploy(1), boot_lines(2), test + waiting("rtgate-endpoint-there"), over], health="Incomplete")
        return [own, endpoint_story(end=end_lines("Canceled", "The job was canceled"), health="Canceled")]
    own = Story(log=[deploy(1), boot_lines(2), test], health="Canceled")
    return [own, endpoint_story(end=end_lines("Infrastructure", "Connection closed"), health="Incomplete")]


@pytest.mark.parametrize("silent", [False, True])
def test_what_a_root_complex_recorded_without_its_endpoint_is_not_judged(
    lab: LavaServer, tmp_path: Path, capsys: pytest.CaptureFixture[str], *, silent: bool
) -> None:
    """A driver may complain, and a test fail, because the other side is gone."""
    warning = b"[   60.100000] WARNING: CPU: 0 PID: 1 at drivers/pci/probe.c:1 pci_scan_device+0x1/0x2\n"
    lab.stories += [*lost_endpoint(tmp_path, warning, silent=silent), story(tmp_path), endpoint_story()]
    assert main.main(PAIR) in {0, 5}
    assert "the lab failed, trying again (1 of 2): the endpoint" in capsys.readouterr().err
    assert len(records(BOARD)) == len(records(ENDPOINT)) == 1
    assert main.main(["fetch", "1", "-o", "alone"]) == 3
    assert "1 record left out: the root complex lost its endpoint" in capsys.readouterr().err
    assert {one["status"] for one in verdicts(Path("alone")) if one["board"] == BOARD} == {"MISS"}


def test_a_death_that_a_root_complex_recorded_fails_without_its_endpoint_too(lab: LavaServer, tmp_path: Path) -> None:
    """LAVA sees little of a console that rtgate uses."""
    oops = b"[   60.100000] Internal error: Oops: 0000000096000004 [#1] PREEMPT_RT SMP\n"
    lab.stories += lost_endpoint(tmp_path, oops)
    assert main.main(PAIR) == 1
    assert (BOARD, "FAIL") in {(one["board"], one["status"]) for one in verdicts()}
    assert len(lab.jobs) == 2


def test_an_endpoint_whose_kernel_dies_at_the_end_is_no_failure(lab: LavaServer, tmp_path: Path) -> None:
    dying = endpoint_story(test=endpoint_test() + lava_log.feedback(*PANIC))
    lab.stories += [story(tmp_path), dying]
    assert main.main(PAIR) == 3
    assert "FAIL" not in {one["status"] for one in verdicts()}


def silent_root_complex() -> Story:
    """A root complex whose endpoint does not say that it has measured: LAVA ends it as a test that took too long."""
    over = end_lines("Test", "lava-multinode-docker-test-shell timed out after 3600 seconds")
    test = lava_log.start(3, "lava-docker-test") + waiting("rtgate-endpoint-idle")
    return Story(log=[deploy(1), boot_lines(2), test, over], health="Incomplete")


OVER = end_lines("Test", "multinode-test timed out after 3600 seconds")
IDLE = waiting("rtgate-root-complex-end")
DYING_END = lava_log.start(99, "finalize") + lava_log.feedback(*PANIC) + result("job", "fail", error_type="Canceled")
BROKEN_ENDPOINTS = {
    "dies in a case": lambda: endpoint_story(test=endpoint_test(last_words=PANIC), end=OVER, health="Incomplete"),
    "hangs in a case": lambda: endpoint_story(test=endpoint_test(last_words=()), end=OVER, health="Incomplete"),
    "is cancelled in a case": lambda: endpoint_story(test=endpoint_test(last_words=()), health="Canceled"),
    "dies while it waits": lambda: endpoint_story(test=endpoint_test() + IDLE, end=DYING_END, health="Canceled"),
    "dies before the end": lambda: endpoint_story(test=endpoint_test() + lava_log.target(*PANIC), health="Canceled"),
}


@pytest.mark.parametrize("how", BROKEN_ENDPOINTS)
def test_an_endpoint_that_breaks_while_it_measures_or_waits_is_the_lab_s(
    lab: LavaServer, capsys: pytest.CaptureFixture[str], how: str
) -> None:
    """Its kernel is not judged: what it printed last fails nothing, and the job is tried again."""
    lab.stories += [silent_root_complex(), BROKEN_ENDPOINTS[how](), silent_root_complex(), BROKEN_ENDPOINTS[how]()]
    assert main.main((*PAIR, "--retries", "1")) == 3
    assert "the lab failed, trying again (1 of 1): " in capsys.readouterr().err
    assert {(one["board"], one["status"]) for one in verdicts()} >= {(BOARD, "MISS"), (ENDPOINT, "MISS")}
    assert not {one["status"] for one in verdicts()} & {"FAIL", "ERROR"}


def test_an_endpoint_that_booted_at_the_second_attempt_fails_nothing(lab: LavaServer, tmp_path: Path) -> None:
    attempts = boot(2, *KERNEL, *PANIC) + lava_log.target("U-Boot 2023.01", *KERNEL, "root@board:~# ")
    lab.stories += [story(tmp_path), endpoint_story(booting=attempts)]
    assert main.main(PAIR) == 3
    assert not {one["status"] for one in verdicts()} & {"FAIL", "ERROR"}


def test_a_warning_of_an_endpoint_fails_even_if_it_dies_later(
    lab: LavaServer, capsys: pytest.CaptureFixture[str]
) -> None:
    """What it measured is judged, and trying again could only hide that."""
    warning = "[   60.100000] WARNING: CPU: 0 PID: 1 at drivers/pci/endpoint/x.c:1 foo+0x1/0x2"
    outcome = measured_outcome(dmesg=f"{warning}\n".encode())
    dying = endpoint_story(test=endpoint_test(outcome=outcome) + IDLE, end=DYING_END, health="Canceled")
    lab.stories += [silent_root_complex(), dying]
    assert main.main(PAIR) == 1
    assert "but trying again could only hide this: " in capsys.readouterr().err
    failures = [one for one in verdicts() if one["status"] == "FAIL"]
    assert {(one["board"], one["kind"]) for one in failures} == {(ENDPOINT, "kernel fault")}
    assert all("WARNING" in one["sentence"] for one in failures)


def test_an_endpoint_whose_job_does_not_end_leaves_the_other_s_verdict(
    lab: LavaServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    panic = [deploy(1), boot(2, *KERNEL, *PANIC), end_lines("Job", "kernel panic")]
    follow = Following.follow

    def end_or_not(job: Following) -> FinishedJob:
        if job.number == 2:
            raise DeadlineError("job 2 was cancelled and does not end: its worker may be away")
        return follow(job)

    monkeypatch.setattr(Following, "follow", end_or_not)
    lab.stories += [Story(log=panic, health="Incomplete"), Story(log=[deploy(1)], endless=True, device="board-02")]
    assert main.main(PAIR) == 1
    assert (BOARD, "FAIL") in {(one["board"], one["status"]) for one in verdicts()}


def test_a_lab_without_the_endpoint_s_type_is_told_before(lab: LavaServer, capsys: pytest.CaptureFixture[str]) -> None:
    del lab.types[ENDPOINT]
    lab.devices.pop()
    assert main.main(PAIR) in {2, 3}
    assert ENDPOINT in capsys.readouterr().err
    assert not lab.jobs


def test_a_rendered_job_has_both_boards(lab: LavaServer, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [word for word in PAIR if word != "--wait"]
    assert main.main(["render", *arguments[1:], "--artefacts-url", "https://b.example.org/x", "-o", "job"]) == 0
    made: dict[str, Any] = yaml.safe_load(Path("job/job.yaml").read_text())
    assert set(made["protocols"]["lava-multinode"]["roles"]) == {"root-complex", "endpoint"}
    assert {"rtgate.order.1", "rtgate.endpoint.1"} <= set(made["metadata"])
