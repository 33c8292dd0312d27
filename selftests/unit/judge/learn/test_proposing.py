# SPDX-License-Identifier: MIT
from __future__ import annotations

from dataclasses import replace

import pytest
from selftests.unit.judge.conftest import maximum, record, share

from rtgate.judge.learn.proposing import Ask, GoodBoot, LimitProposal, _round_limit, looser, propose_limits, ratchet
from rtgate.judge.thresholds import LimitKind, Threshold
from rtgate.kernel.version import VersionRange
from rtgate.tools.measurement import Better, Measurement
from rtgate.units import Quantity, Unit


def past(highs: list[float], name: str = "image") -> list[GoodBoot]:
    return [
        GoodBoot(
            f"run-{number // 2}", f"{name}-{number // 2}", record({30_000: 1999, int(1000 * high): 1}, seed=number)
        )
        for number, high in enumerate(highs)
    ]


GOOD = past([50.0 + number % 7 for number in range(60)])
ASK = Ask(target=0.05)


def proposed(boots: list[GoodBoot], measurement: str, ask: Ask = ASK) -> LimitProposal:
    (found,) = (one for one in propose_limits(boots, ask) if one.threshold.measurement == measurement)
    return found


def test_limits_are_proposed_for_worst_cases_shares_and_losses() -> None:
    found = {one.threshold.measurement: one.threshold for one in propose_limits(GOOD, ASK)}
    found.pop("wakeups", None)  # how many there were; a real tool says that neither way is better
    assert {name: limit.kind for name, limit in found.items()} == {
        "latency": LimitKind.SHARE,
        "latency.max": LimitKind.MAX,
        "wakeups.lost": LimitKind.MAX,
    }
    assert found["latency.max"].limit == Quantity(56.0, Unit.VIRTUAL_US)
    assert found["latency.max"].source.startswith("largest of 60 boots in 30 sessions 56 virtual us; false alarms in 0")
    assert found["wakeups.lost"].limit == Quantity(0.0, Unit.COUNT)
    assert found["latency"].over == Quantity(60.0, Unit.VIRTUAL_US)


def test_a_limit_s_source_names_the_image_it_was_measured_with() -> None:
    known = "fbbdee096fe15d80"
    named = [
        replace(one, record=replace(one.record, environment=replace(one.record.environment, rootfs=known)))
        for one in GOOD
    ]
    found = {one.threshold.measurement: one.threshold.source for one in propose_limits(named, ASK)}
    assert found["latency.max"].endswith("; image fbbdee09")
    assert found["latency"].endswith("; image fbbdee09")


def test_a_margin_goes_on_top_and_is_told() -> None:
    limit = proposed(GOOD, "latency.max", Ask(target=0.05, margin=1.4)).threshold
    assert limit.limit == Quantity(79.0, Unit.VIRTUAL_US)
    assert limit.margin.endswith("x1.4")


def test_rates_get_a_lower_limit() -> None:
    rates = [
        replace(
            boot,
            record=replace(
                boot.record,
                case="nvme/fio-read:idle",
                measurements=(
                    Measurement(
                        name="bandwidth", better=Better.HIGHER, quantity=Quantity(1500.0 + number % 5, Unit.MB_S)
                    ),
                ),
            ),
        )
        for number, boot in enumerate(GOOD)
    ]
    limit = proposed(rates, "bandwidth").threshold
    assert (limit.kind, limit.limit) == (LimitKind.MIN, Quantity(1500.0, Unit.MB_S))


@pytest.mark.parametrize(
    ("value", "up", "limit"),
    [
        *((0.0912, False, 0.0912), (0.37777, False, 0.377), (1.2345, False, 1.23), (25.68, False, 25.6)),
        *((1503.0, False, 1500.0), (123_456.0, False, 123_000.0), (3.2e-7, False, 3.2e-7), (0.0, False, 0.0)),
        *((0.0912, True, 0.1), (1.2345, True, 1.3), (25.68, True, 26.0), (1503.0, True, 1510.0)),
    ],
)
def test_a_limit_has_three_digits_and_a_lower_one_is_never_rounded_to_nothing(
    value: float, up: bool, limit: float
) -> None:
    assert _round_limit(value, up=up) == pytest.approx(limit, rel=1e-12)


def test_a_boot_far_out_is_named() -> None:
    boots = past([50.0 + number % 7 for number in range(59)] + [150.0])
    assert proposed(boots, "latency.max").notes == ("seed 59 of run run-29 stands far out: 150 virtual us",)


def test_nothing_comes_from_nothing() -> None:
    assert propose_limits([], ASK) == ()
    assert propose_limits(GOOD[:2], ASK) == ()


def test_a_tighter_limit_replaces_the_one_that_is_there() -> None:
    decision = ratchet(proposed(GOOD, "latency.max"), [maximum("86 virtual us")], GOOD, ())
    assert (decision.kept, decision.threshold.limit) == (False, Quantity(56.0, Unit.VIRTUAL_US))


