# SPDX-License-Identifier: MIT
"""Whether the largest boots of harmless kernels come in images."""

from __future__ import annotations

import pytest
from selftests.campaigns import clustering
from selftests.campaigns.comparisons import campaigns
from selftests.campaigns.kernels import by_place, placebos_of


@pytest.mark.long("a statistic over all campaigns; that spikes would show is in make test")
def test_the_largest_boots_of_harmless_kernels_do_not_come_in_images() -> None:
    """The test of spikes takes all boots for exchangeable; an image with spikes of its own would show here."""
    measured = [kernels for campaign in by_place(campaigns()).values() for kernels in campaign]
    found = [one for kernels in measured if len(placebos_of(kernels)) > 4 for one in clustering.clustering(kernels)]
    assert len(found) > 30
    assert min(one.p for one in found) > 0.05 / len(found)
    assert sum(one.p < 0.05 for one in found) <= 0.1 * len(found)


def test_an_image_with_spikes_of_its_own_shows() -> None:
    counts = [5] + [0] * 30
    assert clustering._clustering("latency maximum", counts, [12] * 31, 2000).p < 0.001
