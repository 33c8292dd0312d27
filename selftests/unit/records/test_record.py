# SPDX-License-Identifier: MIT
from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import MISSING, asdict, fields, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from selftests.examples import examples
from selftests.unit.report.conftest import OOPS, Boot, make

from rtgate import files
from rtgate.board.boot import ArmName
from rtgate.errors import ConfigError, InfrastructureError
from rtgate.records import planned
from rtgate.records import record as records
from rtgate.records.evidence import Evidence, LoadSample, Thread
from rtgate.records.expectation import CountedFunction, Expectation
from rtgate.records.record import Chunk, Place, Record
from rtgate.target.outcome import State
from rtgate.tools import Bound, Count
from rtgate.tools.measurement import Better, Histogram, Measurement
from rtgate.tools.threads import Threads, ThreadScope
from rtgate.units import Quantity, Unit

SHARED = [HealthCheck.function_scoped_fixture]
FILES = {"tool.rc": b"0\n", "cyclictest.json": b"{}\n", "dmesg": b"\xff[    0.0] Linux\n"}
SMALL = make(Boot(samples=5))
LIVE = make(Boot(seed=None, board="rk3568-evb1", samples=5))
CHUNK = replace(LIVE, chunk=Chunk(soak="S01234567", number=7))


def _same(one: Record) -> Record:
    return replace(one, directory=None, sources={})


@pytest.mark.parametrize(
    "boot",
    [
        Boot(),
        Boot(seed=None, board="rk3568-evb1", cpus=4, overflow=3),
        Boot(state="kernel fault", message="the kernel died: Oops: 1\nlast lines: é\x1b", faults=(OOPS,)),
        Boot(case="latency/cyclictest:hackbench", arm="baseline", high_us=131.4),
    ],
    ids=["virtual", "live", "fault", "load"],
)
def test_a_record_is_read_as_it_was_written(boot: Boot, tmp_path: Path) -> None:
    made = make(boot)
    directory = records.write(made, FILES, b"console\r\n\xff", tmp_path)
    case = boot.case.replace("/", ".")
    assert directory == tmp_path / boot.board / boot.arm / case / "001"
    found = records.read(directory)
    assert _same(found) == _same(made)
    assert found.directory == directory
    assert (directory / "console.log").read_bytes() == b"console\r\n\xff"
    assert {path.name: path.read_bytes() for path in (directory / "raw").iterdir()} == FILES


EVIDENCE = Evidence(
    expectation=Expectation(
        threads=(Threads(count=1, policy=6, priority=0),),
        duration_s=2.5,
        seen=ThreadScope.SYSTEM,
        counts=(Count(measurement="a", least=0.5),),
        bounds=(Bound(measurement="link.lanes", labels={"function": "nvme"}, value=4, source="b.yaml", exact=True),),
        options={"threads": 4},
        counters=(CountedFunction(name="nvme", where="0000:01:00.0"),),
        temperature_limit=85,
    ),
    load="hackbench",
    load_processes=7,
    threads=(Thread(moment="late", name="a) (b", policy=6, priority=0, processor=3),),
    load_seen=(LoadSample(moment="end", processes=0, ticks=9),),
    elapsed_s=2.5,
    settings={"/proc/sys/kernel/printk": ("1\t4", "7\t4"), "/sys/x": ("", "two\nlines: é")},
    readings={"/sys/class/thermal/thermal_zone0/temp": ("45000", "")},
    suspends=("PM: suspend entry (deep)",),
    rcu_nocbs="1-3",
    writes={"/sys/x*": r"\[on\]"},
    processes=("init", "Web Content", "\ufffd"),
    log="late",
    kernel_threads=(Thread(moment="end", name="irq/9-eth0", policy=1, priority=90, processor=0),),
    load_output="stress: FAIL\n",
    load_ended=0,
)


def test_all_evidence_survives_the_file(tmp_path: Path) -> None:
    optional = [one for one in fields(Evidence) if one.default is not MISSING]
    assert optional
    assert all(getattr(EVIDENCE, one.name) != one.default for one in optional)
    made = replace(SMALL, evidence=EVIDENCE)
    assert _same(records.read(records.write(made, {}, b"", tmp_path))) == _same(made)


@pytest.mark.parametrize("state", State)
def test_every_state_can_be_stored(tmp_path: Path, state: State) -> None:
    made = replace(SMALL, state=state, message="because", measurements=())
    assert records.read(records.write(made, {}, b"", tmp_path)).state == state.value


