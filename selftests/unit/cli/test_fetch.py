# SPDX-License-Identifier: MIT
"""`rtgate fetch`, `jobs`, `cancel` and `lava-tool`: what works from another machine, later."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from selftests.commands.test_submit import WAIT, server, story, verdicts
from selftests.lava_log import boot, deploy, end_lines
from selftests.lava_server import BOARD, TOKEN, LavaServer, Story
from selftests.unit.lava.client.test_server import job

from rtgate import strict_yaml
from rtgate.cli import lava_tool, main
from rtgate.http.patience import Patience
from rtgate.http.secret import Token
from rtgate.lava.client.access import Access, access
from rtgate.lava.client.server import Lava
from rtgate.lava.job import request as orders
from rtgate.lava.job.server_definition import Definition

__all__ = ["server"]


def submitted(server: LavaServer, tmp_path: Path) -> int:
    """Submit a job, let it come to its end, and forget all about it."""
    server.stories.append(story(tmp_path))
    main.main([*WAIT, "-o", "elsewhere"])
    return max(server.jobs)


def test_a_job_is_judged_again_from_its_number(
    server: LavaServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    number = submitted(server, tmp_path)
    first = verdicts(Path("elsewhere"))
    capsys.readouterr()
    assert main.main(["fetch", str(number)]) in {0, 5}
    assert verdicts() == first
    assert (tmp_path / "report/records" / BOARD / "candidate/latency.cyclictest:idle/001/record.json").is_file()


def test_a_job_that_has_not_ended(server: LavaServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    submitted(server, tmp_path)
    definition = server.jobs[1].definition
    server.stories.append(story(tmp_path / "again"))
    lava = Lava(Access(server.url, Token("stand-in-token-0123456789", "x")))
    number = lava.submit(definition, "x")
    assert main.main(["fetch", str(number)]) == 2
    assert "has not ended" in capsys.readouterr().err
    assert main.main(["fetch", str(number), "--wait"]) in {0, 5}


def test_a_job_of_somebody_else(server: LavaServer, capsys: pytest.CaptureFixture[str]) -> None:
    server.types["board"] = ""
    number = Lava(Access(server.url, Token("stand-in-token-0123456789", "x"))).submit(job(), "n0")
    assert main.main(["fetch", str(number)]) == 2
    assert "was not submitted by rtgate" in capsys.readouterr().err
    assert main.main(["fetch", "99"]) == 2


def test_what_other_hands_left_in_the_directory_stays(
    server: LavaServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    number = submitted(server, tmp_path)
    (tmp_path / "report").mkdir()
    (tmp_path / "report/thesis.tex").write_text("years of work")
    assert main.main(["fetch", str(number)]) == 2
    assert "holds something else" in capsys.readouterr().err
    assert (tmp_path / "report/thesis.tex").exists()


def test_a_job_whose_boots_name_places_writes_nothing(
    server: LavaServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    number = submitted(server, tmp_path)
    data = strict_yaml.data(server.jobs[number].definition)
    known = {key: text for key, text in data["metadata"].items() if not key.startswith("rtgate.order")}
    order = orders.read(Definition(server.jobs[number].definition), "x")
    hostile = replace(order, boots=("candidate", "../../../../../elsewhere-still"))
    server.jobs[number].definition = strict_yaml.dump({**data, "metadata": {**known, **hostile.as_metadata()}})
    (tmp_path / "a/b/c").mkdir(parents=True)
    before = set(tmp_path.rglob("*"))
    assert main.main(["fetch", str(number), "-o", "a/b/c/report"]) == 2
    assert "is not a name of a kernel" in capsys.readouterr().err
    assert set(tmp_path.rglob("*")) == before


def test_a_mistake_in_limits_costs_no_wait_and_no_older_report(
    server: LavaServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    number = submitted(server, tmp_path)
    before = verdicts(Path("elsewhere"))
    capsys.readouterr()
    asked = server.jobs[number].asked
    assert main.main(["fetch", str(number), "-o", "elsewhere", "--thresholds", "nowhere.yaml"]) == 2
    assert "nowhere.yaml" in capsys.readouterr().err
    assert verdicts(Path("elsewhere")) == before
    assert server.jobs[number].asked == asked


# --- jobs and cancel


def test_the_list_of_jobs(server: LavaServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    server.types["board"] = ""
    definition = job().replace("rtgate.nonce", "other").replace("a job", '"\\e[31mred"')
    Lava(Access(server.url, Token("stand-in-token-0123456789", "x"))).submit(definition, "x")
    submitted(server, tmp_path)
    capsys.readouterr()
    assert main.main(["jobs"]) == 0
    (head, line) = capsys.readouterr().out.splitlines()
    assert head.split() == ["job", "state", "health", "device", "submitted", "name"]
    assert line.split()[:4] == ["2", "Finished", "Complete", "board-01"]
    assert main.main(["jobs", "--all", "--active"]) == 0
    told = capsys.readouterr().out
    assert "\x1b" not in told
    assert len(told.splitlines()) == 2


def test_cancelling_by_number_and_by_metadata(
    server: LavaServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    number = submitted(server, tmp_path)
    assert main.main(["cancel", str(number)]) == 0
    assert "has ended already: Complete" in capsys.readouterr().out
    lava = Lava(Access(server.url, Token("stand-in-token-0123456789", "x")))
    for pipeline in ("17", "18"):
        server.stories.append(Story(endless=True))
        data = strict_yaml.data(server.jobs[1].definition)
        data["metadata"]["pipeline"] = pipeline
        lava.submit(strict_yaml.dump(data), "x")
    assert main.main(["cancel", "--metadata", "pipeline=18"]) == 0
    assert "job 3 is cancelled" in capsys.readouterr().out
    assert server.jobs[2].state != "Canceling"
    assert main.main(["cancel"]) == 2
    assert main.main(["cancel", "1", "--metadata", "a=b"]) == 2


def test_somebody_elses_job_is_not_said_to_be_cancelled(
    server: LavaServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server.mine = False
    server.stories.append(Story(endless=True))
    server.types["board"] = ""
    number = Lava(Access(server.url, Token("stand-in-token-0123456789", "x"))).submit(job(), "n0")
    assert main.main(["cancel", str(number)]) == 2
    assert "not ours" in capsys.readouterr().err


def test_one_job_that_cannot_be_cancelled_keeps_no_other_running(
    server: LavaServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    server.types["board"] = ""
    lava = Lava(Access(server.url, Token("stand-in-token-0123456789", "x")))
    for _ in range(3):
        server.stories.append(Story(endless=True))
        lava.submit(job(), "n0")
    real = LavaServer._cancel

    def cancel(self: LavaServer, query: object, body: object, number: str) -> object:
        self.mine = number != "1"
        return real(self, query, body, number)

    monkeypatch.setattr(LavaServer, "_cancel", cancel)
    assert main.main(["cancel", "1", "99", "2", "3"]) == 2
    told = capsys.readouterr()
    assert told.out.splitlines() == ["job 2 is cancelled", "job 3 is cancelled"]
    assert "job 1 is still" in told.err
    assert "no job 99" in told.err
    assert server.jobs[1].state not in {"Canceling", "Finished"}


# --- lava-tool


@pytest.fixture
def definition(server: LavaServer, tmp_path: Path) -> str:
    server.types["board"] = ""
    (tmp_path / "job.yaml").write_text(job())
    return str(tmp_path / "job.yaml")


def test_submitting_and_waiting(server: LavaServer, definition: str, capsys: pytest.CaptureFixture[str]) -> None:
    server.stories += [
        Story(log=[deploy(1), end_lines()]),
        Story(log=[boot(1), end_lines("Job", "x")], health="Incomplete"),
    ]
    address = server.url.replace("http://", "http://somebody@") + "/RPC2"
    assert lava_tool.main(["submit-job", address, definition, "--block"]) == 0
    told = capsys.readouterr().out
    assert f"submitted as job: {server.url}/scheduler/job/1" in told
    assert "Job Health: Complete" in told
    assert lava_tool.main(["submit-job", server.url, definition, "--block"]) == 1
    assert lava_tool.main(["submit-job", server.url, definition]) == 0


def test_a_job_that_is_refused(server: LavaServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "bad.yaml").write_text("job_name: x\n")
    assert lava_tool.main(["submit-job", server.url, str(tmp_path / "bad.yaml")]) == 2
    assert "required key not provided" in capsys.readouterr().err
    assert lava_tool.main(["submit-job", server.url, str(tmp_path / "none.yaml")]) == 2
    assert server.jobs == {}


def test_status_and_output(
    server: LavaServer, definition: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server.stories += [Story(log=[boot(1, "\x1b[31mred"), end_lines("Job", "x")], health="Incomplete")]
    lava_tool.main(["submit-job", server.url, definition])
    assert lava_tool.main(["job-status", server.url, "1"]) == 0
    assert "Job State: Submitted\nJob Health: Unknown" in capsys.readouterr().out
    for _ in range(6):
        code = lava_tool.main(["job-status", server.url, "1"])
    assert code == 1
    capsys.readouterr()
    assert lava_tool.main(["job-output", server.url, "1"]) == 0
    told = capsys.readouterr().out
    assert "=> booti" in told
    assert "\x1b" not in told
    assert lava_tool.main(["job-output", server.url, "1", "-o", str(tmp_path / "out")]) == 0
    assert (tmp_path / "out").read_text() == server.jobs[1].log
    assert lava_tool.main(["job-status", server.url, "99"]) == 2


def test_cancel_job(server: LavaServer, definition: str) -> None:
    server.stories += [Story(endless=True)]
    lava_tool.main(["submit-job", server.url, definition])
    assert lava_tool.main(["cancel-job", server.url, "1"]) == 0
    assert server.jobs[1].health == "Canceled"
    assert lava_tool.main(["cancel-job", server.url, "1"]) == 2


def test_a_token_in_the_address_is_refused(
    server: LavaServer, definition: str, capsys: pytest.CaptureFixture[str]
) -> None:
    address = server.url.replace("http://", "http://somebody:s3cr3t-token@")
    assert lava_tool.main(["submit-job", address, definition]) == 2
    assert "s3cr3t" not in capsys.readouterr().err


def test_a_server_that_is_away_is_the_labs_fault(
    server: LavaServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    hasty = Patience(total=0.1, first=0.01)
    monkeypatch.setattr(lava_tool, "Lava", lambda access, **more: Lava(access, hasty, **more))
    assert lava_tool.main(["job-status", "http://127.0.0.1:9", "1"]) == 3


def test_the_devices_and_the_jobs_that_run_on_them(
    server: LavaServer, definition: str, capsys: pytest.CaptureFixture[str]
) -> None:
    server.device("board-02", health="Bad")
    server.device("board-03", state="Running")
    server.device("board-04", health="Retired")
    server.stories += [Story(endless=True, device="board-03"), Story(endless=True)]
    for _ in range(2):
        lava_tool.main(["submit-job", server.url, definition])
    for _ in range(3):
        lava_tool.main(["job-status", server.url, "1"])
    capsys.readouterr()
    assert lava_tool.main(["devices-list", server.url]) == 0
    assert [line.split() for line in capsys.readouterr().out.splitlines()[1:]] == [
        ["board-01", BOARD, "idle", "-"],
        ["board-02", "board", "offline", "-"],
        ["board-03", "board", "running", "1"],
    ]


def test_all_jobs_are_those_that_wait_or_run(
    server: LavaServer, definition: str, capsys: pytest.CaptureFixture[str]
) -> None:
    server.stories += [Story(health="Complete"), Story(endless=True), Story(endless=True)]
    Path(definition).write_text(job().replace("a job", '"\\e[31mred"'))
    for _ in range(3):
        lava_tool.main(["submit-job", server.url, definition])
    for number in ("1", "1", "1", "1", "2", "2"):
        lava_tool.main(["job-status", server.url, number])
    capsys.readouterr()
    for name in ("all-jobs", "jobs-list"):
        assert lava_tool.main([name, server.url]) == 0
        told = capsys.readouterr().out
        assert "\x1b" not in told
        found = [line.split()[:4] for line in told.splitlines()[1:]]
        assert found == [["3", "Submitted", "-", "board"], ["2", "Running", "board-01", "board"]]


# --- lava-tool auth-add


@pytest.fixture
def stored(server: LavaServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """No token in the environment: where lavacli would store one."""
    for name in ("RTGATE_LAVA_TOKEN", "RTGATE_LAVA_URL"):
        monkeypatch.delenv(name)
    assert server.tokens == {TOKEN}
    return tmp_path / ".config/lavacli.yaml"


def typed(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(text))


def test_a_token_is_stored_where_lavacli_and_rtgate_find_it(
    server: LavaServer, stored: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    address = server.url.replace("http://", "http://gate@") + "/RPC2"
    typed(monkeypatch, f"{TOKEN}\n")
    assert lava_tool.main(["auth-add", address]) == 0
    told = capsys.readouterr()
    assert TOKEN not in told.out + told.err
    assert stored.stat().st_mode & 0o777 == 0o600
    assert strict_yaml.data(stored.read_text()) == {
        "default": {"uri": f"{server.url}/RPC2", "username": "gate", "token": TOKEN}
    }
    assert lava_tool.main(["all-jobs", address]) == 0
    assert access(server.url).token is not None
    assert access(None).url == server.url
    # Nobody else's token is taken for this one.
    assert access(server.url, user="somebody").token is None


def test_a_second_token_leaves_others_as_they_are(
    server: LavaServer, stored: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = {"uri": "https://lava.example.org/RPC2", "username": "u", "token": "other-token-0", "timeout": 60}
    stored.parent.mkdir()
    stored.write_text(strict_yaml.dump({"default": other}))
    stored.chmod(0o644)
    (tmp_path / "token").write_text(TOKEN)
    (tmp_path / "token").chmod(0o600)
    host = server.url.removeprefix("http://")
    for _ in range(2):
        assert lava_tool.main(["auth-add", server.url, "--token-file", str(tmp_path / "token")]) == 0
        found = strict_yaml.data(stored.read_text())
        assert found == {"default": other, host: {"uri": f"{server.url}/RPC2", "username": "gate", "token": TOKEN}}
        assert stored.stat().st_mode & 0o777 == 0o600
    server.tokens.add("a-newer-token-1")
    typed(monkeypatch, "a-newer-token-1\n")
    assert lava_tool.main(["auth-add", server.url]) == 0
    assert strict_yaml.data(stored.read_text())[host]["token"] == "a-newer-token-1"


@pytest.mark.parametrize(
    "mistake",
    [
        ("http://gate@{host}", "wrong-token-012", "refused"),
        ("http://gate@{host}", "", "holds no token"),
        ("http://somebody@{host}", TOKEN, "is gate's, not somebody's"),
        ("http://gate:{token}@{host}", TOKEN, "not the place of a token"),
        ("{host}", TOKEN, "URL"),
    ],
)
def test_a_token_that_does_not_fit_is_not_stored(
    server: LavaServer,
    stored: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    mistake: tuple[str, str, str],
) -> None:
    address, token, told = mistake
    typed(monkeypatch, f"{token}\n")
    host = server.url.removeprefix("http://")
    assert lava_tool.main(["auth-add", address.format(host=host, token="s3cr3t-token")]) == 2
    said = capsys.readouterr().err
    assert told in said
    assert "s3cr3t" not in said
    assert not token or token not in said
    assert not stored.exists()


@pytest.mark.parametrize("content", ["- a list\n", "default: text\n", "{"])
def test_a_file_that_is_not_lavaclis_stays_as_it_is(
    server: LavaServer, stored: Path, monkeypatch: pytest.MonkeyPatch, content: str
) -> None:
    stored.parent.mkdir()
    stored.write_text(content)
    typed(monkeypatch, f"{TOKEN}\n")
    assert lava_tool.main(["auth-add", server.url]) == 2
    assert stored.read_text() == content


def test_a_token_is_asked_for_at_a_terminal(
    server: LavaServer, stored: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", SimpleNamespace(isatty=lambda: True))
    monkeypatch.setattr("getpass.getpass", lambda prompt: TOKEN if server.url in prompt else "")
    assert lava_tool.main(["auth-add", server.url]) == 0
    assert stored.exists()
    assert TOKEN not in capsys.readouterr().out
