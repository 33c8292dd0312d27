# SPDX-License-Identifier: MIT
"""Critical sections have the lengths that they are known to have, and a planted one is named though it ran once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rtgate.explain.sections import Section, from_json

from .conftest import ROOT, Patched, rtgate

DATA = ROOT / "selftests" / "data" / "sections"
# (kind, context, function) and the length in instructions, as init/known.c of the patch says it.
EXACT = {
    ("irqsoff", "thread", "known_irqs_off"): 2 * 1000 + 1,
    ("irqsoff", "thread", "known_irqs_off_long"): 2 * 100_000 + 1,  # an interrupt is pending in the end
    ("irqsoff", "thread", "known_irqs_restored"): 2 * 1100 + 1,
    ("irqsoff", "softirq", "known_softirq"): 2 * 4000 + 1,
    ("preemptoff", "thread", "known_preemption_off"): 2 * 1200 + 3,
    ("preemptoff", "thread", "known_preemption_off_long"): 2 * 200_000 + 3,  # without the interrupts that come in it
    ("preemptoff", "thread", "known_preemption_off_nested"): 2 * 1300 + 9,
    ("irqsoff", "thread", "known_overlap"): 4,
    ("preemptoff", "thread", "known_overlap"): 2 * 1400 + 4,
    ("preemptirqsoff", "thread", "known_overlap"): 2 * 1400 + 7,
    ("irqsoff", "thread", "known_begin"): 2 * 1500 + 4,
}
"""How long each section is, whenever it runs."""
LOCK = 2 * 1600  # with what locks and unlocks around it


def followed(*words: object, output: Path) -> dict[str, tuple[Section, ...]]:
    done = rtgate("sections", "--board", "virt-arm64", *words, "-o", output)
    assert done.returncode == 0
    return {arm: from_json(entries) for arm, entries in json.loads(output.read_text())["kernels"].items()}


@pytest.mark.long("a kernel of its own")
def test_sections_of_known_lengths_are_measured_to_the_instruction(patched: Patched, tmp_path: Path) -> None:
    kernel = patched("known-lengths", DATA / "known-lengths")
    found = followed("--kernel", kernel, "--profile", "smoke", output=tmp_path / "file")["candidate"]
    by_site = {
        (each.site.kind, each.site.context, each.site.begin.function): each
        for each in found
        if each.site.begin.function.startswith("known_")
    }
    lengths = {key: (by_site[key].longest, by_site[key].total / by_site[key].count) for key in EXACT}
    assert lengths == {key: (length, length) for key, length in EXACT.items()}
    assert min(by_site[key].count for key in EXACT) > 50  # each 20 ms of 2 s
    assert by_site["irqsoff", "thread", "known_begin"].site.end.function == "known_end"
    for kind in ("irqsoff", "preemptoff", "preemptirqsoff"):
        lock = by_site[kind, "thread", "known_raw_lock"]
        assert lock.total == lock.count * lock.longest
        assert LOCK < lock.longest < LOCK + 40
        assert (lock.site.begin.helper, lock.site.end.function) == ("_raw_spin_lock_irqsave", "known_raw_lock")
    # What runs in a hard interrupt is a part of it.
    assert not any(context == "hardirq" for _, context, _ in by_site)
    interrupts = [each for each in found if each.site.begin.function == "el1h_64_irq" and each.site.kind == "irqsoff"]
    assert max(each.longest for each in interrupts) > 2 * 5000


@pytest.mark.long("a kernel of its own, and two boots under load")
@pytest.mark.parametrize(
    ("name", "load", "start"),
    [
        ("softirq-interrupts-off", "idle", "interrupts off for 7,"),
        ("timer-wheel-locked-longer", "hackbench", "interrupts off for 5,"),
    ],
)
def test_a_planted_section_is_named_first(
    kernel: Path, patched: Patched, name: str, load: str, start: str
) -> None:
    words = ("--board", "virt-arm64", "--baseline", kernel, "--case", f"latency/cyclictest:{load}")
    done = rtgate("sections", "--kernel", patched(name, DATA / name), *words)
    assert done.returncode == 0
    assert done.stdout.splitlines()[-1].startswith(start)
