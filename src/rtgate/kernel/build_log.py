# SPDX-License-Identifier: MIT
"""What a build's log says: how far it is, and why it failed."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rtgate import process
from rtgate.errors import BuildError, ConfigError, InfrastructureError, RtgateError

if TYPE_CHECKING:
    from pathlib import Path

_STEP = re.compile(r"^  (?:[A-Z][A-Z0-9_]+)(?: \[M\])? +(\S+)$")

# The machine's fault, whatever else the log says.
_MACHINE = {
    "No space left on device": "the disk is full",
    "Disk quota exceeded": "the disk quota is used up",
    "Killed signal terminated program": "the compiler was killed: probably not enough memory (fewer --jobs need less)",
    "LLVM ERROR: out of memory": "not enough memory (fewer --jobs need less)",
    "Sorry, this compiler is not supported": "the kernel needs a newer compiler than this one",
    "Sorry, this linker is not supported": "the kernel needs a newer linker than this one",
    "virtual memory exhausted": "not enough memory (fewer --jobs need less)",
}
_HEADERS = {
    "gelf.h": "libelf-dev",
    "libelf.h": "libelf-dev",
    "openssl/": "libssl-dev",
    "gmp.h": "libgmp-dev",
    "dwarf.h": "libdw-dev",
}
# What a kernel's makefiles start. Another name is an author's slip, or what only this change needs.
_PROGRAMS = {
    **process.PACKAGES,
    **{name: name for name in ("bc", "bindgen", "bison", "bzip2", "ccache", "clang", "cpio", "flex", "gawk", "gcc")},
    **{name: name for name in ("git", "gzip", "hostname", "lz4", "lzop", "make", "openssl", "pahole", "patch", "perl")},
    **{name: name for name in ("python3", "rsync", "rustc", "sed", "tar", "zstd")},
    "awk": "gawk",
    "cmp": "diffutils",
    "depmod": "kmod",
    "ld": "binutils",
    "mkimage": "u-boot-tools",
}
_MISSING_HEADER = re.compile(
    r"(\S+?):\d+(?::\d+)?: fatal error: '?([^\s':]+)'?(?:: No such file or directory| file not found)"
)
_HOST_CODE = {"scripts", "tools", "certs", "usr"}  # directories; the rest of a kernel has no header of the machine
# A makefile's shell says so, or a script's: `/linux/kernel/gen_kheaders.sh: 82: cpio: not found`.
_MISSING_PROGRAM = re.compile(r"^(?:\S*/)?(?:sh|bash|[\w.-]+\.sh): (?:\d+: |line \d+: )?(\S+): (?:command )?not found")
_UNKNOWN_BASE = re.compile(r"Can't find default configuration \"?([^\"!\n]+)|No rule to make target '(\w*config)'")

_COMPILER_ERROR = re.compile(r"^\S+?:\d+(?::\d+)?: (?:fatal )?[Ee]rror: .*")  # and the assembler's
_SOURCE_ERRORS = (
    _COMPILER_ERROR,
    re.compile(r"^\S*Kconfig\S*:\d+: .*"),
    re.compile(
        r"^.*undefined reference to .*|^.*multiple definition of .*|^\S*ld\S*: .*(?:error|cannot|failed).*",
        re.IGNORECASE,
    ),
    re.compile(r"^ERROR: modpost: .*"),
    re.compile(r"^\S+: error: .*|^error: .*", re.IGNORECASE),  # objtool and others
    _MISSING_PROGRAM,
    re.compile(r"^make(?:\[\d+\])?: \*\*\* .*"),
)

_EXPANSION = re.compile(r"^(\S+:\d+):\d+: note: in expansion of macro ")
_QUOTED_CODE = re.compile(r"^ *\d* \|")


def step(line: str) -> str | None:
    """Return the file that a line of make's says is made now, or None."""
    match = _STEP.match(line.rstrip("\n"))
    return match[1] if match else None


def failure(log: Path, tree: Path, *, title: str = "", trusted: bool = True) -> RtgateError:
    """Return why the build failed: the disk, a missing program, or the first error in the source.

    Of a build that is not trusted no line says that the machine was at fault: it could choose its verdict.

    Args:
        log: of the build.
        tree: what was built; paths below it are cut short.
        title: what messages call the tree, as a patched copy is not the user's; empty for its path.
        trusted: whose build it is.
    """
    try:
        lines = log.read_text(encoding="utf-8", errors="replace").split("\n")
    except FileNotFoundError:
        return InfrastructureError(f"the build wrote no log ({log})")
    machine = _machine_failure(lines, tree)
    if machine is not None and not trusted:
        return BuildError(f"{_first_error(lines, tree)}; the build itself says: {machine}", log)
    if machine is not None:
        return InfrastructureError(f"{machine} (log: {log})")
    for line in lines:
        if match := _UNKNOWN_BASE.search(line):
            return ConfigError(f"{title or tree} has no configuration {match[1] or match[2]!r} (log: {log})")
    return BuildError(_first_error(lines, tree), log)


def _machine_failure(lines: list[str], tree: Path) -> str | None:
    for line in lines:
        for sign, meaning in _MACHINE.items():
            if sign in line:
                return f"{meaning}: {line.strip()}"
    absences = [(line, _absence(_in_tree(line, tree))) for line in lines]
    if any(_COMPILER_ERROR.match(line) and not absence for line, absence in absences):
        return None
    return next((absence for _, absence in absences if absence), None)


def _absence(line: str) -> str | None:
    """Return what a line says that this machine lacks, a header or a program, and its package."""
    if match := _MISSING_HEADER.match(line):
        path, header = match.groups()
        package = next((name for start, name in _HEADERS.items() if header.startswith(start)), None)
        if package and ("/" not in path or _HOST_CODE & set(path.split("/"))):
            return f"the header {header} is missing (Debian: apt-get install {package})"
    if (match := _MISSING_PROGRAM.match(line)) and match[1] in _PROGRAMS:
        return f"the program {match[1]} is missing (Debian: apt-get install {_PROGRAMS[match[1]]})"
    return None


def _first_error(lines: list[str], tree: Path) -> str:
    # In the order of the patterns: make's own complaint can be written before the compiler's message.
    for pattern in _SOURCE_ERRORS:
        for number, line in enumerate(lines):
            if pattern.match(line):
                return _in_tree(line.strip(), tree) + _macro_use(lines[number + 1 :], tree)
    return "the build failed without naming an error"


def _macro_use(lines: list[str], tree: Path) -> str:
    """Return where the code stands whose macro an error is in: the last of the compiler's notes below the error."""
    place = ""
    for line in lines:
        if match := _EXPANSION.match(line):
            place = f", used in {_in_tree(match[1], tree)}"
        elif not _QUOTED_CODE.match(line):
            break
    return place


def _in_tree(text: str, tree: Path) -> str:
    return text.replace(f"{tree}/", "").removeprefix("../")
