# SPDX-License-Identifier: MIT
"""Where merge requests are reviewed: GitLab, GitHub, Gerrit, a mailing list."""
