# SPDX-License-Identifier: MIT
"""Making targets of a kernel, and what it means when make fails."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rtgate.errors import InfrastructureError, RtgateError
from rtgate.kernel import build_log, publish, tuxmake
from rtgate.kernel.build_limits import is_full

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from rtgate.kernel.work import Work


def make(work: Work, targets: tuple[str, ...], log: Path, watch: Callable[[str], None] = lambda _: None) -> None:
    """Make targets in the build directory; as `tuxmake.run`, which raises, too.

    Raises:
        BuildError: make fails; says where, as the log tells.
        InfrastructureError: the disk is full.
    """
    success = tuxmake.run(work.job, targets, log, watch)
    if not work.job.trusted:
        publish.require_own_files(work)
    if not success:
        raise _failure(work, log)


def _failure(work: Work, log: Path) -> RtgateError:
    if is_full(work.job.fillable):
        return InfrastructureError(f"the disk of {work.job.build_directory} is full: make room (log: {log})")
    return build_log.failure(log, work.tree.path, title=str(work.source.path), trusted=work.job.trusted)
