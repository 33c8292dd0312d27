# SPDX-License-Identifier: MIT
"""Kconfig fragments: options with an optional range of kernel versions, read strictly.

The format is Kconfig's own, plus comments that start with `#:`. Tools that do not know those would take the options
between them for every version::

    CONFIG_PREEMPT_RT=y
    #: kernel >= 6.13
    CONFIG_PREEMPT=y
    #: end
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from rtgate import files
from rtgate.errors import ConfigError, Location
from rtgate.kernel.version import KernelVersion, VersionRange

_SET = re.compile(r'CONFIG_(?P<symbol>[A-Z0-9a-z_]+)=(?P<value>y|m|-?\d+|0[xX][0-9a-fA-F]+|"[^"\\]*")')
_UNSET = re.compile(r"# CONFIG_(?P<symbol>[A-Z0-9a-z_]+) is not set")
_KERNEL = re.compile(r"#:\s*kernel\s+(?P<range>\S.*)")
_END = re.compile(r"#:\s*end")
_ALLOWED = 'allowed: CONFIG_X=y, =m, =NUMBER, ="TEXT"; # CONFIG_X is not set; #: kernel RANGE; #: end; comments'

UNSET = "n"


@dataclass(frozen=True, slots=True)
class Option:
    """One requested option. `value` is as in `.config`; `n` means "is not set"."""

    symbol: str
    value: str
    versions: VersionRange
    location: Location

    @property
    def line(self) -> str:
        """The option as a line of `.config`."""
        return config_line(self.symbol, self.value)


def config_line(symbol: str, value: str) -> str:
    """Return a symbol and its value as a line of `.config`."""
    return f"# CONFIG_{symbol} is not set" if value == UNSET else f"CONFIG_{symbol}={value}"


def load_fragment(path: Path) -> tuple[Option, ...]:
    """Read a fragment.

    Raises:
        ConfigError: unreadable, or a line that is no option, comment or `#:` directive; names the line and column.
    """
    try:
        text = files.read_text(path, files.YAML_LIMIT)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read: {error}") from error
    return parse_fragment(text, path)


def parse_fragment(text: str, path: Path) -> tuple[Option, ...]:
    """Read the text of a fragment; `path` is for messages. Raises ConfigError as `load_fragment`."""
    options: dict[tuple[str, VersionRange], Option] = {}
    always = VersionRange()
    versions, start = always, Location(path, 1, 1)
    for number, line in enumerate(text.split("\n"), start=1):
        place = Location(path, number, 1)
        directive = _directive(line, place, inside=versions != always)
        if directive is not None:
            versions, start = directive, place
            continue
        option = _option(line, versions, place)
        if option is None:
            continue
        first = options.setdefault((option.symbol, versions), option)
        if first is not option:
            raise ConfigError(f"CONFIG_{option.symbol} stands twice (first at line {first.location.line})", place)
    if versions != always:
        raise ConfigError("'#: kernel' without '#: end'", start)
    return tuple(options.values())


def _directive(line: str, place: Location, *, inside: bool) -> VersionRange | None:
    if not line.lstrip().startswith("#:"):
        return None
    if _END.fullmatch(line.rstrip()):
        if not inside:
            raise ConfigError("'#: end' without '#: kernel'", place)
        return VersionRange()
    match = _KERNEL.fullmatch(line.rstrip())
    if match is None:
        raise ConfigError(f"unknown directive {line.strip()!r} (allowed: #: kernel RANGE, #: end)", place)
    if inside:
        raise ConfigError("'#: kernel' inside another one: close that with '#: end'", place)
    try:
        return VersionRange.parse(match["range"])
    except ValueError as error:
        raise ConfigError(str(error), Location(place.path, place.line, match.start("range") + 1)) from error


def _option(line: str, versions: VersionRange, place: Location) -> Option | None:
    text = line.rstrip()
    if match := _SET.fullmatch(text):
        return Option(match["symbol"], match["value"], versions, place)
    if match := _UNSET.fullmatch(text):
        return Option(match["symbol"], UNSET, versions, place)
    # A comment that nearly is an option would be lost in silence.
    nearly = re.match(r"#\s*(CONFIG_\w+\s*=|CONFIG_\w+\s+is\b|kernel\s*[<>=])", text)
    if text and (nearly or not text.startswith("#")):
        column = len(line) - len(line.lstrip()) + 1
        raise ConfigError(f"not understood: {text.strip()!r} ({_ALLOWED})", Location(place.path, place.line, column))
    return None


def resolve(options: tuple[Option, ...], version: KernelVersion) -> dict[str, Option]:
    """Return what is asked of one kernel version: by symbol, the last one wins."""
    return {option.symbol: option for option in options if version in option.versions}
