# SPDX-License-Identifier: MIT
"""Shell scripts with places for values."""

from __future__ import annotations

import re
from collections.abc import Mapping


def fill(script: str, values: Mapping[str, object]) -> str:
    """Return a script with a value in each place `@NAME@`, in one pass: a value may look like a place."""
    return re.sub("@([A-Z_]+)@", lambda match: str(values[match[1]]), script)
