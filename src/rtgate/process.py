# SPDX-License-Identifier: MIT
"""Programs that rtgate starts: what is not installed is said with its package, and none outlives rtgate."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from rtgate import durations
from rtgate.arches import ARCHES
from rtgate.errors import InfrastructureError

PACKAGES = {  # where a package has another name than its program
    "apt-cache": "apt",
    "apt-get": "apt",
    "autoreconf": "autoconf automake",
    "bwrap": "bubblewrap",
    "dpkg-deb": "dpkg",
    "dtc": "device-tree-compiler",
    "fdtoverlay": "device-tree-compiler",
    "ld.lld": "lld",
    "libtoolize": "libtool",
    "llvm-objcopy": "llvm",
    "ssh": "openssh-client",
    "xz": "xz-utils",
    **{arch.compiler: arch.packages[0] for arch in ARCHES.values()},
}

# By which git, and a hook of git's, tells a program which repository it works on (`git rev-parse --local-env-vars`).
# rtgate names a repository itself (`git -C`), and these would count instead. Settings (GIT_CONFIG_COUNT) are kept, as
# git keeps them where it goes into another repository.
_OF_ONE_REPOSITORY = frozenset(
    f"GIT_{name}"
    for name in (
        *("ALTERNATE_OBJECT_DIRECTORIES", "COMMON_DIR", "CONFIG", "DIR", "GRAFT_FILE", "IMPLICIT_WORK_TREE"),
        *("INDEX_FILE", "INTERNAL_SUPER_PREFIX", "NO_REPLACE_OBJECTS", "OBJECT_DIRECTORY", "PREFIX"),
        *("REPLACE_REF_BASE", "SHALLOW_FILE", "WORK_TREE"),
    )
)


def require(*programs: str) -> None:
    """Check that programs are installed.

    Raises:
        InfrastructureError: some are not; names them and the Debian packages to install.
    """
    missing_programs = [name for name in programs if shutil.which(name) is None]
    if missing_programs:
        packages = " ".join(dict.fromkeys(PACKAGES.get(name, name) for name in missing_programs))
        raise InfrastructureError(f"not installed: {', '.join(missing_programs)} (Debian: apt-get install {packages})")


def output(arguments: Sequence[str], *, environment: Mapping[str, str] | None = None) -> str:
    """Run a program and return what it prints.

    Raises:
        InfrastructureError: it is not installed, or it failed; the message has its last lines.
    """
    require(arguments[0])
    process = attempt(arguments, environment=environment)
    _require_success(arguments, process.returncode, process.stderr or process.stdout)
    return process.stdout


def output_bytes(arguments: Sequence[str]) -> bytes:
    """Run a program and return what it prints, as it is: text has other line ends. Raises as `output`."""
    require(arguments[0])
    process = subprocess.run(arguments, env=_environment(), stdin=subprocess.DEVNULL, capture_output=True, check=False)
    _require_success(arguments, process.returncode, process.stderr.decode(errors="replace"))
    return process.stdout


def _require_success(arguments: Sequence[str], status: int, messages: str) -> None:
    if status != 0:
        last_lines = "\n".join(messages.strip().split("\n")[-5:])
        raise InfrastructureError(f"{_command_start(arguments)} failed with status {status}: {last_lines}")


def _command_start(arguments: Sequence[str]) -> str:
    """Return the begin of a command, without the settings that `env` and git's `-c` give it."""
    plain = [word for word in arguments if "=" not in word and word not in {"env", "-c"}]
    return " ".join(plain[:4] if arguments[0] == "env" else arguments[:3])


def attempt(
    arguments: Sequence[str],
    *,
    directory: Path | None = None,
    environment: Mapping[str, str] | None = None,
    timeout_s: float | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run a program that may fail; its messages are in English.

    Raises:
        InfrastructureError: it takes longer than `timeout_s`, and was ended.
    """
    with subprocess.Popen(
        arguments,
        cwd=directory,
        env={**_environment(), **(environment or {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        errors="replace",
        process_group=None if timeout_s is None else 0,
    ) as child:
        try:
            output, errors = child.communicate(timeout=timeout_s)
        except BaseException as error:
            _kill(child, group=timeout_s is not None)
            if isinstance(error, subprocess.TimeoutExpired):
                limit = durations.format_s(error.timeout)
                message = f"{_command_start(arguments)} took longer than {limit}, and was ended"
                raise InfrastructureError(message) from None
            raise
    return subprocess.CompletedProcess(arguments, child.returncode, output, errors)


def _kill(child: subprocess.Popen[str], *, group: bool) -> None:
    """End a program, and what it has started where it is a group of its own, as make and a shell start others."""
    if not group:
        child.kill()  # which knows whether it has ended, and its number may be another program's
        return
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)


def inherited_environment() -> dict[str, str]:
    """Return this process's environment without what a hook or an alias of git says of its repository."""
    return {name: value for name, value in os.environ.items() if name not in _OF_ONE_REPOSITORY}


def _environment() -> dict[str, str]:
    # Before glibc 2.39 LANGUAGE counts beside C.UTF-8, too.
    return {**inherited_environment(), "LC_ALL": "C.UTF-8", "LANGUAGE": ""}


def die_with_parent(argv: Sequence[str], name: str = "KILL") -> list[str]:
    """Return a command line that the kernel ends with a signal when this process dies, however it dies.

    Uses `setpriv --pdeathsig` (util-linux); without it the command runs unguarded.
    """
    return ["setpriv", "--pdeathsig", name, "--", *argv] if shutil.which("setpriv") else list(argv)
