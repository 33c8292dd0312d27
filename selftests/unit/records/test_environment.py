# SPDX-License-Identifier: MIT
from __future__ import annotations

from dataclasses import fields, replace

import pytest

from rtgate.board.boot import TimeBase
from rtgate.records.codec import decode
from rtgate.records.environment import COMPARED, Environment

NAMES = [field.name for field in fields(Environment)]
HERE = Environment(
    board="virt-arm64", soc="none", arch="arm64", time=TimeBase.VIRTUAL, cpus="1", kernel_release="6.12.1"
)


def test_an_environment_survives_the_record() -> None:
    assert decode(HERE.as_mapping(), Environment) == HERE


def test_keys_of_a_later_version_are_refused() -> None:
    with pytest.raises(ValueError, match="field `colour` is not known"):
        decode({"board": "a", "colour": "red"}, Environment)


def test_equal_environments_may_be_compared() -> None:
    assert HERE.incomparable(replace(HERE)) == ()


def test_what_is_compared_names_existing_fields() -> None:
    assert set(NAMES) >= COMPARED


def test_a_kernel_may_change_what_follows_from_it_and_nothing_else() -> None:
    kernel = {"kernel_release", "kernel_version", "build_id", "config_sha256", "flavour"}
    assert kernel | {"irq_affinity", "mitigations", "frequency"} == COMPARED
    assert HERE.comparable_fields(replace(HERE, kernel_release="6.13", flavour="generic")) == COMPARED


def test_what_an_expert_asks_for_has_a_field() -> None:
    assert {"model", "governors", "idle_states", "mitigations", "irq_affinity"} <= set(NAMES)
    assert set(Environment().as_mapping().values()) == {""}


def test_a_record_without_the_newer_fields_leaves_them_empty() -> None:
    older = {name: value for name, value in HERE.as_mapping().items() if name not in {"model", "governors"}}
    assert decode(older, Environment) == HERE


@pytest.mark.parametrize("name", NAMES)
def test_only_the_kernel_may_differ(name: str) -> None:
    text = TimeBase.HOST.value if name == "time" else "other"
    other = decode({**HERE.as_mapping(), name: text}, Environment)
    expected = () if name in COMPARED else (f"{name}: {HERE.as_mapping()[name] or 'unknown'!r} against {text!r}",)
    assert HERE.incomparable(other) == expected
    assert len(other.incomparable(HERE)) == len(expected)
