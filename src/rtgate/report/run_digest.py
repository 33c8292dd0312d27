# SPDX-License-Identifier: MIT
"""What names a judged run where many runs are collected."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence

from rtgate.judge.verdict import Verdict
from rtgate.records.record import Record

_LENGTH = 16  # hexadecimal digits: 64 bits, which no collection of runs exhausts


def run_digest(records: Sequence[Record], verdicts: Sequence[Verdict]) -> str:
    """Return a name that two exports of one run share, and that changes when it is measured or judged again."""
    boots = sorted(
        json.dumps([boot.board, boot.arm, boot.case, boot.boot_id, boot.seed, dict(boot.sources), dict(boot.seconds)])
        for boot in records
    )
    return hashlib.sha256(json.dumps([boots, [entry.as_json() for entry in verdicts]]).encode()).hexdigest()[:_LENGTH]
