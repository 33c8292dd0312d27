# SPDX-License-Identifier: MIT
"""The note on a merge request: what is in it, and that nothing that others wrote gets out of its code."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from rtgate.judge.verdict import Figure, Kind, Status, Verdict
from rtgate.report.note import About, Note, Section, note, summary
from rtgate.report.note_markdown import as_markdown
from rtgate.report.note_text import WIDTH, as_text
from rtgate.report.text import plain_text
from rtgate.units import Quantity, Unit

if TYPE_CHECKING:
    from selftests.unit.report.conftest import World

BASE, CANDIDATE = "a" * 40, "b" * 40
HOSTILE = (
    "/merge",
    "\n/merge\n/approve",
    "`` ` ```",
    "```\n/merge\n```",
    "~~~\n/close",
    "<script>alert(1)</script>",
    "<!-- rtgate review -->",
    "@all [x](javascript:alert(1)) ![x](http://x)",
    "| a | b |\n|---|---|",
    "\x1b]0;title\x07\x1b[31m",
    "# heading\n\n- item\n> quote",
    "  \\",
    "--> </details>",
    "\u202egnp.exe",
)


def _verdict(status: Status, kind: Kind, sentence: str, case: str = "latency/cyclictest:idle") -> Verdict:
    return Verdict(
        status=status,
        kind=kind,
        sentence=sentence,
        board="virt-arm64",
        arm="candidate",
        flavour="preempt_rt",
        case=case,
    )


def _hostile(text: str) -> Note:
    return Note(
        headline="FAIL: the kernel cannot be built",
        about=About(base=BASE, candidate=CANDIDATE, name="!12", title=text, target=text, edits=(text,)),
        rows=(("FAIL", "virt-arm64", "latency/pi_stress:idle", "mean", "20.1", "21.3", "+6.0%", "-"),),
        sections=(Section("What is wrong with the kernel", (text, f"  {text}")),),
    )


def _tokens(markdown: str) -> list[Token]:
    found = MarkdownIt("commonmark").enable("table").parse(markdown)
    return [*found, *(child for token in found for child in token.children or ())]


HARMLESS = _tokens(as_markdown(_hostile("a title")))


@pytest.mark.parametrize("text", HOSTILE)
def test_what_is_known_to_be_hostile_changes_nothing_of_how_markdown_is_read(text: str) -> None:
    _assert_harmless(text)


@given(st.one_of(st.text(), st.text(alphabet="`~/<>@[]()!|\\*_-#\n ab")))
def test_no_text_changes_anything_of_how_markdown_is_read(text: str) -> None:
    _assert_harmless(text)


def _assert_harmless(text: str) -> None:
    found = _tokens(as_markdown(_hostile(text)))
    assert {token.type for token in found} <= {token.type for token in HARMLESS}
    assert _table(found) == _table(HARMLESS)


def _table(tokens: list[Token]) -> list[str]:
    return [token.type for token in tokens if token.type in {"tr_open", "td_open", "th_open"}]


@pytest.mark.parametrize("text", HOSTILE)
def test_no_line_outside_of_code_is_a_quick_action_or_a_mention(text: str) -> None:
    outside = re.sub(r"(?ms)^(`{3,})text$.*?^\1$", "", as_markdown(_hostile(text)))
    assert not [line for line in outside.split("\n") if line.lstrip().startswith("/")]
    prose = re.sub(r"(`+)(?!`).*?(?<!`)\1(?!`)", "", outside)
    assert "@" not in prose
    assert "<" not in prose


@pytest.mark.parametrize("text", HOSTILE)
def test_no_control_character_gets_through(text: str) -> None:
    for made in (as_markdown(_hostile(text)), as_text(_hostile(text))):
        assert plain_text(made) == made


@given(st.text(max_size=400))
def test_plain_text_is_narrow_but_for_words_that_are_longer(text: str) -> None:
    for line in as_text(_hostile(text)).split("\n"):
        assert len(line) <= WIDTH or len(line.split()) <= 2


def test_the_first_line_is_the_verdict_and_the_kernel_s_part_comes_before_the_lab_s() -> None:
    regression = Verdict(
        status=Status.FAIL,
        kind=Kind.REGRESSION,
        sentence="mean +6 %\nchanged and slower: try_to_wake_up (+120 instructions)",
        board="virt-arm64",
        arm="candidate",
        flavour="preempt_rt",
        case="latency/cyclictest:idle",
        measurement="latency mean",
        value=Figure.of(Quantity(21.0, Unit.VIRTUAL_US), "21 virtual us"),
    )
    verdicts = [
        _verdict(Status.MISS, Kind.LAB, "QEMU is not installed", "latency/cyclictest:hackbench"),
        regression,
        _verdict(Status.DONE, Kind.INCONCLUSIVE, "not enough boots", "signal/signaltest:idle"),
        _verdict(Status.PASS, Kind.LIMIT, "50 us of 90 us"),
    ]
    shown = note(About(base=BASE, candidate=CANDIDATE, title="timers: be late"), [], verdicts, 1)
    assert [section.heading for section in shown.sections] == [
        "What is wrong with the kernel",
        "What went wrong in the lab, or was not measured",
        "What could not be decided",
    ]
    assert shown.sections[0].lines == (
        "FAIL virt-arm64 latency/cyclictest:idle: mean +6 %",
        "  changed and slower: try_to_wake_up (+120 instructions)",
    )
    text = as_text(shown)
    assert text.startswith("FAIL: the kernel became worse than the baseline; it keeps every limit\n")
    assert "50 us of 90 us" not in text
    assert as_markdown(shown).startswith("**FAIL: the kernel became worse")


def test_a_note_stays_short_and_says_what_it_leaves_out() -> None:
    sentence = "line\n" * 200
    shown = note(About(base=BASE, candidate=CANDIDATE), [], [_verdict(Status.FAIL, Kind.BUILD, sentence)], 1)
    (section,) = shown.sections
    assert len(section.lines) == 61
    assert section.lines[-1] == "(141 further lines are in the report)"


def test_what_many_boots_say_alike_is_said_once() -> None:
    silent = "the machine stopped while booting without a word; its console stayed silent"
    verdicts = [
        replace(_verdict(Status.FAIL, Kind.BOOT, f"seed {seed}: {silent}", case), boot=f"seed {seed}")
        for case in ("latency/cyclictest:idle", "latency/cyclictest:hackbench")
        for seed in range(1, 9)
    ]
    (section,) = note(About(base=BASE, candidate=CANDIDATE), [], verdicts, 1).sections
    assert section.lines == (
        f"FAIL virt-arm64 latency/cyclictest:hackbench: seed 1: {silent}",
        "  the same 16 times, in 2 cases",
    )


def test_a_sentence_that_only_ends_alike_is_said_for_itself() -> None:
    verdicts = [
        replace(_verdict(Status.FAIL, Kind.FAULT, f"seed {seed}: the kernel died: BUG {seed}"), boot=f"seed {seed}")
        for seed in (1, 2)
    ]
    (section,) = note(About(base=BASE, candidate=CANDIDATE), [], verdicts, 1).sections
    assert len(section.lines) == 2


def test_the_second_line_of_a_long_title_does_not_look_like_ours() -> None:
    title = f"timers: {'x' * 66} PASS: every limit was kept"
    shown = as_text(Note(headline="FAIL: x", about=About(base=BASE, candidate=CANDIDATE, title=title)))
    assert "\n  PASS: every limit was kept\n" in shown


def test_a_run_that_is_no_review_names_its_kernels_and_shows_what_was_measured_alone(world: World) -> None:
    alone = as_markdown(summary([world.record(world.boot())], [world.over_limit()], 1))
    assert "candidate: `6.12.107-rt, tree at candidate, image aaaaaaaaaaaa`" in alone
    assert "| FAIL | virt-arm64 | latency/cyclictest:idle | mean | - |" in alone
    assert "baseline: " not in alone
    assert ", candidate \n" not in alone


@pytest.mark.parametrize("text", HOSTILE)
def test_a_kernel_s_source_gets_out_of_no_code(world: World, text: str) -> None:
    record = world.record(world.boot())
    record = replace(record, kernel=replace(record.kernel, source=text))
    found = _tokens(as_markdown(summary([record], [world.over_limit()], 1)))
    assert {token.type for token in found} <= {token.type for token in HARMLESS}
