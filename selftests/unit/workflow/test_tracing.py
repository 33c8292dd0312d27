# SPDX-License-Identifier: MIT
"""Which cases of a comparison are traced, and what is said of them."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rtgate.errors import ConfigError, InfrastructureError, ParseError
from rtgate.explain.comparing import ComparedKernels, Pair
from rtgate.explain.explanation import Exercise
from rtgate.judge.verdict import Kind, Status, Verdict
from rtgate.kernel.differing import Differences
from rtgate.records import explained
from rtgate.workflow import tracing
from rtgate.workflow.other_loads import TracedRun

IDLE, LOADED, SIGNALS = "latency/cyclictest:idle", "latency/cyclictest:hackbench", "signal/signaltest:idle"
OTHER = "scheduling/pip_stress:idle"
UNUSED: Any = None
DIFFERENCES = Differences(changed=("f",), data=("table",), options={"CONFIG_HZ": ("250", "1000")})


class Boots:
    """Instead of boots: notes which cases were traced, and how."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.explained: list[str] = []
        self.exercised: list[str] = []
        self.broken: dict[str, BaseException] = {}
        self.chosen: list[str] = []
        self.views: list[str] = []
        for which in ("slowest", "middle"):
            monkeypatch.setattr(tracing, which, partial(self._record, which))
        monkeypatch.setattr(tracing, "case_of", lambda record: record)
        monkeypatch.setattr(tracing, "make_arms", lambda *_: (Named("candidate"), Named("baseline")))
        monkeypatch.setattr(tracing, "compare", self._compare)
        monkeypatch.setattr(tracing, "exercise", self._exercise)
        self.tried: list[TracedRun] = []
        monkeypatch.setattr(tracing, "with_other_loads", self._with_other_loads)

    def _record(self, which: str, directory: Path) -> Any:
        case = directory.name
        self.chosen.append(which)
        if isinstance(error := self.broken.get(case), ConfigError):
            raise error
        return Named(case)

    def _compare(self, case: Any, *_: Any, view: str) -> Any:
        self.views.append(view)
        self.explained.append(case.name)
        return Named(
            "",
            explanation=Named("", sentence="+9 in f", warning_function="f"),
            differences=DIFFERENCES,
            exercise=Exercise(),
        )

    def _exercise(self, pairs: Sequence[Pair], *_: Any) -> Any:
        cases = [pair.case.name for pair in pairs]
        self.exercised += cases
        kernels = ComparedKernels(candidate=UNUSED, differences=DIFFERENCES, code=())
        return kernels, [self.broken.get(case, Exercise(executed={"f": 5}, data=("table",))) for case in cases]

    def _with_other_loads(self, run: TracedRun, _stop: threading.Event) -> dict[Path, explained.CaseExplanation]:
        self.tried.append(run)
        if isinstance(error := self.broken.get("loads"), BaseException):
            raise error
        found = {"network": "paths"}
        return {directory: replace(one, other_loads=found) for directory, one in run.explanations.items()}


class Named:
    """Any object with a name."""

    def __init__(self, name: str, **more: Any) -> None:
        self.name, self.seed, self.profile, self.tuning = name, 3, "compare", "default"
        self.suite, _, rest = name.partition(".")
        tool, _, self.load = rest.partition(":")
        self.tool, self.board = SimpleNamespace(name=tool), SimpleNamespace(name="virt-arm64")
        self.machine: dict[str, str] = {}
        self.kernel: Any = type("Kernel", (), {"image_sha256": "ab"})
        vars(self).update(more)


def verdict(case: str, kind: Kind) -> Verdict:
    return Verdict(
        status=Status.FAIL, kind=kind, sentence="", board="virt-arm64", arm="candidate", flavour="preempt_rt", case=case
    )


@pytest.fixture
def boots(monkeypatch: pytest.MonkeyPatch) -> Boots:
    return Boots(monkeypatch)


def traced(path: Path, *verdicts: Verdict) -> dict[str, explained.CaseExplanation]:
    for one in verdicts:
        (path / one.board / "candidate" / stored(one.case)).mkdir(parents=True, exist_ok=True)
    found = tracing.trace(("virt-arm64", "virt-arm64-smp2"), {"candidate": path, "baseline": path}, path, verdicts)
    seen = {file.parent.name: explained.read(file.parent) for file in path.rglob("explained.json")}
    assert found is bool(seen)
    return {case: one for case, one in seen.items() if one is not None}


def stored(case: str) -> str:
    return case.replace("/", ".")


