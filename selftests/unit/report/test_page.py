# SPDX-License-Identifier: MIT
from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rtgate.judge.verdict import Kind, Status
from rtgate.report import page
from rtgate.report.cases import CaseReport, cases
from rtgate.report.plots import Picture
from rtgate.report.trend import trend

if TYPE_CHECKING:
    from selftests.unit.report.conftest import World

PLOT = Picture(svg=b"<svg/>", png=b"\x89PNG")
EVIL = "<script>alert(1)</script>\x1b[31m\nsecond line"


def _link(case: CaseReport) -> str:
    return f"#{case.case}"


def test_the_first_screen_answers(world: World) -> None:
    records = [world.record(world.boot(arm=arm, high_us=131.4)) for arm in ("baseline", "candidate")]
    found = cases(records, [world.over_limit()])
    screen = page.first_screen(found, 1, {found[0].place: PLOT}, _link)
    numbers = "latency.max 131.4 virtual us, limit 80.0 virtual us (latency/cyclictest:idle on virt-arm64)"
    assert f'<span class="word FAIL">FAIL</span>the kernel breaks a limit: {numbers}</h1>' in screen
    assert "1 FAIL; exit code 1" in screen
    assert "over the limit of 80.0 virtual us" in screen
    for name in ("case", "baseline", "candidate", "change", "limit"):
        assert f">{name}</th>" in screen
    assert ">131.4</td>" in screen
    assert ">80.0</td>" in screen
    assert "6.12.107-rt, tree at baseline, image dddddddddddd</td>" in screen
    assert 'src="data:image/svg+xml;base64,PHN2Zy8+"' in screen
    assert page.TREND in screen


def test_maxima_of_many_cases_are_one_picture_for_each_board(world: World) -> None:
    names = [f"latency/cyclictest:{load}" for load in ("idle", "hackbench", "stress-ng")]
    records = [world.record(world.boot(case=name, arm=arm)) for name in names for arm in ("baseline", "candidate")]
    verdicts = [world.within_limit(case=name) for name in names]
    title = 'alt="Maxima on virt-arm64, candidate, preempt_rt, virtual us"'
    assert page.first_screen(cases(records, verdicts), 0, {}, _link).count(title) == 1
    # Two cases are read in the table.
    assert title not in page.first_screen(cases(records[:4], verdicts[:2]), 0, {}, _link)


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


@pytest.mark.parametrize(
    ("verdict", "code", "action"),
    [
        ((Status.FAIL, Kind.LIMIT), 1, "whoever changed the kernel must act"),
        ((Status.ERROR, Kind.VALIDITY), 4, "whoever looks after boards and tests must act"),
        ((Status.MISS, Kind.LAB), 3, "whoever runs the lab must act"),
        ((Status.MISS, Kind.HANG), 3, "whoever looks after the baseline must act"),
        ((Status.DONE, Kind.INCONCLUSIVE), 5, "measure more boots"),
        ((Status.DONE, Kind.NOT_COMPARED), 5, "whoever looks after boards and placebos.yaml must act"),
        ((Status.SKIP, Kind.NOT_EXERCISED), 5, "measure what the sentences name: a load that reaches it, or a board"),
        ((Status.DONE, Kind.UNJUDGED), 5, "whoever sets limits must act"),
    ],
)
def test_both_pages_say_who_must_act(world: World, verdict: tuple[Status, Kind], code: int, action: str) -> None:
    found = cases([world.record(world.boot())], [world.verdict(*verdict, "what happened")])
    for shown in (page.first_screen(found, code, {}, _link), page.summary(found, code, {})):
        assert f"<p><b>Next:</b> {action}" in shown


def test_nobody_must_act_for_a_good_kernel(world: World) -> None:
    found = cases([world.record(world.boot())], [world.within_limit()])
    assert "Next" not in page.first_screen(found, 0, {}, _link)


