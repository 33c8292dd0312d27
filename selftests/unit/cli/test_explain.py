# SPDX-License-Identifier: MIT
from __future__ import annotations

import argparse
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from rtgate.cli import explain as command
from rtgate.cli.main import main
from rtgate.errors import ConfigError
from rtgate.explain.comparing import ExplainedComparison
from rtgate.explain.explanation import IntervalCost, KernelTrace, explain, find_exercise
from rtgate.explain.finders import FINDERS
from rtgate.explain.path import Profile
from rtgate.kernel.differing import Differences
from rtgate.measure.case import Case
from rtgate.records import record as records_file
from rtgate.tools.cyclictest import Cyclictest
from rtgate.workflow.slowest import case_of, find_case, middle, slowest


def record(directory: Path, name: str, **values: Any) -> Path:
    """Write a record as measuring does, with a latency."""
    place = directory / name
    place.mkdir(parents=True)
    data: dict[str, Any] = {
        "format": records_file.FORMAT,
        "sources": {},
        "reading": {},
        "case": "latency/cyclictest:idle",
        "board": "virt-arm64",
        "arm": "candidate",
        "profile": "smoke",
        "boot_id": "",
        "state": "measured",
        "message": "",
        "seed": 1,
        "argv": ["cyclictest"],
        "kernel": {
            "name": "mine",
            "flavour": "preempt_rt",
            "release": "6.12",
            "image_sha256": "a" * 64,
            "source": "",
            "provenance": "unknown",
        },
        "environment": {"time": "virtual"},
        "evidence": {
            "expectation": {"threads": [], "duration_s": 2.0},
            "load": "idle",
            "load_processes": 1,
            "threads": [],
            "load_seen": [],
            "elapsed_s": 2.0,
            "settings": {},
            "writes": {},
            "processes": [],
            "log": "whole",
            "kernel_threads": [],
            "readings": {},
            "suspends": None,
            "rcu_nocbs": None,
            "load_output": "",
            "load_ended": None,
        },
        "measurements": [
            {
                "name": "latency.max",
                "better": "lower",
                "labels": {"cpu": "0"},
                "unit": "virtual ns",
                "value": values.pop("maximum", 100.0),
            }
        ],
        "faults": [],
        "line": {},
        "seconds": {},
        "machine": {},
        "chunk": None,
    }
    (place / "record.json").write_text(json.dumps({**data, **values}))
    return place


def test_the_slowest_of_several_records_is_taken(tmp_path: Path) -> None:
    record(tmp_path, "001", maximum=100.0)
    record(tmp_path, "002", maximum=300.0, seed=2)
    record(tmp_path, "003", maximum=900.0, seed=3, state="hang")
    assert slowest(tmp_path).seed == 2
    assert slowest(tmp_path / "001").seed == 1


def mean(value: float) -> list[dict[str, Any]]:
    labels = {"cpu": "0"}
    return [{"name": "latency.avg", "better": "lower", "labels": labels, "unit": "virtual ns", "value": value}]


def test_a_boot_without_the_figure_is_not_the_fastest(tmp_path: Path) -> None:
    record(tmp_path, "001", measurements=[])
    for seed, value in ((2, 100.0), (3, 200.0), (4, 300.0)):
        record(tmp_path, f"{seed:03d}", seed=seed, measurements=mean(value))
    record(tmp_path, "005", measurements=[], seed=5)
    assert middle(tmp_path).seed == 3
    with pytest.raises(ConfigError, match=r"no boot has the figure latency\.max"):
        slowest(tmp_path)


def test_records_that_cannot_be_explained_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no record that was measured"):
        slowest(tmp_path)
    record(tmp_path / "a", "001")
    record(tmp_path / "b", "001", case="latency/cyclictest:hackbench")
    with pytest.raises(ConfigError, match="2 cases or kernels, choose one"):
        slowest(tmp_path)
    record(tmp_path / "c", "001", seed=None)
    with pytest.raises(ConfigError, match="not measured on virtual time"):
        slowest(tmp_path / "c")


def test_a_case_is_made_from_its_name(tmp_path: Path) -> None:
    case = case_of(slowest(record(tmp_path, "1", case="latency/cyclictest:hackbench+isolated")))
    assert (case.name, case.tool.name, case.tuning) == (
        "latency/cyclictest:hackbench+isolated",
        "cyclictest",
        "isolated",
    )
    with pytest.raises(ConfigError, match="unknown tool"):
        case_of(records_file.read(record(tmp_path, "2", case="latency/none:idle")))


def test_the_name_of_a_case_is_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert find_case("latency/cyclictest:idle") == Case(suite="latency", tool=Cyclictest(), load="idle")
    assert find_case("latency/cyclictest:idle", "report-8").tool == Cyclictest(
        clock="monotonic", threads=8, affinity="none", range_us=0, virtual_range_us=0
    )
    assert find_case("pcie/cyclictest:edu-dma").companion is not None
    for name, message in (
        ("foo/cyclictest:idle", r"no suite measures foo/cyclictest \(allowed: latency/cyclictest, "),
        ("latency/cyclictest:lazy", r"unknown load 'lazy' \(allowed: idle, "),
        ("latency/none:idle", "unknown tool 'none'"),
    ):
        with pytest.raises(ConfigError, match=message):
            find_case(name, "smoke")
    (tmp_path / "tests" / "foo").mkdir(parents=True)
    monkeypatch.setenv("RTGATE_SITE", str(tmp_path))
    assert find_case("foo/cyclictest:idle", "smoke").suite == "foo"  # a site's suite may have any tool


