# SPDX-License-Identifier: MIT
from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from selftests.examples import examples

from rtgate.board.pcie import Function
from rtgate.errors import ParseError
from rtgate.tools import Output, Setting
from rtgate.tools.measurement import Better, Measurement
from rtgate.tools.pcie_bar import (
    DEVICE,
    KERNEL_OPERATIONS,
    OPERATIONS,
    PcieBar,
    PcieBarKernel,
    PcieBarWriteCombining,
)
from rtgate.units import Unit

DATA = Path(__file__).resolve().parents[2] / "data" / "pcie-programs" / "qemu-7.2"
ADDRESS = "0000:00:0a.0"
TOOL = PcieBar()
FACTS = {DEVICE: Function(name=DEVICE, address=ADDRESS)}
VIRTUAL = Setting(cpus=1, duration_s=10, virtual_time=True, pcie=FACTS)
REAL = Setting(cpus=4, duration_s=9, virtual_time=False, pcie=FACTS)  # 18 runs of 0.5 s


def _document(setting: Setting = REAL, nanoseconds: int = 500_000_000, megabytes: int = 53) -> dict[str, Any]:
    """Return what pcie-bar prints; every run moves `megabytes` MB in a second."""
    counts = (1, setting.cpus) if setting.cpus > 1 else (1,)
    runs = [
        {
            "operation": name,
            "width": 32,
            "threads": threads,
            "bytes": nanoseconds * megabytes // 1000,
            "ns": nanoseconds,
            "wrong": 0,
        }
        for threads in counts
        for name in OPERATIONS
    ]
    numbered = {str(number): run for number, run in enumerate(runs)}
    return {"program": "pcie-bar", "write_combining": False, "verified": True, "run": numbered}


def _parse(
    document: dict[str, Any] | str, code: int = 0, err: str = "", setting: Setting = REAL
) -> tuple[Measurement, ...]:
    text = document if isinstance(document, str) else json.dumps(document)
    files = {"tool.out": text.encode(), "tool.err": err.encode()}
    return TOOL.parse(Output(files=files, exit_code=code, setting=setting))


def _numbers(measurements: tuple[Measurement, ...]) -> dict[str, Any]:
    return {one.name: (one.quantity.value, one.quantity.unit) for one in measurements if one.quantity is not None}


def test_rates_are_those_of_one_thread_and_of_all_together() -> None:
    found = _numbers(_parse(_document()))
    assert found["bytes.wrong"] == (0, Unit.COUNT)
    assert found["store32.rate"] == found["load128.rate.threads"] == (53, Unit.MB_S)
    assert set(found) == {"bytes.wrong", *(f"{name}.rate{many}" for name in OPERATIONS for many in ("", ".threads"))}
    assert set(found) <= set(TOOL.reports)


def test_more_is_better_and_the_number_of_threads_is_a_label() -> None:
    by_name = {one.name: one for one in _parse(_document())}
    assert by_name["store32.rate"].better is Better.HIGHER
    assert by_name["store32.rate"].labels == {}
    assert by_name["store32.rate.threads"].labels == {"threads": "4"}


@pytest.mark.parametrize(("name", "least"), [("pcie-bar-virt-arm64.out", 1000), ("pcie-bar-virt-x86_64.out", 1000)])
def test_a_captured_run_on_virtual_time(name: str, least: float) -> None:
    text = (DATA / name).read_text()
    found = _numbers(_parse(text, setting=VIRTUAL))
    runs = json.loads(text)["run"].values()
    assert [run["operation"] for run in runs] == list(OPERATIONS)
    for run in runs:
        assert found[f"{run['operation']}.rate"] == (pytest.approx(run["bytes"] * 1e3 / run["ns"]), Unit.VIRTUAL_MB_S)
    # An instruction takes 8 ns, whatever its width; store128 is four of seven instructions.
    assert found["store128.rate"][0] > least
    assert found["store128.rate"][0] / found["store32.rate"][0] == pytest.approx(4, rel=0.1)
    assert found["store128.rate"][0] > 0.9 * found["plain128.rate"][0]


