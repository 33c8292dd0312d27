# SPDX-License-Identifier: MIT
"""fio: bandwidth, I/O rate and completion latency of the board's NVMe storage, with the vendor guide's four jobs.

The guide's command line is one job with a queue of 32. Here it is the last job of one fio process; before it the same
job runs in ten short rounds, whose bandwidths show whether the disk had become steady.

Facts of fio 3.33 to 3.39 (fio.c, backend.c, stat.c) that this module depends on:

* With an I/O error the job ends and its `error` is the errno. Other jobs still run; the exit code is how many failed.
* SIGTERM ends it in good order, with exit code 128.
* What it has to say stands in the JSON's file before the JSON: the signal, errors of jobs, and of a synchronous engine,
  for each job, that it has no queue.
* A missing file is created, also `/dev/nvme0n1`, which is then a file in RAM: `allow_file_create=0` forbids it.
* Times are nanoseconds. A percentile is the upper end of its bucket, up to 1.6 % above the largest sample.
* `bw_bytes` is bytes per second by `runtime`, which is in whole milliseconds. Empty numbers are 0, not absent.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

from rtgate.board.storage import ENGINES, RESERVED, Storage
from rtgate.errors import ParseError
from rtgate.tools import Count, DestructiveTool, Expected, Output, Reports, Setting, count, frequency, rate, time
from rtgate.tools import disk_health as health
from rtgate.tools.measurement import Better, Measurement
from rtgate.tools.needs import Need
from rtgate.tools.rt_tests import Document, check_end, document
from rtgate.units import Quantity, Unit

ROUNDS = 10
_ENDLESS_S = 7 * 86400
_ENDED_BY_SIGNAL = 128
_LEAST_BESIDE = 0.9  # of the other tool's time: fio may take longer than that one to start
_PERCENTILES = ("50", "99", "99.9", "99.99")
_VERSION = re.compile(r"fio-3\.[0-9]{1,3}(?:[-.][A-Za-z0-9.-]{1,40})?")
_NOTES = re.compile(r"(?:(?:(?:note|fio): .*)?\n)*(?=\{)")
_INT = 2**31  # beyond what an `int` of C holds
_BUCKET = 1.02  # how far beyond the largest sample a percentile may lie
_FIGURES: Mapping[str, Reports] = {
    "bandwidth": Reports.RATE,
    "iops": Reports.FREQUENCY,
    "completion.mean": Reports.TIME,
    **{f"completion.p{percentile}": Reports.TIME for percentile in _PERCENTILES},
    "completion.max": Reports.TIME,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Fio(DestructiveTool):
    """One of the guide's jobs.

    Attributes:
        mode: fio's `rw`.
        block: fio's `bs`.
        usual_gib: the guide's `size`, for boards that name none.
        job: the guide's name of it.
    """

    mode: ClassVar[str]
    block: ClassVar[str]
    usual_gib: ClassVar[int]
    job: ClassVar[str]

    suites: ClassVar[tuple[str, ...]] = ("nvme",)
    image: ClassVar[str] = "full"
    needs: ClassVar[tuple[Need, ...]] = (Need(test="command -v fio >/dev/null", reason="the target has no fio"),)
    devices: ClassVar[tuple[str, ...]] = ("nvme",)
    companion: ClassVar[bool] = True
    reports: ClassVar[Mapping[str, Reports]] = {
        **_FIGURES,
        **{f"psync.{name}": kind for name, kind in _FIGURES.items()},
        "round.bandwidth": Reports.RATE,
        "round.psync.bandwidth": Reports.RATE,
        "time": Reports.TIME,
        "io.errors": Reports.FAILURES,
        **health.REPORTS,
    }

    def argv(self, setting: Setting) -> tuple[str, ...]:
        """Return the guide's command line, with what a program needs to read it; rounds come first.

        Without storage nothing can run, and the case is skipped.
        """
        if setting.storage is None:
            return ("false",)
        runtime = _ENDLESS_S * 1000 if setting.beside else self._measured_ms(setting)
        return (
            *("fio", "-output-format=json", f"-output={_json(setting)}"),
            *(f"-percentile_list={':'.join(_PERCENTILES)}", "-time_based", "-stonewall", "-allow_file_create=0"),
            *self._place(setting, setting.storage),
            *("-direct=1", "-iodepth", "32", "-thread", f"-rw={self.mode}", f"-ioengine={setting.storage.engine}"),
            *(f"-bs={self.block}", f"-size={self._size(setting)}", "-numjobs=1", f"-runtime={_format_time(runtime)}"),
            "-group_reporting",
            *self._round_options(setting),
            f"-name={self.job}",
        )

    def fill(self, setting: Setting) -> tuple[str, ...]:
        """Return the command that writes the test file from end to end, so that no read finds a hole."""
        assert setting.storage is not None
        return (
            *("fio", "-output-format=json", "-output=fill.json"),
            *(("-allow_file_create=0",) if setting.storage.is_raw else ()),
            *self._place(setting, setting.storage),
            *("-direct=1", "-iodepth", "32", "-thread", "-rw=write", f"-ioengine={setting.storage.engine}"),
            *("-bs=1024K", f"-size={self._size(setting)}", "-end_fsync=1", "-name=fill"),
        )

    def file_bytes(self, setting: Setting) -> int:
        """Return the bytes of the test file."""
        assert setting.storage is not None
        return setting.storage.size(self.usual_gib << 30)

    def expected(self, setting: Setting) -> Expected:
        """Return what must be seen: every round and the job had their time, and the disk was healthy."""
        whole = _LEAST_BESIDE * setting.duration_s if setting.beside else self._measured_ms(setting) / 1000
        return Expected(
            threads=(),
            duration_s=setting.duration_s,
            counts=(Count(measurement="time", least=whole),),
            steady="" if setting.beside else f"{_prefix(setting)}bandwidth",
            health=health.PREFIX,
        )

    def parse(self, output: Output) -> tuple[Measurement, ...]:
        """Return `bandwidth`, `iops`, `completion.*`, `time`, `round.bandwidth` for each round, and the disk's health.

        After an I/O error only `io.errors` and the health, because nothing else was measured to its end.

        Raises:
            ParseError: it failed, was stopped, or its JSON is missing, damaged, or contradicts itself or the command.
        """
        setting = output.setting
        fill, jobs = _jobs(output, "fill.json"), _jobs(output, _json(setting))
        errors = tuple(_errors([*fill, *jobs], setting))
        if errors:
            return (*errors, *health.measurements(output))
        self._check_end(output)
        if not jobs:
            raise ParseError("fio wrote no JSON of its jobs")
        by_name = {job.name: job for job in jobs}
        names = (*self._rounds(setting), self.job)
        if tuple(by_name) != names:
            raise ParseError(f"fio ran the jobs {', '.join(by_name)}, not {', '.join(names)}")
        self._check_fill(fill, setting)
        rounds = [
            rate(
                f"round.{_prefix(setting)}bandwidth",
                by_name[name].figures(self).bandwidth,
                output.megabytes_per_second,
                {"round": name[5:]},
            )
            for name in self._rounds(setting)
        ]
        measurements = by_name[self.job].figures(self).measurements(output)
        none = count("io.errors", 0, Better.LOWER)
        return (*measurements, *rounds, none, *health.measurements(output))

    def _check_end(self, output: Output) -> None:
        if output.setting.beside:
            if output.exit_code != _ENDED_BY_SIGNAL:
                raise ParseError(f"fio did not run until it was ended: {output.last_message(('load.out',))}")
            return
        if output.exit_code and not output.text("tool.deadline"):
            raise ParseError(f"fio measured nothing: {output.last_message()}")
        check_end("fio", output)

    def _check_fill(self, fill: list[_Job], setting: Setting) -> None:
        file_bytes = self.file_bytes(setting)
        fill_bytes = sum(job.data.object("write").integer("io_bytes") for job in fill)
        if fill_bytes < file_bytes:
            raise ParseError(f"only {fill_bytes} of {file_bytes} bytes of the test file were written before measuring")

    def _place(self, setting: Setting, storage: Storage) -> tuple[str, ...]:
        offset = (f"-offset={RESERVED >> 10}K",) if storage.is_raw else ()
        return (f"-filename={storage.path(setting.directory)}", *offset)

    def _size(self, setting: Setting) -> str:
        assert setting.storage is not None
        return f"{setting.storage.size_mib}M" if setting.storage.size_mib else f"{self.usual_gib}G"

    def _rounds(self, setting: Setting) -> tuple[str, ...]:
        return () if setting.beside else tuple(f"round{number:02d}" for number in range(1, ROUNDS + 1))

    def _round_options(self, setting: Setting) -> tuple[str, ...]:
        runtime = f"-runtime={self._measured_ms(setting) // ROUNDS}ms"
        return tuple(word for name in self._rounds(setting) for word in (f"-name={name}", runtime))

    def _measured_ms(self, setting: Setting) -> int:
        return round(setting.duration_s * 500)


class FioRead(Fio):
    """Sequential reads of 1 MiB."""

    name: ClassVar[str] = "fio-read"
    mode: ClassVar[str] = "read"
    block: ClassVar[str] = "1024K"
    usual_gib: ClassVar[int] = 10
    job: ClassVar[str] = "read_seq_1024k_q32_t1"


class FioWrite(Fio):
    """Sequential writes of 1 MiB."""

    name: ClassVar[str] = "fio-write"
    mode: ClassVar[str] = "write"
    block: ClassVar[str] = "1024K"
    usual_gib: ClassVar[int] = 10
    job: ClassVar[str] = "write_seq_1024k_q32_t1"


class FioRandread(Fio):
    """Random reads of 4 KiB."""

    name: ClassVar[str] = "fio-randread"
    mode: ClassVar[str] = "randread"
    block: ClassVar[str] = "4K"
    usual_gib: ClassVar[int] = 4
    job: ClassVar[str] = "read_rand_4k_q32_t1"


class FioRandwrite(Fio):
    """Random writes of 4 KiB."""

    name: ClassVar[str] = "fio-randwrite"
    mode: ClassVar[str] = "randwrite"
    block: ClassVar[str] = "4K"
    usual_gib: ClassVar[int] = 4
    job: ClassVar[str] = "write_rand_4k_q32_t1"


@dataclass(frozen=True, slots=True)
class _Job:
    """One object of the JSON's `jobs`."""

    name: str
    data: Document

    def figures(self, tool: Fio) -> _Figures:
        """Return what the job measured. Raises ParseError."""
        mine, opposite = ("write", "read") if "write" in tool.mode else ("read", "write")
        if self.data.object(opposite).integer("total_ios"):
            raise ParseError(f"fio's {self.name} did a {opposite}, and {tool.mode} was asked for")
        side = self.data.object(mine)
        block = int(tool.block.removesuffix("K")) << 10
        if side.integer("short_ios") or side.integer("io_bytes") != block * side.integer("total_ios"):
            raise ParseError(
                f"fio's {self.name} moved {side.integer('io_bytes')} bytes in {side.integer('total_ios')} transfers, "
                f"not {block} in each"
            )
        if side.integer("total_ios") <= 0 or side.integer("runtime") <= 0:
            raise ParseError(f"fio's {self.name} did nothing")
        return _Figures(self.name, side, tool)


