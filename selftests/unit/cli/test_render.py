# SPDX-License-Identifier: MIT
"""`rtgate render`: a job as a file, without a server, or checked by one."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path
from typing import Any

import pytest
from selftests.commands.test_submit import COMMON, server, story, verdicts
from selftests.lava_server import BOARD, SITE_BOARD, TOKEN, LavaServer

from rtgate import strict_yaml
from rtgate.cli import main
from rtgate.http.secret import Token
from rtgate.lava.client.access import Access
from rtgate.lava.client.server import Lava

__all__ = ["server"]

URL = "https://builds.example.org/4711"
RENDER = ("render", *COMMON[1:], "--artefacts-url", URL)


def rendered(*options: str) -> dict[str, Any]:
    """Render a job and return it."""
    assert main.main([*RENDER, *options]) == 0
    job = strict_yaml.data(Path("job/job.yaml").read_text())
    assert isinstance(job, dict)
    return job


@pytest.mark.parametrize("variable", ["CI_PIPELINE_ID", "GITHUB_RUN_ID"])
def test_a_job_says_which_pipeline_it_is_of(server: LavaServer, variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(variable, "4711")
    assert rendered()["metadata"]["pipeline"] == "4711"


def test_a_server_that_is_named_checks_the_job(server: LavaServer, capsys: pytest.CaptureFixture[str]) -> None:
    job = rendered("--server", server.url)
    assert "what LAVA's schema says" not in capsys.readouterr().err
    assert job["device_type"] == BOARD
    assert server.jobs == {}
    assert "POST jobs/validate/" in server.requests
    assert not Path("report").exists()


def test_a_merge_request_cannot_change_the_job(server: LavaServer, monkeypatch: pytest.MonkeyPatch) -> None:
    evil = 'x"\n}; actions: []\n{{ 7 * 7 }} `reboot` $(reboot) \x1b[31m'
    monkeypatch.setenv("CI_COMMIT_REF_NAME", evil)
    job = rendered("--metadata", f"title={evil}")
    assert len(job["actions"]) == 3
    assert job["metadata"]["title"].startswith('x"?}; actions')
    assert "\x1b" not in Path("job/job.yaml").read_text()


def test_a_job_says_which_overlays_its_device_tree_has(
    server: LavaServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("board.dtb", "uart.dtbo"):
        (tmp_path / name).write_bytes(b"x")
    monkeypatch.setattr("rtgate.kernel.device_tree.overlaid", lambda tree, _overlays, _into: tree)
    assert rendered("--dtb", "board.dtb", "--overlay", "uart.dtbo")["metadata"]["overlays"] == "uart.dtbo"


def test_a_vendors_kernel_by_url_gets_the_vendors_console(
    server: LavaServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    site = tmp_path / "site" / "boards" / f"{BOARD}.yaml"
    site.write_text(SITE_BOARD.replace("  boot:", "  consoles: {bsp: ttyFIQ0, mainline: ttyS2}\n  boot:"))
    url = "https://builds.example.org"
    urls = (
        "render",
        "--board",
        BOARD,
        "--kernel",
        f"{url}/Image",
        "--ramdisk",
        f"{url}/r.cpio.gz",
        "--profile",
        "smoke",
    )
    assert main.main(urls) == 2
    assert "name it with --family" in capsys.readouterr().err
    assert main.main([*urls, "--family", "bsp"]) == 0
    assert strict_yaml.data(Path("job/job.yaml").read_text())["context"]["console_device"] == "ttyFIQ0"
    # Without a file of this machine there is nothing to upload.
    assert not Path("job/artefacts").exists()
    assert "upload" not in capsys.readouterr().err


def test_what_nobody_confirmed_is_said(server: LavaServer, capsys: pytest.CaptureFixture[str]) -> None:
    for server_options in ((), ("--server", server.url)):
        rendered(*server_options)
        assert capsys.readouterr().err.count("unconfirmed: load addresses") == 1


def test_what_this_lab_cannot_tell_apart_is_said_before_anything_is_submitted(
    server: LavaServer, capsys: pytest.CaptureFixture[str]
) -> None:
    rendered("--server", server.url)
    said = capsys.readouterr().err
    assert f"no health check for {BOARD} is installed: a kernel that hangs silently" in said
    assert f"install one: rtgate lab-check --health-check {BOARD} --kernel URL --ramdisk URL > {BOARD}.yaml" in said
    rendered("--server", server.url, "--baseline", "kernel")
    assert "no health check" not in capsys.readouterr().err
    server.types[BOARD] = "job_name: check\n"
    rendered("--server", server.url)
    assert "no health check" not in capsys.readouterr().err


def test_the_files_are_ready_to_be_uploaded(
    server: LavaServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The worker boots these bytes and no others, from URLs that outlive the command."""
    deploy = rendered()["actions"][0]["deploy"]
    for name, path in (("kernel", "kernel/Image"), ("ramdisk", "ramdisk.cpio.gz")):
        data = (tmp_path / path).read_bytes()
        assert deploy[name]["sha256sum"] == hashlib.sha256(data).hexdigest()
        assert deploy[name]["url"].startswith(f"{URL}/")
        assert Path("job/artefacts", deploy[name]["url"].removeprefix(f"{URL}/")).read_bytes() == data
    told = capsys.readouterr()
    assert told.out == "job/job.yaml\n"
    assert f"upload what is in job/artefacts to {URL}" in told.err
    before = set(Path("job/artefacts").rglob("*"))
    rendered()
    assert set(Path("job/artefacts").rglob("*")) == before


