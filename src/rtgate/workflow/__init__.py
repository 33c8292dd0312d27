# SPDX-License-Identifier: MIT
"""What a command does, callable from Python: gates, comparisons, jobs of a lab, soaks."""
