# SPDX-License-Identifier: MIT
"""A limit may name a profile of its own layer or of a later one, which measures the case with options of its own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from selftests.unit.lava.job.test_request import ORDER

from rtgate import site
from rtgate.board import boards
from rtgate.cli.main import main
from rtgate.errors import ConfigError
from rtgate.lava.job.definition import Files
from rtgate.lava.job.request import MeasurementRequest
from rtgate.measure.case import Case
from rtgate.tools.pi_stress import PiStress
from rtgate.workflow import references
from rtgate.workflow.job_writer import JobOptions, JobWriter
from rtgate.workflow.verdicts import limits

PROFILES = """\
mine:
  description: two threads
  duration: 10 s
  seeds: 1
  boots: 1
  only: [cyclictest]
  suites: [latency]
  tools: {cyclictest: {options: {threads: THREADS}}}
  loads: {idle: {}, stress-ng: {cpu: 4}}
"""
LIMIT = """\
virt-arm64:
  preempt_rt:
    CASE:
      - {measurement: latency.max, kind: max, limit: 9 virtual us, profile: PROFILE, source: s}
"""


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    directory = tmp_path / "lab"
    directory.mkdir()
    (directory / "profiles.yaml").write_text(PROFILES.replace("THREADS", "2"))
    monkeypatch.setenv("RTGATE_SITE", str(directory))
    return directory


def _limit(directory: Path, profile: str, case: str = "latency/cyclictest:idle") -> Path:
    path = directory / "thresholds.yaml"
    path.write_text(LIMIT.replace("CASE", case).replace("PROFILE", profile))
    return path


@pytest.mark.parametrize(
    ("case", "options"),
    [
        ("latency/cyclictest:idle", {"threads": 2}),
        ("latency/cyclictest:stress-ng", {"threads": 2, "stress-ng cpu": 4}),
    ],
)
def test_a_limit_has_the_options_of_its_profile(lab: Path, case: str, options: dict[str, int]) -> None:
    (found,) = limits(_limit(lab, "mine", case)).entries
    assert found.options == options


def test_a_least_count_has_the_length_of_its_profile() -> None:
    entries = limits(None).of("nuc-j3455", "preempt_rt", "scheduling/pi_stress:idle")
    assert [one.duration_s for one in entries] == [60.0]  # and not the 3600 s of the other tools


def test_limits_of_a_layer_are_for_its_own_profile_of_a_name(lab: Path, tmp_path: Path) -> None:
    (lab / "profiles.yaml").write_text(PROFILES.replace("THREADS", "2").replace("mine:", "report-4:"))
    (own,) = limits(_limit(lab, "report-4")).entries
    assert own.options == {"threads": 2}
    shipped = limits(None).of("rk3568-evb1", "preempt_rt", "latency/cyclictest:idle")
    assert {one.options["threads"] for one in shipped if one.profile == "report-4"} == {4}
    (elsewhere,) = limits(_limit(tmp_path, "report-4")).entries
    assert elsewhere.options == {"threads": 2}


def test_shipped_limits_are_for_shipped_profiles_by_whatever_name_the_directory_goes(
    lab: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (lab / "profiles.yaml").write_text(PROFILES.replace("THREADS", "2").replace("mine:", "report-4:"))
    (tmp_path / "share").symlink_to(site.shipped_directory())
    monkeypatch.setenv("RTGATE_SHARE", str(tmp_path / "share"))
    shipped = limits(None).of("rk3568-evb1", "preempt_rt", "latency/cyclictest:idle")
    assert {one.options["threads"] for one in shipped if one.profile == "report-4"} == {4}


def test_limits_behind_a_link_are_those_of_the_layer_that_has_the_link(
    lab: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = tmp_path / "linux"
    own = tree / ".rtgate"
    own.mkdir(parents=True)
    monkeypatch.setenv("RTGATE_TREE", str(tree))
    (own / "profiles.yaml").write_text(PROFILES.replace("THREADS", "3"))
    _limit(tmp_path, "mine").rename(tmp_path / "elsewhere")
    (own / "thresholds.yaml").symlink_to(tmp_path / "elsewhere")
    found = limits(None).of("virt-arm64", "preempt_rt", "latency/cyclictest:idle")
    assert [one.options for one in found] == [{"threads": 3}]


def _limits_of_a_job(lab: Path, order: MeasurementRequest) -> Path:
    files = dict.fromkeys(order.kernels, Files(kernel="http://h/Image"))
    writer = JobWriter(options=JobOptions(), board=boards.board(order.board), whole=order, files=files, family="")
    path = lab / "job" / "limits.yaml"
    path.parent.mkdir()
    path.write_text(writer.request(order, "nonce", ()).limits)
    return path


@pytest.mark.parametrize(
    ("profile", "threads", "expected"),
    [
        ("report-4", 2, set()),  # the shipped limits are for the shipped profile, of four threads
        ("mine", 4, {"mine"}),
        ("report-4", 4, {"report-4"}),
    ],
)
def test_a_job_has_the_limits_of_the_options_that_its_profile_has_here(
    lab: Path, profile: str, threads: int, expected: set[str]
) -> None:
    shipped = "{clock: monotonic, threads: THREADS, affinity: none, range_us: 0, virtual_range_us: 0}"
    own = PROFILES.replace("{threads: THREADS}", shipped).replace("mine:", f"{profile}:")
    (lab / "profiles.yaml").write_text(own.replace("THREADS", str(threads)))
    path = _limits_of_a_job(lab, replace(ORDER, board="rk3568-evb1", profile=profile))
    assert {one.profile for one in limits(path).entries if one.limit} == expected
    assert all(one.options["threads"] == threads for one in limits(path).entries if one.profile)


@pytest.mark.parametrize(("duration", "expected"), [("60 s", 1), ("600 s", 0)])
def test_a_job_has_a_least_count_only_for_runs_of_its_length(lab: Path, duration: str, expected: int) -> None:
    """In the job the limit's profile is the job's, and so would be its length."""
    own = PROFILES.replace("{cyclictest: {options: {threads: THREADS}}}", "{pi_stress: {options: {verbose: true}}}")
    own = own.replace("[cyclictest]", "[pi_stress]").replace("[latency]", "[scheduling]")
    (lab / "profiles.yaml").write_text(own.replace("10 s", duration))
    case = Case(suite="scheduling", tool=PiStress(), load="idle")
    path = _limits_of_a_job(lab, replace(ORDER, board="nuc-j3455", profile="mine", cases=(case,)))
    counts = [limit for limit in limits(path).entries if limit.measurement == "inversions" and limit.profile]
    assert len([limit for limit in counts if limit.flavour == "preempt_rt"]) == expected


def test_a_case_that_the_profile_does_not_measure_has_no_limit_of_its_own_in_a_job(lab: Path) -> None:
    """`--cases` may name one: the job could not read such a limit."""
    text = PROFILES.replace("THREADS", "2")
    (lab / "profiles.yaml").write_text(text + text.replace("mine:", "more:").replace("idle: {}", "hackbench: {}"))
    _limit(lab, "more", "latency/cyclictest:hackbench")
    case = replace(ORDER.cases[0], load="hackbench")
    assert limits(_limits_of_a_job(lab, replace(ORDER, profile="mine", cases=(case,)))).entries == ()


@pytest.mark.parametrize(
    ("profile", "case", "message"),
    [
        ("nine", "latency/cyclictest:idle", r":4:77: unknown value 'nine' \(allowed: compare, .*mine, .*\)"),
        (
            "mine",
            "latency/cyclictest:hackbench",
            "the profile mine does not measure latency/cyclictest:hackbench on vi",
        ),
        ("mine", "nvme/cyclictest:idle", "the profile mine does not measure nvme/cyclictest:idle on virt-arm64"),
        (
            "quick",
            "latency/cyclictest:idle",
            "quick measures latency/cyclictest:idle with the tool's own options: rem",
        ),
    ],
)
def test_a_profile_that_cannot_be_meant(lab: Path, profile: str, case: str, message: str) -> None:
    path = _limit(lab, profile, case)
    with pytest.raises(ConfigError, match=message):
        references.limits(path)
    with pytest.raises(ConfigError, match=message):
        limits(path)


@pytest.mark.parametrize(
    ("tools", "place", "message"),
    [
        ("{cyclictest: {options: {thread: 2}}}", "8:34", "cyclictest has no option 'thread'"),
        ("{sundial: {boots: 2}}", "8:11", "unknown tool 'sundial'"),
    ],
)
def test_a_mistake_in_the_profile_of_a_limit_is_found(lab: Path, tools: str, place: str, message: str) -> None:
    (lab / "profiles.yaml").write_text(PROFILES.replace("{cyclictest: {options: {threads: THREADS}}}", tools))
    with pytest.raises(ConfigError, match=rf"profiles.yaml:{place}: {message}"):
        limits(_limit(lab, "mine"))


def test_check_names_the_place_of_a_profile_that_is_not_there(lab: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _limit(lab, "nine")
    assert main(["check"]) == 2
    assert f"{lab}/thresholds.yaml:4:77: unknown value 'nine'" in capsys.readouterr().out
