# SPDX-License-Identifier: MIT
"""A LAVA job after it ran: its log, its records, and whose fault its end was."""
