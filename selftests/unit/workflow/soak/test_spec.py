# SPDX-License-Identifier: MIT
from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from selftests.fake_target import FakeTarget, arm, measured

from rtgate.errors import ConfigError, InfrastructureError
from rtgate.measure.case import Arm, Case
from rtgate.records.planned import missing
from rtgate.records.record import Place
from rtgate.target.outcome import Outcome, State
from rtgate.tools.cyclictest import Cyclictest
from rtgate.workflow.soak import spec as orders
from rtgate.workflow.soak.chunks import Chunks

CASE = Case(suite="latency", tool=Cyclictest(), load="idle")


@pytest.fixture
def live() -> Arm:
    return arm(FakeTarget(), time="real")


def place(records: Path) -> Place:
    return Place(records=records, board="virt-arm64", arm="candidate", case=CASE.name)


def test_a_soak_is_read_as_it_was_begun(live: Arm, tmp_path: Path) -> None:
    begun = orders.begin(CASE, live, "tcp:h:1", 72, tmp_path)
    assert (1, 72, 72, 2.0) == (begun.first, begun.last, begun.chunks, begun.chunk_s)
    assert begun == orders.read(tmp_path)
    assert orders.exists(tmp_path)
    reached = replace(begun, boot_id="b")
    orders.write(reached, tmp_path)
    assert reached == orders.read(tmp_path)
    assert ("72 of 72 boots",) == missing(place(tmp_path), [])
    orders.forget(tmp_path)
    assert not orders.exists(tmp_path)


def test_a_directory_has_one_soak_at_a_time(live: Arm, tmp_path: Path) -> None:
    orders.begin(CASE, live, "tcp:h:1", 2, tmp_path)
    with pytest.raises(ConfigError, match="--continue"):
        orders.begin(CASE, live, "tcp:h:1", 2, tmp_path)


def test_a_board_that_died_with_its_worker_is_in_nobody_s_way(live: Arm, tmp_path: Path) -> None:
    assert not orders.begin(CASE, live, "host", 2, tmp_path).detached
    orders.begin(CASE, live, "host", 2, tmp_path)


def test_chunks_count_on(live: Arm, tmp_path: Path) -> None:
    first = orders.begin(CASE, live, "tcp:h:1", 2, tmp_path)
    chunks = Chunks(order=first, case=CASE, arm=live, records=tmp_path)
    chunks.add(2, measured(), b"", {})
    orders.forget(tmp_path)
    later = orders.begin(CASE, live, "tcp:h:1", 2, tmp_path)
    assert (3, 4) == (later.first, later.last)
    assert later.nonce != first.nonce


def test_no_soak_and_a_damaged_one_are_refused(live: Arm, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no soak under way"):
        orders.read(tmp_path)
    orders.begin(CASE, live, "tcp:h:1", 2, tmp_path)
    path = tmp_path / "soak.json"
    data = json.loads(path.read_text())
    for damage in ({"format": 2}, {"kernel": 3}, {"more": 1}):
        path.write_text(json.dumps({**data, **damage}))
        with pytest.raises(ConfigError, match=r"damaged|format"):
            orders.read(tmp_path)
    path.write_text("{")
    with pytest.raises(ConfigError, match="damaged"):
        orders.read(tmp_path)


def test_a_directory_that_cannot_be_written_is_the_lab_s_fault(live: Arm, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    order = orders.begin(CASE, live, "tcp:h:1", 2, tmp_path)
    with pytest.raises(InfrastructureError):
        orders.write(order, tmp_path / "file")


def test_a_chunk_that_was_fetched_is_not_missing(live: Arm, tmp_path: Path) -> None:
    order = orders.begin(CASE, live, "tcp:h:1", 3, tmp_path)
    chunks = Chunks(order=order, case=CASE, arm=live, records=tmp_path)
    record = chunks.add(1, measured(), b"said", {"console": "c"})
    assert ("chunk 1", None) == (record.boot, record.seed)
    assert {"console": "c", "soak": order.nonce} == record.machine
    dead = Outcome(state=State.HANG, message="silent")
    chunks.add(2, dead, b"", {})
    # Another worker sees the same; what seemed to hang may still be fetched.
    again = Chunks(order=order, case=CASE, arm=live, records=tmp_path)
    assert [2, 3] == again.missing()
    again.add(2, measured(), b"", {})
    assert [3] == again.missing()
    again.give_up()
    assert not orders.exists(tmp_path)
    records = [record, replace(record)]
    assert () == missing(place(tmp_path), records)


def test_a_fault_on_the_console_belongs_to_the_chunk(live: Arm, tmp_path: Path) -> None:
    order = orders.begin(CASE, live, "tcp:h:1", 1, tmp_path)
    chunks = Chunks(order=order, case=CASE, arm=live, records=tmp_path)
    record = chunks.add(1, measured(), b"[   13.0] Kernel panic - not syncing: x\r\n", {})
    assert ["panic"] == [fault.kind for fault in record.faults]
