# SPDX-License-Identifier: MIT
from __future__ import annotations

import base64
import json
import lzma
import tempfile
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from selftests.fake_target import FakeTarget, arm
from selftests.lava_records import encode, is_complete

from rtgate.lava.results import frames, records
from rtgate.measure.case import Case
from rtgate.measure.run import Run
from rtgate.records import planned
from rtgate.records import record as records_file
from rtgate.records.record import Place
from rtgate.tools.cyclictest import Cyclictest

CASES = tuple(Case(suite="latency", tool=Cyclictest(), load=load) for load in ("idle", "hackbench"))


def measured(directory: Path, arms: tuple[str, ...] = ("candidate",)) -> Path:
    """Measure two cases on one boot of each arm."""
    made = tuple(arm(FakeTarget(), name, time="real") for name in arms)
    run = Run(arms=made, seeds=(1,), records=directory)
    for case in CASES:
        run.measure(case, lambda _: None)
    return directory


@pytest.fixture(scope="module")
def sent(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return measured(tmp_path_factory.mktemp("sent"))


@pytest.fixture(scope="module")
def lines(sent: Path) -> list[str]:
    return list(encode(sent))


def tree(directory: Path) -> dict[str, bytes]:
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def test_what_was_sent_arrives(sent: Path, lines: list[str], tmp_path: Path) -> None:
    found = records.decode(lines, tmp_path)
    assert (len(found.records), found.damaged, found.missing) == (2, [], [])
    assert tree(sent) == tree(tmp_path)


def test_no_line_is_longer_than_it_may(lines: list[str]) -> None:
    assert max(len(line) for line in lines) < frames.PAYLOAD + 60
    assert all(line.isascii() and line.isprintable() and '"' not in line for line in lines)


def test_a_log_that_repeats_and_mixes_lines_is_read_all_the_same(sent: Path, lines: list[str], tmp_path: Path) -> None:
    mixed = [f"[   12.3] usb 1-1: {line} noise" for line in reversed(lines)] + lines + ["@rtgate1 nothing"]
    assert is_complete(records.decode(mixed, tmp_path))
    assert tree(sent) == tree(tmp_path)


def test_lines_that_were_glued_together_are_read(sent: Path, lines: list[str], tmp_path: Path) -> None:
    assert is_complete(records.decode(["".join(lines)], tmp_path))
    assert tree(sent) == tree(tmp_path)


def unit(lines: list[str], name: str) -> list[int]:
    return [number for number, line in enumerate(lines) if line.split(" ")[2] == name]


def test_a_record_that_lost_a_line_is_refused_and_the_others_stay(lines: list[str], tmp_path: Path) -> None:
    lost = unit(lines, "1")[0]
    found = records.decode([line for number, line in enumerate(lines) if number != lost], tmp_path)
    assert len(found.records) == 1
    assert not is_complete(found)
    assert len(found.damaged) == 1
    assert "1 of " in found.damaged[0]
    assert "latency.cyclictest:hackbench/001" in found.damaged[0]
    # Judging misses it.
    assert missed(tmp_path, "latency/cyclictest:hackbench") == ("1 of 1 boots",)
    assert missed(tmp_path, "latency/cyclictest:idle") == ()


def missed(directory: Path, case: str) -> tuple[str, ...]:
    place = Place(records=directory, board="virt-arm64", arm="candidate", case=case)
    there = [one for one in records_file.read_all(directory) if one.case == case and one.arm == "candidate"]
    # These are records of a board on real time.
    return planned.missing(place, there)


def test_a_truncated_log_says_what_did_not_arrive(lines: list[str], tmp_path: Path) -> None:
    found = records.decode(lines[: unit(lines, "2")[0]], tmp_path)
    assert len(found.records) == 1
    assert not is_complete(found)
    assert any("closing" in sentence for sentence in found.missing)
    assert missed(tmp_path, "latency/cyclictest:idle") == ("1 of 1 boots",)


def test_a_record_that_never_arrived_is_missing_by_the_closing(lines: list[str], tmp_path: Path) -> None:
    found = records.decode([line for line in lines if line.split(" ")[2] != "2"], tmp_path)
    assert found.damaged == []
    assert [sentence for sentence in found.missing if "record 2" in sentence and "idle/001" in sentence]
    assert not is_complete(found)


def test_a_log_without_records_is_not_complete(tmp_path: Path) -> None:
    found = records.decode(["Linux version 6.12", ""], tmp_path)
    assert (found.records, is_complete(found)) == ([], False)
    assert found.missing == ["the log has no records"]


def test_several_boots_come_into_one_directory(sent: Path, tmp_path: Path) -> None:
    log = [*encode(sent), *encode(sent)]
    found = records.decode(log, tmp_path)
    assert (len(found.records), is_complete(found)) == (4, True)
    assert missed(tmp_path, "latency/cyclictest:idle") == ()
    names = sorted(path.name for path in (tmp_path / "virt-arm64/candidate/latency.cyclictest:idle").iterdir())
    assert names == ["001", "002", "planned.json"]


def test_a_second_boot_of_which_only_the_announcement_came_is_missed(sent: Path, tmp_path: Path) -> None:
    records.decode([*encode(sent), *records.Sender(sent).announcement()], tmp_path)
    assert missed(tmp_path, "latency/cyclictest:idle") == ("1 of 2 boots",)


def test_two_frames_that_contradict_each_other_spoil_the_record(lines: list[str], tmp_path: Path) -> None:
    victim = lines[unit(lines, "1")[0]]
    body = victim.split(" ", 1)[1].rpartition(" ")[0]
    other = body[:-1] + ("A" if body[-1] != "A" else "B")
    forged = f"@rtgate1 {other} {zlib.crc32(other.encode()):08x}"
    found = records.decode([forged, *lines], tmp_path)
    assert len(found.records) == 1
    assert "contradict" in found.damaged[0]


def forged(content: bytes, number: str = "1", *, packed: bool = True) -> list[str]:
    """Return a set of one unit that somebody made up."""
    data = lzma.compress(content) if packed else content
    text = base64.b64encode(data).decode()
    parts = [text[start : start + 3000] for start in range(0, len(text), 3000)]
    bodies = [f"0123456789ab {number} {seq}/{len(parts)} {part}" for seq, part in enumerate(parts, 1)]
    return [f"@rtgate1 {body} {zlib.crc32(body.encode()):08x}" for body in bodies]


def unit_of(path: object, files: dict[str, bytes]) -> bytes:
    head = {"path": path, "files": [[name, len(data)] for name, data in files.items()]}
    return json.dumps(head).encode() + b"\n" + b"".join(files.values())


GOOD = "virt-arm64/candidate/latency.cyclictest:idle/001"


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "list of files"),
        (b"{}\n", "list of files"),
        (b"[" * 100_000 + b"\n", "list of files"),
        (unit_of("../../../etc/cron.d/1", {}), " cannot hold "),
        (unit_of("/a/b/c/1", {}), " cannot hold "),
        (unit_of("a/b/../1", {}), " cannot hold "),
        (unit_of(GOOD, {"../../x": b"1"}), "name of a file"),
        (unit_of(GOOD, {"raw/../../x": b"1"}), "name of a file"),
        (unit_of(GOOD, {"raw": b"1"}), "name of a file"),
        (unit_of(GOOD, {"raw/.profile": b"1"}), "name of a file"),
        (unit_of(GOOD, {"record.json": b"{}"}), "record.json"),
        (unit_of(GOOD, {"raw/dmesg": b"x"}), "record.json"),
        (unit_of(GOOD, {"record.json": b"{}"}) + b"more", "does not match"),
        (json.dumps({"path": GOOD, "files": [["a", -3], ["b", 3]]}).encode() + b"\n", "does not match"),
        (b"0" * (frames._LARGEST + 1), "too large"),
    ],
)
def test_what_somebody_made_up_is_refused(content: bytes, says: str, tmp_path: Path) -> None:
    into = tmp_path / "into"
    found = records.decode(forged(content), into)
    assert found.records == []
    assert says in " ".join(found.damaged)
    assert list(tmp_path.rglob("*")) == [into]


