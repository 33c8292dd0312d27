# SPDX-License-Identifier: MIT
"""Changes of a kernel that do nothing that matters, for any kernel line: words, options, a file of their own.

They teach how much a comparison moves for no reason. None of them touches a line of the kernel that another version
may lack: words of the command line need no build, options are Kconfig's, and code is a new file in `init/`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from rtgate import site
from rtgate.kernel.configuration import BuildDescription
from rtgate.kernel.fragments import UNSET, load_fragment

UNPATCHED = "unpatched"
"""The name of the kernel without a change, which all others are compared with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelChange:
    """One change of a kernel.

    Attributes:
        command_line: words for the kernel's command line.
        fragment: options that are added to the build's, or replace them.
        patches: in their order.
        code: a C file that becomes part of `init/`.
        elsewhere: the same source, built in another directory.
    """

    name: str
    command_line: str = ""
    fragment: Path | None = None
    patches: tuple[Path, ...] = ()
    code: Path | None = None
    elsewhere: bool = False

    @property
    def is_built(self) -> bool:
        """Whether it has an image of its own; words of the command line need none."""
        return bool(self.fragment or self.patches or self.code or self.elsewhere)

    def description(self, build: BuildDescription) -> BuildDescription:
        """Return the build with the change's options. Raises ConfigError: the fragment is wrong."""
        extra = load_fragment(self.fragment) if self.fragment else ()
        symbols = {option.symbol for option in extra}
        options = tuple(option for option in build.options if option.symbol not in symbols)
        plain = any((option.symbol, option.value) == ("PREEMPT_RT", UNSET) for option in extra)
        return dataclasses.replace(build, options=(*options, *extra), flavour="generic" if plain else build.flavour)


_WORDS = {
    "one-word": "inert=1",
    "dotted-word": "placebo.level=3",
    "four-words": "alpha=1 beta=22 gamma=333 delta=4444",
    "24-words": " ".join(f"w{number:02}={number * number}" for number in range(1, 25)),
}
_OPTIONS = (
    *("local-version-short", "local-version-long", "host-name", "log-buffer"),
    *("driver-loop", "driver-vfat", "driver-watchdog"),
)
_CODE = (
    *("boot-nops-1", "boot-nops-100", "boot-nops-10007", "boot-nops-1000003"),
    *("initcall-proc-file", "initcall-memory", "initcall-thread", "initcall-sleeping-thread", "initcall-late-work"),
    *("exported-symbols", "unused-bss", "unused-text"),
)


def harmless_changes() -> Mapping[str, KernelChange]:
    """Return the harmless changes that rtgate ships, by name: those without a build first."""
    place = site.shipped_directory() / "kernel-configs" / "harmless"
    every = (
        *(KernelChange(name=name, command_line=words) for name, words in _WORDS.items()),
        *(KernelChange(name=name, code=place / f"{name}.c") for name in _CODE),
        *(KernelChange(name=name, fragment=place / f"{name}.config") for name in _OPTIONS),
    )
    return {change.name: change for change in every}
