# SPDX-License-Identifier: MIT
"""Recipes of root filesystems (`target/rootfs/NAME.yaml`) and the package versions they are locked to."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from rtgate import site
from rtgate.arches import ARCHES
from rtgate.errors import ConfigError
from rtgate.kernel.xenomai import named_tree
from rtgate.rootfs import programs as own_programs
from rtgate.rootfs import xenomai
from rtgate.strict_yaml import Entry, Value, load

BUILDER_VERSION = 2  # counts up when the same recipe gives another image
_FORMAT = 1
_KIND = "target/rootfs"
# Keys that may be for one architecture, as packages-arm64.
_BY_ARCH = ("packages", "libraries", "suites", "programs", "files")


@dataclass(frozen=True, slots=True)
class OwnFile:
    """A file of the recipe's own, with its permissions in the image."""

    source: Path
    mode: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """What one recipe file says, without the recipe that it extends.

    Attributes:
        take: for each architecture, the files to take from each Debian package; names as in the package, `*` matches
            within one directory.
        libraries: for each architecture, the packages in which shared libraries are looked for.
        absent: libraries that programs need to start but do not get, and why they can do without.
        suites: for each architecture, packages that come from another suite of the archive.
        applets: for each program, the other names under which it is called.
        programs: for each architecture, our own programs by name in the image, and the C files that each is made from.
        xenomai: the files to take of what Xenomai's source installs, which RTGATE_XENOMAI names.
        files: for each architecture, files of the recipe's own, by name in the image.
        max_mib: the most that the compressed image may weigh.
    """

    name: str
    path: Path
    suite: str
    extends: str
    max_mib: int
    take: Mapping[str, Mapping[str, tuple[str, ...]]]
    libraries: Mapping[str, tuple[str, ...]]
    absent: Mapping[str, str] = field(default_factory=dict)
    suites: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    applets: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    programs: Mapping[str, Mapping[str, tuple[Path, ...]]] = field(default_factory=dict)
    xenomai: tuple[str, ...] = ()
    files: Mapping[str, Mapping[str, OwnFile]] = field(default_factory=dict)
    links: Mapping[str, str] = field(default_factory=dict)
    directories: tuple[str, ...] = ()

    @property
    def lock(self) -> Path:
        """Return the file that holds the package versions, whether it exists or not."""
        return self.path.with_name(f"{self.name}.lock.yaml")

    def packages(self, arch: str) -> dict[str, str]:
        """Return all Debian packages that are wanted, each with the suite it comes from, sorted."""
        names, suites = {*self.take[arch], *self.libraries[arch]}, self.suites[arch]
        return {name: suites.get(name, self.suite) for name in sorted(names)}


def find(name: str) -> tuple[Recipe, ...]:
    """Return the recipe and those it extends, the innermost first.

    Raises:
        ConfigError: there is none of this name, or one of them is wrong.
    """
    chain = [read(site.find(_KIND, f"{name}.yaml"))]
    while chain[0].extends:
        base = chain[0].extends
        if base in {recipe.name for recipe in chain}:
            raise ConfigError(f"{chain[0].path}: the recipe extends itself by way of {base!r}")
        chain.insert(0, read(site.find(_KIND, f"{base}.yaml")))
    for outer, inner in zip(chain[1:], chain, strict=False):
        if outer.suite != inner.suite:
            raise ConfigError(f"{outer.path}: suite {outer.suite!r} differs from {inner.suite!r} of {inner.name!r}")
    return tuple(chain)


def packages(chain: tuple[Recipe, ...], arch: str) -> dict[str, str]:
    """Return all packages of recipes that extend each other, each with its suite; the innermost recipe decides."""
    suites: dict[str, str] = {}
    for recipe in reversed(chain):
        suites |= recipe.packages(arch)
    return dict(sorted(suites.items()))


