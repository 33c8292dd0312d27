# SPDX-License-Identifier: MIT
from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rtgate.board.pcie import Function
from rtgate.errors import ConfigError, ParseError
from rtgate.tools import Count, Output, Reports, Setting, Tool
from rtgate.tools.dmatest import Dmatest, DmatestRkep
from rtgate.tools.dmatest_log import FAILED, SIZES, Run, cycles, results, size_name
from rtgate.tools.kernel_log import KernelLine
from rtgate.tools.measurement import Better, Measurement
from rtgate.units import Unit

SETTING = Setting(cpus=4, duration_s=0, virtual_time=False)
TOOL = Dmatest()
MARK = "rtgate mark 77 12.34"
GUIDE = "pcie dma wr/ test (1+0)*1048576*1000 cost 330000us speed:3101242KB/S"


def _line(size: int, loops: int, direction: int, us: int = 1000) -> str:
    write, read = direction >> 1, direction & 1
    speed = (write + read) * size * loops % (1 << 32) * 976 // us
    names = f"{'wr' if write else ''}/{'rd' if read else ''}"
    return f"pcie dma {names} test ({write}+{read})*{size}*{loops} cost {us}us speed:{speed}KB/S"


@dataclass
class Ran:
    """A run of the script as the target leaves it."""

    starts: list[tuple[int, int, int, int]]
    log: list[str]
    interrupts: tuple[int, int] = (5, 9)
    compared: str = "compared 65536 bytes, 0 differ"

    def output(self, code: int = 0, **files: str) -> Output:
        said = [f"run {' '.join(map(str, start))}" for start in self.starts]
        looks = [
            f"interrupts {when}\n 84:   {count}    0   0  0   GICv3 295 Level     pcie-sys"
            for when, count in zip(("before", "after"), self.interrupts, strict=True)
        ]
        out = "\n".join([f"mark: {MARK}", looks[0], *said, self.compared, looks[1], ""])
        stamped = [f"[{40 + number:5d}.{number:06d}] {text}" for number, text in enumerate(self.log)]
        dmesg = "\n".join(["[    0.000000] Linux version 6.1.99", *stamped, ""])
        texts = {"tool.out": out, "dmesg": dmesg, **files}
        return Output(files={name: text.encode() for name, text in texts.items()}, exit_code=code, setting=SETTING)


def _ran(us: int = 1000, tool: Dmatest = TOOL) -> Ran:
    starts = [(64, 1, 2, 1), (64, 1, 1, 1), (65536, 1, 2, 1), (65536, 1, 1, 1)]
    starts += [(size, cycles(size), direction, tool.channel) for direction in (2, 1) for size in SIZES]
    lines = [
        _line(size, loops, direction, us if loops > 1 else 9)
        for size, loops, direction, channel in starts
        for _ in range(2 if channel == 3 else 1)
    ]
    return Ran(starts, [f"{MARK} begin", *lines, f"{MARK} end"])


def _file(output: Output) -> str:
    """Return standard output, error and kernel log as a fuzzer takes them."""
    return f"{output.text('tool.out')}\0\0{output.text('dmesg')}"


ALL: tuple[tuple[Tool, str], ...] = tuple((tool, _file(_ran().output())) for tool in (TOOL, DmatestRkep()))


def _numbers(measurements: tuple[Measurement, ...]) -> dict[str, float]:
    return {one.name: one.quantity.value for one in measurements if one.quantity is not None}


def test_each_direction_and_size_has_a_rate() -> None:
    found = TOOL.parse(_ran().output())
    numbers = _numbers(found)
    assert set(numbers) == {name for name in TOOL.reports if not name.startswith("interrupt.") and "share" not in name}
    assert numbers["write.4m.rate"] == pytest.approx(4 * 1048576 * 64 / 1000)
    assert numbers["read.64b.rate"] == pytest.approx(64 * 20000 / 1000)
    assert (numbers["failures"], numbers["bytes.compared"], numbers["runs"]) == (0, 65536, 16)
    rates = [one for one in found if one.name.endswith(".rate")]
    assert {(one.unit, one.better) for one in rates} == {(Unit.MB_S, Better.HIGHER)}
    names = {name.removeprefix("interrupt.") for name, kind in TOOL.reports.items() if kind is Reports.RATE}
    assert names == {one.name for one in rates}


