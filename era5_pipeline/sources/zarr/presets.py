"""Addresses of public Zarr stores of ERA5, from their documentation; and the address, user and token of a request.

Nobody has tried these presets against the services: they are what the documentation said on 2026-11-25.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from era5_pipeline.model.errors import SourceError, UsageError

if TYPE_CHECKING:
    from era5_pipeline.model.settings import Settings


@dataclass(frozen=True)
class Preset:
    """A public store that wants a token; `user` is the name that goes with it, None: the token alone (Bearer)."""

    name: str
    title: str
    url: str
    user: str | None = None


PRESETS: dict[str, Preset] = {
    preset.name: preset
    for preset in (
        Preset(
            "edh",
            "Earth Data Hub of Destination Earth",
            "https://data.earthdatahub.destine.eu/era5/era5-single-levels-atmosphere-v0.zarr",
            user="edh",
        ),
        Preset(
            "ecmwf-arco",
            "ECMWF's ARCO data lake, chunks of long series",
            "https://arco.datastores.ecmwf.int/cadl-arco-geo-002/arco/reanalysis_era5_single_levels/sfc/geoChunked.zarr",
        ),
    )
}


@dataclass(frozen=True)
class StoreAccess:
    """The address of a store, without a preset's name, and what to read it with; `remedy` is that of its errors."""

    url: str
    user: str | None = None
    token: str | None = field(default=None, repr=False)
    remedy: str | None = None


def preset_names() -> str:
    """List the presets."""
    return ", ".join(PRESETS)


def resolved_url(text: str) -> str:
    """The address of a preset, or the text itself if it names none; a folder is made absolute."""
    if text in PRESETS:
        return PRESETS[text].url
    return text if "://" in text else str(Path(text).expanduser().absolute())


def access_of(settings: Settings) -> StoreAccess:
    """The address, user and token by the settings."""
    if settings.zarr_url is None:
        raise UsageError(
            "the source zarr needs the address of a store",
            remedy=f"Give --store ADDRESS, or set ERA5_ZARR_URL: a folder, s3://, gs:// or https://; or a preset: "
            f"{preset_names()}.",
        )
    preset = PRESETS.get(settings.zarr_url)
    token = None if settings.zarr_token_file is None else _token_in(settings.zarr_token_file)
    user = settings.zarr_user or (preset.user if preset is not None else None)
    if preset is not None and token is None:
        raise SourceError(
            f"{preset.title} answers only with a token",
            remedy="Write it into a file that only you can read, and set ERA5_ZARR_TOKEN_FILE to its path "
            "(docs/sources.md says where to get one).",
        )
    return StoreAccess(resolved_url(settings.zarr_url), user, token)


def _token_in(path: Path) -> str:
    try:
        text = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise UsageError(
            f"the token of the Zarr store cannot be read from {path} ({reason})", remedy="Correct ERA5_ZARR_TOKEN_FILE."
        ) from error
    if not text or len(text.split()) != 1 or not text.isascii():
        raise UsageError(
            f"{path} does not hold one token", remedy="Write the token alone into it, as one line without blanks."
        )
    return text
