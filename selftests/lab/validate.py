# SPDX-License-Identifier: MIT
"""Have LAVA's own code look at jobs and device types: the server's schema, its template engine, its dispatcher.

Runs where LAVA is installed, with Debian's Python: `validate.py DIRECTORY`. There lie `types/*.jinja2`,
`jobs/NAME.yaml` and `devices/NAME.jinja2` (one device for each job); `wholes/NAME.yaml` is there where the
job is a part of one for two boards, which the schema takes as a whole only. Prints a JSON object: for each name what
each step said, empty for nothing.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import yaml  # Debian's, like all that follows

TYPES = Path("/usr/share/lava-server/device-types")
DISPATCHER = "dispatcher_ip: 127.0.0.1\n"


def schema(job: Path) -> str:
    """Return what LAVA's own checker has against a job, strictly: keys that it would ignore are mistakes."""
    argv = ["/usr/bin/python3", "/usr/share/lava-common/lava-schema.py", "job", "--strict", str(job)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)
    return "" if done.returncode == 0 else f"exit code {done.returncode}: {done.stdout}{done.stderr}"


def engine(types: Path, devices: Path) -> Any:
    """Return LAVA's own template engine, which finds our types before its own, as on a server."""
    from django.conf import settings  # noqa: PLC0415

    settings.configure(
        DEVICES_PATH=str(devices),
        DEVICE_TYPES_PATHS=[str(types), str(TYPES)],
        HEALTH_CHECKS_PATH=str(devices),
        DISPATCHER_CONFIG_PATH=str(devices),
    )
    from lava_scheduler_app import environment  # noqa: PLC0415

    newer = getattr(environment, "DEVICES_JINJA_ENV", None)  # a function until 2023.01
    return environment.devices() if newer is None else newer


def device_schema(text: str) -> str:
    """Return what the device's schema has against a rendered dictionary."""
    from lava_common.schemas.device import validate  # noqa: PLC0415
    from voluptuous import Invalid  # noqa: PLC0415

    try:
        validate(yaml.safe_load(text))
    except (Invalid, yaml.YAMLError) as error:
        return str(error)
    return ""


def dispatcher(number: int, job: Path, device: Path, directory: Path) -> str:
    """Return what the dispatcher has against a job on a device, when it makes its pipeline and runs none of it.

    Directories of one number are one job's, and go with it.
    """
    output = str(directory / f"out-{number}")
    argv = ["lava-run", "--job-id", str(number), "--output-dir", output, "--device", str(device)]
    argv += ["--dispatcher", str(directory / "dispatcher.yaml"), "--validate", str(job)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=120)
    if done.returncode == 0:
        return ""
    said = [yaml.safe_load(line) for line in done.stderr.splitlines() if line.startswith("{")]
    results = [one["msg"] for one in said if one.get("lvl") == "results"]
    told = [str(one.get("error_msg")) for one in results if "error_msg" in one]
    traces = [str(one["msg"]) for one in said if one.get("lvl") == "exception"]
    return "\n".join([*traces, *told]) or f"exit code {done.returncode}: {done.stderr[-500:]}"


def looked_at(directory: Path, number: int, job: Path, rendered: Path) -> dict[str, str]:
    """Return what each step said of a job on a device."""
    whole = directory / "wholes" / job.name
    return {
        "schema": schema(whole if whole.exists() else job),
        "device": device_schema(rendered.read_text()),
        "dispatcher": dispatcher(number, job, rendered, directory),
    }


def main(directory: Path) -> dict[str, dict[str, str]]:
    """Return for each job what each step said."""
    templates = engine(directory / "types", directory / "devices")
    (directory / "dispatcher.yaml").write_text(DISPATCHER)
    # LAVA's programs take seconds for each job, most of it to load themselves: as many at once as there are cores.
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        running = {}
        for number, path in enumerate(sorted((directory / "jobs").glob("*.yaml")), start=1):
            job = yaml.safe_load(path.read_text())
            rendered = directory / f"{path.stem}.device.yaml"
            rendered.write_text(templates.get_template(f"{path.stem}.jinja2").render(**job.get("context", {})))
            running[path.stem] = pool.submit(looked_at, directory, number, path, rendered)
        return {name: said.result() for name, said in running.items()}


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]).resolve()), indent=1))
