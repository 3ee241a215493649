"""HTML by Jinja2's templates: every text that is put into a page is escaped."""

from __future__ import annotations

import unicodedata

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

# Marks of direction: they would affect the rest of the page.
_DIRECTIONS = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def page_environment(*packages: str) -> Environment:
    """The templates of these packages, each in its folder `templates`; all pages can use those of this one."""
    loaders = [PackageLoader(package) for package in (*packages, "era5_pipeline.report")]
    return Environment(
        loader=ChoiceLoader(loaders),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_drawable_text,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        auto_reload=False,
    )


def drawable(text: str) -> str:
    """The text without control characters, lone surrogates and marks of direction, which a page must not contain."""
    return "".join(one if one == "\n" or not _is_banned(one) else "\ufffd" for one in text)


def _is_banned(one: str) -> bool:
    return unicodedata.category(one) in {"Cc", "Cs"} or one in _DIRECTIONS


def _drawable_text(value: object) -> object:
    return drawable(value) if isinstance(value, str) and not isinstance(value, Markup) else value
