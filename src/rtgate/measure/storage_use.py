# SPDX-License-Identifier: MIT
"""What a case's plan does with the board's storage, when one of its tools overwrites that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rtgate.board.storage import Storage
from rtgate.errors import ConfigError
from rtgate.target import storage as on_target
from rtgate.target.storage import Use
from rtgate.tools import DestructiveTool, Setting, Tool
from rtgate.tools.needs import NEVER, Need
from rtgate.validity.plan_files import text


def use(tools: Sequence[Tool], setting: Setting) -> Use | None:
    """Return what is done with the storage; None without a tool that overwrites it, or without storage.

    Raises:
        ConfigError: two tools want it.
    """
    writers = [tool for tool in tools if isinstance(tool, DestructiveTool)]
    if len(writers) > 1:
        raise ConfigError(f"both {writers[0].name} and {writers[1].name} overwrite the board's storage: choose one")
    if not writers or setting.storage is None:
        return None
    size, fill = writers[0].file_bytes(setting), writers[0].fill(setting)
    return Use(storage=setting.storage, size=size, fill=fill, directory=setting.directory)


def needs(tools: Sequence[Tool], setting: Setting, board: str) -> tuple[Need, ...]:
    """Return what the target must have for its storage; if the board's file names none, what no target has."""
    if not any(isinstance(tool, DestructiveTool) for tool in tools):
        return ()
    if setting.storage is None:
        return (Need(test=NEVER, reason=f"{board}.yaml names no NVMe storage that is free to overwrite (nvme:)"),)
    return on_target.needs(setting.storage)


def describe(files: Mapping[str, bytes], storage: Storage | None) -> str:
    """Return which storage was used and how: the disk as it names itself, file system, engine and scheduler."""
    disk = text(files, "storage").partition("\n")[0]
    if not disk or storage is None:
        return ""
    scheduler = f", {storage.scheduler}" if storage.scheduler else ""
    return f"{disk}, {storage.overwrite.value}, {storage.file_system.value}, {storage.engine}{scheduler}"
