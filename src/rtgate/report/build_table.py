# SPDX-License-Identifier: MIT
"""What came of several builds, as a table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rtgate.kernel.build_set import BuildOutcome

_MIB = 1 << 20


def lines(outcomes: Sequence[BuildOutcome]) -> Iterator[str]:
    """Yield a row for each build, then what stopped those that failed, then how many kernels there are."""
    width = max(len(name) for name in ("build", *(outcome.description.name for outcome in outcomes)))
    yield f"{'build':{width}}  {'Linux':14}  {'image':>8}  {'time':>6}"
    for outcome in outcomes:
        yield f"{outcome.description.name:{width}}  {_result(outcome)}".rstrip()
    for outcome in outcomes:
        if outcome.failure:
            yield f"{outcome.description.name}:"
            yield from (f"  {line}" for line in outcome.failure.splitlines())
    kernels = sum(outcome.kernel is not None for outcome in outcomes)
    unsupported = sum(bool(outcome.unsupported) for outcome in outcomes)
    failures = sum(bool(outcome.failure) for outcome in outcomes)
    yield f"{kernels} of {len(outcomes)} kernels built, {failures} failed, {unsupported} not for this tree"


def _result(outcome: BuildOutcome) -> str:
    if outcome.kernel is None:
        return f"{'-':14}  {'-':>8}  {outcome.seconds:>4.0f} s  {outcome.unsupported or 'failed'}"
    size = outcome.kernel.image.stat().st_size / _MIB
    return f"{outcome.kernel.release:14}  {size:>4.1f} MiB  {outcome.seconds:>4.0f} s"
