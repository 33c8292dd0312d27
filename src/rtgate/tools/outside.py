# SPDX-License-Identifier: MIT
"""What a tool from outside must be. rtgate's own are held to the same by their self-tests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import MISSING, fields, is_dataclass
from types import ModuleType
from typing import Any

from rtgate.tools import Reports, Tool
from rtgate.tools.extensions import Extension

_METHODS = ("argv", "expected", "parse")
_IMAGES = ("core", "full")
_OF_THE_TOOL_ALONE = ("writes", "cleanup", "undo", "driver", "instrumented")  # a plan takes none of them from a load


def outside_tool(extension: Extension) -> type[Tool]:
    """Return the tool of an extension. Raises ConfigError: it cannot be imported, or it is not a tool of this name."""
    content = extension.content()
    tool = _tool_of_file(extension, content) if isinstance(content, ModuleType) else content
    if not (isinstance(tool, type) and Tool in tool.__mro__[1:]):
        raise extension.fail(f"{tool!r} is not a class derived from rtgate.tools.Tool: name one")
    for mistake in _mistakes(tool, extension.name):
        raise extension.fail(f"{tool.__name__} {mistake}")
    return tool


def _tool_of_file(extension: Extension, module: ModuleType) -> object:
    """Return the one tool that a file defines; a class without a name of its own is for others to derive from."""
    own = [
        member
        for member in vars(module).values()
        if isinstance(member, type)
        and member.__module__ == module.__name__
        and Tool in member.__mro__
        and "name" in vars(member)
    ]
    if len(own) != 1:
        names = ", ".join(member.__name__ for member in own) or "none"
        raise extension.fail(
            f"the file defines {len(own)} tools ({names}): define one class derived from rtgate.tools.Tool, with a name"
        )
    return own[0]


def _mistakes(tool: Any, name: str) -> Iterator[str]:
    """Yield what is wrong with a class derived from Tool, and what to do about it."""
    if getattr(tool, "name", None) != name:
        yield f"calls itself {getattr(tool, 'name', None)!r}, and is to be {name!r}: give both one name"
    if not (is_dataclass(tool) and getattr(tool, "__dataclass_params__").frozen):  # noqa: B009 - private there
        yield "is not a frozen dataclass: decorate it with @dataclass(frozen=True, kw_only=True)"
    elif options := [field.name for field in fields(tool) if field.default is MISSING]:
        yield f"has options without a default value: give one to {', '.join(options)}"
    if missing_methods := [method for method in _METHODS if getattr(tool, method) is getattr(Tool, method)]:
        yield f"does not define {', '.join(missing_methods)}: define them as rtgate.tools.Tool describes"
    suites, reports = getattr(tool, "suites", None), getattr(tool, "reports", None)
    if not (isinstance(suites, tuple) and suites and all(isinstance(suite, str) for suite in suites)):
        yield f'has no suites: `suites` is a tuple of names, as ("latency",), not {suites!r}'
    if not (
        isinstance(reports, Mapping) and reports and all(isinstance(report, Reports) for report in reports.values())
    ):
        yield f"does not say what it measures: `reports` has a value of Reports for each name, not {reports!r}"
    if not _has_ranges(tool):
        yield (
            f"has wrong ranges: `ranges` has (least, most) or (least, None) by option, as {{'count': (1, 1000)}}, not "
            f"{tool.ranges!r}"
        )
    if ignored := [
        name for name in _OF_THE_TOOL_ALONE if tool.companion and getattr(tool, name) != getattr(Tool, name)
    ]:
        names = ", ".join(ignored)
        yield f"runs as a load as well (`companion`), where a plan ignores its {names}: remove `companion`, or {names}"
    if tool.image not in _IMAGES:
        images = " or ".join(_IMAGES)
        yield f"names the image {tool.image!r}: it is {images}; a board's file names another one with `rootfs`"


def _has_ranges(tool: Any) -> bool:
    """Return whether `ranges` has two numbers, or one and None, for options that the tool has."""
    ranges, options = tool.ranges, {field.name for field in fields(tool)} if is_dataclass(tool) else set()
    return isinstance(ranges, Mapping) and all(
        name in options
        and isinstance(bounds, tuple)
        and len(bounds) == 2
        and type(bounds[0]) is int
        and (bounds[1] is None or type(bounds[1]) is int)
        for name, bounds in ranges.items()
    )
