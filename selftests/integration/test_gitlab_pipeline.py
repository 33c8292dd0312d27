# SPDX-License-Identifier: MIT
"""The jobs of `ci/gitlab/*.yml`, run by gitlab-ci-local, with small programs in place of `rtgate`.

gitlab-ci-local checks the file by GitLab's own schema, fills in the inputs and runs the job with a shell. What it does
not do: it takes every `allow_failure` with exit codes for a job that may fail when it ends itself, so the result of the
job is read from what it prints. It knows `retry`, `resource_group` and `interruptible` and acts on none of them. It
keeps a cache only with `--shell-isolation`, which forgets what a script made when there is an `after_script`.
"""

from __future__ import annotations

import json
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from selftests.gitlab_ci_local import NO_NPM, command
from selftests.gitlab_server import MERGE_REQUEST, PROJECT, TOKEN, gitlab_server
from selftests.integration.conftest import ROOT
from selftests.integration.kernel_repository import KernelRepository

from rtgate.forge.note_body import MARK

INCLUDE = """\
include:
  - local: rtgate.yml
    inputs: {image: "bookworm:rtgate"}
"""
MERGED = {
    "CI_PIPELINE_SOURCE": "merge_request_event",
    "CI_MERGE_REQUEST_IID": str(MERGE_REQUEST),
    "CI_PROJECT_ID": str(PROJECT),
    "CI_MERGE_REQUEST_SOURCE_PROJECT_ID": str(PROJECT),
}
FORK = "--variable=CI_MERGE_REQUEST_SOURCE_PROJECT_ID=77"
TRAIN = "--variable=CI_MERGE_REQUEST_EVENT_TYPE=merge_train"
UNTRUSTED = "review --forge gitlab --untrusted --tree . -o report"
RECORDS = """\
#!/bin/sh
printf '%s\\n' "$*" >> "$RECORD/argv"
env > "$RECORD/env.$1"
[ "$1" = review ] || exit 0
mkdir -p report
echo '<testsuites/>' > report/junit.xml
exit "$CODE"
"""
REVIEWS = """\
#!{python}
import sys
from pathlib import Path
from rtgate.forge.gitlab import GitLab
from rtgate.forge.merge_request import Answer
if sys.argv[1] == "review":
    forge = GitLab.from_environment(Path("."), say=print)
    found = forge.merge_request()
    forge.publish(Answer(exit_code=0, markdown=f"{{found.name}} {{found.title}}: {{found.base}}", text=""))
"""


@pytest.fixture(scope="module")
def gitlab_ci_local() -> list[str]:
    """Return the command."""
    found = command()
    if not found:
        pytest.skip(NO_NPM)
    return found


@dataclass(frozen=True)
class Repository(KernelRepository):
    """One that includes the template."""

    command: list[str]

    def run(self, *options: str, code: int = 0, **variables: str) -> str:
        """Run the pipeline and return what is printed."""
        given = [f"--variable={name}={text}" for name, text in {**MERGED, **variables}.items()]
        argv = [*self.command, "--force-shell-executor", "--color=false", *given, *options]
        done = self.call(argv, code)
        return done.stdout + done.stderr

    def environment(self, command: str) -> dict[str, str]:
        lines = (self.record / f"env.{command}").read_text().splitlines()
        return dict(line.split("=", 1) for line in lines if "=" in line)


@pytest.fixture
def repository(tmp_path: Path, gitlab_ci_local: list[str]) -> Repository:
    made = Repository(tmp_path / "linux", tmp_path / "record", gitlab_ci_local)
    for directory in (made.tree, made.record, tmp_path / "bin"):
        directory.mkdir()
    made.program(RECORDS)
    shutil.copy(ROOT / "ci" / "gitlab" / "rtgate.yml", made.tree)
    (made.tree / ".gitlab-ci.yml").write_text(INCLUDE)
    made.git("init", "-q")
    made.git("remote", "add", "origin", "git@gitlab.example.org:kernel/linux.git")
    made.git("add", ".")
    made.git("commit", "-qm", "first")
    return made


@pytest.mark.parametrize(("code", "result"), [(0, "PASS"), (1, "FAIL"), (5, "WARN")])
def test_the_exit_code_decides_what_becomes_of_the_job(repository: Repository, code: int, result: str) -> None:
    printed = repository.run(code=code)
    assert f" {result}  rtgate-review" in printed
    assert repository.argv() == ["review --forge gitlab --tree . -o report"]
    artifact = repository.tree / ".gitlab-ci-local" / "artifacts" / "rtgate-review" / "report" / "junit.xml"
    assert artifact.exists()  # also of a job that fails


