# SPDX-License-Identifier: MIT
"""Running tuxmake, and make where tuxmake has no target. The only module that knows either.

It runs as a program of its own, not as a library: it installs signal handlers and prints, and its process group can
be killed with everything that make started.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from rtgate import files, process
from rtgate.arches import ARCHES
from rtgate.errors import ConfigError, Interrupted
from rtgate.files import scratch, tidy
from rtgate.kernel import build_output, confinement
from rtgate.kernel.build_limits import LOG, MIB, BuildLimits, Watch, require_room
from rtgate.kernel.toolchain import Toolchain

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator, Mapping
    from types import FrameType

# A kernel says when, where and by whom it was built: the same every time, or no two builds would be equal.
_CONSTANTS = {
    "KBUILD_BUILD_TIMESTAMP": "Mon Jan  1 00:00:00 UTC 2024",
    "KBUILD_BUILD_USER": "rtgate",
    "KBUILD_BUILD_HOST": "rtgate",
    "KBUILD_BUILD_VERSION": "1",
    # tuxmake would put the build directory's name here, and every command line would differ between directories.
    "KCFLAGS": "",
}
# The options that need a tool whose version is in every kernel's configuration, which the image holds.
_TOOL_OPTIONS = {"RUSTC": "RUST", "PAHOLE": "DEBUG_INFO_BTF"}
# And what Kbuild asks for its version where it looks for that tool (scripts/rust_is_available.sh).
_TOOL_PROGRAMS = {"RUSTC": ("rustc", "bindgen"), "PAHOLE": ("pahole",)}
_EMPTY_BASE = "tinyconfig"
# What the caller's shell, or a make that runs rtgate, must not decide.
_UNWANTED = re.compile(
    r"MAKE.*|MFLAGS|GNUMAKEFLAGS|ARCH|SRCARCH|SUBARCH|CROSS_COMPILE.*|(HOST)?(CC|CXX|LD|AR|CFLAGS|LDFLAGS)|LLVM.*|O|V|W|C"
    r"|K(C|CPP|A)FLAGS|KBUILD_.*|KCONFIG_.*|LOCALVERSION|INSTALL_.*|TUXMAKE.*|CCACHE_(DISABLE|DIR|STATSLOG|NOSTATS)"
)
_TOOLS = ("make", "flex", "bison", "bc", "ccache", "xz", "tar")
_KILL_AFTER_S = 5.0
_INTERRUPTED = "the build was interrupted; nothing was written to the output directory"
_SCRATCH = "rtgate-scratch-"  # what the directory of temporary files begins with


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One build directory and how it is built.

    Attributes:
        log_directory: gets logs, and what tuxmake packs (modules, device trees).
        bases: make targets that the configuration starts from, in their order; or a `.config`.
        fragment: the resolved options.
        toolchain: what compiles it; make is told of it by `variables`.
        variables: of make, beside the constants.
        environment: variables of make's environment, to which the kernel's makefiles add.
        trusted: whether its code may do what this user may; else it is confined.
        limits: what it may take.
    """

    tree: Path
    build_directory: Path
    log_directory: Path
    arch: str
    bases: tuple[str, ...]
    fragment: Path
    jobs: int
    ccache_directory: Path
    toolchain: Toolchain = Toolchain.GCC
    variables: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    trusted: bool = True
    limits: BuildLimits = field(default_factory=BuildLimits)

    @property
    def package_directory(self) -> Path:
        """Where tuxmake puts what it packs."""
        return self.log_directory / "tuxmake"

    @property
    def ccache_log(self) -> Path:
        """Where ccache notes each hit and miss of this build."""
        return (self.log_directory if self.trusted else self.package_directory) / "ccache.log"

    @property
    def writable(self) -> tuple[Path, ...]:
        """What a build in confinement may write. Logs and stamps are not among it: rtgate itself writes those."""
        return (self.build_directory, self.package_directory)

    @property
    def fillable(self) -> tuple[Path, ...]:
        """What a build in confinement may fill; of one that may do what this user may, nothing is watched."""
        if self.trusted:
            return ()
        inside = self.build_directory.is_relative_to(self.tree)
        return (self.tree, self.package_directory) if inside else self.writable


def require_tools(arch: str, toolchain: Toolchain) -> None:
    """Check that everything a build starts is installed.

    Raises:
        InfrastructureError: something is missing; names the Debian packages.
    """
    process.require(*toolchain.programs(arch), *_TOOLS)


