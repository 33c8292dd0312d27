# SPDX-License-Identifier: MIT
"""Makes an image from a recipe: fetches the packages, picks the files, finds their shared libraries, packs."""

from __future__ import annotations

import hashlib
import json
import posixpath
import re
import stat
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import Any

from rtgate.arches import ARCHES
from rtgate.errors import ConfigError
from rtgate.kernel.xenomai import named_tree
from rtgate.rootfs import cpio, elf, xenomai
from rtgate.rootfs import programs as own_programs
from rtgate.rootfs.debian import Archive, Member, contents, upstream, usr_path
from rtgate.rootfs.recipe import Recipe, added_packages, locked_versions, packages

MANIFEST_FORMAT = 1
# What the kernel needs before it has a devtmpfs, and what a shell needs where there is none.
_DEVICES = (
    cpio.character_device("dev/console", 5, 1),
    cpio.character_device("dev/null", 1, 3, 0o666),
    cpio.character_device("dev/zero", 1, 5, 0o666),
    cpio.character_device("dev/tty", 5, 0, 0o666),
    cpio.character_device("dev/urandom", 1, 9, 0o666),
)

_STAND_IN = "librtgate-absent.so"

Members = Mapping[str, Mapping[str, Member]]
Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Content:
    """What goes into an image: its entries, and the versions and the package of everything taken."""

    entries: tuple[cpio.Entry, ...]
    programs: Mapping[str, str]  # program and the upstream version of its package
    absent: Mapping[str, str]  # library that programs need but do not get, and why


@dataclass(frozen=True, slots=True)
class FetchedPackages:
    """Packages as they were found in the archive."""

    members: Members
    versions: Mapping[str, str]
    warnings: tuple[str, ...]


def build(chain: tuple[Recipe, ...], arch: str, directory: Path, work: Path, progress: Progress) -> None:
    """Write the image and its manifest into `directory`; `work` is an empty directory for what is in between.

    Raises:
        ConfigError: the recipe asks for what the packages do not have, or the image is too large.
        InfrastructureError: the packages cannot be fetched.
    """
    recipe = chain[-1]
    fetched_packages = fetch(chain, arch, work, progress)
    content = compose(chain, arch, fetched_packages.members, fetched_packages.versions, progress)
    progress("packing")
    archive = cpio.pack(content.entries)
    image_bytes = cpio.compress(archive)
    if len(image_bytes) > recipe.max_mib << 20:
        raise ConfigError(
            f"{recipe.path}: the image has {len(image_bytes):,} bytes, more than max-mib ({recipe.max_mib}) allows"
        )
    image = directory / f"{recipe.name}-{arch}.cpio.gz"
    image.write_bytes(image_bytes)
    image.with_suffix("").write_bytes(archive)
    manifest = {
        "format": MANIFEST_FORMAT,
        "name": recipe.name,
        "arch": arch,
        "suites": sorted(set(packages(chain, arch).values())),
        "image": image.name,
        "sha256": hashlib.sha256(image_bytes).hexdigest(),
        "size": len(image_bytes),
        "archive": image.with_suffix("").name,
        "content_sha256": hashlib.sha256(archive).hexdigest(),
        "content_size": len(archive),
        "packages": dict(sorted(fetched_packages.versions.items())),
        "tools": dict(sorted(content.programs.items())),
        "absent": dict(sorted(content.absent.items())),
        "warnings": list(fetched_packages.warnings),
        "files": [_manifest_entry(entry) for entry in sorted(content.entries, key=lambda entry: entry.name)],
    }
    (directory / "manifest.json").write_text(json.dumps(manifest, indent=1) + "\n")


def _manifest_entry(entry: cpio.Entry) -> dict[str, Any]:
    facts: dict[str, Any] = {"name": entry.name, "mode": f"{entry.mode:06o}"}
    if stat.S_ISREG(entry.mode):
        facts |= {"size": len(entry.data), "sha256": hashlib.sha256(entry.data).hexdigest()}
    elif stat.S_ISLNK(entry.mode):
        facts["target"] = entry.target
    elif stat.S_ISCHR(entry.mode):
        facts["device"] = list(entry.device)
    return facts


