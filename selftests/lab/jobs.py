# SPDX-License-Identifier: MIT
"""LAVA jobs that test the lab itself, without rtgate's own templates."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

IMAGE = "rtgate:0.1.0"


def deploy(files: dict[str, Path], board: str) -> dict[str, Any]:
    return {
        "deploy": {
            "to": "tftp",
            "os": "oe",
            "timeout": {"minutes": 3},
            "kernel": {"url": f"file://{files[f'{board} kernel']}", "type": "image"},
            "ramdisk": {"url": f"file://{files[f'{board} ramdisk']}", "compression": "gz", "install_overlay": False},
        }
    }


def boot(board: str, seconds: int = 180) -> dict[str, Any]:
    method = "u-boot" if "arm64" in board else "ipxe"
    return {"boot": {"method": method, "commands": "ramdisk", "prompts": ["target# "], "timeout": {"seconds": seconds}}}


def in_container(program: str, seconds: int = 180) -> dict[str, Any]:
    """Return the action that runs a Python program in the container of the docker test action."""
    # Encoded: what a step prints or holds is scanned for signals, also the shell's own trace of it.
    encoded = base64.b64encode(program.encode()).decode()
    definition = {
        "metadata": {"format": "Lava-Test Test Definition 1.0", "name": "program", "description": "a program"},
        "run": {"steps": [f"echo {encoded} | base64 -d | python3 -"]},
    }
    return {
        "test": {
            "docker": {"image": IMAGE, "local": True},
            "timeout": {"seconds": seconds},
            "definitions": [{"from": "inline", "name": "p", "path": "inline/p.yaml", "repository": definition}],
        }
    }


def job(board: str, *actions: dict[str, Any]) -> dict[str, Any]:
    return {
        "job_name": "selftest",
        "device_type": board,
        "visibility": "public",
        "priority": "medium",
        "timeouts": {"job": {"minutes": 15}, "action": {"minutes": 5}, "connection": {"seconds": 30}},
        "actions": list(actions),
    }
