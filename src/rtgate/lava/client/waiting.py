# SPDX-License-Identifier: MIT
"""How long rtgate waits for a lab, and how often it submits a job again, where nobody says otherwise."""

QUEUE_S = 4 * 3600.0  # for a free board
RETRIES = 2  # after faults of the lab