@dataclass(frozen=True, slots=True)
class _Figures:
    """One direction of a job."""

    name: str
    side: Document
    tool: Fio

    @property
    def bandwidth(self) -> float:
        """Bytes per second. Raises ParseError."""
        bandwidth = self.side.number("bw_bytes")
        quotient = self.side.integer("io_bytes") * 1000 / self.side.integer("runtime")
        if abs(bandwidth - quotient) > 0.01 * quotient + 1:
            raise ParseError(f"fio's {self.name} says {bandwidth:.0f} B/s and counted {quotient:.0f} B/s")
        return bandwidth

    def measurements(self, output: Output) -> tuple[Measurement, ...]:
        """Return everything. Raises ParseError."""
        start = _prefix(output.setting)
        second = Unit.VIRTUAL_S if output.setting.virtual_time else Unit.S
        length = Quantity(self.side.integer("runtime") / 1000, second)
        return (
            rate(f"{start}bandwidth", self.bandwidth, output.megabytes_per_second),
            frequency(f"{start}iops", self.side.number("iops"), output.per_second),
            *(time(f"{start}completion.{name}", value, output.nanosecond) for name, value in self._completion()),
            Measurement(name="time", better=Better.NEITHER, quantity=length),
        )

    def _completion(self) -> list[tuple[str, float]]:
        times = self.side.object("clat_ns")
        table = times.object("percentile")
        low, mean, high = times.integer("min"), times.number("mean"), times.integer("max")
        percentiles = [(name, table.integer(f"{float(name):.6f}")) for name in _PERCENTILES]
        latencies = [low, *(value for _, value in percentiles)]
        if not 0 <= low <= mean <= high or latencies != sorted(latencies) or latencies[-1] > high * _BUCKET + 1:
            raise ParseError(f"fio's completion latencies of {self.name} contradict each other")
        return [("mean", mean), *((f"p{name}", value) for name, value in percentiles), ("max", high)]