def fetch(chain: tuple[Recipe, ...], arch: str, work: Path, progress: Progress) -> FetchedPackages:
    """Fetch all packages of the recipes, in their locked versions where the archive still has them."""
    suites = packages(chain, arch)
    progress(f"fetching the lists of packages of Debian {' and '.join(sorted(set(suites.values())))} for {arch}")
    archive = Archive.open(work, suites.values(), ARCHES[arch].debian)
    locks: dict[str, str] = {}
    for part in chain:
        # The innermost recipe decides, so that its content is in the outer one.
        locks = locked_versions(part, arch) | locks
    versions, warnings = choose(archive.versions(suites), locks)
    warnings += tuple(
        f"{part.lock} does not lock {name}: took {versions[name]} (rtgate rootfs {part.name} --update-lock)"
        for number, part in enumerate(chain)
        if part.lock.exists()
        for name in added_packages(chain[: number + 1], arch)
        if name not in locks
    )
    progress(f"fetching {len(suites)} packages")
    paths = archive.download(versions)
    return FetchedPackages({name: contents(path) for name, path in paths.items()}, versions, warnings)


def choose(
    available: Mapping[str, tuple[str, ...]], locks: Mapping[str, str]
) -> tuple[dict[str, str], tuple[str, ...]]:
    """Return the version to take of each package, and a warning for each that is not the locked one."""
    choices, warnings = {}, []
    for name, versions in available.items():
        lock = locks.get(name, versions[0])
        choices[name] = lock if lock in versions else versions[0]
        if choices[name] != lock:
            warnings.append(
                f"the archive no longer has {name} {lock}: took {choices[name]}, so this image is another than the"
                " locked one and its measurements are not comparable with those of the locked one"
            )
    return choices, tuple(warnings)


def compose(
    chain: tuple[Recipe, ...],
    arch: str,
    members: Members,
    versions: Mapping[str, str],
    progress: Progress = lambda _: None,
) -> Content:
    """Return everything that the image holds.

    Raises:
        ConfigError: the recipe asks for a file, a library or an applet that no package has, or twice for one name; or
            a program of ours does not compile.
        InfrastructureError: there is no compiler for a program of ours.
    """
    image = _Image()
    programs: dict[str, str] = {}
    own: dict[str, str] = {}
    for recipe in chain:
        image.about = str(recipe.path)
        for package, patterns in recipe.take[arch].items():
            for name in _matching(recipe, f"the package {package}", patterns, members[package]):
                image.add_member(name, members[package][name])
                if name.startswith(("usr/bin/", "usr/sbin/")):
                    programs[posixpath.basename(name)] = upstream(versions[package])
        image.add(cpio.directory(name) for name in recipe.directories)
        image.add(cpio.symlink(name, target) for name, target in recipe.links.items())
        image.add(cpio.file(name, own.source.read_bytes(), own.mode) for name, own in recipe.files[arch].items())
        image.add(_applets(recipe, image))
        own |= _add_own_programs(recipe, arch, image)
        own |= _add_xenomai(recipe, arch, image, progress)
    image.add(_DEVICES)
    sources = {name for recipe in chain for name in recipe.libraries[arch]}
    reasons = {name: why for recipe in chain for name, why in recipe.absent.items()}
    _add_libraries(image, {name: members[name] for name in sorted(sources)}, reasons)
    absent = {name: reasons[name] for name in image.absent}
    identity = {
        "format": MANIFEST_FORMAT,
        "name": chain[-1].name,
        "arch": arch,
        "packages": dict(sorted(versions.items())),
        "absent": sorted(absent),
        **({"programs": dict(sorted(own.items()))} if own else {}),
    }
    image.add([cpio.file("etc/rtgate-rootfs.json", json.dumps(identity, indent=1).encode() + b"\n")])
    return Content(tuple(image.entries.values()), programs | own, absent)


def _add_own_programs(recipe: Recipe, arch: str, image: _Image) -> dict[str, str]:
    """Compile and add the recipe's own programs; return the version of each, with what it was made by."""
    versions = {}
    for name, sources in recipe.programs[arch].items():
        image.add([cpio.file(name, own_programs.build(sources, arch), 0o755)])
        made_by = own_programs.compiler(arch).identity
        versions[posixpath.basename(name)] = f"{own_programs.version(sources)} ({made_by})"
    return versions


