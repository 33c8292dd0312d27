# SPDX-License-Identifier: MIT
"""Where merge requests are reviewed: GitLab, Gerrit, a mailing list."""
