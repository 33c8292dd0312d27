# SPDX-License-Identifier: MIT
from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rtgate.kernel.version import KernelVersion, VersionRange

versions = st.builds(KernelVersion, st.integers(0, 99), st.integers(0, 999), st.integers(0, 999))


@pytest.mark.parametrize(
    ("text", "expected"),
    [("6.12.117", KernelVersion(6, 12, 117)), ("6.13", KernelVersion(6, 13)), ("4.19.0", KernelVersion(4, 19))],
)
def test_version_is_read(text: str, expected: KernelVersion) -> None:
    assert KernelVersion.parse(text) == expected


@pytest.mark.parametrize("text", ["", "6", "6.", "6.12.", "v6.12", "6.12-rc1", "6.12.1.1", " 6.12", "6.1 2"])
def test_other_text_is_no_version(text: str) -> None:
    with pytest.raises(ValueError, match="not a kernel version"):
        KernelVersion.parse(text)


@given(versions)
def test_version_survives_text(version: KernelVersion) -> None:
    assert KernelVersion.parse(str(version)) == version


@pytest.mark.parametrize(
    ("text", "version", "inside"),
    [
        (">= 6.13", "6.12.117", False),
        (">= 6.13", "6.13", True),
        ("< 6.13", "6.12.117", True),
        ("< 6.13", "6.13.0", False),
        (">= 6.1 and < 6.13", "6.6.30", True),
        (">=6.1 and <6.13", "5.10.160", False),
    ],
)
def test_range(text: str, version: str, *, inside: bool) -> None:
    assert (KernelVersion.parse(version) in VersionRange.parse(text)) is inside


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("6.13", "not a condition"),
        ("<= 6.13", "not a condition"),
        (">= 6.13 or < 6.1", "not a condition"),
        (">= 6.13 and", "not a condition"),
        (">= six", "not a kernel version"),
        (">= 6.13 and < 6.13", "no version is in"),
        ("< 0.0", "no version is in"),
    ],
)
def test_range_errors(text: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        VersionRange.parse(text)


@pytest.mark.parametrize(
    ("releases", "covered"),
    [
        (["6.12.117-rt1"], True),
        (["6.12.117-rt1", "", "6.13.0"], True),
        (["6.12.117-rt1", "6.1.9"], False),
        (["6.12.117-rt1", "next"], False),
        ([""], False),
        ([], False),
    ],
)
def test_a_range_covers_kernels_by_their_releases(releases: list[str], *, covered: bool) -> None:
    assert VersionRange.parse(">= 6.12").covers(releases) is covered
    assert VersionRange().covers(releases)


@given(versions, versions)
def test_below_and_from_a_bound_divide_all_versions(version: KernelVersion, bound: KernelVersion) -> None:
    below = bound > KernelVersion(0, 0) and version in VersionRange.parse(f"< {bound}")
    assert below != (version in VersionRange.parse(f">= {bound}"))


@given(versions, versions, versions)
def test_and_means_both(version: KernelVersion, low: KernelVersion, high: KernelVersion) -> None:
    both = f">= {low} and < {high}"
    if low >= high:
        with pytest.raises(ValueError, match="no version is in"):
            VersionRange.parse(both)
        return
    assert (version in VersionRange.parse(both)) == (low <= version < high)


@given(st.text(max_size=40))
def test_any_text_is_a_range_or_an_error(text: str) -> None:
    try:
        found = VersionRange.parse(text)
    except ValueError:
        return
    assert VersionRange.parse(str(found)) == found
