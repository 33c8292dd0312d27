# SPDX-License-Identifier: MIT
"""The default kernel source: a Debian source package, one version of it pinned with its SHA-256."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rtgate import files, process, site, strict_yaml
from rtgate.errors import InfrastructureError
from rtgate.kernel.artefacts import sha256

if TYPE_CHECKING:
    from collections.abc import Callable

_INSTALLED = Path("/usr/src")
_DOWNLOAD_S = 900.0  # 140 MB over a slow network


@dataclass(frozen=True, slots=True)
class Pin:
    """The pinned package: its version, the tarball's name in it, and the tarball's SHA-256."""

    package: str
    version: str
    tarball: str
    sha256: str


@dataclass(frozen=True, slots=True)
class UnpackedSource:
    """An unpacked source package; `pinned` is the pinned version when this is another one."""

    path: Path
    package: str
    version: str
    pinned: str | None


def load_pin(path: Path) -> Pin:
    """Read `sources.lock.yaml`.

    Raises:
        ConfigError: a key is missing, unknown or malformed.
    """
    top = strict_yaml.load(path).mapping(("package", "version", "tarball", "sha256"))
    for name, pattern in (("package", r"[a-z0-9][a-z0-9.+-]+"), ("version", r"[\w.+~:-]+"), ("sha256", "[0-9a-f]{64}")):
        if not re.fullmatch(pattern, top[name].text()):
            top[name].fail(f"{top[name].text()!r} is not a {name} (expected: {pattern})")
    return Pin(top["package"].text(), top["version"].text(), top["tarball"].text(), top["sha256"].text())


def unpacked_source(notice: Callable[[str], None]) -> UnpackedSource:
    """Return the pinned source from the cache; fetch and unpack it if it is not there.

    Without the pinned version in Debian's suite the newest one is taken.

    Raises:
        ConfigError: the lock file is wrong.
        InfrastructureError: it cannot be fetched, or the pinned version has another SHA-256.
    """
    pin = load_pin(site.find("kernel-configs", "sources.lock.yaml"))
    store = site.cache().absolute() / "sources"
    store.mkdir(parents=True, exist_ok=True)
    with files.waiting_lock(store / "lock", "fetches kernel sources", notice):
        source = _find_cached(store, pin)
        return source or _fetch(store, pin, notice)


def _find_cached(store: Path, pin: Pin) -> UnpackedSource | None:
    place = store / pin.version
    if not place.is_dir():
        return None
    version = place.resolve().name
    if version != pin.version and _installed_tarball(pin):
        return None
    return UnpackedSource(store / version, pin.package, version, None if version == pin.version else pin.version)


def _installed_tarball(pin: Pin) -> Path | None:
    """Return the pinned tarball, if its package is installed; that of another version has the same name."""
    path = _INSTALLED / pin.tarball
    return path if path.is_file() and sha256(path) == pin.sha256 else None


def _fetch(store: Path, pin: Pin, notice: Callable[[str], None]) -> UnpackedSource:
    local_tarball = _installed_tarball(pin)
    with files.scratch(store, ".partial-") as scratch:
        if local_tarball:
            tarball, version = local_tarball, pin.version
        else:
            notice(f"downloading {pin.package} {pin.version}")
            tarball, version = _download(scratch, pin)
        place = store / version
        if place.is_symlink():
            place.unlink()
        if not place.is_dir():  # else it was unpacked for another pin, and builds may run in it
            notice(f"unpacking {tarball.name} ({version})")
            _unpack(tarball, scratch / "tree")
            (scratch / "tree").rename(place)
    if version != pin.version:
        # Debian did not have this pin; another pin has to ask Debian anew.
        files.remove_tree(store / pin.version)
        (store / pin.version).symlink_to(version)
    return UnpackedSource(store / version, pin.package, version, None if version == pin.version else pin.version)


def _unpack(tarball: Path, tree: Path) -> None:
    tree.mkdir()
    arguments = ["tar", "--extract", "--strip-components=1", f"--file={tarball}", f"--directory={tree}"]
    process.require("xz")
    process.output([*arguments, "--no-same-owner"])


def _download(scratch: Path, pin: Pin) -> tuple[Path, str]:
    """Return the tarball and the package's version."""
    process.require("apt-get", "dpkg-deb")
    # As root apt would switch to a user who may not write into the cache.
    command = ["apt-get", "-o", f"APT::Sandbox::User={'root' if os.geteuid() == 0 else ''}", "download"]
    attempt = process.attempt([*command, f"{pin.package}={pin.version}"], directory=scratch, timeout_s=_DOWNLOAD_S)
    if f"Version '{pin.version}' for '{pin.package}' was not found" in attempt.stderr:
        attempt = process.attempt([*command, pin.package], directory=scratch, timeout_s=_DOWNLOAD_S)
    package = next(scratch.glob("*.deb"), None)
    if attempt.returncode != 0 or package is None:
        message = " / ".join(line for line in attempt.stderr.split("\n") if line.startswith("E:"))
        raise InfrastructureError(
            f"cannot download {pin.package}: {message or 'apt-get said nothing'} "
            "(try 'apt-get update' as root, add Debian 12's security suite, or give a tree with --tree)"
        )
    version = process.output(["dpkg-deb", "--field", str(package), "Version"]).strip()
    process.output(["dpkg-deb", "--extract", str(package), str(scratch / "package")])
    tarball = scratch / "package" / _INSTALLED.relative_to("/") / pin.tarball
    if not tarball.is_file():
        raise InfrastructureError(f"{package.name} has no {_INSTALLED / pin.tarball}")
    if version == pin.version and (digest := sha256(tarball)) != pin.sha256:
        raise InfrastructureError(
            f"{pin.tarball} of {pin.package} {version} has SHA-256 {digest}, pinned is {pin.sha256}"
        )
    return tarball, version
