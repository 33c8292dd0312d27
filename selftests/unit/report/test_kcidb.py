# SPDX-License-Identifier: MIT
"""What KCIDB gets, checked by its own schema package."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from kcidb_io.schema import LATEST, V5_3
from selftests.unit.report.conftest import Boot, make, over_limit, within_limit
from selftests.unit.report.conftest import verdict as verdict_on

from rtgate.judge.verdict import Figure, Kind, Status, Verdict
from rtgate.records.record import Record
from rtgate.report import kcidb
from rtgate.units import Quantity, Unit

if TYPE_CHECKING:
    from selftests.unit.report.conftest import World

COMMIT = "0123456789abcdef0123456789abcdef01234567"


def _of(record: Record, **changes: str) -> Record:
    return replace(record, kernel=replace(record.kernel, **changes))


def exported(records: list[Record], verdicts: list[Verdict]) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(kcidb.document(records, verdicts, "mylab"))
    V5_3.validate_exactly(data)
    return data


def by_path(records: list[Record], verdicts: list[Verdict]) -> dict[str, dict[str, Any]]:
    found = exported(records, verdicts)["tests"]
    assert len({one["id"] for one in found}) == len(found)
    return {one["path"]: one for one in found}


def test_the_schema_is_the_newest_one() -> None:
    """A newer one may have a place for what is in `misc` now."""
    assert (LATEST.major, LATEST.minor) == (5, 3)


def test_a_case_is_a_test_and_so_is_each_of_its_figures() -> None:
    found = by_path([make(Boot(high_us=131.4))], [over_limit()])
    case = found["rtgate.latency.cyclictest.idle"]
    assert (case["status"], case["misc"]["kind"], case["environment"]["misc"]["platform"]) == (
        "FAIL",
        "limit",
        "virt-arm64",
    )
    assert case["comment"].startswith("latency.max was 131.4 virtual us")
    assert case["duration"] == pytest.approx(3.6)
    limit = found["rtgate.latency.cyclictest.idle.latency_max"]
    assert limit["status"] == "FAIL"
    assert limit["number"] == {"value": 131.4, "unit": "virtual us"}
    assert limit["misc"]["limit"] == "80.0 virtual us (10000 instructions)"
    mean = found["rtgate.latency.cyclictest.idle.latency_mean"]
    assert (mean["status"], mean["number"]["unit"]) == ("DONE", "virtual us")
    assert found["rtgate.latency.cyclictest.idle.wakeups_lost"]["number"] == {"value": 0}


@pytest.mark.parametrize("status", list(Status))
def test_a_status_stays_what_it_is(status: Status) -> None:
    found = by_path([], [verdict_on(status, Kind.LIMIT, "so it is")])
    assert found["rtgate.latency.cyclictest.idle"]["status"] == status.value


def test_what_is_open_is_no_pass() -> None:
    open_one = verdict_on(Status.DONE, Kind.INCONCLUSIVE, "more boots are needed")
    assert by_path([make(Boot())], [within_limit(), open_one])["rtgate.latency.cyclictest.idle"]["status"] == "DONE"


@pytest.mark.parametrize("status", [Status.ERROR, Status.MISS])
def test_what_is_doubtful_gives_no_figures(status: Status) -> None:
    doubt = verdict_on(status, Kind.VALIDITY, "the load was not there")
    assert list(by_path([make(Boot())], [doubt])) == ["rtgate.latency.cyclictest.idle"]


def test_one_figure_has_one_meaning_and_unit_in_every_run() -> None:
    """A regression of maxima names the median boot in nanoseconds; elsewhere a maximum is the largest."""
    records = [make(Boot(seed=seed, high_us=high)) for seed, high in ((1, 60.0), (2, 70.0), (3, 90.0))]
    regression = replace(
        verdict_on(Status.FAIL, Kind.REGRESSION, "latency maximum +40%", measurement="latency maximum"),
        value=Figure.of(Quantity(70_000, Unit.VIRTUAL_NS), "70.0 virtual us"),
    )
    path = "rtgate.latency.cyclictest.idle.latency_maximum"
    compared, alone = by_path(records, [regression])[path], by_path(records, [])[path]
    assert (compared["status"], alone["status"]) == ("FAIL", "DONE")
    assert compared["number"] == alone["number"] == {"value": 90, "unit": "virtual us"}


def test_a_kernel_is_a_checkout_and_a_build() -> None:
    records = [
        _of(make(Boot(seed=seed, arm=arm)), commit=commit, provenance="rtgate")
        for arm, commit in (("candidate", COMMIT), ("baseline", ""))
        for seed in (1, 2)
    ]
    data = exported(records, [over_limit()])
    candidate, baseline = data["checkouts"]
    assert (candidate["id"], candidate["git_commit_hash"]) == (f"mylab:{COMMIT}", COMMIT)
    assert "git_commit_hash" not in baseline
    assert [one["checkout_id"] for one in data["builds"]] == [candidate["id"], baseline["id"]]
    assert {one["status"] for one in data["builds"]} == {"PASS"}
    assert {one["architecture"] for one in data["builds"]} == {"arm64"}
    case = data["tests"][0]
    assert case["build_id"] == data["builds"][0]["id"]
    assert case["misc"]["baseline_build_id"] == data["builds"][1]["id"]


def test_nobody_says_how_somebody_else_s_kernel_was_built() -> None:
    (build,) = exported([_of(make(Boot()), provenance="unknown")], [])["builds"]
    assert "status" not in build


def test_kernels_that_were_running_are_as_many_as_they_say() -> None:
    def running(board: str, **says: str) -> Record:
        record = make(Boot(board=board, seed=None, changes=says))
        unknown = {"name": "running", "image_sha256": "", "release": "", "source": "whatever the target runs"}
        return _of(record, **unknown, provenance="unknown")

    boards = [running("a"), running("b", kernel_version="#2"), running("c", arch="x86_64"), running("d", build_id="e")]
    data = exported([*boards, running("again")], [])
    assert len(data["checkouts"]) == len(data["builds"]) == 4
    other = exported([running("a", kernel_release="7.0")], [])
    assert other["checkouts"][0]["id"] not in {one["id"] for one in data["checkouts"]}


def test_a_kernel_that_cannot_be_built_is_a_build_that_failed() -> None:
    broken = verdict_on(Status.FAIL, Kind.BUILD, "kernel/futex.c:1: error", board="", arm="", flavour="", case="")
    data = exported([], [broken])
    (build,) = data["builds"]
    assert (build["status"], build["log_excerpt"]) == ("FAIL", "kernel/futex.c:1: error")
    assert "tests" not in data


def test_what_does_not_merge_is_a_checkout_that_is_not_valid() -> None:
    conflict = verdict_on(Status.FAIL, Kind.MERGE, "conflicts in mm/slub.c", board="", arm="", flavour="", case="")
    (checkout,) = exported([], [conflict])["checkouts"]
    assert (checkout["valid"], checkout["log_excerpt"]) == (False, "conflicts in mm/slub.c")


def test_a_lab_that_failed_is_a_test_that_is_missing() -> None:
    lab = verdict_on(Status.MISS, Kind.LAB, "LAVA did not answer", board="", arm="", flavour="", case="")
    data = exported([make(Boot())], [within_limit(), lab])
    assert [one["status"] for one in data["tests"] if one["path"] == "rtgate"] == ["MISS"]
    assert {one["build_id"] for one in data["tests"]} == {one["id"] for one in data["builds"]}


def test_a_case_without_records_is_of_the_kernel_that_its_board_booted() -> None:
    missing = verdict_on(Status.MISS, Kind.MISSING, "not measured", case="latency/cyclictest:hackbench")
    data = exported([make(Boot())], [within_limit(), missing])
    assert len(data["builds"]) == 1
    assert len({one["build_id"] for one in data["tests"]}) == 1


def test_a_fault_is_in_the_excerpt_and_a_boot_that_ended_early_has_its_last_lines(world: World, tmp_path: Path) -> None:
    oops = make(Boot(faults=(world.oops,)))
    assert "demo_break+0x18/0x30" in by_path([oops], [over_limit()])["rtgate.latency.cyclictest.idle"]["log_excerpt"]
    dead = world.stored(Boot(state="no boot"), tmp_path, b"Unable to mount root fs\r\n" * 9)
    found = by_path([dead], [verdict_on(Status.FAIL, Kind.BOOT, "no boot")])["rtgate.latency.cyclictest.idle"]
    assert "Unable to mount root fs" in found["log_excerpt"]
    flood = make(Boot(faults=(replace(world.oops, text="x" * 100_000),)))
    assert len(by_path([flood], [over_limit()])["rtgate.latency.cyclictest.idle"]["log_excerpt"]) == 16_384


def test_two_exports_of_a_run_have_the_same_names_and_another_judgement_has_others() -> None:
    records = [make(Boot())]
    first = kcidb.document(records, [over_limit()], "mylab")
    assert kcidb.document(records, [over_limit()], "mylab") == first
    names = {one["id"] for one in json.loads(first)["tests"]}
    assert not names & {one["id"] for one in exported(records, [within_limit()])["tests"]}
    assert not names & {one["id"] for one in exported([make(Boot(seed=2))], [over_limit()])["tests"]}


@given(st.text(), st.text(min_size=1))
@example("a\0b", "a\0b")
@example("\ud800", "\ud800")
def test_no_text_breaks_the_document(text: str, name: str) -> None:
    record = _of(make(Boot(board=name)), source=text, name=text, commit=text)
    exported([record], [verdict_on(Status.FAIL, Kind.LIMIT, text, board=name, measurement=name, source=text)])
