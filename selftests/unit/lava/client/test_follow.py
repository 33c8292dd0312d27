# SPDX-License-Identifier: MIT
from __future__ import annotations

import time

import pytest
from selftests.lava_log import KERNEL, boot, boot_lines, deploy, end_lines, line, shell, start, target
from selftests.lava_server import LavaServer, Story
from selftests.unit.lava.client.test_server import job

from rtgate.errors import DeadlineError
from rtgate.lava.client.follow import FinishedJob, Following, StoppedBy, Waits
from rtgate.lava.client.server import Job, Lava
from rtgate.lava.results.classify import Blame, classify
from rtgate.lava.results.log import LogLine

QUICK = Waits(queue=5.0, running=5.0, ending=1.0, busy=0.01, idle=0.01)
PARTS = [deploy(1), boot_lines(2), shell(3, ["rtgate: measuring"]), end_lines()]


class Seen:
    def __init__(self) -> None:
        self.states: list[str] = []
        self.lines: list[LogLine] = []

    def state(self, job: Job) -> None:
        self.states.append(job.state)


def follow(lava: Lava, waits: Waits = QUICK) -> tuple[FinishedJob, Seen]:
    number, seen = lava.submit(job(), "n0"), Seen()
    return Following(lava, number, waits, seen.lines.append, seen.state).follow(), seen


def test_to_its_end(lava: Lava, server: LavaServer) -> None:
    server.stories.append(Story(log=list(PARTS)))
    found, seen = follow(lava)
    assert (found.job.health, found.stopped_by) == ("Complete", None)
    assert seen.states == ["Submitted", "Running", "Finished"]
    assert seen.lines == list(found.lines)
    assert "".join(PARTS).count("\n") == len(found.lines)


def test_a_server_that_restarts_in_mid_job(lava: Lava, server: LavaServer) -> None:
    server.stories.append(Story(log=list(PARTS)))
    server.moods = [("GET", r"jobs/1/", mood) for mood in ("unheard", "502", "503", "page", "lost")]
    server.moods += [("GET", r"jobs/1/logs/", "unheard"), ("GET", r"jobs/1/logs/", "500")]
    found, seen = follow(lava)
    assert found.job.health == "Complete"
    assert seen.lines == list(found.lines)


def test_lines_that_the_worker_sent_twice(lava: Lava, server: LavaServer) -> None:
    """After a restart a worker sends what was not acknowledged once more."""
    server.stories.append(Story(log=[PARTS[0], PARTS[0] + PARTS[1], PARTS[1] + PARTS[2], PARTS[3]]))
    found, seen = follow(lava)
    assert len(found.lines) == "".join(PARTS).count("\n")
    assert [one.time for one in seen.lines] == [one.time for one in found.lines]


def test_a_line_that_was_seen_in_halves(lava: Lava, server: LavaServer) -> None:
    whole = line("target", "a long line")
    server.stories.append(Story(log=[PARTS[0] + whole[:15], whole[15:] + PARTS[1], *PARTS[2:]]))
    found, seen = follow(lava)
    assert [one.text for one in seen.lines].count("a long line") == 1
    assert not [one for one in (*found.lines, *seen.lines) if one.level == "unreadable"]


def test_a_log_that_lost_its_end(lava: Lava, server: LavaServer) -> None:
    server.stories.append(Story(log=[*PARTS[:3], target("cut off here")[:-20]]))
    found, _ = follow(lava)
    assert found.lines[-1].level == "unreadable"
    assert found.job.finished


def test_no_log_at_all(lava: Lava, server: LavaServer) -> None:
    server.stories.append(Story(health="Incomplete"))
    found, seen = follow(lava)
    assert (found.lines, seen.lines) == ((), [])


def test_no_board_becomes_free(lava: Lava, server: LavaServer) -> None:
    server.stories.append(Story(queued=10**6))
    found, _ = follow(lava, Waits(queue=0.1, ending=1.0, busy=0.01, idle=0.01))
    assert (found.stopped_by, found.job.health) == (StoppedBy.QUEUE, "Canceled")