NUMBERS = st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(2**63), 2**63)
TEXT = st.text(st.characters(codec="utf-8"), max_size=8)
HISTOGRAMS = st.builds(
    Histogram,
    unit=st.sampled_from(Unit),
    counts=st.dictionaries(st.integers(0, 2**40), st.integers(0, 2**63), max_size=8),
    overflow=st.integers(0, 2**40),
    limit=st.integers(0, 2**40),
)
QUANTITIES = st.builds(Quantity, NUMBERS.map(float), st.sampled_from(Unit))
LABELS = st.dictionaries(TEXT, TEXT, max_size=2)


def _measurement(name: str, better: Better, labels: Mapping[str, str], value: Quantity | Histogram) -> Measurement:
    if isinstance(value, Quantity):
        return Measurement(name=name, better=better, labels=labels, quantity=value)
    return Measurement(name=name, better=better, labels=labels, histogram=value)


MEASUREMENTS = st.lists(
    st.builds(_measurement, TEXT, st.sampled_from(Better), LABELS, QUANTITIES | HISTOGRAMS), max_size=4
)


@examples(40, suppress_health_check=SHARED)
@given(measurements=MEASUREMENTS, message=TEXT)
def test_any_measurements_survive_the_file(tmp_path: Path, measurements: list[Measurement], message: str) -> None:
    made = replace(SMALL, measurements=tuple(measurements), message=message)
    found = records.read(records.write(made, {}, b"", tmp_path))
    assert _same(found) == _same(made)
    assert records.digest_source(found) == records.digest_source(made)


def test_digests_tell_samples_apart() -> None:
    other = make(Boot(samples=6))
    assert records.digest_source(SMALL) != records.digest_source(other)
    assert records.digest_source(SMALL) == records.digest_source(replace(SMALL, boot_id="x", seconds={"total": 9.0}))


# --- whole or not at all


def _left(directory: Path) -> list[str]:
    return sorted(str(path.relative_to(directory)) for path in directory.rglob("*") if path.is_file())


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError, OSError])
@pytest.mark.parametrize("at", ["write_bytes", "write_text", "rename"])
def test_an_end_in_the_middle_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[BaseException], at: str
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(Path, at, broken)
    with pytest.raises(InfrastructureError if error is OSError else error):
        records.write(SMALL, FILES, b"x", tmp_path)
    monkeypatch.undo()
    assert _left(tmp_path) == []
    assert list(records.read_all(tmp_path)) == []
    case = tmp_path / "virt-arm64" / "candidate" / "latency.cyclictest:idle"
    assert list(case.iterdir()) == []


def test_a_disk_that_cannot_be_written_is_the_lab_s_fault(tmp_path: Path) -> None:
    (tmp_path / "virt-arm64").write_text("a file where a directory should be")
    with pytest.raises(InfrastructureError, match="the record could not be written to "):
        records.write(SMALL, FILES, b"", tmp_path)


def test_what_another_process_is_writing_is_not_read(tmp_path: Path) -> None:
    done = records.write(SMALL, FILES, b"", tmp_path)
    staged = done.with_name(".writing-x")
    staged.mkdir()
    (staged / "record.json").write_text("{")
    assert [one.directory for one in records.read_all(tmp_path)] == [done]


def test_other_users_can_read_a_record(tmp_path: Path) -> None:
    assert records.write(SMALL, FILES, b"", tmp_path).stat().st_mode & 0o777 == 0o755


# --- where it lies


def test_a_seed_is_replaced_whole(tmp_path: Path) -> None:
    first = records.write(replace(SMALL, seed=7), {"old": b""}, b"old", tmp_path)
    second = records.write(replace(SMALL, seed=7, message="new"), {"new": b""}, b"", tmp_path)
    assert first == second == tmp_path / "virt-arm64/candidate/latency.cyclictest:idle/007"
    assert [path.name for path in (second / "raw").iterdir()] == ["new"]
    assert [one.message for one in records.read_all(tmp_path)] == ["new"]


def test_a_seed_that_is_measured_again_is_not_lost_when_its_record_cannot_be_placed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    records.write(replace(SMALL, seed=7, message="old"), {}, b"", tmp_path)
    case, rename = tmp_path / "virt-arm64/candidate/latency.cyclictest:idle", Path.rename

    def full(path: Path, target: Path) -> Path:
        if path.name == ".record":
            raise OSError(28, "No space left on device")
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", full)
    with pytest.raises(InfrastructureError):
        records.write(replace(SMALL, seed=7, message="new"), {}, b"", tmp_path)
    monkeypatch.undo()
    assert [path.name for path in case.iterdir()] == ["007"]
    assert [one.message for one in records.read_all(tmp_path)] == ["old"]
    # What a killed process leaves is tidied by the next one.
    monkeypatch.setattr(shutil, "rmtree", lambda *_, **__: None)
    records.write(replace(SMALL, seed=7, message="new"), {}, b"", tmp_path)
    assert len(list(case.glob(".writing-*"))) == 1
    monkeypatch.undo()
    records.write(replace(SMALL, seed=8), {}, b"", tmp_path)
    assert sorted(path.name for path in case.iterdir()) == ["007", "008"]


