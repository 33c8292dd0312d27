# SPDX-License-Identifier: MIT
"""Builds of code that nobody has reviewed: without network, secrets, or a way to write anything but their own results.

A kernel's Makefiles run what they like. Bubblewrap (`bwrap`) gives them namespaces of their own: no network, no other
processes, of the machine's files its programs alone, and of the caches only what is read.
"""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from rtgate import process
from rtgate.errors import BuildError, InfrastructureError

_PROGRAMS = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt")
# What programs look up: names and formats. Whatever else is in /etc may be a secret of this user.
_SETTINGS = (
    *("alternatives", "ccache.conf", "debian_version", "group", "ld.so.cache", "localtime", "nsswitch.conf"),
    *("os-release", "passwd", "ssl/openssl.cnf"),
)
_MEMORY = 256 << 20  # bytes
_TRIAL_S = 120.0  # a busy machine's disk; Python starts within a second
_ENVIRONMENT = ("PATH", "LANG", "LC_ALL", "TMPDIR", "PYTHONUNBUFFERED", "CCACHE_DIR", "CCACHE_STATSLOG")


def confine(command: Sequence[str], readable: Sequence[Path], writable: Sequence[Path], directory: Path) -> list[str]:
    """Return a command that runs another one in confinement.

    Args:
        command: what runs.
        readable: what it may read beside the machine's programs.
        writable: directories that it may write to; everything else is read-only, or not there.
        directory: where it runs.

    Raises:
        InfrastructureError: bubblewrap is not installed.
    """
    process.require("bwrap")
    # As process 1: bwrap's own would outlive bwrap for a moment, with what the command left running.
    words = ["bwrap", "--die-with-parent", "--unshare-all", "--new-session", "--cap-drop", "ALL", "--as-pid-1"]
    words += ["--dev", "/dev", "--proc", "/proc"]
    for place in ("/tmp", "/dev/shm"):  # noqa: S108 - its own; they are memory, of which it would else get half
        words += ["--size", str(_MEMORY), "--tmpfs", place]
    system = (*_PROGRAMS, *(f"/etc/{name}" for name in _SETTINGS))
    words += [word for path in system for word in ("--ro-bind-try", path, path)]
    words += [word for path in (*_python(), *readable) for word in ("--ro-bind", str(path), str(path))]
    words += [word for path in writable for word in ("--bind", str(path), str(path))]
    return [*words, "--remount-ro", "/", "--chdir", str(directory), "--", *command]


def require_trial(command: Sequence[str], directory: Path, variables: Mapping[str, str]) -> None:
    """Check that a confined command which is nobody's build succeeds: a failure of the next one is then the build's.

    Raises:
        InfrastructureError: it fails; says why, and what confinement needs.
    """
    try:
        trial = subprocess.run(
            command,
            cwd=directory,
            env=variables,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=_TRIAL_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise InfrastructureError(f"nothing starts in confinement within {_TRIAL_S:.0f} s") from None
    if trial.returncode != 0:
        reason = (trial.stderr.strip() or f"exit code {trial.returncode}").splitlines()[-1]
        raise InfrastructureError(
            f"nothing can be built in confinement: {reason} (bubblewrap needs user namespaces, and rtgate a Python "
            "environment outside of the home directory's .local)"
        )


_LARGEST = 2 << 30  # bytes of a file that is read from outside: a vmlinux with all debug information has one


def require_own_files(paths: Iterable[Path], writable: Iterable[Path]) -> None:
    """Check what a confined command left before it is read from outside, where a link leads wherever it says.

    Args:
        paths: what is going to be read; what is not there is passed over.
        writable: where the command could write.

    Raises:
        BuildError: one of them is a link, or below one, or not a regular file.
    """
    roots = [(place, Path(os.path.realpath(place))) for place in writable]
    for path in paths:
        own = (real / path.relative_to(place) for place, real in roots if path.is_relative_to(place))
        own_path = next(own, path)
        if Path(os.path.realpath(path)) != own_path:
            raise BuildError(f"the build made a link of {path.name}, which is a file in every kernel's build")
        if os.path.lexists(path) and not stat.S_ISREG(path.lstat().st_mode):
            raise BuildError(f"the build made something else of {path.name}, which is a file in every kernel's build")
        if os.path.lexists(path) and path.lstat().st_size > _LARGEST:
            raise BuildError(f"the build made {path.name} larger than {_LARGEST >> 30} GiB")


def environment(whole: Mapping[str, str]) -> dict[str, str]:
    """Return what of an environment a confined command gets: no token of anybody's is in it."""
    variables = {name: whole[name] for name in _ENVIRONMENT if name in whole}
    return {**variables, "HOME": "/nowhere", "CCACHE_READONLY": "1", "CCACHE_TEMPDIR": whole["TMPDIR"]}


def _python() -> Iterator[Path]:
    """Yield where this Python, its packages and programs of the path lie, if not where all programs do."""
    paths = [sys.prefix, sys.base_prefix, *os.environ.get("PATH", "").split(os.pathsep)]
    for path in dict.fromkeys(paths):
        place = Path(path)
        if place.is_absolute() and place.is_dir() and not any(place.is_relative_to(programs) for programs in _PROGRAMS):
            yield place
