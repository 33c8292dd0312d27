# SPDX-License-Identifier: MIT
"""What a job boots: from directories and URLs on a command line to URLs that a lab's worker can fetch."""

from __future__ import annotations

import os
import tarfile
import tempfile
from collections.abc import Collection, Mapping
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
from rtgate.kernel import artefacts, device_tree, xenomai
from rtgate.kernel.artefacts import KernelBuild, sha256
from rtgate.lava.job import template
from rtgate.lava.job.artefacts import Storage, Store, check
from rtgate.lava.job.definition import Files, console_device, family_of, lava_of, one_console
from rtgate.lava.job.file_server import serving
from rtgate.lava.job.urls import PUT_TOKEN, file_url, is_url, storage_url
from rtgate.measure import flavour_need
from rtgate.measure.case import Case
from rtgate.records.record import KernelIdentity
from rtgate.report.notices import step_printer
from rtgate.rootfs import images
from rtgate.tools import loads
from rtgate.tools.xenomai import COBALT
from rtgate.workflow.arms import identity, unknown_kernel


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


def rootfs(board: Board, cases: Collection[Case], flavour: str) -> str:
    """Return the image with the programs of all cases that a kernel can run: the board's own, or another for `core`.

    Raises:
        ConfigError: no image has all of them.
    """
    possible = [case for case in cases if not flavour_need.needs(case.tool, flavour)]
    programs = [program for case in possible for program in (case.tool, case.companion or loads.load(case.load, board))]
    needs_full = "full" in {program.image for program in programs}
    needs_cobalt = flavour == xenomai.FLAVOUR and any(COBALT[0] in case.tool.needs for case in possible)
    if board.rootfs != "core":
        return board.rootfs
    if needs_full and needs_cobalt:
        raise ConfigError(
            "no root filesystem has Xenomai's programs and those of the image full: submit the suites one by one, "
            "or give one of yours with --ramdisk"
        )
    return "xenomai" if needs_cobalt else "full" if needs_full else "core"


def source(
    board: Board, spec: NamedFiles, flavour: str | None, stack: ExitStack, cases: Collection[Case] = ()
) -> Source:
    """Return what an arm boots; `stack` keeps what has to be unpacked for it.

    Args:
        board: where it boots.
        spec: what the command line names.
        flavour: what the kernel should be; None for what its build says.
        stack: keeps what has to be unpacked.
        cases: what is measured there.

    Raises:
        ConfigError: there is no kernel, nothing tells its family where that matters, or something that the board's
            way of booting needs is not to be had.
        InfrastructureError: the root filesystem's image cannot be made, or a program is missing.
    """
    way = template.find(lava_of(board).boot)
    kinds = {*way.required, *way.optional}
    files = {"kernel": file_url(spec.kernel)} if is_url(spec.kernel) else {}
    kernel = None if files else artefacts.load(Path(spec.kernel))
    if kernel is not None and kernel.arch and kernel.arch != board.arch:
        raise ConfigError(f"{kernel.directory} is a kernel for {kernel.arch}, {board.name} is {board.arch}")
    file_name = urlsplit(spec.kernel).path.rpartition("/")[2] or "kernel"
    booted = identity(kernel, flavour) if kernel is not None else unknown_kernel(flavour, file_name, spec.kernel)
    family = _family(board, spec, kernel)
    if kernel is not None:
        files["kernel"] = str(kernel.image)
        files |= _of_build(board, kernel, family, kinds - _given_names(spec), stack)
    files |= {name: _check_path(text) for name, text in _given_paths(spec).items()}
    if spec.overlays:
        if "dtb" not in kinds:
            raise ConfigError(f"{spec.overlays[0]}: booting by {way.name} has no use for a device tree ({way.path})")
        if "dtb" not in files:
            _check_promise(board, spec, family)
            raise ConfigError(
                f"{spec.overlays[0]}: there is no device tree to apply it to: {board.path} names none for kernels of "
                f"the family {family} (`dtbs`)"
            )
        files["dtb"] = _apply_overlays(files["dtb"], spec.overlays, stack)
    if "dtb" in kinds and "dtb" not in files:
        _check_promise(board, spec, family)
    if "ramdisk" in way.required and "ramdisk" not in files:
        with step_printer() as say:
            name = rootfs(board, cases, booted.flavour)
            files["ramdisk"] = str(images.image(name, board.arch, progress=say).path)
    return Source(kernel=booted, family=family, files=files)


def _family(board: Board, spec: NamedFiles, kernel: KernelBuild | None) -> str:
    """Return what a kernel was made from. Raises ConfigError: nobody tells and it matters, or two tell differently."""
    config_family = ""
    if kernel is not None and kernel.config:
        config_family = family_of(kernel.config.read_text(errors="replace"))
    if config_family and spec.family and config_family != spec.family:
        raise ConfigError(
            f"--family {spec.family}: by its configuration {spec.kernel} is of the family {config_family}"
        )
    if not (config_family or spec.family or one_console(board)):
        consoles = " or ".join(f"{console_device(board, family)} ({family})" for family in FAMILIES)
        raise ConfigError(
            f"{spec.kernel} has no configuration that tells what it was made from, and the console of {board.name} is "
            f"{consoles}: name it with --family"
        )
    return config_family or spec.family or "mainline"


