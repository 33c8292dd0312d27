# SPDX-License-Identifier: MIT
"""What a job boots: from directories and URLs on a command line to URLs that a lab's worker can fetch."""

from __future__ import annotations

import os
import tarfile
import tempfile
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from rtgate.board.boards import Board
from rtgate.board.families import FAMILIES
from rtgate.errors import ConfigError
from rtgate.http.client import Http
from rtgate.http.patience import Patience
from rtgate.http.secret import Token
from rtgate.kernel import artefacts, device_tree
from rtgate.kernel.artefacts import KernelBuild, sha256
from rtgate.lava.job import template
from rtgate.lava.job.artefacts import Storage, Store, check, check_url, is_url, serving, storage
from rtgate.lava.job.definition import Files, console_device, family_of, lava_of, one_console
from rtgate.records.record import KernelIdentity
from rtgate.report.notices import step_printer
from rtgate.rootfs import images
from rtgate.workflow.arms import identity

PUT_TOKEN = "RTGATE_PUT_TOKEN"  # noqa: S105 - the name of a variable


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedFiles:
    """What the command line names for one arm: each a path or a URL, None for what the kernel or the board has.

    Attributes:
        overlays: paths of device-tree overlays, applied to the device tree in this order.
        family: of a kernel whose configuration is not there to tell.
    """

    kernel: str
    dtb: str | None = None
    ramdisk: str | None = None
    modules: str | None = None
    nfsroot: str | None = None
    overlays: tuple[str, ...] = ()
    family: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """What one arm boots: each a path or a URL.

    Attributes:
        family: what the kernel was made from, which decides the console's name.
    """

    kernel: KernelIdentity
    family: str
    files: Mapping[str, str]

    @property
    def local(self) -> bool:
        """Whether any of it is a file of this machine."""
        return not all(is_url(text) for text in self.files.values())


def source(board: Board, named: NamedFiles, flavour: str | None, stack: ExitStack) -> Source:
    """Return what an arm boots; `stack` keeps what has to be unpacked for it.

    Raises:
        ConfigError: there is no kernel, nothing tells its family where that matters, or something that the board's
            way of booting needs is not to be had.
        InfrastructureError: the root filesystem's image cannot be made, or a program is missing.
    """
    way = template.find(lava_of(board).boot)
    wanted = {*way.required, *way.optional}
    files = {"kernel": check_url(named.kernel)} if is_url(named.kernel) else {}
    kernel = None if files else artefacts.load(Path(named.kernel))
    if kernel is not None and kernel.arch and kernel.arch != board.arch:
        raise ConfigError(f"{kernel.directory} is a kernel for {kernel.arch}, {board.name} is {board.arch}")
    family = _family(board, named, kernel)
    if kernel is not None:
        files["kernel"] = str(kernel.image)
        files |= _of_build(board, kernel, family, wanted - _given_names(named), stack)
    files |= {name: _check_path(text) for name, text in _given_paths(named).items()}
    if named.overlays:
        if "dtb" not in wanted:
            raise ConfigError(f"--overlay: booting by {way.name} has no use for a device tree ({way.path})")
        files["dtb"] = _apply_overlays(files.get("dtb", ""), named.overlays, stack)
    if "dtb" in wanted and "dtb" not in files:
        _check_promise(board, named, family)
    if "ramdisk" in way.required and "ramdisk" not in files:
        with step_printer() as say:
            files["ramdisk"] = str(images.image(board.rootfs, board.arch, progress=say).path)
    return Source(
        kernel=identity(kernel, flavour) if kernel is not None else _unknown(named.kernel, flavour),
        family=family,
        files=files,
    )


def _family(board: Board, named: NamedFiles, kernel: KernelBuild | None) -> str:
    """Return what a kernel was made from. Raises ConfigError: nobody tells and it matters, or two tell differently."""
    told = ""
    if kernel is not None and kernel.config:
        told = family_of(kernel.config.read_text(errors="replace"))
    if told and named.family and told != named.family:
        raise ConfigError(f"--family {named.family}: by its configuration {named.kernel} is of the family {told}")
    if not (told or named.family or one_console(board)):
        consoles = " or ".join(f"{console_device(board, one)} ({one})" for one in FAMILIES)
        raise ConfigError(
            f"{named.kernel} has no configuration that tells what it was made from, and the console of {board.name} is "
            f"{consoles}: name it with --family"
        )
    return told or named.family or "mainline"


def _check_promise(board: Board, named: NamedFiles, family: str) -> None:
    """Raise ConfigError for a kernel without the device tree that the board's file promises: it would boot silently."""
    promised = lava_of(board).dtbs.get(family)
    if promised and is_url(named.kernel):
        raise ConfigError(
            f"{board.path}: {board.name} boots with {promised}: give its URL beside the kernel's, by --dtb"
        )
    if promised:
        raise ConfigError(
            f"{board.path}: {board.name} boots with {promised}, and {named.kernel} has no device trees: build it with "
            "`targets: [kernel, dtbs]`, or name the file with --dtb"
        )


