# SPDX-License-Identifier: MIT
from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rtgate.errors import ParseError
from rtgate.tools import Output, Setting, Tool
from rtgate.tools.endpoint_test import EndpointKselftest, Pcitest, tap

DATA = Path(__file__).resolve().parents[2] / "data" / "pcie"
SETTING = Setting(cpus=4, duration_s=0, virtual_time=False)
OLD = EndpointKselftest()
PASSED = (DATA / "kselftest" / "passed.out").read_text()
OKAY = (DATA / "pcitest" / "6.12.out").read_text()
# The script asks only for BARs that are there.
ASKED = re.sub(r"BAR[135]:.*\n", "", OKAY)
BARS = "bars 0 2 4\n"


ALL: tuple[tuple[Tool, str], ...] = (
    *((Pcitest(), f"{BARS}round\n{text}ended\n") for text in (ASKED, OKAY)),
    *((EndpointKselftest(), f"round\n{path.read_text()}ended\n") for path in sorted((DATA / "kselftest").iterdir())),
)


def _parse(tool: Tool, *rounds: str, before: str = "", code: int = 0, end: str = "ended\n") -> dict[str, float]:
    out = before + "".join(f"round\n{text}" for text in rounds) + end
    found = tool.parse(Output(files={"tool.out": out.encode()}, exit_code=code, setting=SETTING))
    assert {one.name for one in found} == set(tool.reports)
    return {one.name: one.quantity.value for one in found if one.quantity is not None}


def test_pcitest_passed() -> None:
    assert _parse(Pcitest(), ASKED, before=BARS) == {"passed": 23, "bars": 3, "failures": 0}
    assert _parse(Pcitest(), ASKED, ASKED, before=BARS)["passed"] == 46


def test_pcitest_failures_are_counted() -> None:
    broken = re.sub(r"BAR[135]:.*\n", "", (DATA / "pcitest" / "6.12-broken.out").read_text())
    assert _parse(Pcitest(), broken, ASKED, before=BARS) == {"passed": 40, "bars": 3, "failures": 6}


def test_on_a_newer_kernel_passed_looks_like_failed() -> None:
    newer = re.sub(r"BAR[135]:.*\n", "", (DATA / "pcitest" / "6.12-on-newer-kernel.out").read_text())
    assert "\tOKAY" not in newer
    with pytest.raises(ParseError, match="this kernel returns 0 for passed"):
        _parse(Pcitest(), newer, before=BARS)


@pytest.mark.parametrize("number", range(23))
def test_a_missing_result_of_pcitest_is_no_result(number: int) -> None:
    lines = ASKED.splitlines(keepends=True)
    gone = lines.pop(number).partition(":")[0].replace("  ", "")
    with pytest.raises(ParseError, match="pcitest printed 22 of 23 results; missing: ") as caught:
        _parse(Pcitest(), "".join(lines), before=BARS)
    assert re.sub(r"\( +", "(", gone) in str(caught.value)


@pytest.mark.parametrize(
    ("rounds", "before", "end", "reason"),
    [
        ((), BARS, "ended\n", "did not come to its end"),
        ((ASKED,), BARS, "", "did not come to its end"),
        ((ASKED,), "", "ended\n", "BARs were not read"),
        ((ASKED,), "bars 0 2\n", "ended\n", "printed 23 of 22 results"),
        ((OKAY,), BARS, "ended\n", "printed 26 of 23"),
        ((ASKED.replace("\tOKAY", "\tOKAY?", 1),), BARS, "ended\n", "missing: BAR0"),
    ],
)
def test_damaged_output_of_pcitest_is_refused(rounds: tuple[str, ...], before: str, end: str, reason: str) -> None:
    with pytest.raises(ParseError, match=reason):
        _parse(Pcitest(), *rounds, before=before, end=end)


def test_the_kselftest_passed() -> None:
    assert _parse(EndpointKselftest(), PASSED) == {"passed": 11, "bars": 3, "failed.dma": 0, "failures": 0}
    assert _parse(EndpointKselftest(), PASSED, PASSED)["passed"] == 22


def test_failures_of_the_kselftest_are_counted_and_dma_apart() -> None:
    broken = (DATA / "kselftest" / "write-broken.out").read_text()
    assert _parse(EndpointKselftest(), broken) == {"passed": 9, "bars": 3, "failed.dma": 1, "failures": 1}


def test_a_device_that_went_away_fails_everything() -> None:
    gone = (DATA / "kselftest" / "no-device.out").read_text()
    assert _parse(EndpointKselftest(), PASSED, gone) == {"passed": 11, "bars": 3, "failed.dma": 3, "failures": 11}


