# SPDX-License-Identifier: MIT
"""Job definitions: from typed data and a template of `lava-jobs/` to the YAML that a LAVA server takes.

A definition is built as data and dumped; nothing is ever pasted into YAML, Jinja or a shell. What may come from a merge
request (names, metadata, URLs, the kernel's identity) is checked or escaped here, because LAVA itself hands parts of it
to a boot loader's prompt and to shells: the last part of a URL is typed as `tftp ADDRESS NAME`.
"""

from __future__ import annotations

import base64
import json
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from rtgate import __version__
from rtgate.board.boards import Board, Lava
from rtgate.board.families import FAMILIES
from rtgate.errors import ConfigError
from rtgate.lava.job import site_board, template
from rtgate.lava.job.template import Template
from rtgate.lava.job.urls import UPLOAD_TOKEN, file_url, storage_url, suffix
from rtgate.strict_yaml import dump

ARMS = ("baseline", "candidate")
PRIORITIES = ("high", "medium", "low")
DISCONNECT = (2026, 1)  # the server from which `disconnect_connection` exists; of older ones only a strict check minds
_LONGEST_NAME = 200  # LAVA's limit
_LONGEST_VALUE = 2000
# LAVA polls the console that the test uses and reads at most 4 KiB each time; at its 10 s a line would fill up.
_POLL_S = 1
# LAVA ends a boot at "end Kernel panic", which only a kernel prints that stays; otherwise it waits for its deadline.
_STAYS = "panic=0"
_LIMITS = "/tmp/rtgate-limits.yaml"  # noqa: S108 - in a container that this job alone has
_SPARE_S = 300  # scheduling, power, the end of a job
_COMPRESSIONS = {"gz": "gz", "xz": "xz", "bz2": "bz2", "zst": "zstd"}
_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
_IMAGE = re.compile(r"[a-z0-9]+[a-z0-9._/-]*[a-z0-9]+(?::[a-zA-Z0-9_]+[a-zA-Z0-9._-]*)?")  # LAVA's own rule
_ARGUMENTS = re.compile(r"[A-Za-z0-9 _.,:;@%+/=#-]*")


class Transport(StrEnum):
    """Where the tests of a job run."""

    DOCKER = "docker"  # pytest, in a container on the worker
    BOARD = "board"  # plans, in LAVA's test shell on the board itself


@dataclass(frozen=True, slots=True, kw_only=True)
class Files:
    """URLs of what one arm boots.

    Attributes:
        kernel: `Image`, `bzImage`, or Android's boot image.
        modules: a tar archive that LAVA unpacks into the root filesystem.
        digests: SHA-256 by the name of the file, of those that are known: the worker refuses to boot others.
    """

    kernel: str
    ramdisk: str | None = None
    dtb: str | None = None
    modules: str | None = None
    nfsroot: str | None = None
    digests: Mapping[str, str] = field(default_factory=dict)

    @property
    def urls(self) -> dict[str, str]:
        """URLs by the name of the file, of those that there are."""
        return {name: url for name in template.FILES if (url := getattr(self, name))}


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
        image: of the container on the worker; empty for rtgate's own of this version.
        upload: a URL to which records are sent as well.
        server: the LAVA server's version; keys that it does not know are left out.
        family: what the kernels were made from, which decides the console's name.
        test_s: seconds that the tests of one boot may take.
        cases: the only ones that are measured, by name; empty for all of the suites.
        steps: lines of the test shell by boot: what the transport `board` needs; else in place of `rtgate in-job`.
        limits: the text of a limits file, by which cases are judged inside the job; empty for those of the image.
        opening: lines that the test of each boot begins with, by boot; empty for none.
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
    transport: Transport = Transport.DOCKER
    image: str = ""
    upload: str | None = None
    server: tuple[int, int] = (2023, 1)
    family: str = "mainline"
    test_s: int = 1800
    cases: tuple[str, ...] = ()
    steps: tuple[tuple[str, ...], ...] = ()
    limits: str = ""
    opening: tuple[tuple[str, ...], ...] = ()