def test_what_the_compiler_says_is_shown_at_once_and_no_table_of_nothing(world: World) -> None:
    nothing = {"board": "", "arm": "", "flavour": "", "case": ""}
    broken = world.verdict(Status.FAIL, Kind.BUILD, "make ended with 2\nhrtimer.c:7: error: no <x>", **nothing)
    found = cases([], [broken])
    screen, mail = page.first_screen(found, 1, {}, _link), page.summary(found, 1, {})
    assert "<details open>" in screen
    assert "<table>" not in screen
    for shown in (screen, mail):
        assert "<pre>hrtimer.c:7: error: no &lt;x&gt;</pre>" in shown


def test_what_did_not_decide_is_looked_at_before_what_passed(world: World) -> None:
    passed = [world.within_limit(case=f"latency/a:{number}") for number in range(3)]
    undecided = world.verdict(Status.DONE, Kind.INCONCLUSIVE, "not enough", case="latency/z:idle")
    not_run = world.verdict(Status.SKIP, Kind.NOT_EXERCISED, "not exercised here", case="latency/y:idle")
    skipped = world.verdict(Status.SKIP, Kind.UNJUDGED, "needs tracing", case="latency/x:idle")
    failed = world.over_limit(case="latency/w:idle")
    found = page.worst_first(cases([], [*passed, skipped, not_run, undecided, failed]))
    assert [case.load if case.status is Status.PASS else case.tool for case in found] == [
        "w",
        "y",
        "z",
        "0",
        "1",
        "2",
        "x",
    ]


def test_of_many_causes_the_worst_are_shown(world: World) -> None:
    verdicts = [
        world.verdict(Status.FAIL, Kind.LIMIT, f"latency.max was {n} us", case=f"latency/a:{n}", measurement="x")
        for n in range(9)
    ]
    verdicts.append(replace(world.over_limit(case="latency/z:idle"), cause="+90 instructions in f"))
    screen = page.first_screen(cases([], verdicts), 1, {}, _link)
    assert screen.index("Where the time goes: +90 instructions in f") < screen.index("<table>")
    assert screen.index("latency.max was 131.4") < screen.index("latency.max was 0 us")
    assert "and 4 more" in screen


def test_what_every_boot_says_is_said_once(world: World) -> None:
    verdicts = [
        world.verdict(Status.FAIL, Kind.BOOT, f"seed {n}: it stopped; last lines:\nPanic", case=case, boot=f"seed {n}")
        for case in ("latency/a:idle", "latency/b:idle")
        for n in range(8)
    ]
    screen = page.first_screen(cases([], verdicts), 1, {}, _link)
    assert screen.count("<li>") == 1
    assert "(the same 16 times, in 2 cases)" in screen
    assert "<pre>Panic</pre>" in screen


def test_a_long_sentence_shows_its_first_statement_and_unfolds(world: World) -> None:
    sentence = f"no worse in (a; b) 7 figures; {'and so on ' * 40}"
    screen = page.first_screen(cases([], [world.verdict(Status.PASS, Kind.NO_WORSE, sentence)]), 0, {}, _link)
    assert ": no worse in (a; b) 7 figures</summary>" in re.sub(r"\s+</summary>", "</summary>", screen)


