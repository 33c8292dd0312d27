# SPDX-License-Identifier: MIT
from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rtgate.judge.verdict import Kind, Status
from rtgate.report import page
from rtgate.report.cases import CaseReport, cases
from rtgate.report.trend import trend

if TYPE_CHECKING:
    from selftests.unit.report.conftest import World

EVIL = "<script>alert(1)</script>\x1b[31m\nsecond line"


def _link(case: CaseReport) -> str:
    return f"#{case.case}"


def test_the_first_screen_answers(world: World) -> None:
    records = [world.record(world.boot(arm=arm, high_us=131.4)) for arm in ("baseline", "candidate")]
    found = cases(records, [world.over_limit()])
    screen = page.first_screen(found, 1, {_link(found[0]): b"<svg/>"}, _link)
    assert '<span class="word FAIL">FAIL</span>the kernel breaks a limit</h1>' in screen
    assert "1 FAIL; exit code 1" in screen
    assert "over the limit of 80.0 virtual us" in screen
    for name in ("case", "baseline", "candidate", "change", "limit"):
        assert f">{name}</th>" in screen
    assert ">131.4</td>" in screen
    assert ">80.0</td>" in screen
    assert "6.12.107-rt, tree at baseline, image dddddddddddd</td>" in screen
    assert 'src="data:image/svg+xml;base64,PHN2Zy8+"' in screen
    assert page.TREND in screen


def test_text_from_outside_is_escaped(world: World) -> None:
    record = world.record(world.boot(state="hang", message=EVIL))
    record = replace(record, kernel=replace(record.kernel, source=EVIL))
    found = cases([record], [world.verdict(Status.FAIL, Kind.HANG, f"seed 1: it hung {EVIL}", boot="seed 1")])
    screen = page.first_screen(found, 1, {}, _link)
    assert "<script>" not in screen
    assert "\x1b" not in screen
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in screen
    done = cases([record], [world.verdict(Status.DONE, Kind.UNJUDGED, EVIL)])
    assert "&lt;script&gt;" in page.description(done[0], None)


def test_a_good_run_has_no_list_of_causes(world: World) -> None:
    found = cases([world.record(world.boot())], [world.within_limit()])
    screen = page.first_screen(found, 0, {}, _link)
    assert "every limit was kept" in screen
    assert "<li>" not in screen


def test_a_run_without_any_case_is_a_miss() -> None:
    assert '<span class="word MISS">MISS</span>' in page.first_screen((), 3, {}, _link)


def test_of_many_causes_the_worst_are_shown(world: World) -> None:
    verdicts = [world.verdict(Status.DONE, Kind.UNJUDGED, "no limit", case=f"latency/a:{n}") for n in range(9)]
    verdicts.append(world.over_limit(case="latency/z:idle"))
    screen = page.first_screen(cases([], verdicts), 1, {}, _link)
    assert screen.index("latency.max was 131.4") < screen.index("no limit")
    assert "and 4 more" in screen


def _history(path: Path, values: list[float]) -> Path:
    runs = [
        {
            "name": f"rtgate: virt-arm64 6.12.107 {number:012x}",
            "timestamp": 1_795_526_951_433 + number,
            "metrics": {"k": v},
        }
        for number, v in enumerate(values)
    ]
    path.write_text("".join(f"{json.dumps(run)}\n" for run in runs), encoding="utf-8")
    return path


@pytest.fixture
def figures(tmp_path: Path) -> Path:
    path = tmp_path / "figures.json"
    entry = {"key": "k", "title": "latency/cyclictest:idle: maximum latency", "unit": "us", "groupTitle": "a board"}
    path.write_text(json.dumps([entry, {**entry, "key": "other"}]), encoding="utf-8")
    return path


def test_a_trend_has_axes_and_the_names_of_its_runs(
    figures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: dict[str, bytes] = {}

    def shown(plots: dict[str, bytes], runs: int) -> str:
        drawn.update(plots)
        return f"{runs} runs"

    monkeypatch.setattr(page, "trend", shown)
    assert trend(figures, _history(tmp_path / "history.jsonl", [50.0, 51.5, 49.0])) == "3 runs"
    svg = drawn["latency/cyclictest:idle: a board"].decode()
    assert "maximum latency" in svg
    assert "2026-11-24 13:29 000000000002" in svg


def test_one_run_is_no_trend(figures: Path, tmp_path: Path) -> None:
    assert trend(figures, _history(tmp_path / "history.jsonl", [50.0])) == ""


def test_a_trend_is_folded() -> None:
    html = page.trend({"a <b>": b"<svg/>"}, 7)
    assert "<summary>Trend over 7 runs</summary>" in html
    assert 'alt="trend of a &lt;b&gt;"' in html
