# SPDX-License-Identifier: MIT
"""What boards, builds, profiles and limits refer to, where the readers of these files do not look it up themselves.

Each function reads one file, raises ConfigError at the first name that leads nowhere, and says what is allowed.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from functools import cache
from itertools import chain
from pathlib import Path

from rtgate import files, site, strict_yaml
from rtgate.arches import ARCHES
from rtgate.board import boards, tuning
from rtgate.board.boards import Board
from rtgate.errors import ConfigError
from rtgate.judge.compare.boot_figures import HISTOGRAM_FIGURES
from rtgate.judge.thresholds import known_case, load_thresholds
from rtgate.kernel import configuration, debian, fragments, patches
from rtgate.lava.job import template
from rtgate.measure import profiles
from rtgate.records.longer_sections import SECTION_MEASUREMENTS
from rtgate.rootfs import recipe as rootfs_recipe
from rtgate.strict_yaml import Entry, Value
from rtgate.tools import Reports, loads
from rtgate.tools import registry as tools_registry
from rtgate.tools.case_name import CaseName
from rtgate.tools.extensions import Extension, Kind
from rtgate.tools.registry import COMPANIONS, TOOLS, reports
from rtgate.validity import registry
from rtgate.workflow import waivers
from rtgate.workflow.limit_profiles import LimitProfiles
from rtgate.workflow.suites import names as suites

DEVICE_TYPES = f"{template.KIND}/device-types"

# Kernel arguments that are lists of CPUs (Documentation/admin-guide/kernel-parameters.txt).
_CPU_ARGUMENT = re.compile(r"(?:^|\s)(?:isolcpus|nohz_full|rcu_nocbs|irqaffinity)=(\S+)")
_CPU_RANGE = re.compile(r"([0-9]{1,4})(?:-([0-9]{1,4}))?(?::.*)?")


def board(path: Path) -> None:
    """Check a board's checks, builds, root filesystem, CPUs, device type and device trees. Raises ConfigError."""
    this_board = boards.read(path)
    registry.not_applicable(this_board)
    data = strict_yaml.load(path).entries()
    _builds(this_board, data)
    _cpus(this_board, data)
    if "rootfs" in data:
        rootfs_recipe.find(this_board.rootfs)
    program = ARCHES[this_board.arch].qemu_program
    if this_board.qemu is not None and program not in this_board.qemu.binary:
        binary = data["qemu"].value.entries()["binary"].value
        binary.fail(f"{this_board.qemu.binary!r} does not run {this_board.arch} kernels (allowed: {program})")
    if this_board.lava is not None:
        _lava(this_board, data["lava"].value.entries())


def _builds(board: Board, data: dict[str, Entry]) -> None:
    """Check that every build that a board names makes kernels for it."""
    blocks = [data, *_tunings(data)]
    build_names = [block["build"].value for block in blocks if "build" in block]
    if "qemu" in data and "drivers" in (machine := data["qemu"].value.entries()):
        build_names.append(machine["drivers"].value)
    for value in build_names:
        description = configuration.load_description(site.find("kernel-configs", f"{value.text()}.yaml"))
        if description.arch != board.arch:
            value.fail(f"the build {description.name!r} is for {description.arch}: name one for {board.arch}")


def _tunings(data: dict[str, Entry]) -> list[dict[str, Entry]]:
    return [entry.value.entries() for entry in data["tunings"].value.entries().values()] if "tunings" in data else []


def _cpus(board: Board, data: dict[str, Entry]) -> None:
    """Check every list of CPUs of a board against the CPUs that it has."""
    for block in _tunings(data):
        for key in {"cpus", "irq_affinity"} & block.keys():
            _within(block[key].value, tuning.cpus(block[key].value.word()), board.cpus)
    for block in (data, *_tunings(data)):
        if "command_line" in block:
            value = block["command_line"].value
            _within(value, tuple(_listed_cpus(value.text())), board.cpus)