def test_waiting_is_told_now_and_then(lava: Lava, server: LavaServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rtgate.lava.client.follow._REMIND_S", 0.05)
    server.stories.append(Story(queued=10**6))
    _, seen = follow(lava, Waits(queue=1.5, ending=1.0, busy=0.01, idle=0.01))
    assert 3 <= seen.states.count("Submitted") <= 31  # it looked 150 times at most
    assert seen.states[-1] == "Finished"


def test_every_board_has_gone_bad_meanwhile(lava: Lava, server: LavaServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rtgate.lava.client.follow._LOOK_S", 0.05)
    server.stories.append(Story(queued=10**6))
    server.devices[0]["health"] = "Bad"
    found, _ = follow(lava, Waits(away=0.2, ending=1.0, busy=0.01, idle=0.01))
    assert (found.stopped_by, found.job.health) == (StoppedBy.AWAY, "Canceled")
    ending = classify(found.job, found.lines, stopped_by=found.stopped_by)
    assert ending.blame is Blame.QUEUE
    assert "no device of type board is fit for work any more" in ending.sentence


def test_the_only_board_with_the_jobs_tag_has_gone_bad(
    lava: Lava, server: LavaServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rtgate.lava.client.follow._LOOK_S", 0.05)
    server.stories.append(Story(queued=10**6))
    server.tags = {1: "fast", 2: "slow"}
    server.devices[0] |= {"health": "Bad", "tags": [1]}
    server.device("board-02", 2)
    number = lava.submit(job() + "tags: [fast]\n", "n0")
    waits = Waits(queue=5.0, away=0.2, ending=1.0, busy=0.01, idle=0.01)
    found = Following(lava, number, waits, lambda _line: None, lambda _job: None).follow()
    assert found.stopped_by is StoppedBy.AWAY
    sentence = classify(found.job, found.lines, stopped_by=found.stopped_by).sentence
    assert "no device of type board with the tags fast is fit for work any more" in sentence


def test_a_board_with_the_jobs_tag_is_waited_for(
    lava: Lava, server: LavaServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rtgate.lava.client.follow._LOOK_S", 0.05)
    server.stories.append(Story(queued=10**6))
    server.tags = {1: "fast", 2: "slow"}
    server.devices[0] |= {"health": "Bad", "tags": [2]}
    server.device("board-02", 1, 2)
    number = lava.submit(job() + "tags: [fast, slow]\n", "n0")
    waits = Waits(queue=0.5, away=0.1, ending=1.0, busy=0.01, idle=0.01)
    found = Following(lava, number, waits, lambda _line: None, lambda _job: None).follow()
    assert found.stopped_by is StoppedBy.QUEUE


def test_a_job_without_an_end_is_cancelled(lava: Lava, server: LavaServer) -> None:
    server.stories.append(Story(log=list(PARTS[:2]), endless=True))
    found, _ = follow(lava, Waits(running=0.2, ending=1.0, busy=0.01, idle=0.01))
    assert (found.stopped_by, found.job.health) == (StoppedBy.TOO_LONG, "Canceled")


@pytest.mark.parametrize(
    ("limit", "length", "health"),
    [("{seconds: 2}", 4.0, "Canceled"), ("{hours: 13}", 12.5 * 3600, "Complete"), ("{}", 12.5 * 3600, "Complete")],
)
def test_a_job_may_run_as_long_as_its_own_definition_says(
    lava: Lava, server: LavaServer, monkeypatch: pytest.MonkeyPatch, limit: str, length: float, health: str
) -> None:
    monkeypatch.setattr("rtgate.lava.client.follow._SPARE_S", 1.0)
    monotonic, passed = time.monotonic, [0.0]
    monkeypatch.setattr("rtgate.durations.time.monotonic", lambda: monotonic() + passed[0])
    server.stories.append(Story(log=list(PARTS), endless=health == "Canceled"))
    number = lava.submit(job().replace("{minutes: 5}", limit), "n0")

    def note(state: Job) -> None:
        passed[0] += length if state.state == "Running" else 0.0

    following = Following(lava, number, Waits(busy=0.01, idle=0.01), lambda _line: None, note)
    assert following.follow().job.health == health


def test_a_job_that_even_cancelling_does_not_end(lava: Lava, server: LavaServer) -> None:
    server.mine = False
    server.stories.append(Story(endless=True))
    with pytest.raises(DeadlineError, match="its worker may be away"):
        follow(lava, Waits(running=0.1, ending=0.2, busy=0.01, idle=0.01))


def test_a_kernel_that_died_while_booting_is_not_waited_for(lava: Lava, server: LavaServer) -> None:
    """It restarts at once, and LAVA 2023.01 goes on waiting for `end Kernel panic` until its own limit."""
    died = boot(2, *KERNEL, "[    0.8] Kernel panic - not syncing: VFS: no root", "U-Boot 2023.01")
    server.stories.append(Story(log=[deploy(1), died], endless=True))
    found, _ = follow(lava, Waits(panic=0.1, ending=1.0, busy=0.01, idle=0.01))
    assert (found.stopped_by, found.job.health) == (StoppedBy.DIED, "Canceled")
    ending = classify(found.job, found.lines, stopped_by=found.stopped_by)
    assert (ending.blame, ending.state) == (Blame.PRODUCT, "no boot")


@pytest.mark.parametrize("again", [False, True], ids=["the boot before", "this boot"])
def test_a_death_of_the_boot_before_does_not_end_this_one(lava: Lava, server: LavaServer, again: bool) -> None:
    last = "[   60.000000] Kernel panic - not syncing: late"
    said = start(5, "uboot-action") + target(last, "U-Boot 2023.01", *KERNEL)
    said += target("[    0.800000] Kernel panic - not syncing: VFS: no root") if again else ""
    server.stories.append(Story(log=[*PARTS[:3], deploy(4), said, *[target("booting")] * 30, shell(6), end_lines()]))
    found, _ = follow(lava, Waits(panic=0.1, ending=1.0, busy=0.01, idle=0.01))
    assert found.job.health == ("Canceled" if again else "Complete")
    assert [one.boot for one in classify(found.job, found.lines).panics] == ([1, 2] if again else [1])


def test_a_boot_that_worked_the_second_time_goes_on(lava: Lava, server: LavaServer) -> None:
    died = boot(2, *KERNEL, "[    0.8] Kernel panic - not syncing: VFS: no root")
    server.stories.append(Story(log=[deploy(1), died + shell(3), *[target("measuring")] * 30, end_lines()]))
    found, _ = follow(lava, Waits(panic=0.1, ending=1.0, busy=0.01, idle=0.01))
    assert found.job.health == "Complete"