def test_a_rate_is_a_share_of_the_link_where_the_board_says_how_it_is_trained() -> None:
    link = replace(FACTS[DEVICE], generation=3, width=1, mps=256)
    found = _numbers(_parse(_document(), setting=replace(REAL, pcie={DEVICE: link})))
    # Gen3 x1 with 256 bytes: 984.6 x 256/284 = 887.5 MB/s, as the guide prints it.
    assert found["store32.share"] == (pytest.approx(53 / 887.5, rel=1e-3), Unit.RATIO)
    assert set(found) <= set(TOOL.reports)


def test_a_rate_that_no_link_carries_is_a_measuring_error() -> None:
    link = replace(FACTS[DEVICE], generation=1, width=1, mps=128)
    with pytest.raises(ParseError, match="a measuring error"):
        _parse(_document(megabytes=400), setting=replace(REAL, pcie={DEVICE: link}))


def test_on_virtual_time_there_is_no_share() -> None:
    link = replace(FACTS[DEVICE], generation=1, width=1, mps=128)
    document = _document(VIRTUAL, nanoseconds=50_000_000, megabytes=400)
    found = _numbers(_parse(document, setting=replace(VIRTUAL, pcie={DEVICE: link})))
    assert found["store32.rate"] == (400, Unit.VIRTUAL_MB_S)
    assert not [name for name in found if ".share" in name]


def test_wrong_data_is_a_measurement() -> None:
    document = _document()
    document["run"]["3"] |= {"wrong": 10, "first": 77777, "expected": 203, "found": 0}
    assert _numbers(_parse(document, code=1))["bytes.wrong"] == (10, Unit.COUNT)


@pytest.mark.parametrize(
    ("code", "err", "message"),
    [
        (
            3,
            "pcie-bar: there is no PCI device 0000:00:0a.0",
            "ended with exit code 3: pcie-bar: there is no PCI device",
        ),
        (8, "pcie-bar: the device is gone: ...", "ended with exit code 8: pcie-bar: the device is gone"),
        (127, "sh: pcie-bar: not found", "ended with exit code 127"),
    ],
)
def test_an_error_is_told_in_the_words_of_the_program(code: int, err: str, message: str) -> None:
    with pytest.raises(ParseError, match=message):
        _parse("", code=code, err=err)


def _spoil(key: str, value: object) -> Callable[[dict[str, Any]], object]:
    return lambda document: document["run"]["0"].update({key: value})


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda document: document.pop("run"), "has no 'run'"),
        (lambda document: document["run"].pop("0"), "pcie-bar did store64 x1.*, not store32 x1, store64 x1"),
        (lambda document: document.update(verified=False), "did not compare the data"),
        (lambda document: document.pop("verified"), "did not compare the data"),
        (lambda document: document.update(write_combining=True), "does not say that its mapping is the one"),
        (lambda document: document.pop("write_combining"), "does not say that its mapping is the one"),
        (_spoil("operation", "load32"), "pcie-bar did load32 x1, store64 x1"),
        (_spoil("operation", None), "not a text"),
        (_spoil("threads", 2), "pcie-bar did store32 x2"),
        (_spoil("bytes", 0), "moved 0 bytes"),
        (_spoil("bytes", -4), "'bytes' is -4"),
        (_spoil("bytes", 1.5), "not a whole number"),
        (_spoil("ns", 499_000_000), "in 499000000 ns: it was asked for 499500000 ns"),
        (_spoil("ns", 0), "in 0 ns"),
        (_spoil("wrong", 1), "reports 1 wrong bytes and ends with exit code 0"),
        (_spoil("wrong", -1), "'wrong' is -1"),
    ],
)
def test_what_contradicts_itself_is_refused(spoil: Callable[[dict[str, Any]], object], message: str) -> None:
    document = _document()
    spoil(document)
    with pytest.raises(ParseError, match=message):
        _parse(document)


def test_wrong_data_that_nobody_reports_is_refused() -> None:
    with pytest.raises(ParseError, match="reports 0 wrong bytes and ends with exit code 1"):
        _parse(_document(), code=1)


def test_a_stopped_run_is_no_result() -> None:
    files = {"tool.out": json.dumps(_document()).encode(), "tool.deadline": b"after 38 s"}
    with pytest.raises(ParseError, match="was stopped after 38 s"):
        TOOL.parse(Output(files=files, exit_code=143, setting=REAL))


