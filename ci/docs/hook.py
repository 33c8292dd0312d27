# SPDX-License-Identifier: MIT
"""A hook of MkDocs: links from the documentation to other files of the repository work on the site, too.

On a forge's page of the repository a link to `../../target/modules/README.md` works as it is. The site has only what
lies below `docs/`. So every file that is linked gets a copy on the site, below `repository/`, and links are made to
point there. A link to a file that does not exist is a warning, and with `mkdocs build --strict` an error.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.plugins import get_plugin_logger
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[2]
# Pages of the site that lie at the top of the repository, where forges and people look for them.
TOP = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "LICENSE")
COPIES = "repository"

_LINK = re.compile(r"(?<=\]\()(?![a-z][a-z0-9+.-]*:|#|/)([^)#\s]+)(#[^)\s]*)?(?=\))")
_FENCE = re.compile(r"^\s*(?:```|~~~)")
_log = get_plugin_logger("rtgate")


def repository_path(page: str) -> str:
    """Return the path in the repository of a page of the site."""
    return page.removeprefix(f"{COPIES}/") if page.startswith(f"{COPIES}/") else f"docs/{page}"


def site_path(path: str) -> str:
    """Return the path on the site of a file of the repository."""
    return path.removeprefix("docs/") if path.startswith("docs/") else f"{COPIES}/{path}"


def link_target(path: str, target: str) -> str:
    """Return the path in the repository of what a link in the file `path` points to; a directory is its README."""
    found = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
    return f"{found}/README.md" if (ROOT / found).is_dir() else found


def prose(markdown: str) -> Iterator[tuple[bool, str]]:
    """Yield the lines of a page, and of each whether it is prose and not an example in a fence."""
    fenced = False
    for line in markdown.split("\n"):
        edge = _FENCE.match(line) is not None
        yield not (fenced or edge), line
        fenced = fenced != edge


def links(path: str, markdown: str) -> Iterator[str]:
    """Yield the paths in the repository that a page of the repository links to."""
    for is_prose, line in prose(markdown):
        if is_prose:
            yield from (link_target(path, match[1]) for match in _LINK.finditer(line))


def with_links_of_site(path: str, markdown: str) -> str:
    """Return a page of the repository with its relative links made to work on the site."""
    here = posixpath.dirname(site_path(path))

    def moved(match: re.Match[str]) -> str:
        return posixpath.relpath(site_path(link_target(path, match[1])), here or ".") + (match[2] or "")

    return "\n".join(_LINK.sub(moved, line) if is_prose else line for is_prose, line in prose(markdown))


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add copies of all files outside docs/ that some page links to, and of those that they link to."""
    waiting = [*TOP, *(repository_path(file.src_uri) for file in files.documentation_pages())]
    met: set[str] = set()
    while waiting:
        path = waiting.pop()
        if path in met:
            continue
        met.add(path)
        source = ROOT / path
        if not source.is_file() or path.startswith("../"):
            continue  # MkDocs itself says which page links to it
        if not path.startswith("docs/"):
            files.append(
                File.generated(config, site_path(path), abs_src_path=str(source), inclusion=InclusionLevel.NOT_IN_NAV)
            )
        if path.endswith(".md"):
            waiting += links(path, source.read_text(encoding="utf-8"))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001 - MkDocs' names
    """Make a page's links work on the site, and say so of what begins without a title."""
    if not markdown.lstrip().startswith("# "):
        _log.warning("%s does not begin with a title (# ...)", page.file.src_uri)
    return with_links_of_site(repository_path(page.file.src_uri), markdown)
