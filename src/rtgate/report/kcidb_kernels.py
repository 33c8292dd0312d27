# SPDX-License-Identifier: MIT
"""Kernels as KCIDB has them: a checkout of source code, and a build of it (schema 5.3, see `report.kcidb`)."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rtgate.judge.verdict import Kind, Status, Verdict
from rtgate.records.kernel_identity import KernelIdentity
from rtgate.records.record import Record
from rtgate.report.text import plain_text

_COMMIT = re.compile("[0-9a-f]{40}")  # git_commit_hash
_ARCHITECTURE = re.compile("[a-z0-9_]+")
LONGEST_EXCERPT = 16_384  # characters, `maxLength` of log_excerpt


@dataclass(frozen=True, slots=True)
class Identifiers:
    """What objects are called at KCIDB: the CI system, a colon, and what no other object of it is called.

    Attributes:
        origin: the CI system.
        run: a name that no other run has.
    """

    origin: str
    run: str

    def of_content(self, *parts: str) -> str:
        """Return what every run calls this content."""
        return f"{self.origin}:{plain_text('-'.join(filter(None, parts)))}"

    def of_run(self, *parts: str) -> str:
        """Return what this run alone calls something."""
        return self.of_content(self.run, *parts)


def checkout_and_build(record: Record, names: Identifiers) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the checkout and the build of a record's kernel: the same ones for each record of it."""
    kernel = record.kernel
    exact = bool(_COMMIT.fullmatch(kernel.commit))
    source = kernel.commit if exact else _source_digest(record, names)
    checkout = {
        "id": names.of_content(source),
        "origin": names.origin,
        "comment": plain_text(kernel.source),
        **({"git_commit_hash": kernel.commit, "patchset_hash": "", "valid": True} if exact else {}),
    }
    build = {
        "id": names.of_content(source, kernel.name, kernel.image_sha256),
        "origin": names.origin,
        "checkout_id": checkout["id"],
        "config_name": plain_text(kernel.name),
        **_architecture(record.environment.arch),
        # Somebody else's kernel was built somehow; rtgate's own, as `rtgate build` proves it.
        **({"status": Status.PASS.value} if kernel.provenance == "rtgate" else {}),
        "misc": _kernel_fields(kernel),
    }
    return checkout, build


def _source_digest(record: Record, names: Identifiers) -> str:
    """Return what tells sources apart that are not a commit.

    A kernel that somebody else built says nothing of its source, so it counts as one of its own; and one that said
    nothing of itself either, because it did not boot, as one of this run.
    """
    words = [record.kernel.source]
    if record.kernel.provenance == "unknown":
        words += [record.kernel_id or names.run, record.board if not record.kernel_id else record.environment.arch]
    return hashlib.sha256("\0".join(words).encode("utf-8", "replace")).hexdigest()


def failed_build(verdicts: Sequence[Verdict], names: Identifiers) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the checkout and the build that verdicts are about; without any, those of a kernel that nobody knows."""
    merge = [verdict for verdict in verdicts if verdict.kind is Kind.MERGE]
    rest = [verdict for verdict in verdicts if verdict.kind is not Kind.MERGE]
    checkout = {"id": names.of_run("source"), "origin": names.origin}
    build = {"id": names.of_run("kernel"), "origin": names.origin, "checkout_id": checkout["id"]}
    if merge:
        checkout |= {"valid": False, "log_excerpt": _sentences(merge)}  # type: ignore[dict-item]
    if rest:
        worst = min((verdict.status for verdict in rest), key=lambda status: status.rank)
        build |= {"status": worst.value, "log_excerpt": _sentences(rest)}
    return checkout, build


def _architecture(name: str) -> dict[str, str]:
    return {"architecture": name} if _ARCHITECTURE.fullmatch(name) else {}


def _kernel_fields(kernel: KernelIdentity) -> dict[str, str]:
    names = ("flavour", "release", "version", "image_sha256", "config_sha256", "build_id")
    return {name: plain_text(value) for name in names if (value := getattr(kernel, name))}


def _sentences(verdicts: Sequence[Verdict]) -> str:
    return plain_text("\n".join(verdict.sentence for verdict in verdicts))[:LONGEST_EXCERPT]
