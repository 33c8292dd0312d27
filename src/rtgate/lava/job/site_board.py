# SPDX-License-Identifier: MIT
"""A site's own board inside a job: a container image has rtgate's boards, so its description goes with the job.

An image may have a site directory, too (`ci/image/rtgate`), with a copy of the board's file that is older than the
job's. Of all places a site directory is searched first, so the job's files are put into a copy of it.
"""

from __future__ import annotations

import base64

from rtgate import site
from rtgate.board.boards import Board
from rtgate.errors import ConfigError

_SITE = "/tmp/rtgate-site"  # noqa: S108 - in a container that this job alone has
_IMAGE_SITE = "${RTGATE_SITE:-/usr/share/rtgate/site}"  # as the image's `rtgate` has it


def steps(board: Board) -> tuple[str, ...]:
    """Return what a test's shell does first so that rtgate knows the board there; nothing for a shipped one.

    The board's file is written into a site directory, with the files that it names where these are the site's, too.

    Raises:
        ConfigError: a file cannot be read.
    """
    if board.path.is_relative_to(site.shipped_directory()):
        return ()
    references = [("boards", board.name), ("kernel-configs", board.build), ("target/rootfs", board.rootfs)]
    references += [("kernel-configs", tuning.build) for tuning in board.tunings.values()]
    references += [("kernel-configs", board.qemu.drivers)] if board.qemu else []
    references += [("lava-jobs", board.lava.boot)] if board.lava else []
    paths = {(kind, name): site.find(kind, f"{name}.yaml") for kind, name in references if name}
    own = {place: path for place, path in paths.items() if not path.is_relative_to(site.shipped_directory())}
    commands = [
        f"rm -rf {_SITE}",
        f"mkdir {_SITE}",
        f'if [ -d "{_IMAGE_SITE}" ]; then cp -R "{_IMAGE_SITE}/." {_SITE}; fi',
        f"export RTGATE_SITE={_SITE}",
    ]
    for (kind, name), path in own.items():
        directory = f"{_SITE}/{kind}"
        try:
            content = base64.b64encode(path.read_bytes()).decode()
        except OSError as error:
            raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
        commands += [f"mkdir -p {directory}", f"echo {content} | base64 -d >{directory}/{name}.yaml"]
    return tuple(commands)
