# SPDX-License-Identifier: MIT
"""Ways to submit that other tests do not take, on a real LAVA server: chosen cases, a storage, a history, lava-tool."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import xml.etree.ElementTree as ET
import xmlrpc.client
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from selftests.lab.lab import ROOT, Lab

from rtgate.board import boards
from rtgate.cli.main import main
from rtgate.lava.job import cases as cases_file
from rtgate.records.record import read
from rtgate.workflow import suites

pytestmark = pytest.mark.long("one job for each way of booting; test_submit has the usual one")

BOARD = "lab-virt-arm64"
PUT_TOKEN = "put-token-of-a-test"


@pytest.fixture(scope="module")
def kernel(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Path:
    assert lab.token_file.exists()
    directory = tmp_path_factory.mktemp("kernel")
    assert main(["build", boards.board(BOARD).build, "-o", str(directory)]) == 0
    return directory


class Storage(BaseHTTPRequestHandler):
    """A lab's storage: takes files by PUT with a token, gives them to everybody."""

    files: dict[str, bytes]
    protocol_version = "HTTP/1.1"

    def log_message(self, *_arguments: object) -> None: ...

    def _head(self, status: int, size: int = 0) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(size))
        self.end_headers()

    def do_PUT(self) -> None:
        data = self.rfile.read(int(self.headers["Content-Length"]))
        known = self.headers.get("Authorization") == f"Bearer {PUT_TOKEN}"
        if known:
            self.files[self.path] = data
        self._head(201 if known else 403)

    def do_HEAD(self) -> None:
        self._head(200 if self.path in self.files else 404, len(self.files.get(self.path, b"")))

    def do_GET(self) -> None:
        self.do_HEAD()
        self.wfile.write(self.files.get(self.path, b""))


