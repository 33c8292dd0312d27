# SPDX-License-Identifier: MIT
"""LAVA: job definitions, submission, the log of a job, what runs inside it, what a lab supports."""
