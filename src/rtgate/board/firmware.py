# SPDX-License-Identifier: MIT
"""Pinned firmware: versions that a board's firmware and boot loader must tell while it boots.

Latencies of a board differ with its firmware (memory training, secure monitor, cache partition), which a kernel cannot
help. The board's file pins a version with a regular expression, found somewhere in one of the strings that the boot
told; whoever changed the firmware changes the pin, or the measurements are invalid.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

SEPARATOR = "; "  # between the strings of a boot in `Environment.firmware`
_SHOWN = 6


def strings(text: str) -> list[str]:
    """Return the strings of a boot as the environment holds them."""
    return [part for part in text.split(SEPARATOR) if part]


def before_kernel(pins: Mapping[str, str], console: str) -> str:
    """Return what a machine printed of the pinned firmware before its kernel started, as the environment holds it."""
    lines = (line.strip() for line in console.partition("Linux version ")[0].splitlines())
    about = (line for line in lines if line.isprintable() and any(name.lower() in line.lower() for name in pins))
    return SEPARATOR.join(list(dict.fromkeys(about))[:_SHOWN])


def unlike(pins: Mapping[str, str], texts: Sequence[str]) -> str:
    """Return which pins no string of the boot satisfies, with what was told instead; empty for none."""
    wrong = [name for name, pattern in pins.items() if not any(re.search(pattern, text) for text in texts)]
    return "; ".join(f"{name} should be {pins[name]!r} and is {_instead(name, texts)}" for name in wrong)


def _instead(name: str, texts: Sequence[str]) -> str:
    """Return what the boot told about this name, as far as that can be seen; else all that it told."""
    about = [text for text in texts if name.lower() in text.lower()]
    if about:
        return " and ".join(map(repr, about[:_SHOWN]))
    more = f" and {len(texts) - _SHOWN} more" if len(texts) > _SHOWN else ""
    return f"not told: the boot told {', '.join(map(repr, texts[:_SHOWN]))}{more}"
