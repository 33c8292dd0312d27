# SPDX-License-Identifier: MIT
"""`lava-tool`: the commands that people know, for today's LAVA servers.

The program of this name ended in 2013 and with Python 2. Its commands for jobs are kept here, with exit codes that say
what happened: 0 Complete, 1 Incomplete or cancelled, 2 usage or a job that the server refuses, 3 the lab or the server,
4 a defect of it, 130 interrupted. SERVER is a URL as ever, with or without a user's name; a token in it is refused.
Tokens come from RTGATE_LAVA_TOKEN, RTGATE_LAVA_TOKEN_FILE, or lavacli's identities, to which auth-add adds one.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from rtgate import files
from rtgate.cli import edge, lava_tool_auth
from rtgate.errors import ConfigError, InfrastructureError
from rtgate.lava.client.access import access
from rtgate.lava.client.follow import Following, Waits, read_whole_log
from rtgate.lava.client.server import Device, Job, Lava
from rtgate.lava.results import log
from rtgate.report.listing import show_listing
from rtgate.report.text import plain_text
from rtgate.workflow.job_watch import JobWatch
from rtgate.workflow.lab_jobs import cancel_job


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code."""
    arguments = _parser().parse_args(argv)
    edge.begin()
    return edge.exit_code("lava-tool", lambda: int(arguments.run(arguments)))


def _parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(
        prog="lava-tool", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = top.add_subparsers(metavar="COMMAND", required=True)

    submit = commands.add_parser("submit-job", help="submit a job and print its number")
    submit.add_argument("server", metavar="SERVER")
    submit.add_argument("file", type=Path, metavar="FILE", help="the job's definition")
    submit.add_argument("--block", action="store_true", help="wait for its end; it is cancelled when you stop waiting")
    submit.set_defaults(run=_submit)

    status = commands.add_parser("job-status", help="print a job's state and health")
    output = commands.add_parser("job-output", help="print a job's log")
    cancel = commands.add_parser("cancel-job", help="cancel a job")
    for parser, run in ((status, _status), (output, _output), (cancel, _cancel)):
        parser.add_argument("server", metavar="SERVER")
        parser.add_argument("job", type=int, metavar="JOB")
        parser.set_defaults(run=run)
    output.add_argument("-o", "--output", type=Path, metavar="FILE", help="write it there, as the server has it")

    devices = commands.add_parser("devices-list", help="list the devices, and the jobs that run on them")
    jobs = commands.add_parser("all-jobs", aliases=["jobs-list"], help="list all jobs that wait or run")
    for parser, run in ((devices, _devices), (jobs, _jobs)):
        parser.add_argument("server", metavar="SERVER")
        parser.set_defaults(run=run)
    lava_tool_auth.add_command(commands)
    return top


def _lava(server: str) -> Lava:
    """Return the server of `http://user@host/RPC2`, with the token that is stored for this user."""
    url, user = lava_tool_auth.address(server)
    return Lava(access(url, user=user), notify=JobWatch().say)


def _submit(arguments: argparse.Namespace) -> int:
    try:
        definition = files.read_text(arguments.file, files.YAML_LIMIT)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{arguments.file}: cannot be read: {error}") from error
    lava = _lava(arguments.server)
    complaint = lava.validate(definition)
    if complaint:
        raise ConfigError(f"{arguments.file}: {complaint}")
    number = lava.submit_once(definition)
    print(f"submitted as job: {lava.access.url}/scheduler/job/{number}", flush=True)
    return _wait_for_job(lava, number) if arguments.block else 0


def _wait_for_job(lava: Lava, number: int) -> int:
    watch = JobWatch()
    try:
        end = Following(lava, number, Waits(), watch.show_line, watch.state).follow()
    except KeyboardInterrupt:
        lava.cancel(number)
        print(f"lava-tool: job {number} is cancelled", file=sys.stderr)
        raise
    finally:
        watch.close()
    if end.stopped_by:
        print(f"lava-tool: job {number} was cancelled: {end.stopped_by.value}", file=sys.stderr)
    print(_lava_tool_lines(end.job))
    return _code(end.job)


def _status(arguments: argparse.Namespace) -> int:
    job = _lava(arguments.server).job(arguments.job)
    print(_lava_tool_lines(job))
    return _code(job) if job.finished else 0


def _output(arguments: argparse.Namespace) -> int:
    lava = _lava(arguments.server)
    job = lava.job(arguments.job)
    if arguments.output:
        try:
            arguments.output.write_text(lava.log(job.number), encoding="utf-8")
        except OSError as error:
            raise InfrastructureError(f"{arguments.output} cannot be written: {error.strerror}") from error
        return 0
    lines = read_whole_log(lava, job.number) if job.finished else log.parse(lava.log(job.number))
    for line in lines:
        if line.text and line.level in {"target", "feedback", "error", "exception", "info"}:
            print(plain_text(line.text))
    return 0


def _cancel(arguments: argparse.Namespace) -> int:
    lava = _lava(arguments.server)
    if lava.job(arguments.job).finished:
        raise ConfigError(f"job {arguments.job} has ended already")
    cancel_job(lava, arguments.job)
    return 0


def _devices(arguments: argparse.Namespace) -> int:
    lava = _lava(arguments.server)
    jobs = {job.device: str(job.number) for job in lava.active_jobs() if job.device}
    devices = sorted(lava.devices(), key=lambda device: device.name)
    show_listing(
        ("Hostname", "Device type", "Status", "Job ID"),
        [(device.name, device.device_type, _status_of(device), jobs.get(device.name, "-")) for device in devices],
    )
    return 0


def _status_of(device: Device) -> str:
    """Return a device's status in the words of LAVA's `scheduler.all_devices`, which lava-tool showed."""
    if device.state == "Idle":
        return "idle" if device.usable else "offline"
    return "reserved" if device.state == "Reserved" else "running"


def _jobs(arguments: argparse.Namespace) -> int:
    show_listing(
        ("Job ID", "Job status", "Device", "Requested device type", "Job description"),
        [
            (job.number, job.state, job.device or "-", job.device_type, job.name)
            for job in _lava(arguments.server).active_jobs()
        ],
    )
    return 0


def _lava_tool_lines(job: Job) -> str:
    """Return lines as lava-tool printed them."""
    device = plain_text(job.device) or "-"
    return f"Job ID: {job.number}\nJob State: {job.state}\nJob Health: {job.health}\nDevice: {device}"


def _code(job: Job) -> int:
    return 0 if job.health == "Complete" else 1