def _check_promise(board: Board, spec: NamedFiles, family: str) -> None:
    """Raise ConfigError for a kernel without the device tree that the board's file promises: it would boot silently."""
    dtb = lava_of(board).dtbs.get(family)
    if dtb and is_url(spec.kernel):
        raise ConfigError(f"{board.path}: {board.name} boots with {dtb}: give its URL beside the kernel's, by --dtb")
    if dtb:
        raise ConfigError(
            f"{board.path}: {board.name} boots with {dtb}, and {spec.kernel} has no device trees: build it with "
            "`targets: [kernel, dtbs]`, or name the file with --dtb"
        )


def _apply_overlays(dtb: str, overlays: tuple[str, ...], stack: ExitStack) -> str:
    """Return a device tree with overlays applied, which `stack` keeps. Raises ConfigError: they are no files here."""
    for text in (dtb, *overlays):
        if is_url(text):
            raise ConfigError(f"{text} must be a file of this machine, where overlays are applied")
        _check_path(text)
    place = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rtgate-dtb-")))
    return str(device_tree.overlaid(Path(dtb), [Path(text) for text in overlays], place))


def _given_paths(spec: NamedFiles) -> dict[str, str]:
    paths = {name: getattr(spec, name) for name in template.BESIDE_KERNEL}
    return {name: text for name, text in paths.items() if text}


def _given_names(spec: NamedFiles) -> set[str]:
    return set(_given_paths(spec))


def _check_path(text: str) -> str:
    if is_url(text):
        return file_url(text)
    if not Path(text).is_file():
        raise ConfigError(f"{text}: no such file")
    return text


def _of_build(board: Board, kernel: KernelBuild, family: str, kinds: set[str], stack: ExitStack) -> dict[str, str]:
    """Return what a build brings beside its image: the board's device tree, and modules."""
    files = {}
    dtb = lava_of(board).dtbs.get(family)
    if "dtb" in kinds and dtb and kernel.dtbs is not None:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rtgate-dtb-")))
        files["dtb"] = str(_unpack(kernel.dtbs, dtb, place))
    if "modules" in kinds and kernel.modules is not None:
        files["modules"] = str(kernel.modules)
    return files


def _unpack(archive: Path, name: str, into: Path) -> Path:
    """Unpack one device tree, named as below `arch/ARCH/boot/dts`. Raises ConfigError: the archive lacks it."""
    try:
        with tarfile.open(archive) as tar:
            member = next((entry for entry in tar if entry.isfile() and f"/{entry.name}".endswith(f"/{name}")), None)
            stream = None if member is None else tar.extractfile(member)
            if stream is None:
                raise ConfigError(f"{archive} has no {name}: build it (CONFIG_ARCH_...), or name another with --dtb")
            path = into / Path(name).name
            path.write_bytes(stream.read())
            return path
    except (OSError, tarfile.TarError, EOFError) as error:
        raise ConfigError(f"{archive}: cannot be read: {error}") from error


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
    urls: dict[str, str] = {}

    def url(text: str) -> str:
        if is_url(text) or store is None:
            return text
        if text not in urls:
            urls[text] = store.publish(Path(text))
        return urls[text]

    return {
        arm: Files(**{name: url(text) for name, text in arm_source.files.items()}, digests=_digests(arm_source))
        for arm, arm_source in sources.items()
    }


def check_files(files: Mapping[str, Files]) -> None:
    """Try the URLs of what each arm boots.

    Raises:
        ConfigError: a URL is not there.
        InfrastructureError: a server does not answer.
    """
    check(
        (text for arm_files in files.values() for text in arm_files.urls.values()), Http(patience=Patience(total=60.0))
    )


def _digests(source: Source) -> dict[str, str]:
    """Return the SHA-256 of each local file. Raises ConfigError: the kernel is not the one that was looked at."""
    digests = {name: sha256(Path(text)) for name, text in source.files.items() if not is_url(text)}
    image_sha256 = source.kernel.image_sha256
    if image_sha256 and digests.get("kernel", image_sha256) != image_sha256:
        raise ConfigError(
            f"{source.files['kernel']} changed since rtgate looked at it: is a build under way? Submit again"
        )
    return digests


def store(way: FileTransfer, stack: ExitStack) -> Store:
    """Return what takes files to the lab; files are served until `stack` ends. Raises as `file_server.serving`."""
    if way.put is None:
        return stack.enter_context(serving(way.serve, way.server))
    secret = os.environ.get(PUT_TOKEN)
    token = Token(secret.strip(), f"${PUT_TOKEN}") if secret else None
    return Storage(storage_url(way.put, "--put", PUT_TOKEN), Http(token, scheme="Bearer"))
