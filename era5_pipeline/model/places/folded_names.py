"""Names of places as they are compared: without case, accents, apostrophes, dots, and with spaces for hyphens."""

from __future__ import annotations

import re
from unicodedata import combining, normalize

# Letters that Unicode does not take apart into a plain letter and a mark.
_LETTERS = {"ø": "o", "ł": "l", "đ": "d", "ð": "d", "ħ": "h", "\u0131": "i", "æ": "ae", "œ": "oe", "þ": "th"}
# Quotation marks, primes, and letters that look like apostrophes.
_APOSTROPHES = frozenset("\u2018\u2019\u201c\u201d\u2032\u00b4\u02b9\u02bb\u02bc")
_NOT_ASCII = re.compile(r"[^\x00-\x7f]")
_DROPPED = re.compile(r"[.'`\"]")
# Not tabs and line ends, so that a whole table can be folded at once.
_SPACES = re.compile(r"[ \-/_\u2010-\u2015]+")


def folded(text: str) -> str:
    """The text in the form in which names are compared: `São Paulo` as `sao paulo`, `N'Djamena` as `ndjamena`.

    Tabs and line ends stay, so that a text of many names can be folded at once.
    """
    plain = _NOT_ASCII.sub(_plain, normalize("NFKD", text).casefold())
    # Composed again, because Korean syllables are three times as long in parts.
    return normalize("NFC", _SPACES.sub(" ", _DROPPED.sub("", plain)))


def _plain(match: re.Match[str]) -> str:
    character = match[0]
    if combining(character) or character in _APOSTROPHES:
        return ""
    return _LETTERS.get(character, character)
