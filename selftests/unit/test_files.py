# SPDX-License-Identifier: MIT
from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
import tracemalloc
from pathlib import Path

import pytest

from rtgate import files, strict_yaml
from rtgate.errors import ConfigError
from rtgate.records import planned
from rtgate.records import record as records_file


def test_a_fifo_as_a_record_ends_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "record.json")
    code = "import sys; from pathlib import Path; from rtgate.records import record; record.read(Path(sys.argv[1]))"
    done = subprocess.run(
        [sys.executable, "-c", code, tmp_path], capture_output=True, text=True, timeout=60, check=False
    )
    assert "ConfigError" in done.stderr
    assert "record.json: cannot be read: not a regular file" in done.stderr


def test_a_link_to_an_endless_device_is_refused(tmp_path: Path) -> None:
    (tmp_path / "record.json").symlink_to("/dev/zero")
    (tmp_path / "planned.json").symlink_to("/dev/zero")
    (tmp_path / "limits.yaml").symlink_to("/dev/zero")
    with pytest.raises(ConfigError, match="not a regular file"):
        records_file.read(tmp_path)
    with pytest.raises(ConfigError, match="not a regular file"):
        planned.read_in(tmp_path)
    with pytest.raises(ConfigError, match="not a regular file"):
        strict_yaml.load(tmp_path / "limits.yaml")


def test_a_link_to_a_regular_file_is_followed_up_to_the_limit(tmp_path: Path) -> None:
    (tmp_path / "real").write_bytes(b"x" * 10)
    (tmp_path / "link").symlink_to("real")
    assert files.read_bytes(tmp_path / "link", 10) == b"x" * 10
    with pytest.raises(ConfigError, match="larger than"):
        files.read_bytes(tmp_path / "link", 9)


def test_a_huge_yaml_file_is_refused_and_a_large_one_is_read_soon(tmp_path: Path) -> None:
    path = tmp_path / "many.yaml"
    path.write_text("".join(f"key{number}: 1\n" for number in range(120_000)))
    with pytest.raises(ConfigError, match="larger than 1 MiB"):
        strict_yaml.load(path)
    path.write_text("".join(f"k{number}: 1\n" for number in range(80_000)))
    began = time.monotonic()
    assert len(strict_yaml.load(path).entries()) == 80_000
    assert time.monotonic() - began < 30


def test_a_tree_is_removed_whatever_its_modes_are() -> None:
    root = os.geteuid() == 0
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o777)
        if root:
            os.seteuid(65534)  # root may remove it in any case
        try:
            place = Path(name, "x")
            (place / "y").mkdir(parents=True)
            (place / "y" / "z").touch()
            (place / "link").symlink_to("/")
            (place / "y").chmod(0o555)
            place.chmod(0)
            files.remove_tree(place)
            assert not place.exists()
        finally:
            if root:
                os.seteuid(0)


def test_a_missing_field_is_named(tmp_path: Path) -> None:
    (tmp_path / "planned.json").write_text('{"seeds": []}')
    with pytest.raises(ConfigError, match=r"planned\.json: damaged: Object missing required field `boots`: measure"):
        planned.read_in(tmp_path)


def test_a_file_is_read_whole_whatever_it_says_of_its_size(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    assert files.read_bytes(tmp_path / "empty", 10) == b""
    # /proc tells a size of 0 of files that hold something.
    assert files.read_bytes(Path("/proc/self/status"), 1 << 20).startswith(b"Name:")
    with pytest.raises(ConfigError, match="larger than"):
        files.read_bytes(Path("/proc/self/status"), 10)


def test_reading_a_small_file_takes_no_memory_of_its_limit(tmp_path: Path) -> None:
    (tmp_path / "small").write_bytes(b"x")
    tracemalloc.start()
    try:
        files.read_bytes(tmp_path / "small", files.RAW_LIMIT)
        assert tracemalloc.get_traced_memory()[1] < files.MIB
    finally:
        tracemalloc.stop()
