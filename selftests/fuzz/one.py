# SPDX-License-Identifier: MIT
"""Fuzz one target with libFuzzer's options: `python -m selftests.fuzz.one TARGET [OPTION...] [DIRECTORY|FILE...]`.

With files instead of directories, it reads each once: that shows a finding again.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["rtgate"], enable_loader_override=False):
    from selftests.fuzz.targets import TARGETS

if __name__ == "__main__":
    program, name, *options = sys.argv
    target, directory = TARGETS[name], Path(tempfile.mkdtemp())
    atheris.Setup([program, *options], lambda data: target.read(data, directory))
    atheris.Fuzz()
