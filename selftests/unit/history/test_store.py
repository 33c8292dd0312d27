# SPDX-License-Identifier: MIT
from __future__ import annotations

import json
import zlib
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from selftests.unit.history.conftest import CASE, NOW, Fill, make_good, origin, record
from sqlalchemy import select

from rtgate.board.boot import State, TimeBase
from rtgate.console.faults import Fault, FaultKind
from rtgate.errors import ConfigError
from rtgate.history import encoding, queries
from rtgate.history.baselines import revocations_of
from rtgate.history.database import History
from rtgate.history.qualifying import standing_of
from rtgate.history.queries import BootFilter
from rtgate.history.schema import boots
from rtgate.history.store import Origin, StoreResult, add, store
from rtgate.judge.compare.summaries import levels, spikes, summaries
from rtgate.records import record as records_file
from rtgate.records.codec import decode
from rtgate.records.environment import COMPARED, Environment
from rtgate.tools.measurement import Better, Histogram, Measurement
from rtgate.units import Quantity, Unit


def test_what_is_stored_comes_back_as_it_was(history: History) -> None:
    made = [record(number, scale=1 + number / 10) for number in (1, 2, 3)]
    assert add(history, made, origin()) == StoreResult(new=3, existing=0)
    found = sorted(queries.find(history, BootFilter()), key=lambda boot: boot.number)
    assert list(queries.records(history, found)) == made


def test_a_record_stored_twice_is_one_row(history: History) -> None:
    add(history, [record(1), record(2)], origin())
    again = [record(2), record(3), record(3)]
    assert add(history, again, origin("another-run")) == StoreResult(new=1, existing=2)
    assert [boot.run for boot in queries.find(history, BootFilter())] == ["night-1", "night-1", "another-run"]


def test_a_record_is_known_again_from_another_directory(url: str, tmp_path: Path) -> None:
    places = [records_file.write(record(1), {"tool.rc": b"0\n"}, b"", tmp_path / name) for name in ("one", "two")]
    assert store(url, [records_file.read(places[0])], origin()).new == 1
    assert store(url, [records_file.read(places[1])], origin()).new == 0


def test_a_record_keeps_its_name_when_rtgate_comes_to_ask_more_of_a_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    one = record(1)
    name, older = encoding.key(one), records_file.as_json(one)
    assert older["kernel"].pop("compiler") == ""
    monkeypatch.setattr(records_file, "as_json", lambda _: older)
    assert encoding.key(one) == name


def test_more_records_than_a_transaction_takes(history: History) -> None:
    one = record(1)
    many = [replace(one, boot_id=f"boot-{number}") for number in range(250)]
    assert add(history, many, origin()) == StoreResult(new=250, existing=0)


def test_the_row_says_what_the_record_was(history: History) -> None:
    add(history, [record(7, device="bench-02")], origin())
    (boot,) = queries.find(history, BootFilter())
    assert (boot.board, boot.device, boot.case) == ("bench", "bench-02", CASE)
    assert (boot.arm, boot.run, boot.number, boot.seed) == ("baseline", "night-1", 7, None)
    assert (boot.stored_at, boot.state, boot.usable) == (NOW.strftime("%Y-%m-%dT%H:%M:%SZ"), "measured", True)
    with history.reading() as connection:
        flavour, minutes = connection.execute(select(boots.c.flavour, boots.c.minutes)).one()
    assert (flavour, minutes) == ("preempt_rt", pytest.approx(2.2 / 60))


def test_an_invalid_boot_is_kept_and_says_why(history: History) -> None:
    bad = record(1, online="")
    add(history, [bad], origin())
    (boot,) = queries.find(history, BootFilter())
    assert not boot.usable
    assert boot.why_invalid == "cpus: which CPUs were online was not read"
    assert not queries.find(history, BootFilter(usable=True))


def test_a_check_that_the_board_declares_away_makes_no_boot_invalid(history: History) -> None:
    not_applicable = {"bench": {"cpus": "one of the CPUs sleeps"}}
    add(history, [record(1, online="")], Origin(run="r", now=NOW, not_applicable=not_applicable))
    assert queries.find(history, BootFilter(usable=True))