def test_rates_are_shares_of_the_links_limit() -> None:
    # 4 MB x 64 in 100 ms: 2684 MB/s, of 3550.
    ran = _ran(us=100_000)
    facts = {"endpoint": Function(name="endpoint", id="1d87:356a", generation=3, width=4, mps=256)}
    output = ran.output()
    setting = replace(SETTING, pcie=facts)
    numbers = _numbers(TOOL.parse(replace(output, setting=setting)))
    assert numbers["write.4m.share"] == pytest.approx(2684.35456 / 3550.163, rel=1e-4)
    assert len([name for name in numbers if name.endswith(".share")]) == 12
    slower = {"endpoint": replace(facts["endpoint"], generation=2, width=1)}
    with pytest.raises(ParseError, match=r"of the 450\.7 MB/s that Gen2 x1 .* a measuring error"):
        TOOL.parse(replace(output, setting=replace(SETTING, pcie=slower)))
    unknown = {"endpoint": replace(facts["endpoint"], mps=None)}
    found = _numbers(TOOL.parse(replace(output, setting=replace(SETTING, pcie=unknown))))
    assert not [name for name in found if "share" in name]


def test_rounds_are_added_up() -> None:
    ran = _ran()
    again = _ran(us=3000)
    ran.starts += again.starts[4:]
    ran.log[-1:] = [*again.log[5:-1], f"{MARK} end"]
    assert _numbers(TOOL.parse(ran.output()))["write.1m.rate"] == pytest.approx(2 * 1048576 * 256 / 4000)


