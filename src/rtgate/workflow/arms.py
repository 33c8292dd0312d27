# SPDX-License-Identifier: MIT
"""From names on a command line to arms that can be measured."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path

from rtgate.board import boards
from rtgate.board.boards import FLAVOURS, Board
from rtgate.board.boot import ArmName, TimeBase
from rtgate.errors import ConfigError
from rtgate.kernel import artefacts, banner, build_id
from rtgate.kernel.artefacts import KernelBuild, sha256
from rtgate.kernel.build_copy import pin_kernel
from rtgate.kernel.configuration import read_config
from rtgate.kernel.toolchain import compiler_of
from rtgate.lava.in_job.target import JobTarget, time_of
from rtgate.lava.job import environment
from rtgate.measure.case import Arm, Target
from rtgate.measure.profiles import profile
from rtgate.records.record import KernelIdentity
from rtgate.report.notices import step_printer
from rtgate.rootfs import images as rootfs
from rtgate.rootfs.images import RootfsImage
from rtgate.target import boot_digests
from rtgate.target.boot_cache import BootCache
from rtgate.target.live import LiveTarget
from rtgate.target.plan import Plan
from rtgate.target.power import PowerCycle, PowerCycledTarget
from rtgate.target.qemu import version
from rtgate.target.shared_boots import SharedBoots
from rtgate.target.virtual import VirtualBoard
from rtgate.validity import registry

OURS = frozenset({"virtual", "host"})
"""Consoles of boards that boot what they are given: QEMU."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmRequest:
    """What the user asked for.

    Attributes:
        kernels: build directory by arm (`baseline`, `candidate`); empty on a live console that runs its own kernel.
        flavour: what a kernel of unknown provenance should be.
        power_cycle: a shell command that turns the board of a live console off and on.
        boot_cache: boots of virtual-time boards that were made before and are not made again; None to make every boot.
    """

    board: str
    kernels: dict[str, Path]
    profile: str
    console: str | None = None
    tuning: str = "default"
    flavour: str | None = None
    power_cycle: str | None = None
    boot_cache: BootCache | None = None


def make_arms(request: ArmRequest, stop: threading.Event | None = None) -> tuple[Arm, ...]:
    """Return the arms, whose boots `stop` ends.

    Raises:
        ConfigError: no such board, kernel, profile or console, or they do not fit together.
        InfrastructureError: QEMU or the root filesystem is not to be had.
    """
    board = boards.board(request.board)
    console = console_of(board, request.console)
    if request.flavour and request.flavour not in FLAVOURS:
        raise ConfigError(f"unknown flavour {request.flavour!r} (allowed: {', '.join(FLAVOURS)})")
    registry.not_applicable(board)  # a mistake in its file is said before anybody measures
    check_console(board, console, request.kernels, request.power_cycle)
    stop = stop or threading.Event()
    if console in OURS:
        return _virtual(request, board, console, stop)
    if console == "lava":
        return (_in_job(request, board, stop),)
    return (_attach(request, board, console, stop),)


def console_of(board: Board, option: str | None) -> str:
    """Return the console that the option `--console` names, or the board's usual one; empty for none."""
    return option or ("virtual" if board.virtual else "")


def check_console(board: Board, console: str, kernels: Collection[str], power_cycle: str | None) -> None:
    """Check that a console can be had of a board, with these kernels by arm. Raises ConfigError."""
    if not console:
        raise ConfigError(
            f"{board.name} is not a virtual board: say where its console is, for example --console serial:/dev/ttyUSB0:"
            f"{board.console.baud} (or tcp:HOST:PORT, command:CMD, lava)"
        )
    ours = console in OURS
    if ours and not board.virtual:
        raise ConfigError(f"{board.name} is not a virtual board, --console {console} starts QEMU")
    if ours and not kernels:
        raise ConfigError("a virtual board needs a kernel: --kernel DIR (a directory made by `rtgate build`)")
    if ours and power_cycle:
        raise ConfigError(f"--power-cycle is for boards that are attached; --console {console} starts QEMU anew")
    if console == "lava" and (kernels or power_cycle):
        raise ConfigError(
            "--console lava: the job says which kernel it has booted (RTGATE_KERNEL), and LAVA turns the board on: "
            "leave out every option that names a kernel, and --power-cycle"
        )
    if not ours and ArmName.BASELINE in kernels:
        raise ConfigError(
            f"--console {console} is attached to one running kernel, and a baseline is a second one: leave it out"
        )


def _virtual(request: ArmRequest, board: Board, console: str, stop: threading.Event) -> tuple[Arm, ...]:
    assert board.qemu is not None
    version(board.qemu.binary)
    kernels = {arm: pin_kernel(directory) for arm, directory in request.kernels.items()}
    for arm, kernel in kernels.items():
        if kernel.arch and kernel.arch != board.arch:
            raise ConfigError(f"{request.kernels[arm]} is a kernel for {kernel.arch}, {board.name} is {board.arch}")
    images = _images(board)
    board_profile = profile(request.profile, board.name)

    one_image = len(kernels) > 1 and len({kernel.image_sha256 for kernel in kernels.values()}) == 1
    shared_boots = SharedBoots() if one_image else None
    program = boot_digests.program(board.qemu.binary)

    def target(kernel: KernelBuild) -> Target:
        if console == "virtual":
            return VirtualBoard(
                board=board,
                image=kernel.image,
                rootfs=images,
                stop=stop,
                boot_cache=request.boot_cache,
                shared_boots=shared_boots,
                image_sha256=kernel.image_sha256,
                qemu_sha256=program,
            )
        return LiveTarget.of_qemu(board, kernel.image, images, stop)

    return tuple(
        Arm(
            name=ArmName(name),
            board=board,
            kernel=identity(kernel, request.flavour),
            profile=board_profile,
            tuning=board.tuning(request.tuning),
            time=TimeBase.VIRTUAL if console == "virtual" else TimeBase.HOST,
            target=target(kernel),
            configuration=read_config(kernel.config) if kernel.config else {},
        )
        for name, kernel in kernels.items()
    )