def test_a_boot_that_did_not_measure_or_that_faulted_is_not_good(history: History) -> None:
    silent = replace(record(1), state=State.NO_BOOT, message="no shell", measurements=())
    faulty = replace(record(2), faults=(Fault(kind=FaultKind("warning"), line="WARNING: x", text=""),))
    add(history, [silent, faulty], origin())
    found = {boot.number: boot for boot in queries.find(history, BootFilter())}
    assert found[1].why_invalid == "no boot: no shell"
    assert (found[2].valid, found[2].faults, found[2].usable) == (True, 1, False)


@pytest.mark.parametrize("byte", ["\0", "\ud800"])
def test_text_that_a_database_refuses_is_stored_without_it(history: History, byte: str) -> None:
    """What a dying kernel printed last is in the message; a device or a release may be as damaged."""
    dead = replace(
        record(1, device=f"bench{byte}01", kernel_release=f"6.12{byte}", build_id="", image=""),
        state=State.HANG,
        message=f"Kernel pa{byte}ic",
        measurements=(),
    )
    assert add(history, [dead, record(2)], origin()).new == 2
    (boot,) = (boot for boot in queries.find(history, BootFilter()) if not boot.has_results)
    assert boot.why_invalid == "hang: Kernel pa\ufffdic"
    assert (boot.device, boot.kernel_release) == ("bench\ufffd01", "6.12\ufffd")
    assert "never qualified" in standing_of(history, dead).reason
    assert not revocations_of(history, {dead.kernel_id})
    assert queries.records(history, [boot]) == (dead,)


@pytest.mark.parametrize("name", ["boot", "pair"])
@pytest.mark.parametrize("digits", ["9" * 30, "9" * 5000, "\u0663"])
def test_a_number_that_no_boot_has_is_not_stored(history: History, name: str, digits: str) -> None:
    made = record(1)
    made = replace(made, machine={**made.machine, "boot": "", name: digits}, seed=2**31)
    add(history, [made], origin())
    (boot,) = queries.find(history, BootFilter())
    assert (boot.number, boot.seed) == (0, None)


@pytest.mark.parametrize("run", ["", "two words", "x" * 121, "a\nb"])
def test_a_run_needs_a_name(history: History, run: str) -> None:
    with pytest.raises(ConfigError, match="is not a name for a run"):
        add(history, [record(1)], origin(run))


def test_only_boots_that_may_be_compared_are_found(fill: Fill, history: History) -> None:
    fill("night-1", [1.0, 1.0])
    fill("kernel", [1.0], image="b" * 64, irq_affinity="1 0", config_sha256="d" * 64)
    fill("other-board", [1.0], first=11, device="bench-02")
    fill("other-tuning", [1.0], first=12, tuning="isolated")
    fill("other-case", [1.0], first=13, case="latency/cyclictest:hackbench")
    fill("candidate", [1.0], first=14, good=False, arm="candidate", image="e" * 64)
    found = queries.comparable_boots(history, record(99))
    assert [boot.run for boot in found] == ["night-1", "night-1", "kernel"]
    assert [boot.run for boot in queries.comparable_boots(history, record(99), newest=1)] == ["kernel"]


@pytest.mark.parametrize("arm", ["baseline", "candidate"])
def test_boots_of_either_arm_are_used_once_their_kernel_is_promoted(arm: str, history: History) -> None:
    made = record(1, arm=arm)
    add(history, [made], origin())
    assert not queries.comparable_boots(history, record(99))
    make_good(history, [made])
    assert [boot.run for boot in queries.comparable_boots(history, record(99))] == ["night-1"]


def test_another_plan_is_not_comparable() -> None:
    one = record(1)
    longer = replace(one, evidence=replace(one.evidence, expectation=replace(one.evidence.expectation, duration_s=60)))
    assert (
        len({encoding.comparable(made) for made in (one, longer, replace(one, argv=("cyclictest", "-i", "200")))}) == 3
    )


FIELDS = sorted({*Environment().as_mapping()} - {"time"})


