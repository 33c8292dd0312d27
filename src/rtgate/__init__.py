# SPDX-License-Identifier: MIT
"""rtgate gates real-time Linux kernels: build, boot, measure, judge, report."""

__version__ = "0.1.0"
