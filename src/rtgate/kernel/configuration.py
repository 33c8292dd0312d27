# SPDX-License-Identifier: MIT
"""Build descriptions (`kernel-configs/NAME.yaml`), and whether a kernel got the configuration they ask for."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rtgate import files, site, strict_yaml
from rtgate.arches import ARCHES
from rtgate.board.boards import FLAVOURS
from rtgate.errors import BuildError, ConfigError
from rtgate.kernel import jailhouse, xenomai
from rtgate.kernel.fragments import UNSET, Option, load_fragment, resolve
from rtgate.kernel.version import KernelVersion
from rtgate.units import plural

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from rtgate.kernel import kconfig

TARGETS = ("kernel", "modules", "dtbs")

# Make targets that need no answer (`make help` of Linux); `menuconfig` or `oldconfig` would wait for one.
BASES = ("tinyconfig", "allnoconfig", "defconfig", "alldefconfig", "allmodconfig", "allyesconfig")
_EXTENDS = "extends"
_REQUIRED = ("arch", "flavour", "base", "fragments")
_OPTIONAL = (
    *("targets", "patches", "built_in", "optional", "device_trees", "cells"),
    *("kernel_fragments", "series_commits"),
)
_DEVICE_TREE = re.compile(r"[a-z0-9-]+/[A-Za-z0-9_-]+")
_CELL = re.compile(r"[a-z0-9][a-z0-9_-]*")
_FILE_BASE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*_defconfig")
_KERNEL_FRAGMENT = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]*\.config")
_COMMIT = re.compile(r"[0-9a-f]{8,40}")


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildDescription:
    """One entry of `kernel-configs/`, checked.

    Attributes:
        name: the file's name without suffix.
        base: the make target that the configuration starts from, such as `tinyconfig`.
        kernel_fragments: fragments of the kernel's own (`arch/ARCH/configs/NAME.config`), merged into the base.
        options: everything the fragments ask for, in their order, with version ranges.
        optional: symbols that may be missing in the final configuration.
        targets: what is built beside the configuration.
        patches: a directory with a patch series, applied to a copy of the tree.
        built_in: sources of ours (`target/modules`) that become part of the kernel, in a copy of the tree.
        device_trees: what a tree must have the source of (`rockchip/rk3588-evb1-v10`), and which kernels have it.
        series_commits: to which commit of a vendor's kernel its patch series applies, by the kernel's version.
        cells: the names of Jailhouse's root cell and of an inmate's; empty for a kernel alone.
    """

    name: str
    path: Path
    arch: str
    flavour: str
    base: str
    kernel_fragments: tuple[str, ...]
    options: tuple[Option, ...]
    optional: frozenset[str]
    targets: tuple[str, ...]
    patches: Path | None
    built_in: tuple[Path, ...]
    device_trees: Mapping[str, str]
    series_commits: Mapping[KernelVersion, str]
    cells: Mapping[str, str]

    @property
    def bases(self) -> tuple[str, ...]:
        """The make targets that the configuration starts from, in their order."""
        return (self.base, *self.kernel_fragments)

    def unsupported(self, tree: Path) -> str:
        """Return why this build is not for a kernel tree, which lacks something; empty where it is."""
        if self.flavour == xenomai.FLAVOUR and not (xenomai.has_dovetail(tree) or xenomai.is_prepared(tree)):
            return "no Dovetail (include/linux/dovetail.h)"
        directory = tree / "arch" / ARCHES[self.arch].directory
        missing_files = [
            f"{name}.dts ({where})"
            for name, where in self.device_trees.items()
            if not (directory / "boot" / "dts" / f"{name}.dts").is_file()
        ]
        return f"no device tree {', '.join(missing_files)}" if missing_files else ""

    def kernel_fragment_files(self, tree: Path) -> list[Path]:
        """Return the files of the kernel's own fragments in a tree, in the order in which make takes them.

        One name may stand for two files (scripts/kconfig/Makefile: configfiles).
        """
        places = (tree / "kernel" / "configs", tree / "arch" / ARCHES[self.arch].directory / "configs")
        paths = [place / name for name in self.kernel_fragments for place in places]
        return [path for path in paths if path.is_file()]

    def missing_fragments(self, tree: Path) -> list[str]:
        """Return the fragments of the kernel's own that a tree lacks."""
        names = {path.name for path in self.kernel_fragment_files(tree)}
        return [name for name in self.kernel_fragments if name not in names]

    def series_base(self, version: KernelVersion) -> str:
        """Return what the vendor's series for a kernel applies to; empty for a build that knows of no series."""
        if not self.series_commits:
            return ""
        if version in self.series_commits:
            return f"the vendor's series for {version} applies to commit {self.series_commits[version]}"
        return f"the vendor's series are for {', '.join(map(str, sorted(self.series_commits)))}, none for {version}"

    def requested_options(self, version: KernelVersion) -> dict[str, Option]:
        """Return what is asked of a kernel of this version, by symbol."""
        return resolve(self.options, version)


