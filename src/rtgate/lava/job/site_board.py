# SPDX-License-Identifier: MIT
"""A site's own board inside a job: a container image has rtgate's boards only, so its description goes with the job."""

from __future__ import annotations

import base64

from rtgate import site
from rtgate.board.boards import Board
from rtgate.errors import ConfigError

_TREE = "/tmp/rtgate-site"  # noqa: S108 - in a container that this job alone has


def steps(board: Board) -> tuple[str, ...]:
    """Return what a test's shell does first so that rtgate knows the board there; nothing for a shipped one.

    The board's file is written as a kernel repository's, with the files that it names where these are the site's, too.

    Raises:
        ConfigError: a file cannot be read.
    """
    if board.path.is_relative_to(site.shipped_directory()):
        return ()
    references = [("boards", board.name), ("kernel-configs", board.build), ("target/rootfs", board.rootfs)]
    references += [("kernel-configs", board.qemu.drivers)] if board.qemu else []
    references += [("lava-jobs", board.lava.boot)] if board.lava else []
    paths = {(kind, name): site.find(kind, f"{name}.yaml") for kind, name in references if name}
    own = {place: path for place, path in paths.items() if not path.is_relative_to(site.shipped_directory())}
    commands = [f"export RTGATE_TREE={_TREE}"]
    for (kind, name), path in own.items():
        directory = f"{_TREE}/.rtgate/{kind}"
        try:
            content = base64.b64encode(path.read_bytes()).decode()
        except OSError as error:
            raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
        commands += [f"mkdir -p {directory}", f"echo {content} | base64 -d >{directory}/{name}.yaml"]
    return tuple(commands)
