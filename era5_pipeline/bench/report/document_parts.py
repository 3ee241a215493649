"""Parts of documents that are written from results: between `<!-- bench: NAME -->` and `<!-- end -->`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_PART = re.compile(r"(<!-- bench: ([\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def with_parts(text: str, parts: Mapping[str, Sequence[str]]) -> str:
    """The document with the parts of these names rewritten; parts of other names stay as they are."""

    def part(match: re.Match[str]) -> str:
        lines = parts.get(match[2])
        return match[0] if lines is None else match[1] + "\n".join(["", *lines, "", ""]) + match[3]

    return _PART.sub(part, text)
