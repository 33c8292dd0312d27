# SPDX-License-Identifier: MIT
"""May the boots of two kernels be compared? Only if nothing but the kernel differs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from rtgate.record import Record


def differences(baseline: Sequence[Record], candidate: Sequence[Record]) -> tuple[str, ...]:
    """Return what forbids a comparison, as sentences; empty when the boots that measured may be compared.

    Kernel, configuration and flavour are what is compared. Everything else must be equal in all boots: board, device,
    CPU model, QEMU, root file system, tuning (`Environment.incomparable`), the tool's command line, the load, the
    profile, and on virtual time the seeds and the plan that each seed ran.
    """
    before, after = _measured(baseline), _measured(candidate)
    if not before or not after:
        return ()
    first = before[0].environment
    found = [text for one in (*before, *after) for text in first.incomparable(one.environment)]
    for name, of in _ASKED:
        found += _unlike(name, map(of, before), map(of, after))
    if all(record.seed is not None for record in (*before, *after)):
        found += _phases(baseline, candidate)
    return tuple(dict.fromkeys(found))


_ASKED: tuple[tuple[str, Callable[[Record], str]], ...] = (
    ("command of the tool", lambda record: " ".join(record.argv)),
    ("load", lambda record: record.evidence.load),
    ("profile", lambda record: record.profile),
)


def _measured(records: Sequence[Record]) -> list[Record]:
    return [record for record in records if record.state == "measured"]


def _unlike(name: str, before: Iterable[str], after: Iterable[str]) -> list[str]:
    words = dict.fromkeys((*before, *after))
    if len(words) < 2:
        return []
    return [f"{name}: " + " against ".join(repr(word) for word in words)]


def _phases(baseline: Sequence[Record], candidate: Sequence[Record]) -> list[str]:
    """Return seeds that only one kernel was given, and seeds whose plans differ. A boot that died was given its own."""
    plans = [{record.seed: record.machine.get("plan", "") for record in arm} for arm in (baseline, candidate)]
    found = _unlike("seeds", *([_runs(arm)] for arm in plans))
    changed = [seed for seed in plans[0].keys() & plans[1].keys() if plans[0][seed] != plans[1][seed]]
    return [*found, *([f"plan: seeds {_runs(changed)} did not run the same script"] if changed else [])]


def _runs(seeds: Iterable[int | None]) -> str:
    """Return seeds as people write them: `1-4, 7`."""
    found: list[list[int]] = []
    for seed in sorted(seed for seed in seeds if seed is not None):
        if found and seed == found[-1][1] + 1:
            found[-1][1] = seed
        else:
            found.append([seed, seed])
    return ", ".join(str(low) if low == high else f"{low}-{high}" for low, high in found)