class _Reader(HTMLParser):
    """What a program that shows no HTML makes of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.text: list[str] = []
        self.tags: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        if self.tags[-1:] != ["style"]:
            self.text += data.split()


def test_a_summary_reads_as_plain_text_and_needs_no_script(world: World) -> None:
    records = [world.record(world.boot(arm=arm, high_us=131.4)) for arm in ("baseline", "candidate")]
    found = cases(records, [replace(world.over_limit(), cause="+90 instructions in hrtimer_wakeup")])
    html = page.summary(found, 1, {found[0].place: PLOT})
    reader = _Reader()
    reader.feed(html)
    text = " ".join(reader.text)
    assert {"script", "link", "svg", "iframe", "details"}.isdisjoint(reader.tags)
    assert "data:image/png;base64,iVBORw==" in html
    order = (
        "FAIL the kernel breaks a limit: latency.max 131.4",
        "hrtimer_wakeup",
        "A limit is that of thresholds.yaml",
        "status case figure baseline candidate change limit boots",
        "over the limit",
    )
    assert sorted(order, key=text.index) == list(order)


def test_a_summary_stays_below_a_megabyte_and_shows_the_worst(world: World) -> None:
    shout = "x" * 20_000
    verdicts = [world.over_limit(case="latency/worst:idle", board="b")]
    for n in range(300):
        changes = {"case": f"latency/{n:03}:idle", "board": f"b{n % 7}"}
        verdicts.append(world.verdict(Status.ERROR, Kind.OUTPUT, f"seed {n}: {shout}\n{shout}", **changes))
    record = replace(world.record(world.boot()), kernel=replace(world.record(world.boot()).kernel, source=shout))
    found = cases([record, *(replace(record, case=one.case, board=one.board) for one in verdicts)], verdicts)
    plots = {case.place: Picture(svg=b"", png=b"\0" * 200_000) for case in found}
    html = page.summary(found, 1, plots)
    assert len(html.encode()) < 1_000_000
    assert "latency/worst:idle" in html
    assert html.count("<img") == 2
    assert "262 further cases" in html


def test_a_kernel_that_did_not_boot_has_no_plot_of_its_baseline_alone(world: World) -> None:
    records = [world.record(world.boot(arm="baseline")), world.record(world.boot(state="hang", message="it hung"))]
    found = cases(records, [world.verdict(Status.FAIL, Kind.HANG, "seed 1: it hung", boot="seed 1")])
    assert "<img" not in page.first_screen(found, 1, {found[0].place: PLOT}, _link)


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

    def shown(plots: dict[str, bytes], runs: int, changes: list[str]) -> str:
        assert not changes
        drawn.update(plots)
        return f"{runs} runs"

    monkeypatch.setattr(page, "trend", shown)
    assert trend(figures, _history(tmp_path / "history.jsonl", [50.0, 51.5, 49.0])) == "3 runs"
    svg = drawn["latency/cyclictest:idle: a board"].decode()
    assert "maximum latency" in svg
    assert "2026-11-24 13:29 000000000002" in svg


def test_one_run_is_no_trend(figures: Path, tmp_path: Path) -> None:
    assert trend(figures, _history(tmp_path / "history.jsonl", [50.0])) == ""


def test_a_report_that_is_made_again_is_no_further_run(figures: Path, tmp_path: Path) -> None:
    history = _history(tmp_path / "history.jsonl", [50.0, 50.1, 50.2, 60.0, 60.0, 60.0])
    runs = [json.loads(line) for line in history.read_text(encoding="utf-8").splitlines()]
    for number, run in enumerate(runs):
        run["testResults"] = {"idle": {"start": min(number, 3), "stop": min(number, 3) + 1}, "missing": {}}
    history.write_text("".join(f"{json.dumps(run)}\n" for run in runs), encoding="utf-8")
    html = trend(figures, history)
    assert "Trend over 4 runs" in html
    assert "Changed" not in html


def test_a_level_that_changed_and_stayed_is_said_before_the_folded_trend(figures: Path, tmp_path: Path) -> None:
    values = [50.0 + 0.1 * (n % 3) for n in range(30)] + [60.0 + 0.1 * (n % 3) for n in range(10)]
    html = trend(figures, _history(tmp_path / "history.jsonl", values))
    assert "within the last 30 runs" in html
    told = "maximum latency from 50.1 to 60.1 us, since 2026-11-24 13:29 00000000001e"
    assert f"<li>latency/cyclictest:idle: a board: {told}</li>" in html
    steady = trend(figures, _history(tmp_path / "history.jsonl", values[:30]))
    assert "Trend over 30 runs" in steady
    assert "Changed" not in steady


def test_a_figure_that_is_zero_has_a_trend_and_no_change(figures: Path, tmp_path: Path) -> None:
    assert "Trend over 9 runs" in trend(figures, _history(tmp_path / "history.jsonl", [0.0] * 4 + [50.0] * 5))


def test_a_trend_is_folded() -> None:
    html = page.trend({"a <b>": b"<svg/>"}, 7, [])
    assert "Changed and stayed" not in html
    assert "<summary>Trend over 7 runs</summary>" in html
    assert 'alt="trend of a &lt;b&gt;"' in html
