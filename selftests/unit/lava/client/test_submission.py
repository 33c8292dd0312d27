# SPDX-License-Identifier: MIT
from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest
from selftests import lava_log
from selftests.lava_log import KERNEL, boot, boot_lines, deploy, end_lines, result
from selftests.lava_server import LavaServer, Story
from selftests.unit.lava.client.test_follow import QUICK, Seen
from selftests.unit.lava.client.test_server import job
from selftests.unit.lava.results.test_classify import PANIC

from rtgate import strict_yaml
from rtgate.errors import ConfigError, InfrastructureError
from rtgate.lava.client.server import Job, Lava
from rtgate.lava.client.submission import Submission
from rtgate.lava.results.classify import Blame
from rtgate.lava.results.log import LogLine

GOOD = Story(log=[deploy(1), boot_lines(2), lava_log.shell(3, ["rtgate: ok"]), end_lines()])
POWER = [deploy(1), boot(2), result("reset-device", "fail"), end_lines("Infrastructure", "reset-device failed")]
SILENCE = [deploy(1), boot(2, *KERNEL), end_lines("Job", "auto-login-action timed out after 240 seconds")]
HEALTH_CHECK = "job_name: check\ntimeouts: {job: {minutes: 5}}\nvisibility: public\nactions: []\n"


class Watch(Seen):
    def __init__(self) -> None:
        super().__init__()
        self.said: list[str] = []

    def say(self, text: str) -> None:
        self.said.append(text)

    def show_line(self, line: LogLine) -> None:
        self.lines.append(line)


def submission(lava: Lava, **more: object) -> tuple[Submission, Watch]:
    watch = Watch()

    def make(nonce: str, tags: tuple[str, ...]) -> str:
        return job(nonce) + (f"tags: [{', '.join(tags)}]\n" if tags else "")

    def proof(arms: tuple[str, ...], nonce: str, tags: tuple[str, ...]) -> str:
        return make(nonce, tags).replace("job_name: ", f"job_name: {'-'.join(arms)} ", 1)

    more = {"make": make, "proof": proof, **more}
    made = Submission(lava=lava, device_type="board", watch=watch, waits=QUICK, **more)  # type: ignore[arg-type]
    return made, watch


def again(story: Story) -> Story:
    return Story(log=list(story.log), health=story.health, device=story.device)


def test_a_good_job(lava: Lava, server: LavaServer) -> None:
    server.stories.append(again(GOOD))
    made, watch = submission(lava)
    (attempt,) = made.run()
    assert (attempt.ending.blame, attempt.job.health) == (Blame.NOBODY, "Complete")
    assert watch.said == [f"job 1: {server.url}/scheduler/job/1"]


def test_every_job_has_a_nonce_of_its_own(lava: Lava, server: LavaServer) -> None:
    made, _ = submission(lava)
    numbers = [made.leave(), made.leave()]
    nonces = [strict_yaml.data(server.jobs[number].definition)["metadata"]["rtgate.nonce"] for number in numbers]
    assert len(set(nonces)) == 2
    assert all(len(nonce) == len("rtgate-") + 24 for nonce in nonces)


def test_a_job_that_the_server_would_refuse_is_not_submitted(lava: Lava, server: LavaServer) -> None:
    made, _ = submission(lava)
    made.make = lambda _nonce, _tags: "job_name: x\n"
    with pytest.raises(ConfigError, match="would refuse the job: Job invalid"):
        made.run()
    assert server.jobs == {}


def test_a_labs_fault_is_tried_again_on_another_board(lava: Lava, server: LavaServer) -> None:
    server.tags = {1: "board-01", 2: "board-02"}
    server.devices[0]["tags"] = [1]
    server.device("board-02", 2)
    server.stories += [Story(log=list(POWER), health="Incomplete"), again(GOOD)]
    made, watch = submission(lava)
    first, second = made.run()
    assert (first.ending.blame, second.ending.blame) == (Blame.LAB, Blame.NOBODY)
    assert strict_yaml.data(server.jobs[2].definition)["tags"] == ["board-02"]
    assert any("trying again (1 of 2)" in text for text in watch.said)


