# SPDX-License-Identifier: MIT
"""The readers of hostile text: each with inputs to begin with, and with what must be true whatever it reads.

A target takes any bytes. It passes over the error that its reader documents; everything else that it raises is a
finding.
"""

from __future__ import annotations

import base64
import contextlib
import json
import math
import re
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from selftests.frames import encode
from selftests.unit.report.conftest import OOPS, Boot, make
from selftests.unit.tools.test_dmatest import ALL as DMATEST
from selftests.unit.tools.test_endpoint_test import ALL as ENDPOINTS
from selftests.unit.tools.test_interrupt_rate import ALL as INTERRUPTS
from selftests.unit.tools.test_xenomai import ALL as XENOMAI

from rtgate.board import boards
from rtgate.board.storage import FileSystem, Overwrite, Storage
from rtgate.console import faults
from rtgate.console.frames import FrameReader
from rtgate.errors import ConfigError, ParseError
from rtgate.files import cksum
from rtgate.judge.thresholds import load_thresholds
from rtgate.lava.job import template
from rtgate.lava.results import boot_log
from rtgate.lava.results import frames as job_frames
from rtgate.lava.results import records as job_records
from rtgate.lava.results.log import LogLine
from rtgate.lava.results.phases import boots
from rtgate.measure import profiles
from rtgate.records import record
from rtgate.strict_yaml import Value, load
from rtgate.tools import Output, Reports, Setting, Tool
from rtgate.tools.irq_instrument import RAW
from rtgate.tools.measurement import Histogram, Measurement
from rtgate.tools.registry import TOOLS
from rtgate.validity.registry import checks
from rtgate.workflow.limit_profiles import LimitProfiles

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "selftests" / "data"
NONCE = "F0000000000"


@dataclass(frozen=True, slots=True)
class Target:
    """A reader.

    Attributes:
        read: reads the bytes; it may write below the directory. What it raises is a finding.
        seeds: inputs to begin with.
    """

    read: Callable[[bytes, Path], None]
    seeds: tuple[bytes, ...]


def _bytes(paths: Iterable[Path]) -> tuple[bytes, ...]:
    return tuple(path.read_bytes() for path in sorted(paths))


# --- the serial line


def _frames(data: bytes, _: Path) -> None:
    """Read frames. The first byte is how many bytes arrive at once; ` ~` ends a line that gets its right checksum."""
    size = data[0] + 1 if data else 1
    sent = re.sub(rb"(?m)^(.*) ~$", lambda line: _with_checksum(line[1]), data[1:])
    reader, whole = FrameReader(NONCE), FrameReader(NONCE)
    for start in range(0, len(sent), size):
        reader.feed(sent[start : start + size])
    whole.feed(sent)
    for one in (reader, whole):
        one.finish()
    assert (reader.complete, reader.missing, reader.damaged) == (whole.complete, whole.missing, whole.damaged)
    try:
        payload = reader.payload()
    except ParseError:
        return
    lines = [frame.encode("latin-1") for _, frame in sorted(reader._frames.items())][: reader._end[0]]  # type: ignore[index]
    for line in lines:
        assert line in sent.replace(b"\r", b"\n")
        assert line == _with_checksum(line.rpartition(b" ")[0])
    assert reader._end == (len(lines), cksum(b"".join(line + b"\n" for line in lines)))
    assert payload == base64.b64decode(b"".join(line.split(b" ")[2] for line in lines))


def _with_checksum(head: bytes) -> bytes:
    return b"%b %d" % (head, cksum(head + b"\n"))


def _sent_frames(size: int) -> bytes:
    lines = encode(bytes(number % 251 for number in range(size)), NONCE)
    return "".join(f"{line}\r\n" for line in lines).encode("ascii")


def _faults(data: bytes, _: Path) -> None:
    log = data.decode("utf-8", errors="replace")
    text = re.sub(r"\r+\n|\n\r+|\r+", "\n", log)
    place = 0
    for fault in faults.scan(log):
        place = text.index(fault.text, place) + len(fault.text)
        assert fault.line in fault.text.split("\n")[0]
    for line in (faults.banner(log), faults.orderly_end(log)):
        assert line in text
        assert "\n" not in line


# --- tools

