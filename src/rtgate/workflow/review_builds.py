# SPDX-License-Identifier: MIT
"""The builds of a review: what cannot be built, and whose fault that is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from rtgate.errors import BuildError, ConfigError, InfrastructureError, RtgateError
from rtgate.judge.verdict import Kind, Status, Verdict
from rtgate.kernel.merge import Commits
from rtgate.report.notices import say
from rtgate.workflow.kernels import CommitBuilds


def build_both(builds: CommitBuilds, build: str, commits: Commits, board: str) -> dict[str, Path] | Verdict:
    """Return the build directories of baseline and candidate, or what is to be said of one that cannot be built.

    Raises:
        ConfigError, InfrastructureError: as `kernels.build_commit`.
    """
    try:
        baseline = builds.base(build, commits.base)
    except BuildError as error:
        return build_verdict(board, Status.MISS, f"the baseline cannot be built: {error}")
    try:
        return {"baseline": baseline, "candidate": builds.candidate(build, commits.candidate)}
    except (BuildError, ConfigError) as error:  # not a kernel tree, for one: the baseline was
        return build_verdict(board, Status.FAIL, str(error))


def build_unbooted(builds: CommitBuilds, names: Sequence[str], commits: Commits) -> Iterator[Verdict]:
    """Build what is not booted; yield what does not build, unless the baseline does not either.

    Kernels were measured before: what the machine cannot do is said of the build alone.
    """
    for name in names:
        try:
            builds.candidate(name, commits.candidate)
        except (BuildError, ConfigError) as error:
            yield _blame(builds, name, commits, error)
        except InfrastructureError as error:
            yield build_verdict("", Status.MISS, f"{name}: {error}", Kind.LAB)


def _blame(builds: CommitBuilds, name: str, commits: Commits, error: RtgateError) -> Verdict:
    try:
        builds.base(name, commits.base)
    except (BuildError, ConfigError):  # a patch series that applies to neither, for one
        return build_verdict("", Status.MISS, f"{name} can be built neither before nor after: {error}")
    except InfrastructureError as problem:
        return build_verdict(
            "", Status.MISS, f"{name}: {error}; whether it could be built before is not known: {problem}"
        )
    return build_verdict("", Status.FAIL, f"{name}: {error}")


def build_verdict(board: str, status: Status, sentence: str, kind: Kind = Kind.BUILD) -> Verdict:
    """Return what is said of a build, and say its first line now."""
    say(sentence.partition("\n")[0])
    return Verdict(status=status, kind=kind, sentence=sentence, board=board, arm="", flavour="", case="")