@pytest.mark.parametrize("mood", ["503", "401"])
def test_a_server_that_is_lost_before_another_attempt_leaves_the_first(
    lava: Lava, server: LavaServer, mood: str
) -> None:
    server.stories.append(Story(log=list(POWER), health="Incomplete"))
    server.moods = [("GET", r"^devices/$", mood)] * 10_000
    made, _ = submission(lava)
    (attempt,) = made.run()
    assert attempt.ending.blame is Blame.LAB


def test_twice_at_most(lava: Lava, server: LavaServer) -> None:
    server.stories += [Story(log=list(POWER), health="Incomplete") for _ in range(5)]
    made, _ = submission(lava)
    assert len(made.run()) == 3
    assert len(server.jobs) == 3


def test_a_kernels_fault_is_never_tried_again(lava: Lava, server: LavaServer) -> None:
    dead = [deploy(1), boot(2, *KERNEL, *PANIC), end_lines("Job", "Kernel panic")]
    server.stories += [Story(log=dead, health="Incomplete"), again(GOOD)]
    made, _ = submission(lava)
    (attempt,) = made.run()
    assert attempt.ending.blame is Blame.PRODUCT
    assert len(server.jobs) == 1


def test_a_lab_that_fails_after_a_panic_is_not_tried_again(lava: Lava, server: LavaServer) -> None:
    """Another attempt could only hide the panic."""
    story = [deploy(1), boot(2, *KERNEL, *PANIC), result("kernel-messages", "fail")]
    story += [deploy(4), boot(5), end_lines("Infrastructure", "power")]
    server.stories += [Story(log=story, health="Incomplete")]
    made, _ = submission(lava)
    (attempt,) = made.run()
    assert attempt.ending.blame is Blame.LAB
    assert attempt.ending.panics


def test_ctrl_c_cancels_the_job(lava: Lava, server: LavaServer) -> None:
    server.stories.append(Story(log=[deploy(1)], endless=True))
    made, watch = submission(lava)

    def interrupt(job: Job) -> None:
        if job.state == "Running":
            raise KeyboardInterrupt

    watch.state = interrupt  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        made.run()
    assert server.jobs[1].state in {"Canceling", "Finished"}
    assert watch.said[-1] == "job 1 is cancelled"