def test_live_boots_are_numbered(tmp_path: Path) -> None:
    made = [records.write(replace(LIVE, boot_id=f"{number}"), {}, b"", tmp_path).name for number in range(3)]
    assert made == ["001", "002", "003"]
    assert [one.boot_id for one in records.read_all(tmp_path)] == ["0", "1", "2"]


def test_a_chunk_lies_below_its_number_and_is_replaced_whole(tmp_path: Path) -> None:
    assert records.write(LIVE, FILES, b"", tmp_path).name == "001"
    dead = records.write(replace(CHUNK, state=State.HANG), {}, b"", tmp_path)
    directory = records.write(CHUNK, FILES, b"", tmp_path)
    assert dead == directory
    assert directory.name == "007"
    assert _same(records.read(directory)) == _same(CHUNK)
    assert (1, 7) == planned.measured_numbers(_place(tmp_path, CHUNK))


@pytest.mark.parametrize("chunk", ["S01234567", 7, {"soak": "S01234567"}, {"soak": "S01234567", "number": 7, "of": 9}])
def test_a_damaged_chunk_is_refused(tmp_path: Path, chunk: object) -> None:
    directory, data = _stored(tmp_path)
    (directory / "record.json").write_text(json.dumps({**data, "chunk": chunk}))
    with pytest.raises(ConfigError, match="damaged record"):
        records.read(directory)


def test_boots_that_a_person_ended_are_not_missing(tmp_path: Path) -> None:
    place = _place(tmp_path, LIVE)
    planned.plan(place, range(5), virtual=False)
    planned.unplan(place, 3)
    assert ("2 of 2 boots",) == planned.missing(place, [])
    planned.unplan(place, 9)
    assert () == planned.missing(place, [])


def test_arms_boards_and_cases_lie_apart_and_are_read_in_order(tmp_path: Path) -> None:
    for arm in ("candidate", "baseline"):
        for load in ("idle", "hackbench"):
            for seed in (12, 2):
                made = replace(SMALL, arm=ArmName(arm), case=f"latency/cyclictest:{load}", seed=seed)
                records.write(made, {}, b"", tmp_path)
    found = [(one.arm, one.case.partition(":")[2], one.seed) for one in records.read_all(tmp_path)]
    assert found == [
        (arm, load, seed) for arm in ("baseline", "candidate") for load in ("hackbench", "idle") for seed in (2, 12)
    ]


def test_raw_files_stay_in_their_directory(tmp_path: Path) -> None:
    directory = records.write(SMALL, {"../../escaped": b"x", "/etc/absolute": b"y"}, b"", tmp_path)
    assert sorted(path.name for path in (directory / "raw").iterdir()) == ["absolute", "escaped"]


# --- planned


def _place(tmp_path: Path, one: Record) -> Place:
    return Place(records=tmp_path, board=one.board, arm=one.arm, case=one.case)


def test_a_planned_boot_without_a_record_is_missing(tmp_path: Path) -> None:
    place = _place(tmp_path, SMALL)
    assert planned.missing(place, []) == ()
    planned.plan(place, (1, 2, 10), virtual=True)
    assert planned.missing(place, []) == ("seed 1", "seed 2", "seed 10")
    first = replace(SMALL, seed=1)
    records.write(first, {}, b"", tmp_path)
    planned.plan(place, (2, 3), virtual=True)  # more boots do not make up for one that left no record
    assert planned.missing(place, [first, replace(SMALL, seed=3)]) == ("seed 2", "seed 10")


def test_boots_of_real_time_are_only_counted(tmp_path: Path) -> None:
    place = _place(tmp_path, LIVE)
    planned.plan(place, (1, 2, 3), virtual=False)
    for _ in range(2):
        records.write(LIVE, {}, b"", tmp_path)  # and the third was interrupted
    planned.plan(place, (1,), virtual=False)
    assert planned.missing(place, [LIVE, LIVE]) == ("1 of 3 boots",)
    assert planned.missing(place, [LIVE] * 3) == ()
    assert planned.missing(place, [LIVE] * 4) == ()
    assert planned.missing(place, [SMALL] * 3) == ("3 of 3 boots",)


