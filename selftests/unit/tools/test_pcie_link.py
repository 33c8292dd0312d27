# SPDX-License-Identifier: MIT
from __future__ import annotations

import contextlib
import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from selftests.pci import dump, space

from rtgate.board import boards
from rtgate.board.pcie import Function
from rtgate.errors import ParseError
from rtgate.tools import Output, Setting
from rtgate.tools.measurement import Measurement
from rtgate.tools.pcie_link import PcieLink

CAPTURE = Path(__file__).parents[2] / "data" / "pcie" / "qemu-7.2" / "pcie-link-virt-x86_64.out"
PORT, NVME = "0000:00:00.0", "0000:01:00.0"
FACTS = Function(
    name="nvme", address=NVME, id="144d:a808", port=PORT, generation=3, width=4, mps=256, mrrs=256, aspm="off"
)
HERE = {"function": "nvme"}
ENDPOINT, ROOT = space(), space("1d87:3588", port=4)


def printed(*looks: Mapping[str, tuple[str, bytes]], end: str = "end\n") -> bytes:
    """Return what the script prints of these functions, each by address with what is above it; the same look twice."""
    both = looks * 2 if len(looks) == 1 else looks
    text = "".join(
        f"function {name} {address} {above}\n{dump(data)}"
        for name, look in zip(("first", "last"), both, strict=True)
        for address, (above, data) in look.items()
    )
    return (text + end).encode()


LOOK = {PORT: ("pci0000:00", ROOT), NVME: (PORT, ENDPOINT)}


def parse(out: bytes, function: Function = FACTS, exit_code: int = 0) -> tuple[Measurement, ...]:
    setting = Setting(cpus=1, duration_s=10, virtual_time=False, pcie={function.name: function})
    return PcieLink().parse(Output(files={"tool.out": out}, exit_code=exit_code, setting=setting))


def values(found: tuple[Measurement, ...]) -> dict[tuple[str, str], float]:
    return {(one.name, one.labels.get("end", "")): one.quantity.value for one in found if one.quantity}


def test_both_ends_of_a_link_are_measured() -> None:
    look = {PORT: ("pci0000:00", space("1d87:3588", port=4, link=(2, 4), aspm=1)), NVME: (PORT, space(link=(2, 4)))}
    assert values(parse(printed(look))) == {
        ("function.present", ""): 1,
        ("port.present", ""): 1,
        ("payload.size", "device"): 256,
        ("read_request.size", "device"): 256,
        ("link.generation", "device"): 2,
        ("link.width", "device"): 4,
        ("link.capable.generation", "device"): 3,
        ("link.capable.width", "device"): 4,
        ("link.aspm", "device"): 0,
        ("payload.size", "port"): 256,
        ("link.generation", "port"): 2,
        ("link.width", "port"): 4,
        ("link.capable.generation", "port"): 3,
        ("link.capable.width", "port"): 4,
        ("link.aspm", "port"): 1,
        ("link.changes", ""): 0,
    }


def test_a_captured_output_of_a_virtual_board() -> None:
    board = boards.board("virt-x86_64")
    setting = Setting(cpus=1, duration_s=10, virtual_time=True, pcie=board.pcie)
    found = PcieLink().parse(Output(files={"tool.out": CAPTURE.read_bytes()}, exit_code=0, setting=setting))
    ends = {
        (one.name, one.labels["end"]): one.quantity.value
        for one in found
        if one.quantity and "end" in one.labels and one.labels["function"] == "nvme"
    }
    # QEMU's port could do 16 GT/s and 32 lanes, its NVMe 2.5 GT/s and one.
    assert (ends["link.capable.generation", "port"], ends["link.capable.width", "port"]) == (4, 32)
    assert (ends["link.generation", "port"], ends["link.width", "port"]) == (1, 1)
    assert (ends["link.generation", "device"], ends["link.width", "device"]) == (1, 1)
    assert (ends["payload.size", "port"], ends["read_request.size", "device"]) == (128, 128)
    present = {one.labels["function"]: one.quantity.value for one in found if one.quantity and "present" in one.name}
    assert present == {"nvme": 1, "edu": 1, "endpoint": 1}
    assert all(one.quantity.value == 0 for one in found if one.quantity and one.name == "link.changes")


@pytest.mark.parametrize(
    ("look", "seen"),
    [
        ({PORT: LOOK[PORT]}, "nothing there"),
        ({**LOOK, NVME: (PORT, b"\xff" * 256)}, "it does not answer: its registers read as all ones"),
        ({**LOOK, NVME: (PORT, space("10ec:8125"))}, "10ec:8125 is there"),
        # It went between the line and its bytes.
        ({**LOOK, NVME: (PORT, b"")}, "it does not answer: its registers read as all ones"),
    ],
)
def test_a_function_that_is_not_there(look: dict[str, tuple[str, bytes]], seen: str) -> None:
    (only,) = parse(printed(look))
    assert (only.name, only.quantity and only.quantity.value) == ("function.present", 0)
    assert only.labels == {**HERE, "seen": seen}


def test_a_function_that_goes_between_the_looks() -> None:
    for last in ({PORT: LOOK[PORT]}, {**LOOK, NVME: (PORT, b"\xff" * 256)}):
        (only,) = parse(printed(LOOK, last))
        assert (only.quantity and only.quantity.value, only.labels["seen"]) == (0, "gone 2 s later")


