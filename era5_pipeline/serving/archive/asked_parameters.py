"""The parameters of a request as Open-Meteo reads them: lists, one of several words, numbers.

A list may be written as clients do: `hourly=a,b`, `hourly=a|b`, `hourly=a&hourly=b`, `hourly[]=a&hourly[]=b`,
`hourly[0]=a&hourly[1]=b`.
"""

from __future__ import annotations

import difflib
import re
from typing import TYPE_CHECKING, Any, get_args

from era5_pipeline.model.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|[+-]?inf|[+-]?nan", re.ASCII | re.IGNORECASE)
_INDEX = re.compile(r"(\[\d*\])+$", re.ASCII)
_SEPARATOR = re.compile(r"[,|]")
_ALIKE = 0.85
_LONGEST_NAME = 40


class AskedParameters:
    """The parameters of a request by name, without the brackets of arrays."""

    def __init__(self, given: Iterable[tuple[str, str]]) -> None:
        """Take the pairs of name and value of a request."""
        self._given: dict[str, list[str]] = {}
        for name, value in given:
            self._given.setdefault(_INDEX.sub("", name), []).append(value)

    def require_known(self, known: Collection[str], ignored: Collection[str]) -> None:
        """Refuse a name that is unlike the `known` ones only by its spelling: ignored, its data would be missing.

        Others are ignored, as with Open-Meteo, unless no variable is asked for: then what they ask for is not here. A
        request may have `ignored` ones in any case.

        Raises:
            UsageError: naming the parameter.
        """
        plain = {_plain(name): name for name in known}
        asks = any(self.all(name) for name in ("hourly", "daily"))
        for name in self._given:
            if name in known or name in ignored:
                continue
            meant = difflib.get_close_matches(_plain(name), plain, n=1, cutoff=_ALIKE)
            if meant:
                raise UsageError(f"Parameter '{name}' is not known", remedy=f"Did you mean {plain[meant[0]]}?")
            if not asks:
                raise UsageError(
                    f"Parameter '{name}' is not known, and no variable is asked for",
                    remedy="Name variables in hourly or daily: docs/http.md lists them.",
                )

    def has(self, name: str) -> bool:
        """Whether it is given."""
        return name in self._given

    def one(self, name: str) -> str | None:
        """The first value; None if it is not given."""
        values = self._given.get(name)
        return values[0] if values else None

    def all(self, name: str) -> list[str]:
        """The parts of a list, without empty ones."""
        return [part for value in self._given.get(name, ()) for part in _SEPARATOR.split(value) if part]

    def choice(self, name: str, kind: str, default: str, choices: object) -> Any:  # noqa: ANN401
        """The value, one of the `choices`, which is a `Literal`; `kind` names them in Open-Meteo's reason.

        Raises:
            UsageError: if it is another.
        """
        allowed = get_args(choices)
        found = self.one(name)
        if found is None:
            found = default
        if found not in allowed:
            raise UsageError(
                f"Data corrupted at path '{name}'. Cannot initialize {kind} from invalid String value {found}.",
                remedy=f"It is {' or '.join(allowed)}.",
            )
        return found

    def numbers(self, name: str) -> list[float]:
        """The numbers of a list.

        Raises:
            UsageError: if one is none.
        """
        texts = self.all(name)
        for text in texts:
            if not _NUMBER.fullmatch(text):
                raise UsageError(
                    f"Cannot initialize Float from invalid String value {text}", remedy=f"It is in {name}."
                )
        return [float(text) for text in texts]


def _plain(name: str) -> str:
    """A name without capitals, brackets and underscores: `startDate` and `start-date` are `startdate`."""
    return re.sub(r"[^a-z0-9]", "", name.lower())[:_LONGEST_NAME]