def test_tests_that_were_not_asked_for_are_judged_all_the_same() -> None:
    everything = (DATA / "kselftest" / "no-intx-no-msix.out").read_text()
    assert _parse(EndpointKselftest(), everything)["failures"] == 2


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        ("1..14", "1..15", "15 were planned"),
        ("1..14\n", "", "no plan"),
        ("ok 3 ", "ok 4 ", r"1, 2, 4, 4"),
        ("fail:0", "fail:1", "contradicts itself"),
        ("not ok", "ok", "contradicts itself"),
        ("ok 2 pci_ep_bar.BAR1.BAR_TEST # SKIP BAR is disabled", "ok 2 pci_ep_bar.BAR1.BAR_TEST", "contradicts itself"),
        ("# Totals", "# totals", "no totals"),
        ("pci_ep_bar.BAR1", "pci_ep_bar.BAR7", "did not do pci_ep_bar.BAR1.BAR_TEST"),
        ("pci_ep_bar.BAR1", "pci_ep_bar.BAR0", "contradicts itself"),
    ],
)
def test_tap_that_contradicts_itself_is_refused(before: str, after: str, reason: str) -> None:
    text = PASSED if before in PASSED else (DATA / "kselftest" / "write-broken.out").read_text()
    assert before in text
    with pytest.raises(ParseError, match=reason):
        _parse(EndpointKselftest(), text.replace(before, after))


def test_a_test_that_was_killed_is_refused() -> None:
    with pytest.raises(ParseError, match="exit code 139"):
        _parse(EndpointKselftest(), PASSED, code=139)
    output = Output(files={"tool.deadline": b"after 40 s\n"}, exit_code=143, setting=SETTING)
    for tool in (EndpointKselftest(), Pcitest()):
        with pytest.raises(ParseError, match="was stopped after 40 s"):
            tool.parse(output)


@given(st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    for tool, before in ((EndpointKselftest(), ""), (Pcitest(), BARS)):
        with pytest.raises(ParseError):
            _parse(tool, text, before=before)


@given(st.lists(st.sampled_from(["ok", "not ok", "skip"]), max_size=20))
def test_tap_is_read_as_it_was_written(results: list[str]) -> None:
    words = {"ok": "ok {} t{}", "not ok": "not ok {} t{}", "skip": "ok {} t{} # SKIP no reason"}
    lines = [words[result].format(number, number) for number, result in enumerate(results, 1)]
    totals = "# Totals: pass:{} fail:{} xfail:0 xpass:0 skip:{} error:0".format(
        *(results.count(word) for word in ("ok", "not ok", "skip"))
    )
    found = tap("\n".join(["TAP version 13", f"1..{len(results)}", *lines, totals, ""]))
    assert list(found.values()) == [{"ok": "pass", "not ok": "fail", "skip": "skip"}[word] for word in results]


RESOURCE = """\
0x00000000f0000000 0x00000000f03fffff 0x0000000000040200
0x0000000000000000 0x0000000000000000 0x0000000000000000
0x0000000900000000 0x0000000903ffffff 0x000000000014220c
0x0000000000000000 0x0000000000000000 0x0000000000000000
0x00000000f0400000 0x00000000f04fffff 0x0000000000040200
0x0000000000000000 0x0000000000000000 0x0000000000000000
0x0000000000000000 0x0000000000000000 0x0000000000000000
"""


def test_the_script_asks_for_the_bars_that_are_there(tmp_path: Path) -> None:
    (tmp_path / "0000:01:00.0").mkdir()
    (tmp_path / "0000:01:00.0" / "resource").write_text(RESOURCE)
    program = tmp_path / "pcitest"
    program.write_text(f'#!/bin/sh\necho "$*" >>{tmp_path}/asked\n')
    program.chmod(0o755)
    script = Pcitest().argv(SETTING)[2]
    assert "/sys/bus/pci/drivers/pci-endpoint-test" in script
    done = subprocess.run(
        ["sh", "-c", script.replace("/sys/bus/pci/drivers/pci-endpoint-test", str(tmp_path))],
        env={"PATH": f"{tmp_path}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == f"{BARS}round\nended\n"
    asked = (tmp_path / "asked").read_text().splitlines()
    assert asked[:8] == ["-b 0", "-b 2", "-b 4", "-i 1", "-m 1", "-m 2", "-m 3", "-m 4"]
    assert len(asked) == 23