def test_rates_of_transfers_that_end_with_interrupts_have_other_names() -> None:
    ran = _ran()
    polled = TOOL.parse(ran.output())
    transfers = sum(loops for _, loops, _, _ in ran.starts)
    ran.interrupts = (1000, 1000 + transfers)
    found = TOOL.parse(ran.output())
    assert {one.name for one in found} <= set(TOOL.reports)
    assert [one.name for one in found if one.name.startswith("interrupt.")] == [
        f"interrupt.{one.name}" for one in polled if one.name.endswith(".rate")
    ]
    ran.interrupts = (1000, 1000 + transfers // 3)
    assert [one.name for one in TOOL.parse(ran.output())] == [one.name for one in polled]


def test_interrupts_that_were_not_looked_at_are_no_polling() -> None:
    output = _ran().output()
    text = output.text("tool.out").replace("interrupts after", "")
    with pytest.raises(ParseError, match="how many interrupts came"):
        TOOL.parse(Output(files={**output.files, "tool.out": text.encode()}, exit_code=0, setting=SETTING))


def test_two_channels_at_once_take_time_once() -> None:
    tool = Dmatest(channel=3)
    numbers = _numbers(tool.parse(_ran(tool=tool).output()))
    assert numbers["write.1m.rate"] == pytest.approx(2 * 1048576 * 256 / 1000)


def test_where_memory_cannot_be_read_nothing_was_compared() -> None:
    ran = _ran()
    ran.compared = "compared no: /dev/mem cannot be written at 1006632960: Operation not permitted"
    numbers = _numbers(TOOL.parse(ran.output()))
    assert (numbers["bytes.compared"], numbers["failures"]) == (0, 0)


def test_data_that_differ_are_a_failure_without_rates() -> None:
    ran = _ran()
    ran.compared = "compared 65536 bytes, 17 differ"
    assert _numbers(TOOL.parse(ran.output())) == {"failures": 17, "bytes.compared": 65536}


FAILURES = (
    "rk-pcie-ep fe150000.pcie: rk_pcie_local_dma_tobus_block timed out",
    "rk-pcie-ep fe150000.pcie: rk_pcie_local_dma_frombus_block timed out",
    "rk-pcie-ep fe150000.pcie: rk_pcie_local_dma_tobus_block interrupted",
    "pcie-rkep 0000:01:00.0: rk_pcie_dma_wait_for_finished timeout",
    "rk-pcie-ep fe150000.pcie: rockchip_pcie_get_dma_status, write abort",
    "pcie-rkep 0000:01:00.0: pcie_rkep_get_dma_status, read abort 10000",
    "rk-pcie-ep fe150000.pcie: rockchip_pcie_sys_irq_handler, abort",
    "pcie-rkep 0000:01:00.0: failed to transfer dma, ret=-14",
)


# What other drivers say.
FOREIGN = (
    "nvme nvme0: I/O tag 5 (1005) opcode 0x2 (I/O Cmd) QID 1 timeout, aborting req_op:READ(0) size:4096",
    "nvme nvme0: I/O 5 QID 1 timeout, aborting",
    "nvme nvme0: Abort status: 0x0",
    "ata1.00: qc timeout (cmd 0xec), aborted",
    "usb 1-1: device descriptor read/64, error -110",
    "block device sda: read_block timed out",
    "dw-mci: wait_for_finished timeout",
)


@pytest.mark.parametrize("line", FAILURES)
@pytest.mark.parametrize("place", [1, 3, -1])
def test_a_transfer_that_failed_is_a_failure_although_a_speed_was_printed(line: str, place: int) -> None:
    ran = _ran()
    ran.log.insert(place if place > 0 else len(ran.log) - 1, line)
    assert _numbers(TOOL.parse(ran.output())) == {"failures": 1, "bytes.compared": 65536}
    assert _numbers(TOOL.parse(ran.output(code=4)))["failures"] == 1


def test_a_failure_before_or_after_the_run_is_not_ours() -> None:
    ran = _ran()
    ran.log.insert(0, "rk_pcie_local_dma_tobus_block timed out")
    ran.log.append("rk_pcie_local_dma_tobus_block timed out")
    assert _numbers(TOOL.parse(ran.output()))["failures"] == 0


@pytest.mark.parametrize(
    "line",
    [
        "input error",
        "dmatest dev not exits",
        "pcie_dw_dmatest: input error",
        "pcie_dw_dmatest: dmatest dev not exits",
        "test_dev out of index",
        "failed to get current test_dev[3]",
        "rk-pcie-ep fe150000.pcie: is exceed max dmatest dev number",
        "rk-pcie-ep fe150000.pcie: failed to prepare dmatest",
    ],
)
def test_a_test_that_was_not_set_up_is_ours_to_mend(line: str) -> None:
    ran = _ran()
    ran.log.insert(1, line)
    with pytest.raises(ParseError, match=f"not set up on the target: {re.escape(line)}"):
        TOOL.parse(ran.output())


def test_a_test_that_never_ends_says_what_the_kernel_says() -> None:
    ran = _ran()
    ran.log[-1] = "rk_pcie_local_dma_tobus_block timed out"
    deadline = {"tool.deadline": "after 40 s\n"}
    with pytest.raises(ParseError, match=r"stopped after 40 s: transfers never end; .*tobus_block timed out"):
        TOOL.parse(ran.output(code=143, **deadline))
    ran.log.pop()
    with pytest.raises(ParseError, match="was stopped after 40 s: it did not end by itself"):
        TOOL.parse(ran.output(code=143, **deadline))
    ran.log.insert(0, "rk_pcie_local_dma_tobus_block timed out")  # of a case before, in the same boot
    with pytest.raises(ParseError, match="was stopped after 40 s: it did not end by itself"):
        TOOL.parse(ran.output(code=143, **deadline))
    ran.log = []
    with pytest.raises(ParseError, match="was stopped after 40 s: it did not end by itself"):
        TOOL.parse(ran.output(code=143, **deadline))


def test_what_the_script_refuses_is_told() -> None:
    ran = _ran()
    ran.compared = "error: the memory at 1006632960 is not reserved (/proc/iomem): DMA would break the kernel"
    with pytest.raises(ParseError, match="dmatest: the memory at 1006632960 is not reserved"):
        TOOL.parse(ran.output(code=3))


@pytest.mark.parametrize("number", range(1, 17))
def test_a_missing_line_is_no_result(number: int) -> None:
    ran = _ran()
    del ran.log[number]
    with pytest.raises(ParseError, match="printed 15 of the 16 results"):
        TOOL.parse(ran.output())


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        (f"{MARK} begin", "something", "lost the beginning"),
        (f"{MARK} end", "something", "does not hold the end"),
        ("*4096*20000 cost 1000us", "*4096*20000 cost 0us", "no time or no bytes"),
        ("*4096*20000 cost 1000us", "*4096*20000 cost 2000us", "contradicts itself"),
        ("dma wr/ test (1+0)*4096*20000", "dma /rd test (1+0)*4096*20000", "names one direction and counts another"),
        ("(1+0)*4096*20000 ", "(0+0)*4096*20000 ", "counts another"),
        ("pcie dma wr/ test (1+0)*4096*", "pcie dma wr/ test (1+0)*-4096*", "printed 15 of the 16"),
    ],
)
def test_a_log_that_contradicts_itself_is_refused(before: str, after: str, reason: str) -> None:
    ran = _ran()
    assert any(before in line for line in ran.log)
    ran.log = [line.replace(before, after) for line in ran.log]
    with pytest.raises(ParseError, match=reason):
        TOOL.parse(ran.output())


