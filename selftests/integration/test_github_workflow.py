# SPDX-License-Identifier: MIT
"""The jobs of `ci/github/*.yml`, checked by actionlint and run by act, with small programs in place of `rtgate`.

act runs the job on this machine instead of in a container (`-P ubuntu-latest=-self-hosted`). Small actions that write
down their inputs stand in for GitHub's own, whose services act does not have. It copies the repository instead of
checking it out, does not act on `concurrency` and `permissions`, and cancels no job.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from selftests.github_server import BOT, PULL_REQUEST, REPOSITORY, TOKEN, github_server
from selftests.integration.conftest import CACHE, ROOT
from selftests.integration.kernel_repository import KernelRepository

from rtgate.files import waiting_lock
from rtgate.forge.note_body import MARK

WORKFLOWS = ROOT / "ci" / "github"
WORKFLOW = WORKFLOWS / "rtgate.yml"
ALL = ("rtgate.yml", "rtgate-run.yml", "nightly.yml")
ACT = "github.com/nektos/act@v0.2.89"
ACTIONLINT = "github.com/rhysd/actionlint/cmd/actionlint@v1.7.12"
CONTAINER = re.compile(r"^ +container: .*\n", re.MULTILINE)
USES = re.compile(r"uses: (\S+)@([0-9a-f]{40}) # v\d+\.\d+\.\d+")
STAND_IN = """\
name: stand-in
inputs: {path: {default: ""}, name: {default: ""}, key: {default: ""}}
runs:
  using: composite
  steps:
    - shell: bash
      env: {NAME: NAME_OF_ACTION, INPUTS: "${{ toJSON(inputs) }}"}
      run: echo "$NAME" $INPUTS >> "$RECORD/actions"