def test_what_is_planned_lies_beside_the_boots_and_is_no_record(tmp_path: Path) -> None:
    place = _place(tmp_path, SMALL)
    planned.plan(place, (7,), virtual=True)
    directory = records.write(replace(SMALL, seed=7), {}, b"", tmp_path)
    assert directory.parent == place.directory
    assert sorted(path.name for path in place.directory.iterdir()) == ["007", "planned.json"]
    assert len(list(records.read_all(tmp_path))) == 1


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b"{}", b'{"seeds": [1]}', b'{"seeds": 3, "boots": 0}', b"\xff"])
def test_a_damaged_plan_is_refused(tmp_path: Path, text: bytes) -> None:
    place = _place(tmp_path, SMALL)
    place.directory.mkdir(parents=True)
    (place.directory / "planned.json").write_bytes(text)
    with pytest.raises(ConfigError, match=r"planned\.json: damaged: "):
        planned.missing(place, [])


def test_a_plan_that_cannot_be_written_is_the_lab_s_fault(tmp_path: Path) -> None:
    (tmp_path / "virt-arm64").write_text("a file where a directory should be")
    with pytest.raises(InfrastructureError, match="cannot be written"):
        planned.plan(_place(tmp_path, SMALL), (1,), virtual=True)


# --- damaged


def _stored(tmp_path: Path) -> tuple[Path, dict[str, Any]]:
    directory = records.write(make(Boot(samples=5, faults=(OOPS,))), FILES, b"", tmp_path)
    return directory, json.loads((directory / "record.json").read_text())


@pytest.mark.parametrize("number", [3, 2, 0, "1", None, 1.5])
def test_another_format_is_refused(tmp_path: Path, number: object) -> None:
    directory, data = _stored(tmp_path)
    assert data["format"] == 1
    (directory / "record.json").write_text(json.dumps({**data, "format": number}))
    with pytest.raises(ConfigError, match=rf"001/record\.json: record format {number}, this rtgate reads 1"):
        records.read(directory)


@pytest.mark.parametrize(
    "text", [b"", b"{", b"[]", b"3", b"null", b"\xff\xfe", b'{"format": 1}', b'{"format": 3}', b"[" * 100_000]
)
def test_what_is_no_record_is_refused(tmp_path: Path, text: bytes) -> None:
    (tmp_path / "record.json").write_bytes(text)
    with pytest.raises(ConfigError, match=r"record\.json: "):
        records.read(tmp_path)


def test_a_missing_record_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        records.read(tmp_path)


@pytest.mark.parametrize("key", sorted(json.loads(json.dumps(records.as_json(SMALL)))))
def test_a_record_without_one_of_its_keys_is_refused(tmp_path: Path, key: str) -> None:
    directory, data = _stored(tmp_path)
    del data[key]
    (directory / "record.json").write_text(json.dumps(data))
    with pytest.raises(ConfigError):
        records.read(directory)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("measurements", 0, "unit"), "furlong"),
        (("measurements", 0, "better"), "green"),
        (("measurements", 1, "value"), "many"),
        (("measurements", 1, "value"), 10**400),
        (("measurements", 0, "histogram", "counts"), {"a": 1}),
        (("measurements", 0, "histogram", "counts"), [1]),
        (("measurements", 0, "histogram", "overflow"), None),
        (("measurements", 0, "histogram"), 3),
        (("faults", 0), {"kind": "oops"}),
        (("kernel",), {"name": "x"}),
        (("evidence", "threads"), 3),
        (("evidence", "threads"), [{"moment": "middle"}]),
        (("evidence", "expectation", "threads"), [{"count": True, "policy": 1, "priority": 99}]),
        (("evidence", "expectation", "duration_s"), None),
        (("evidence", "threads", 0, "priority"), "99"),
        (("evidence", "settings"), 3),
        (("evidence", "settings"), {"/proc/sys/kernel/printk": "1"}),
        (("evidence", "settings"), {"/proc/sys/kernel/printk": ["1"]}),
        (("evidence", "settings"), {"/proc/sys/kernel/printk": ["1", "2", "3"]}),
        (("evidence", "processes"), 3),
        (("evidence", "kernel_threads"), 3),
        (("environment",), 3),
        (("environment", "board"), 3),
        (("measurements", 0, "histogram", "overflow"), -1),
        (("measurements", 0, "histogram", "counts"), {"1": -1}),
        (("measurements", 1, "value"), "nan"),
        (("measurements", 1, "value"), float("nan")),
        (("measurements", 1, "value"), float("inf")),
        (("measurements", 1, "labels"), []),
        (("measurements", 1, "labels"), {"cpu": ["0"]}),
        (("measurements", 1, "labels"), {"cpu": 0}),
        (("environment", "instruction_ns"), "8 ns"),
        (("environment", "instruction_ns"), "0"),
        (("environment", "instruction_ns"), "nan"),
        (("evidence", "writes"), {"/proc/sys/kernel/printk": "("}),
        (("evidence", "expectation", "firmware"), {"BL31": "v2.(3"}),
        (("seconds",), {"boot": float("nan")}),
        (("evidence", "expectation"), []),
        (("evidence", "expectation", "bounds"), 3),
        (("evidence", "expectation", "bounds"), [3]),
        (("evidence", "expectation", "bounds"), [{"measurement": "link.lanes", "labels": {}, "value": 4}]),
        (("evidence", "expectation", "bounds"), [{"measurement": 1, "labels": {}, "value": 4, "source": "b.yaml"}]),
        (
            ("evidence", "expectation", "bounds"),
            [{"measurement": "a", "labels": {"x": 1}, "value": 4, "source": "b.yaml"}],
        ),
        (("evidence", "expectation", "bounds"), [{"measurement": "a", "labels": {}, "value": "4", "source": "b.yaml"}]),
        (("case",), 3),
        (("state",), "crashed"),
        (("arm",), "other"),
        (("environment", "time"), "later"),
        (("seed",), "1"),
    ],
)
def test_damage_anywhere_is_refused(tmp_path: Path, path: tuple[str | int, ...], value: object) -> None:
    directory, data = _stored(tmp_path)
    place: Any = data
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    (directory / "record.json").write_text(json.dumps(data))
    with pytest.raises(ConfigError, match="damaged record"):
        records.read(directory)