def render(request: JobRequest) -> str:
    """Return the job's definition as YAML. Raises ConfigError as `data`."""
    return dump(data(request))


def data(request: JobRequest) -> dict[str, Any]:
    """Return the job's definition.

    Raises:
        ConfigError: LAVA cannot boot the board or cannot measure on it by this transport, a file is missing that its
            way of booting needs, or a value has characters that must not reach a boot loader or a shell.
    """
    lava = lava_of(request.board)
    _check(request)
    way = template.find(lava.boot)
    if request.transport is Transport.BOARD and way.why_no_test_shell:
        # The job would wait in vain for the shell, and that looks like a kernel that hangs.
        raise ConfigError(f"{request.board.path}: {request.board.name} boots by {way.name}: {way.why_no_test_shell}")
    arms = {arm.name: arm for arm in request.arms}
    actions: list[dict[str, object]] = []
    for number, name in enumerate(request.boots, 1):
        actions += _one_boot(request, way, arms[name], number)
    return {
        "job_name": printable(request.name, _LONGEST_NAME),
        "device_type": lava.device_type,
        **({"tags": [_word("tag", tag) for tag in request.tags]} if request.tags else {}),
        "priority": _priority(request.priority),
        "visibility": _visibility(request.visibility),
        "timeouts": _timeouts(request, way),
        **_context(request, lava),
        "metadata": {_word("metadata key", key): printable(text) for key, text in request.metadata.items()},
        "actions": actions,
    }


def lava_of(board: Board) -> Lava:
    """Return how LAVA boots a board. Raises ConfigError for a board that no lab has."""
    if board.lava is None:
        raise ConfigError(
            f"{board.path}: {board.name} has no `lava:`, so no lab can boot it (what a lab has: rtgate lab-check)"
        )
    return board.lava


def console_device(board: Board, family: str) -> str:
    """Return the name of the console's device under a kernel of this family."""
    return lava_of(board).consoles.get(family, board.console.device)


def one_console(board: Board) -> bool:
    """Return whether the console's device has the same name under every kernel."""
    return len({console_device(board, family) for family in FAMILIES}) == 1


def family_of(config: str) -> str:
    """Return what a kernel was made from, by the text of its `.config`: only the vendor's tree has the FIQ debugger."""
    return "bsp" if re.search(r"^CONFIG_FIQ_DEBUGGER=y$", config, re.MULTILINE) else "mainline"


def printable(text: str, longest: int = _LONGEST_VALUE) -> str:
    """Return a text of anybody's as one that may stand in a definition: no control characters, not too long."""
    clean = "".join(letter if letter.isprintable() else "?" for letter in text.encode(errors="replace").decode())
    return clean if len(clean) <= longest else f"{clean[: longest - 3]}..."


def _check(request: JobRequest) -> None:
    _check_arms(request)
    request.board.tuning(request.tuning)
    if not request.suites:
        raise ConfigError("a job without suites measures nothing: name one with --suite")
    for what, values in (("suite", request.suites), ("profile", (request.profile,)), ("board", (request.board.name,))):
        for value in values:
            _word(what, value)
    if request.family not in FAMILIES:
        raise ConfigError(f"unknown kernel family {request.family!r} (allowed: {', '.join(FAMILIES)})")
    if len(request.steps) != len(request.boots) and (request.steps or request.transport is Transport.BOARD):
        raise ConfigError(
            f"transport board needs a script for each boot: {len(request.boots)} boots, {len(request.steps)} scripts"
        )
    if request.upload is not None:
        storage_url(request.upload, "--upload", UPLOAD_TOKEN)


def _check_arms(request: JobRequest) -> None:
    names = [arm.name for arm in request.arms]
    if len(set(names)) != len(names) or not set(names) <= set(ARMS):
        raise ConfigError(f"a job's kernels are {' and '.join(ARMS)}, each at most once; found: {', '.join(names)}")
    if not request.boots or set(request.boots) != set(names):
        boots, kernels = ", ".join(request.boots) or "none", ", ".join(names) or "none"
        raise ConfigError(f"the boots ({boots}) do not use the kernels ({kernels}) exactly")


