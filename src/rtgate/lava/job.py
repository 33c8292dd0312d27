# SPDX-License-Identifier: MIT
"""Job definitions: from typed data and a template of `lava-jobs/` to the YAML that a LAVA server takes.

A definition is built as data and dumped; nothing is ever pasted into YAML, Jinja or a shell. What may come from a merge
request (names, metadata, URLs, the kernel's identity) is checked or escaped here, because LAVA itself hands parts of it
to a boot loader's prompt and to shells: the last part of a URL is typed as `tftp ADDRESS NAME`.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from rtgate.boards import FAMILIES, Board, Lava
from rtgate.errors import ConfigError
from rtgate.lava import template
from rtgate.lava.template import Template
from rtgate.strict_yaml import dump

ARMS = ("baseline", "candidate")
PRIORITIES = ("high", "medium", "low")
TRANSPORTS = ("docker", "board")
DISCONNECT = (2026, 1)  # the server from which `disconnect_connection` exists; older ones ignore it without a word
OVERLAYS = (2024, 9)  # the server from which U-Boot's template loads device-tree overlays
_LONGEST_NAME = 200  # LAVA's limit
_LONGEST_VALUE = 2000
# LAVA polls the console that the test uses and reads at most 4 KiB each time; at its 10 s a line would fill up.
_POLL_S = 1
_SPARE_S = 300  # scheduling, power, the end of a job
_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
_IMAGE = re.compile(r"[a-z0-9]+[a-z0-9._/-]*[a-z0-9]+(?::[a-zA-Z0-9_]+[a-zA-Z0-9._-]*)?")  # LAVA's own rule
_URL = re.compile(r"(?:https?|file|scp)://[A-Za-z0-9._~:/?&=%@+,\[\]-]+")
_FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*")
_ARGUMENTS = re.compile(r"[A-Za-z0-9 _.,:;@%+/=#-]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Files:
    """URLs of what one arm boots.

    Attributes:
        kernel: `Image`, `bzImage`, or Android's boot image.
        overlays: device-tree overlays, for servers that can load them.
        modules: a tar archive that LAVA unpacks into the root filesystem.
    """

    kernel: str
    ramdisk: str | None
    dtb: str | None = None
    overlays: tuple[str, ...] = ()
    modules: str | None = None
    nfsroot: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobArm:
    """One kernel of the comparison: `baseline` or `candidate`; `identity` is JSON of `record.KernelIdentity`."""

    name: str
    files: Files
    identity: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRequest:
    """What a job should do.

    Attributes:
        boots: the arm of each boot, in order: `("baseline", "candidate", "candidate", "baseline")`.
        priority: `high`, `medium`, `low`, or a number from 0 to 100 as text.
        visibility: `public`, `personal`, or `group:NAME`.
        metadata: merge request, commit, pipeline, seed, and `rtgate.nonce`, by which a submission is found again.
        transport: `docker`, pytest on the worker; `board`, LAVA's test shell on the board itself.
        image: of the container on the worker; empty for rtgate's own of this version.
        upload: a URL to which records are sent as well.
        server: the LAVA server's version; keys that it does not know are left out.
        family: what the kernels were made from, which decides the console's name.
        test_s: seconds that the tests of one boot may take.
        steps: lines of the test shell by boot, for the transport `board`.
    """

    name: str
    board: Board
    arms: tuple[JobArm, ...]
    boots: tuple[str, ...]
    suites: tuple[str, ...]
    profile: str
    tuning: str = "default"
    priority: str = "medium"
    tags: tuple[str, ...] = ()
    visibility: str = "public"
    metadata: Mapping[str, str] = field(default_factory=dict)
    transport: str = "docker"
    image: str = ""
    upload: str | None = None
    server: tuple[int, int] = (2023, 1)
    family: str = "mainline"
    test_s: int = 1800
    steps: tuple[tuple[str, ...], ...] = ()


def render(request: JobRequest) -> str:
    """Return the job's definition as YAML.

    Raises:
        ConfigError: the board cannot be booted by LAVA, a file is missing that its way of booting needs, or a value has
            characters that must not reach a boot loader or a shell.
    """
    raise NotImplementedError