def test_what_the_job_gives_to_rtgate(repository: Repository) -> None:
    repository.run()
    given = repository.environment("review")
    assert given["RTGATE_CACHE"] == f"{given['CI_PROJECT_DIR']}/.rtgate-cache"
    assert given["GIT_DEPTH"] == "0"
    assert given["CI_MERGE_REQUEST_IID"] == str(MERGE_REQUEST)
    kept = "".join(f"        - .rtgate-cache/{name}\n" for name in ("boots", "ccache", "rootfs", "steps"))
    assert f"paths:\n{kept}" in repository.run("--preview")  # what is kept is what is used, without checkouts


@pytest.mark.parametrize(("code", "lab", "cancels"), [(0, "x", False), (1, "x", True), (1, "", False)])
def test_jobs_that_are_left_in_a_lab_are_cancelled(repository: Repository, code: int, lab: str, cancels: bool) -> None:
    repository.run(code=code, RTGATE_LAVA_URL=lab)
    assert len(repository.argv()) == 1 + cancels
    if cancels:
        number = repository.environment("cancel")["CI_PIPELINE_ID"]
        assert repository.argv()[1] == f"cancel --metadata pipeline={number}"


def test_only_merge_requests_are_reviewed(repository: Repository) -> None:
    repository.run(CI_PIPELINE_SOURCE="push")
    assert repository.argv() == []


def test_a_fork_is_reviewed_in_confinement_once_a_member_starts_the_job(repository: Repository) -> None:
    repository.run(FORK)
    assert repository.argv() == []
    printed = repository.run("--manual", "rtgate-review-fork", FORK)
    assert " PASS  rtgate-review-fork" in printed
    assert repository.argv() == [UNTRUSTED]


def test_a_merge_train_is_reviewed_by_itself_also_of_a_fork(repository: Repository) -> None:
    """Whoever put it there has read it, and nobody would start a job there."""
    repository.run("--manual", "rtgate-review-fork", FORK, TRAIN)
    assert repository.argv() == ["review --forge gitlab --tree . -o report"]


def test_the_jobs_of_unknown_code_are_in_a_protected_environment_and_leave_no_cache(repository: Repository) -> None:
    repository.program("#!/bin/sh\nexit 0\n")
    more = 'merge-request: "12", commit: c0ffee, environment: lab'
    (repository.tree / ".gitlab-ci.yml").write_text(INCLUDE.replace("{image", f"{{{more}, image"))
    for job in ("rtgate-review-fork", "rtgate-review-asked"):
        text = repository.run("--preview", FORK).partition(f"\n{job}:\n")[2]
        text = text.partition("\nrtgate-")[0]
        assert "name: lab" in text
        assert "action: prepare" in text
        assert "    policy: pull\n" in text or "\n  cache:" not in text
        assert "allow_failure:\n    exit_codes:\n      - 5\n" in text


def test_a_pipeline_of_the_target_branch_reviews_what_it_is_asked(repository: Repository) -> None:
    inputs = f'merge-request: "{MERGE_REQUEST}", commit: {"c" * 40}'
    (repository.tree / ".gitlab-ci.yml").write_text(INCLUDE.replace("{image", f"{{{inputs}, image"))
    repository.run(CI_PIPELINE_SOURCE="api", CI_MERGE_REQUEST_IID="")
    assert repository.argv() == [UNTRUSTED]
    given = repository.environment("review")
    assert (given["RTGATE_MERGE_REQUEST"], given["RTGATE_COMMIT"]) == (str(MERGE_REQUEST), "c" * 40)
    assert given["RTGATE_CACHE"] == f"{given['CI_PROJECT_DIR']}/.rtgate-cache"


def test_the_inputs(repository: Repository) -> None:
    inputs = "{image: i, stage: deploy, resource-group: lab-a, cache-key: k, expire-in: 2 days}"
    (repository.tree / ".gitlab-ci.yml").write_text(f"include:\n  - local: rtgate.yml\n    inputs: {inputs}\n")
    printed = repository.run("--preview")
    for line in (
        "stage: deploy",
        "name: i",
        "resource_group: lab-a",
        "key: k",
        "expire_in: 2 days",
        "interruptible: true",
    ):
        assert line in printed
    (repository.tree / ".gitlab-ci.yml").write_text("include:\n  - local: rtgate.yml\n")
    assert "`image` input: required value has not been provided" in repository.run("--preview")


def test_a_job_adds_what_the_template_has_no_input_for(repository: Repository) -> None:
    (repository.tree / ".gitlab-ci.yml").write_text(f"{INCLUDE}rtgate-review: {{tags: [kvm], timeout: 2 hours}}\n")
    printed = repository.run("--preview")
    assert "- kvm" in printed
    assert "rtgate review --forge gitlab" in printed