def _listed_cpus(command_line: str) -> Iterator[int]:
    for argument in _CPU_ARGUMENT.finditer(command_line):
        for part in argument[1].split(","):
            if match := _CPU_RANGE.fullmatch(part):
                yield int(match[2] or match[1])


def _within(value: Value, cpu_list: Collection[int], cpus: int) -> None:
    if (last := max(cpu_list, default=0)) >= cpus:
        value.fail(f"CPU {last} is beyond the board's CPUs (allowed: 0 to {cpus - 1})")


def _lava(board: Board, data: dict[str, Entry]) -> None:
    assert board.lava is not None
    types = site.names(DEVICE_TYPES, ".jinja2")
    if board.lava.device_type not in types:
        data["device_type"].value.fail(
            f"unknown device type {board.lava.device_type!r} "
            f"(allowed: those of {DEVICE_TYPES}/ of rtgate and of the site: {', '.join(types)})"
        )
    boot = template.find(board.lava.boot)
    if board.lava.dtbs and "dtb" not in (*boot.required, *boot.optional):
        takes_none = f"booting by {boot.name} takes no device tree ({boot.path})"
        data["dtbs"].value.fail(f"{takes_none}: remove `dtbs`, or name another `boot`")
    if board.build and board.lava.dtbs:
        build = configuration.load_description(site.find("kernel-configs", f"{board.build}.yaml"))
        if "dtbs" not in build.targets:
            data["dtbs"].value.fail(f"{build.path} builds no device tree: add `dtbs` to its `targets`")
        boot_trees = [name.removesuffix(".dtb") for name in board.lava.dtbs.values()]
        if "mainline" in board.lava.dtbs and build.device_trees and not set(boot_trees) & set(build.device_trees):
            names = ", ".join(build.device_trees)
            data["dtbs"].value.fail(f"{build.path} is for {names}: add {' or '.join(boot_trees)} to its `device_trees`")


def build(path: Path) -> None:
    """Check a build's fragments, every patch of its series, and where its configuration starts. Raises ConfigError."""
    description = configuration.load_description(path)
    series = patches.load_series(description.patches).patches if description.patches is not None else ()
    tree = path.resolve().parents[2]
    configs = tree / "arch" / ARCHES[description.arch].directory / "configs"
    if path.resolve().parents[1].name != ".rtgate" or not configs.is_dir():
        return  # only a kernel repository's own builds have their kernel beside them
    texts = [files.read_bytes(patch.path, files.JSON_LIMIT).decode("utf-8", errors="replace") for patch in series]
    missing_names = set(description.missing_fragments(tree))
    places = (configs, tree / "kernel" / "configs")
    if description.base not in configuration.BASES and not any(
        (place / description.base).is_file() for place in places
    ):
        missing_names.add(description.base)
    # A series may bring what the tree lacks.
    missing_names -= {name for name in missing_names for text in texts if f"/configs/{name}" in text}
    top = configuration.description_entries(path)
    if description.base in missing_names:
        names = ", ".join(sorted(file.name for file in configs.glob("*_defconfig"))) or "none"
        top["base"].fail(
            f"this kernel has no {description.base!r} (allowed: {', '.join(configuration.BASES)}, {names})"
        )
    for item in top["kernel_fragments"].items() if description.kernel_fragments else ():
        if item.text() in missing_names:
            names = ", ".join(sorted(file.name for file in configs.glob("*.config"))) or "none"
            item.fail(f"this kernel has no {item.text()!r} (allowed: {names})")


def fragment(path: Path) -> None:
    """Check a Kconfig fragment, whether a build uses it or not. Raises ConfigError."""
    fragments.load_fragment(path)


def series(path: Path) -> None:
    """Check a patch series by its file `series`. Raises ConfigError."""
    patches.load_series(path.parent)


