"""Keep other wheels' shared libraries apart from those of ecCodes' wheel, whichever is imported first.

Wheels bring libraries of their own, and some bring the same: ecCodes, psycopg and psycopg2 a libldap each, ecCodes and
pyproj a libproj each. On Linux, `import eccodes` makes the functions of its copies global (findlibs), and where cfgrib
is installed, xarray imports both when it looks for an engine. Libraries that are loaded later then call these functions
instead of their own: pyproj finds no projection, and the process crashes when it ends.
"""

from __future__ import annotations

import os
import sys
from importlib.machinery import ExtensionFileLoader, PathFinder
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType

# Packages that fail if they are imported after ecCodes.
_PACKAGES = {"psycopg_binary", "psycopg2", "pyproj"}


class _OwnSymbolsFirst(ExtensionFileLoader):
    """Loads a compiled module and its libraries so that they look for symbols among themselves first."""

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        before = sys.getdlopenflags()
        sys.setdlopenflags(before | os.RTLD_DEEPBIND)
        try:
            return super().create_module(spec)
        finally:
            sys.setdlopenflags(before)


class _Finder:
    """Finds the compiled modules of these packages as Python does, if ecCodes may have been loaded before."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name.partition(".")[0] not in _PACKAGES or "findlibs" not in sys.modules:
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and isinstance(spec.loader, ExtensionFileLoader):
            spec.loader = _OwnSymbolsFirst(name, spec.loader.path)
        return spec


def keep_apart() -> None:
    """Let each of these packages, when it is imported, prefer its own libraries to those of ecCodes.

    Elsewhere than on Linux, libraries do not look among those of others.
    """
    if hasattr(os, "RTLD_DEEPBIND") and _Finder not in sys.meta_path:
        sys.meta_path.insert(0, _Finder)