def test_results_of_somebody_else_are_not_ours() -> None:
    ran = _ran()
    ran.log.insert(3, GUIDE)
    with pytest.raises(ParseError, match="somebody else used it"):
        TOOL.parse(ran.output())


@pytest.mark.parametrize("text", ["", "Linux version 6.1\n"])
def test_without_the_log_nothing_is_known(text: str) -> None:
    with pytest.raises(ParseError, match=r"which was not read|lost the beginning"):
        TOOL.parse(_ran().output(dmesg=text))


def _parsed(text: str) -> Run:
    [run] = results([KernelLine(1.0, text)])
    return run


def test_the_guides_own_line() -> None:
    # Its speed, 3 101 242, is that of 976/1000 KB: 1 048 576 000 bytes in 0.33 s are 3177.5 MB/s.
    run = _parsed(GUIDE)
    assert run == Run(write=True, read=False, size=1048576, loops=1000, us=330000)
    assert run.total_bytes / run.us == pytest.approx(3177.5, abs=0.1)
    assert _parsed(f"pcie_dw_dmatest: {GUIDE}") == run


def test_a_speed_that_wrapped_is_computed_again() -> None:
    # 8 GiB in 2.6 s: the driver sees 0 bytes, and with 6 GiB it sees 2.
    run = _parsed("pcie dma wr/ test (1+0)*4194304*2048 cost 2600000us speed:0KB/S")
    assert run.total_bytes == 8 << 30
    assert _parsed("pcie dma wr/ test (1+0)*4194304*1536 cost 2000000us speed:1047972KB/S").total_bytes == 6 << 30
    assert _parsed("pcie dma wr/rd test (1+1)*4194304*512 cost 2000000us speed:-1KB/S").total_bytes == 4 << 30


@given(st.integers(1, 1 << 31))
def test_no_run_of_ours_wraps(size: int) -> None:
    """The driver counts in 32 bits: of 4 GiB or more it would print the speed of the rest."""
    assert 0 < size * cycles(size) < 1 << 32


