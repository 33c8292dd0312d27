# SPDX-License-Identifier: MIT
"""Mainline's endpoint test, on the root complex: BARs, interrupts, transfers with checksums; a kselftest's also by DMA.

It needs an endpoint with pci-epf-test on the other side (Documentation/PCI/endpoint/pci-test-howto.rst). The driver has
two programs: `pcitest` (tools/pci, in 6.12) and a kselftest (tools/testing/selftests/pci_endpoint, in 6.18). Both are
run again and again for as long as the profile measures.

Facts that this module depends on:

* The driver's ioctls return 1 for passed and 0 for failed in older kernels (6.12 among them), 0 and an error number in
  newer ones. pcitest knows the former only: on a newer kernel it prints `NOT OKAY` for what passed, and never `OKAY`.
* pcitest prints a line for each test; `TEST FAILED`, or `FAILED` for interrupt types, is an ioctl that failed. A BAR
  that the endpoint does not have is rightly `NOT OKAY`, so only those that the kernel has found are tested.
* pcitest lets the endpoint's DMA transfer only with `-d`, which is not given; the kselftest has tests of both.
* The kselftest skips absent BARs itself and tests 32 MSIs, so the endpoint must have them (`msi_interrupts`). INTx and
  2048 MSI-X, which endpoints need not have and which take a second each to fail, are left out (`-T`).
* It prints TAP; its exit code is 1 if a test failed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from rtgate.errors import ParseError
from rtgate.tools import Expected, Output, Reports, Setting, Tool, count
from rtgate.tools.measurement import Better, Measurement
from rtgate.tools.needs import Need
from rtgate.tools.rt_tests import check_end

_NODE = Need(
    test="[ -c /dev/pci-endpoint-test.0 ]",
    reason="no endpoint that mainline's driver knows (/dev/pci-endpoint-test.0, CONFIG_PCI_ENDPOINT_TEST)",
)
_SIZES = (1, 1024, 1025, 1024000, 1024001)
_KINDS = ("WRITE", "READ", "COPY")

_LINE = re.compile(
    r"^(?P<test>BAR[0-5]|SET IRQ TYPE TO MSI|MSI[0-9]{1,2}|(?:WRITE|READ|COPY) \( *[0-9]{1,12} bytes\)):\t+"
    r"(?P<result>OKAY|NOT OKAY|(?:TEST )?FAILED)$",
    re.MULTILINE,
)
_FOUND = re.compile(r"bars((?: [0-5])*)\n")
_AGAIN = r"""
now() {{ cut -d . -f 1 /proc/uptime; }}
started=$(now)
while :; do
    echo round
    {body}
    [ $(($(now) - started)) -lt {seconds} ] || break
