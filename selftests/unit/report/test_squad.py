# SPDX-License-Identifier: MIT
"""What SQUAD gets. Its rules are those of its documentation; a real SQUAD 1.98 took such files on 2026-11-25."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from selftests.unit.report.conftest import Boot, make, over_limit, within_limit
from selftests.unit.report.conftest import verdict as verdict_on

from rtgate.errors import ConfigError
from rtgate.judge.verdict import Kind, Status, Verdict, exit_code
from rtgate.records.record import Record
from rtgate.report import squad

IDENTIFIER = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9_.-]*")  # of groups, projects, builds and environments


def submitted(records: list[Record], verdicts: list[Verdict]) -> dict[str, dict[str, Any]]:
    made = squad.submissions(records, verdicts, exit_code(verdicts))
    found = {one.environment: {name: json.loads(text) for name, text in one.documents.items()} for one in made}
    assert len(found) == len(made)
    for documents in found.values():
        assert set(documents) == {"tests", "metrics", "metadata"}
        assert all(isinstance(text, str) for text in documents["metadata"].values())
        assert "/" not in documents["metadata"]["job_id"]
        for metric in documents["metrics"].values():
            assert all(type(value) in {int, float} for value in metric["value"])
            assert len(metric.get("unit", "")) <= 30
    return found


@pytest.mark.parametrize(
    ("status", "result"),
    [
        (Status.FAIL, "fail"),
        (Status.PASS, "pass"),
        (Status.ERROR, "skip"),
        (Status.MISS, "skip"),
        (Status.DONE, "skip"),
        (Status.SKIP, "skip"),
    ],
)
def test_only_a_pass_passes_and_only_a_fail_fails(status: Status, result: str) -> None:
    found = submitted([], [verdict_on(status, Kind.LIMIT, "so it is")])["virt-arm64"]
    log = f"{status.value} limit: so it is"
    assert found["tests"] == {"latency/cyclictest:idle": {"result": result, "log": log}}
    # A run in which nothing was judged is DONE as a whole.
    assert found["metadata"]["job_status"] == ("DONE" if status is Status.SKIP else status.value)


def test_a_metric_has_the_value_of_each_boot() -> None:
    records = [make(Boot(seed=seed, high_us=high)) for seed, high in ((1, 61.2), (2, 60.0))]
    metrics = submitted(records, [within_limit()])["virt-arm64"]["metrics"]
    assert metrics["latency/cyclictest:idle/latency.maximum"] == {"value": [61.2, 60.0], "unit": "virtual us"}
    assert metrics["latency/cyclictest:idle/wakeups.lost"] == {"value": [0.0, 0.0]}


def test_what_is_invalid_gives_no_metrics() -> None:
    invalid = verdict_on(Status.ERROR, Kind.VALIDITY, "the load was not there")
    assert submitted([make(Boot())], [within_limit(), invalid])["virt-arm64"]["metrics"] == {}


def test_each_board_is_an_environment_and_no_board_is_one_too() -> None:
    build = verdict_on(Status.FAIL, Kind.BUILD, "it cannot be built", board="", arm="", flavour="", case="")
    other = over_limit(board="rk3568-evb1")
    found = submitted([make(Boot())], [within_limit(), other, build])
    assert set(found) == {"virt-arm64", "rk3568-evb1", "no-board"}
    assert all(IDENTIFIER.fullmatch(name) for name in found)
    assert found["no-board"]["tests"]["rtgate/job"]["result"] == "fail"
    assert found["virt-arm64"]["metadata"]["job_status"] == "PASS"


def test_the_metadata_name_the_kernels() -> None:
    baseline = make(Boot(arm="baseline"))
    record = make(Boot())
    record = replace(record, kernel=replace(record.kernel, commit="0" * 40))
    metadata = submitted([baseline, record], [within_limit()])["virt-arm64"]["metadata"]
    assert metadata["commit_candidate"] == "0" * 40
    assert "commit_baseline" not in metadata
    assert metadata["kernel_baseline"].startswith("6.12.107-rt, tree at baseline")


def test_a_run_that_is_sent_again_is_the_same_job_and_another_judgement_is_not() -> None:
    records = [make(Boot())]

    def job(*verdicts: Verdict) -> str:
        return str(submitted(records, [*verdicts])["virt-arm64"]["metadata"]["job_id"])

    assert job(over_limit()) == job(over_limit())
    assert job(over_limit()) != job(within_limit())


def test_of_two_kernels_that_nobody_judged_the_worse_one_is_shown() -> None:
    both = [verdict_on(Status.PASS, Kind.LIMIT, "fine", arm="candidate"), over_limit(arm="baseline")]
    assert submitted([], both)["virt-arm64"]["tests"]["latency/cyclictest:idle"]["result"] == "fail"


@given(st.text())
def test_no_text_breaks_a_document(text: str) -> None:
    found = submitted([], [verdict_on(Status.FAIL, Kind.LIMIT, text)])["virt-arm64"]
    assert found["tests"]["latency/cyclictest:idle"]["log"].startswith("FAIL limit: ")


@pytest.mark.parametrize("board", ["../up", "a/b", "..", ".hidden", "a b", "a\n"])
def test_a_board_whose_name_is_no_environment_is_refused(board: str) -> None:
    """It becomes a directory and part of a URL."""
    with pytest.raises(ConfigError, match="cannot be an environment of SQUAD"):
        submitted([], [over_limit(board=board)])
