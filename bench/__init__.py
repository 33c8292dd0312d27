# SPDX-License-Identifier: MIT
"""How long things take, and how often comparisons are wrong: programs for the top of a clone (`python -m bench.rates`).

Attributes:
    ROOT: the top of the clone.
"""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