def _apply_overlays(dtb: str, overlays: tuple[str, ...], stack: ExitStack) -> str:
    """Return a device tree with overlays applied, which `stack` keeps. Raises ConfigError: they are no files here."""
    if not dtb:
        raise ConfigError("--overlay: there is no device tree to apply it to: name one with --dtb FILE")
    for text in (dtb, *overlays):
        if is_url(text):
            raise ConfigError(f"--overlay: {text} must be a file of this machine, where overlays are applied")
        _check_path(text)
    place = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rtgate-dtb-")))
    return str(device_tree.overlaid(Path(dtb), [Path(text) for text in overlays], place))


def _given_paths(named: NamedFiles) -> dict[str, str]:
    found = {name: getattr(named, name) for name in ("dtb", "ramdisk", "modules", "nfsroot")}
    return {name: text for name, text in found.items() if text}


def _given_names(named: NamedFiles) -> set[str]:
    return set(_given_paths(named))


def _check_path(text: str) -> str:
    if is_url(text):
        return check_url(text)
    if not Path(text).is_file():
        raise ConfigError(f"{text}: no such file")
    return text


def _of_build(board: Board, kernel: KernelBuild, family: str, wanted: set[str], stack: ExitStack) -> dict[str, str]:
    """Return what a build brings beside its image: the board's device tree, and modules."""
    found = {}
    dtb = lava_of(board).dtbs.get(family)
    if "dtb" in wanted and dtb and kernel.dtbs is not None:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rtgate-dtb-")))
        found["dtb"] = str(_unpack(kernel.dtbs, dtb, place))
    if "modules" in wanted and kernel.modules is not None:
        found["modules"] = str(kernel.modules)
    return found


def _unpack(archive: Path, name: str, into: Path) -> Path:
    """Unpack one device tree, named as below `arch/ARCH/boot/dts`. Raises ConfigError: the archive lacks it."""
    try:
        with tarfile.open(archive) as tar:
            member = next((one for one in tar if one.isfile() and f"/{one.name}".endswith(f"/{name}")), None)
            stream = None if member is None else tar.extractfile(member)
            if stream is None:
                raise ConfigError(f"{archive} has no {name}: build it (CONFIG_ARCH_...), or name another with --dtb")
            path = into / Path(name).name
            path.write_bytes(stream.read())
            return path
    except (OSError, tarfile.TarError, EOFError) as error:
        raise ConfigError(f"{archive}: cannot be read: {error}") from error


def _unknown(url: str, flavour: str | None) -> KernelIdentity:
    return KernelIdentity(
        name=urlsplit(url).path.rpartition("/")[2] or "kernel",
        flavour=flavour or "preempt_rt",
        release="",
        image_sha256="",
        source=url,
        provenance="unknown",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class FileTransfer:
    """How files get to the lab.

    Attributes:
        serve: `HOST[:PORT]` of the built-in file server, empty for this machine's own address.
        put: the URL of a storage that takes them instead.
        server: LAVA's URL.
    """

    serve: str = ""
    put: str | None = None
    server: str = ""


def publish(sources: Mapping[str, Source], store: Store | None) -> dict[str, Files]:
    """Return the URLs of what each arm boots; `store` takes files of this machine, if there are any.

    Raises:
        ConfigError: a file cannot be read, or its kernel is not the one that was looked at.
        InfrastructureError: the store does not take it.
    """
    known: dict[str, str] = {}

    def url(text: str) -> str:
        if is_url(text) or store is None:
            return text
        if text not in known:
            known[text] = store.publish(Path(text))
        return known[text]

    return {
        arm: Files(
            kernel=url(one.files["kernel"]),
            ramdisk=_maybe(url, one.files.get("ramdisk")),
            dtb=_maybe(url, one.files.get("dtb")),
            modules=_maybe(url, one.files.get("modules")),
            nfsroot=_maybe(url, one.files.get("nfsroot")),
            digests=_digests(one),
        )
        for arm, one in sources.items()
    }


def check_files(files: Mapping[str, Files]) -> None:
    """Try the URLs of what each arm boots.

    Raises:
        ConfigError: a URL is not there.
        InfrastructureError: a server does not answer.
    """
    check((text for one in files.values() for text in _urls(one)), Http(patience=Patience(total=60.0)))


def _digests(source: Source) -> dict[str, str]:
    """Return the SHA-256 of each local file. Raises ConfigError: the kernel is not the one that was looked at."""
    found = {name: sha256(Path(text)) for name, text in source.files.items() if not is_url(text)}
    known = source.kernel.image_sha256
    if known and found.get("kernel", known) != known:
        raise ConfigError(
            f"{source.files['kernel']} changed since rtgate looked at it: is a build under way? Submit again"
        )
    return found


def _maybe(url: Callable[[str], str], text: str | None) -> str | None:
    return None if text is None else url(text)


def _urls(files: Files) -> list[str]:
    named = (files.kernel, files.ramdisk, files.dtb, files.modules, files.nfsroot)
    return [text for text in named if text]


def store(way: FileTransfer, stack: ExitStack) -> Store:
    """Return what takes files to the lab; files are served until `stack` ends. Raises as `artefacts.serving`."""
    if way.put is None:
        return stack.enter_context(serving(way.serve, way.server))
    secret = os.environ.get(PUT_TOKEN)
    token = Token(secret.strip(), f"${PUT_TOKEN}") if secret else None
    return Storage(storage(way.put), Http(token, scheme="Bearer"))