def load_description(path: Path) -> BuildDescription:
    """Read a build description and its fragments.

    A description may extend another one: of a key that both have its own value counts. Fragments and other
    descriptions are looked for beside it, then in the site, the kernel repository and rtgate, so that a site's builds
    can use shipped ones.

    Raises:
        ConfigError: a mistake in the description or in a fragment; names file, line, column and what is allowed.
    """
    top = description_entries(path)
    fragments = [_fragment(item) for item in top["fragments"].items()]
    options = tuple(option for fragment in fragments for option in load_fragment(fragment))
    targets = _targets(top.get("targets"))
    return BuildDescription(
        name=path.stem,
        path=path,
        arch=top["arch"].text(ARCHES),
        flavour=top["flavour"].text(FLAVOURS),
        base=_base(top["base"]),
        kernel_fragments=_kernel_fragments(top.get("kernel_fragments")),
        options=options,
        optional=_optional(top.get("optional"), options, path),
        targets=targets,
        patches=_patches(top.get("patches")),
        built_in=tuple(_module(item) for item in top["built_in"].items()) if "built_in" in top else (),
        device_trees=_device_trees(top.get("device_trees"), targets),
        series_commits=_series_commits(top.get("series_commits")),
        cells=_cells(top["cells"], top) if "cells" in top else {},
    )


def description_entries(path: Path) -> dict[str, strict_yaml.Value]:
    """Return what a description says, with what it has of those that it extends. Raises ConfigError."""
    entries: dict[str, strict_yaml.Value] = {}
    for file in reversed(description_files(path)):
        entries |= _read(file)
    return entries


def description_files(path: Path) -> tuple[Path, ...]:
    """Return the file of a description, then those that it extends. Raises ConfigError as `load_description`."""
    chain = [path]
    while (base := _read(chain[-1]).get(_EXTENDS)) is not None:
        file = _extended_file(base, chain)
        if file in chain:
            base.fail(f"the build extends itself by way of {base.text()!r}")
        chain.append(file)
    return tuple(chain)


def _extended_file(base: strict_yaml.Value, chain: Sequence[Path]) -> Path:
    """Return the file that a description extends: beside it, or of a site. By its own name it is a farther site's."""
    name = f"{base.text()}.yaml"
    neighbour = base.path.parent / name
    paths = [*([neighbour] if neighbour.is_file() else []), *(path for _, path in site.matches("kernel-configs", name))]
    try:
        nearest = paths[0] if paths else site.find("kernel-configs", name)
    except ConfigError as error:
        base.fail(str(error))
    return next((path for path in paths if path not in chain), nearest)


