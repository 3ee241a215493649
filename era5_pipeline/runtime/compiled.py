"""Functions that numba compiles when they are first called, and keeps on disk for the next process.

numba takes 200 MB, so it is installed with the extra `fast` only, and half a second to load. Modules with such
functions are imported where `pays_off` says so; otherwise numpy and the libraries give the same results, more slowly.
"""

from __future__ import annotations

import os
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    Function = TypeVar("Function", bound=Callable[..., Any])

# CPU seconds to import numba and to call the first function (0.5 to 0.6, on 2026-11-24).
_LOADING_SECONDS = 0.5
_is_loaded = False


def is_available() -> bool:
    """Return True if the extra `fast` is installed, and numba may compile (NUMBA_DISABLE_JIT is 0 or not set)."""
    return os.environ.get("NUMBA_DISABLE_JIT", "0") == "0" and all(find_spec(name) for name in ("numba", "isal"))


def pays_off(saved_seconds: float) -> bool:
    """Return True if compiled functions are available, and already loaded or worth the time to load them."""
    return is_available() and (_is_loaded or saved_seconds > _LOADING_SECONDS)


def compiled(function: Function) -> Function:
    """Compile the function, to run beside other threads (without the GIL), dividing as numpy does."""
    return _jit(function, error_model="numpy")


def inlined(function: Function) -> Function:
    """The same, as a part of each function that calls it."""
    return _jit(function, inline="always")


def compiled_in_any_order(function: Function) -> Function:
    """The same, for results that do not depend on the order of operations, and numbers that are not NaN.

    The processor then handles several at once.
    """
    return _jit(function, error_model="numpy", fastmath={"reassoc", "nnan", "nsz"})


def _jit(function: Function, **options: Any) -> Function:  # noqa: ANN401
    import numba  # noqa: PLC0415  # slow, and may not be installed

    global _is_loaded  # noqa: PLW0603  # of the process, as numba is
    _is_loaded = True
    made: Function
    try:
        made = numba.njit(cache=True, nogil=True, **options)(function)
    except RuntimeError:  # no folder may be written: each process compiles it again
        made = numba.njit(nogil=True, **options)(function)
    return made