def test_there_are_two_channels() -> None:
    with pytest.raises(ConfigError, match="channel of dmatest is 4"):
        Dmatest(channel=4)


@pytest.mark.parametrize(
    ("size", "name"), [(64, "64b"), (4096, "4k"), (1 << 20, "1m"), (4 << 20, "4m"), (1025, "1025b")]
)
def test_sizes_have_names(size: int, name: str) -> None:
    assert size_name(size) == name


@given(st.text(), st.text())
def test_any_text_is_read_or_refused(out: str, log: str) -> None:
    for dmesg in (log, "\n".join([f"{MARK} begin", log, f"{MARK} end"])):
        files = {"tool.out": f"mark: {MARK}\n{out}".encode(), "dmesg": dmesg.encode()}
        with pytest.raises(ParseError):
            TOOL.parse(Output(files=files, exit_code=0, setting=SETTING))


@given(st.integers(1, 1 << 33), st.integers(1, 1 << 33), st.integers(1, 1 << 40), st.sampled_from([1, 2, 3]))
def test_a_line_that_holds_is_what_it_says(size: int, loops: int, us: int, direction: int) -> None:
    try:
        run = _parsed(_line(size, loops, direction, us))
    except ParseError:
        return
    assert (run.size, run.loops, run.us) == (size, loops, us)
    assert run.total_bytes == size * loops * (2 if direction == 3 else 1)


DRIVER = r"""#!/bin/sh
# A driver in place of the kernel's: copies the memory, and prints what dmatest prints.
cd @DIR@
read -r size <p/size; read -r loops <p/cycles_count; read -r rw <p/rw_test; read -r channel <p/chn_en
page=245760
copy() { dd if="$1" of="$2" bs=4096 skip=$3 seek=$4 count=$(((size + 4095) / 4096)) conv=notrunc 2>/dev/null; }
[ ! -e broken ] || echo "[   42.000000] rk-pcie-ep: rk_pcie_local_dma_tobus_block timed out" >>log
if [ $rw = 2 ]; then copy mem remote $page 0; names=wr/ flags=1+0; else names=/rd flags=0+1; fi
[ $rw = 2 ] || [ -e lossy ] || copy remote mem 0 $page
at=$((page * 4096))
[ "$(dd if=mem bs=1 skip=$at count=1 2>/dev/null | tr '\0' .)" = x ] && other=y || other=x
[ $rw = 2 ] || [ ! -e deaf ] || printf $other | dd of=mem bs=1 seek=$at conv=notrunc 2>/dev/null
for line in $(seq $([ $channel = 3 ] && echo 2 || echo 1)); do
    speed=$((size * loops * 976 / 1000))
    echo "[   42.000000] pcie dma $names test ($flags)*$size*$loops cost 1000us speed:${speed}KB/S"
done >>log
"""


