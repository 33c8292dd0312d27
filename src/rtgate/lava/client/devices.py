# SPDX-License-Identifier: MIT
"""Which boards a lab has for a job, and how to pick one of them.

LAVA 2023.01 lets nobody name a device in a job: a job takes any device of its type that has all tags of the job. So a
device can be picked, or left out, only where the lab's administrator gave it a tag that no other of the type has.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rtgate.errors import ConfigError, InfrastructureError
from rtgate.lava.client.server import Device, Lava


@dataclass(frozen=True, slots=True, kw_only=True)
class Lab:
    """What a server says before a job is submitted.

    Attributes:
        user: who we are there, empty for nobody.
        devices: all devices of the type that are not retired.
        waiting: how many jobs wait for the type.
    """

    version: tuple[int, int]
    user: str
    devices: tuple[Device, ...]
    waiting: int

    def summary(self, url: str) -> str:
        """Return one line for people."""
        free = sum(device.usable and device.state == "Idle" for device in self.devices)
        usable = sum(device.usable for device in self.devices)
        version = f"{self.version[0]}.{self.version[1]:02}"
        return (
            f"LAVA {version} at {url} as {self.user or 'nobody'}: {usable} of {len(self.devices)} boards usable, "
            f"{free} free, {self.waiting} jobs waiting"
        )


def look(lava: Lava, device_type: str, tags: Sequence[str] = ()) -> Lab:
    """Return what a lab has for a device type.

    Raises:
        ConfigError: the lab does not know the type, or no device has the tags.
        InfrastructureError: every device that has them is offline or in maintenance.
    """
    version, user = lava.version(), lava.whoami()
    if not lava.knows(device_type):
        raise ConfigError(f"{lava.access.url} knows no device type {device_type!r} (or we may not see it)")
    devices = lava.devices(device_type)
    matches = [device for device in devices if device.has(tags)]
    if not matches:
        condition = f" with the tags {', '.join(tags)}" if tags else ""
        raise ConfigError(f"{lava.access.url} has no device of type {device_type!r}{condition}")
    if not any(device.usable for device in matches):
        states = ", ".join(f"{device.name} {device.health if device.online else 'offline'}" for device in matches)
        raise InfrastructureError(f"no device of type {device_type!r} can take a job: {states}")
    return Lab(version=version, user=user, devices=devices, waiting=lava.waiting(device_type))


def own_tag(devices: Sequence[Device], name: str) -> str | None:
    """Return a tag that this device has and no other of its type; None without one."""
    mine = next((device.tags for device in devices if device.name == name), ())
    other_tags = {tag for device in devices if device.name != name for tag in device.tags}
    return next((tag for tag in sorted(mine) if tag not in other_tags), None)


def pin_tags(devices: Sequence[Device], name: str, tags: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the tags that make a job run on one device.

    Raises:
        ConfigError: there is no such device, or it has no tag of its own beside others of its type.
    """
    if name not in {device.name for device in devices}:
        raise ConfigError(f"no device {name!r} of this type (there: {', '.join(device.name for device in devices)})")
    if len(devices) == 1:
        return tuple(tags)
    tag = own_tag(devices, name)
    if tag is None:
        raise ConfigError(f"device {name} cannot be picked: give it a tag that no other device of its type has")
    return tuple(dict.fromkeys((*tags, tag)))


def same_device_tags(devices: Sequence[Device], name: str, tags: Sequence[str] = ()) -> tuple[str, ...]:
    """Return tags that keep a job on a device if there is a way to; else the same tags."""
    tag = own_tag(devices, name) if len(devices) > 1 else None
    return tuple(tags) if tag is None else tuple(dict.fromkeys((*tags, tag)))


def other_device_tags(devices: Sequence[Device], name: str, tags: Sequence[str] = ()) -> tuple[str, ...]:
    """Return tags that keep a job away from a device, free boards first; the same tags if there is no way to."""
    alternatives = [device for device in devices if device.name != name and device.usable and device.has(tags)]
    for device in sorted(alternatives, key=lambda device: device.state != "Idle"):
        tag = own_tag(devices, device.name)
        if tag is not None:
            return tuple(dict.fromkeys((*tags, tag)))
    return tuple(tags)