def added_packages(chain: tuple[Recipe, ...], arch: str) -> dict[str, str]:
    """Return the packages that the outermost recipe adds to those it extends, each with its suite: what it locks."""
    inner = packages(chain[:-1], arch)
    return {name: suite for name, suite in chain[-1].packages(arch).items() if name not in inner}


def names() -> tuple[str, ...]:
    """Return the names of all recipes."""
    return site.names(_KIND)


def read(path: Path) -> Recipe:
    """Read one recipe.

    Raises:
        ConfigError: something in it is wrong; the message begins with path:line:column.
    """
    optional = (
        "extends",
        "absent",
        "suites",
        "applets",
        "programs",
        "xenomai",
        "files",
        "links",
        "directories",
        *(f"{kind}-{arch}" for kind in _BY_ARCH for arch in ARCHES),
    )
    top = load(path).mapping(required=("format", "suite", "max-mib", "packages", "libraries"), optional=optional)
    top["format"].integer(_FORMAT, _FORMAT)
    common = top.texts("libraries")
    links = top.get("links")
    everywhere = _lists(top["packages"], checked=True)
    take = {arch: everywhere | _lists(top.get(f"packages-{arch}"), checked=True) for arch in ARCHES}
    libraries = {arch: (*common, *top.texts(f"libraries-{arch}")) for arch in ARCHES}
    package_names = {name for kind in (take, libraries) for names in kind.values() for name in names}
    suites, programs = _suites(top.get("suites"), package_names), _programs(top.get("programs"))
    own = _own_files(top.get("files"))
    return Recipe(
        name=path.stem,
        path=path,
        suite=top["suite"].text(),
        extends=top.text("extends", ""),
        max_mib=top["max-mib"].integer(minimum=1, maximum=4096),
        take=take,
        libraries=libraries,
        absent={name: entry.value.text() for name, entry in _read_entries(top.get("absent")).items()},
        suites={arch: suites | _suites(top.get(f"suites-{arch}"), package_names) for arch in ARCHES},
        applets=_lists(top.get("applets"), checked=False),
        programs={arch: programs | _programs(top.get(f"programs-{arch}")) for arch in ARCHES},
        xenomai=tuple(_name(value, value.text()) for value in _values(top.get("xenomai"))),
        files={arch: own | _own_files(top.get(f"files-{arch}")) for arch in ARCHES},
        links={name: entry.value.text() for name, entry in _read_entries(links).items()},
        directories=tuple(_name(value, value.text()) for value in _values(top.get("directories"))),
    )


def _values(value: Value | None) -> tuple[Value, ...]:
    return () if value is None else value.items()


def _read_entries(value: Value | None) -> dict[str, Entry]:
    entries = {} if value is None else value.entries()
    for name, entry in entries.items():
        _name(entry.key, name)
    return entries


def _suites(value: Value | None, packages: Collection[str]) -> dict[str, str]:
    entries = {} if value is None else value.entries()
    for name, entry in entries.items():
        if name not in packages:
            entry.key.fail(f"{name!r} is neither under packages nor under libraries")
    return {name: entry.value.text() for name, entry in entries.items()}


def _lists(value: Value | None, *, checked: bool) -> dict[str, tuple[str, ...]]:
    lists = {}
    for name, entry in ({} if value is None else value.entries()).items():
        items = entry.value.items()
        if not items:
            entry.value.fail("expected a list of names, found an empty one")
        texts = [_name(item, item.text()) if checked else item.text() for item in items]
        for item, text in zip(items, texts, strict=True):
            if texts.count(text) > 1:
                item.fail(f"{text!r} stands twice")
        lists[name] = tuple(texts)
    return lists


def _name(value: Value, text: str) -> str:
    if PurePosixPath(text).is_absolute() or any(part in {"", ".", ".."} for part in text.split("/")):
        value.fail(f"{text!r} must be relative to the root directory, without '.' and '..'")
    return text


