# SPDX-License-Identifier: MIT
from __future__ import annotations

from pathlib import Path

import pytest
from selftests import lava_log, lava_records
from selftests.lava_log import KERNEL, boot, boot_lines, deploy, end_lines, feedback, result, target

from rtgate.cli.main import main
from rtgate.lava.client.follow import StoppedBy
from rtgate.lava.client.server import Job
from rtgate.lava.job.server_definition import Definition
from rtgate.lava.results import log
from rtgate.lava.results.classify import Blame, classify

PANIC = (
    "[    1.200000] Kernel panic - not syncing: VFS: Unable to mount root fs on unknown-block(0,0)",
    "[    1.200001] CPU: 0 UID: 0 PID: 1 Comm: swapper/0 Not tainted 6.12.0",
    "[    1.200002] ---[ end Kernel panic - not syncing: VFS ]---",
)


def job(health: str = "Incomplete", comment: str = "") -> Job:
    return Job(
        number=7,
        name="a job",
        state="Finished",
        health=health,
        submitter="gate",
        device_type="board",
        device="board-01",
        priority="50",
        submitted="",
        started="",
        ended="",
        comment=comment,
        definition=Definition(""),
    )


def lines(*parts: str) -> tuple[log.LogLine, ...]:
    return log.parse("".join(parts))


WHOLE = (deploy(1), boot_lines(2), lava_log.shell(3))


def test_a_job_that_came_to_its_end() -> None:
    found = classify(job("Complete"), lines(*WHOLE, end_lines()))
    assert (found.blame, found.sentence, found.panics, found.may_retry) == (Blame.NOBODY, "", (), False)


@pytest.mark.parametrize("came", [False, True], ids=["nothing was announced", "records came"])
def test_a_container_that_lacks_what_the_job_asks_for_is_told(*, came: bool) -> None:
    """LAVA calls the job Complete: what a shell's commands end with is nothing to it."""
    sent = lava_records.encode(Path("/nowhere")) if came else ()
    printed = [*sent, "rtgate: unknown name 'our-suite' in tests (allowed: latency; searched: /usr/tests)"]
    refusal = lava_log.line("results", {"definition": "0_rtgate-1", "case": "rtgate.in-job", "result": "fail"})
    shell = lava_log.shell(3, printed) + refusal
    found = classify(job("Complete"), lines(deploy(1), boot_lines(2), shell, end_lines()))
    assert found.blame is (Blame.NOBODY if came else Blame.OURS)
    if not came:
        assert "in the worker's container measured nothing: unknown name 'our-suite' in tests" in found.sentence
        assert "whoever keeps the lab must load an image of this rtgate" in found.sentence
        assert (found.boot, found.may_retry) == (1, False)


@pytest.mark.parametrize(
    ("said", "lacks"),
    [
        ("RTGATE_UPLOAD_TOKEN_FILE: /token is empty", False),
        ("RTGATE_KERNEL is not JSON: Expecting value", False),
        (
            "not everything was measured (pytest ended with 4): --case x: no such case here (there are: y)",
            True,
        ),
        ("unknown kernel family 'x' (allowed: bsp, mainline)", True),
        ("/usr/share/boards/b.yaml: b has no tuning 'isolated' (allowed: default)", True),
    ],
)
def test_an_image_is_to_be_loaded_only_where_one_lacks_a_name(said: str, *, lacks: bool) -> None:
    refusal = lava_log.line("results", {"definition": "0_rtgate-1", "case": "rtgate.in-job", "result": "fail"})
    shell = lava_log.shell(3, [f"rtgate: {said}"]) + refusal
    found = classify(job("Complete"), lines(deploy(1), boot_lines(2), shell, end_lines()))
    assert found.blame is Blame.OURS
    assert f"measured nothing: {said}" in found.sentence
    assert ("must load an image" in found.sentence) is lacks


