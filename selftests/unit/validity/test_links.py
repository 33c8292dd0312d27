# SPDX-License-Identifier: MIT
from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from selftests.fake_target import FakeTarget, arm, facts, measured_outcome
from selftests.unit.measure.test_case import OnDevices

from rtgate.board import boards
from rtgate.board.pcie import Function
from rtgate.judge.judging import Subject, judge
from rtgate.judge.thresholds import Thresholds
from rtgate.judge.verdict import Status
from rtgate.measure.case import Case
from rtgate.measure.case_plan import plan
from rtgate.measure.case_record import measure
from rtgate.records.record import Record
from rtgate.target.plan import Plan, script
from rtgate.tools.cyclictest import Cyclictest
from rtgate.validity import links
from rtgate.validity.check import CheckResult
from rtgate.validity.registry import checks

PORT, NVME = "0000:00:08.0", "0000:01:00.0"
FACTS = {"nvme": Function(name="nvme", address=NVME, port=PORT, aer="port")}
# As the kernel prints it (drivers/pci/pcie/aer.c, aer_stats_dev_attr), shortened.
COR = "RxErr 0\nBadTLP {}\nBadDLLP 0\nTOTAL_ERR_COR {}"


def path(address: str, name: str) -> str:
    return f"{links.FUNCTIONS}/{address}/{name}"


def state(**changes: tuple[str, str]) -> dict[str, tuple[str, str]]:
    """Return two equal looks at a port and what is behind it, with some files of the port changed."""
    port = {
        "vendor": ("0x1b36",) * 2,
        "device": ("0x000c",) * 2,
        "current_link_speed": ("8.0 GT/s PCIe",) * 2,
        "current_link_width": ("4",) * 2,
        "aer_dev_correctable": (COR.format(0, 0),) * 2,
        "aer_dev_nonfatal": ("DLP 0\nTOTAL_ERR_NONFATAL 0",) * 2,
        "aer_dev_fatal": ("DLP 0\nTOTAL_ERR_FATAL 0",) * 2,
        "aer_rootport_total_err_cor": ("0",) * 2,
        **changes,
    }
    nvme = {"vendor": ("0x1b36",) * 2, "device": ("0x0010",) * 2}
    return {path(PORT, name): values for name, values in port.items()} | {
        path(NVME, name): values for name, values in nvme.items()
    }


def lines(found: dict[str, tuple[str, str]]) -> list[tuple[str, str]]:
    return [(fault.kind, fault.line) for fault in links.faults(found, FACTS)]


def test_nothing_happened() -> None:
    assert lines(state()) == []
    assert links.unread(state(), links.counter_owners(FACTS)) == ()


@pytest.mark.parametrize(
    ("changes", "kind", "line"),
    [
        (
            {"aer_dev_correctable": (COR.format(1, 1), COR.format(4, 4))},
            "aer",
            "3 new correctable AER errors of the port of nvme (0000:00:08.0) (BadTLP 3)",
        ),
        (
            {"aer_dev_fatal": ("DLP 0\nTLP 0\nTOTAL_ERR_FATAL 0", "DLP 1\nTLP 1\nTOTAL_ERR_FATAL 1")},
            "aer",
            "1 new fatal AER errors of the port of nvme (0000:00:08.0) (DLP 1, TLP 1)",
        ),
        (
            {"aer_dev_nonfatal": ("TOTAL_ERR_NONFATAL 7", "TOTAL_ERR_NONFATAL 9")},
            "aer",
            "2 new nonfatal AER errors of the port of nvme (0000:00:08.0)",
        ),
        # A function without counters of its own: only its port knows.
        (
            {"aer_rootport_total_err_cor": ("0", "2")},
            "aer",
            "2 new correctable AER messages at the port of nvme (0000:00:08.0)",
        ),
        (
            {"current_link_speed": ("8.0 GT/s PCIe", "2.5 GT/s PCIe")},
            "pcie-link",
            "the link of the port of nvme (0000:00:08.0) fell from 8.0 to 2.5 GT/s during the test",
        ),
        # Before 5.7 the kernel wrote it so.
        (
            {"current_link_speed": ("8 GT/s", "5 GT/s")},
            "pcie-link",
            "the link of the port of nvme (0000:00:08.0) fell from 8 to 5 GT/s during the test",
        ),
        (
            {"current_link_width": ("4", "0")},
            "pcie-link",
            "the link of the port of nvme (0000:00:08.0) fell from 4 to 0 lanes during the test",
        ),
        (
            {"vendor": ("0x1b36", "")},
            "pcie-link",
            "the port of nvme (0000:00:08.0) was there before the test and gone after it",
        ),
        (
            {"aer_dev_correctable": (COR.format(3, 3), COR.format(0, 0))},
            "pcie-link",
            "the port of nvme (0000:00:08.0) went and came again during the test: its error counters went back",
        ),
    ],
)
def test_what_happened_during_a_test_is_told(changes: dict[str, tuple[str, str]], kind: str, line: str) -> None:
    assert lines(state(**changes)) == [(kind, line)]


def test_one_error_of_a_port_is_told_once_and_another_kind_too() -> None:
    risen = (COR.format(0, 0), COR.format(1, 1))
    both = state(aer_dev_correctable=risen, aer_rootport_total_err_cor=("0", "1"))
    assert len(lines(both)) == 1
    assert [kind for kind, _ in lines(state(aer_dev_correctable=risen, aer_rootport_total_err_fatal=("0", "1")))] == [
        "aer",
        "aer",
    ]