"""
RECORDS = """\
#!/bin/sh
printf '%s\\n' "$*" >> "$RECORD/argv"
env > "$RECORD/env.$1"
[ "$1" = review ] || exit 0
exit "$CODE"
"""
REVIEWS = """\
#!{python}
import os, sys
from pathlib import Path
from rtgate.forge.github import GitHub
from rtgate.forge.merge_request import Answer
os.environ["GITHUB_API_URL"] = os.environ["SERVER"]
forge = GitHub.from_environment(Path("."), say=print)
found = forge.merge_request()
text = f"{{found.name}} {{found.title}}: {{found.base}} {{found.merged}}"
forge.publish(Answer(exit_code=0, markdown=text, text=text))
"""
GoProgram = Callable[[str], str]


@pytest.fixture(scope="module")
def go_program() -> GoProgram:
    """Return what builds a Go program into the cache once: act takes a minute or two, actionlint seconds."""
    if not shutil.which("go"):
        pytest.skip("Go 1.24 or later is not here")

    def build(package: str) -> str:
        name, _, version = package.rsplit("/", 1)[1].partition("@")
        place = CACHE / "self-tests" / f"{name}-{version}"
        place.mkdir(parents=True, exist_ok=True)
        with waiting_lock(place / "lock", f"builds {name}", print):
            if not (place / name).exists():
                environment = {**os.environ, "GOBIN": str(place)}
                subprocess.run(["go", "install", package], env=environment, check=True, timeout=1200)
        return str(place / name)

    return build


@dataclass(frozen=True)
class Repository(KernelRepository):
    """One that has the workflow."""

    act: str
    workflow: str
    event: str = "pull_request"

    def run(self, event: Mapping[str, Any], code: int = 0, **variables: str) -> str:
        """Run the workflow and return what is printed."""
        path = self.tree.parent / "event.json"
        path.write_text(json.dumps(event))
        names = {f"{name.split('/')[0]}/{name.split('/')[1]}@{commit}" for name, commit in USES.findall(self.text())}
        stand_ins = [f"--local-repository={name}={self.tree.parent / name.partition('@')[0]}" for name in names]
        given = [f"--env={name}={text}" for name, text in variables.items()]
        options = [
            "--eventpath",
            str(path),
            "--action-offline-mode",
            "--no-cache-server",
            f"--secret=GITHUB_TOKEN={TOKEN}",
            "--secret=RTGATE_HISTORY=sqlite:///history.db",
        ]
        argv = [self.act, self.event, "--platform=ubuntu-latest=-self-hosted", *options, *given, *stand_ins]
        return self.call(argv, code).stdout

    def text(self) -> str:
        return (self.tree / ".github" / "workflows" / self.workflow).read_text()

    def actions(self) -> list[str]:
        return (self.record / "actions").read_text().splitlines()


def pull_request(base: str = "1" * 40, head: str = "2" * 40) -> dict[str, Any]:
    home = {"id": 1, "full_name": REPOSITORY}
    return {
        "number": PULL_REQUEST,
        "pull_request": {
            "number": PULL_REQUEST,
            "title": "late @all",
            "html_url": f"https://github.com/{REPOSITORY}/pull/{PULL_REQUEST}",
            "base": {"ref": "main", "sha": base, "repo": home},
            "head": {"ref": "change", "sha": head, "repo": home},
        },
    }


def made(tmp_path: Path, act: str, workflow: str = "rtgate.yml", event: str = "pull_request") -> Repository:
    repository = Repository(tmp_path / "linux", tmp_path / "record", act, workflow, event)
    workflows = repository.tree / ".github" / "workflows"
    for directory in (workflows, repository.record, tmp_path / "bin"):
        directory.mkdir(parents=True)
    repository.program(RECORDS)
    # The job's container is the one thing that is not tried.
    (workflows / workflow).write_text(CONTAINER.sub("", (WORKFLOWS / workflow).read_text()))
    for name, _ in USES.findall(repository.text()):
        (tmp_path / name).mkdir(parents=True, exist_ok=True)
        (tmp_path / name / "action.yml").write_text(STAND_IN.replace("NAME_OF_ACTION", name))
    repository.git("init", "-q")
    repository.git("remote", "add", "origin", f"https://github.com/{REPOSITORY}.git")
    repository.git("add", ".")
    repository.git("commit", "-qm", "first")
    return repository


@pytest.fixture
def repository(tmp_path: Path, go_program: GoProgram) -> Repository:
    return made(tmp_path, go_program(ACT))


@pytest.mark.parametrize("workflow", ALL)
def test_actionlint_has_no_complaint(tmp_path: Path, go_program: GoProgram, workflow: str) -> None:
    place = tmp_path / ".github" / "workflows"
    place.mkdir(parents=True)
    shutil.copy(WORKFLOWS / workflow, place)
    program = go_program(ACTIONLINT)
    lint = [program, "-no-color", str(place / workflow)]
    done = subprocess.run(lint, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")
    (place / workflow).write_text((WORKFLOWS / workflow).read_text().replace("runs-on", "run-on"))
    assert subprocess.run(lint, capture_output=True, check=False).returncode == 1  # it does look


def test_what_the_workflow_may_and_that_each_action_is_one_commit() -> None:
    text = WORKFLOW.read_text()
    workflow = yaml.safe_load(text)
    assert workflow[True] == {"pull_request": None, "merge_group": None}  # YAML 1.1 reads `on` as true
    assert workflow["permissions"] == {"contents": "read", "checks": "write", "pull-requests": "write"}
    assert workflow["concurrency"] == {
        "group": "rtgate-${{ github.event.pull_request.number || github.ref }}",
        "cancel-in-progress": True,
    }
    steps = workflow["jobs"]["review"]["steps"]
    assert steps[0]["with"] == {"fetch-depth": 0, "persist-credentials": False}
    assert len(USES.findall(text)) == text.count("uses:") == 4
    # What whoever proposes the change has written is in no script.
    assert not [step for step in steps if "${{" in step.get("run", "")]


@pytest.mark.parametrize(("code", "status"), [(0, 0), (1, 1), (2, 2), (3, 3), (4, 4), (5, 0)])
def test_the_step_alone(tmp_path: Path, code: int, status: int) -> None:
    """Without act: GitHub runs it by `bash --noprofile --norc -eo pipefail`."""
    steps = yaml.safe_load(WORKFLOW.read_text())["jobs"]["review"]["steps"]
    (step,) = [step for step in steps if step.get("name") == "Review"]
    (tmp_path / "rtgate").write_text(RECORDS)
    (tmp_path / "rtgate").chmod(0o755)
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "RECORD": str(tmp_path), "CODE": str(code)}
    bash = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
    done = subprocess.run(bash, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == status
    assert (done.stdout == "") == (code != 5)
    assert (tmp_path / "argv").read_text() == "review --forge github --tree . -o report\n"
    assert f"RTGATE_CACHE={tmp_path}/.rtgate-cache\n" in (tmp_path / "env.review").read_text()


@pytest.mark.parametrize(("code", "end"), [(0, "succeeded"), (1, "failed"), (3, "failed"), (5, "succeeded")])
def test_the_exit_code_decides_what_becomes_of_the_job(repository: Repository, code: int, end: str) -> None:
    assert f"Job {end}" in repository.run(pull_request(), code=code)
    assert repository.argv() == ["review --forge github --tree . -o report"]
    names = [line.split()[0] for line in repository.actions()]
    assert names == ["actions/cache/restore", "actions/cache/save", "actions/upload-artifact"]  # whatever happened
    kept = "".join(f".rtgate-cache/{name}\\n" for name in ("boots", "ccache", "rootfs", "steps"))
    assert all(f'"path": "{kept}"' in line for line in repository.actions()[:2])  # a cache is found by its paths, too
    assert '"path": "report"' in repository.actions()[2]


@pytest.mark.parametrize(("code", "lab", "cancels"), [(0, "x", False), (1, "x", True), (1, "", False)])
def test_jobs_that_are_left_in_a_lab_are_cancelled(repository: Repository, code: int, lab: str, cancels: bool) -> None:
    repository.run(pull_request(), code=code, RTGATE_LAVA_URL=lab)
    assert repository.argv()[1:] == ["cancel --metadata pipeline=1"] * cancels


def test_a_job_that_reviews_writes_its_answer(repository: Repository) -> None:
    """The variables of a job, the real module, the stand-in server."""
    repository.program(REVIEWS.format(python=sys.executable))
    base = repository.git("rev-parse", "HEAD")
    repository.git("checkout", "-qb", "change")
    repository.git("commit", "-q", "--allow-empty", "-m", "change")
    head = repository.git("rev-parse", "HEAD")
    repository.git("checkout", "-q", "main")
    repository.git("merge", "-q", "--no-ff", "-m", "merge", "change")
    with github_server() as server:
        server.head = head
        printed = repository.run(pull_request("0" * 40, head), SERVER=server.url)
    assert "Job succeeded" in printed
    assert TOKEN not in printed
    assert [(one["head_sha"], one["conclusion"]) for one in server.checks] == [(head, "success")]
    (comment,) = server.comments
    assert comment.author == BOT
    assert comment.body.startswith(f"{MARK} <!-- pipeline 1 -->\n\n#7 late @")
    assert comment.body.endswith(f": {base} True")
    assert server.mentions == []


# --- a merge queue, unknown code, nights


def test_a_merge_group_is_reviewed(tmp_path: Path, go_program: GoProgram) -> None:
    repository = made(tmp_path, go_program(ACT), event="merge_group")
    repository.program(REVIEWS.format(python=sys.executable))
    base = repository.git("rev-parse", "HEAD")
    repository.git("commit", "-q", "--allow-empty", "-m", "change")
    head = repository.git("rev-parse", "HEAD")
    group = {
        "base_sha": base,
        "head_sha": head,
        "base_ref": "refs/heads/main",
        "head_ref": f"refs/heads/gh-readonly-queue/main/pr-7-{base}",
        "head_commit": {"message": "change"},
    }
    event = {
        "action": "checks_requested",
        "merge_group": group,
        "repository": {"html_url": f"https://github.com/{REPOSITORY}"},
    }
    with github_server() as server:
        server.head = head
        assert "Job succeeded" in repository.run(event, SERVER=server.url)
    assert [(one["head_sha"], one["output"]["title"]) for one in server.checks] == [
        (head, f"merge group of #7 change: {base} True")
    ]
    assert server.comments == []


def test_one_commit_of_unknown_code_is_reviewed_in_confinement_and_leaves_no_cache(
    tmp_path: Path, go_program: GoProgram
) -> None:
    repository = made(tmp_path, go_program(ACT), "rtgate-run.yml", "workflow_dispatch")
    printed = repository.run({"inputs": {"pull-request": "7", "commit": "c" * 40}})
    assert "Job succeeded" in printed
    assert repository.argv() == ["review --forge github --untrusted --tree . -o report"]
    names = [line.split()[0] for line in repository.actions()]
    assert names == ["actions/checkout", "actions/cache/restore", "actions/upload-artifact"]


def test_the_workflow_for_unknown_code_is_started_by_members_alone_and_checks_out_that_commit() -> None:
    text = (WORKFLOWS / "rtgate-run.yml").read_text()
    workflow = yaml.safe_load(text)
    assert {*workflow[True]} == {"workflow_dispatch"}
    job = workflow["jobs"]["review"]
    assert job["environment"] == "rtgate"
    assert job["steps"][0]["with"] == {
        "ref": "${{ inputs.commit }}",
        "fetch-depth": 0,
        "persist-credentials": False,
    }
    assert not [step for step in job["steps"] if "${{" in step.get("run", "")]


NIGHT = """\
#!/bin/sh
printf '%s\\n' "$*" >> "$RECORD/argv"
[ -n "$RTGATE_HISTORY" ] || exit 99
case "$*" in
gate*) exit "$CODE" ;;
baseline*) exit "${REFUSED:-0}" ;;
*drift*) exit 5 ;;
*trend*) exit "${WORSE:-0}" ;;
esac
"""
GATE = "gate --board virt-arm64 --tree . --candidate HEAD -o report"
TRENDS = ["trend --board virt-arm64 --drift-budget 3%", "trend --board virt-arm64 --good-kernels -o trend"]


@pytest.fixture
def nightly(tmp_path: Path, go_program: GoProgram) -> Repository:
    repository = made(tmp_path, go_program(ACT), "nightly.yml", "schedule")
    repository.program(NIGHT)
    return repository


def ended(printed: str, job: str) -> str:
    """Return how a job ended, `succeeded` or `failed`."""
    return next(line for line in printed.splitlines() if job in line and "Job " in line).rpartition("Job ")[2]


def test_a_good_night_promotes_its_kernel_and_looks_at_the_trend(nightly: Repository) -> None:
    printed = nightly.run({})
    first, second, *others = nightly.argv()
    assert [first, second, *sorted(others)] == [GATE, "baseline promote report", *TRENDS]
    assert [ended(printed, job) for job in ("/nightly", "/trend", "/drift")] == ["succeeded"] * 3


@pytest.mark.parametrize(("code", "end"), [(1, "failed"), (5, "succeeded")])
def test_a_night_without_a_good_verdict_promotes_nothing(nightly: Repository, code: int, end: str) -> None:
    printed = nightly.run({}, code=code)
    first, *others = nightly.argv()
    assert [first, *sorted(others)] == [GATE, *TRENDS]
    assert ended(printed, "/nightly") == end


def test_a_permanent_shift_is_red(nightly: Repository) -> None:
    assert ended(nightly.run({}, WORSE="1"), "/trend") == "failed"


def test_a_kernel_that_is_refused_is_red(nightly: Repository) -> None:
    assert ended(nightly.run({}, REFUSED="1"), "/nightly") == "failed"


def test_each_action_of_the_new_workflows_is_one_commit() -> None:
    for workflow in ALL:
        text = (WORKFLOWS / workflow).read_text()
        assert len(USES.findall(text)) == text.count("uses:") > 0
