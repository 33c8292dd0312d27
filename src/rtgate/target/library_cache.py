# SPDX-License-Identifier: MIT
"""Shared libraries that rtgate compiles for itself, once, into its cache."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from rtgate import site
from rtgate.errors import InfrastructureError


def compile_library(source: Path, flags: Sequence[str], purpose: str, parts: Sequence[Path] = ()) -> Path:
    """Return the shared library of a C file, compiled if it is not in the cache.

    Args:
        source: the file.
        flags: further words of the compiler's command line, after the source.
        purpose: what needs it, for the message.
        parts: further C files of the library, and headers beside them.

    Raises:
        InfrastructureError: there is no C compiler, or it failed.
    """
    library = site.cache() / library_name(source, flags, parts)
    if library.is_file():
        return library
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        raise InfrastructureError(f"{purpose} needs a C compiler: on Debian, apt install gcc")
    library.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=library.parent, suffix=".so")
    os.close(handle)
    sources = [str(file) for file in (source, *parts) if file.suffix == ".c"]
    command = [compiler, "-O2", "-Wall", "-Wextra", "-shared", "-fPIC", "-o", name, *sources, *flags]
    try:
        subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        Path(name).unlink(missing_ok=True)
        output = getattr(error, "stderr", "") or ""
        raise InfrastructureError(f"{source.name} does not compile: {error} {output[:300]}") from error
    Path(name).replace(library)
    return library


def library_name(source: Path, flags: Sequence[str], parts: Sequence[Path] = ()) -> str:
    """Return the name of the file that `compile_library` makes of these: another one for other contents."""
    inputs = [file.read_bytes() for file in (source, *parts)]
    key = hashlib.sha256(b"\0".join([*inputs, *map(str.encode, flags)])).hexdigest()[:12]
    return f"{source.stem}-{key}.so"