_WRITTEN: tuple[tuple[Tool, str], ...] = (*XENOMAI, *DMATEST, *INTERRUPTS, *ENDPOINTS)
_LATENCIES = (DATA / "preemptirq" / "linux-6.12" / "cyclictest-virt-arm64-idle.json").read_bytes()
_FILL = (DATA / "fio" / "3.39" / "fio-read-fill.json").read_bytes()
_STORAGE = Storage(
    serial="S6", model="", overwrite=Overwrite.DISK, name="", file_system=FileSystem.EXT4, size_mib=16
)  # fmt: skip


def _tool(tool: Tool, data: bytes, _: Path) -> None:
    """Read an output: a byte for the circumstances; then output, error, and JSON, log or lines, zeros between."""
    how, (out, err, written) = data[0] if data else 0, [*data[1:].split(b"\0", 2), b"", b""][:3]
    files = {
        "tool.out": out,
        "tool.err": err,
        "cyclictest.json": _LATENCIES,
        f"{tool.name}.json": written,
        "sections.json": written,
        "fio.json": written,
        "fill.json": _FILL,
        "dmesg": written,
        RAW: written,
    }
    if how & 32:
        files["tool.deadline"] = b"after 60 s\n"
    setting = Setting(
        virtual_time=bool(how & 1),
        cpus=1 + (how >> 1 & 1),
        duration_s=(1, 2, 5, 10)[how >> 2 & 3],
        pcie=boards.board("virt-arm64").pcie,
        storage=_STORAGE,
    )
    with contextlib.suppress(ParseError):
        _sound(tool, tool.parse(Output(files=files, exit_code=how >> 4 & 1, setting=setting)))


def _sound(tool: Tool, found: tuple[Measurement, ...]) -> None:
    """Check that measurements are those that the tool declares, finite, and agree with each other."""
    by_labels: dict[tuple[tuple[str, str], ...], dict[str, Measurement]] = {}
    assert found
    for one in found:
        group = by_labels.setdefault(tuple(sorted(one.labels.items())), {})
        assert group.setdefault(one.name, one) is one, f"{one.name} stands twice"
        assert (tool.reports[one.name] is Reports.TIMES) == (one.histogram is not None)
        _finite(one)
    for group in by_labels.values():
        numbers = {name: one.quantity.value for name, one in group.items() if one.quantity is not None}
        for name in {name.removesuffix(".max") for name in numbers if name.endswith(".max")}:
            rising = [numbers[f"{name}.{part}"] for part in ("min", "avg", "max") if f"{name}.{part}" in numbers]
            assert rising == sorted(rising)
        for name, one in group.items():
            if one.histogram is not None:
                _agrees(one.histogram, numbers, name)


def _finite(one: Measurement) -> None:
    assert one.quantity is None or math.isfinite(one.quantity.value)
    if one.histogram is not None:
        counts = one.histogram.counts
        assert one.histogram.overflow >= 0
        assert all(count >= 0 for count in counts.values())
        assert all(value < one.histogram.limit for value, count in counts.items() if count)


def _agrees(histogram: Histogram, numbers: dict[str, float], name: str) -> None:
    totals = [numbers[count] for count in ("wakeups", "samples", "loops") if count in numbers]
    assert all(abs(histogram.total - total) <= 1 for total in totals)  # cyclicdeadline's set-up is not a wake-up
    filled = [value for value, count in histogram.counts.items() if count]
    if filled and f"{name}.max" in numbers:
        # Xenomai's latency counts its samples by their size, whatever their sign.
        high = max(numbers[f"{name}.max"], -numbers[f"{name}.min"])
        assert max(filled) <= high, f"the maximum {high} is below a sample of {max(filled)}"


def _outputs(tool: str) -> tuple[bytes, ...]:
    """Return known outputs of a tool, what one run left together, in all circumstances that may fit."""
    made = [text.encode() for one, text in _WRITTEN if one.name == tool]
    short = tool.removeprefix("rtla-")
    stems = {path.with_suffix("") for path in DATA.glob(f"*/*/{short}*") if re.match(rf"{short}[-.]", path.name)}
    runs = made + [
        b"\0".join(_or_empty(stem, suffixes) for suffixes in ((".out", ".txt"), (".err",), (".json", ".lines")))
        for stem in sorted(stems)
    ]
    return tuple(bytes([how]) + run for run in runs for how in range(16))


def _or_empty(stem: Path, suffixes: tuple[str, ...]) -> bytes:
    return next((path.read_bytes() for suffix in suffixes if (path := Path(f"{stem}{suffix}")).exists()), b"")


# --- files


def _file(read: Callable[[Path], object], name: str, data: bytes, directory: Path) -> None:
    path = directory / name
    path.write_bytes(data)
    with contextlib.suppress(ConfigError):
        read(path)