def test_bounds_come_back_as_what_they_were_and_stay_readable(tmp_path: Path) -> None:
    bound = Bound(measurement="link.lanes", labels={"function": "nvme"}, value=4, source="b.yaml: lanes", exact=True)
    expectation = replace(SMALL.evidence.expectation, bounds=(bound,))
    made = replace(SMALL, evidence=replace(SMALL.evidence, expectation=expectation))
    directory = records.write(made, {}, b"", tmp_path)
    assert records.read(directory).evidence.expectation.bounds == (bound,)
    assert json.loads((directory / "record.json").read_text())["evidence"]["expectation"]["bounds"] == [asdict(bound)]
    assert SMALL.evidence.expectation.bounds == ()


def test_a_record_of_a_boot_whose_log_nobody_read_says_nothing_of_suspends(tmp_path: Path) -> None:
    directory, data = _stored(tmp_path)
    data["evidence"]["suspends"] = None
    (directory / "record.json").write_text(json.dumps(data))
    assert records.read(directory).evidence.suspends is None


@pytest.mark.parametrize("key", sorted(records.as_json(SMALL)["evidence"]))
def test_evidence_without_one_of_its_keys_is_refused(tmp_path: Path, key: str) -> None:
    directory, data = _stored(tmp_path)
    del data["evidence"][key]
    (directory / "record.json").write_text(json.dumps(data))
    with pytest.raises(ConfigError, match="damaged record"):
        records.read(directory)


@examples(40, suppress_health_check=SHARED)
@given(start=st.integers(0, 4000), length=st.integers(0, 200), new=st.binary(max_size=4))
def test_a_damaged_file_is_read_or_refused(tmp_path: Path, start: int, length: int, new: bytes) -> None:
    text = json.dumps(records.as_json(SMALL)).encode()
    (tmp_path / "record.json").write_bytes(text[:start] + new + text[start + length :])
    with contextlib.suppress(ConfigError):
        assert isinstance(records.read(tmp_path), Record)


# --- room


def test_room_for_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files.require_free_space(tmp_path / "not" / "there" / "yet")
    monkeypatch.setattr(os, "statvfs", lambda _: SimpleNamespace(f_bavail=63 * 256, f_frsize=4096))
    with pytest.raises(InfrastructureError, match="has 63 MiB left, records need 64 MiB"):
        files.require_free_space(tmp_path / "not" / "there" / "yet")
    files.require_free_space(tmp_path, needed_mib=63)


def test_how_people_name_a_boot() -> None:
    assert SMALL.boot == "seed 1"
    assert LIVE.boot == "boot 3f0e5d0a"
    assert replace(LIVE, boot_id="").boot == "boot unknown"
    assert CHUNK.boot == "chunk 7"
    assert SMALL.virtual_time
    assert not LIVE.virtual_time
