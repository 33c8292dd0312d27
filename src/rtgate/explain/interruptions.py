# SPDX-License-Identifier: MIT
"""How many instructions interrupts took, from the passages that the plugin wrote (`sections.PASSAGE`)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def measure_interruptions(
    interrupts: NDArray[np.void], starts: NDArray[np.int64], ends: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return how many instructions were those of interrupts that came and ended between two places each."""
    sums = interrupt_sums(interrupts)
    first = np.searchsorted(interrupts["start"].astype(np.int64), starts)
    last = np.searchsorted(interrupts["end"].astype(np.int64), ends, "right")
    return np.asarray(sums[np.maximum(first, last)] - sums[first], np.int64)


def interrupt_sums(interrupts: NDArray[np.void]) -> NDArray[np.int64]:
    """Return what the first n interrupts took, for each n."""
    return np.concatenate([[0], np.cumsum((interrupts["end"] - interrupts["start"]).astype(np.int64))])
