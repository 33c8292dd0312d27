# SPDX-License-Identifier: MIT
"""Debian packages of any architecture and suite, fetched and read without root and without touching the system's apt.

apt runs with directories of its own: nothing is installed, no architecture is added, and it still checks the archive's
signature. The system's proxy and credential settings hold.
"""

from __future__ import annotations

import io
import os
import re
import stat
import subprocess
import tarfile
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from rtgate import process
from rtgate.errors import InfrastructureError
from rtgate.files import scratch

_KEYRINGS = tuple(Path("/usr/share/keyrings") / f"debian-archive-keyring.{suffix}" for suffix in ("pgp", "gpg"))
_TIMEOUT_S = 900.0


@dataclass(frozen=True, slots=True)
class Member:
    """One file or symbolic link of a package."""

    mode: int
    data: bytes

    @property
    def target(self) -> str | None:
        """Return where a symbolic link points to; None for a file."""
        return self.data.decode() if stat.S_ISLNK(self.mode) else None


@dataclass(frozen=True, slots=True)
class Archive:
    """Suites of the Debian archive for one architecture (Debian's name), with apt's private directories."""

    directory: Path
    suites: tuple[str, ...]
    architecture: str

    @classmethod
    def open(cls, directory: Path, suites: Iterable[str], architecture: str) -> Archive:
        """Set apt up in `directory` and fetch the lists of packages.

        Raises:
            InfrastructureError: no mirror is known, its signature cannot be checked, or it cannot be reached.
        """
        archive = cls(directory, tuple(sorted(set(suites))), architecture)
        for name in ("lists/partial", "cache/archives/partial", "packages"):
            (directory / name).mkdir(parents=True)
        (directory / "status").touch()
        address = mirror()  # it may hold a password
        (directory / "sources.list").touch(mode=0o600)
        (directory / "sources.list").write_text(
            "".join(
                f"deb [arch={architecture} target=Packages signed-by={_keyring()}] {address} {suite} main\n"
                for suite in archive.suites
            )
        )
        (directory / "apt.conf").write_text(archive.configuration())
        archive._apt("apt-get", "update", "-qq")
        return archive

    def configuration(self) -> str:
        """Return apt's configuration: everything it writes lies in our directory."""
        place = self.directory
        return "\n".join(
            (
                f'Dir::Etc::SourceList "{place}/sources.list";',
                'Dir::Etc::SourceParts "-";',
                'Dir::Etc::Preferences "-";',
                'Dir::Etc::PreferencesParts "-";',
                f'Dir::State "{place}";',
                f'Dir::State::Lists "{place}/lists";',
                f'Dir::State::status "{place}/status";',
                f'Dir::Cache "{place}/cache";',
                f'APT::Architecture "{self.architecture}";',
                f'APT::Architectures {{ "{self.architecture}"; }};',
                'APT::Update::Error-Mode "any";',
                # As root, apt would give up its rights and then could not write to our directory.
                'APT::Sandbox::User "root";',
                'Acquire::Languages "none";',
                'Acquire::Retries "3";',
                "",
            )
        )

    def versions(self, suites: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
        """Return the versions that each package has in its suite, the newest first.

        Raises:
            InfrastructureError: it has none of one of them.
        """
        by_package: dict[str, list[str]] = {name: [] for name in suites}
        for line in self._apt("apt-cache", "madison", *suites).splitlines():
            name, version, source = (part.strip() for part in line.split("|"))
            suite = source.split()[1].partition("/")[0]  # "ADDRESS trixie/main arm64 Packages"
            if suite == suites.get(name) and version not in by_package[name]:
                by_package[name].append(version)
        missing_packages = [f"{name} in {suites[name]}" for name, versions in by_package.items() if not versions]
        if missing_packages:
            raise InfrastructureError(
                f"Debian has no {', '.join(missing_packages)} for {self.architecture}: correct the recipe"
            )
        return {name: tuple(versions) for name, versions in by_package.items()}

    def download(self, versions: Mapping[str, str]) -> dict[str, Path]:
        """Fetch these versions of these packages; apt checks each against the signed list.

        Raises:
            InfrastructureError: one cannot be fetched.
        """
        place = self.directory / "packages"
        self._apt("apt-get", "download", "-qq", *(f"{name}={version}" for name, version in versions.items()), cwd=place)
        return {name: self._file(place, name) for name in versions}

    def _file(self, place: Path, name: str) -> Path:
        files = list(place.glob(f"{name}_*.deb"))
        if len(files) != 1:
            raise InfrastructureError(f"apt-get download left {len(files)} files for {name}: is the disk full?")
        return files[0]

    def _apt(self, *argv: str, cwd: Path | None = None) -> str:
        environment = {**os.environ, "APT_CONFIG": str(self.directory / "apt.conf"), "LC_ALL": "C"}
        return run(argv, f"Debian {' and '.join(self.suites)} ({self.architecture})", environment, cwd).decode()


def run(
    argv: Sequence[str], about: str, environment: Mapping[str, str] | None = None, cwd: Path | None = None
) -> bytes:
    """Run one of apt's or dpkg's programs and return what it prints.

    Raises:
        InfrastructureError: it is missing, takes too long or fails; the message holds the line that says why.
    """
    process.require(argv[0])
    try:
        child = subprocess.run(argv, env=environment, cwd=cwd, capture_output=True, timeout=_TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired:
        raise InfrastructureError(
            f"{argv[0]} took longer than {_TIMEOUT_S:.0f} s ({about}): is the network up?"
        ) from None
    if child.returncode != 0:
        raise InfrastructureError(
            f"{_command(argv)} failed for {about}: {telling_line(child.stderr.decode(errors='replace'))}"
            " (check the network, apt's proxy settings and RTGATE_DEBIAN_MIRROR)"
        )
    return child.stdout


def _command(argv: Sequence[str]) -> str:
    """Return a program and its first word that is not `-o SETTING`."""
    words = [word for before, word in pairwise(argv) if "-o" not in {before, word}]
    return f"{argv[0]} {words[0]}" if words else argv[0]


def telling_line(errors: str) -> str:
    """Return the line of apt's messages that says what went wrong, without any password in an address."""
    lines = [re.sub(r"//[^/@\s]*@", "//", line.strip()) for line in errors.splitlines() if line.strip()]
    for start in ("E: Failed to fetch", "E:", "W: Failed to fetch", "W:"):
        for line in lines:
            if line.startswith(start):
                return line
    return lines[-1] if lines else "no message"


def mirror() -> str:
    """Return the address of the Debian archive: RTGATE_DEBIAN_MIRROR, or the one in the system's own apt sources.

    Raises:
        InfrastructureError: neither names one.
    """
    setting = os.environ.get("RTGATE_DEBIAN_MIRROR")
    if setting:
        return setting
    address = choose_mirror(_index_targets()) or _mirror_without_lists()
    if not address:
        raise InfrastructureError(
            "the system's apt sources name no mirror of Debian: correct /etc/apt/sources.list.d, or set"
            " RTGATE_DEBIAN_MIRROR to the address of one"
        )
    return address


def _index_targets(*options: str) -> str:
    fields = ("--format", "$(ORIGIN)|$(LABEL)|$(RELEASE)|$(SITE)", "Created-By: Packages")
    return run(("apt-get", *options, "indextargets", *fields), "the system's apt sources").decode()


def _mirror_without_lists() -> str:
    """Return the mirror where the system has no lists of packages, as in images of containers.

    Without them apt does not know whose archive an address is. They are fetched into a directory of ours.

    Raises:
        InfrastructureError: no source can be reached.
    """
    with scratch(Path(tempfile.gettempdir()), "rtgate-apt-") as place:
        (place / "lists/partial").mkdir(parents=True)
        settings = (
            f"Dir::State::Lists={place}/lists",
            f"Dir::Cache={place}",
            "APT::Sandbox::User=root",
            "Acquire::Languages=none",
            "Acquire::Retries=3",
        )
        options = tuple(word for setting in settings for word in ("-o", setting))
        try:
            run(("apt-get", *options, "-o", "APT::Update::Error-Mode=any", "update", "-qq"), "the system's apt sources")
        except InfrastructureError:
            if not (address := choose_mirror(_index_targets(*options))):
                raise
            return address  # another source is away
        return choose_mirror(_index_targets(*options))


def choose_mirror(targets: str) -> str:
    """Return the mirror of the main Debian archive among apt's index targets, or nothing."""
    rows = [line.split("|", 3) for line in targets.splitlines() if line.count("|") >= 3]
    sure = [site for origin, label, _, site in rows if (origin, label) == ("Debian", "Debian")]
    return sure[0] if sure else ""


def _keyring() -> Path:
    for path in _KEYRINGS:
        if path.exists():
            return path
    raise InfrastructureError("the Debian archive's keys are missing: install the package debian-archive-keyring")


def contents(package: Path) -> dict[str, Member]:
    """Return the files and symbolic links of a package, by name, under `usr` even where an old package has them above.

    Raises:
        InfrastructureError: the package cannot be read.
    """
    raw = run(("dpkg-deb", "--fsys-tarfile", str(package)), package.name)
    by_name: dict[str, Member] = {}
    try:
        with tarfile.open(fileobj=io.BytesIO(raw)) as archive:
            members = archive.getmembers()
            for member in members:
                name = usr_path(member.name.removeprefix("./"))
                if member.issym():
                    by_name[name] = Member(stat.S_IFLNK | 0o777, member.linkname.encode())
                elif member.isfile() or member.islnk():
                    stream = archive.extractfile(member)
                    assert stream is not None
                    mode = 0o755 if member.mode & 0o100 else 0o644
                    by_name[name] = Member(stat.S_IFREG | mode, stream.read())
    except tarfile.TarError as error:
        raise InfrastructureError(f"{package.name} cannot be read: {error}") from error
    return by_name


def usr_path(name: str) -> str:
    """Return where a file is in a system whose /bin, /sbin and /lib are links into /usr, as all our images are."""
    return f"usr/{name}" if name.split("/", 1)[0] in {"bin", "sbin", "lib", "lib64"} else name


def upstream(version: str) -> str:
    """Return the upstream part of a Debian version: `1:1.37.0-6+b9` is 1.37.0."""
    without_epoch = version.rpartition(":")[2]
    return without_epoch.rpartition("-")[0] or without_epoch
