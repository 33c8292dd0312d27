# SPDX-License-Identifier: MIT
"""Companions: tools that run beside another one as its load, so that both numbers stand in one record.

A companion runs from before the other tool starts until after it ended. Its measurements carry its name, as in
`fio-write.bandwidth`; neither number stands without the other.
"""

from __future__ import annotations

from dataclasses import replace

from rtgate.tools import Expected, Output, Setting, Tool
from rtgate.tools.loads import Load
from rtgate.tools.measurement import Measurement
from rtgate.tools.registry import COMPANIONS


def companion(load: str) -> Tool | None:
    """Return a load as a tool, if it is one that measures."""
    return COMPANIONS[load]() if load in COMPANIONS else None


def companion_setting(setting: Setting) -> Setting:
    """Return the setting of a companion, from that of the tool which it runs beside."""
    return replace(setting, beside=True)


def as_load(tool: Tool, setting: Setting) -> Load:
    """Return a companion as what plans run beside a tool of this setting."""
    return Load(
        name=tool.name,
        argv=tool.argv(companion_setting(setting)),
        needs=tool.required(),
        image=tool.image,
        devices=tool.devices,
        measures=True,
    )


def read_measurements(tool: Tool, output: Output) -> tuple[Measurement, ...]:
    """Return what a companion measured, under its name. Raises ParseError."""
    return tuple(replace(measurement, name=f"{tool.name}.{measurement.name}") for measurement in tool.parse(output))


def with_companion(expected: Expected, tool: Tool, setting: Setting) -> Expected:
    """Return what both have to do, of what `expected` says about the other tool alone."""
    more = tool.expected(companion_setting(setting))
    counts = (replace(count, measurement=f"{tool.name}.{count.measurement}") for count in more.counts)
    bounds = (replace(bound, measurement=f"{tool.name}.{bound.measurement}") for bound in more.bounds)
    return replace(
        expected,
        counts=(*expected.counts, *counts),
        bounds=(*expected.bounds, *bounds),
        clock=expected.clock or more.clock,
        health=f"{tool.name}.{more.health}" if more.health else expected.health,
    )
