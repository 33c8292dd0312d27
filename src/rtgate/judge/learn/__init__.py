# SPDX-License-Identifier: MIT
"""Learning from past runs: limits, noise, the number of boots that an answer takes. Pure."""