def _one_boot(request: JobRequest, way: Template, arm: JobArm, number: int) -> list[dict[str, object]]:
    files = _files(way, arm)
    lava = lava_of(request.board)
    # The container brings its own copy of what a test needs, so the board's files stay as they were built.
    deploy = way.deploy({**files, "overlay": request.transport is Transport.BOARD})
    _add_digests(deploy, {files[name]: digest for name, digest in arm.files.digests.items() if name in files})
    boot = way.boot(files)
    boot["prompts"] = [lava.prompt]
    if login := lava.login:
        password = {"password_prompt": "[Pp]assword:", "password": login.password} if login.password else {}
        boot["auto_login"] = {"login_prompt": "login:", "username": login.user, **password}
    return [{"deploy": deploy}, {"boot": boot}, {"test": _test(request, arm, number)}]


def _add_digests(block: dict[str, object], digests: Mapping[object, str]) -> None:
    """Add the SHA-256 of each file, by its URL, wherever a way of booting has it: a block may lie in another one."""
    for entry in block.values():
        if isinstance(entry, dict):
            if digest := digests.get(entry.get("url")):
                entry["sha256sum"] = digest
            _add_digests(entry, digests)


def _files(way: Template, arm: JobArm) -> dict[str, object]:
    urls = arm.files.urls
    for name in way.required:
        if name not in urls:
            raise ConfigError(f"{arm.name}: booting by {way.name} needs a {name}, and none is given ({way.path})")
    _check_ramdisk(arm.files.ramdisk)
    names = [name for name in template.FILES if name in {*way.required, *way.optional}]
    for name in urls:
        if name not in names:
            raise ConfigError(f"{arm.name}: booting by {way.name} has no use for a {name} ({way.path})")
    files: dict[str, object] = {name: file_url(urls[name], name) if name in urls else None for name in names}
    return {**files, **{f"{name}_compression": _compression(name, urls.get(name)) for name in names}}


def _check_ramdisk(url: str | None) -> None:
    """Raise ConfigError for a ramdisk that LAVA cannot unpack; it does that even when it has nothing to add."""
    if url and suffix(url) not in {*_COMPRESSIONS, "cpio"}:
        raise ConfigError(
            f"{url!r} does not say how it is compressed, and LAVA unpacks it "
            f"(allowed: .cpio, .{', .'.join(_COMPRESSIONS)})"
        )


def _compression(name: str, url: str | None) -> str | None:
    """Return how a file is compressed, in LAVA's words. Raises ConfigError for an archive that does not tell."""
    ending = suffix(url) if url else ""
    if url and ending not in _COMPRESSIONS and name in {"modules", "nfsroot"}:
        raise ConfigError(f"{url!r} does not end in the name of a compression (allowed: {', '.join(_COMPRESSIONS)})")
    return _COMPRESSIONS.get(ending)


def _test(request: JobRequest, arm: JobArm, number: int) -> dict[str, object]:
    name = f"rtgate-{number}-{arm.name}"
    docker = request.transport is Transport.DOCKER
    begins = site_board.steps(request.board) if docker else ()
    opening = request.opening[number - 1] if request.opening else ()
    own = request.steps[number - 1] if request.steps else (*_limits(request), _in_job(request, arm, number))
    definition = {
        "metadata": {
            "format": "Lava-Test Test Definition 1.0",
            "name": name,
            "description": f"boot {number}: {arm.name}",
        },
        "run": {"steps": [*begins, *opening, *own]},
    }
    block: dict[str, object] = {"timeout": {"seconds": request.test_s}}
    if docker:
        block["docker"] = {"image": image_name(request.image), "local": True}
        if request.server >= DISCONNECT:
            block["disconnect_connection"] = True
    path = f"inline/{name}.yaml"
    block["definitions"] = [{"from": "inline", "name": name, "path": path, "repository": definition}]
    return block