NIGHTLY = """\
include:
  - local: nightly.yml
    inputs: {image: "bookworm:rtgate"MORE}
"""
NIGHT = """\
#!/bin/sh
printf '%s\\n' "$*" >> "$RECORD/argv"
case "$*" in
gate*|submit*) mkdir -p report; echo '<testsuites/>' > report/junit.xml; exit "$CODE" ;;
baseline*) exit "${REFUSED:-0}" ;;
*drift*) exit 5 ;;
*trend*) mkdir -p trend; exit "${WORSE:-0}" ;;
esac
"""
GATE = "gate --board virt-arm64 --tree . --candidate HEAD -o report"
TRENDS = [
    "trend --board virt-arm64 --drift-budget 3%",
    "trend --board virt-arm64 --good-kernels -o trend",
]


@pytest.fixture
def nightly(repository: Repository) -> Repository:
    shutil.copy(ROOT / "ci" / "gitlab" / "nightly.yml", repository.tree)
    (repository.tree / ".gitlab-ci.yml").write_text(NIGHTLY.replace("MORE", ""))
    repository.program(NIGHT)
    repository.git("add", ".")
    return repository


def test_a_good_night_promotes_its_kernel_and_looks_at_the_trend(nightly: Repository) -> None:
    printed = nightly.run(CI_PIPELINE_SOURCE="schedule")
    first, second, *others = nightly.argv()
    assert [first, second, *sorted(others)] == [GATE, "baseline promote report", *TRENDS]
    assert " PASS  rtgate-nightly" in printed
    assert " PASS  rtgate-trend" in printed
    assert " WARN  rtgate-drift" in printed  # no gate to add up: exit code 5


@pytest.mark.parametrize(("code", "result"), [(1, "FAIL"), (5, "WARN")])
def test_a_night_without_a_good_verdict_promotes_nothing(nightly: Repository, code: int, result: str) -> None:
    printed = nightly.run(code=code, CI_PIPELINE_SOURCE="schedule")
    first, *others = nightly.argv()
    assert [first, *sorted(others)] == [GATE, *TRENDS]
    assert f" {result}  rtgate-nightly" in printed


def test_a_permanent_shift_is_red(nightly: Repository) -> None:
    assert " FAIL  rtgate-trend" in nightly.run(WORSE="1", CI_PIPELINE_SOURCE="schedule")


def test_a_kernel_that_is_refused_is_red(nightly: Repository) -> None:
    assert " FAIL  rtgate-nightly" in nightly.run(REFUSED="1", CI_PIPELINE_SOURCE="schedule")


def test_merge_requests_and_pushes_have_no_night(nightly: Repository) -> None:
    nightly.run()
    nightly.run(CI_PIPELINE_SOURCE="push")
    assert nightly.argv() == []


def test_a_night_on_a_board_of_a_lab(nightly: Repository) -> None:
    measure = "rtgate submit --board rk3588-evb1 --kernel build/night --wait -o report"
    more = f", board: rk3588-evb1, measure: '{measure}', drift-budget: 2%"
    (nightly.tree / ".gitlab-ci.yml").write_text(NIGHTLY.replace("MORE", more))
    nightly.run(code=1, RTGATE_LAVA_URL="x", CI_PIPELINE_SOURCE="schedule")
    told = nightly.argv()
    assert told[0] == measure.removeprefix("rtgate ")
    assert {"trend --board rk3588-evb1 --good-kernels -o trend", "trend --board virt-arm64 --drift-budget 2%"} < {*told}
    assert any(line.startswith("cancel --metadata pipeline=") for line in told)


def test_a_job_that_reviews_writes_its_note(repository: Repository) -> None:
    """The variables of a job, the real module, the stand-in server."""
    repository.program(REVIEWS.format(python=sys.executable))
    target = repository.git("rev-parse", "HEAD")
    repository.git("checkout", "-qb", "change")
    repository.git("commit", "-q", "--allow-empty", "-m", "change")
    with gitlab_server() as server:
        printed = repository.run(
            CI_SERVER_URL=server.url,
            CI_MERGE_REQUEST_PROJECT_ID=str(PROJECT),
            CI_MERGE_REQUEST_TITLE="/merge @all",
            CI_MERGE_REQUEST_EVENT_TYPE="merged_result",
            CI_MERGE_REQUEST_TARGET_BRANCH_NAME="main",
            CI_MERGE_REQUEST_TARGET_BRANCH_SHA=target,
            RTGATE_GITLAB_TOKEN=TOKEN,
        )
    assert " PASS  rtgate-review" in printed
    (note,) = server.notes
    assert note.body.startswith(f"{MARK} <!-- pipeline ")
    assert f"!{MERGE_REQUEST} /merge" in note.body
    assert note.body.endswith(target)
    assert (server.quick_actions, server.mentions) == ([], [])
    assert TOKEN not in json.dumps(printed)
