# SPDX-License-Identifier: MIT
"""Configuring one kernel, and refusing a configuration that lacks what was asked."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

from rtgate import files
from rtgate.kernel import artefacts, kconfig, tuxmake
from rtgate.kernel.configuration import (
    LostOption,
    LostOptionsError,
    lost_options,
    parse_config,
    read_config,
    unrequested_options,
)
from rtgate.kernel.fragments import UNSET
from rtgate.kernel.make import make

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rtgate.kernel.fragments import Option
    from rtgate.kernel.work import Listener, Work


CONFIG_LOG = "config.log"


def configure_if_needed(work: Work, listener: Listener) -> None:
    """Configure again only when Kconfig would decide anew: it costs more than compiling one file."""
    stamp = work.job.log_directory / "configured"
    config = work.job.build_directory / ".config"
    inputs = _kconfig_inputs(work)
    if config.is_file() and stamp.is_file() and stamp.read_text() == inputs + artefacts.sha256(config):
        return
    listener.notice(f"configuring {work.description.name} for Linux {work.tree.version}")
    stamp.unlink(missing_ok=True)
    configure(work)
    if differences := kernel_fragment_differences(work):
        listener.notice(f"not as the kernel's own fragments ask: {', '.join(differences)}")
    stamp.write_text(inputs + artefacts.sha256(config))


def _kconfig_inputs(work: Work) -> str:
    tree = work.tree.path
    recipe = json.dumps(tuxmake.recipe(work.job))
    state = hashlib.sha256(f"{' '.join(work.job.bases)}\0{work.toolchain_versions}\0{recipe}\n".encode())
    for option in work.requested_options.values():
        state.update(f"{option.line}\n".encode())
    scripts = (tree / "Makefile", tree / "scripts/Kconfig.include", *(tree / "kernel/configs").glob("*"))
    arch = tree / "arch" / work.kconfig_sources.source_arch
    for path in (*work.kconfig_sources.files(), *scripts, arch / "Makefile", *(arch / "configs").glob("*")):
        if path.is_file():
            status = path.stat()
            state.update(f"{path}\0{status.st_size}\0{status.st_mtime_ns}\n".encode("utf-8", "surrogateescape"))
    return state.hexdigest()


def configure(work: Work) -> None:
    """Let Kconfig decide the configuration, from its base and what is asked. Raises as `make`."""
    job = work.job
    job.log_directory.mkdir(parents=True, exist_ok=True)
    job.fragment.write_text("".join(f"{option.line}\n" for option in work.requested_options.values()), encoding="utf-8")
    (job.build_directory / ".config").unlink(missing_ok=True)  # tuxmake keeps one that exists
    make(work, ("config",), job.log_directory / CONFIG_LOG)


def kernel_fragment_differences(work: Work) -> list[str]:
    """Return what came out otherwise than the kernel's own fragments ask, but for options that ours ask."""
    options: dict[str, str] = {}
    for path in work.description.kernel_fragment_files(work.tree.path):
        text = files.read_bytes(path, files.JSON_LIMIT).decode("utf-8", errors="replace")
        options |= parse_config("\n".join(line.strip() for line in text.splitlines()))
    config = read_config(work.job.build_directory / ".config")
    return [
        f"CONFIG_{symbol} (asked {value}, found {config.get(symbol, UNSET)})"
        for symbol, value in options.items()
        if symbol not in work.requested_options and config.get(symbol, UNSET) != value
    ]


def lost_from(
    work: Work, scan: Callable[[kconfig.Sources], kconfig.Definitions] = kconfig.scan
) -> tuple[LostOption, ...]:
    """Return what was asked and is not in the configuration, with reasons from what `scan` reads."""
    config = read_config(work.job.build_directory / ".config")
    sources = work.kconfig_sources
    return lost_options(work.requested_options, work.description.optional, config, lambda: scan(sources))


def unrequested_from(work: Work, scan: Callable[[kconfig.Sources], kconfig.Definitions]) -> tuple[Option, ...]:
    """Return what is asked of other kernel versions alone, and is not in this configuration though it could be."""
    config = read_config(work.job.build_directory / ".config")
    sources = work.kconfig_sources
    return unrequested_options(work.description, work.tree.version, config, lambda: scan(sources))


def refuse_lost(work: Work) -> None:
    """Raise LostOptionsError where the configuration lacks what was asked."""
    options = lost_from(work)
    if options:
        raise LostOptionsError(options, work.source.path, series_hint(work, options))


def series_hint(work: Work, options: Sequence[LostOption]) -> str:
    """Return which RT series of the vendor's a kernel needs, for an error; empty where it did not lose PREEMPT_RT."""
    base = work.description.series_base(work.source.version)
    real_time = any(option.option.symbol.startswith("PREEMPT_RT") for option in options)
    return f" (PREEMPT_RT comes with an RT series, see --patches: {base})" if base and real_time else ""