def source(path: Path) -> None:
    """Check the pin of the default kernel source. Raises ConfigError."""
    debian.load_pin(path)


def recipe(path: Path) -> None:
    """Check a root filesystem's files, what it extends, and its locked packages. Raises ConfigError."""
    image = rootfs_recipe.read(path)
    names = rootfs_recipe.names()
    if image.extends and image.extends not in names:
        value = strict_yaml.load(path).entries()["extends"].value
        value.fail(f"unknown image {image.extends!r} (allowed: {', '.join(names)})")
    rootfs_recipe.find(image.name)
    for arch in ARCHES:
        rootfs_recipe.locked_versions(image, arch)


def profile_file(path: Path) -> None:
    """Check the suites, tools and cases that profiles name. Raises ConfigError."""
    by_name = profiles.read(path)
    for name, entry in strict_yaml.load(path).entries().items():
        _profile(by_name[name], entry.value.entries())


def _profile(profile: profiles.Profile, data: dict[str, Entry]) -> None:
    _selection(profile.suites, data)
    for entry in data["boards"].value.entries().values() if "boards" in data else ():
        _selection(profile.boards[entry.key.text()].suites, entry.value.entries())
    for entry in data["tools"].value.entries().values() if "tools" in data else ():
        suite, slash, tool = entry.key.text().partition(":")[0].rpartition("/")
        if slash:
            _in_suite(entry.key, tool, suite)
    for item in data["minimum"].value.items() if "minimum" in data else ():
        _minimum(item, profile)


def _selection(profile_suites: Collection[str], data: dict[str, Entry]) -> None:
    """Check the suites and tools that a profile, or a board of it, is restricted to. Raises ConfigError."""
    suite_names = suites()
    for item in data["suites"].value.items() if "suites" in data else ():
        item.text(suite_names)
    for item in data["only"].value.items() if "only" in data else ():
        _check_only(item, profile_suites)


def _check_only(item: Value, profile_suites: Collection[str]) -> None:
    name = item.text()
    if "/" in name:
        item.fail(f"{name!r} names a suite, and `only` names tools (allowed: {name.rpartition('/')[2]}, and `suites`)")
    own = {suite for suite in suites() if may_measure(suite, name)}
    if profile_suites and not own & set(profile_suites):
        item.fail(f"{name} is in no suite of this profile: remove it, or add one of its own, {', '.join(sorted(own))}")


def _minimum(item: Value, profile: profiles.Profile) -> None:
    case = item.text()
    name = known_case(case, item)
    if name != name.without_tuning:
        item.fail(f"{case!r} names a tuning, which the command line chooses (allowed: SUITE/TOOL:LOAD)")
    if not profile.has(name.suite, name.tool, name.load):
        item.fail(
            f"the profile {profile.name} does not measure {case}: remove it, or widen `only`, `suites` or `loads`"
        )


def _in_suite(place: Value, tool: str, suite: str) -> None:
    if not may_measure(suite, tool):
        place.fail(f"{tool} is not in the suite {suite!r} (allowed: {', '.join(TOOLS[tool].suites)})")


def may_measure(suite: str, tool: str) -> bool:
    """Return whether a suite may have a tool: one of the tool's own suites, or one of a site, which may have any."""
    is_of_site = suite in suites() and not any(suite in kind.suites for kind in TOOLS.values())
    return suite in TOOLS[tool].suites or is_of_site


def outside() -> tuple[Extension, ...]:
    """Return the tools and loads that do not come with rtgate. Raises ConfigError: two have one name."""
    return (*tools_registry.outside().values(), *loads.outside().values())


def extension(addition: Extension) -> None:
    """Check a tool or a load that does not come with rtgate: it can be imported and used. Raises ConfigError."""
    if addition.kind is Kind.LOAD:
        loads.check(addition)
    else:
        COMPANIONS.get(addition.name)  # which imports every tool, and knows more than TOOLS of what may be wrong


