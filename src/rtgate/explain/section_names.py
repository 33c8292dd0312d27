# SPDX-License-Identifier: MIT
"""Critical sections under other names of functions: those that the other kernel of a comparison has for equal code."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from rtgate.explain.handler_lengths import merge_handlers
from rtgate.explain.lock_holds import RawLock, merge_locks
from rtgate.explain.sections import BootSections, Call, Section, Site, Spot, merge


def rename_functions(boot: BootSections, names: Mapping[str, str]) -> BootSections:
    """Return the same boot with new names of functions, by the old ones; the words of its bound stay."""
    if not names:
        return boot
    return replace(
        boot,
        sections=merge(_section(section, names) for section in boot.sections),
        locks=merge_locks(_lock(lock, names) for lock in boot.locks),
        handlers=merge_handlers(
            replace(handler, function=names.get(handler.function, handler.function)) for handler in boot.handlers
        ),
    )


def _section(section: Section, names: Mapping[str, str]) -> Section:
    calls = (_call(call, names) for call in section.calls)
    return replace(section, site=_site(section.site, names), calls=tuple(sorted(calls, key=lambda call: call.function)))


def _site(site: Site, names: Mapping[str, str]) -> Site:
    return replace(site, begin=_spot(site.begin, names), end=_spot(site.end, names))


def _spot(spot: Spot, names: Mapping[str, str]) -> Spot:
    return Spot(names.get(spot.function, spot.function), names.get(spot.helper, spot.helper))


def _call(call: Call, names: Mapping[str, str]) -> Call:
    return replace(call, function=names.get(call.function, call.function))


def _lock(lock: RawLock, names: Mapping[str, str]) -> RawLock:
    return replace(lock, function=names.get(lock.function, lock.function))