def hidden_tools(base: str, options: Container[str]) -> dict[str, str]:
    """Return make variables by which Kbuild does not find a tool that none of a build's `options` needs.

    Else the image would depend on whether it is installed: with a Rust compiler the maximum of a gate went from 53 to
    73 virtual us. What a base turns on is known of an empty one alone.
    """
    if base != _EMPTY_BASE:
        return {}
    return {tool: "/nonexistent" for tool, option in _TOOL_OPTIONS.items() if option not in options}


def tool_versions(hidden: Container[str]) -> dict[str, str]:
    """Return the versions of the programs that Kbuild may find, as no variable hides them; empty of a missing one."""
    programs = [program for tool, names in _TOOL_PROGRAMS.items() if tool not in hidden for program in names]
    return {program: _version(program) for program in programs}


def _version(program: str) -> str:
    return process.attempt([program, "--version"]).stdout.strip() if shutil.which(program) else ""


def recipe(job: Job) -> dict[str, str]:
    """Return what else decides the result: tuxmake's version, the constants, and variables of make."""
    return {"tuxmake": importlib.metadata.version("tuxmake"), **_CONSTANTS, **job.variables, **job.environment}


def run(job: Job, targets: tuple[str, ...], log: Path, watch: Callable[[str], None] = lambda _: None) -> bool:
    """Make targets (`config`, `kernel`, ...); return whether all were made.

    A `.config` that exists is kept as it is: that is how tuxmake treats a build directory it is given.

    Args:
        job: what to build where.
        targets: tuxmake's names.
        log: gets everything that is printed.
        watch: gets each line of it.

    Raises:
        BuildLimitError: it took too much, and was stopped.
        InfrastructureError: there is no room for what it may take, or nothing can run in confinement.
        Interrupted: Ctrl-C or SIGTERM; everything that was started is gone.
    """
    for directory in (job.build_directory, job.package_directory):
        directory.mkdir(parents=True, exist_ok=True)
    return _run_with_log(_command(job, targets), job, log, watch)


def make_external(job: Job, directory: Path, log: Path) -> bool:
    """Make the modules in a directory outside the tree, against what is built already; return whether all were made.

    tuxmake has no target for that, so make is called as tuxmake calls it.

    Args:
        job: the build, with its kernel.
        directory: has the sources and a Kbuild file, and gets the modules.
        log: gets everything that is printed.

    Raises:
        Interrupted: as `run`.
    """
    return _make_modules(job, job.tree, {"O": str(job.build_directory), "M": str(directory)}, log)


def make_project(job: Job, directory: Path, log: Path) -> bool:
    """Make `modules` of a project that has a makefile and finds the kernel by KDIR; as `make_external` otherwise.

    What the compiler notes of both directories is relative, so that the same bytes come out wherever they lie.
    """
    maps = [f"-ffile-prefix-map={path}=." for path in (job.build_directory, directory)]  # the last that fits counts
    words = ("ccache", job.toolchain.compiler(job.arch), *maps)
    return _make_modules(job, directory, {"KDIR": str(job.build_directory), "CC": " ".join(words)}, log)


def _make_modules(job: Job, directory: Path, variables: Mapping[str, str], log: Path) -> bool:
    arguments = {
        "ARCH": ARCHES[job.arch].kbuild,
        "CROSS_COMPILE": f"{ARCHES[job.arch].gnu}-",
        "CC": f"ccache {job.toolchain.compiler(job.arch)}",
        "HOSTCC": f"ccache {job.toolchain.host_compiler}",
        **_CONSTANTS,
        **job.variables,
        **variables,
    }
    words = [f"{name}={value}" for name, value in arguments.items()]
    return _run_with_log(["make", f"--directory={directory}", f"--jobs={job.jobs}", *words, "modules"], job, log)