def _add_xenomai(recipe: Recipe, arch: str, image: _Image, progress: Progress) -> dict[str, str]:
    """Add what the recipe takes of Xenomai; return the version of each program."""
    if not recipe.xenomai:
        return {}
    tree = named_tree()
    members, versions = xenomai.installed(tree, arch, progress), {}
    for name in _matching(recipe, f"Xenomai {tree.version}", recipe.xenomai, members):
        image.add_member(name, members[name])
        if not name.startswith(f"{xenomai.PREFIX[1:]}/lib/"):
            versions[f"xenomai {posixpath.basename(name)}"] = tree.version
    return versions


class _Image:
    """Entries by name; a name that comes twice, or below a link or a file, is an error of the recipe.

    Attributes:
        about: the recipe that is read, for messages.
        origins: the recipe of each entry.
    """

    def __init__(self) -> None:
        self.about = ""
        self.entries: dict[str, cpio.Entry] = {}
        self.origins: dict[str, str] = {}
        self.absent: set[str] = set()
        self._parents: set[str] = set()

    def add(self, entries: Iterable[cpio.Entry]) -> None:
        for entry in entries:
            if entry.name in self.entries:
                raise ConfigError(f"{self.about}: two parts of the recipe both make {entry.name}")
            parents = {str(place) for place in PurePosixPath(entry.name).parents}
            self._parents |= parents
            self.entries[entry.name], self.origins[entry.name] = entry, self.about
            for name in parents & self.entries.keys() | {entry.name} & self._parents:
                if not stat.S_ISDIR(self.entries[name].mode):
                    raise self.mistake(entry, f"cannot be: {name} is not a directory, so nothing lies below it")

    def mistake(self, entry: cpio.Entry, reason: str) -> ConfigError:
        """Return an error of the recipe that an entry comes from."""
        return ConfigError(f"{self.origins[entry.name]}: {entry.name} {reason}")

    def add_member(self, name: str, member: Member) -> None:
        self.add([cpio.Entry(name, member.mode, member.data)])


def _matching(recipe: Recipe, source: str, patterns: tuple[str, ...], members: Mapping[str, Member]) -> Iterator[str]:
    known_names: set[str] = set()
    for pattern in patterns:
        hits = [name for name in sorted(members) if matches(name, pattern)]
        if not hits:
            raise ConfigError(f"{recipe.path}: {source} has no file {pattern!r}")
        for name in hits:
            if name not in known_names:
                known_names.add(name)
                yield name


def matches(name: str, pattern: str) -> bool:
    """Return whether a name matches: `*` stands for anything within one directory, `**` at the end for all below."""
    if pattern.endswith("/**"):
        return name.startswith(pattern.removesuffix("**"))
    parts, pattern_parts = name.split("/"), pattern.split("/")
    return len(parts) == len(pattern_parts) and all(
        fnmatchcase(*pair) for pair in zip(parts, pattern_parts, strict=True)
    )


def _applets(recipe: Recipe, image: _Image) -> Iterator[cpio.Entry]:
    for program, names in recipe.applets.items():
        if program not in image.entries:
            raise ConfigError(f"{recipe.path}: applets of {program}, which the recipe does not take")
        data = image.entries[program].data
        directory, base = posixpath.split(program)
        for name in names:
            # Programs with applets look them up by name, so a name that they know stands in them as text.
            if name.encode() + b"\0" not in data:
                raise ConfigError(f"{recipe.path}: {program} knows no applet {name!r}")
            yield cpio.symlink(f"{directory}/{name}", base)


