# SPDX-License-Identifier: MIT
"""Makes `trace.c`, the plugin of QEMU that says when what was executed."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from rtgate import site
from rtgate.errors import InfrastructureError

_SOURCE = Path(__file__).with_name("trace.c")


def library() -> Path:
    """Return the plugin, compiled if it is not in the cache.

    Raises:
        InfrastructureError: there is no C compiler, or it failed.
    """
    key = hashlib.sha256(_SOURCE.read_bytes()).hexdigest()[:12]
    made = site.cache() / f"trace-{key}.so"
    if made.is_file():
        return made
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        raise InfrastructureError("tracing a virtual board needs a C compiler: on Debian, apt install gcc")
    made.parent.mkdir(parents=True, exist_ok=True)
    handle, staged = tempfile.mkstemp(dir=made.parent, suffix=".so")
    os.close(handle)
    command = [compiler, "-O2", "-Wall", "-Wextra", "-shared", "-fPIC", "-o", staged, str(_SOURCE), "-ldl"]
    try:
        subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        Path(staged).unlink(missing_ok=True)
        said = getattr(error, "stderr", "") or ""
        raise InfrastructureError(f"{_SOURCE.name} does not compile: {error} {said[:300]}") from error
    Path(staged).replace(made)
    return made