def test_without_a_regression_it_is_seen_of_every_case_what_ran(boots: Boots, tmp_path: Path) -> None:
    seen = traced(
        tmp_path,
        verdict(IDLE, Kind.NO_WORSE),
        verdict(LOADED, Kind.INCONCLUSIVE),
        verdict(IDLE, Kind.NO_WORSE),
        verdict("scheduling/pi_stress:idle", Kind.NO_WORSE),
        verdict("latency/cyclictest:stress-ng", Kind.LIMIT),
    )
    assert (boots.exercised, boots.explained) == ([stored(IDLE), stored(LOADED)], [])
    assert set(seen) == {stored(IDLE), stored(LOADED)}
    assert seen[stored(IDLE)].executed == {"f": 5}
    assert seen[stored(IDLE)].others == ("table", "CONFIG_HZ")
    assert seen[stored(IDLE)].sentence == ""


def test_a_waived_regression_is_traced_as_what_ran_there_counts_for_the_other_cases(
    boots: Boots, tmp_path: Path
) -> None:
    seen = traced(tmp_path, verdict(IDLE, Kind.NO_WORSE), verdict(LOADED, Kind.WAIVED))
    assert (boots.exercised, boots.explained) == ([stored(IDLE), stored(LOADED)], [])
    assert set(seen) == {stored(IDLE), stored(LOADED)}
    (run,) = boots.tried
    assert run.loads == ["idle", "hackbench"]


def test_cases_of_two_boards_are_traced_together_each_with_its_own_arms(boots: Boots, tmp_path: Path) -> None:
    signals = replace(verdict(SIGNALS, Kind.NO_WORSE), board="virt-arm64-smp2")
    elsewhere = replace(verdict(LOADED, Kind.NO_WORSE), board="rk3568-evb1")
    seen = traced(tmp_path, verdict(IDLE, Kind.NO_WORSE), signals, elsewhere)
    assert boots.exercised == [stored(IDLE), stored(SIGNALS)]
    assert set(seen) == {stored(IDLE), stored(SIGNALS)}
    assert (tmp_path / "virt-arm64-smp2" / "candidate" / stored(SIGNALS) / "explained.json").is_file()


def test_a_tool_whose_intervals_no_trace_shows_is_not_traced(boots: Boots, tmp_path: Path) -> None:
    inversion = replace(verdict(OTHER, Kind.REGRESSION), board="virt-arm64-smp2")
    assert traced(tmp_path, inversion) == {}
    assert (boots.exercised, boots.explained) == ([], [])


@pytest.mark.parametrize(
    ("regressed", "chosen"),
    [
        ([LOADED], LOADED),
        ([SIGNALS], SIGNALS),
        ([LOADED, LOADED, IDLE], IDLE),
        ([LOADED, "latency/cyclictest:stress-ng", "latency/cyclictest:stress-ng"], "latency/cyclictest:stress-ng"),
        ([LOADED, LOADED, f"{IDLE}+isolated"], f"{IDLE}+isolated"),
    ],
)
def test_a_regression_is_explained_once_idle_if_it_shows_there(
    boots: Boots, tmp_path: Path, regressed: list[str], chosen: str
) -> None:
    others = [verdict("latency/cyclictest:stress", Kind.NO_WORSE)]
    seen = traced(tmp_path, *others, *(verdict(case, Kind.REGRESSION) for case in regressed))
    assert (boots.exercised, boots.explained) == ([], [stored(chosen)])
    assert (seen[stored(chosen)].sentence, seen[stored(chosen)].warning_function) == ("+9 in f", "f")


@pytest.mark.parametrize(
    ("figures", "which"),
    [
        (("latency mean", "latency p90"), "middle"),
        (("roundtrip.avg",), "middle"),
        (("latency mean", "latency maximum"), "slowest"),
        (("latency p99",), "slowest"),
        (("roundtrip.max",), "slowest"),
    ],
)
def test_a_body_that_moved_is_explained_by_boots_of_median_mean(
    boots: Boots, tmp_path: Path, figures: tuple[str, ...], which: str
) -> None:
    traced(tmp_path, *(replace(verdict(IDLE, Kind.REGRESSION), measurement=figure) for figure in figures))
    assert boots.chosen == [which] * 2
    assert boots.views == [{"middle": "typical", "slowest": ""}[which]]