def limits(path: Path) -> None:
    """Check the boards, cases, tunings, CPU classes and measurements that limits name. Raises ConfigError."""
    load_thresholds([path], {name: _virtual(name) for name in site.names("boards")}, LimitProfiles().case)
    board_of = cache(boards.board)
    for name, case, entry in _cases(path):
        _tuning(board_of(name), case, entry.key)
        classes = board_of(name).cpu_classes
        for item in entry.value.items():
            keys = item.entries()
            if "class" in keys and keys["class"].value.text() not in classes:
                value, names = keys["class"].value, ", ".join(classes) or "none"
                value.fail(f"{name} has no CPU class {value.text()!r} (allowed: its `cpu_classes`, {names})")
            if "measurement" in keys and keys["measurement"].value.text() in SECTION_MEASUREMENTS:
                _require_sections(board_of(name), CaseName.parse(case).tuning, keys["measurement"].value)


def _require_sections(board: Board, tuning: str, value: Value) -> None:
    """Check that following boots of a tuned board gives what a limit is of. Raises ConfigError."""
    # Not above: it loads NumPy.
    from rtgate.workflow.sections import unfollowed  # noqa: PLC0415

    reason = unfollowed(board, tuning) or (f"{board.name} has {board.cpus} CPUs" if board.cpus > 1 else "")
    if reason:
        value.fail(f"no limit of {value.text()} can be judged: {reason}")


def waiver_file(path: Path) -> None:
    """Check the boards, cases, tunings and measurements that waivers name. Raises ConfigError."""
    waivers.read(path)
    for item in strict_yaml.load(path).items():
        data = item.entries()
        _tuning(boards.board(data["board"].value.text()), data["case"].value.text(), data["case"].value)


def placebos(path: Path) -> None:
    """Check the boards, cases, tunings and figures that harmless changes were measured in. Raises ConfigError."""
    # Not above: it loads NumPy, and most references are others.
    from rtgate.judge.compare.placebos import load_placebos  # noqa: PLC0415

    load_placebos([path], site.names("boards"))
    board_of = cache(boards.board)
    for name, case, entry in _cases(path):
        known_case(case, entry.key)
        _tuning(board_of(name), case, entry.key)
        figures = _figures(case)
        entries = [item.entries()["figures"].value.entries() for item in entry.value.items()]
        for figure in chain.from_iterable(block.values() for block in entries):
            if figure.key.text() not in figures:
                figure.key.fail(f"{case} has no figure {figure.key.text()!r} (allowed: {', '.join(figures)})")


def _figures(case: str) -> tuple[str, ...]:
    kinds = reports(case)
    histograms = [name for name, kind in kinds.items() if kind is Reports.TIMES]
    parts = [f"{name} {part}" for name in histograms for part in HISTOGRAM_FIGURES]
    return (*parts, *(name for name in kinds if name not in histograms))


def _cases(path: Path) -> Iterator[tuple[str, str, Entry]]:
    """Yield board, case and entry of a file by board, flavour and case."""
    for name, flavours in strict_yaml.load(path).entries().items():
        for by_case in flavours.value.entries().values():
            for case, entry in by_case.value.entries().items():
                yield name, case, entry


def _tuning(board: Board, case: str, key: Value) -> None:
    case_name, tunings = CaseName.parse(case), board.tunings
    if case_name != case_name.without_tuning and case_name.tuning not in tunings:
        key.fail(f"{board.name} has no tuning {case_name.tuning!r} (allowed: {', '.join(sorted(tunings))})")


def _virtual(name: str) -> bool:
    """Return whether a board is virtual; of one whose file is wrong, what its file says in any case."""
    try:
        return boards.board(name).virtual
    except ConfigError:
        pass
    try:
        return b"qemu:" in files.read_bytes(site.find("boards", f"{name}.yaml"), files.YAML_LIMIT)
    except (OSError, ConfigError):
        return False