def _read(path: Path) -> dict[str, strict_yaml.Value]:
    value = strict_yaml.load(path)
    if _EXTENDS in value.entries():
        return dict(value.mapping((_EXTENDS,), (*_REQUIRED, *_OPTIONAL)).entries)
    return dict(value.mapping(_REQUIRED, (_EXTENDS, *_OPTIONAL)).entries)


def _base(value: strict_yaml.Value) -> str:
    base = value.text()
    if base not in BASES and not _FILE_BASE.fullmatch(base):
        choices = f"{', '.join(BASES)}, or NAME_defconfig of the kernel's arch/ARCH/configs"
        value.fail(f"{base!r} is not a configuration target (allowed: {choices})")
    return base


def _kernel_fragments(value: strict_yaml.Value | None) -> tuple[str, ...]:
    names: list[str] = []
    for item in value.items() if value is not None else ():
        if not _KERNEL_FRAGMENT.fullmatch(item.text()):
            item.fail(f"{item.text()!r} is not a fragment (expected: NAME.config of the kernel's arch/ARCH/configs)")
        if item.text() in names:
            item.fail(f"the fragment {item.text()!r} stands twice")
        names.append(item.text())
    return tuple(names)


def _series_commits(value: strict_yaml.Value | None) -> dict[KernelVersion, str]:
    commits = {}
    for name, entry in value.entries().items() if value is not None else ():
        try:
            version = KernelVersion.parse(name)
        except ValueError as error:
            entry.key.fail(str(error))
        if version in commits:
            entry.key.fail(f"the kernel {version} stands twice")
        commit = entry.value.scalar_text()
        if not _COMMIT.fullmatch(commit):
            entry.value.fail(f"{commit!r} is not a commit (expected: 8 to 40 hexadecimal digits)")
        commits[version] = commit
    return commits


def _fragment(value: strict_yaml.Value) -> Path:
    name = value.text()
    places = (value.path.parent, *(layer.directory / "kernel-configs" for layer in site.layers()))
    directories = [place / "fragments" for place in places]
    for directory in directories:
        if (directory / f"{name}.config").is_file():
            return directory / f"{name}.config"
    names = sorted({path.stem for directory in directories for path in directory.glob("*.config")})
    value.fail(f"no fragment {name!r} (allowed: {', '.join(names) or 'nothing'})")


def _targets(value: strict_yaml.Value | None) -> tuple[str, ...]:
    if value is None:
        return ("kernel",)
    targets = tuple(item.text(TARGETS) for item in value.items())
    if "kernel" not in targets:
        value.fail("the target 'kernel' is missing")
    if len(set(targets)) != len(targets):
        value.fail("a target stands twice")
    return targets


def _optional(value: strict_yaml.Value | None, options: Sequence[Option], path: Path) -> frozenset[str]:
    if value is None:
        return frozenset()
    symbols = {f"CONFIG_{option.symbol}" for option in options}
    if value.path == path:
        return frozenset(item.text(symbols).removeprefix("CONFIG_") for item in value.items())
    # That of an extended build goes with its fragments, which this one may have replaced.
    names = {item.text() for item in value.items()} & symbols
    return frozenset(name.removeprefix("CONFIG_") for name in names)


def _patches(value: strict_yaml.Value | None) -> Path | None:
    if value is None:
        return None
    series = value.path.parent / value.text() / "series"
    if not series.is_file():
        value.fail(f"{series}: no such file: a patch series is a directory with a file 'series'")
    return series.parent


def _module(value: strict_yaml.Value) -> Path:
    sources = site.find("target", "modules")
    modules = {path.stem: path for path in sources.glob("*.c")}
    return modules[value.text(sorted(modules))]


def _device_trees(value: strict_yaml.Value | None, targets: Sequence[str]) -> dict[str, str]:
    if value is None:
        return {}
    if "dtbs" not in targets:
        value.fail("the target 'dtbs' is missing: nothing would make them")
    trees = value.entries()
    for name, entry in trees.items():
        if not _DEVICE_TREE.fullmatch(name):
            entry.value.fail(f"{name!r} is not a device tree (expected: VENDOR/NAME, without .dts)")
    return {name: entry.value.text() for name, entry in trees.items()}