def test_a_looser_limit_that_no_run_needs_is_not_taken() -> None:
    wide = proposed(GOOD, "latency.max", Ask(target=0.05, margin=2.0))
    decision = ratchet(wide, [maximum("86 virtual us")], GOOD, ())
    assert (decision.kept, decision.threshold.limit) == (True, Quantity(86.0, Unit.VIRTUAL_US))
    assert decision.sentence == "112 virtual us would be looser, and no run needs it"


def test_a_looser_limit_needs_every_run_that_needs_it_by_name() -> None:
    boots = past([50.0 + number % 7 for number in range(60)])
    old = [maximum("55.5 virtual us")]
    refused = ratchet(proposed(boots, "latency.max"), old, boots, ("run-3",))
    assert refused.kept
    assert refused.breaking[:2] == ("run-3", "run-6")
    assert "run-6" in refused.sentence
    taken = ratchet(proposed(boots, "latency.max"), old, boots, refused.breaking)
    assert (taken.kept, taken.threshold.limit) == (False, Quantity(56.0, Unit.VIRTUAL_US))
    assert "looser than 55.5 virtual us because of run-3, run-6" in taken.threshold.margin


def test_what_is_not_proven_replaces_nothing() -> None:
    few = GOOD[:8]
    one = proposed(few, "latency.max")
    assert one.problem
    decision = ratchet(one, [maximum("86 virtual us")], few, ())
    assert (decision.kept, decision.threshold.limit) == (True, Quantity(86.0, Unit.VIRTUAL_US))


def of_class(boots: list[GoodBoot], name: str) -> list[GoodBoot]:
    """Return boots of a board whose only CPU is of this class."""
    return [
        replace(
            boot,
            record=replace(
                boot.record,
                measurements=tuple(
                    replace(one, labels={**one.labels, "class": name}) for one in boot.record.measurements
                ),
            ),
        )
        for boot in boots
    ]


def test_a_looser_limit_leaves_the_one_of_a_class_of_cpus() -> None:
    boots = of_class(GOOD, "little")
    little = replace(maximum("55.5 virtual us"), cpu_class="little")
    decision = ratchet(proposed(boots, "latency.max"), [little], boots, ())
    assert (decision.kept, decision.replaced, decision.tighter) == (False, (), True)
    assert decision.threshold.limit == Quantity(56.0, Unit.VIRTUAL_US)
    assert decision.breaking[:2] == ("run-3", "run-6")
    assert decision.sentence.endswith(" broke 55.5 virtual us (class little)")
    taken = ratchet(proposed(boots, "latency.max"), [little], boots, decision.breaking)
    assert taken.replaced == (little,)
    assert "looser than 55.5 virtual us (class little) because of run-3" in taken.threshold.margin


def test_a_tighter_limit_replaces_every_one_for_all_cpus_and_kernels() -> None:
    wide = [maximum("86 virtual us"), replace(maximum("90 virtual us"), source="another")]
    big, old = replace(maximum("99 virtual us"), cpu_class="big"), VersionRange.parse("< 5.0")
    before = [*wide, big, replace(maximum("50 virtual us"), kernels=old)]
    decision = ratchet(proposed(GOOD, "latency.max"), before, GOOD, ())
    assert (decision.kept, decision.replaced) == (False, tuple(wide))
    # The boots are of later kernels, so none of them breaks the limit of old ones.
    assert decision.breaking == ()
    assert (
        "56 virtual us would be looser than 50 virtual us (kernels < 5.0.0), and no run needs it" in decision.sentence
    )


def test_the_tightest_of_several_limits_stays() -> None:
    before = [maximum("86 virtual us"), maximum("55.5 virtual us")]
    decision = ratchet(proposed(GOOD, "latency.max"), before, GOOD, ())
    assert (decision.kept, decision.threshold, decision.replaced) == (True, before[1], ())


@pytest.mark.parametrize(
    ("new", "old", "wanted"),
    [
        (maximum("80 virtual us"), maximum("90 virtual us"), False),
        (maximum("0.1 virtual ms"), maximum("90 virtual us"), True),
        (share(0.01, "50 virtual us"), share(0.01, "50 virtual us"), False),
        (share(0.02, "50 virtual us"), share(0.01, "60 virtual us"), True),
        (share(0.001, "70 virtual us"), share(0.01, "60 virtual us"), True),
        (share(0.001, "50 virtual us"), share(0.01, "60 virtual us"), False),
        (share(0.001, "50 virtual us"), replace(share(0.01, "60 virtual us"), cpu_class="big"), True),
    ],
)
def test_what_is_looser(new: Threshold, old: Threshold, wanted: bool) -> None:
    assert looser(new, old) == wanted
