# SPDX-License-Identifier: MIT
from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from selftests.fake_target import FakeTarget, arm

from rtgate.errors import ConfigError, InfrastructureError
from rtgate.measure.case import Arm, Case
from rtgate.measure.case_record import measure
from rtgate.records import record as records_file
from rtgate.records.planned import missing
from rtgate.records.record import Chunk, Place
from rtgate.tools.cyclictest import Cyclictest
from rtgate.workflow.soak import spec as orders

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
    reached = replace(begun, boot_id="b", log_seen="[    1.000000] \xff")
    orders.write(reached, tmp_path)
    assert reached == orders.read(tmp_path)
    assert ("72 of 72 boots",) == missing(place(tmp_path), [])
    orders.forget(tmp_path)
    assert not orders.exists(tmp_path)


def test_a_directory_has_one_soak_at_a_time(live: Arm, tmp_path: Path) -> None:
    orders.begin(CASE, live, "tcp:h:1", 2, tmp_path)
    with pytest.raises(ConfigError, match="--continue"):
        orders.begin(CASE, live, "tcp:h:1", 2, tmp_path)


def test_chunks_count_on(live: Arm, tmp_path: Path) -> None:
    first = orders.begin(CASE, live, "tcp:h:1", 2, tmp_path)
    record = replace(measure(CASE, live, 2)[0], chunk=Chunk(soak=first.nonce, number=2))
    records_file.write(record, {}, b"", tmp_path)
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
    damages = ({"format": 2}, {"kernel": 3}, {"more": 1}, {"chunk_s": float("inf")})
    for text in (*(json.dumps({**data, **damage}) for damage in damages), "[" * 100_000):
        path.write_text(text)
        with pytest.raises(ConfigError, match=r"(damaged: |format 2, ).*: remove it and begin a soak anew"):
            orders.read(tmp_path)
    path.write_text("{")
    with pytest.raises(ConfigError, match="damaged"):
        orders.read(tmp_path)


def test_a_directory_that_cannot_be_written_is_the_lab_s_fault(live: Arm, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    order = orders.begin(CASE, live, "tcp:h:1", 2, tmp_path)
    with pytest.raises(InfrastructureError):
        orders.write(order, tmp_path / "file")
