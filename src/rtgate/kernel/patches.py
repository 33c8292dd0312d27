# SPDX-License-Identifier: MIT
"""Patch series, applied to a copy of a tree; the user's tree is only read.

The copy stays in the cache. After a change of the tree or of the series only files whose contents differ are written
again, so the next build compiles only those. Contents are compared, not times: a file put back to an older version
must be compiled again too. `git worktree` would be no help: it adds to the user's repository, and it leaves out
changes that are not committed.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rtgate import files, process, site
from rtgate.errors import ConfigError, InfrastructureError, Location
from rtgate.files import waiting_lock
from rtgate.kernel import identity
from rtgate.kernel.orphans import note_origins
from rtgate.kernel.source import Tree, read_version
from rtgate.kernel.xenomai import CobaltCore, core_patch, is_prepared

if TYPE_CHECKING:
    from collections.abc import Callable

_FAILED_HUNK = re.compile(r"Hunk #(\d+) (?:FAILED|NOT MERGED) at (\d+)")
_FILE = re.compile(r"(?:checking|patching) file '?([^'\n]+?)'?(?: \(.*\))?$")
_NO_FILE = re.compile(r"^\|\+\+\+ (?:b/)?(\S+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Patch:
    """One patch of a series."""

    path: Path
    sha256: str


@dataclass(frozen=True, slots=True)
class Series:
    """Patches in the order of their `series` file.

    Attributes:
        code: C files that become part of the kernel as well.
        core: the Cobalt core, which comes after the patches: they may bring the Dovetail that it needs.
    """

    directory: Path
    patches: tuple[Patch, ...]
    code: tuple[Path, ...] = ()
    core: CobaltCore | None = None

    @property
    def sha256(self) -> str:
        """Changes with any patch, with their order, with any of the code, and with the core."""
        code = [f"{path.name} {hashlib.sha256(path.read_bytes()).hexdigest()}" for path in self.code]
        code += [self.core.fingerprint] if self.core else []
        return hashlib.sha256("".join([*(patch.sha256 for patch in self.patches), *code]).encode()).hexdigest()


def load_series(directory: Path) -> Series:
    """Read a patch series: one file name in each line of `series`, `#` starts a comment.

    Raises:
        ConfigError: there is no series file, it is empty, or names a file that is not there or stands twice.
    """
    path = directory.resolve() / "series"
    if not path.is_file():
        count = len(list(directory.glob("*.patch")))
        make_one = f": write one, in which the {count} patches stand in their order" if count else ""
        raise ConfigError(f"{directory} is not a patch series: it has no file 'series'{make_one}")
    patches: dict[str, Patch] = {}
    for number, line in enumerate(files.read_text(path, files.YAML_LIMIT).split("\n"), start=1):
        name = line.partition("#")[0].strip()
        if not name:
            continue
        place = Location(path, number, line.index(name) + 1)
        if name in patches:
            raise ConfigError(f"the patch {name!r} stands twice", place)
        if not (path.parent / name).is_file():
            names = ", ".join(sorted(sibling.name for sibling in path.parent.glob("*.patch"))) or "nothing"
            raise ConfigError(f"no such patch: {name!r} (there are: {names})", place)
        content = files.read_bytes(path.parent / name, files.JSON_LIMIT)
        patches[name] = Patch(path.parent / name, hashlib.sha256(content).hexdigest())
    if not patches:
        raise ConfigError("the series is empty", Location(path, 1, 1))
    return Series(path.parent, tuple(patches.values()))


def patched_tree(tree: Tree, series: Series, notice: Callable[[str], None] = lambda _: None) -> Tree:
    """Return a copy of `tree` with the series applied.

    Raises:
        ConfigError: a patch does not apply; names the patch, the file and the hunk. Or the tree is edited meanwhile.
        InfrastructureError: rsync or patch is missing or fails.
    """
    copy = copy_of(tree, series)
    stamp = copy.with_suffix(".json")
    state = {"tree": tree.identity.fingerprint, "series": series.sha256}
    with waiting_lock(copy.with_suffix(".lock"), f"copies {tree.path}", notice):
        if not _is(stamp, state):
            stamp.unlink(missing_ok=True)
            core = [f"Xenomai {series.core.source.version}"] if series.core else []
            parts = [*(patch.path.name for patch in series.patches), *core, *(path.name for path in series.code)]
            note_origins(copy, tree.path, series.directory, notice=notice)
            notice(f"copying {tree.path} for {', '.join(parts)}")
            synchronise(tree.path, copy)
            tree.refuse_edits()
            for patch in series.patches:
                apply(patch.path, copy)
            if series.core:
                _add_core(series.core, copy)
            for path in series.code:
                add_code(path, copy, path.stem)
                _add_symbol(path, copy)
            stamp.write_text(json.dumps(state), encoding="utf-8")
    return tree.copy_at(copy, hashlib.sha256(json.dumps(state).encode()).hexdigest())


def copy_of(tree: Tree, series: Series) -> Path:
    """Return where `patched_tree` puts its copy: the same for every state of a tree and of a series."""
    arch = f"\0{series.core.arch}" if series.core else ""
    return site.cache().absolute() / "trees" / files.short_hash(f"{tree.path}\0{series.directory}{arch}")


def _is(stamp: Path, state: dict[str, str]) -> bool:
    try:
        return bool(json.loads(stamp.read_text(encoding="utf-8")) == state)
    except (FileNotFoundError, ValueError):
        return False


def synchronise(source: Path, copy: Path) -> None:
    """Make `copy` what the tree `source` is, without its repository and builds. Raises InfrastructureError."""
    process.require("rsync")
    copy.mkdir(parents=True, exist_ok=True)
    others = (".git", f"{identity.BUILD_DIRECTORY_PREFIX}*", *identity.TEMPORARY)
    command = ["rsync", "--recursive", "--links", "--perms", "--checksum"]
    if not (source / ".git").exists():
        exclusions = [f"--exclude=/{pattern}" for pattern in others]
        process.output([*command, "--delete", *exclusions, f"{source}/", f"{copy}/"])
        return
    names = identity.git_files(source)
    attempt = subprocess.run(
        [*command, "--from0", "--files-from=-", f"{source}/", f"{copy}/"],
        input="\0".join(names).encode("utf-8", "surrogateescape"),
        capture_output=True,
        check=False,
    )
    if attempt.returncode != 0:
        message = attempt.stderr.decode(errors="replace").strip()
        raise InfrastructureError(f"rsync failed with status {attempt.returncode}: {message}")
    _delete_others(copy, frozenset(names))


def _delete_others(copy: Path, names: frozenset[str]) -> None:
    """Delete what the source no longer has, except build directories."""
    for top in copy.iterdir():
        if top.name.startswith(identity.BUILD_DIRECTORY_PREFIX):
            continue
        for path in [top] if top.is_symlink() or not top.is_dir() else list(top.rglob("*")):
            if (path.is_symlink() or not path.is_dir()) and str(path.relative_to(copy)) not in names:
                path.unlink()


def apply(patch: Path, tree: Path) -> None:
    """Apply one patch, exactly: no fuzz, because a patch that lands elsewhere measures something else.

    Raises:
        ConfigError: it does not apply; names the patch, the file and the hunk. The tree is then as it was.
        InfrastructureError: `patch` is not installed.
    """
    if reason := misfit(patch, tree):
        raise ConfigError(f"{patch}: does not apply to Linux {read_version(tree)}: {reason}")
    process.output([*_command(patch, tree), "--no-backup-if-mismatch", "--reject-file=-"])


def misfit(patch: Path, tree: Path) -> str:
    """Return why a patch does not apply to a tree, which is only read; empty if it does. Raises as `apply`."""
    process.require("patch")
    trial = process.attempt([*_command(patch, tree), "--dry-run"])
    return "" if trial.returncode == 0 else _reason(trial.stdout + trial.stderr)


def _command(patch: Path, tree: Path) -> list[str]:
    return ["patch", "--strip=1", "--batch", "--forward", "--fuzz=0", f"--directory={tree}", f"--input={patch}"]


def _add_core(core: CobaltCore, tree: Path) -> None:
    if is_prepared(tree):
        raise ConfigError(
            f"{tree} has a Cobalt core by its patches: prepare the tree with them, and give that (--tree)"
        )
    with files.scratch(Path(tempfile.gettempdir()), "rtgate-cobalt-") as place:
        apply(core_patch(core, tree, place), tree)


def add_code(code: Path, tree: Path, name: str) -> None:
    """Make a C file part of a kernel as `init/NAME.c`: every kernel builds that directory, and no line has to match."""
    shutil.copyfile(code, tree / "init" / f"{name}.c")
    with (tree / "init" / "Makefile").open("a", encoding="utf-8") as makefile:
        makefile.write(f"\nobj-y += {name}.o\n")


def _add_symbol(code: Path, tree: Path) -> None:
    """Let a kernel's configuration say that the code is in it: `CONFIG_NAME=y`."""
    with (tree / "init" / "Kconfig").open("a", encoding="utf-8") as kconfig:
        kconfig.write(f"\nconfig {code.stem.upper()}\n\tdef_bool y\n")


def _reason(message: str) -> str:
    if "can't find file to patch" in message:
        absence = _NO_FILE.search(message)
        return f"{absence[1] if absence else 'a file'}: the tree has no such file"
    name = ""
    for line in message.split("\n"):
        if match := _FILE.match(line):
            name = match[1]
        if "Reversed (or previously applied) patch detected" in line:
            return f"{name}: the tree has this change already"
        if match := _FAILED_HUNK.search(line):
            return f"{name}: hunk {match[1]} at line {match[2]} does not match"
    return message.strip().split("\n")[-1] or "patch said nothing"