def _jobs(output: Output, name: str) -> list[_Job]:
    """Return the jobs in a file of fio's JSON; none if there is no file. Raises ParseError."""
    text = output.text(name)
    notes = _NOTES.match(text)
    text = text[notes.end() :] if notes else text
    if not text.strip():
        return []
    report = document("fio", text)
    version = report.data.get("fio version")
    if not isinstance(version, str) or not _VERSION.fullmatch(version):
        raise ParseError(f"this is the JSON of {version!r:.60}, and that of fio 3 can be read")
    jobs = report.data.get("jobs")
    if not isinstance(jobs, list) or not all(isinstance(job, dict) for job in jobs):
        raise ParseError("fio's JSON has no list of jobs")
    return [_Job(str(job.get("jobname", "?")), Document("fio", job)) for job in jobs]


def _errors(jobs: list[_Job], setting: Setting) -> Iterator[Measurement]:
    """Yield the errors of jobs, by job. Raises ParseError: one is of the set-up, or is not an errno."""
    for job in jobs:
        number = job.data.integer("error")
        if number == errno.ENOSPC:
            raise ParseError(f"fio's {job.name}: the file system is full")
        if number == errno.ENOSYS and _engine(setting) == ENGINES[0]:
            raise ParseError(
                f"fio's {job.name}: the kernel has no asynchronous I/O (CONFIG_AIO): build it with that, or write "
                f"`engine: {ENGINES[1]}` into `nvme` of the board's file"
            )
        if abs(number) >= _INT:
            raise ParseError(f"fio's {job.name} says error {number}, which no C program does")
        if number:
            name = errno.errorcode.get(number, str(number))
            labels = {"job": job.name, "error": f"{name} ({os.strerror(number)})"}
            yield count("io.errors", 1, Better.LOWER, labels)


def _json(setting: Setting) -> str:
    return "load.json" if setting.beside else "fio.json"


def _prefix(setting: Setting) -> str:
    """Return what the names of figures begin with: those of a slower engine are never taken for the usual ones."""
    engine = _engine(setting)
    return "" if engine == ENGINES[0] else f"{engine}."


def _engine(setting: Setting) -> str:
    return setting.storage.engine if setting.storage else ENGINES[0]


def _format_time(milliseconds: int) -> str:
    """Return a time as the guide writes it, in seconds, where it is whole seconds."""
    return f"{milliseconds}ms" if milliseconds % 1000 else str(milliseconds // 1000)