def _cells(value: strict_yaml.Value, top: Mapping[str, strict_yaml.Value]) -> dict[str, str]:
    if top["flavour"].text() != jailhouse.FLAVOUR or top["arch"].text() not in jailhouse.DEMOS:
        value.fail(f"only builds of flavour jailhouse have cells, for {', '.join(jailhouse.DEMOS)}")
    names = value.mapping(jailhouse.CELLS)
    for cell in jailhouse.CELLS:
        if not _CELL.fullmatch(names[cell].text()):
            names[cell].fail(f"{names[cell].text()!r} is not the name of a cell (expected: NAME of a file NAME.c)")
    return {cell: names[cell].text() for cell in jailhouse.CELLS}


@dataclass(frozen=True, slots=True)
class LostOption:
    """A requested option that is not in the final configuration."""

    option: Option
    actual: str
    reason: str

    def __str__(self) -> str:
        difference = f"CONFIG_{self.option.symbol}: asked {self.option.value}, found {self.actual}"
        return f"{difference}: {self.reason} (asked at {self.option.location})"


class LostOptionsError(BuildError):
    """The kernel did not take options that were asked for: change the fragments, the tree, or `optional`."""

    def __init__(self, options: Sequence[LostOption], tree: Path, hint: str = "") -> None:
        lines = "\n".join(f"  {option}" for option in options)
        super().__init__(f"{tree} did not take {plural(len(options), 'requested option')}{hint}:\n{lines}")
        self.lost = tuple(options)


def lost_options(
    requested_options: Mapping[str, Option],
    optional: frozenset[str],
    config: Mapping[str, str],
    read_definitions: Callable[[], kconfig.Definitions],
) -> tuple[LostOption, ...]:
    """Return the options that the final configuration has not got, with reasons from the tree's Kconfig files."""
    missing_options = [
        option
        for symbol, option in requested_options.items()
        if symbol not in optional and config.get(symbol, UNSET) != option.value
    ]
    if not missing_options:
        return ()
    definitions = read_definitions()
    return tuple(
        LostOption(
            option,
            config.get(option.symbol, UNSET),
            definitions.reason(option.symbol, option.value, config),
        )
        for option in missing_options
    )


def unrequested_options(
    description: BuildDescription,
    version: KernelVersion,
    config: Mapping[str, str],
    read_definitions: Callable[[], kconfig.Definitions],
) -> tuple[Option, ...]:
    """Return the options that a build asks of other kernel versions alone, and that this one could have as well."""
    requested_options = description.requested_options(version)
    absent_options = [
        option
        for option in description.options
        if option.symbol not in requested_options and config.get(option.symbol, UNSET) != option.value
    ]
    if not absent_options:
        return ()
    definitions = read_definitions()
    return tuple(option for option in absent_options if definitions.is_settable(option.symbol, config))


def read_config(path: Path) -> dict[str, str]:
    """Read a `.config` that Kconfig wrote: symbol to value, `n` for "is not set".

    Raises:
        ConfigError: the file cannot be read.
    """
    try:
        return parse_config(files.read_bytes(path, files.JSON_LIMIT).decode("utf-8", errors="backslashreplace"))
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error


def parse_config(text: str) -> dict[str, str]:
    """Read the text of a `.config`; lines that are no options are comments of Kconfig's."""
    config: dict[str, str] = {}
    for line in text.replace("\r\n", "\n").split("\n"):
        if line.startswith("CONFIG_") and "=" in line:
            symbol, _, value = line.removeprefix("CONFIG_").partition("=")
            config[symbol] = value
        elif line.startswith("# CONFIG_") and line.endswith(" is not set"):
            config[line.removeprefix("# CONFIG_").removesuffix(" is not set")] = UNSET
    return config
