# SPDX-License-Identifier: MIT
"""A build directory: `build.json` and the files it names."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rtgate import files as regular_file
from rtgate.arches import ARCHES
from rtgate.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

FORMAT = 1
_IMAGES = tuple(dict.fromkeys(arch.image for arch in ARCHES.values()))


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelBuild:
    """A kernel that can be booted.

    What only rtgate's own builds know is None or empty with provenance `unknown`.

    Attributes:
        source: what it was built from, as in `build.json`.
        provenance: `rtgate`, or `unknown` for a directory without `build.json`.
        inputs: a hash of everything that went into the build.
    """

    directory: Path
    image: Path
    image_sha256: str
    provenance: str
    name: str | None = None
    arch: str | None = None
    flavour: str | None = None
    release: str | None = None
    config: Path | None = None
    system_map: Path | None = None
    vmlinux: Path | None = None
    modules: Path | None = None
    dtbs: Path | None = None
    source: Mapping[str, str | bool] | None = None
    toolchain: str | None = None
    patches: tuple[str, ...] = ()
    inputs: str | None = None


def load(directory: Path) -> KernelBuild:
    """Read a build directory, and check that its files are what `build.json` says.

    Raises:
        ConfigError: there is no kernel in it, or a file is missing, no file, cannot be read, or has changed.
    """
    try:
        own = os.path.lexists(directory / "build.json")
        return _load_own_build(directory) if own else _load_unknown(directory)
    except OSError as error:
        raise ConfigError(f"{error.filename or directory}: cannot be read: {error.strerror}") from error


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def image_arch(image: Path) -> str | None:
    """Return the architecture that a kernel image's header tells, or None."""
    with image.open("rb") as file:
        head = file.read(0x400)
    for name, arch in ARCHES.items():
        offset, magic = arch.magic
        if head[offset : offset + len(magic)] == magic:
            return name
    return None


def _load_unknown(directory: Path) -> KernelBuild:
    images = [directory / name for name in _IMAGES if (directory / name).is_file()]
    if len(images) != 1:
        contents = "both" if images else "none of them"
        names = " and ".join(f"{name} ({_arches_with(name)})" for name in _IMAGES)
        choices = f"build.json (made by 'rtgate build'), or one of {names}"
        raise ConfigError(f"{directory} holds no kernel build: expected {choices}, found {contents}")
    image = images[0]
    arch = image_arch(image)
    if arch is None:
        raise ConfigError(
            f"{image} is not a kernel image: its header has the magic number of none of {', '.join(ARCHES)}"
        )

    def present(name: str) -> Path | None:
        path = directory / name
        if not os.path.lexists(path):
            return None
        regular_file.require_regular(path)
        return path

    return KernelBuild(
        directory=directory,
        image=image,
        image_sha256=sha256(image),
        provenance="unknown",
        arch=arch,
        config=present("config"),
        system_map=present("System.map"),
        vmlinux=present("vmlinux"),
    )


def _arches_with(image: str) -> str:
    return ", ".join(name for name, arch in ARCHES.items() if arch.image == image)


def _load_own_build(directory: Path) -> KernelBuild:
    path = directory / "build.json"
    try:
        content: dict[str, Any] = json.loads(regular_file.read_text(path, regular_file.JSON_LIMIT))
        if content["format"] != FORMAT:
            raise ConfigError(f"{path}: format {content['format']} is not {FORMAT}: made by another version of rtgate")
        files = {kind: _check_artefact(directory, entry) for kind, entry in content["artefacts"].items()}
        return KernelBuild(
            directory=directory,
            image=files["image"],
            image_sha256=content["artefacts"]["image"]["sha256"],
            provenance="rtgate",
            name=content["name"],
            arch=content["arch"],
            flavour=content["flavour"],
            release=content["release"],
            config=files["config"],
            system_map=files["system_map"],
            vmlinux=files.get("vmlinux"),
            modules=files.get("modules"),
            dtbs=files.get("dtbs"),
            source=content["source"],
            toolchain=content["toolchain"],
            patches=tuple(str(patch["file"]) for patch in content["patches"]),
            inputs=content["inputs"],
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigError(f"{path}: not understood ({type(error).__name__}: {error}): build it again") from error


def _check_artefact(directory: Path, entry: Mapping[str, str]) -> Path:
    path = directory / entry["file"]
    if path.parent != directory:
        raise ConfigError(f"{directory}/build.json names a file outside its directory: {entry['file']}")
    if not path.is_file():
        raise ConfigError(f"{path}: no such file, but build.json names it: build it again")
    if sha256(path) != entry["sha256"]:
        raise ConfigError(f"{path}: not the file that was built (its SHA-256 is not the one in build.json)")
    return path
