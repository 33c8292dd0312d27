# SPDX-License-Identifier: MIT
from __future__ import annotations

import gzip
import shutil
import stat
import subprocess
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from selftests.cpio_reader import unpack

from rtgate.rootfs import cpio

_PARTS = st.text(
    alphabet=st.characters(blacklist_characters="/\0", blacklist_categories=["Cs"]), min_size=1, max_size=12
).filter(lambda part: part not in {".", "..", "TRAILER!!!"})
_CONTENTS = st.dictionaries(_PARTS, st.tuples(st.binary(max_size=50), st.integers(0, 0o7777)), max_size=8)


def _archive() -> bytes:
    return cpio.pack(
        [
            cpio.file("usr/bin/program", b"#!/bin/sh\n", 0o755),
            cpio.symlink("bin", "usr/bin"),
            cpio.character_device("dev/console", 5, 1),
            cpio.directory("tmp", 0o1777),
            cpio.file("a", b""),
        ]
    )


@pytest.mark.skipif(shutil.which("cpio") is None, reason="the program cpio is not installed")
def test_the_program_cpio_reads_it() -> None:
    done = subprocess.run(
        ["cpio", "-itv", "--numeric-uid-gid"],
        input=_archive(),
        capture_output=True,
        check=True,
        env={"TZ": "UTC", "LC_ALL": "C", "PATH": "/usr/bin:/bin"},
    )
    rows = [line.split() for line in done.stdout.decode().splitlines()]
    assert [(row[0], row[2:4], row[-1]) for row in rows] == [
        ("-rw-r--r--", ["0", "0"], "a"),
        ("lrwxrwxrwx", ["0", "0"], "usr/bin"),
        ("drwxr-xr-x", ["0", "0"], "dev"),
        ("crw-------", ["0", "0"], "dev/console"),
        ("drwxrwxrwt", ["0", "0"], "tmp"),
        ("drwxr-xr-x", ["0", "0"], "usr"),
        ("drwxr-xr-x", ["0", "0"], "usr/bin"),
        ("-rwxr-xr-x", ["0", "0"], "usr/bin/program"),
    ]
    assert "5,   1" in done.stdout.decode()
    assert all("Jan  1  1970" in line for line in done.stdout.decode().splitlines())


@given(_CONTENTS)
def test_what_was_packed_is_read_back(contents: dict[str, tuple[bytes, int]]) -> None:
    entries = [cpio.file(name, data, mode) for name, (data, mode) in contents.items()]
    archive = cpio.pack(entries)
    assert sorted(unpack(archive), key=lambda entry: entry.name) == sorted(entries, key=lambda entry: entry.name)
    assert len(archive) % 4 == 0


@given(_CONTENTS, st.randoms(use_true_random=False))
def test_the_order_of_the_entries_does_not_matter(contents: dict[str, tuple[bytes, int]], random: Random) -> None:
    entries = [cpio.file(f"d/{name}", data, mode) for name, (data, mode) in contents.items()]
    shuffled = list(entries)
    random.shuffle(shuffled)
    assert cpio.pack(entries) == cpio.pack(shuffled)


def test_a_directory_stands_before_what_it_holds() -> None:
    names = [entry.name for entry in unpack(cpio.pack([cpio.file("a/b/c", b""), cpio.file("a-b", b"")]))]
    assert names == ["a", "a/b", "a/b/c", "a-b"]


def test_every_entry_has_an_inode_of_its_own() -> None:
    # Entries that share an inode and have more than one link would be made hard links of each other by the kernel.
    archive = _archive()
    found = [archive[at + 6 : at + 14] for at in range(0, len(archive), 4) if archive[at : at + 6] == b"070701"]
    assert len(set(found)) == len(found)


@pytest.mark.parametrize("name", ["", "/etc", "a//b", "a/../b", "./a", "a/", "a\0b", "TRAILER!!!"])
def test_names_that_would_not_lie_below_the_root_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="not a name relative to the root"):
        cpio.file(name, b"")


def test_one_name_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="a stands twice"):
        cpio.pack([cpio.file("a", b""), cpio.symlink("a", "b")])


def test_a_file_below_a_link_is_refused() -> None:
    with pytest.raises(ValueError, match="lib/x lies below lib, which is not a directory"):
        cpio.pack([cpio.symlink("lib", "usr/lib"), cpio.file("lib/x", b"")])


def test_the_parents_of_a_file_are_made() -> None:
    assert [(entry.name, stat.filemode(entry.mode)) for entry in unpack(cpio.pack([cpio.file("a/b", b"")]))] == [
        ("a", "drwxr-xr-x"),
        ("a/b", "-rw-r--r--"),
    ]


@given(st.binary(max_size=300))
def test_gzip_reads_what_was_compressed(data: bytes) -> None:
    compressed = cpio.compress(data)
    assert gzip.decompress(compressed) == data
    assert len(compressed) % 4 == 0
    assert compressed[3:10] == b"\0\0\0\0\0\x02\xff"  # neither name nor date nor operating system
