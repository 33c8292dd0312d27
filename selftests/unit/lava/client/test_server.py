# SPDX-License-Identifier: MIT
from __future__ import annotations

from dataclasses import replace

import pytest
from selftests.lava_server import LavaServer, Story
from selftests.unit.lava.conftest import HASTY

from rtgate.errors import ConfigError, InfrastructureError
from rtgate.http.secret import Token
from rtgate.lava.client.access import Access
from rtgate.lava.client.server import Lava
from rtgate.lava.job.server_definition import Definition

JOB = """\
job_name: a job
device_type: board
timeouts: {job: {minutes: 5}}
visibility: public
metadata: {rtgate.nonce: NONCE}
actions: []
"""


def job(nonce: str = "n0") -> str:
    return JOB.replace("NONCE", nonce)


def test_what_a_server_says_of_itself(lava: Lava) -> None:
    assert (lava.version(), lava.whoami()) == ((2023, 1), "gate")


def test_a_version_that_is_none(lava: Lava, server: LavaServer) -> None:
    server.version = "Jenkins"
    with pytest.raises(InfrastructureError, match="not LAVA's"):
        lava.version()


def test_another_server(lava: Lava, server: LavaServer) -> None:
    server.moods = [("GET", "version", "404")]
    with pytest.raises(ConfigError, match="is that a LAVA server"):
        lava.version()


def test_invalid_is_answered_with_200_and_not_believed(lava: Lava) -> None:
    assert lava.validate(job()) == ""
    assert "required key not provided" in lava.validate("job_name: x\n")


def test_a_page_in_place_of_an_answer_is_no_answer(lava: Lava, server: LavaServer) -> None:
    """A proxy shows it while LAVA restarts: then nothing is refused, cancelled or known yet."""
    server.moods = [("POST", "validate", "page"), ("GET", "cancel", "page"), ("GET", "devicetypes", "page")]
    assert lava.validate(job()) == ""
    number = lava.submit(job(), "n0")
    lava.cancel(number)
    assert server.jobs[number].state == "Canceling"
    assert not lava.knows("toaster")


def test_a_web_page_is_waited_for_aloud(server: LavaServer) -> None:
    said: list[str] = []
    server.moods = [("GET", "version", "page")] * 1000
    patient = Lava(Access(server.url, None), replace(HASTY, total=0.2), notify=said.append)
    with pytest.raises(InfrastructureError, match="the answer is not JSON"):
        patient.version()
    assert "Welcome to nginx" in said[0]


def test_a_job(lava: Lava, server: LavaServer) -> None:
    number = lava.submit(job(), "n0")
    found = lava.job(number)
    assert (found.name, found.state, found.health, found.device) == ("a job", "Submitted", "Unknown", "")
    assert found.queued
    assert not found.finished
    assert [one.number for one in lava.jobs(10)] == [number]


@pytest.mark.parametrize(
    ("text", "tags"),
    [("tags: [a, 5]", ("a", "5")), ("tags: a", ()), ("tags: []", ()), ("- a", ()), ("[", ()), ("", ())],
)
def test_a_jobs_tags(lava: Lava, text: str, tags: tuple[str, ...]) -> None:
    number = lava.submit(job(), "n0")
    assert lava.job(number).definition.tags == ()
    assert Definition(text).tags == tags


def test_a_job_that_is_refused(lava: Lava) -> None:
    with pytest.raises(ConfigError, match="refuses the job: Problem with submitted job data"):
        lava.submit("job_name: x\n", "n0")


def test_a_job_for_devices_that_are_not_there(lava: Lava, server: LavaServer) -> None:
    server.types.clear()
    with pytest.raises(InfrastructureError, match="has no device for the job"):
        lava.submit(job(), "n0")


def test_no_such_job(lava: Lava) -> None:
    with pytest.raises(ConfigError, match="no job 99 on"):
        lava.job(99)


@pytest.mark.parametrize("mood", ["lost", "slow"])
def test_a_submission_whose_answer_got_lost_is_found_again(lava: Lava, server: LavaServer, mood: str) -> None:
    server.moods = [("POST", r"^jobs/$", mood)]
    assert lava.submit(job(), "n0") == 1
    assert len(server.jobs) == 1


@pytest.mark.parametrize("mood", ["unheard", "503", "500"])
def test_a_submission_that_did_not_arrive_is_repeated(lava: Lava, server: LavaServer, mood: str) -> None:
    server.moods = [("POST", r"^jobs/$", mood)]
    assert lava.submit(job(), "n0") == 1
    assert len(server.jobs) == 1
    assert server.requests.count("GET jobs/") > 1


def test_another_job_is_not_taken_for_ours(lava: Lava, server: LavaServer) -> None:
    lava.submit(job("other"), "other")
    server.moods = [("POST", r"^jobs/$", "lost")]
    assert lava.submit(job("ours"), "ours") == 2


