# SPDX-License-Identifier: MIT
"""Whether the largest boots of harmless kernels come in images, which the test of single boots rules out."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from selftests.campaigns.comparisons import UNPATCHED
from selftests.campaigns.kernels import Kernels, placebos_of


@dataclass(frozen=True, slots=True)
class Clustering:
    """How the largest boots of harmless kernels lie among their images.

    Attributes:
        images: kernels with data of their own.
        largest: how many boots are looked at.
        most: of one image among them.
        ratio: of the sum of squared counts by image to what chance gives; 1 for boots that do not know their image.
        p: that chance gives at least as much.
    """

    figure: str
    images: int
    largest: int
    most: int
    ratio: float
    p: float


def clustering(kernels: Kernels, trials: int = 2000) -> list[Clustering]:
    """Return for each figure of a case whether the largest boots come in images.

    The test of spikes takes the boots of all images for exchangeable. If an image had spikes of its own, the largest
    boots would come from few images.
    """
    own = {boots.data: boots for boots in (kernels[UNPATCHED], *placebos_of(kernels).values())}
    figures = [boots.figures for boots in own.values()]
    found = []
    for name in figures[0][0]:
        values = [[boot[name].value for boot in image] for image in figures]
        ordered = sorted((value for image in values for value in image), reverse=True)
        for top in (top for top in (5, 10, 20) if top <= len(ordered)):
            counts = [sum(value >= ordered[top - 1] for value in image) for image in values]
            if top <= sum(counts) <= 2 * top:  # otherwise ties leave nothing to be seen
                found.append(_clustering(name, counts, [len(image) for image in values], trials))
    return found


def _clustering(name: str, counts: Sequence[int], sizes: Sequence[int], trials: int) -> Clustering:
    chance, largest = random.Random(name), sum(counts)
    owners = [image for image, size in enumerate(sizes) for _ in range(size)]
    drawn = [sum(count**2 for count in Counter(chance.sample(owners, largest)).values()) for _ in range(trials)]
    squares = sum(count**2 for count in counts)
    return Clustering(
        figure=name,
        images=len(sizes),
        largest=largest,
        most=max(counts),
        ratio=squares * trials / sum(drawn),
        p=(1 + sum(one >= squares for one in drawn)) / (1 + trials),
    )
