# SPDX-License-Identifier: MIT
"""LAVA: jobs, what runs inside them, and what comes back."""
