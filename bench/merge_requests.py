# SPDX-License-Identifier: MIT
"""Reviews of real kernels, from a push to the note and the vote, on both forges: do they end as they should?

`python -m bench.merge_requests` makes a repository of the pinned kernel source in rtgate's cache, once, and the changes
of `review_cases` in it, with this clone's job template and limits. gitlab-ci-local runs each in the job of
`ci/gitlab/rtgate.yml`, before a stand-in for GitLab; a real Gerrit server gets each pushed, and `rtgate gerrit` reviews
it. Last comes a mailed series. Arguments name cases. A table says how each ended, and the directory `notes` has every
answer. Exit code 1 if one ended otherwise. Boots and kernels are cached: the second forge boots nothing again.
"""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from bench.gerrit_review import GerritReviews
from bench.gitlab_review import GitLabReviews
from bench.kernel_repository import KernelRepository
from bench.mailed_review import mailed_series
from bench.review_cases import CASES, prepare
from bench.review_outcome import Outcome
from rtgate import site


def main() -> int:
    """Review everything; return the exit code."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(130))  # so that the servers end, too
    work, names = (site.cache() / "merge-requests").resolve(), sys.argv[1:]
    unknown = set(names) - {"series", *(case.name for case in CASES)}
    if unknown:
        sys.exit(
            f"no such case: {', '.join(sorted(unknown))} (allowed: {', '.join(case.name for case in CASES)}, series)"
        )
    repository = KernelRepository.at(work / "linux")
    prepare(repository)
    (work / "notes").mkdir(exist_ok=True)
    cases = [case for case in CASES if not names or case.name in names]
    print("| change | forge | exit code | vote | time | what is wrong |\n|---|---|---|---|---|---|", flush=True)
    gitlab = GitLabReviews(work, repository)
    wrong = sum(_row(work, case.name, "GitLab", partial(gitlab.review, case)) for case in cases)
    if cases:
        with GerritReviews.running(work, repository) as gerrit:
            wrong += sum(_row(work, case.name, "Gerrit", partial(gerrit.review, case)) for case in cases)
    if not names or "series" in names:
        wrong += _row(work, "series", "mail", partial(mailed_series, work, repository))
    return 1 if wrong else 0


def _row(work: Path, name: str, forge: str, review: Callable[[], Outcome]) -> bool:
    began = time.monotonic()
    outcome = review()
    seconds = time.monotonic() - began
    (work / "notes" / f"{name}-{forge.lower()}.md").write_text(outcome.note, encoding="utf-8")
    vote = ", ".join(f"{one:+}" for one in outcome.votes.values()) or "none"
    print(
        f"| {name} | {forge} | {outcome.code} | {vote} | {seconds:.0f} s | {'; '.join(outcome.problems)} |", flush=True
    )
    return bool(outcome.problems)


if __name__ == "__main__":
    sys.exit(main())
