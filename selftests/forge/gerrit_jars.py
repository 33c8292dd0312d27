# SPDX-License-Identifier: MIT
"""The parts of a real Gerrit server, from Maven Central by Debian's `mvn`; kept in rtgate's cache.

Which host they come from is the machine's affair: `mvn` has settings for it. What came is compared with the digests
below.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from pathlib import Path

from rtgate import site
from rtgate.files import waiting_lock

DIRECTORY = site.cache() / "gerrit"
_GERRIT, _CASTLE = "com.google.gerrit", "org.bouncycastle"
# Group, artefact, version, SHA-256. The first two have the server, JGit and SSHD; without the others `Init` ends.
JARS = (
    (
        *(_GERRIT, "gerrit-acceptance-framework", "3.9.1"),
        "28d6d73a50af086b952b3b6ef9ba9ded45c7c895ce8273f8b6b6c3545f2563f2",
    ),
    (*(_GERRIT, "gerrit-plugin-api", "3.9.1"), "61b4f368fb2a33494a6afb949d427a1f3e81c2de84cce00ae67aa16ba7d6c7e5"),
    (*(_CASTLE, "bcprov-jdk18on", "1.76"), "fda85d777aaae168015860b23a77cad9b8d3a1d5c904fda875313427bd560179"),
    (*(_CASTLE, "bcpkix-jdk18on", "1.76"), "935a388854c329f9a6f32708f30c90045d2f91294fa687281273145d4cf9834a"),
    (*(_CASTLE, "bcpg-jdk18on", "1.76"), "5bc7c7ea6fc4d38cdfa0cf28142cc11944c6fa9abfa756ce8fb7a7e11d2fbf9e"),
    (*(_CASTLE, "bcutil-jdk18on", "1.76"), "1a65ad02958223a3f31373bd72eea942cafd1b1877a3ed0b492c2487e77c3c27"),
)
_DEPENDENCY = """\
<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version>
<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions></dependency>
"""
_PROJECT = """\
<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>rtgate</groupId><artifactId>gerrit</artifactId><version>1</version><packaging>pom</packaging>
<dependencies>
{}</dependencies></project>
"""


def why_not() -> str:
    """Return why this machine can run no Gerrit, empty if it can."""
    missing = [name for name in ("javac", "mvn", "ssh", "ssh-keygen", "git") if shutil.which(name) is None]
    return f"{', '.join(missing)}: not installed; `ci/bootstrap dev` installs what Gerrit needs" if missing else ""


def jars() -> list[Path]:
    """Return the jars; those that are missing or damaged are fetched."""
    paths = [DIRECTORY / f"{artefact}-{version}.jar" for _, artefact, version, _ in JARS]
    with waiting_lock(DIRECTORY / "lock", "fetches Gerrit", patience_s=1200):
        if not all(map(_intact, paths)):
            _fetch()
        wrong = [path.name for path in paths if not _intact(path)]
        assert not wrong, f"{DIRECTORY}: not what is pinned: {', '.join(wrong)}"
    return paths


def _intact(path: Path) -> bool:
    pinned = next(digest for _, artefact, version, digest in JARS if path.name == f"{artefact}-{version}.jar")
    if not path.exists():
        return False
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() == pinned


def _fetch() -> None:
    """Fetch into a repository of its own, which is removed: nothing of it stays in anybody's home."""
    project, repository = DIRECTORY / "pom.xml", DIRECTORY / "repository"
    project.write_text(_PROJECT.format("".join(_DEPENDENCY.format(*entry[:3]) for entry in JARS)))
    argv = ["mvn", "--batch-mode", "--quiet", f"--file={project}", f"-Dmaven.repo.local={repository}"]
    argv += ["dependency:copy-dependencies", f"-DoutputDirectory={DIRECTORY}", "-DoverWriteReleases=true"]
    done = subprocess.run(
        argv, capture_output=True, text=True, timeout=900, check=False, env={**os.environ, "LC_ALL": "C"}
    )
    shutil.rmtree(repository, ignore_errors=True)
    assert done.returncode == 0, f"mvn could not fetch Gerrit: {done.stdout[-2000:]}{done.stderr[-2000:]}"
