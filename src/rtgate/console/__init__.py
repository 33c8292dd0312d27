# SPDX-License-Identifier: MIT
"""Bytes, frames, prompts and kernel faults: everything between a serial line and a result."""
