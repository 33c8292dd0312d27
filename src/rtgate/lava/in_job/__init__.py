# SPDX-License-Identifier: MIT
"""Inside a LAVA job: carrying out plans on the board, and sending records through the job's log."""