def test_what_was_made_twice_all_the_same_is_cancelled(
    lava: Lava, server: LavaServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = iter([(), (), ()])  # the first job shows only after the second was submitted
    real = Lava.find
    monkeypatch.setattr(Lava, "_find_late_job", lambda _self, _nonce: next(iter(next(seen, ())), None))
    server.moods = [("POST", r"^jobs/$", "lost")]
    number = lava.submit(job(), "n0")
    assert number == 2
    assert real(lava, "n0") == (2, 1)
    assert server.jobs[1].state in {"Canceling", "Finished"}
    assert server.jobs[2].state == "Submitted"


def test_a_server_that_stays_away(server: LavaServer) -> None:
    lava = Lava(Access("http://127.0.0.1:9", None), HASTY, settle_s=0.1)
    with pytest.raises(InfrastructureError, match="could not be submitted"):
        lava.submit(job(), "n0")


def test_a_refused_token_ends_it_at_once(server: LavaServer) -> None:
    lava = Lava(Access(server.url, Token("another-token", "$X")), HASTY)
    with pytest.raises(ConfigError, match=r"refused the token from \$X"):
        lava.submit(job(), "n0")
    assert server.jobs == {}


def test_a_submission_without_a_nonce_is_never_repeated(lava: Lava, server: LavaServer) -> None:
    server.moods = [("POST", r"^jobs/$", "lost")]
    with pytest.raises(InfrastructureError, match="may have been submitted"):
        lava.submit_once(job())
    assert len(server.jobs) == 1


def test_a_log_that_has_nothing_new_is_no_error(lava: Lava, server: LavaServer) -> None:
    server.stories.append(Story(log=["- {}\n- {}\n"]))
    number = lava.submit(job(), "n0")
    assert lava.log(number) == ""
    for _ in range(3):
        lava.job(number)
    assert lava.log(number) == "- {}\n- {}\n"
    assert lava.log(number, 1) == "- {}\n"
    assert lava.log(number, 2) == ""


def test_a_proxy_that_shows_its_own_page_while_lava_restarts(lava: Lava, server: LavaServer) -> None:
    lava.submit(job(), "n0")
    server.moods = [("GET", r"^jobs/1/$", "page"), ("GET", r"^jobs/1/$", "502"), ("GET", r"^jobs/1/$", "unheard")]
    assert lava.job(1).number == 1


def test_cancelling_is_a_get(lava: Lava, server: LavaServer) -> None:
    lava.submit(job(), "n0")
    lava.cancel(1)
    assert server.requests[-1] == "GET jobs/1/cancel/"
    assert lava.job(1).health == "Canceled"


def test_more_jobs_than_a_page_has(lava: Lava) -> None:
    for number in range(130):
        lava.submit(job(f"n{number}-"), f"n{number}-")
    assert [one.number for one in lava.jobs(120)] == list(range(130, 10, -1))


def test_devices(lava: Lava, server: LavaServer) -> None:
    server.tags = {1: "fast", 7: "board-02"}
    server.device("board-02", 1, 7, health="Bad")
    server.device("board-03", health="Retired")
    first, second = lava.devices("board")
    assert (first.name, first.usable, first.tags) == ("board-01", True, ())
    assert (second.name, second.usable, second.tags) == ("board-02", False, ("fast", "board-02"))
    assert lava.devices("other") == ()


@pytest.mark.parametrize(("state", "health"), [("Offline", "Active"), ("Online", "Maintenance")])
def test_a_device_without_its_worker(lava: Lava, server: LavaServer, state: str, health: str) -> None:
    server.workers["worker1"] = (state, health)
    (device,) = lava.devices("board")
    assert not device.online
    assert not device.usable


def test_the_queue(lava: Lava) -> None:
    for number in range(3):
        lava.submit(job(f"n{number}"), f"n{number}")
    assert lava.waiting("board") == 3
    assert lava.waiting("other") == 0


def test_device_types_and_their_health_checks(lava: Lava, server: LavaServer) -> None:
    server.types["checked"] = "job_name: check\n"
    assert (lava.knows("board"), lava.knows("toaster")) == (True, False)
    assert (lava.health_check("checked"), lava.health_check("board")) == ("job_name: check\n", "")


def test_a_device_s_dictionary_is_asked_for_as_lava_renders_it(lava: Lava, server: LavaServer) -> None:
    server.dictionaries = {"board-01": "commands: {hard_reset: reset}\n", "board-02": "- 1\n", "board-03": "a: ["}
    assert lava.dictionary("board-01") == {"commands": {"hard_reset": "reset"}}
    assert lava.dictionary("board-02") == {}
    with pytest.raises(ConfigError, match="not YAML"):
        lava.dictionary("board-03")
    with pytest.raises(ConfigError, match="the dictionary of board-04 cannot be read: Device 'board-04' does not"):
        lava.dictionary("board-04")