@given(st.text(max_size=200) | st.binary(max_size=200).map(lambda data: data.decode("latin-1")))
def test_any_text_is_a_result_or_a_parse_error(text: str) -> None:
    with pytest.raises(ParseError):
        _parse(text)


_VALUES: st.SearchStrategy[Any] = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.just({}) | st.just([])
)


@examples(200)
@given(st.integers(0, 17), st.sampled_from(["operation", "threads", "bytes", "ns", "wrong"]), _VALUES)
def test_any_value_is_a_result_or_a_parse_error(number: int, key: str, value: Any) -> None:
    document = _document()
    document["run"][str(number)][key] = value
    try:
        found = _parse(document)
    except ParseError:
        return
    assert all(one.quantity and one.quantity.value >= 0 for one in found)


def test_the_command_line_says_everything() -> None:
    everything = f"--operations={','.join(OPERATIONS)}"
    assert TOOL.argv(REAL) == ("pcie-bar", "--seconds=0.5", everything, "--threads=1,4", "--force", ADDRESS)
    assert TOOL.argv(VIRTUAL) == ("pcie-bar", "--seconds=0.05", everything, "--threads=1", "--force", ADDRESS)
    some = replace(REAL, cpus=2, cpu_list="2-3")
    assert TOOL.argv(some)[3:5] == ("--threads=1,2", "--cpus=2-3")
    ids = replace(REAL, pcie={DEVICE: Function(name=DEVICE, id="1d87:356a")})
    assert TOOL.argv(ids)[-1] == "1d87:356a"


def test_it_lasts_as_long_as_all_its_operations() -> None:
    assert TOOL.expected(REAL).duration_s == pytest.approx(9)
    assert TOOL.expected(VIRTUAL).duration_s == pytest.approx(0.45)
    assert TOOL.expected(replace(REAL, duration_s=0.01)).duration_s == pytest.approx(1.8)


def test_write_combining_is_asked_for_and_must_be_what_was_done() -> None:
    combining = PcieBarWriteCombining()
    words = combining.argv(REAL)
    assert (*words[:3], *words[4:]) == TOOL.argv(REAL)
    assert words[3] == "--write-combining"
    document = _document() | {"write_combining": True}
    files = {"tool.out": json.dumps(document).encode(), "tool.err": b""}
    found = combining.parse(Output(files=files, exit_code=0, setting=REAL))
    assert found == _parse(_document())
    with pytest.raises(ParseError, match="pcie-bar-wc does not say that its mapping is the one that was asked for"):
        combining.parse(Output(files={"tool.out": json.dumps(_document()).encode()}, exit_code=0, setting=REAL))


def test_a_captured_run_with_write_combining() -> None:
    text = (DATA.parent / "linux-6.12" / "pcie-bar-wc-virt-arm64.out").read_bytes()
    found = _numbers(PcieBarWriteCombining().parse(Output(files={"tool.out": text}, exit_code=0, setting=VIRTUAL)))
    assert set(found) == {"bytes.wrong", *(f"{name}.rate" for name in OPERATIONS)}
    assert found["bytes.wrong"] == (0, Unit.COUNT)
    with pytest.raises(ParseError, match="pcie-bar does not say that its mapping"):
        TOOL.parse(Output(files={"tool.out": text}, exit_code=0, setting=VIRTUAL))


KERNEL = PcieBarKernel()


def _parse_kernel(document: dict[str, Any], code: int = 0, setting: Setting = REAL) -> tuple[Measurement, ...]:
    files = {"tool.out": json.dumps(document).encode(), "tool.err": b"sh: write error: No such device"}
    return KERNEL.parse(Output(files=files, exit_code=code, setting=setting))


