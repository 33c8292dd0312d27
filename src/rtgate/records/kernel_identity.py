# SPDX-License-Identifier: MIT
"""Which kernel a record is of."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelIdentity:
    """Which kernel it was. `flavour` is the one that was asked for; the environment has the one that ran.

    Attributes:
        version: what `uname -v` says where this image runs, empty where the image does not show it.
        build_id: the GNU build id of its vmlinux, empty where nobody knows it.
        commit: the git commit that it was built from, in full and as it stands there; empty where the tree had changes,
            patches came on top, or nobody knows.
        config_sha256: SHA-256 of its configuration, empty where nobody knows it for certain.
        inputs: a hash of all that it was built from, empty where rtgate did not build it.
        compiler: with the first number of its version, as `clang 14`; empty where nobody knows it.
    """

    name: str
    flavour: str
    release: str
    image_sha256: str
    source: str
    provenance: str
    version: str = ""
    config_sha256: str = ""
    build_id: str = ""
    commit: str = ""
    compiler: str = ""
    inputs: str = ""

    @property
    def known_flavour(self) -> str:
        """The flavour; empty if it is only guessed: one of unknown provenance counts as `preempt_rt` at first."""
        return "" if (self.provenance, self.flavour) == ("unknown", "preempt_rt") else self.flavour
