# SPDX-License-Identifier: MIT
from __future__ import annotations

import pytest
from selftests import lava_log
from selftests.lava_log import KERNEL, boot, boot_lines, deploy, end, feedback, start, target

from rtgate.lava.results import log
from rtgate.lava.results.phases import Phase, boots, section


def lines(*parts: str) -> tuple[log.LogLine, ...]:
    return log.parse("".join(parts))


def test_a_section() -> None:
    (line,) = lines(lava_log.start(2, "uboot-action"))
    found = section(line)
    assert found is not None
    assert (found.number, found.action, found.phase, found.timeout) == (2, "uboot-action", Phase.BOOT, "00:05:00")


@pytest.mark.parametrize(
    "text",
    [
        "start: 2.1 bootloader-commands (timeout 00:03:00) [common]",
        "end: 2 uboot-action (duration 00:00:01) [common]",
        "",
    ],
)
def test_what_begins_no_section(text: str) -> None:
    (line,) = lines(lava_log.line("info", text))
    assert section(line) is None


def test_a_board_begins_no_section() -> None:
    (line,) = lines(target("start: 3 lava-docker-test-shell-retry (timeout 00:05:00) [common]"))
    assert section(line) is None


@pytest.mark.parametrize(
    ("action", "phase"),
    [
        ("validate", Phase.BEFORE),
        ("tftp-deploy", Phase.DEPLOY),
        ("fastboot-deploy", Phase.DEPLOY),
        ("grub-main-action", Phase.BOOT),
        ("bootloader-action", Phase.BOOT),
        ("minimal-boot", Phase.BOOT),
        ("lava-test-retry", Phase.TEST),
        ("lava-docker-test-shell-retry", Phase.TEST),
        ("finalize", Phase.AFTER),
    ],
)
def test_phases(action: str, phase: Phase) -> None:
    (line,) = lines(lava_log.start(1, action))
    found = section(line)
    assert found is not None
    assert found.phase is phase


def test_boots_in_turns() -> None:
    job = [(deploy(n), boot_lines(n + 1), lava_log.shell(n + 2, [f"rtgate: boot at {n}"])) for n in (1, 4, 7)]
    found = boots(lines(*(part for one in job for part in one), lava_log.end_lines()))
    assert [one.number for one in found] == [1, 2, 3]
    assert all(one.kernel_began and one.has_booted for one in found)
    assert [one.shell[-1].text for one in found] == [f"rtgate: boot at {n}" for n in (1, 4, 7)]


def test_boots_without_a_deploy_between() -> None:
    found = boots(lines(deploy(1), boot_lines(2), lava_log.shell(3), boot_lines(4), lava_log.shell(5)))
    assert [len(one.deploy) > 0 for one in found] == [True, False]


def test_a_test_that_deploys_nothing() -> None:
    (found,) = boots(lines(lava_log.shell(1, ["alone"])))
    assert found.has_booted


def test_how_far_a_boot_came() -> None:
    (found,) = boots(lines(deploy(1), boot(2)))
    assert (found.kernel_began, found.has_booted) == (False, False)
    (found,) = boots(lines(deploy(1), boot(2, *KERNEL)))
    assert (found.kernel_began, found.has_booted) == (True, False)


def test_the_console_is_the_boards() -> None:
    (found,) = boots(lines(deploy(1), boot_lines(2), lava_log.shell(3, ["the shell's"]), feedback("the board's")))
    assert "Linux version" in found.console
    assert "the board's" in found.console
    assert "the shell's" not in found.console
    assert "the board's" not in [line.text for line in found.shell]


def test_a_job_that_never_began() -> None:
    assert boots(lines(lava_log.start(0, "validate"), lava_log.end_lines("Job", "invalid"))) == ()
    assert boots(()) == ()


def test_what_a_board_said_last_is_read_after_the_test() -> None:
    late = lava_log.start(4, "finalize") + feedback("[   99.0] Kernel panic - not syncing: late")
    for parts in ((deploy(1), boot_lines(2), lava_log.shell(3), late), (deploy(1), boot(2, *KERNEL), late)):
        (found,) = boots(lines(*parts))
        assert "Kernel panic - not syncing: late" in found.console


# --- what LAVA reads of one boot in the next

LAST = "[   60.200000] Kernel panic - not syncing: Fatal exception"


def second(*before_the_loader: str, loader: str = "U-Boot 2023.01") -> str:
    said = target(*before_the_loader, loader, "=> booti", *KERNEL, "root@board:~# ")
    return start(5, "uboot-action") + said + end(5, "uboot-action")


FIRST = (deploy(1), boot_lines(2), lava_log.shell(3, ["rtgate: ok"]), feedback("[   59.000000] eth0: link down"))


@pytest.mark.parametrize(
    "loader",
    [
        "U-Boot 2017.09-g1234 (Jan 01 2024)",
        "DDR V1.13 25cee80c4f typ 23/08/11",
        "NOTICE:  BL31: v2.3():v2.3",
        "iPXE 1.21.1 -- Open Source",
        "\x1b[0m GNU GRUB  version 2.06",
        "Hit any key to stop autoboot:  0",
        "Hit key to stop autoboot('CTRL+C'):  0",
        "Starting kernel ...",
        "EFI stub: Booting Linux Kernel...",
        "[    0.000000] Booting Linux on physical CPU 0x0",
        "[    1.100000] a kernel without its first lines",
    ],
)
def test_last_words_are_those_of_the_boot_before(loader: str) -> None:
    before, after = boots(lines(*FIRST, deploy(4), second(LAST, loader=loader), lava_log.shell(6)))
    assert LAST in before.console
    assert LAST not in after.console + after.booting
    assert loader in after.booting
    assert LAST not in [line.text for line in before.shell]
    assert "Linux version" in after.booting


def test_a_panic_after_the_start_is_that_of_the_new_boot() -> None:
    early = "[    2.800000] Kernel panic - not syncing: VFS"
    before, after = boots(lines(*FIRST, deploy(4), second("U-Boot 2023.01", early), lava_log.shell(6)))
    assert early not in before.console
    assert early in after.console
    quiet = start(5, "uboot-action") + target(early)
    before, after = boots(lines(*FIRST, deploy(4), quiet))
    assert early not in before.console
    assert early in after.console


def test_where_nothing_tells_of_a_start_last_words_count_for_both() -> None:
    before, after = boots(lines(*FIRST, deploy(4), start(5, "uboot-action") + target(LAST)))
    assert LAST in before.console
    assert LAST in after.console


def test_what_a_shell_prints_is_no_start() -> None:
    """A kernel's version, as /proc/version has it, may be among what LAVA reads too late."""
    words = ("Linux version 6.12.0 (rtgate) #1 SMP PREEMPT_RT", "[   59.999999] of another CPU", LAST)
    before, after = boots(lines(*FIRST, deploy(4), second(*words), lava_log.shell(6)))
    assert LAST in before.console
    assert LAST not in after.console


def test_each_of_many_boots_has_its_own_last_words() -> None:
    parts = [deploy(1), boot_lines(2), lava_log.shell(3)]
    for number in (1, 2, 3):
        parts += [deploy(4), second(f"[   6{number}.000000] last of {number}"), lava_log.shell(6)]
    found = boots(lines(*parts, lava_log.end_lines()))
    assert [[line.text for line in one.late] for one in found] == [
        *([f"[   6{number}.000000] last of {number}"] for number in (1, 2, 3)),
        [],
    ]