def test_a_record_is_written_where_its_content_says(sent: Path, tmp_path: Path) -> None:
    real = (sent / GOOD / "record.json").read_bytes()
    found = records.decode(
        forged(unit_of("virt-arm64/baseline/latency.oslat:idle/001", {"record.json": real})), tmp_path
    )
    assert found.records == []
    assert "its content" in found.damaged[0]


@pytest.mark.parametrize("unit_name", ["a", "z"])
@pytest.mark.parametrize("text", [b"1", b"[]", b"{}", b'{"planned": {"../x/y": {}}, "units": {"1": 5}}', b"\xff"])
def test_an_announcement_that_somebody_made_up_is_refused(unit_name: str, text: bytes, tmp_path: Path) -> None:
    found = records.decode(forged(text, unit_name), tmp_path)
    assert not is_complete(found)
    assert found.damaged
    assert list(tmp_path.iterdir()) == []


def test_bytes_that_are_not_compressed_are_refused(tmp_path: Path) -> None:
    found = records.decode(forged(b"plain text that is not an archive", packed=False), tmp_path)
    assert "decompressed" in found.damaged[0]


DAMAGES: list[Callable[[str], list[str]]] = [
    lambda line: [],
    lambda line: [line[: len(line) // 2], line[len(line) // 2 :]],
    lambda line: [line.replace("A", "B", 1)],
    lambda line: [line, line],
    lambda line: [line[:50], "[ 1.0] noise", line],
]


@given(st.data())
def test_whatever_happens_to_lines_a_record_is_whole_or_refused(
    sent: Path, lines: list[str], data: st.DataObject
) -> None:
    log = list(lines)
    for number in data.draw(st.lists(st.integers(0, len(log) - 1), max_size=6, unique=True)):
        log[number] = "\0".join(data.draw(st.sampled_from(DAMAGES))(log[number]))
    with tempfile.TemporaryDirectory() as name:
        into = Path(name)
        found = records.decode([part for line in log for part in line.split("\0")], into)
        whole = tree(sent)
        for path in found.records:
            mine = {f"{path.relative_to(into)}/{file}": content for file, content in tree(path).items()}
            assert mine.items() <= whole.items()
        assert tree(into) == whole or not is_complete(found)