@pytest.fixture
def storage() -> Iterator[tuple[str, dict[str, bytes]]]:
    """Return the URL of a storage, and what it holds."""
    files: dict[str, bytes] = {}
    handler = type("Handler", (Storage,), {"files": files})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as http:
        threading.Thread(target=http.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{http.server_address[1]}/rt", files
        http.shutdown()


def ran(lab: Lab, where: Path, module: str, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a command as a person would."""
    program = f"import sys; from rtgate.cli.{module} import main; sys.exit(main())"
    return subprocess.run(
        [sys.executable, "-c", program, *words],
        cwd=where,
        env={**os.environ, **lab.environment, "PYTHONPATH": str(ROOT / "src"), **variables},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


def rtgate(lab: Lab, where: Path, *words: str, codes: tuple[int, ...] = (0,)) -> str:
    """Run rtgate, check its exit code, and return what it printed."""
    done = ran(lab, where, "main", *words, RTGATE_PUT_TOKEN=PUT_TOKEN)
    assert done.returncode in codes, done.stdout + done.stderr
    return done.stdout


def lava_tool(lab: Lab, where: Path, *words: str, code: int = 0) -> str:
    """Run lava-tool, check its exit code, and return what it printed."""
    done = ran(lab, where, "lava_tool", *words)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout


def test_chosen_cases_by_a_storage_into_a_history(
    lab: Lab, kernel: Path, storage: tuple[str, dict[str, bytes]], tmp_path: Path
) -> None:
    """Submit and go away; come back later, elsewhere, with nothing but the job's number."""
    url, stored = storage
    chosen = [case for case in suites.cases(["latency"], "smoke", "default") if case.load == "idle"]
    cases_file.write(chosen, tmp_path / "cases.json")
    asked = ["--board", BOARD, "--kernel", str(kernel), "--profile", "smoke", "--cases", str(tmp_path / "cases.json")]
    number = rtgate(lab, tmp_path, "submit", *asked, "--put", url, "--metadata", "pipeline=17").strip()
    assert len(stored) == 2
    assert number in rtgate(lab, tmp_path, "jobs", "--metadata", "pipeline=17")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    history = f"sqlite:///{tmp_path}/history.db"
    rtgate(lab, elsewhere, "fetch", number, "--wait", "--history", history, codes=(0, 5))
    report = elsewhere / "report"
    verdicts = json.loads((report / "verdict.json").read_text())["verdicts"]
    assert {one["case"] for one in verdicts} == {"latency/cyclictest:idle"}
    assert {one["status"] for one in verdicts} <= {"PASS", "DONE"}
    (line,) = json.loads(rtgate(lab, elsewhere, "history", "list", "--history", history, "--json"))
    assert (line["board"], line["case"]) == (BOARD, "latency/cyclictest:idle")
    # What programs read beside verdict.json: JUnit, and Allure's results.
    tests = ET.parse(report / "junit.xml").findall("testsuite/testcase")
    assert [(one.get("classname"), one.get("name")) for one in tests] == [
        (f"{BOARD}.candidate", "latency/cyclictest:idle")
    ]
    assert list((report / "allure-results").glob("*-result.json"))
    # The same files are not sent again, and no secret is in what anybody can read.
    before = dict(stored)
    again = rtgate(lab, tmp_path, "submit", *asked, "--put", url).strip()
    assert again != number
    assert stored == before
    # The storage ends with this test, and LAVA would wait for it: the board is the next test's.
    lava_tool(lab, tmp_path, "cancel-job", f"{lab.url}/RPC2", again)
    lab.wait(int(again), 120)
    kept = "".join(path.read_text(errors="replace") for path in report.rglob("*") if path.is_file())
    secret = lab.token_file.read_text().strip()
    shown = kept + str(lab.ask(f"jobs/{number}/")) + str(lab.log(int(number)))
    assert PUT_TOKEN not in shown
    assert secret not in shown


def test_a_storage_that_refuses_is_told_before_the_job(
    lab: Lab, kernel: Path, storage: tuple[str, dict[str, bytes]], tmp_path: Path
) -> None:
    before = lab.ask("jobs/?limit=1")["count"]
    asked = ("--board", BOARD, "--kernel", str(kernel), "--put", storage[0])
    done = ran(lab, tmp_path, "main", "submit", *asked, RTGATE_PUT_TOKEN="no-such-token")
    assert done.returncode == 2, done.stderr
    assert "refused the token from $RTGATE_PUT_TOKEN" in done.stderr
    assert "no-such-token" not in done.stderr
    assert lab.ask("jobs/?limit=1")["count"] == before


def test_sections_by_tracepoints_are_a_job_of_their_own(lab: Lab, tmp_path: Path) -> None:
    """After a FAIL, or each night: another kernel, whose latencies say nothing, and every section that it had."""
    kernel, report = tmp_path / "kernel", tmp_path / "report"
    assert main(["build", "virt-arm64-preemptirq", "-o", str(kernel)]) == 0
    every = suites.cases(["latency"], "sections", "default")
    assert {case.load for case in every} == {"idle", "hackbench", "stress-ng"}
    cases = tmp_path / "cases.json"
    cases_file.write([case for case in every if case.load == "idle"], cases)
    asked = ("--board", BOARD, "--kernel", str(kernel), "--profile", "sections", "--cases", str(cases))
    rtgate(lab, tmp_path, "submit", *asked, "--wait", "-o", str(report), codes=(0, 5))
    (path,) = report.rglob("record.json")
    record = read(path.parent)
    assert record.case == "latency/preemptirq:idle"
    for kind in ("irqsoff", "preemptoff", "preemptirqsoff"):
        longest = [one for one in record.measurements if one.name == f"{kind}.site"]
        assert len(longest) == 10 * boards.board(BOARD).cpus
        assert all(one.labels["site"] for one in longest)
    (verdict,) = json.loads((report / "verdict.json").read_text())["verdicts"]
    assert verdict["status"] in {"PASS", "DONE"}


PROBE = """\
job_name: lava-tool
device_type: lab-virt-arm64
visibility: public
priority: medium
timeouts: {job: {minutes: 5}}
actions:
- test:
    timeout: {minutes: 2}
    docker: {image: "rtgate:0.1.0", local: true}
    definitions:
    - from: inline
      name: said
      path: inline/said.yaml
      repository:
        metadata: {format: Lava-Test Test Definition 1.0, name: said, description: a word}
        run: {steps: [echo the-word, sleep SLEEP]}
"""


def test_lava_tool_and_xml_rpc_see_the_same_jobs(lab: Lab, tmp_path: Path) -> None:
    """lava-tool takes the address that it always took and asks the REST API; XML-RPC, which lavacli asks, agrees."""
    (tmp_path / "job.yaml").write_text(PROBE.replace("SLEEP", "0"))
    (tmp_path / "long.yaml").write_text(PROBE.replace("SLEEP", "100"))
    address = f"{lab.url}/RPC2"
    account = f"{lab.user}:{lab.token_file.read_text().strip()}"

    def number(said: str) -> int:
        return int(said.partition("/scheduler/job/")[2].split()[0])

    def seen(job: int) -> tuple[str, str]:
        url = f"http://{account}@{lab.url.removeprefix('http://')}/RPC2"
        with xmlrpc.client.ServerProxy(url) as server:
            shown = server.scheduler.jobs.show(job)
        assert isinstance(shown, dict)
        return str(shown["state"]), str(shown["health"])

    said = lava_tool(lab, tmp_path, "submit-job", address, "job.yaml", "--block")
    assert "Job Health: Complete" in said
    assert seen(number(said)) == ("Finished", "Complete")
    told = lava_tool(lab, tmp_path, "job-status", address, str(number(said)))
    assert "Job State: Finished\nJob Health: Complete" in told
    assert "the-word" in lava_tool(lab, tmp_path, "job-output", address, str(number(said)))

    running = number(lava_tool(lab, tmp_path, "submit-job", address, "long.yaml"))
    lava_tool(lab, tmp_path, "cancel-job", address, str(running))
    lab.wait(running, 60)
    assert seen(running) == ("Finished", "Canceled")
    assert "Canceled" in lava_tool(lab, tmp_path, "job-status", address, str(running), code=1)
