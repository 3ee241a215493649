"""Addresses of public Zarr stores of ERA5, from their documentation; and the address, user and token of a request.

Nobody has tried these presets against the services: they are what the documentation said on 2026-11-25, or other users
of Earthmover's repository on 2026-11-27. Each is a source, too, by its name.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from era5_pipeline.model.dataset import ERA5, Dataset
from era5_pipeline.model.errors import SourceError, UsageError
from era5_pipeline.model.settings import EARTHMOVER_URL
from era5_pipeline.model.source_kinds import require_dataset, source_kind
from era5_pipeline.netcdf.signs import named_in

if TYPE_CHECKING:
    from collections.abc import Mapping

    from era5_pipeline.model.settings import Settings


@dataclass(frozen=True)
class Preset:
    """A public store; `user` is the name that goes with its token, None: the token alone (Bearer).

    `url` is the address of ERA5, `others` are those of other data sets by their names. `groups` are data sets in
    several stores: the short names of the variables by the address of the store.
    """

    name: str
    title: str
    url: str
    user: str | None = None
    wants_token: bool = True
    others: Mapping[str, str] = field(default_factory=dict)
    groups: Mapping[str, Mapping[str, tuple[str, ...]]] = field(default_factory=dict)

    def url_of(self, dataset: Dataset) -> str:
        """The address of a data set that it has; of one in several stores, that of the first."""
        return self.others.get(dataset.name) or next(iter(self.groups.get(dataset.name, (self.url,))))


_ARCO = "https://arco.datastores.ecmwf.int/cadl-arco-geo-{}/arco/{}/geoChunked.zarr"
# Number, group and variables of ECMWF's stores of ERA5-Land: amounts of hours, on longitudes -179.9 to 180, from
# 1950-01-02. What is in the stores of radiation and snow is not stated: a variable that is not there is left out.
_ARCO_LAND = (
    ("007", "2m-temperature", "t2m d2m"),
    ("008", "wind", "u10 v10"),
    ("009", "pressure-precipitation", "sp tp"),
    ("010", "radiation-heat", "ssrd strd ssr str slhf sshf"),
    ("043", "skin-temperature", "skt"),
    ("006", "soil-temperature", "stl1 stl2 stl3 stl4"),
    ("005", "soil-water", "swvl1 swvl2 swvl3 swvl4"),
    ("030", "snow", "sd sde snowc rsn asn tsn smlt"),
)


PRESETS: dict[str, Preset] = {
    preset.name: preset
    for preset in (
        Preset(
            "edh",
            "Earth Data Hub of Destination Earth",
            "https://api.earthdatahub.destine.eu/era5/era5-single-levels-atmosphere-v0.zarr",
            user="edh",
            # Sums since 00 UTC, on longitudes 0 to 359.9, without Antarctica.
            others={"era5-land": "https://api.earthdatahub.destine.eu/era5/reanalysis-era5-land-no-antartica-v0.zarr"},
        ),
        Preset(
            "ecmwf-arco",
            "ECMWF's ARCO data lake, chunks of long series",
            _ARCO.format("002", "reanalysis_era5_single_levels/sfc"),
            groups={
                "era5-land": {
                    _ARCO.format(number, f"reanalysis_era5_land/sfc-{group}"): tuple(names.split())
                    for number, group, names in _ARCO_LAND
                }
            },
        ),
        Preset(
            "earthmover",
            "Earthmover's open Icechunk repository, chunks of long series",
            f"{EARTHMOVER_URL}//single/temporal",
            wants_token=False,
        ),
    )
}
# How S3 is asked: as the environment says; without a key; or without one, and at Amazon's own servers whatever the
# environment says, which is of another store.
S3Access = Literal["environment", "unsigned", "public"]


@dataclass(frozen=True)
class StoreAccess:
    """The address of a store, without a preset's name, and what to read it with; `remedy` is that of its errors."""

    url: str
    user: str | None = None
    token: str | None = field(default=None, repr=False)
    remedy: str | None = None
    s3: S3Access = "environment"


def preset_names() -> str:
    """List the presets."""
    return ", ".join(PRESETS)


def resolved_url(text: str, dataset: Dataset = ERA5) -> str:
    """The address of a preset, or the text itself if it names none; a folder is made absolute."""
    if text in PRESETS:
        return PRESETS[text].url_of(dataset)
    return text if "://" in text else str(Path(text).expanduser().absolute())


def access_of(settings: Settings) -> StoreAccess:
    """The address, user and token by the settings."""
    name = settings.source_name if source_kind(settings.source_name).is_known_store else settings.zarr_url
    if name is None:
        raise UsageError(
            "the source zarr needs the address of a store",
            remedy=f"Give --store ADDRESS, or set ERA5_ZARR_URL: a folder, s3://, gs:// or https://; or a preset: "
            f"{preset_names()}.",
        )
    preset = PRESETS.get(name)
    if preset is not None:
        require_dataset(preset.name, settings.wanted_dataset)
    if preset is not None and not preset.wants_token:
        is_own = settings.earthmover_url == EARTHMOVER_URL
        url = preset.url if is_own else f"{settings.earthmover_url}//{preset.url.rpartition('//')[2]}"
        return StoreAccess(url, s3="public" if is_own else "unsigned")
    token = None if settings.zarr_token_file is None else _token_in(settings.zarr_token_file)
    user = settings.zarr_user or (preset.user if preset is not None else None)
    if preset is not None and token is None:
        raise SourceError(
            f"{preset.title} answers only with a token",
            remedy="Write it into a file that only you can read, and set ERA5_ZARR_TOKEN_FILE to its path "
            "(docs/sources.md says where to get one).",
        )
    return StoreAccess(resolved_url(name, settings.wanted_dataset), user, token)


def require_told(shown: str, dataset: Dataset) -> None:
    """Check that the address of a store names the data set, if its accumulations may be sums since 00 UTC.

    Of a store with amounts of hours they would be taken apart once more, and nothing in its arrays tells.
    """
    if dataset.accumulation == "hour":
        return
    sign = named_in(shown)
    if sign is None or sign.dataset != dataset:
        raise UsageError(
            f"{shown} does not say that it is a store of {dataset.short_title}, and over what its accumulations run",
            remedy=f"Give a store whose address has {dataset.cds_name} in it, which stands for sums since 00 UTC; or "
            "--source edh or ecmwf-arco.",
        )


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