def _add_libraries(image: _Image, packages: Members, absent: Collection[str]) -> None:
    """Add what the programs need to start, and what that needs in turn; what no package has may be absent."""
    index: dict[str, list[tuple[str, Member]]] = {}
    for members in packages.values():
        for name, member in members.items():
            index.setdefault(posixpath.basename(name), []).append((name, member))
    queue = [entry for entry in image.entries.values() if elf.is_elf(entry.data)]
    present = {posixpath.basename(name) for name in image.entries}
    while queue:
        entry = queue.pop()
        image.about = image.origins[entry.name]
        needs = elf.needs(entry.data)
        interpreter = (usr_path(needs.interpreter.lstrip("/")),) if needs.interpreter else ()
        for library in (*interpreter, *needs.libraries):
            places = [
                place
                for place in index.get(posixpath.basename(library), [])
                if "/" not in library or place[0] == library
            ]
            if not places and posixpath.basename(library) in present:
                continue  # a file of the recipe's own, or one of Xenomai's
            if not places and library in absent:
                image.absent.add(library)
                continue
            if not places:
                raise image.mistake(entry, f"needs {library}, which no package under `libraries` has")
            # The plain variant lies above those for special processors (glibc-hwcaps).
            name, member = min(places, key=lambda place: (place[0].count("/"), place[0]))
            queue += _take_library(image, name, member, index)
    _check_libc(image)
    if image.absent:
        _add_stand_in(image)


def _add_stand_in(image: _Image) -> None:
    """Add one library under the names of all absent ones, with the functions that the programs expect of them.

    Programs stay as Debian built them. Versions say of which library most symbols are; one without a version that no
    library of the program has can only be of an absent one.
    """
    files = {posixpath.basename(name): entry for name, entry in image.entries.items()}
    functions: set[tuple[str, str]] = set()
    processors = set()
    for entry in [entry for entry in image.entries.values() if elf.is_elf(entry.data)]:
        if not image.absent.intersection(elf.needs(entry.data).libraries):
            continue
        processors.add(elf.machine(entry.data))
        exports = frozenset[str]().union(*(elf.exports(library) for library in _needed_libraries(entry, files)))
        for symbol in elf.imports(entry.data):
            if symbol.library not in image.absent and (symbol.library or symbol.name in exports):
                continue
            if not symbol.is_function:
                raise image.mistake(entry, f"needs the data {symbol.name} of an absent library: take the library")
            functions.add((symbol.name, symbol.version))
    [processor] = processors
    # The dynamic linker looks here last, so a library that is present always comes first.
    image.add([cpio.file(f"usr/lib/{_STAND_IN}", elf.stand_in(processor, _STAND_IN, functions))])
    image.add(cpio.symlink(f"usr/lib/{name}", _STAND_IN) for name in sorted(image.absent))


def _needed_libraries(entry: cpio.Entry, files: Mapping[str, cpio.Entry]) -> Iterator[bytes]:
    """Yield the libraries that a program starts with, as far as they are in the image."""
    queue, known_names = list(elf.needs(entry.data).libraries), set[str]()
    while queue:
        name = queue.pop()
        library = files.get(name)
        if name in known_names or library is None:
            continue
        known_names.add(name)
        if stat.S_ISLNK(library.mode):
            queue.append(posixpath.basename(library.target))
        else:
            queue += elf.needs(library.data).libraries
            yield library.data


def _check_libc(image: _Image) -> None:
    """Refuse programs that were linked to a newer libc than the image has, as those of a newer suite may be."""
    programs = [entry for entry in image.entries.values() if elf.is_elf(entry.data)]
    own = max((_libc_version(entry) for entry in programs if posixpath.basename(entry.name) == "libc.so.6"), default=0)
    for entry in programs:
        if elf.needs(entry.data).libraries and _libc_version(entry) > own:
            raise image.mistake(entry, f"needs GLIBC_2.{_libc_version(entry)}, the image's libc is 2.{own}")


def _libc_version(entry: cpio.Entry) -> int:
    """Return the highest N of the symbol versions GLIBC_2.N that a file names."""
    return max((int(number) for number in re.findall(rb"GLIBC_2\.(\d{1,3})(?=\0)", entry.data)), default=0)


def _take_library(
    image: _Image, name: str, member: Member, index: Mapping[str, list[tuple[str, Member]]]
) -> list[cpio.Entry]:
    """Add a library and, where its name is a link, what that points to; return what is new in the image."""
    if name in image.entries:
        return []
    image.add_member(name, member)
    if member.target is None:
        return [image.entries[name]]
    real = posixpath.normpath(posixpath.join(posixpath.dirname(name), member.target))
    for place, candidate in index.get(posixpath.basename(real), []):
        if place == real:
            return _take_library(image, place, candidate, index)
    raise ConfigError(f"{image.about}: the link {name} points to {real}, which no package under `libraries` has")
