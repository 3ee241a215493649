"""The parameters of a request as Open-Meteo reads them: lists, one of several words, numbers."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, get_args

from era5_pipeline.model.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|[+-]?inf|[+-]?nan", re.ASCII | re.IGNORECASE)


class AskedParameters:
    """The parameters of a request by name: each may be repeated, and lists have commas."""

    def __init__(self, given: Iterable[tuple[str, str]]) -> None:
        """Take the pairs of name and value of a request."""
        self._given: dict[str, list[str]] = {}
        for name, value in given:
            self._given.setdefault(name, []).append(value)

    def has(self, name: str) -> bool:
        """Whether it is given."""
        return name in self._given

    def one(self, name: str) -> str | None:
        """The first value; None if it is not given."""
        values = self._given.get(name)
        return values[0] if values else None

    def all(self, name: str) -> list[str]:
        """The parts of a list, without empty ones."""
        return [part for value in self._given.get(name, ()) for part in value.split(",") if part]

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