def make_root_filesystem(board: Board) -> None:
    """Make a virtual board's root filesystem, if it is not in the cache; before minutes go into its kernels.

    Raises:
        InfrastructureError: its packages cannot be had.
    """
    if board.virtual:
        with step_printer() as say:
            rootfs.image(board.rootfs, board.arch, progress=say)


def _images(board: Board) -> Callable[[Plan], RootfsImage]:
    """Return what finds a plan's root filesystem image; the board's own is made now, others when they are needed."""
    with step_printer() as say:
        images = {board.rootfs: rootfs.image(board.rootfs, board.arch, progress=say)}
    lock = threading.Lock()

    def image(plan: Plan) -> RootfsImage:
        name = board.rootfs if plan.image == "core" else plan.image
        with lock:
            if name not in images:
                with step_printer() as say:
                    images[name] = rootfs.image(name, board.arch, progress=say)
            return images[name]

    return image


def _attach(request: ArmRequest, board: Board, console: str, stop: threading.Event) -> Arm:
    directory = request.kernels.get(ArmName.CANDIDATE)
    kernel = identity(artefacts.load(directory), request.flavour) if directory else unknown_kernel(request.flavour)
    return Arm(
        name=ArmName.CANDIDATE,
        board=board,
        kernel=kernel,
        profile=profile(request.profile, board.name),
        tuning=board.tuning(request.tuning),
        time=time_of(board),
        attached=True,
        target=PowerCycledTarget(
            live=LiveTarget.of_console(board, console, stop),
            cycle=PowerCycle(request.power_cycle) if request.power_cycle else None,
        ),
    )


def _in_job(request: ArmRequest, board: Board, stop: threading.Event) -> Arm:
    """Return the arm that a LAVA job has booted."""
    job = environment.read()
    board_profile = profile(request.profile, board.name)
    return Arm(
        name=job.arm,
        board=board,
        kernel=job.kernel or unknown_kernel(request.flavour),
        profile=board_profile,
        tuning=board.tuning(request.tuning),
        time=time_of(board),
        target=JobTarget.of(board, job, board_profile, stop),
    )


def identity(kernel: KernelBuild, flavour: str | None) -> KernelIdentity:
    """Return which kernel a build is. Raises ConfigError: it is of another flavour than it should be."""
    if flavour and kernel.flavour and flavour != kernel.flavour:
        raise ConfigError(f"{kernel.directory} was built as {kernel.flavour}, --flavour says {flavour}")
    return KernelIdentity(
        name=kernel.name or kernel.directory.name,
        # rtgate gates real-time kernels: a kernel that says nothing must prove to be one.
        flavour=kernel.flavour or flavour or "preempt_rt",
        release=kernel.release or "",
        image_sha256=kernel.image_sha256,
        source=_source(kernel),
        provenance=kernel.provenance,
        version=banner.version(kernel.image),
        build_id=build_id.of_kernel(kernel.image, kernel.vmlinux),
        # A configuration that lies beside somebody's image may be another one's.
        config_sha256=sha256(kernel.config) if kernel.config and kernel.provenance == "rtgate" else "",
        commit=_commit(kernel),
        compiler=compiler_of(kernel.toolchain or ""),
        inputs=kernel.inputs or "",
    )


def _commit(kernel: KernelBuild) -> str:
    """Return the commit that a kernel is, in full; empty where something came on top of it."""
    source = kernel.source or {}
    return str(source.get("commit") or "") if not source.get("dirty") and not kernel.patches else ""


def _source(kernel: KernelBuild) -> str:
    """Return what the kernel was built from, as people name it; paths of one machine are left out."""
    source = kernel.source or {}
    words = [str(source[key]) for key in ("package", "package_version", "describe") if source.get(key)]
    commit = str(source.get("commit") or "")[:12]
    words += [commit] if commit and not any(commit in word for word in words) else []
    # What no version names is told apart by its fingerprint.
    state = [str(source["fingerprint"])[:8]] if source.get("fingerprint") else []
    words = words or [*(str(source[key]) for key in ("kind", "version") if source.get(key)), *state]
    changes = ["with local changes", *state] if source.get("dirty") else []
    patches = [f"with {', '.join(kernel.patches)}"] if kernel.patches else []
    subject = [f'"{source["subject"]}"'] if source.get("subject") else []
    return " ".join([*words, *subject, *changes, *patches]) or "unknown"


def unknown_kernel(
    flavour: str | None, name: str = "running", source: str = "whatever the target runs"
) -> KernelIdentity:
    """Return a kernel of which only the flavour is known, or not even that."""
    return KernelIdentity(
        name=name,
        flavour=flavour or "preempt_rt",
        release="",
        image_sha256="",
        source=source,
        provenance="unknown",
    )
