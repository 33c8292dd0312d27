# SPDX-License-Identifier: MIT
from __future__ import annotations

import random
import subprocess
from pathlib import Path

import pytest

from rtgate.files import cksum


@pytest.mark.parametrize("data", [b"", b"\n", b"a", b"123456789", bytes(range(256)) * 300], ids=len)
def test_cksum_is_the_utilitys(data: bytes) -> None:
    done = subprocess.run(["cksum"], input=data, capture_output=True, check=True)
    assert cksum(data) == int(done.stdout.split()[0])


def test_cksum_is_the_utilitys_for_many_random_inputs(tmp_path: Path) -> None:
    source = random.Random(2)
    files = [tmp_path / str(number) for number in range(100)]
    for path in files:
        path.write_bytes(source.randbytes(source.randrange(600)))
    done = subprocess.run(["cksum", *files], capture_output=True, text=True, check=True)
    assert [int(line.split()[0]) for line in done.stdout.splitlines()] == [cksum(path.read_bytes()) for path in files]