def test_no_server_is_asked_and_no_token_needed(
    server: LavaServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("RTGATE_LAVA_TOKEN")
    assert rendered()["device_type"] == BOARD
    assert server.requests == []
    said = capsys.readouterr().err
    assert "not checked: whether the lab's workers can fetch the files" in said
    assert f"whether the lab has a device of type {BOARD} that is fit" in said
    assert "what LAVA's schema says of the job" in said


def test_somebody_else_submits_it_and_rtgate_judges_it(server: LavaServer, tmp_path: Path) -> None:
    rendered()
    lava = Lava(Access(server.url, Token(TOKEN, "x")))
    for _ in range(2):
        server.stories.append(story(tmp_path / str(len(server.jobs))))
        number = lava.submit_once(Path("job/job.yaml").read_text())
        assert main.main(["fetch", str(number), "--wait"]) in {0, 5}
        assert {one["case"] for one in verdicts()} == {"latency/cyclictest:idle"}
        assert {one["status"] for one in verdicts()} <= {"PASS", "DONE"}


def test_a_server_that_would_refuse_the_job(
    server: LavaServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(LavaServer, "_wrong", lambda _self, _definition: "extra keys not allowed")
    assert main.main([*RENDER, "--server", server.url]) == 2
    assert "would refuse the job: " in capsys.readouterr().err
    assert not Path("job/job.yaml").exists()


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--artefacts-url", ""), "--artefacts-url URL"),
        (("--artefacts-url", "builds.example.org"), "is not a URL"),
        (("--artefacts-url", "https://u:secret@h/x"), "name or password"),
        (("--artefacts-url", "https://h/x?y=secret"), "no query"),
        (("--device", "board-01"), "name it with --server, or use --tag"),
        (("--untrusted",), "--untrusted: name the devices"),
        (("--thresholds", "nowhere.yaml"), "no such file"),
        (("--metadata", "nothing"), "expected KEY=TEXT"),
    ],
)
def test_mistakes_leave_no_job(
    server: LavaServer, capsys: pytest.CaptureFixture[str], options: tuple[str, ...], told: str
) -> None:
    assert main.main([*RENDER, *options]) == 2
    said = capsys.readouterr().err
    assert told in said
    assert "secret" not in said
    assert not Path("job/job.yaml").exists()


def test_a_directory_that_cannot_be_written(server: LavaServer, capsys: pytest.CaptureFixture[str]) -> None:
    Path("job").write_text("a file")
    assert main.main(RENDER) == 3
    assert "cannot be written" in capsys.readouterr().err


def test_limits_of_the_command_line_go_with_the_job(server: LavaServer) -> None:
    limit = "{measurement: latency.max, kind: max, limit: 77 us, source: measured}"
    Path("mine.yaml").write_text(f"{BOARD}: {{preempt_rt: {{latency/cyclictest:idle: [{limit}]}}}}\n")
    test = rendered("--thresholds", "mine.yaml")["actions"][2]["test"]
    steps = test["definitions"][0]["repository"]["run"]["steps"]
    (encoded,) = (step.split("\n", 1)[1].rsplit("\n", 1)[0] for step in steps if "RTGATE_LIMITS" in step)
    assert "77 us" in base64.b64decode(encoded).decode()


def test_both_arms_in_turns(server: LavaServer) -> None:
    rendered("--baseline", "kernel", "--boots", "2")
    text = Path("job/job.yaml").read_text()
    steps = [line.split("--arm ")[1].split()[0] for line in text.replace("\n", " ").split("rtgate in-job")[1:]]
    assert steps == ["baseline", "candidate", "candidate", "baseline"]