done
echo ended
"""


def _repeat_command(before: str, body: str, setting: Setting) -> tuple[str, ...]:
    """Return the command line that does something for as long as the setting says, at least once."""
    return ("sh", "-c", before + _AGAIN.format(body=body, seconds=setting.whole_s))


def _rounds(tool: str, output: Output) -> tuple[str, list[str]]:
    """Return what was printed before the first round, and in each. Raises ParseError."""
    check_end(tool, output)
    text = output.text("tool.out")
    before, *rounds = re.split(r"^round\n", text, flags=re.MULTILINE)
    if not rounds or not text.endswith("ended\n"):
        raise ParseError(f"{tool} did not come to its end")
    return before, [*rounds[:-1], rounds[-1].removesuffix("ended\n")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pcitest(Tool):
    """Options of pcitest.

    Attributes:
        vectors: MSIs that the endpoint has (`msi_interrupts`).
    """

    vectors: int = 4

    name: ClassVar[str] = "pcitest"
    suites: ClassVar[tuple[str, ...]] = ("pcie",)
    needs: ClassVar[tuple[Need, ...]] = (
        _NODE,
        Need(test="command -v pcitest >/dev/null", reason="pcitest is not on the target (tools/pci of the kernel)"),
    )
    reports: ClassVar[Mapping[str, Reports]] = {
        "passed": Reports.COUNT,
        "bars": Reports.COUNT,
        "failures": Reports.FAILURES,
    }

    def argv(self, setting: Setting) -> tuple[str, ...]:
        """Return the command line: all tests, for the BARs that the kernel has found."""
        interrupts = "; ".join(f"pcitest -m {number}" for number in range(1, self.vectors + 1))
        transfers = "; ".join(f"pcitest {kind} -s {size}" for kind in ("-w", "-r", "-c") for size in _SIZES)
        body = f"for bar in $bars; do pcitest -b $bar; done\n    pcitest -i 1; {interrupts}\n    {transfers}"
        return _repeat_command(_BARS, body, setting)

    def expected(self, setting: Setting) -> Expected:
        """Return what must be seen while it runs."""
        return Expected(threads=(), duration_s=setting.whole_s)

    def parse(self, output: Output) -> tuple[Measurement, ...]:
        """Return how many tests passed, on how many BARs, and how many failed, of all rounds.

        Raises:
            ParseError: it did not end, tests are missing, or the kernel is one that pcitest does not understand.
        """
        before, rounds = _rounds("pcitest", output)
        bars = _FOUND.fullmatch(before)
        if bars is None:
            raise ParseError("pcitest: the endpoint's BARs were not read (resource of its function in /sys)")
        bar_names = bars[1].split()
        results = [result for text in rounds for result in self._results(text, bar_names)]
        passes = results.count("OKAY")
        if not passes:
            raise ParseError(
                "pcitest says OKAY to nothing: every test failed, or this kernel returns 0 for passed, as newer ones "
                "do, which pcitest takes for failed: use the kernel's own kselftest"
            )
        return (
            count("passed", passes, Better.HIGHER),
            count("bars", len(bar_names), Better.NEITHER),
            count("failures", len(results) - passes, Better.LOWER),
        )

    def _results(self, text: str, bars: list[str]) -> list[str]:
        lines = [(re.sub(r"\( +", "(", match["test"]), match["result"]) for match in _LINE.finditer(text)]
        tests, plan = [test for test, _ in lines], self._test_names(bars)
        if tests != plan:
            missing_tests = [test for test in plan if test not in tests]
            raise ParseError(
                f"pcitest printed {len(tests)} of {len(plan)} results; missing: {', '.join(missing_tests[:5])}"
            )
        return [result for _, result in lines]

    def _test_names(self, bars: list[str]) -> list[str]:
        return [
            *(f"BAR{bar}" for bar in bars),
            "SET IRQ TYPE TO MSI",
            *(f"MSI{number}" for number in range(1, self.vectors + 1)),
            *(f"{kind} ({size} bytes)" for kind in _KINDS for size in _SIZES),
        ]


# A BAR that is not there, and the upper half of one with 64 bits, are lines of zeros (drivers/pci/pci-sysfs.c).
_BARS = r"""bars= number=0
set -- /sys/bus/pci/drivers/pci-endpoint-test/*:*
while [ $number -lt 6 ] && read -r first last rest; do
    [ $((last)) -le $((first)) ] || bars="$bars $number"
    number=$((number + 1))
done <"$1/resource"
echo "bars$bars"
"""

_PLAN = re.compile(r"^1\.\.([0-9]{1,4})$", re.MULTILINE)
_TEST = re.compile(
    r"^(?P<result>ok|not ok) (?P<number>[0-9]{1,4}) (?P<test>[A-Za-z0-9_.]{1,120})(?: # (?P<directive>[A-Z]+)\b.*)?$",
    re.MULTILINE,
)
_TOTALS = re.compile(
    r"^# Totals: pass:([0-9]{1,4}) fail:([0-9]{1,4}) xfail:([0-9]{1,4}) xpass:([0-9]{1,4}) skip:([0-9]{1,4}) "
    r"error:([0-9]{1,4})$",
    re.MULTILINE,
)
_ALWAYS = (
    *(f"pci_ep_bar.BAR{bar}.BAR_TEST" for bar in range(6)),
    "pci_ep_basic.MSI_TEST",
    *(f"pci_ep_data_transfer.{way}.{kind}_TEST" for way in ("memcpy", "dma") for kind in _KINDS),
)
_DMA = "pci_ep_data_transfer.dma."  # an endpoint need not have it: whether it has is for a board's limits to say


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointKselftest(Tool):
    """The kernel's own test."""

    name: ClassVar[str] = "pci_endpoint_test"
    suites: ClassVar[tuple[str, ...]] = ("pcie",)
    needs: ClassVar[tuple[Need, ...]] = (
        _NODE,
        Need(
            test="command -v pci_endpoint_test >/dev/null",
            reason="pci_endpoint_test is not on the target (tools/testing/selftests/pci_endpoint of the kernel)",
        ),
    )
    reports: ClassVar[Mapping[str, Reports]] = {
        "passed": Reports.COUNT,
        "bars": Reports.COUNT,
        "failed.dma": Reports.COUNT,
        "failures": Reports.FAILURES,
    }

    def argv(self, setting: Setting) -> tuple[str, ...]:
        """Return the command line."""
        return _repeat_command(
            "", "pci_endpoint_test -T LEGACY_IRQ_TEST -T MSIX_TEST; code=$?; [ $code -le 1 ] || exit $code", setting
        )

    def expected(self, setting: Setting) -> Expected:
        """Return what must be seen while it runs."""
        return Expected(threads=(), duration_s=setting.whole_s)

    def parse(self, output: Output) -> tuple[Measurement, ...]:
        """Return how many tests passed, and how many failed of what every endpoint has and of DMA, of all rounds.

        Raises:
            ParseError: it did not end, or what it printed contradicts itself.
        """
        _, texts = _rounds("pci_endpoint_test", output)
        rounds = [tap(text) for text in texts]
        missing_tests = [test for results in rounds for test in _ALWAYS if test not in results]
        if missing_tests:
            raise ParseError(f"pci_endpoint_test did not do {', '.join(missing_tests[:3])}")
        failures = [test for results in rounds for test, result in results.items() if result == "fail"]
        dma = sum(test.startswith(_DMA) for test in failures)
        bars = [sum(results[f"pci_ep_bar.BAR{bar}.BAR_TEST"] != "skip" for bar in range(6)) for results in rounds]
        passes = sum(result == "pass" for results in rounds for result in results.values())
        return (
            count("passed", passes, Better.HIGHER),
            count("bars", min(bars), Better.NEITHER),
            count("failed.dma", dma, Better.LOWER),
            count("failures", len(failures) - dma, Better.LOWER),
        )


def tap(text: str) -> dict[str, str]:
    """Return the results of a kselftest by test: `pass`, `fail` or `skip`.

    Raises:
        ParseError: a result is missing or there twice, or plan, numbers or totals do not fit.
    """
    plans, totals = _PLAN.findall(text), _TOTALS.findall(text)
    matches = list(_TEST.finditer(text))
    if len(plans) != 1 or len(totals) != 1:
        raise ParseError("the TAP output has no plan or no totals, or several: it did not come to its end")
    numbers = [int(match["number"]) for match in matches]
    if numbers != list(range(1, int(plans[0]) + 1)):
        raise ParseError(f"the TAP output has the results {numbers[:40]}, {plans[0]} were planned")
    results = {match["test"]: _result(match) for match in matches}
    counts = [list(results.values()).count(result) for result in ("pass", "fail", "skip")]
    passes, failures, xfail, xpass, skips, error = map(int, totals[0])
    if len(results) != len(matches) or counts != [passes + xpass, failures + error, skips + xfail]:
        raise ParseError(f"the TAP output contradicts itself: {counts} passed, failed and skipped, and {totals[0]}")
    return results


def _result(match: re.Match[str]) -> str:
    if match["result"] == "not ok":
        return "fail"
    return "skip" if match["directive"] in {"SKIP", "XFAIL"} else "pass"
