# SPDX-License-Identifier: MIT
"""The fake QEMU and kernel of the commands' tests."""

from selftests.unit.cli.conftest import _forget_qemu, _undrawn, lab

__all__ = ["_forget_qemu", "_undrawn", "lab"]