def test_a_link_that_changes_between_the_looks() -> None:
    last = {**LOOK, NVME: (PORT, space(link=(1, 4)))}
    assert values(parse(printed(LOOK, last)))["link.changes", ""] == 1
    both = {PORT: ("pci0000:00", space("1d87:3588", port=4, link=(1, 4))), NVME: (PORT, space(link=(1, 4)))}
    assert values(parse(printed(LOOK, both)))["link.changes", ""] == 2


def test_a_function_below_another_port() -> None:
    moved = {"0001:00:00.0": LOOK[PORT], NVME: ("0001:00:00.0", ENDPOINT)}
    found = {one.name: one for one in parse(printed(moved))}
    assert found["port.present"].labels["seen"] == "it is below 0001:00:00.0"
    assert values(parse(printed(moved)))["port.present", ""] == 0


def test_a_function_is_found_by_its_id() -> None:
    by_id = Function(name="nvme", id="144d:a808")
    assert values(parse(printed(LOOK), by_id))["function.present", ""] == 1
    assert values(parse(printed({PORT: LOOK[PORT]}), by_id)) == {("function.present", ""): 0}
    twice = {**LOOK, "0000:02:00.0": (PORT, ENDPOINT)}
    with pytest.raises(ParseError, match=r"0000:01:00.0, 0000:02:00.0 are all 144d:a808: the board's file must name"):
        parse(printed(twice), by_id)


def test_conventional_pci_is_there_or_not() -> None:
    edu = Function(name="edu", address="0000:00:09.0", id="1234:11e8")
    look = {**LOOK, "0000:00:09.0": ("pci0000:00", space("1234:11e8", port=None))}
    assert values(parse(printed(look), edu)) == {("function.present", ""): 1, ("link.changes", ""): 0}


@pytest.mark.parametrize(
    ("out", "message"),
    [
        (b"", "pcie-link did not come to its end: it printed nothing"),
        (printed(LOOK, end=""), "pcie-link did not come to its end: "),
        (b"end\n", "the target has no PCI function at all"),
        (b"sh: od: not found\nend\n", "pcie-link printed something else in line 1: 'sh: od: not found'"),
        (printed({NVME: (PORT, ENDPOINT[:64])}), "0000:01:00.0: only 64 bytes .* takes root"),
        (printed(LOOK).replace(b" 4d 14", b" 4d zz"), "pcie-link printed something else in line 19: ' 4d zz"),
    ],
)
def test_output_that_is_damaged(out: bytes, message: str) -> None:
    with pytest.raises(ParseError, match=message):
        parse(out)


def test_a_script_that_failed_or_was_stopped() -> None:
    with pytest.raises(ParseError):
        parse(printed(LOOK), exit_code=127)


@given(st.lists(st.sampled_from([*printed(LOOK).decode().splitlines()[:20], "end", " 0g", ""]) | st.text(max_size=40)))
def test_no_output_is_too_strange(lines: list[str]) -> None:
    with contextlib.suppress(ParseError):
        assert parse("\n".join(lines).encode())[0].name == "function.present"


def test_what_the_board_says_is_demanded() -> None:
    setting = Setting(cpus=1, duration_s=10, virtual_time=False, pcie={"nvme": FACTS})
    bounds = PcieLink().expected(setting).bounds
    assert {bound.measurement: (bound.value, bound.exact) for bound in bounds} == {
        "function.present": (1, False),
        "port.present": (1, False),
        "link.generation": (3, False),
        "link.width": (4, False),
        "payload.size": (256, False),
        "read_request.size": (256, False),
        "link.aspm": (0, True),
    }
    assert {bound.labels["function"] for bound in bounds} == {"nvme"}
    assert bounds[2].source == "the board's file, pcie: nvme: generation: 3"
    bare = Setting(cpus=1, duration_s=10, virtual_time=False, pcie={"edu": Function(name="edu", id="1234:11e8")})
    assert [bound.measurement for bound in PcieLink().expected(bare).bounds] == ["function.present"]


@pytest.mark.parametrize("shell", ["dash", "bash", "busybox"])
def test_the_script_prints_what_is_read(shell: str, tmp_path: Path) -> None:
    """Devices are directories here, linked to as in /sys."""
    devices, buses = tmp_path / "sys/bus/pci/devices", tmp_path / "sys/devices/pci0000:00"
    devices.mkdir(parents=True)
    for path, data in ((buses / PORT, ROOT), (buses / PORT / NVME, ENDPOINT + bytes(3840))):
        path.mkdir(parents=True)
        (path / "config").write_bytes(data)
        (devices / path.name).symlink_to(path)
    (devices / "0000:02:00.0").symlink_to(buses / "gone")
    script = PcieLink(seconds=0).argv(Setting(cpus=1, duration_s=1, virtual_time=False))[-1]
    words = ["busybox", "sh"] if shell == "busybox" else [shell]
    try:
        done = subprocess.run(
            [*words, "-c", re.sub(r"/sys/", f"{tmp_path}/sys/", script)],
            capture_output=True,
            env={**os.environ, "LC_ALL": "C"},
            check=True,
            timeout=30,
        )
    except FileNotFoundError:
        pytest.skip(f"no {shell} here")
    assert done.stderr == b""
    assert done.stdout == printed(LOOK)