def _own_files(value: Value | None) -> dict[str, OwnFile]:
    return {name: _own_file(entry) for name, entry in _read_entries(value).items()}


def _own_file(entry: Entry) -> OwnFile:
    body = entry.value.mapping(required=("from",), optional=("mode",))
    source = entry.value.path.parent / _name(body["from"], body["from"].text())
    if not source.is_file():
        body["from"].fail(f"no such file: {source}")
    mode = body.get("mode")
    return OwnFile(source, 0o644 if mode is None else mode.integer(0, 0o7777))


def _programs(value: Value | None) -> dict[str, tuple[Path, ...]]:
    return {name: _sources(entry) for name, entry in _read_entries(value).items()}


def _sources(entry: Entry) -> tuple[Path, ...]:
    """Return the C files of a program of ours; they are named relative to `target/`, where recipes lie in `rootfs/`."""
    items = entry.value.items()
    if not items:
        entry.value.fail("expected a list of C files, found an empty one")
    sources = []
    for item in items:
        source = entry.value.path.resolve().parent.parent / _name(item, item.text())
        if source.suffix != ".c" or not source.is_file():
            item.fail(f"no such C file: {source}")
        sources.append(source)
    return tuple(sources)


def locked_versions(recipe: Recipe, arch: str) -> dict[str, str]:
    """Return the package versions that the recipe is locked to; empty without a lock file.

    Raises:
        ConfigError: the lock file is wrong, or it locks a package that the recipe does not name.
    """
    if not recipe.lock.exists():
        return {}
    top = load(recipe.lock).mapping(required=("format", "suite", "packages"))
    top["format"].integer(_FORMAT, _FORMAT)
    top["suite"].text({recipe.suite})
    entries = top["packages"].mapping(required=tuple(ARCHES))[arch].entries()
    for name, entry in entries.items():
        if name not in recipe.packages(arch):
            entry.key.fail(f"{name!r} is locked but {recipe.path.name} does not name it")
    return {name: entry.value.text() for name, entry in entries.items()}


def lock_text(recipe: Recipe, versions: Mapping[str, Mapping[str, str]]) -> str:
    """Return a lock file for these versions (by architecture and package)."""
    lines = [
        "# SPDX-License-Identifier: MIT",
        f"# Versions that {recipe.path.name} is built from. Written by: rtgate rootfs {recipe.name} --update-lock",
        f"format: {_FORMAT}",
        f"suite: {recipe.suite}",
        "packages:",
    ]
    for arch in ARCHES:
        lines.append(f"  {arch}:" if versions[arch] else f"  {arch}: {{}}")
        lines += [f"    {name}: {json.dumps(version)}" for name, version in sorted(versions[arch].items())]
    return "\n".join(lines) + "\n"


def key(chain: tuple[Recipe, ...], arch: str) -> str:
    """Return a short name for everything that decides what the image holds, except the archive's state.

    Raises:
        ConfigError: the recipe takes Xenomai's programs, and RTGATE_XENOMAI names no source of them.
        InfrastructureError: the recipe has programs of ours or Xenomai's, and there is no compiler for them.
    """
    digest = hashlib.sha256(f"{BUILDER_VERSION} {arch}".encode())
    for recipe in chain:
        files = [(f"{name} {own.mode:o}", own.source) for name, own in sorted(recipe.files[arch].items())]
        for name, path in (("recipe", recipe.path), ("lock", recipe.lock), *files):
            content = path.read_bytes() if path.exists() else b""
            digest.update(f"{recipe.name} {name} {len(content)}\n".encode() + content)
        for name, sources in sorted(recipe.programs[arch].items()):
            made_by = own_programs.compiler(arch).identity
            digest.update(f"{recipe.name} {name} {own_programs.version(sources)} {made_by}\n".encode())
        if recipe.xenomai:
            digest.update(f"{recipe.name} xenomai {xenomai.key(named_tree(), arch)}\n".encode())
    return digest.hexdigest()[:16]