class Board:
    """A directory in place of the target's /sys, /proc and /dev."""

    def __init__(self, path: Path) -> None:
        self.path = path
        (path / "p").mkdir()
        for name, value in {"size": 32, "cycles_count": 1, "rw_test": 3, "chn_en": 1, "local_addr": 0x3C000000}.items():
            (path / "p" / name).write_text(f"{value}\n")
        (path / "p" / "dmatest").write_text("\n")
        (path / "p" / "is_wired").write_text("N\n")
        (path / "iomem").write_text("00200000-3fffffff : System RAM\n  3c000000-3fffffff : reserved\n")
        (path / "log").write_text("[    0.000000] Linux version 6.1.99\n")
        (path / "driver").write_text(DRIVER.replace("@DIR@", str(path)))
        (path / "dmesg").write_text(f"#!/bin/sh\ncat {path}/log\n")
        (path / "dmesg").chmod(0o755)
        (path / "mem").touch()
        (path / "interrupts").write_text(" 84:  7  0  0  0   GICv3 295 Level  pcie-sys\nIPI0:  1 2 3 4  Rescheduling\n")

    def run(self, tool: Dmatest = TOOL, setting: Setting = SETTING) -> Output:
        script = tool.argv(setting)[2]
        for real, fake in {
            f"/sys/module/{tool.module}/parameters": "p",
            "/proc/iomem": "iomem",
            "/dev/mem": "mem",
            "/proc/interrupts": "interrupts",
            "echo run >$p/dmatest": "sh driver",
        }.items():
            assert real in script
            script = script.replace(real, f"{self.path}/{fake}" if "driver" not in fake else f"sh {self.path}/driver")
        script = re.sub(
            r'echo "\$mark (begin|end)" >/dev/kmsg', rf'echo "[   41.0000\1] $mark \1" >>{self.path}/log', script
        )
        script = script.replace("[   41.0000begin]", "[   41.000000]").replace("[   41.0000end]", "[   43.000000]")
        work = self.path / "r"
        work.mkdir()
        done = subprocess.run(
            ["sh", "-c", script],
            cwd=work,
            env={"PATH": f"{self.path}:/usr/bin:/bin"},
            capture_output=True,
            timeout=60,
            check=False,
        )
        files = {"tool.out": done.stdout, "tool.err": done.stderr, "dmesg": (self.path / "log").read_bytes()}
        if setting.beside:
            files = {"load.out": done.stdout + done.stderr, "tool.out": b"of the other tool", "dmesg": files["dmesg"]}
        return Output(files=files, exit_code=done.returncode, setting=setting)

    def parameter(self, name: str) -> str:
        return (self.path / "p" / name).read_text().strip()


@pytest.fixture
def board(tmp_path: Path) -> Board:
    return Board(tmp_path)


@pytest.mark.parametrize("tool", [TOOL, DmatestRkep(), Dmatest(channel=3)], ids=["dmatest", "rkep", "both channels"])
def test_the_script_runs_and_compares(board: Board, tool: Dmatest) -> None:
    output = board.run(tool)
    assert output.text("tool.err") == ""
    assert _numbers(tool.parse(output)) | {"runs": 16} == _numbers(_ran_numbers(tool))
    assert "parameter is_wired N" in output.text("tool.out")
    assert "parameter dmatest" not in output.text("tool.out")
    assert [board.parameter(name) for name in ("size", "cycles_count", "rw_test", "chn_en")] == ["32", "1", "3", "1"]


def _ran_numbers(tool: Dmatest) -> tuple[Measurement, ...]:
    return tool.parse(_ran(tool=tool).output())


@pytest.mark.parametrize(("fault", "different"), [("lossy", range(60000, 65537)), ("deaf", range(1, 2))])
def test_the_script_finds_data_that_were_not_moved(board: Board, fault: str, different: range) -> None:
    (board.path / fault).touch()
    assert _numbers(TOOL.parse(board.run()))["failures"] in different


def test_the_script_gives_up_after_a_failure(board: Board) -> None:
    (board.path / "broken").touch()
    output = board.run()
    assert output.exit_code == 4
    assert _numbers(TOOL.parse(output)) == {"failures": 1, "bytes.compared": 0}
    assert board.parameter("size") == "32"


@pytest.mark.parametrize("iomem", ["00200000-3fffffff : System RAM\n", "3c000000-3c0fffff : reserved\n", ""])
def test_the_script_refuses_memory_that_is_not_reserved(board: Board, iomem: str) -> None:
    (board.path / "iomem").write_text(iomem)
    output = board.run()
    with pytest.raises(ParseError, match=r"the memory at 1006632960 is not reserved"):
        TOOL.parse(output)
    assert "pcie dma" not in output.text("dmesg")


def test_the_script_refuses_a_driver_that_it_does_not_know(board: Board) -> None:
    (board.path / "p" / "cycles_count").unlink()
    with pytest.raises(ParseError, match="cycles_count is not there"):
        TOOL.parse(board.run())


BESIDE = replace(SETTING, duration_s=1, beside=True)