def test_ctrl_c_while_the_submission_is_under_way(
    lava: Lava, server: LavaServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Lava.submit

    def interrupted(self: Lava, definition: str, nonce: str) -> int:
        real(self, definition, nonce)
        raise KeyboardInterrupt

    monkeypatch.setattr(Lava, "submit", interrupted)
    made, watch = submission(lava)
    with pytest.raises(KeyboardInterrupt):
        made.run()
    assert server.jobs[1].state in {"Canceling", "Finished"}
    assert watch.said == ["job 1 is cancelled"]


@pytest.fixture
def late(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[threading.Thread]]:
    """Ctrl-C while the request is on its way: the server carries it out half a second later."""
    real, threads = Lava.submit, []

    def interrupted(self: Lava, definition: str, nonce: str) -> int:
        def arrive() -> None:
            time.sleep(0.5)
            real(Lava(self.access), definition, nonce)

        threads.append(threading.Thread(target=arrive))
        threads[0].start()
        raise KeyboardInterrupt

    monkeypatch.setattr(Lava, "submit", interrupted)
    yield threads
    for thread in threads:
        thread.join()


@pytest.mark.parametrize("way", ["run", "leave"])
def test_a_job_that_arrives_after_ctrl_c_is_cancelled(
    lava: Lava, server: LavaServer, late: list[threading.Thread], way: str
) -> None:
    server.stories.append(Story(endless=True))
    made, watch = submission(lava)
    with pytest.raises(KeyboardInterrupt):
        getattr(made, way)()
    late[0].join()
    assert server.jobs[1].state in {"Canceling", "Finished"}
    assert watch.said[-1] == "job 1 is cancelled"
    assert watch.said[0].startswith("looking for ")


@pytest.mark.parametrize(("named", "option"), [("", ""), ("our lab", "--server 'our lab' ")])
def test_a_job_that_may_come_later_still_is_told(
    lava: Lava,
    server: LavaServer,
    monkeypatch: pytest.MonkeyPatch,
    late: list[threading.Thread],
    named: str,
    option: str,
) -> None:
    monkeypatch.setattr("rtgate.lava.client.submission._CANCEL_S", 0.1)
    made, watch = submission(lava, server=named)
    with pytest.raises(KeyboardInterrupt):
        made.leave()
    late[0].join()
    nonce = strict_yaml.data(server.jobs[1].definition)["metadata"]["rtgate.nonce"]
    command = f"rtgate cancel {option}--metadata rtgate.nonce={nonce}"
    assert watch.said[-1] == f"the job was not found and may have been submitted all the same; to end it: {command}"


def test_a_second_ctrl_c_says_what_may_be_left(
    lava: Lava, server: LavaServer, monkeypatch: pytest.MonkeyPatch, late: list[threading.Thread]
) -> None:
    def impatient(_self: Lava, _nonce: str) -> tuple[int, ...]:
        raise KeyboardInterrupt

    made, watch = submission(lava)
    monkeypatch.setattr(Lava, "find", impatient)
    with pytest.raises(KeyboardInterrupt):
        made.run()
    assert "was not cancelled and may be running; to end it: rtgate cancel --metadata rtgate.nonce=" in watch.said[-1]


def test_a_job_that_is_refused_is_not_waited_for(lava: Lava, server: LavaServer) -> None:
    server.types.clear()
    made, watch = submission(lava)
    with pytest.raises(InfrastructureError, match="has no device for the job"):
        made.run()
    assert (watch.said, server.requests.count("GET jobs/")) == ([], 1)


@pytest.mark.long("waits for a server, 3 s; test_http and test_server do in make test")
def test_a_job_whose_answer_got_lost_for_good_is_told(
    lava: Lava, server: LavaServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rtgate.lava.client.submission._CANCEL_S", 0.1)
    server.moods = [("POST", r"^jobs/$", "unheard")] * 10_000
    made, watch = submission(lava)
    with pytest.raises(InfrastructureError, match="could not be submitted"):
        made.leave()
    assert "may have been submitted all the same; to end it: rtgate cancel --metadata" in watch.said[-1]


def test_a_job_that_cannot_be_cancelled_is_told(lava: Lava, server: LavaServer) -> None:
    server.stories.append(Story(endless=True))
    server.moods = [("GET", "cancel", "404")]
    made, watch = submission(lava)

    def interrupt(_job: Job) -> None:
        raise KeyboardInterrupt

    watch.state = interrupt  # type: ignore[assignment]
    with pytest.raises(KeyboardInterrupt):
        made.run()
    assert "job 1 could not be cancelled and may be running" in watch.said[-1]
    assert watch.said[-1].endswith("to end it: rtgate cancel 1")


def test_a_lost_server_is_an_error_and_no_verdict(lava: Lava, server: LavaServer) -> None:
    server.stories.append(Story(log=[deploy(1)], endless=True))
    server.moods = [("GET", r"jobs/1/$", "503")] * 10_000
    made, _ = submission(lava)
    with pytest.raises(InfrastructureError, match="503"):
        made.run()


# --- silence after the kernel began


def silent() -> Story:
    return Story(log=list(SILENCE), health="Incomplete")


def test_silence_is_the_kernels_when_the_health_check_passes_and_it_fails_again(lava: Lava, server: LavaServer) -> None:
    server.types["board"] = HEALTH_CHECK
    check = [deploy(1), boot_lines(2), end_lines()]  # it tests nothing: that it booted is all
    server.stories += [silent(), Story(log=check), silent()]
    made, watch = submission(lava)
    (attempt,) = made.run()
    assert attempt.ending.blame is Blame.PRODUCT
    assert (
        "a known-good kernel (the lab's health check, job 2) then booted on the same board, and this one failed again "
        "(job 3)"
    ) in attempt.ending.sentence
    asked = strict_yaml.data(server.jobs[2].definition)
    assert asked["metadata"]["rtgate.checks"] == "1"
    assert asked["device_type"] == "board"
    assert strict_yaml.data(server.jobs[3].definition)["job_name"].startswith("candidate ")
    assert any("trying a known-good kernel (the lab's health check) on board-01" in text for text in watch.said)
    assert [one.job.number for one in attempt.trials] == [2, 3]


@pytest.mark.parametrize("arms", [(), ("baseline", "candidate")], ids=["health check", "baseline"])
def test_a_kernel_that_boots_when_it_is_tried_again_is_not_blamed(
    lava: Lava, server: LavaServer, arms: tuple[str, ...]
) -> None:
    server.types["board"] = HEALTH_CHECK
    twice = Story(
        log=[deploy(1), boot_lines(2), lava_log.shell(3), deploy(4), boot_lines(5), lava_log.shell(6), end_lines()]
    )
    server.stories += [_silent_second(), twice] if arms else [silent(), again(GOOD), again(GOOD)]
    made, _ = submission(lava, arms=arms)
    (attempt,) = made.run()
    assert attempt.ending.blame is Blame.SILENT
    assert "it does not fail each time, so nobody is proved at fault; submit it again" in attempt.ending.sentence


def test_silence_is_the_labs_when_the_health_check_fails_too(lava: Lava, server: LavaServer) -> None:
    server.types["board"] = HEALTH_CHECK
    server.stories += [silent(), silent(), again(GOOD)]
    made, _ = submission(lava)
    first, second = made.run()
    assert first.ending.blame is Blame.LAB
    assert "a known-good kernel (the lab's health check, job 2) does not boot there either" in first.ending.sentence
    assert second.ending.blame is Blame.NOBODY


@pytest.mark.parametrize("health", ["Incomplete", "Canceled"])
def test_a_health_check_that_failed_after_its_boot_has_shown_that_the_board_boots(
    lava: Lava, server: LavaServer, health: str
) -> None:
    server.types["board"] = HEALTH_CHECK
    check = [
        deploy(1),
        boot_lines(2),
        lava_log.shell(3, ["a disk is full"]),
        end_lines("Test", "lava-test-shell timed out"),
    ]
    server.stories += [Story(log=list(SILENCE), health="Incomplete"), Story(log=check, health=health), silent()]
    made, _ = submission(lava)
    (attempt,) = made.run()
    assert attempt.ending.blame is Blame.PRODUCT
    assert "then booted on the same board" in attempt.ending.sentence


@pytest.mark.parametrize(
    ("log", "health", "why"),
    [
        ([deploy(1), boot(2), end_lines("Canceled", "x")], "Canceled", "the job was cancelled"),
        (POWER, "Incomplete", "the lab failed before the kernel began"),
        ([end_lines("Job", "x")], "Incomplete", "LAVA cannot carry the job out"),
        ([deploy(1), end_lines()], "Complete", "boots nothing"),
    ],
    ids=["cancelled", "power", "job", "no boot"],
)
def test_a_health_check_that_never_came_to_a_kernel_leaves_it_open(
    lava: Lava, server: LavaServer, log: list[str], health: str, why: str
) -> None:
    server.types["board"] = HEALTH_CHECK
    server.stories += [Story(log=list(SILENCE), health="Incomplete"), Story(log=list(log), health=health)]
    made, _ = submission(lava)
    (attempt,) = made.run()
    assert attempt.ending.blame is Blame.SILENT
    assert "whether a known-good kernel boots there is open: " in attempt.ending.sentence
    assert why in attempt.ending.sentence


def test_silence_without_a_health_check_stays_open(lava: Lava, server: LavaServer) -> None:
    server.stories += [Story(log=list(SILENCE), health="Incomplete")]
    made, _ = submission(lava)
    (attempt,) = made.run()
    assert attempt.ending.blame is Blame.SILENT
    assert "no health check for board: install one (`rtgate lab-check --health-check`)" in attempt.ending.sentence


@pytest.mark.parametrize(
    "check",
    [
        "job_name: twice\njob_name: twice\nactions: []\n",
        "actions: [!!python/object:os.system {}]\n",
        "job_name: {{ name }}\n",
        "job_name: without timeouts\n",
    ],
)
def test_a_health_check_that_cannot_be_used_takes_no_finished_job(lava: Lava, server: LavaServer, check: str) -> None:
    """The fourth is read, and the server refuses it."""
    server.types["board"] = check
    server.stories += [Story(log=list(SILENCE), health="Incomplete")]
    made, _ = submission(lava)
    (attempt,) = made.run()
    assert attempt.ending.blame is Blame.SILENT
    assert attempt.lines
    assert "; the lab's health check cannot be used: " in attempt.ending.sentence
    assert len(server.jobs) == 1


def test_a_health_check_on_another_board_proves_nothing(lava: Lava, server: LavaServer) -> None:
    server.types["board"] = HEALTH_CHECK
    server.device("board-02")
    server.stories += [Story(log=list(SILENCE), health="Incomplete"), Story(device="board-02")]
    made, _ = submission(lava)
    (attempt,) = made.run()
    assert attempt.ending.blame is Blame.SILENT
    assert "on that very board" in attempt.ending.sentence


def _silent_second() -> Story:
    turns = [deploy(1), boot_lines(2), lava_log.shell(3), deploy(4), boot(5, *KERNEL), SILENCE[2]]
    return Story(log=turns, health="Incomplete")


def test_a_boot_of_the_baseline_before_proves_nothing(lava: Lava, server: LavaServer) -> None:
    """The board may have gone bad since: without a later boot of a known-good kernel nobody is blamed."""
    power = Story(log=list(POWER), health="Incomplete")
    server.stories += [_silent_second(), power]
    made, _ = submission(lava, arms=("baseline", "candidate"))
    (attempt,) = made.run()
    assert (attempt.ending.blame, attempt.ending.boot) == (Blame.SILENT, 2)
    assert "whether a known-good kernel boots there is open: the lab failed" in attempt.ending.sentence
    assert len(server.jobs) == 2


def test_a_kernel_that_fails_twice_around_a_boot_of_the_baseline_is_blamed(lava: Lava, server: LavaServer) -> None:
    server.stories += [_silent_second(), _silent_second()]
    made, _ = submission(lava, arms=("baseline", "candidate"))
    (attempt,) = made.run()
    assert (attempt.ending.blame, attempt.ending.boot) == (Blame.PRODUCT, 2)
    assert "(the baseline, job 2) then booted on the same board, and this one failed" in attempt.ending.sentence
    assert strict_yaml.data(server.jobs[2].definition)["job_name"].startswith("baseline-candidate ")


def test_a_baseline_that_does_not_boot_either_blames_the_lab(lava: Lava, server: LavaServer) -> None:
    server.stories += [_silent_second(), silent(), again(GOOD)]
    made, _ = submission(lava, arms=("baseline", "candidate"))
    first, second = made.run()
    assert (first.ending.blame, second.ending.blame) == (Blame.LAB, Blame.NOBODY)
    assert "a known-good kernel (the baseline, job 2) does not boot there either" in first.ending.sentence


def test_a_kernel_is_tried_again_where_it_failed(lava: Lava, server: LavaServer) -> None:
    server.tags = {1: "board-01", 2: "board-02"}
    server.devices[0]["tags"] = [1]
    server.device("board-02", 2)
    server.stories += [_silent_second(), _silent_second()]
    made, _ = submission(lava, arms=("baseline", "candidate"))
    made.run()
    assert strict_yaml.data(server.jobs[2].definition)["tags"] == ["board-01"]
