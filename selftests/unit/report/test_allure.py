# SPDX-License-Identifier: MIT
from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from rtgate.errors import InfrastructureError
from rtgate.judge.verdict import Kind, Status, Verdict
from rtgate.report import allure

if TYPE_CHECKING:
    from selftests.unit.report.conftest import World

Json = dict[str, Any]


def _results(directory: Path) -> dict[str, Json]:
    read = [json.loads(path.read_text(encoding="utf-8")) for path in directory.glob("*-result.json")]
    return {result["name"]: result for result in read}


def _labels(result: Json, name: str) -> list[str]:
    return [label["value"] for label in result["labels"] if label["name"] == name]


def _items(step: Json) -> list[Json]:
    return [step, *(item for inner in step.get("steps", []) for item in _items(inner))]


@pytest.fixture(scope="module")
def results(world: World, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a run with every status; return the results directory."""
    tmp_path = tmp_path_factory.mktemp("run")
    records = [
        world.stored(world.boot(arm=arm, seed=seed, high_us=61.2 if seed == 1 else 131.4), tmp_path / "records")
        for arm in ("baseline", "candidate")
        for seed in (1, 2)
    ]
    died = world.boot(
        case="latency/cyclictest:fio",
        state="kernel fault",
        message=f"the kernel died: \x1b[31m{world.oops.line}\x07",
        faults=(world.oops,),
    )
    records.append(world.stored(died, tmp_path / "records", console=b"\x1b[2Jboot\r\n\x00last words\r\n"))
    records += [
        world.stored(world.boot(case=f"latency/cyclictest:{load}"), tmp_path / "records")
        for load in ("stress-ng", "disk", "hackbench", "network")
    ]
    directory = tmp_path / "results"
    allure.write(records, _verdicts(world), directory)
    return directory


def _verdicts(world: World) -> list[Verdict]:
    invalid = "invalid measurement in seed 1 (load): \x1b[1mthe load died\x1b[0m"
    return [
        world.over_limit(),
        world.within_limit(case="latency/cyclictest:stress-ng"),
        world.verdict(Status.FAIL, Kind.FAULT, "seed 1: died", case="latency/cyclictest:fio", boot="seed 1"),
        world.verdict(Status.ERROR, Kind.VALIDITY, invalid, case="latency/cyclictest:disk", boot="seed 1"),
        world.verdict(Status.DONE, Kind.UNJUDGED, "no limit", case="latency/cyclictest:hackbench"),
        world.verdict(Status.SKIP, Kind.UNJUDGED, "no network", case="latency/cyclictest:network"),
        world.verdict(Status.MISS, Kind.MISSING, "nothing was measured", case="latency/cyclictest:cpu"),
    ]


def test_each_case_is_a_test_with_the_status_of_its_worst_verdict(results: Path) -> None:
    found = _results(results)
    assert {name.partition(":")[2]: result["status"] for name, result in found.items()} == {
        "idle": "failed",
        "stress-ng": "passed",
        "fio": "failed",
        "disk": "broken",
        "hackbench": "unknown",
        "network": "skipped",
        "cpu": "broken",
    }
    idle = found["latency/cyclictest:idle"]
    assert idle["statusDetails"]["message"].startswith("FAIL limit: latency.max was 131.4 virtual us")
    assert idle["fullName"] == "virt-arm64/latency/cyclictest:idle"
    assert _labels(idle, "parentSuite") == ["virt-arm64"]
    assert _labels(idle, "suite") == ["latency"]
    assert _labels(idle, "tag") == ["virt-arm64", "preempt_rt", "load idle", "cyclictest", "candidate", "FAIL"]
    assert idle["stop"] - idle["start"] >= 3600


def test_the_trace_holds_faults_and_last_words(results: Path) -> None:
    trace = _results(results)["latency/cyclictest:fio"]["statusDetails"]["trace"]
    assert "demo_break" in trace
    assert "last words" in trace


def test_the_description_shows_what_happened(results: Path) -> None:
    found = _results(results)
    idle = found["latency/cyclictest:idle"]
    assert "<td>baseline</td>" in idle["descriptionHtml"]
    assert "data:image/svg+xml;base64," in idle["descriptionHtml"]
    # Allure shows the message of what failed above the description, and that of other tests not at all.
    assert "FAIL limit" not in idle["descriptionHtml"]
    assert "trace" not in idle["statusDetails"]
    assert found["latency/cyclictest:hackbench"]["descriptionHtml"].startswith("<p><b>DONE not judged: no limit</b>")
    assert "descriptionHtml" not in found["latency/cyclictest:cpu"]
    assert found["latency/cyclictest:cpu"]["statusDetails"]["message"] == "MISS missing: nothing was measured"


def test_what_changes_from_run_to_run_does_not_break_history(world: World, tmp_path: Path) -> None:
    runs = []
    for release in ("6.12.106", "6.12.107"):
        record = world.record(world.boot(release=release))
        allure.write([record], [world.within_limit()], tmp_path / release)
        runs.append(_results(tmp_path / release)["latency/cyclictest:idle"])
    first, second = runs
    assert (first["historyId"], first["testCaseId"]) == (second["historyId"], second["testCaseId"])
    told = [[one for one in run["parameters"] if not one.get("excluded")] for run in runs]
    assert told[0] == told[1]
    allure.write([world.record(world.boot(arm="baseline"))], [world.within_limit(arm="baseline")], tmp_path / "other")
    other = _results(tmp_path / "other")["latency/cyclictest:idle"]
    assert other["testCaseId"] == first["testCaseId"]
    assert other["historyId"] != first["historyId"]


def test_every_attachment_exists_and_belongs_to_one(results: Path) -> None:
    items = [item for result in _results(results).values() for item in _items(result)]
    sources = [attachment["source"] for item in items for attachment in item.get("attachments", [])]
    assert sources
    assert len(set(sources)) == len(sources)
    assert {path.name for path in results.glob("*-attachment.*")} == set(sources)
    types = {attachment["type"] for item in items for attachment in item.get("attachments", [])}
    assert types == {"image/svg+xml", "image/png", "text/plain", "application/json"}


def test_no_control_character_reaches_the_results(results: Path) -> None:
    def strings(value: object) -> list[str]:
        if isinstance(value, dict):
            return [text for inner in value.values() for text in strings(inner)]
        if isinstance(value, list):
            return [text for inner in value for text in strings(inner)]
        return [value] if isinstance(value, str) else []

    texts = [path.read_text(encoding="utf-8") for path in results.iterdir() if path.suffix in {".txt", ".svg", ".json"}]
    ours = [path for path in results.glob("*.json") if "-attachment" not in path.name]
    texts += [text for path in ours for text in strings(json.loads(path.read_text(encoding="utf-8")))]
    for text in texts:
        assert not {char for char in text if unicodedata.category(char) in {"Cc", "Cs"} and char not in "\t\n"}


def test_steps_lie_inside_their_boot(results: Path) -> None:
    idle = _results(results)["latency/cyclictest:idle"]
    boots = [step for step in idle["steps"] if step["name"].startswith("seed")]
    assert len(boots) == 2
    for boot in boots:
        assert all(boot["start"] <= step["start"] <= step["stop"] <= boot["stop"] for step in boot["steps"])


def test_the_run_is_described(results: Path) -> None:
    assert "board=virt-arm64\n" in (results / "environment.properties").read_text(encoding="ascii")
    categories = json.loads((results / "categories.json").read_text(encoding="utf-8"))
    assert len(categories) == 5
    assert json.loads((results / "executor.json").read_text(encoding="utf-8"))["reportName"].startswith("rtgate: virt")
    trends = json.loads((results / "rtgate-perf.json").read_text(encoding="utf-8"))
    (high,) = (one for one in trends if one["title"] == "latency/cyclictest:idle: maximum latency")
    assert (high["value"], high["unit"], high["better"]) == (131.4, "virtual us", "lower")


def test_the_first_screen_links_to_the_tests(results: Path) -> None:
    screen = (results / allure.FIRST_SCREEN).read_text(encoding="utf-8")
    assert "the kernel reports a fault of its own" in screen
    links = set(re.findall(r'href="#([0-9a-f]{32})"', screen))
    # Allure names a test by the MD5 of its identifier.
    assert links == {hashlib.md5(one["uuid"].encode()).hexdigest() for one in _results(results).values()}
    assert screen.count("<img ") == 5 + 1  # the maxima of all


def test_older_results_go_and_other_files_stay(world: World, tmp_path: Path) -> None:
    for name in ("old-result.json", "old-attachment.svg", "notes.txt"):
        (tmp_path / name).write_text("{}", encoding="utf-8")
    allure.write([world.record(world.boot())], [world.within_limit()], tmp_path)
    names = {path.name for path in tmp_path.iterdir()}
    assert "notes.txt" in names
    assert not names & {"old-result.json", "old-attachment.svg"}


def test_what_a_killed_pytest_left_half_written_ends_no_later_session(world: World, tmp_path: Path) -> None:
    for name in ("0-result.json", "0-container.json"):
        (tmp_path / name).write_text('{"uuid": "0', encoding="utf-8")
    allure.write([world.record(world.boot())], [world.within_limit()], tmp_path, fresh=False)
    assert len(list(tmp_path.glob("*-result.json"))) == 2


def test_a_place_that_cannot_be_written(world: World, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(InfrastructureError, match="could not be written"):
        allure.write([], [], tmp_path / "file" / "results")


def test_of_many_cases_the_worst_have_plots_and_files(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(allure, "_MOST_DETAILED", 1)
    monkeypatch.setattr(allure, "_WORST_DETAILED", 1)
    names = {"latency/cyclictest:idle": world.within_limit, "latency/cyclictest:worse": world.over_limit}
    stored = [world.stored(world.boot(case=name), tmp_path / "records") for name in names]
    plots = allure.write(stored, [make(case=name) for name, make in names.items()], tmp_path / "results")
    assert list(plots) == [("virt-arm64", "latency/cyclictest:worse", "candidate")]
    found = {
        result["name"]: json.dumps(result)
        for path in (tmp_path / "results").glob("*-result.json")
        for result in [json.loads(path.read_text(encoding="utf-8"))]
    }
    assert "latency histogram" in found["latency/cyclictest:worse"]
    assert "attachment" not in found["latency/cyclictest:idle"]
    assert "left out" in found["latency/cyclictest:idle"]
    assert "61.2 virtual us" in found["latency/cyclictest:idle"]