def test_a_tool_that_no_trace_shows_is_refused(tmp_path: Path) -> None:
    place = record(tmp_path, "1", case="scheduling/pip_stress:idle")
    with pytest.raises(
        ConfigError, match="pip_stress:idle: a trace shows what cyclictest, preemptirq, signaltest, xenomai-"
    ):
        slowest(place)


def test_the_slowest_boot_of_signaltest_is_that_of_the_longest_round_trip(tmp_path: Path) -> None:
    def trip(value: float) -> list[dict[str, Any]]:
        labels = {"thread": "0"}
        return [{"name": "roundtrip.max", "better": "lower", "labels": labels, "unit": "virtual us", "value": value}]

    for number, value in enumerate((70.0, 300.0, 80.0), 1):
        record(tmp_path, f"{number}", case="signal/signaltest:idle", seed=number, measurements=trip(value))
    assert slowest(tmp_path).seed == 2


@pytest.mark.parametrize("words", [["other=x"], ["candidate="], ["candidate=a", "candidate=b"]])
def test_arms_must_be_named(words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = record(tmp_path, "001")
    assert main(["explain", str(place), *(part for word in words for part in ("--arm", word))]) == 2
    assert "expected baseline=DIR or candidate=DIR, each once" in capsys.readouterr().err


def test_a_kernel_that_is_not_there_is_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", str(record(tmp_path, "001")), "--arm", f"candidate={tmp_path / 'none'}"]) == 2
    assert "--arm candidate=DIR" in capsys.readouterr().err


def test_a_baseline_s_record_is_explained_with_the_kernel_of_its_option(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = record(tmp_path, "001", arm="baseline")
    assert main(["explain", str(place)]) == 2
    assert "the kernel of baseline is needed: --arm candidate=DIR" in capsys.readouterr().err
    assert main(["explain", str(place), "--arm", f"baseline={tmp_path}"]) == 2
    assert "no baseline was measured beside RECORD" in capsys.readouterr().err


def test_another_kernel_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kernel = tmp_path / "kernel"
    kernel.mkdir()
    (kernel / "Image").write_bytes(bytes(56) + b"ARM\x64" + bytes(100))
    assert main(["explain", str(record(tmp_path, "001")), "--arm", f"candidate={kernel}"]) == 2
    assert "its image is another one" in capsys.readouterr().err


def test_records_of_two_boards_are_not_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mine, other = record(tmp_path, "a"), record(tmp_path, "b", board="virt-x86_64", arm="baseline")
    assert main(["explain", str(mine), "--baseline", str(other)]) == 2
    assert "not comparable: board" in capsys.readouterr().err


def test_the_baseline_beside_the_candidate_is_found(tmp_path: Path) -> None:
    mine = record(tmp_path / "candidate" / "latency.cyclictest:idle", "001")
    record(tmp_path / "baseline" / "latency.cyclictest:idle", "001", arm="baseline", board="virt-x86_64")
    with pytest.raises(ConfigError, match="not comparable"):
        command.run(_arguments(mine))
    shutil.rmtree(tmp_path / "baseline")
    record(tmp_path / "baseline" / "latency.cyclictest:idle", "001", arm="baseline", state="hang")
    with pytest.raises(ConfigError, match="the kernel of candidate is needed"):  # the baseline measured nothing
        command.run(_arguments(mine))
    shutil.rmtree(tmp_path / "baseline")
    with pytest.raises(ConfigError, match="the kernel of candidate is needed"):
        command.run(_arguments(mine))


def _arguments(record: Path) -> Any:
    parser = argparse.ArgumentParser()
    command.add_options(parser)
    return parser.parse_args([str(record)])


@pytest.mark.parametrize("tool", FINDERS)
def test_every_tool_that_can_be_explained_is_named(tool: str) -> None:
    assert tool in command.DESCRIPTION
    page = Path(__file__).parents[3] / "docs" / "explanation" / "explanations.md"
    table = [line for line in page.read_text().splitlines() if "reads the clock |" in line]
    assert tool in "\n".join(table)


def cost(total: float) -> IntervalCost:
    made = Profile(own={"try_to_wake_up": total}, within={"try_to_wake_up": total}, blamed={"f": total}, total=total)
    return IntervalCost(latency_ns=8 * total + 16, idle_ns=0, unaccounted_ns=16, profile=made)


def test_the_table_says_what_gained_and_that_the_sum_is_right() -> None:
    old, new = (
        KernelTrace(
            seed=1,
            what="wake-up",
            proof="have the latency of the histogram",
            intervals=10,
            agreeing=10,
            worst=cost(n),
            typical=cost(n / 2),
            executed={"f": 3},
        )
        for n in (1000, 3000)
    )
    names = frozenset({"f"})
    made = ExplainedComparison(
        explanation=explain(new, old, names),
        differences=Differences(changed=("f",), renames={"old": "new"}, options={"CONFIG_A": ("y", "")}),
        exercise=find_exercise(names, {"f": 3}),
    )
    console = Console(width=160, record=True, file=None, quiet=False)
    with console.capture() as capture:
        command.show(made, console)
    text = capture.get()
    assert "24,016 ns = 3,000 instructions of 8 ns + 0 ns idle + 16 ns unaccounted for" in text
    assert "try_to_wake_up" in text
    assert "+2,000" in text
    assert "10 of 10 wake-ups have the latency of the histogram" in text
    assert "1 functions changed, 1 functions renamed, 1 options differ; 1 of 1 functions that differ ran: f" in text
    stored = json.loads(json.dumps(command.as_json(made)))
    assert stored["changes"]["changed"] == ["f"]
    assert stored["changes"]["renames"] == {"old": "new"}
    assert stored["exercised"]["executed"] == {"f": 3}