def _kernel_document(nanoseconds: int = 1_800_000_000, megabytes: int = 53) -> dict[str, Any]:
    one = {"threads": 1, "bytes": nanoseconds * megabytes // 1000, "ns": nanoseconds, "wrong": 0}
    run = {str(number): {"operation": name, "width": 32, **one} for number, name in enumerate(KERNEL_OPERATIONS)}
    return {"program": "rtgate_pcie_bar", "verified": True, "run": run}


def test_the_kernel_s_rates_and_shares() -> None:
    link = replace(FACTS[DEVICE], generation=3, width=1, mps=256)
    found = _numbers(_parse_kernel(_kernel_document(), setting=replace(REAL, pcie={DEVICE: link})))
    assert found["memset_io.rate"] == (53, Unit.MB_S)
    assert found["store32.share"] == (pytest.approx(53 / 887.5, rel=1e-3), Unit.RATIO)
    assert set(found) == set(KERNEL.reports)
    wrong = _kernel_document()
    wrong["run"]["4"] |= {"wrong": 7, "first": 0, "expected": 1, "found": 0}
    assert _numbers(_parse_kernel(wrong))["bytes.wrong"] == (7, Unit.COUNT)


@pytest.mark.parametrize("board", ["virt-arm64", "virt-x86_64"])
def test_a_captured_run_of_the_driver(board: str) -> None:
    text = (DATA.parent / "linux-6.12" / f"pcie-bar-kernel-{board}.out").read_text()
    found = _numbers(_parse_kernel(json.loads(text), setting=VIRTUAL))
    assert set(found) == {"bytes.wrong", *(f"{name}.rate" for name in KERNEL_OPERATIONS)}
    assert found["bytes.wrong"] == (0, Unit.COUNT)
    assert found["memcpy_fromio.rate"][0] > found["load32.rate"][0]


def test_a_driver_that_refuses_or_did_less_is_no_result() -> None:
    with pytest.raises(ParseError, match="pcie-bar-kernel ended with exit code 1: sh: write error: No such device"):
        _parse_kernel(_kernel_document(), code=1)
    short = _kernel_document(nanoseconds=1_700_000_000)
    with pytest.raises(ParseError, match=r"pcie-bar-kernel's store32 moved .* it was asked for 1798200000 ns"):
        _parse_kernel(short)
    less = _kernel_document()
    less["run"].pop("2")
    with pytest.raises(ParseError, match="pcie-bar-kernel did store32 x1, memset_io x1, load32 x1"):
        _parse_kernel(less)


def test_the_driver_is_asked_for_a_function_and_a_time() -> None:
    node = "/dev/rtgate_pcie_bar"
    script = f"echo {ADDRESS} 200000 force >{node} && cat {node}"
    assert KERNEL.argv(VIRTUAL) == ("taskset", "1", "sh", "-c", script)
    ids = replace(REAL, cpus=2, cpu_list="2-3", pcie={DEVICE: Function(name=DEVICE, id="1d87:356a")})
    assert KERNEL.argv(ids)[:2] == ("taskset", "c")
    assert KERNEL.argv(ids)[-1].startswith("echo 1d87:356a 1800000 force >")
    assert KERNEL.expected(VIRTUAL).duration_s == pytest.approx(1)


def test_the_driver_is_never_asked_for_more_than_it_does() -> None:
    source = (Path(__file__).resolve().parents[3] / "target" / "modules" / "rtgate_pcie_bar.c").read_text()
    soak = replace(REAL, duration_s=36_000)
    (longest,) = re.findall(r"#define LONGEST_US (\d+)", source)
    assert KERNEL.argv(soak)[-1].split()[2] == longest
    assert KERNEL.expected(soak).duration_s == int(longest) / 1e6 * len(KERNEL_OPERATIONS)


def test_the_driver_s_operations_are_those_of_the_parser() -> None:
    source = (Path(__file__).resolve().parents[3] / "target" / "modules" / "rtgate_pcie_bar.c").read_text()
    table = source.partition("operations[] = {")[2].partition("};")[0]
    assert tuple(re.findall(r'\{ "(\w+)"', table)) == KERNEL_OPERATIONS


@examples(200)
@given(st.integers(0, 4), st.sampled_from(["operation", "threads", "bytes", "ns", "wrong"]), _VALUES)
def test_any_value_of_the_driver_is_a_result_or_a_parse_error(number: int, key: str, value: Any) -> None:
    document = _kernel_document()
    document["run"][str(number)][key] = value
    try:
        found = _parse_kernel(document)
    except ParseError:
        return
    assert all(one.quantity and one.quantity.value >= 0 for one in found)
