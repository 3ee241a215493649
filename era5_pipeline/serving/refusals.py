"""Reasons for which the server does not answer now, each with its status: busy, without database, too slow, left."""

from __future__ import annotations

from typing import ClassVar


class RefusalError(Exception):
    """A request that is refused although nothing is wrong with it; `reason` is shown to the client."""

    status: ClassVar[int]
    # When the client may ask again; None: the same request would be refused again.
    retry_seconds: ClassVar[int | None] = None

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class DatabaseAwayError(RefusalError):
    """The database cannot be reached, or is restarting."""

    status = 503
    retry_seconds = 5

    def __init__(self) -> None:
        super().__init__("The database cannot be reached now. Try again in a few seconds.")


class OtherSchemaError(RefusalError):
    """The database's tables are of a version that this program does not know."""

    status = 503

    def __init__(self) -> None:
        super().__init__("The database has another schema version than this server needs. Its log says what to do.")


class BusyError(RefusalError):
    """Others were answered for as long as the request could wait."""

    status = 503
    retry_seconds = 1

    def __init__(self, seconds: float) -> None:
        super().__init__(
            f"The server is busy: the request waited {seconds:g} s for its turn. Try again in a few seconds."
        )


class CrowdedError(RefusalError):
    """More requests wait than may."""

    status = 503
    retry_seconds = 1

    def __init__(self) -> None:
        super().__init__("The server is busy: too many requests wait for their turn. Try again in a few seconds.")


class EndingError(RefusalError):
    """The server was told to end, and the answer did not come in the time that was left."""

    status = 503
    retry_seconds = 5

    def __init__(self) -> None:
        super().__init__("The server is being stopped. Try again in a few seconds.")


class SlowStatementError(RefusalError):
    """A statement took longer than the limit."""

    status = 504

    def __init__(self, seconds: float) -> None:
        super().__init__(
            f"Reading took longer than {seconds:g} s, the limit of a statement. Ask for less at once, such as fewer "
            "years."
        )


class ClientLeftError(RefusalError):
    """The client closed the connection before it had the answer; nobody reads this."""

    status = 499

    def __init__(self) -> None:
        super().__init__("The client closed the connection.")