@given(
    st.tuples(st.sampled_from(FIELDS), st.text(min_size=1, max_size=8))
    | st.tuples(st.just("time"), st.sampled_from(TimeBase))
)
def test_the_digest_says_what_the_environment_says(said: tuple[str, str]) -> None:
    name, text = said
    one = record(1)
    other = replace(one, environment=decode({**one.environment.as_mapping(), name: text}, Environment))
    may = not one.environment.incomparable(other.environment)
    assert (encoding.comparable(one) == encoding.comparable(other)) == may
    assert (encoding.environment_digest(one) == encoding.environment_digest(other)) == may
    assert may == (name in COMPARED or getattr(one.environment, name) == text)


@given(st.dictionaries(st.integers(0, 10**9), st.integers(0, 10**12), max_size=30), st.integers(0, 10**9))
def test_histograms_keep_every_sample(counts: dict[int, int], overflow: int) -> None:
    histogram = Histogram(unit=Unit.VIRTUAL_NS, counts=counts, overflow=overflow, limit=10**9)
    measurement = Measurement(name="latency", better=Better.LOWER, histogram=histogram, labels={"cpu": "3"})
    packed, _, _ = encoding.pack(replace(record(1), measurements=(measurement,)))
    assert encoding.unpacked_measurements(packed, "here") == (measurement,)


NAMES = [
    "latency.avg",
    "latency.max",
    "latency.p99.9",
    "completion.p95",
    "round.3.duration",
    "period",
    "throughput",
    "x",
]
NUMBERS = st.builds(
    lambda name, better, value, cpu, unit: Measurement(
        name=name, better=better, quantity=Quantity(value, unit), labels={"cpu": cpu}
    ),
    *(st.sampled_from(NAMES), st.sampled_from(Better), st.floats(0.001, 1e6), st.sampled_from("012")),
    st.sampled_from(Unit),
)


@given(st.lists(NUMBERS, max_size=12))
def test_what_is_read_for_summaries_gives_the_same_summaries(numbers: list[Measurement]) -> None:
    whole = replace(record(1), measurements=(*record(1).measurements, *numbers))
    packed, _, _ = encoding.pack(whole)
    read = replace(whole, measurements=encoding.summarised_measurements(packed, "here"))
    fixed = levels([whole])
    assert levels([read]) == fixed
    assert summaries(read, fixed) == summaries(whole, fixed)
    assert spikes(read, fixed) == spikes(whole, fixed)


@given(st.binary(max_size=60))
def test_damaged_rows_are_errors_that_name_the_boot(data: bytes) -> None:
    good, rest, environment = encoding.pack(record(1))
    with pytest.raises(ConfigError, match="boot 5: damaged"):
        encoding.unpack(data, rest, environment, "boot 5")
    with pytest.raises(ConfigError, match="boot 5: damaged"):
        encoding.summarised_measurements(data, "boot 5")
    with pytest.raises(ConfigError, match="boot 5: damaged"):
        encoding.unpack(good, data, environment, "boot 5")


@pytest.mark.parametrize("field", ["unit", "better"])
def test_a_word_that_is_not_known_is_named(field: str) -> None:
    entry = {"name": "latency.avg", "better": "lower", "unit": "us", "value": 1.0, "labels": {}, field: "furlong"}
    packed = zlib.compress(json.dumps([entry]).encode())
    for read in (encoding.unpacked_measurements, encoding.summarised_measurements):
        with pytest.raises(ConfigError, match="boot 5: damaged measurements: 'furlong' is not a valid"):
            read(packed, "boot 5")


def test_contents_are_counted_by_run(fill: Fill, history: History) -> None:
    fill("night-1", [1.0, 1.0, 1.0])
    fill("night-2", [1.0], first=4, online="")
    fill("night-2", [1.0], first=5, image="b" * 64)
    lines = queries.contents(history, BootFilter(board="bench"))
    assert [(line.run, line.boots, line.valid, line.kernels) for line in lines] == [
        ("night-1", 3, 3, 1),
        ("night-2", 2, 1, 2),
    ]
    fill("night-3", [1.0], first=6, image="", kernel_release="6.1")
    fill("night-3", [1.0], first=7, image="", kernel_release="6.2")
    assert [line.kernels for line in queries.contents(history, BootFilter(runs=["night-3"]))] == [2]
    assert not queries.contents(history, BootFilter(board="unknown"))