@pytest.mark.parametrize("tool", [TOOL, DmatestRkep()])
def test_beside_another_tool_it_goes_on_until_that_has_ended(board: Board, tool: Dmatest) -> None:
    driver = board.path / "driver"
    # The other tool ends in the second round, which is finished; somebody sends the signal that ends loads.
    ends = "[ $(grep -c 'pcie dma' log) -lt 20 ] || { : >r/uptime.end; kill -TERM $PPID; }\n"
    driver.write_text(driver.read_text() + ends)
    output = board.run(tool, BESIDE)
    numbers = _numbers(tool.parse(output))
    assert (numbers["runs"], numbers["failures"], numbers["bytes.compared"]) == (4 + 2 * 12, 0, 65536)
    assert set(numbers) == set(_numbers(_ran_numbers(tool)))
    assert tool.expected(BESIDE).counts == (Count(measurement="runs", least=14),)
    assert board.parameter("size") == "32"


def test_a_failure_beside_another_tool_is_one(board: Board) -> None:
    (board.path / "broken").touch()
    output = board.run(setting=BESIDE)
    assert output.exit_code == 4
    assert _numbers(TOOL.parse(output)) == {"failures": 1, "bytes.compared": 0}


def test_a_run_beside_another_tool_that_never_ends_says_what_the_kernel_says() -> None:
    ran = _ran()
    ran.log[-1] = "rk_pcie_local_dma_tobus_block timed out"
    output = ran.output(code=137)
    files = {"load.out": output.files["tool.out"], "dmesg": output.files["dmesg"], "tool.deadline": b"after 40 s"}
    killed = Output(files=files, exit_code=137, setting=BESIDE)
    with pytest.raises(ParseError, match=r"stopped when the other tool had ended: .* never end; .*tobus_block timed"):
        TOOL.parse(killed)


def test_transfers_that_never_end_beside_a_tool_that_did_are_failures() -> None:
    """The plan stopped nothing but this load: it is no "hang", and ERROR would hide the kernel's failure."""
    ran = _ran()
    ran.log[-1] = "rk_pcie_local_dma_tobus_block timed out"
    output = ran.output(code=137)
    files = {"load.out": output.files["tool.out"], "dmesg": output.files["dmesg"]}
    killed = Output(files=files, exit_code=137, setting=BESIDE)
    assert _numbers(TOOL.parse(killed)) == {"failures": 1}
    ran.log.pop()
    silent = Output(files={**files, "dmesg": ran.output().files["dmesg"]}, exit_code=137, setting=BESIDE)
    with pytest.raises(ParseError, match="stopped when the other tool had ended: it did not end by itself"):
        TOOL.parse(silent)


def test_the_script_stops_at_every_line_that_is_a_failure() -> None:
    """What the script looks for on the target and what is looked for here is the same."""
    [pattern] = re.findall(r"grep -Eq '(.*)'", TOOL.argv(SETTING)[2])
    for line in (*FAILURES, *FOREIGN):
        found = subprocess.run(["grep", "-Eq", pattern], input=line, text=True, check=False).returncode == 0
        assert (found, FAILED.search(line) is not None) == (line in FAILURES, line in FAILURES), line


def test_the_script_goes_on_beside_an_abort_of_another_driver(board: Board) -> None:
    driver = board.path / "driver"
    driver.write_text(f"{driver.read_text()}echo '{FOREIGN[0]}' >>log\n")
    output = board.run()
    assert FOREIGN[0] in output.text("dmesg")
    assert (output.exit_code, _numbers(TOOL.parse(output))["failures"]) == (0, 0)


def test_nothing_reads_the_file_that_prints_memory() -> None:
    script = TOOL.argv(SETTING)[2]
    assert re.findall(r".*p/dmatest.*", script) == [
        '    echo run >$p/dmatest || fail "$p/dmatest refuses to run: $(dmesg | tail -n 1)"'
    ]
