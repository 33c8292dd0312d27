# SPDX-License-Identifier: MIT
"""Child programs that do not outlive us."""

from __future__ import annotations

import shutil
from collections.abc import Sequence


def guarded(argv: Sequence[str], signal: str = "KILL") -> list[str]:
    """Return a command line that the kernel ends with `signal` when this process dies, however it dies.

    Uses `setpriv --pdeathsig` (util-linux); without it the command runs unguarded.
    """
    return ["setpriv", "--pdeathsig", signal, "--", *argv] if shutil.which("setpriv") else list(argv)
