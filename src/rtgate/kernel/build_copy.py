# SPDX-License-Identifier: MIT
"""A run's own copy of a kernel build, so that a verdict is about one kernel whoever writes the original meanwhile.

A copy lies below the cache, in a directory that only this user may enter, and is gone when the process ends. While the
process lives it holds a lock on it; what one that was killed has left, nobody holds, and the next run removes it.
"""

from __future__ import annotations

import atexit
import os
import shutil
from contextlib import AbstractContextManager
from pathlib import Path

from rtgate import site
from rtgate.errors import ConfigError, InfrastructureError
from rtgate.files import scratch
from rtgate.kernel import artefacts
from rtgate.kernel.artefacts import KernelBuild

_made: dict[tuple[Path, str, str], KernelBuild] = {}


def pin_kernel(directory: Path) -> KernelBuild:
    """Return a kernel build as files that nobody else writes; the directory's name stays.

    What is such a copy already is returned as it is: a gate's suites measure the copy that the gate has made.

    Raises:
        ConfigError: there is no kernel, or a file of it is missing or has changed since it was built.
        InfrastructureError: it changes while it is copied, or there is no room for the copy.
    """
    directory, store = directory.absolute(), _store()
    original = artefacts.load(directory)
    if directory.parent.parent == store:
        return original
    key = (directory, original.image_sha256, original.inputs or "")
    existing_copy = _made.get(key) if original.inputs else None
    if existing_copy is not None:
        return existing_copy
    try:
        copy = _place(store) / (directory.resolve() if directory.name == ".." else directory).name
        _copy(original, copy)
        new_copy = artefacts.load(copy)
    except (OSError, ConfigError) as error:
        raise InfrastructureError(f"{directory} cannot be copied into {store}: {error}") from error
    if new_copy.image_sha256 != original.image_sha256:
        raise InfrastructureError(f"{directory} changed while it was copied: wait for whoever builds there")
    _made[key] = new_copy
    return new_copy


def _store() -> Path:
    return site.cache().absolute() / "pinned"


def _copy(build: KernelBuild, copy: Path) -> None:
    copy.mkdir()
    paths = (build.image, build.config, build.system_map, build.vmlinux, build.modules, build.dtbs)
    for path in (build.directory / "build.json", *paths):
        if path is not None and path.is_file():
            # Not a link: who rewrites the original in place would rewrite this.
            shutil.copyfile(path, copy / path.name)
            (copy / path.name).chmod(0o444)


def _place(store: Path) -> Path:
    """Return a new directory that is removed when this process ends, or by whoever comes after it was killed."""
    context = scratch(store, "run-")
    atexit.register(_remove, context, os.getpid())
    return context.__enter__()


def _remove(context: AbstractContextManager[Path], owner: int) -> None:
    if os.getpid() == owner:  # not in a child that was forked: the copy is its parent's
        context.__exit__(None, None, None)
