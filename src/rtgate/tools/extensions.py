# SPDX-License-Identifier: MIT
"""Tools and loads from outside the package: where they are found, and how one is imported when it is used.

A site directory, or a kernel repository's `.rtgate/`, keeps one in `tools/NAME.py` or `loads/NAME.py`; an installed
package names one by an entry point of the group `rtgate.tools` or `rtgate.loads`. Names are known without importing
anything; files that begin with `_` are not looked at.
"""

from __future__ import annotations

import hashlib
import importlib.util
import re
import sys
import threading
import traceback
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from enum import Enum
from functools import cache
from importlib import metadata
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

from rtgate import files, site
from rtgate.errors import ConfigError, Location

# Names stand in cases, `SUITE/TOOL:LOAD+TUNING`, and in file names.
_NAME = re.compile(r"[a-z][a-z0-9_-]*")
_RULE = "lower-case letters, digits, - and _, a letter first"


class Kind(Enum):
    """What comes from outside. The value is the name of the directory, and the end of the entry points' group."""

    TOOL = "tools"
    LOAD = "loads"

    @property
    def group(self) -> str:
        """Return the group of entry points."""
        return f"rtgate.{self.value}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Extension:
    """A tool or a load from outside.

    Attributes:
        place: its file, or its entry point with the package, for messages.
        file: None for one of an installed package.
        point: None for one of a file.
    """

    kind: Kind
    name: str
    place: str
    file: Path | None = None
    point: metadata.EntryPoint | None = None

    def fail(self, message: str, line: int = 1) -> ConfigError:
        """Return the error that says what is wrong with it, and where."""
        if self.file is None:
            return ConfigError(f"{self.place}: {message}")
        return ConfigError(message, Location(self.file, line, 1))

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Return what a function of it returns. Raises ConfigError with the line that failed: it raised something."""
        try:
            return function(*arguments)
        except (Exception, SystemExit) as error:
            raise self.failure(error) from error

    def failure(self, error: BaseException) -> ConfigError:
        """Return the error that says what a function of it raised, with the line that failed."""
        message = f"its function failed ({_error_text(error)}): correct it, or remove it"
        return self.fail(message, _line(error, self.file) if self.file else 1)

    def content(self) -> ModuleType | Any:
        """Return the module of a file, or what an entry point names. Raises ConfigError: it cannot be imported."""
        if self.file is not None:
            return _module(self.file)
        assert self.point is not None
        try:
            return self.point.load()
        except (Exception, SystemExit) as error:
            # Another's code may raise anything, or call sys.exit(); who installed it must act.
            remedy = "correct the package, or uninstall it"
            raise ConfigError(f"{self.place} cannot be loaded ({_error_text(error)}): {remedy}") from error


_KNOWN: ContextVar[dict[Kind, Mapping[str, Extension]] | None] = ContextVar("_KNOWN", default=None)


@contextmanager
def cached_lookup() -> Iterator[None]:
    """Look into the directories once for all names within: a file names hundreds of tools and loads."""
    outer = _KNOWN.get()
    token = _KNOWN.set({} if outer is None else outer)
    try:
        yield
    finally:
        _KNOWN.reset(token)


def extensions(kind: Kind, own_names: Collection[str]) -> Mapping[str, Extension]:
    """Return what comes from outside, by name; nothing of it is imported.

    Args:
        kind: tools or loads.
        own_names: the names that are taken by rtgate's own.

    Raises:
        ConfigError: a name is taken, stands for two, or cannot be one; the site directory does not exist.
    """
    by_kind = _KNOWN.get()
    if by_kind is None:
        return _look(kind, own_names)
    if kind not in by_kind:
        by_kind[kind] = _look(kind, own_names)
    return by_kind[kind]


def _look(kind: Kind, own_names: Collection[str]) -> Mapping[str, Extension]:
    by_name: dict[str, Extension] = {}
    for extension in (*_of_files(kind), *_installed_extensions(kind, tuple(sys.path))):
        if not _NAME.fullmatch(extension.name):
            raise extension.fail(
                f"{extension.name!r} cannot be the name of one of the {kind.value} (allowed: {_RULE}): rename it"
            )
        if extension.name in own_names:
            raise extension.fail(f"rtgate has {extension.name!r} among its own {kind.value}: rename yours")
        if extension.name in by_name:
            raise extension.fail(
                f"{by_name[extension.name].place} is called {extension.name!r}, too: rename or remove one of them"
            )
        by_name[extension.name] = extension
    return by_name


def _of_files(kind: Kind) -> Iterator[Extension]:
    for layer in site.layers():
        if layer.origin == "shipped":
            continue
        for path in sorted((layer.directory / kind.value).glob("*.py")):
            if not path.name.startswith("_"):
                yield Extension(kind=kind, name=path.stem, place=str(path), file=path)


@cache
def _installed_extensions(kind: Kind, _path: tuple[str, ...]) -> tuple[Extension, ...]:
    """Return those of installed packages. All packages on the path are read, which takes a while: once for a path."""
    return tuple(
        Extension(kind=kind, name=point.name, place=_place(point), point=point)
        for point in sorted(metadata.entry_points(group=kind.group), key=lambda point: (point.name, point.value))
    )


def _place(point: metadata.EntryPoint) -> str:
    package = f"{point.dist.name} {point.dist.version}" if point.dist else "an unknown package"
    return f"the entry point `{point.name} = {point.value}` ({point.group}) of {package}"


class _FromSource(SourceFileLoader):
    """Reads the source every time: by its size and the second of its last change, bytecode may be of another text."""

    def path_stats(self, path: str | bytes) -> NoReturn:  # noqa: ARG002 - a method of Python's
        raise OSError("no bytecode is kept")


# Boots of a virtual-time board are planned beside each other: the second would find a load that is half imported.
_IMPORT = threading.RLock()


def _module(path: Path) -> ModuleType:
    """Import a file, once as long as it stays the same. Raises ConfigError with the line that failed."""
    try:
        digest = hashlib.sha256(f"{path}\0".encode() + files.read_bytes(path, files.YAML_LIMIT)).hexdigest()
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from error
    name = f"rtgate_site_{digest[:16]}"
    with _IMPORT:
        return sys.modules[name] if name in sys.modules else _import(name, path)


def _import(name: str, path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path, loader=_FromSource(name, str(path)))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # where dataclasses look up the types of their fields
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        # As above.
        del sys.modules[name]
        message = f"the file cannot be imported ({_error_text(error)}): correct it, or remove it"
        raise ConfigError(message, Location(path, _line(error, path), 1)) from error
    return module


def _error_text(error: BaseException) -> str:
    text = error.msg if isinstance(error, SyntaxError) else str(error)
    return f"{type(error).__name__}: {text}".strip().removesuffix(":")


def _line(error: BaseException, path: Path) -> int:
    """Return the line of the file in which it failed; 1 if nobody knows."""
    if isinstance(error, SyntaxError) and error.filename == str(path):
        return error.lineno or 1
    lines = [frame.lineno or 1 for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
    return lines[-1] if lines else 1