def _yaml(path: Path) -> None:
    """Read a file as everything that it might be."""
    values = [load(path)]
    while values:
        value = values.pop()
        with contextlib.suppress(ConfigError):
            values += value.items()
        with contextlib.suppress(ConfigError):
            values += [part for entry in value.entries().values() for part in (entry.key, entry.value)]
        for read in (Value.text, Value.word, Value.flag, Value.integer, partial(Value.integer, minimum=1, maximum=9)):
            with contextlib.suppress(ConfigError):
                read(value)
        with contextlib.suppress(ConfigError):
            assert math.isfinite(value.number())


def _record(path: Path) -> None:
    found = record.read(path.parent)
    for one in found.measurements:
        _finite(one)
    again = record._decode(json.loads(json.dumps(record.as_json(found))), path.parent)
    assert again == found, "what is written again is another record"
    if found.has_results:
        checks(found, {})


# --- a job's log


def _unit(data: bytes, directory: Path) -> None:
    """Decode a log with one unit, whole in all its frames; the first byte is which one."""
    name = "abz1"[data[0] % 4] if data else "1"
    _log("\n".join(job_frames.frames("0123456789ab", name, data[1:])).encode(), directory)


def _log(data: bytes, directory: Path) -> None:
    """Decode a log; whatever it says, nothing is written elsewhere, and what is written can be read."""
    lines = data.decode("latin-1").split("\n")
    with tempfile.TemporaryDirectory(dir=directory) as name:
        inside = Path(name) / "inside"
        found = job_records.decode(lines, inside)
        assert [path.name for path in Path(name).iterdir()] == ["inside"]
        assert len(list(record.read_all(inside))) == len(found.records)
    log = (LogLine(number, "", "info" if number % 3 else "target", line, "") for number, line in enumerate(lines))
    for boot in boots(log):
        assert all(word.isprintable() for word in boot_log.parse_boot_log(boot).firmware)


_UNITS = tuple(
    bytes([number])
    + json.dumps({"path": "a/b/c/1", "files": [["record.json", 2]], "planned": {"a/b/c": {}}, "units": {}}).encode()
    + b"\n{}"
    for number in range(4)
)
_LOGS = (
    "\n".join(job_frames.frames("0123456789ab", "1", _UNITS[3])).encode(),
    b"start: 2 uboot-action (timeout 1)\nU-Boot 2023.01\nLinux version 6.12\nstart: 3 lava-test-retry (timeout 1)",
)

_RECORDS = tuple(
    json.dumps(record.as_json(make(boot))).encode()
    for boot in (Boot(samples=5), Boot(seed=None, board="rk3568-evb1", samples=5, overflow=3, faults=(OOPS,)))
)
_BOARDS = _bytes((ROOT / "boards").glob("*.yaml"))
_PROFILES = _bytes([ROOT / "profiles.yaml"])
_THRESHOLDS = _bytes([ROOT / "thresholds.yaml"])
_VIRTUAL = {path.stem: True for path in (ROOT / "boards").glob("*.yaml")}

TARGETS = {
    "frames": Target(
        _frames,
        tuple(
            bytes([size]) + sent
            for size in (0, 63, 255)
            for sent in (
                _sent_frames(0),
                _sent_frames(20),
                _sent_frames(700),
                f"{NONCE} 1 QUJD ~\n{NONCE} end 1 1 ~\n".encode(),
            )
        ),
    ),
    "faults": Target(_faults, _bytes((DATA / "console").glob("*.log"))),
    "yaml": Target(partial(_file, _yaml, "any.yaml"), (*_BOARDS, *_PROFILES, *_THRESHOLDS)),
    "boards": Target(partial(_file, boards.read, "board.yaml"), _BOARDS),
    "job templates": Target(partial(_file, template.read, "way.yaml"), _bytes((ROOT / "lava-jobs").glob("*.yaml"))),
    "profiles": Target(partial(_file, profiles.read, "profiles.yaml"), _PROFILES),
    "thresholds": Target(
        partial(_file, lambda path: load_thresholds([path], _VIRTUAL, LimitProfiles().case), "thresholds.yaml"),
        _THRESHOLDS,
    ),
    "log": Target(_log, _LOGS),
    "log unit": Target(_unit, _UNITS),
    "record": Target(partial(_file, _record, "record.json"), _RECORDS),
    **{name: Target(partial(_tool, tool()), _outputs(name)) for name, tool in TOOLS.items()},
}