def test_a_device_that_gives_a_test_no_console_is_the_lab_s_fault(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("LAVA_CONNECTION_COMMAND", "LAVA_CONNECT_COMMAND"):
        monkeypatch.delenv(name, raising=False)
    assert main(["in-job", "--board", "rk3568-evb1", "--suite", "latency"]) == 2
    *printed, raised = capsys.readouterr().out.splitlines()
    assert "needs LAVA_CONNECTION_COMMAND" in printed[0]
    message = raised.removeprefix("<LAVA_SIGNAL_TESTRAISE ").removesuffix(">")
    end = result("lava-docker-test-shell", "fail") + end_lines("Test", message)
    found = classify(job(), lines(deploy(1), boot_lines(2), lava_log.shell(3, printed), end))
    assert (found.blame, found.may_retry) == (Blame.LAB, True)
    assert found.sentence == "infra: LAVA gives a test on this device no console: see rtgate lab-check"


def test_complete_hides_no_panic() -> None:
    """`failure_retry` tries again, and the job is Complete all the same."""
    attempts = boot(2, *KERNEL, *PANIC) + target("U-Boot 2023.01", *KERNEL, "root@board:~# ")
    found = classify(job("Complete"), lines(deploy(1), attempts, lava_log.shell(3), end_lines()))
    assert found.blame is Blame.NOBODY
    (panic,) = found.panics
    assert (panic.boot, panic.kind) == (1, "panic")
    assert "Unable to mount root" in panic.line


def test_complete_hides_no_message_that_lava_saw() -> None:
    """LAVA may know more than the console that we see; one row is enough."""
    seen = result("kernel-messages", "fail", extra=[])
    found = classify(job("Complete"), lines(deploy(1), boot_lines(2), seen, lava_log.shell(3), end_lines()))
    assert [panic.line for panic in found.panics] == ["LAVA saw the kernel fail in an attempt to boot"]


@pytest.mark.parametrize(
    ("kinds", "deaths"),
    [
        (["DUT_has_reset"], 0),
        (["DUT_has_reset", "panic"], 1),
        ([], 1),
        ([None], 1),
        (["DUT_has_reset", "DUT_has_reset"], 0),
        (["warning", "DUT_has_reset"], 0),
        (["warning", "panic"], 1),
    ],
)
def test_a_board_that_starts_again_is_no_death_by_itself(kinds: list[str | None], deaths: int) -> None:
    """LAVA from 2025.04 on takes the boot loader's banner for a message of the kernel; the power may have failed."""
    seen = result("kernel-messages", "fail", extra={"extra": [{"kind": kind} for kind in kinds]})
    found = classify(job("Complete"), lines(deploy(1), boot_lines(2), seen, lava_log.shell(3), end_lines()))
    assert len(found.panics) == deaths


PRODUCT_AT_BOOT = boot(2, *KERNEL, *PANIC) + result("kernel-messages", "fail") + result("auto-login-action", "fail")


@pytest.mark.parametrize(
    ("parts", "kind", "message", "blame", "state", "told"),
    [
        pytest.param(
            (deploy(1), PRODUCT_AT_BOOT),
            "Job",
            "Kernel panic - not syncing: VFS",
            Blame.PRODUCT,
            "no boot",
            "panic: Kernel panic - not syncing: VFS: Unable",
            id="panic at boot",
        ),
        pytest.param(
            (deploy(1), boot(2, *KERNEL, *PANIC)),
            "Infrastructure",
            "Connection closed",
            Blame.PRODUCT,
            "no boot",
            "panic",
            id="panic, and the line went away",
        ),
        pytest.param(
            (*WHOLE, feedback(*PANIC)),
            "Test",
            "lava-docker-test-shell timed out after 600 seconds",
            Blame.PRODUCT,
            "kernel fault",
            "panic",
            id="panic during the test",
        ),
        pytest.param(
            (deploy(1), boot_lines(2), lava_log.shell(3, action=lava_log.ON_BOARD)),
            "Test",
            "lava-test-shell timed out after 600 seconds",
            Blame.PRODUCT,
            "hang",
            "the test hung",
            id="hang of the board's own shell",
        ),
        pytest.param(
            WHOLE,
            "Test",
            "lava-docker-test-shell timed out after 600 seconds",
            Blame.LAB,
            "lab",
            "LAVA ended the test in the worker's container",
            id="a slow upload from the worker",
        ),
        pytest.param(
            (deploy(1), boot(2, "Bad Linux ARM64 Image magic!")),
            "Infrastructure",
            "matched a bootloader error message: 'Bad Linux ARM64 Image magic!'",
            Blame.PRODUCT,
            "no boot",
            "the boot loader refuses the image: Bad Linux ARM64",
            id="no kernel image",
        ),
        pytest.param(
            (deploy(1), boot(2, *KERNEL, "[    0.5] last words")),
            "Job",
            "auto-login-action timed out after 240 seconds",
            Blame.SILENT,
            "no boot",
            "its last line: [ 0.5] last words",
            id="silence after the kernel began",
        ),
        pytest.param(
            (deploy(1), boot(2)),
            "Job",
            "bootloader-commands timed out after 180 seconds",
            Blame.LAB,
            "lab",
            "before the kernel began",
            id="silence before",
        ),
        pytest.param(
            (deploy(1), boot(2) + result("reset-device", "fail")),
            "Infrastructure",
            "Command '['false']' returned non-zero exit status 1",
            Blame.LAB,
            "lab",
            "before the kernel began (reset-device)",
            id="power",
        ),
        pytest.param(
            (lava_log.start(1, "tftp-deploy"), result("http-download", "fail")),
            "Job",
            "Resource unavailable at 'http://h/Image' (404)",
            Blame.LAB,
            "lab",
            "could not fetch what the job boots",
            id="download",
        ),
        pytest.param(
            WHOLE, "Bug", "no such container", Blame.LAB, "lab", "LAVA's worker failed during the test", id="docker"
        ),
        pytest.param(
            (deploy(1), boot_lines(2), lava_log.start(3, "lava-docker-test-shell-retry")),
            "Test",
            "lava-docker-test-shell timed out after 600 seconds",
            Blame.LAB,
            "lab",
            "said nothing at all",
            id="a container that never spoke",
        ),
        pytest.param(
            WHOLE,
            "Test",
            "infra: the console is busy",
            Blame.LAB,
            "lab",
            "infra: the console is busy",
            id="declared lab",
        ),
        pytest.param(
            WHOLE, "Test", "Invalid measurement 'x'", Blame.OURS, "unreadable", "not what LAVA takes", id="our signals"
        ),
        pytest.param(
            (lava_log.start(0, "validate"),),
            "Job",
            "Invalid job data: unknown boot method",
            Blame.OURS,
            "lab",
            "LAVA cannot carry the job out",
            id="our job",
        ),
        pytest.param(
            (lava_log.start(0, "validate"),),
            "Configuration",
            "no such device dictionary",
            Blame.LAB,
            "lab",
            "the lab's configuration is wrong",
            id="the lab's dictionary",
        ),
    ],
)
def test_whose_fault(parts: tuple[str, ...], kind: str, message: str, blame: Blame, state: str, told: str) -> None:
    found = classify(job(), lines(*parts, end_lines(kind, message)))
    assert (found.blame, found.state) == (blame, state)
    assert told in found.sentence
    assert found.may_retry == (blame is Blame.LAB)
    assert found.line > 0


@pytest.mark.parametrize(
    ("quiet", "emulated", "blame"),
    [(2, True, Blame.LAB), (2, False, Blame.SILENT), (120, True, Blame.SILENT)],
    ids=["slow", "hardware", "silent for minutes"],
)
def test_an_emulated_board_that_boots_slowly_is_the_hosts(quiet: int, emulated: bool, blame: Blame) -> None:
    """As a slow tool is there: what the host has left says nothing of the kernel."""
    parts = (deploy(1), boot(2, *KERNEL, "[   60.0] Run /init"), lava_log.pass_time(quiet), result("u", "fail"))
    found = classify(job(), lines(*parts, end_lines("Job", "auto-login-action timed out")), emulated=emulated)
    assert found.blame is blame
    assert ("its host was too busy, look at what else runs there" in found.sentence) is (blame is Blame.LAB)


def test_cancelled() -> None:
    found = classify(job("Canceled"), lines(*WHOLE, end_lines("Canceled", "The job was canceled")))
    assert (found.blame, found.may_retry) == (Blame.CANCELLED, False)


def test_a_job_that_rtgate_cancelled_says_why() -> None:
    """Nobody else is blamed for it."""
    ending = classify(job("Canceled"), lines(*WHOLE), stopped_by=StoppedBy.TOO_LONG)
    assert ending.sentence == "rtgate cancelled the job: LAVA did not end it in time"
    assert (ending.blame, ending.may_retry) == (Blame.CANCELLED, False)


def test_no_board_became_free() -> None:
    assert classify(job("Canceled"), (), stopped_by=StoppedBy.QUEUE).blame is Blame.QUEUE


def test_a_job_that_lava_gave_up_without_a_word() -> None:
    found = classify(job(comment="worker1 went offline"), ())
    assert (found.blame, found.sentence) == (Blame.LAB, "worker1 went offline")
    assert "without a word" in classify(job(), lines(*WHOLE)).sentence


def test_complete_without_its_last_line_is_not_believed_to_be_broken() -> None:
    assert classify(job("Complete"), lines(*WHOLE)).blame is Blame.NOBODY


def test_an_error_in_a_job_that_calls_itself_complete() -> None:
    found = classify(job("Complete"), lines(*WHOLE, end_lines("Infrastructure", "power-off timed out")))
    assert found.blame is Blame.LAB


def test_the_shell_of_the_worker_is_no_console() -> None:
    """What our own program prints about a panic is not a panic of the kernel."""
    printed = lava_log.shell(3, ["rtgate: kernel fault: Kernel panic - not syncing: as the record says"])
    assert classify(job("Complete"), lines(deploy(1), boot_lines(2), printed, end_lines())).panics == ()


def test_control_characters_of_a_board_do_not_come_through() -> None:
    bad = "[    1.2] Kernel panic - not syncing: \x1b[31m\x07red\x9b2J"
    found = classify(job(), lines(deploy(1), boot(2, *KERNEL, bad), end_lines("Job", "\x1b]0;title\x07")))
    assert found.sentence.isprintable()
    assert all(panic.line.isprintable() for panic in found.panics)


def test_the_boot_that_broke_is_named() -> None:
    turns = (deploy(1), boot_lines(2), lava_log.shell(3), deploy(4), PRODUCT_AT_BOOT)
    found = classify(job(), lines(*turns, end_lines("Job", "Kernel panic")))
    assert (found.boot, found.blame) == (2, Blame.PRODUCT)
    assert found.full_sentence.startswith("boot 2: panic: ")
    assert [fault.kind.value for fault in found.faults] == ["panic"]