@pytest.mark.parametrize("error", [ParseError("the boot did not repeat itself"), ConfigError("no record")])
def test_a_case_that_cannot_be_traced_is_told_and_the_others_are_seen(
    boots: Boots, tmp_path: Path, capsys: pytest.CaptureFixture[str], error: Exception
) -> None:
    boots.broken[stored(LOADED)] = error
    seen = traced(tmp_path, verdict(LOADED, Kind.NO_WORSE), verdict(IDLE, Kind.NO_WORSE))
    assert set(seen) == {stored(IDLE)}
    assert f"{LOADED} is not traced: {error}" in capsys.readouterr().err


def test_arms_that_cannot_be_made_are_told_of_every_case(
    boots: Boots, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(*_: Any) -> Any:
        raise ConfigError("no such kernel")

    monkeypatch.setattr(tracing, "make_arms", fails)
    assert traced(tmp_path, verdict(LOADED, Kind.NO_WORSE), verdict(IDLE, Kind.NO_WORSE)) == {}
    assert traced(tmp_path, verdict(IDLE, Kind.REGRESSION)) == {}
    told = capsys.readouterr().err
    assert f"{LOADED} is not traced: no such kernel" in told
    assert told.count(f"{IDLE} is not traced: no such kernel") == 2
    assert (boots.exercised, boots.explained) == ([], [])


def test_cases_of_another_tuning_boot_with_it(boots: Boots, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(tracing, "case_of", lambda one: Named(one.name, tuning=one.name.partition("+")[2] or "default"))
    arms = (Named("candidate"), Named("baseline"))

    def made(request: Any, _stop: threading.Event) -> Any:
        asked.append(request.tuning)
        return arms

    monkeypatch.setattr(tracing, "make_arms", made)
    names = (IDLE, LOADED, f"{IDLE}+isolated")
    assert len(traced(tmp_path, *(verdict(name, Kind.NO_WORSE) for name in names))) == 3
    assert asked == ["default", "isolated"]
    assert boots.exercised == [stored(name) for name in names]


def test_for_what_did_not_run_other_loads_are_tried_after_all_cases_of_a_group(boots: Boots, tmp_path: Path) -> None:
    seen = traced(tmp_path, verdict(IDLE, Kind.NO_WORSE), verdict(LOADED, Kind.INCONCLUSIVE))
    (run,) = boots.tried
    assert [path.name for path in run.explanations] == [stored(IDLE), stored(LOADED)]
    assert (run.profile, run.case.name, run.loads) == ("compare", stored(IDLE), ["idle", "hackbench"])
    assert {one.other_loads["network"] for one in seen.values()} == {"paths"}


@pytest.mark.parametrize("kind", [Kind.REGRESSION, Kind.INCONCLUSIVE, Kind.SLOWER])
def test_no_load_is_tried_where_the_answer_is_another_one(boots: Boots, tmp_path: Path, kind: Kind) -> None:
    assert traced(tmp_path, verdict(IDLE, kind))
    assert boots.tried == []


@pytest.mark.parametrize("kind", [Kind.NO_WORSE, Kind.NOT_COMPARED])
def test_loads_are_tried_where_one_case_would_say_them(boots: Boots, tmp_path: Path, kind: Kind) -> None:
    assert traced(tmp_path, verdict(IDLE, Kind.SLOWER), verdict(LOADED, kind))
    assert len(boots.tried) == 1


@pytest.mark.parametrize("error", [ConfigError("no profile"), InfrastructureError("QEMU is gone")])
def test_loads_that_cannot_be_tried_are_told_and_what_ran_stays_known(
    boots: Boots, tmp_path: Path, capsys: pytest.CaptureFixture[str], error: Exception
) -> None:
    boots.broken["loads"] = error
    seen = traced(tmp_path, verdict(IDLE, Kind.NO_WORSE))
    assert seen[stored(IDLE)].executed == {"f": 5}
    assert f"other loads are not tried: {error}" in capsys.readouterr().err


def test_who_stops_it_while_loads_are_tried_keeps_what_ran(boots: Boots, tmp_path: Path) -> None:
    boots.broken["loads"] = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        traced(tmp_path, verdict(IDLE, Kind.NO_WORSE))
    kept = explained.read(tmp_path / "virt-arm64" / "candidate" / stored(IDLE))
    assert kept is not None
    assert kept.executed == {"f": 5}


def test_what_no_tool_can_show_is_not_traced(boots: Boots, tmp_path: Path) -> None:
    other = verdict("scheduling/pi_stress:idle", Kind.NO_WORSE)
    assert traced(tmp_path, other, verdict(IDLE, Kind.LIMIT)) == {}
    assert (boots.exercised, boots.explained) == ([], [])
