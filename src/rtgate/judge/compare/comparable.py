# SPDX-License-Identifier: MIT
"""May the boots of two kernels be compared? Only if nothing but the kernel differs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from rtgate.records.record import Record
from rtgate.units import ranges


def differences(baseline: Sequence[Record], candidate: Sequence[Record]) -> tuple[str, ...]:
    """Return what forbids a comparison, as sentences; empty when the boots that measured may be compared.

    Kernel, configuration and flavour are what is compared. Everything else must be equal in all boots: board, device,
    CPU model, QEMU, root file system, tuning (`Environment.incomparable`), the tool's command line and how long it had
    to run, the load and its processes, the profile, the plans where they are known, and on virtual time the seeds and
    the plan that each seed ran.
    """
    before, after = _measured_records(baseline), _measured_records(candidate)
    if not before or not after:
        return ()
    pairs = [(before[0], record) for record in (*before, *after)] + [(after[0], record) for record in after]
    sentences = [text for first, record in pairs for text in first.environment.incomparable(record.environment)]
    for name, of in _ASKED:
        sentences += _unlike(name, map(of, before), map(of, after))
    if any(record.virtual_time for record in (*before, *after)):
        sentences += _phases(baseline, candidate)
    else:
        sentences += _plans(before, after)
    return tuple(dict.fromkeys(sentences))


def configuration_effects(baseline: Sequence[Record], candidate: Sequence[Record]) -> tuple[str, ...]:
    """Return what two configurations made of the board, and two compilers, as sentences.

    It is compared, and whoever reads must know: the change that is judged may be theirs.
    """
    before, after = _measured_records(baseline), _measured_records(candidate)
    if not before or not after:
        return ()
    compilers = [", ".join(sorted({record.kernel.compiler for record in arm} - {""})) for arm in (before, after)]
    sentences = _unlike("compiler", compilers[:1], compilers[1:]) if all(compilers) else []
    return (*before[0].environment.configuration_differences(after[0].environment), *sentences)


_ASKED: tuple[tuple[str, Callable[[Record], str]], ...] = (
    ("command of the tool", lambda record: " ".join(record.argv)),
    ("seconds to measure", lambda record: str(record.evidence.expectation.duration_s)),
    ("load", lambda record: record.evidence.load),
    ("processes of the load", lambda record: str(record.evidence.load_processes)),
    ("profile", lambda record: record.profile),
)


def _measured_records(records: Sequence[Record]) -> list[Record]:
    return [record for record in records if record.has_results]


def _unlike(name: str, before: Iterable[str], after: Iterable[str]) -> list[str]:
    words = dict.fromkeys((*before, *after))
    if len(words) < 2:
        return []
    return [f"{name}: " + " against ".join(repr(word) for word in words)]


def _phases(baseline: Sequence[Record], candidate: Sequence[Record]) -> list[str]:
    """Return seeds that only one kernel was given, and seeds whose plans differ or that nobody knows.

    A boot that died was given its seed, and the plan as far as it came to it.
    """
    records = [*_measured_records(baseline), *_measured_records(candidate)]
    if any(record.seed is None for record in records):
        return ["seeds: nobody knows those of all boots"]
    plans = [{record.seed: _plan(record) for record in arm if _plan(record)} for arm in (baseline, candidate)]
    sentences = _unlike("seeds", *([_seeds({record.seed for record in arm})] for arm in (baseline, candidate)))
    changed_seeds = [seed for seed in plans[0].keys() & plans[1].keys() if plans[0][seed] != plans[1][seed]]
    unknown_seeds = {record.seed for record in records if not _plan(record)}
    sentences += [f"plan: seeds {_seeds(changed_seeds)} did not run the same script"] if changed_seeds else []
    return [*sentences, *([f"plan: nobody knows that of seeds {_seeds(unknown_seeds)}"] if unknown_seeds else [])]


def _plans(before: Sequence[Record], after: Sequence[Record]) -> list[str]:
    """Return that the boots of the kernels ran other scripts; nothing where no boot's is known."""
    plans = [sorted({_plan(record) or "unknown" for record in arm}) for arm in (before, after)]
    return _unlike("plan", [", ".join(plans[0])], [", ".join(plans[1])])


def _plan(record: Record) -> str:
    return record.machine.get("plan", "")


def _seeds(seeds: Iterable[int | None]) -> str:
    return ranges(seed for seed in seeds if seed is not None)
