# SPDX-License-Identifier: MIT
"""A mailed series of three patches, of which the second one is slow: the reply must name it."""

from __future__ import annotations

import email
import email.policy
import subprocess
import sys
from pathlib import Path

from bench.kernel_repository import KernelRepository
from bench.review_cases import GUILTY, MAIN, series
from bench.review_outcome import Outcome


def mailed_series(work: Path, repository: KernelRepository) -> Outcome:
    """Review the series and read the reply."""
    mailbox, report = work / "series.mbox", work / "reports" / "series"
    mailbox.write_text(series(repository), encoding="utf-8")
    argv = [sys.executable, "-P", "-m", "rtgate", "review", "--tree", str(repository.path), "--base", MAIN]
    argv += ["--series", str(mailbox), "--kernels", str(work / "kernels"), "-o", str(report)]
    with (work / "series.log").open("wb") as log:
        code = subprocess.run(argv, cwd=work, stdout=log, stderr=log, stdin=subprocess.DEVNULL, check=False).returncode
    problems = [f"exit code {code}, not 1"] if code != 1 else []
    reply = report / "reply.eml"
    if not reply.exists():
        return Outcome(code=code, note="", problems=(*problems, "no reply"))
    message = email.message_from_bytes(reply.read_bytes(), policy=email.policy.default)
    body = message.get_body()
    text = body.get_content() if body else ""
    guilty = next((line for line in text.splitlines() if "first" in line and "fail" in line), "")
    if GUILTY not in " ".join(text.split()) or not guilty:
        problems.append("the reply does not name the guilty patch")
    return Outcome(code=code, note=reply.read_text(encoding="utf-8"), problems=tuple(problems))
