"""Check a built site: every internal link leads somewhere, and every page is three clicks away.

``python docs/check_links.py docs/_build/html`` prints what is wrong, and fails if anything is.
"""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

CLICKS = 3
APART = {"genindex.html", "py-modindex.html", "search.html"}  # of no place in the table of contents
LOADED = {"link": "href", "script": "src", "img": "src", "source": "src"}


class Page(HTMLParser):
    """The anchors of a page, its links, and the files that a browser loads for it."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: set[str] = set()
        self.files: set[str] = set()
        self.feed(file.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        self.anchors.update(attributes[key] for key in ("id", "name") if attributes.get(key))
        if tag == "a" and attributes.get("href"):
            self.links.add(attributes["href"])
        elif attributes.get(LOADED.get(tag, "")):
            self.files.add(attributes[LOADED[tag]])


def resolve(file: Path, link: str) -> tuple[Path, str] | None:
    """Return the file and the anchor that a link leads to; None for another host."""
    parts = urlsplit(link)
    if parts.scheme or parts.netloc:
        return None
    target = (file.parent / unquote(parts.path)).resolve() if parts.path else file
    return (target / "index.html" if target.is_dir() else target), unquote(parts.fragment)


def broken(pages: dict[Path, Page]) -> list[str]:
    """List the links that lead nowhere, and files that another host would have to send."""
    wrong = []
    for file, page in pages.items():
        for link in page.links | page.files:
            target = resolve(file, link)
            if target is None:
                if link in page.files and not link.startswith("data:"):
                    wrong.append(f"{file}: loaded from another host: {link}")
            elif not target[0].exists():
                wrong.append(f"{file}: no such file: {link}")
            elif target[1] and target[0] in pages and target[1] not in pages[target[0]].anchors:
                wrong.append(f"{file}: no such anchor: {link}")
    return wrong


def far(pages: dict[Path, Page], start: Path) -> list[str]:
    """List the pages that are more than three clicks from the first."""
    reached = edge = {start}
    for _ in range(CLICKS):
        targets = {resolve(file, link) for file in edge for link in pages[file].links}
        edge = {target[0] for target in targets if target and target[0] in pages} - reached
        reached = reached | edge
    return [
        f"{file}: more than {CLICKS} clicks from the start"
        for file in pages.keys() - reached
        if file.name not in APART
    ]


def main() -> int:
    root = Path(sys.argv[1]).resolve()
    pages = {
        file: Page(file) for file in sorted(root.rglob("*.html")) if "_static" not in file.parts
    }
    wrong = broken(pages) + far(pages, root / "index.html")
    for line in sorted(wrong):
        print(line.replace(f"{root}/", ""), file=sys.stderr)
    print(f"{len(pages)} pages, {sum(len(page.links) for page in pages.values())} links")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
