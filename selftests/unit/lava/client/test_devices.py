# SPDX-License-Identifier: MIT
from __future__ import annotations

import pytest
from selftests.lava_server import LavaServer

from rtgate.errors import ConfigError, InfrastructureError
from rtgate.lava.client import devices
from rtgate.lava.client.server import Device, Lava


def device(name: str, *tags: str, state: str = "Idle", health: str = "Good") -> Device:
    return Device(name=name, device_type="board", state=state, health=health, worker="w", online=True, tags=tags)


def test_a_look_at_a_lab(lava: Lava, server: LavaServer) -> None:
    server.device("board-02", health="Maintenance")
    lab = devices.look(lava, "board")
    assert lab.version == (2023, 1)
    assert lab.summary("http://h") == "LAVA 2023.01 at http://h as gate: 1 of 2 boards usable, 1 free, 0 jobs waiting"


def test_no_such_type(lava: Lava) -> None:
    with pytest.raises(ConfigError, match="knows no device type 'toaster'"):
        devices.look(lava, "toaster")


def test_no_such_device(lava: Lava, server: LavaServer) -> None:
    server.types["other"] = ""
    with pytest.raises(ConfigError, match="has no device of type 'other'"):
        devices.look(lava, "other")
    with pytest.raises(ConfigError, match="with the tags fast"):
        devices.look(lava, "board", ["fast"])


def test_every_device_is_away(lava: Lava, server: LavaServer) -> None:
    server.devices[0]["health"] = "Bad"
    with pytest.raises(InfrastructureError, match="can take a job: board-01 Bad"):
        devices.look(lava, "board")
    server.workers["worker1"] = ("Offline", "Active")
    with pytest.raises(InfrastructureError, match="board-01 offline"):
        devices.look(lava, "board")


PAIR = (device("a", "fast", "a"), device("b", "fast", "b"))


def test_a_tag_of_its_own() -> None:
    assert devices.own_tag(PAIR, "a") == "a"
    assert devices.own_tag((device("a", "fast"), device("b", "fast")), "a") is None


def test_pinning() -> None:
    assert devices.pin_tags(PAIR, "b", ["fast"]) == ("fast", "b")
    assert devices.pin_tags(PAIR[:1], "a") == ()
    with pytest.raises(ConfigError, match="no device 'c'"):
        devices.pin_tags(PAIR, "c")
    with pytest.raises(ConfigError, match="cannot be picked"):
        devices.pin_tags((device("a"), device("b")), "a")


def test_staying_where_it_was() -> None:
    assert devices.same_device_tags(PAIR, "b") == ("b",)
    assert devices.same_device_tags(PAIR[:1], "a", ["x"]) == ("x",)
    assert devices.same_device_tags((device("a"), device("b")), "a") == ()


def test_another_device_and_a_free_one_first() -> None:
    busy, free, broken = device("b", "b", state="Running"), device("c", "c"), device("d", "d", health="Bad")
    assert devices.other_device_tags((PAIR[0], busy, free, broken), "a") == ("c",)
    assert devices.other_device_tags((PAIR[0], busy, broken), "a") == ("b",)


def test_no_other_device_is_no_reason_to_give_up() -> None:
    assert devices.other_device_tags(PAIR[:1], "a", ["fast"]) == ("fast",)
    assert devices.other_device_tags((device("a"), device("b")), "a") == ()