def test_a_link_that_rose_or_sleeps_is_no_fault() -> None:
    assert lines(state(current_link_speed=("2.5 GT/s PCIe", "8.0 GT/s PCIe"), current_link_width=("1", "4"))) == []
    assert lines(state(current_link_speed=("8.0 GT/s PCIe", "Unknown"))) == []
    # A function in D3cold answers with ones, until it wakes up.
    asleep = {"current_link_speed": ("Unknown", "2.5 GT/s PCIe"), "current_link_width": ("63", "1")}
    assert lines(state(**asleep)) == []


def test_a_function_nobody_expects_is_told_by_its_address() -> None:
    gone = {path("0001:01:00.0", "vendor"): ("0x10ec", "")}
    assert lines(gone) == [("pcie-link", "0001:01:00.0 was there before the test and gone after it")]
    known = {"net": Function(name="net", id="10ec:8125")}
    seen = {**gone, path("0001:01:00.0", "device"): ("0x8125", "")}
    assert links.faults(seen, known)[0].line.startswith("net (0001:01:00.0) was there")


def test_counters_are_missed_where_the_board_says_they_are() -> None:
    both = {"nvme": Function(name="nvme", id="1b36:0010", port=PORT, aer="both")}
    assert links.unread(state(), links.counter_owners(both)) == (
        "nvme (1b36:0010) before the test",
        "nvme (1b36:0010) after the test",
    )
    late = state(aer_dev_fatal=("TOTAL_ERR_FATAL 0", ""))
    assert links.unread(late, links.counter_owners(FACTS)) == ("the port of nvme (0000:00:08.0) after the test",)
    assert links.counter_owners({"edu": Function(name="edu", id="1234:11e8")}) == ()


@given(
    st.dictionaries(
        st.sampled_from([*state()]) | st.text(max_size=20), st.tuples(st.text(max_size=30), st.text(max_size=30))
    )
)
def test_no_content_is_too_strange(found: dict[str, tuple[str, str]]) -> None:
    for fault in links.faults(found, FACTS):
        assert fault.kind in {"aer", "pcie-link"}
        assert "\n" not in fault.line
    assert len(links.unread(found, links.counter_owners(FACTS))) <= 2


# --- from the plan to the verdict ---

BOARD = "virt-arm64"
CASE = Case(suite="latency", tool=OnDevices(), load="idle")


def _record(before: dict[str, str], after: dict[str, str]) -> Record:
    def named(moment: str, content: dict[str, str]) -> bytes:
        return facts(moment, {path: value.encode() for path, value in content.items()})

    files = {"facts.start": named("facts.start", before), "facts.end": named("facts.end", after)}
    whole = measured_outcome()
    target = FakeTarget({None: replace(whole, files={**whole.files, **files})})
    return measure(CASE, arm(target, board=BOARD), 1)[0]


def _looks(**changes: tuple[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    found = state(**changes)
    return {name: one for name, (one, _) in found.items()}, {name: other for name, (_, other) in found.items() if other}


def test_injected_errors_fail_the_case() -> None:
    found = _record(*_looks(aer_dev_correctable=(COR.format(0, 0), COR.format(2, 2))))
    assert [fault.kind for fault in found.faults] == ["aer"]
    assert not any("aer" in check.sentence for check in checks(found, {}) if check.name == "settings")
    assert not any(name.startswith(links.FUNCTIONS) for name in found.evidence.settings)
    subject = Subject(case=CASE.name, board=BOARD, arm="candidate", flavour="preempt_rt", records=(found,))
    failed = [verdict.sentence for verdict in judge(subject, Thresholds()) if verdict.status is Status.FAIL]
    assert "seed 1: aer: 2 new correctable AER errors of the port of nvme (0000:00:08.0) (BadTLP 2)" in failed
    again = replace(subject, baseline=(found,))
    assert not any("aer" in verdict.sentence for verdict in judge(again, Thresholds()) if verdict.status is Status.FAIL)


def test_a_device_that_goes_fails_the_case() -> None:
    before, after = _looks()
    after = {name: value for name, value in after.items() if NVME not in name}
    assert [fault.line for fault in _record(before, after).faults] == [
        "nvme (0000:01:00.0) was there before the test and gone after it"
    ]


def test_a_look_that_was_lost_is_invalid_and_says_nothing_of_devices() -> None:
    whole = measured_outcome()
    files = {**whole.files, "facts.start": facts("facts.start", {path(NVME, "vendor"): b"0x1b36\n"})}
    del files["facts.end"]
    found = measure(CASE, arm(FakeTarget({None: replace(whole, files=files)}), board=BOARD), 1)[0]
    assert found.faults == ()
    assert {check.name for check in checks(found, {}) if check.result is CheckResult.FAILED} >= {"aer", "settings"}


def test_plans_look_at_functions_only_where_the_board_lists_them() -> None:
    assert "aer_dev_fatal" in script(_plan(CASE, BOARD))
    assert "aer_dev" not in script(_plan(Case(suite="latency", tool=Cyclictest(), load="idle"), BOARD))
    assert not boards.board("nuc-j3455").pcie
    assert "aer_dev" not in script(_plan(Case(suite="latency", tool=Cyclictest(), load="idle"), "nuc-j3455"))


def test_any_case_on_a_real_board_that_lists_functions_looks_at_them() -> None:
    real = arm(FakeTarget(), time="real", board="nuc-j3455")
    listed = replace(real, board=replace(real.board, pcie=FACTS))
    made = plan(Case(suite="latency", tool=Cyclictest(), load="idle"), listed, 1)
    assert f"{links.FUNCTIONS}/*/aer_dev_correctable" in script(made)


def _plan(case: Case, board: str) -> Plan:
    return plan(case, arm(FakeTarget(), board=board, time="virtual" if "virt" in board else "real"), 1)