def _run_with_log(command: list[str], job: Job, log: Path, watch: Callable[[str], None] = lambda _: None) -> bool:
    job.ccache_directory.mkdir(parents=True, exist_ok=True)
    with (
        _terminate_interrupts(),
        log.open("w", encoding="utf-8") as file,
        # What is killed leaves its temporary files, tuxmake's metadata scripts for example.
        scratch(_temporary(job), _SCRATCH) as place,
    ):
        variables = {**_environment(job), "TMPDIR": str(place)}
        places = (*job.fillable, *(() if job.trusted else (place,)))
        require_room(places, job.limits)
        if not job.trusted:
            variables = confinement.environment(variables)
            trial = [sys.executable, "-P", "-c", "import tuxmake"]
            try:
                confinement.require_trial(_confine(trial, job, place), job.log_directory, variables)
            except KeyboardInterrupt:
                raise Interrupted(_INTERRUPTED) from None
        process = subprocess.Popen(
            command if job.trusted else _confine(command, job, place),
            cwd=job.log_directory,
            env=variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        limit = Watch(job.limits, places, lambda: _kill(process, signal.SIGKILL))
        thread = threading.Thread(target=limit.follow, daemon=True)
        thread.start()
        try:
            _copy(process, file, watch, limit)
            success = process.wait() == 0
        except KeyboardInterrupt:
            raise Interrupted(_INTERRUPTED) from None
        finally:
            limit.end()
            _end(process)
            thread.join()
        limit.check()
        return success


def remove_stale_files(job: Job) -> None:
    """Remove the temporary files of builds that were killed, also where nothing is left to compile."""
    tidy(_temporary(job), _SCRATCH)


def _temporary(job: Job) -> Path:
    return Path(tempfile.gettempdir()) if job.trusted else job.log_directory


def _copy(process: subprocess.Popen[bytes], log: TextIO, watch: Callable[[str], None], limit: Watch) -> None:
    """Write what a build prints to its log, up to what a log may hold."""
    length = 0
    for line in build_output.lines(process):
        if length > LOG:
            limit.give_up(f"printed more than {LOG / MIB:.0f} MiB")
            return
        log.write(line)
        length += len(line)
        watch(line)


def _confine(command: list[str], job: Job, place: Path) -> list[str]:
    # Scripts of Kconfig write beside the sources. A tree that the build directory is in is a copy, made for this build.
    copy = job.build_directory.is_relative_to(job.tree)
    return confinement.confine(
        ["prlimit", f"--fsize={job.limits.disk}", "--core=0", "--", *command],
        readable=(*(() if copy else (job.tree,)), job.ccache_directory, job.fragment),
        writable=(*((job.tree,) if copy else ()), *job.writable, place),
        directory=job.log_directory,
    )


def _command(job: Job, targets: tuple[str, ...]) -> list[str]:
    environment = [f"--environment={name}={value}" for name, value in {**_CONSTANTS, **job.environment}.items()]
    return [
        *(sys.executable, "-P", "-m", "tuxmake", "--color=never", "--verbose", "--fail-fast"),
        f"--directory={job.tree}",
        f"--build-dir={job.build_directory}",
        f"--output-dir={job.package_directory}",
        f"--target-arch={ARCHES[job.arch].kbuild}",
        "--runtime=null",
        "--wrapper=ccache",
        f"--toolchain={job.toolchain}",
        f"--jobs={job.jobs}",
        f"--kconfig={job.bases[0]}",
        *(f"--kconfig-add=make:{name}" for name in job.bases[1:]),
        f"--kconfig-add={job.fragment}",
        f"--kernel-image={ARCHES[job.arch].image}",
        *environment,
        *(f"{name}={value}" for name, value in job.variables.items()),
        *targets,
        # Of a kernel before 4.20 that makes what `dtbs` leaves out; of others it makes nothing.
        *(["dtbs-legacy"] if "dtbs" in targets else []),
    ]


def _environment(job: Job) -> dict[str, str]:
    inherited = process.inherited_environment()
    return {
        **{name: value for name, value in inherited.items() if not _UNWANTED.fullmatch(name)},
        "CCACHE_DIR": str(job.ccache_directory),
        "CCACHE_STATSLOG": str(job.ccache_log),
        "LC_ALL": "C.UTF-8",
        "PYTHONUNBUFFERED": "1",  # or progress would arrive in blocks
    }


def _kill(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, number)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill what is left of the process group: make's children outlive make."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        _kill(process, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_KILL_AFTER_S)
    if process.stdout is not None:
        process.stdout.close()


@contextlib.contextmanager
def _terminate_interrupts() -> Iterator[None]:
    """Treat SIGTERM (a cancelled CI job) as Ctrl-C, so that the build's processes end too."""
    if threading.current_thread() is not threading.main_thread():
        yield  # Python allows handlers in the main thread only
        return

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    previous = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)


def ccache_counts(job: Job) -> tuple[int, int]:
    """Return hits and misses of ccache since its log was deleted."""
    try:
        lines = files.read_bytes(job.ccache_log, files.RAW_LIMIT).decode(errors="replace").split("\n")
    except (FileNotFoundError, ConfigError):  # a build that nobody has read may write what it likes there
        return 0, 0
    return sum(line in {"direct_cache_hit", "preprocessed_cache_hit"} for line in lines), lines.count("cache_miss")