def _limits(request: JobRequest) -> tuple[str, ...]:
    """Return what writes the limits, with which the container's image may not have been built.

    What stands in a heredoc is not printed by `set -x`, which LAVA has switched on.
    """
    if not request.limits:
        return ()
    payload = base64.encodebytes(request.limits.encode()).decode().strip()
    return (f"base64 -d >{_LIMITS} <<'RTGATE_LIMITS'\n{payload}\nRTGATE_LIMITS",)


def _in_job(request: JobRequest, arm: JobArm, number: int) -> str:
    words = ["rtgate", "in-job", "--board", request.board.name, "--arm", arm.name, "--boot", str(number)]
    words += ["--suite", ",".join(request.suites), "--profile", request.profile, "--tuning", request.tuning]
    words += [word for case in request.cases for word in ("--case", case)]
    words += ["--thresholds", _LIMITS] if request.limits else []
    words += ["--compared"] if len(request.arms) > 1 else []
    if request.upload:
        words += ["--upload", request.upload]
    return f"RTGATE_KERNEL='{_identity(arm)}' {shlex.join(words)}"


def _identity(arm: JobArm) -> str:
    """Return the kernel's identity as JSON that neither a shell nor a reader of LAVA's signals can take for more."""
    try:
        identity = json.loads(arm.identity)
    except ValueError as error:
        raise ConfigError(f"{arm.name}: the kernel's identity is not JSON: {error}") from error
    if not isinstance(identity, dict):
        raise ConfigError(f"{arm.name}: the kernel's identity is not a JSON object")
    # Outside of texts JSON has only the letters that are left alone here, so each other one may become an escape.
    return re.sub(r'[^A-Za-z0-9_ .,:;@%+=/{}\[\]"\\-]', lambda match: f"\\u{ord(match[0]):04x}", json.dumps(identity))


def _timeouts(request: JobRequest, way: Template) -> dict[str, object]:
    timeouts = way.timeouts()
    whole = _SPARE_S + len(request.boots) * (way.seconds() + request.test_s)
    minutes = -(-whole // 60)
    if request.transport is Transport.DOCKER:
        connections = timeouts.setdefault("connections", {})
        assert isinstance(connections, dict)
        connections.setdefault("lava-docker-test-shell", {"seconds": _POLL_S})
    return {"job": {"minutes": minutes}, **timeouts}


def _context(request: JobRequest, lava: Lava) -> dict[str, object]:
    own = (_STAYS, request.board.command_line, request.board.tuning(request.tuning).command_line)
    arguments = " ".join(filter(None, own))
    if not _ARGUMENTS.fullmatch(arguments):
        raise ConfigError(f"{request.board.path}: kernel arguments {arguments!r}: a boot loader reads more in them")
    context = {"console_device": lava.consoles.get(request.family, ""), "extra_kernel_args": arguments}
    context = {name: text for name, text in context.items() if text}
    return {"context": context} if context else {}


def _priority(text: str) -> str | int:
    if text in PRIORITIES:
        return text
    if re.fullmatch(r"[0-9]{1,3}", text) and int(text) <= 100:
        return int(text)
    raise ConfigError(f"unknown priority {text!r} (allowed: {', '.join(PRIORITIES)}, 0 to 100)")


def _visibility(text: str) -> str | dict[str, list[str]]:
    if text in {"public", "personal"}:
        return text
    kind, _, group = text.partition(":")
    if kind != "group":
        raise ConfigError(f"unknown visibility {text!r} (allowed: public, personal, group:NAME)")
    return {"group": [_word("group", group)]}


def image_name(name: str) -> str:
    """Return the name of the container's image, rtgate's own where none is named. Raises ConfigError: it is no name."""
    image = name or f"rtgate:{__version__}"
    if not _IMAGE.fullmatch(image):
        raise ConfigError(f"{image!r} is not a name of a container image")
    return image


def _word(what: str, text: str) -> str:
    if not _WORD.fullmatch(text):
        raise ConfigError(f"{what} {printable(text, 100)!r}: allowed are letters, digits, '-', '_', '.', at most 100")
    return text
