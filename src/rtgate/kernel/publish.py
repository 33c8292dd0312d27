# SPDX-License-Identifier: MIT
"""From the build directory to the user's: copy what was made, describe it in `build.json`, appear in one step."""

from __future__ import annotations

import dataclasses
import json
import os
import shlex
import shutil
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rtgate import files as regular_file
from rtgate import site
from rtgate.arches import ARCHES
from rtgate.errors import ConfigError, InfrastructureError
from rtgate.files import scratch
from rtgate.kernel import artefacts, confinement, jailhouse, xenomai
from rtgate.kernel.identity import commit_fingerprint
from rtgate.kernel.toolchain import Toolchain

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rtgate.kernel.artefacts import KernelBuild
    from rtgate.kernel.configuration import BuildDescription
    from rtgate.kernel.work import Work


@dataclass(frozen=True, slots=True)
class BuildResult:
    """What is in a build directory, and what it took to make it."""

    inputs: str
    seconds: float
    steps: int
    ccache_hits: int
    ccache_misses: int

    @classmethod
    def read(cls, path: Path) -> BuildResult | None:
        """Return what was written, or None."""
        try:
            return cls(**json.loads(path.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            return None

    def write(self, path: Path) -> None:
        """Write it as JSON."""
        path.write_text(json.dumps(dataclasses.asdict(self)), encoding="utf-8")


def check_output(output: Path, mark: str = "build.json", what: str = "a build") -> None:
    """Check that `output` may be written, or replaced.

    Args:
        output: the directory.
        mark: the file that tells that rtgate made it.
        what: what it then is, for the message.

    Raises:
        ConfigError: it is a file, or a directory with something else.
    """
    if output.is_dir():
        if not (output / mark).is_file() and any(output.iterdir()):
            raise ConfigError(f"{output} is neither empty nor {what} of rtgate's: it is left alone; choose another -o")
    elif output.exists():
        raise ConfigError(f"{output} is not a directory")


@contextmanager
def replacement(output: Path) -> Iterator[Path]:
    """Yield an empty directory, which takes the place of `output` in one step if nothing fails."""
    with scratch(output.parent, ".rtgate-build-") as place:
        complete = place / "new"
        complete.mkdir()
        yield complete
        if output.exists():
            os.rename(output, place / "old")  # noqa: PTH104 - a directory, in place
        complete.rename(output)


def is_complete(work: Work) -> bool:
    """Whether the build directory still has everything that gets published."""
    return all(path.is_file() for _, path, _ in _files(work))


def _files(work: Work) -> tuple[tuple[str, Path, str], ...]:
    """Return kind, place in the build directory and published name."""
    job = work.job
    image = ARCHES[job.arch].image
    boot = job.build_directory / "arch" / ARCHES[job.arch].directory / "boot"
    archives = [(kind, job.package_directory / f"{kind}.tar.xz", f"{kind}.tar.xz") for kind in ("modules", "dtbs")]
    return (
        ("image", boot / image, image),
        ("config", job.build_directory / ".config", "config"),
        ("system_map", job.build_directory / "System.map", "System.map"),
        ("vmlinux", job.build_directory / "vmlinux", "vmlinux"),
        *(entry for entry in archives if entry[0] in work.description.targets),
    )


def require_own_files(work: Work) -> None:
    """Check what a confined build left of that which is read here. Raises BuildError: it is not the build's own."""
    job = work.job
    paths = [path for _, path, _ in _files(work)]
    confinement.require_own_files([*paths, _release(work), job.ccache_log], job.writable)


def _release(work: Work) -> Path:
    return work.job.build_directory / "include/config/kernel.release"


def publish(work: Work, build_result: BuildResult, output: Path) -> KernelBuild:
    """Copy the build to `output` and describe it.

    Raises:
        ConfigError: a target was asked for that this configuration does not make.
        InfrastructureError: the disk is full or not writable.
    """
    try:
        with replacement(output) as complete:
            files = {kind: _copy(path, complete / name) for kind, path, name in _files(work)}
            log = work.job.log_directory / "build.log"
            if log.is_file():
                shutil.copyfile(log, complete / "build.log")
            text = json.dumps(_description(work, build_result, files), indent=2, ensure_ascii=False)
            (complete / "build.json").write_text(f"{text}\n", encoding="utf-8")
    except OSError as error:
        raise InfrastructureError(f"cannot write {output}: {error.strerror}") from error
    return artefacts.load(output)


def _copy(source: Path, destination: Path) -> dict[str, str]:
    if not source.is_file():
        raise ConfigError(
            f"the build made no {destination.name}: this configuration has none (modules need CONFIG_MODULES=y)"
        )
    shutil.copy2(source, destination)
    return {"file": destination.name, "sha256": artefacts.sha256(destination)}


def _description(work: Work, build_result: BuildResult, files: dict[str, dict[str, str]]) -> dict[str, object]:
    description = work.description
    patches = work.series.patches if work.series else ()
    core = work.series.core if work.series else None
    warnings = list(work.source.warnings)
    if work.source.identity.dirty:
        warnings.append("the tree has changes that are not committed")
    return {
        "format": artefacts.FORMAT,
        "name": description.name,
        "arch": description.arch,
        "flavour": description.flavour,
        "release": regular_file.read_bytes(_release(work), regular_file.YAML_LIMIT).decode("utf-8", "replace").strip(),
        "source": work.source.identity.as_json(),
        "patches": [{"file": patch.path.name, "sha256": patch.sha256} for patch in patches],
        **({"xenomai": core.source.identity.as_json()} if core else {}),
        **({"jailhouse": work.hypervisor.identity.as_json()} if work.hypervisor else {}),
        "config_sha256": files["config"]["sha256"],
        "toolchain": work.toolchain_versions,
        "artefacts": files,
        "seconds": build_result.seconds,
        "steps": build_result.steps,
        "ccache": {"hits": build_result.ccache_hits, "misses": build_result.ccache_misses},
        "command": _command(work),
        "warnings": warnings,
        "inputs": work.inputs,
    }


def _command(work: Work) -> list[str]:
    """Return the command that builds this again."""
    source = work.source.identity
    # The repository itself may stand at another commit than a checkout of it, as may a copy of its working tree.
    commit = source.commit if source.commit and source.fingerprint == commit_fingerprint(source.commit) else None
    place = f"linux-{commit[:12]}" if commit else source.path
    tree = [] if source.kind == "debian" else ["--tree", place]
    patches = ["--patches", str(work.series.directory)] if work.series and work.series.patches else []
    toolchain = work.job.toolchain
    other = [] if toolchain is Toolchain.GCC else ["--toolchain", str(toolchain)]
    command = [*_environment(work), "rtgate", "build", _build_word(work.description), *tree, *patches, *other]
    if not commit:
        return command
    clone = ["git", "clone", "--quiet", "--no-checkout", "--shared", source.path, place]
    check_out = ["git", "-C", place, "checkout", "--quiet", "--detach", commit]
    return ["sh", "-c", " && ".join(shlex.join(words) for words in (clone, check_out, command))]


def _environment(work: Work) -> list[str]:
    """Return the begin of a command that needs variables: the site of a build, the source of what it adds."""
    variables = {}
    own_site = os.environ.get("RTGATE_SITE")
    if own_site and not work.description.path.resolve().is_relative_to(site.shipped_directory()):
        variables["RTGATE_SITE"] = Path(own_site).resolve()
    if work.series and work.series.core:
        variables[xenomai.VARIABLE] = work.series.core.source.path
    if work.hypervisor:
        variables[jailhouse.VARIABLE] = work.hypervisor.path
    return ["env", *(f"{name}={value}" for name, value in variables.items())] if variables else []


def _build_word(description: BuildDescription) -> str:
    """Return how a build is named: by its path where its name may be that of another one, or of none."""
    hits = site.matches("kernel-configs", f"{description.name}.yaml")
    if not hits:
        return str(description.path.absolute())
    layer, path = hits[0]
    # A kernel repository's builds go by their names only where the current directory is in it.
    by_name = layer.origin != "kernel repository" and path.resolve() == description.path.resolve()
    return description.name if by_name else str(description.path.absolute())
