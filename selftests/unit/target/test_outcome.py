# SPDX-License-Identifier: MIT
from __future__ import annotations

import gzip
import io
import tarfile
from collections.abc import Mapping
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from selftests.frames import encode

from rtgate.console.frames import FrameReader
from rtgate.errors import ParseError
from rtgate.target.outcome import printable_tail, unpack

NONCE = "F0123abcde"


def reader_of(payload: bytes) -> FrameReader:
    reader = FrameReader(NONCE)
    reader.feed("".join(f"{line}\n" for line in encode(payload, NONCE)).encode())
    return reader


def archive(files: Mapping[str, bytes]) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as made:
        made.addfile(directory("r"))
        for name, data in files.items():
            member = tarfile.TarInfo(f"r/{name}")
            member.size = len(data)
            made.addfile(member, io.BytesIO(data))
    return stream.getvalue()


def directory(name: str) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type = tarfile.DIRTYPE
    return member


FILES = {"tool.out": b"hello\n", "empty": b"", "binary": bytes(range(256)) * 40}


def test_the_files_arrive_by_name() -> None:
    assert unpack(reader_of(archive(FILES))) == FILES


def test_what_is_no_plain_file_is_passed_over() -> None:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as made:
        link = tarfile.TarInfo("r/link")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        made.addfile(link)
    assert unpack(reader_of(stream.getvalue())) == {}


def test_incomplete_frames_are_an_error() -> None:
    reader = FrameReader(NONCE)
    reader.feed("".join(f"{line}\n" for line in encode(archive(FILES), NONCE)[1:]).encode())
    with pytest.raises(ParseError, match="frames of the results are missing or damaged"):
        unpack(reader)


@pytest.mark.parametrize("payload", [b"", b"no archive", gzip.compress(b"no archive", mtime=0), archive(FILES)[:-30]])
def test_what_is_no_archive_is_an_error(payload: bytes) -> None:
    with pytest.raises(ParseError, match="the results are not an archive"):
        unpack(reader_of(payload))


@given(st.data())
def test_a_broken_archive_is_files_or_an_error(data: st.DataObject) -> None:
    """The frames arrived, but what the target put into them is damaged."""
    plain = bytearray(gzip.decompress(archive({"a": b"x" * 600, "b": b"y"})))
    for _ in range(data.draw(st.integers(1, 8))):
        plain[data.draw(st.integers(0, 2600))] = data.draw(st.integers(0, 255))
    size = data.draw(st.sampled_from([len(plain), 2600, 1500, 700, 300]))
    with suppress(ParseError):
        unpack(reader_of(gzip.compress(bytes(plain[:size]))))


@pytest.mark.parametrize(
    ("console", "text"),
    [
        (b"", ""),
        (b"\r\n\r\n \n", ""),
        (b"one\r\ntwo\r\n\r\nthree", "one\ntwo\nthree"),
        (b"\x1b[31mred\x1b[0m\ttab\x07\n", ".[31mred.[0m\ttab."),
        (b"\xff\xfe\n", "\ufffd\ufffd"),
    ],
)
def test_the_last_lines_are_safe_to_print(console: bytes, text: str) -> None:
    assert printable_tail(console) == text


def test_only_the_last_lines_are_kept() -> None:
    console = b"".join(b"%d\n" % number for number in range(100))
    assert printable_tail(console, 3) == "97\n98\n99"
    assert printable_tail(console).count("\n") == 11
