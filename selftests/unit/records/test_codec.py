# SPDX-License-Identifier: MIT
from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest

from rtgate.records.codec import decode, encode, require_keys
from rtgate.records.evidence import Thread
from rtgate.records.expectation import Expectation
from rtgate.tools.threads import Threads, ThreadScope

GIVEN = {"threads": [{"count": 1, "policy": 1, "priority": 99}], "duration_s": 2, "seen": "system", "cpus": [1, 2]}
READ = Expectation(
    threads=(Threads(count=1, policy=1, priority=99),), duration_s=2, seen=ThreadScope.SYSTEM, cpus=(1, 2)
)


def test_plain_data_becomes_the_value_and_back() -> None:
    assert decode(GIVEN, Expectation) == READ
    assert decode(json.loads(json.dumps(encode(READ))), Expectation) == READ


@pytest.mark.parametrize(
    ("change", "place"),
    [
        (
            {"threads": [{"count": True, "policy": 1, "priority": 99}]},
            "Expected `int`, got `bool` - at `$.threads[0].count`",
        ),
        ({"threads": [{"count": 1, "policy": 1}]}, "missing required field `priority` - at `$.threads[0]`"),
        ({"duration_s": "2"}, "Expected `float`, got `str` - at `$.duration_s`"),
        ({"duration_s": False}, "Expected `float`, got `bool` - at `$.duration_s`"),
        ({"cpus": [1.5]}, "Expected `int`, got `float` - at `$.cpus[0]`"),
        ({"seen": "own "}, "Invalid enum value 'own ' - at `$.seen`"),
        ({"clock": 1}, "Expected `bool`, got `int` - at `$.clock`"),
        ({"name": None}, "Expected `str`, got `null` - at `$.name`"),
    ],
)
def test_nothing_becomes_another_type_and_a_mistake_names_its_place(change: dict[str, object], place: str) -> None:
    with pytest.raises(ValueError, match=re.escape(place)):
        decode({**GIVEN, **change}, Expectation)


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"colour": "red"}, "field `colour` is not known - at `$`"),
        (
            {"threads": [{"count": 1, "policy": 1, "priority": 99, "colour": 1}]},
            "field `colour` is not known - at `$.threads[0]`",
        ),
    ],
)
def test_a_field_that_the_type_does_not_have_is_an_error(change: dict[str, object], place: str) -> None:
    with pytest.raises(ValueError, match=re.escape(place)):
        decode({**GIVEN, **change}, Expectation)


def test_names_that_are_data_may_be_any() -> None:
    assert decode({"a": {"b": "c"}}, dict[str, dict[str, str]]) == {"a": {"b": "c"}}


def test_every_field_must_be_there_where_a_file_is_whole() -> None:
    thread = encode(Thread(moment="late", name="a", policy=1, priority=99, processor=0))
    require_keys(thread, Thread)
    require_keys({name: thread[name] for name in thread if name != "policy"}, Thread, without={"policy"})
    with pytest.raises(ValueError, match="field `policy` is missing"):
        require_keys({name: thread[name] for name in thread if name != "policy"}, Thread)


_THREADS = """
import sys, threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import make_dataclass
from rtgate.records.codec import decode

sys.setswitchinterval(1e-6)

def one(start, kind):
    start.wait()
    try:
        decode({}, kind)
    except ValueError:
        pass

with ThreadPoolExecutor(8) as pool:
    for _ in range(60):
        inner = make_dataclass("Inner", [(f"f{number}", int) for number in range(40)])
        outer = make_dataclass("Outer", [(f"g{number}", inner) for number in range(20)])
        start = threading.Barrier(8)
        list(pool.map(one, [start] * 8, [outer] * 8))
print("alive")
"""


def test_threads_may_decode_a_class_that_nobody_has_decoded() -> None:
    done = subprocess.run([sys.executable, "-c", _THREADS], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "alive\n", "")
