"""All settings as one typed object, read from the environment (`ERA5_...`), then from `.env`; nothing at import.

Defines names, types and defaults, not what the pipeline does with them.
"""

from __future__ import annotations

import difflib
import os
import re
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal

from dotenv import dotenv_values
from pydantic import AfterValidator, Field, SecretStr, ValidationError
from pydantic_core import PydanticCustomError
from pydantic_settings import BaseSettings, SettingsConfigDict

from era5_pipeline.model import source_kinds
from era5_pipeline.model.dataset import DATASETS, ERA5, Accumulation, Dataset, dataset_named
from era5_pipeline.model.errors import UsageError
from era5_pipeline.model.grid import Area, Location, points_text
from era5_pipeline.model.location_set import LocationSet
from era5_pipeline.model.variables import ALL_NAME, Variable, VariableChoice

EARTHMOVER_URL = "icechunk+s3://earthmover-icechunk-era5/icechunkV2"
ARCO_URL = "gs://gcp-public-data-arco-era5/ar/full_37-1h-0p25deg-chunk-1.zarr-v3"
FlatFormat = Literal["parquet", "csv"]
Keep = Literal["all", "flat", "none"]
OffGrid = Literal["refuse", "nearest"]
S3_SCHEME = "s3://"
# Separates folders and S3 addresses: the path separator, except in `s3://`.
_SEPARATOR = re.compile(re.escape(os.pathsep) + r"(?!//)")
Order = Literal["newest", "oldest"]
_PREFIX = "ERA5_"
_ENV_FILE = ".env"
# Similarity from which a name counts as misspelt: it includes ERA5_AERA and ERA5_SOURC, but not a user's own ERA5_DATA
# or ERA5_URL.
_SIMILARITY = 0.86


def _absolute(path: Path) -> Path:
    return path.expanduser().absolute()


def _known_dataset(name: str) -> str:
    try:
        return dataset_named(name).name
    except UsageError:
        raise PydanticCustomError("dataset", "Input should be {names}", {"names": " or ".join(DATASETS)}) from None


def _known_source(name: str) -> str:
    if name not in source_kinds.SOURCE_KINDS:
        raise PydanticCustomError("source", "Input should be {names}", {"names": source_kinds.names_of()})
    return name


def _known_sources(text: str) -> str:
    """One source, or services that continue each other, without blanks between them."""
    names = [_known_source(name.strip()) for name in text.split(",")]
    if len(names) > 1 and not all(source_kinds.SOURCE_KINDS[name].is_service for name in names):
        services = source_kinds.names_of(services=True)
        raise PydanticCustomError("sources", "Of several, each should be {names}", {"names": services})
    return ",".join(dict.fromkeys(names))


def _written_as(pattern: str, form: str) -> AfterValidator:
    """Check that an address matches the pattern; `form` says how it is written."""

    def checked(address: str) -> str:
        if not re.fullmatch(pattern, address):
            raise PydanticCustomError("address", "Input should be {form}", {"form": form})
        return address

    return AfterValidator(checked)


def _zarr_address(address: str) -> str:
    # Nothing of the address in the message: it may hold a key.
    scheme, found, rest = address.partition("://")
    if found and "@" in rest.partition("/")[0]:
        raise PydanticCustomError(
            "zarr", "The address has a user or key; write the key into a file: ERA5_ZARR_TOKEN_FILE, ERA5_ZARR_USER"
        )
    if found and scheme != S3_SCHEME.removesuffix("://") and ("?" in rest or "#" in rest):
        raise PydanticCustomError("zarr", "The address has a part after ? or #, which may be a key; give it without")
    return address


_SCHEDULER = _written_as(r"(tcp|tls|ws|wss)://[^/\s]+:\d{1,5}/?", "tcp://HOST:PORT or tls://HOST:PORT")
_CATALOG = _written_as(r"https?://[^\s/?]+(/[^\s?]*)?(\?\S*)?", "http://HOST[:PORT][/PATH] or https://...")
# A source name from `SOURCE_KINDS`.
SourceName = Annotated[str, AfterValidator(_known_source)]


class Settings(BaseSettings):
    """All settings. The field `name` is read from `ERA5_NAME`."""

    model_config = SettingsConfigDict(
        env_prefix=_PREFIX, env_file=_ENV_FILE, extra="ignore", frozen=True, env_ignore_empty=True
    )

    home: Annotated[Path, AfterValidator(_absolute)] = Field(
        default=Path(".era5"), validate_default=True, description="Folder of files and of the embedded server"
    )
    store: str | None = Field(
        default=None,
        description="Folder or s3://bucket/prefix of raw and flat files that every executor sees; unset: ERA5_HOME",
    )
    store_patience_seconds: float = Field(
        default=120.0, ge=0, description="How long a run waits for a store on S3 that does not answer"
    )
    lake: str | None = Field(
        default=None,
        description="Folder or s3://bucket/prefix of an Iceberg table that loads fill too; unset: none",
    )
    lake_catalog: Annotated[str, _CATALOG] | None = Field(
        default=None, description="URL of an Iceberg REST catalog that is updated after each load; unset: none"
    )
    lake_catalog_token_file: Path | None = Field(
        default=None, description="File that holds the token for the REST catalog, if it wants one"
    )
    keep: Keep = Field(default="all", description="Files of a loaded month that are kept: all, flat (no raw) or none")
    database_url: SecretStr | None = Field(
        default=None, description="postgresql:// URL of the warehouse; unset: the embedded server"
    )
    fetch_database_url: SecretStr | None = Field(
        default=None, description="URL for loads that --fetch starts; unset: ERA5_DATABASE_URL"
    )
    database_password_file: Path | None = Field(
        default=None, description="File that holds the password for database URLs without one, such as a secret"
    )
    dagster_database_url: SecretStr | None = Field(
        default=None, description="URL of Dagster's database; unset: <warehouse>_dagster on the same server"
    )
    source: Annotated[str, AfterValidator(_known_sources)] | None = Field(
        default=None,
        description="Where months come from; of several, separated by commas, each month from the first that has it; "
        "unset: files if a folder is set, point if a point is, else cds",
    )
    files_dir: str | None = Field(
        default=None,
        description=f"Folder or s3://bucket/prefix of ERA5 files; several separated by {os.pathsep!r}",
    )
    dataset: Annotated[str, AfterValidator(_known_dataset)] = Field(
        default=ERA5.name, description=f"Data set: {' or '.join(DATASETS)}"
    )
    variables: str | None = Field(
        default=None,
        description="Variables to load, separated by commas; unset: those of the six default ones that exist",
    )
    strict_variables: bool = Field(
        default=False, description="Refuse a month that lacks any of the variables, also of `default` and `all`"
    )
    area: str | None = Field(default=None, description="NORTH/WEST/SOUTH/EAST in degrees, or global")
    point: str | None = Field(
        default=None, description="Source point: LAT/LON in degrees; several points separated by blanks"
    )
    format: FlatFormat = Field(default="parquet", description="File format of flat months")
    allow_incomplete: bool = Field(default=False, description="Load months that lack hours")
    sparse_hours: bool = Field(
        default=False,
        description="Source files: one value a day or a month, always at the same hour, is an hour, not a mean",
    )
    off_grid: OffGrid = Field(
        default="refuse",
        description="Source files: values between the grid points are refused, or taken to the nearest points",
    )
    trust_files: bool = Field(
        default=False,
        description="Source files: take your word that the values are hourly ones of ERA5, not that of the files",
    )
    accumulation: Accumulation | None = Field(
        default=None,
        description="Source files, ERA5-Land: amounts are sums since 00 UTC (day) or of hours, where files do not tell",
    )
    force: bool = Field(default=False, description="Load months again even if nothing changed")
    replace: bool = Field(
        default=False, description="Let a load replace more hours, more variables, or a better version"
    )
    sample_hours: int | None = Field(
        default=None, ge=1, le=744, description="Source sample: only the first hours of each month"
    )
    refetch: bool = Field(
        default=False, description="Sources cds, arco, point, zarr: fetch months again, even if they are stored here"
    )
    cds_format: Literal["netcdf", "grib"] = Field(
        default="netcdf", description="Source cds: the format of its files; GRIB needs the extra era5-pipeline[grib]"
    )
    cds_poll_seconds: float = Field(
        default=60.0,
        gt=0,
        le=3600,
        description="Sources cds, point: longest interval between two checks of a queued request",
    )
    cds_retry_seconds: float = Field(
        default=30.0,
        gt=0,
        le=3600,
        description="Sources cds, point: delay before the first retry; it doubles up to half an hour",
    )
    cds_patience_hours: float = Field(
        default=168.0, gt=0, description="Sources cds, point: how long a run waits for an answer, including the queue"
    )
    arco_url: str = Field(
        default=ARCO_URL, description="Source arco: address of the Zarr store, a folder, s3://, gs://, https://"
    )
    earthmover_url: Annotated[str, AfterValidator(_zarr_address)] = Field(
        default=EARTHMOVER_URL,
        description="Source earthmover: address of the Icechunk repository, without a group: icechunk+s3://, "
        "icechunk+file://, icechunk+https://",
    )
    zarr_url: Annotated[str, AfterValidator(_zarr_address)] | None = Field(
        default=None,
        description="Source zarr: address of the Zarr store, a folder, s3://, gs://, https://, icechunk+...; or a "
        "preset",
    )
    zarr_token_file: Annotated[Path, AfterValidator(_absolute)] | None = Field(
        default=None, description="Source zarr: file that holds the token for the store, if it wants one"
    )
    zarr_user: str | None = Field(
        default=None, description="Source zarr: user that the token belongs to; unset: the token alone is sent (Bearer)"
    )
    available_after_days: int = Field(
        default=6, ge=0, le=60, description="Schedules: days from the end of a month until it is fetched"
    )
    revise_after_months: int = Field(
        default=3,
        ge=0,
        le=24,
        description="Schedules: months from the end of a month until its preliminary hours are fetched again",
    )
    dask_scheduler: Annotated[str, _SCHEDULER] | None = Field(
        default=None, description="Address of a Dask scheduler whose workers flatten; unset: this process does"
    )
    order: Order = Field(default="newest", description="Which months of a backfill the daemon runs first")
    workers: int = Field(
        default=1, ge=1, le=64, description="Connections that load one month in parallel, if the layout allows it"
    )
    batches: Literal["auto", "off"] = Field(
        default="auto",
        description="Columnstore: load finished batches if its version is known (auto), or always rows (off)",
    )
    lock_timeout_seconds: int = Field(
        default=600, ge=0, description="How long a load waits for another load of the same month, or for a lock"
    )
    alert_url: SecretStr | None = Field(
        default=None, description="Where failed runs are reported, as JSON by POST; unset: nowhere"
    )
    ui_url: str | None = Field(default=None, description="Address of the web UI, for links to a failed run")
    allowed_hosts: str | None = Field(
        default=None,
        description="era5 serve and the web UI: host names to answer to, in addition to localhost, separated by commas",
    )
    serve_connections: int = Field(
        default=8, ge=1, le=100, description="era5 serve: connections, and so requests at once, of one process"
    )
    serve_waiting_requests: int = Field(
        default=200, ge=0, le=10_000, description="era5 serve: how many more requests may wait, in one process"
    )
    serve_wait_seconds: float = Field(
        default=5.0, gt=0, le=600, description="era5 serve: how long a request waits for its turn"
    )
    serve_statement_seconds: float = Field(
        default=30.0, gt=0, le=3600, description="era5 serve: how long a statement may take"
    )
    serve_values: int = Field(default=5_000_000, ge=1, description="era5 serve: values that one answer may have")

    @property
    def source_name(self) -> SourceName:
        """The chosen source, of several the first; if unset: as `source_names`."""
        return self.source_names[0]

    @property
    def source_names(self) -> tuple[SourceName, ...]:
        """The chosen sources; if unset: `files` with a folder set, `point` with a point set, otherwise `cds`."""
        unset = source_kinds.SOURCE_OF_POINTS if self.point else source_kinds.DEFAULT_SOURCE
        return tuple((self.source or (source_kinds.SOURCE_OF_FOLDERS if self.files_dir else unset)).split(","))

    def of_source(self, name: SourceName) -> Settings:
        """The same settings with one of several sources. A source of points is asked for those of the area."""
        update: dict[str, Any] = {"source": name}
        if source_kinds.SOURCE_KINDS[name].is_series and self.wanted_area is not None and len(self.source_names) > 1:
            ids = LocationSet.of_area(self.wanted_area).ids().tolist()
            update |= {"area": "global", "point": points_text(map(self.wanted_dataset.grid.location, ids))}
        return self.model_copy(update=update)

    @property
    def files_dirs(self) -> tuple[Path, ...]:
        """The folders of the source `files`, absolute."""
        return tuple(_absolute(Path(part)) for part in self._files_places if not part.startswith(S3_SCHEME))

    @property
    def files_buckets(self) -> tuple[str, ...]:
        """The S3 addresses of the source `files`."""
        return tuple(part for part in self._files_places if part.startswith(S3_SCHEME))

    @property
    def _files_places(self) -> tuple[str, ...]:
        return split_places(self.files_dir or "")

    @property
    def allowed_host_names(self) -> tuple[str, ...]:
        """The names in `ERA5_ALLOWED_HOSTS`, as written."""
        return tuple(name.strip() for name in (self.allowed_hosts or "").split(",") if name.strip())

    @property
    def store_address(self) -> str | None:
        """The store of files: an absolute folder, or an address with a scheme; None without a store."""
        return _folder_or_address(self.store)

    @property
    def lake_address(self) -> str | None:
        """The lake: an absolute folder, or an address with a scheme; None without a lake."""
        return _folder_or_address(self.lake)

    @property
    def wanted_dataset(self) -> Dataset:
        """The data set to load and read."""
        return dataset_named(self.dataset)

    @property
    def files_home(self) -> Path:
        """The folder of the data set's raw and flat files, records and locks: for ERA5 `home`, else one below it."""
        return self.home if self.wanted_dataset == ERA5 else self.home / self.dataset

    @property
    def wanted_variables(self) -> tuple[Variable, ...] | None:
        """The variables to load, in table order; None means the default ones that the source has."""
        choice = self.variable_choice
        return None if choice is None else choice.variables

    @property
    def variables_to_load(self) -> tuple[Variable, ...]:
        """The requested variables, or the default ones of the data set."""
        return self.wanted_variables or self.wanted_dataset.catalogue.default_variables

    @property
    def variable_choice(self) -> VariableChoice | None:
        """The requested variables, and how strictly; None means the default ones that the source has."""
        choice = self.wanted_dataset.catalogue.choose(self.variables, strict=self.strict_variables)
        names = {name.strip() for name in (self.variables or "").split(",")}
        if ALL_NAME in names and not source_kinds.source_kind(self.source_name).has_own_files:
            raise UsageError(
                f"--variables all loads what your own files hold: the source {self.source_name} has every variable of "
                "the catalogue",
                remedy=f"Name those that you want: --variables default,u100,v100 (era5 variables lists them); "
                f"or load files: --source {source_kinds.SOURCE_OF_FOLDERS} --files-dir DIR.",
            )
        return choice

    @property
    def wanted_area(self) -> Area | None:
        """The requested area; None means everything the source has."""
        return Area.parse(self.area, self.wanted_dataset.grid) if self.area else None

    @property
    def wanted_points(self) -> tuple[Location, ...]:
        """The grid points to request; empty for sources that are not asked for points."""
        if not source_kinds.source_kind(self.source_name).is_series:
            return ()
        points = self.wanted_dataset.grid.parse_points(self.point or "")
        if not points:
            raise UsageError(
                f"the source {self.source_name} needs a point",
                remedy="Give --place NAME, or --lat and --lon; or set ERA5_POINT=LAT/LON, for example -6.25/106.75.",
            )
        if self.wanted_area not in (None, Area.parse("global", self.wanted_dataset.grid)):
            raise UsageError(
                f"the source {self.source_name} takes points, but an area is given too ({self.area})",
                remedy="Leave out the area (--area, ERA5_AREA); or load it from another source: --source cds.",
            )
        return points

    @property
    def wanted_locations(self) -> LocationSet | None:
        """The locations of the requested area or points; None means everything the source has."""
        if points := self.wanted_points:
            return LocationSet.of_ids([point.location_id for point in points], points[0].grid)
        area = self.wanted_area
        return None if area is None else LocationSet.of_area(area)


def _folder_or_address(given: str | None) -> str | None:
    return given if given is None or "://" in given else str(_absolute(Path(given)))


def split_places(places: str) -> tuple[str, ...]:
    """Split `ERA5_FILES_DIR` into folders and S3 addresses."""
    return tuple(part for part in _SEPARATOR.split(places) if part)


def read_settings(**overrides: object) -> Settings:
    """Read the settings from the environment and `.env`; `overrides` that are not None take precedence.

    A misspelt one is refused: ignoring it could cost hours of loading the wrong area.
    """
    given = tuple((name, value) for name, value in overrides.items() if value is not None)
    return _settings(_surroundings(), given)


def _surroundings() -> tuple[object, ...]:
    """All that settings depend on: the folder, the user's, the variables, and `.env`."""
    variables = sorted(item for item in os.environ.items() if item[0].upper().startswith(_PREFIX))
    folder, env_file = None, Path(_ENV_FILE)
    with suppress(FileNotFoundError):  # a daemon's folder may have been removed
        folder = Path.cwd()
    return folder, os.environ.get("HOME"), tuple(variables), env_file.read_bytes() if env_file.is_file() else None


# A month of a load reads them nine times, of 2.5 ms each.
@lru_cache(maxsize=16)
def _settings(_: tuple[object, ...], given: tuple[tuple[str, object], ...]) -> Settings:
    _require_no_misspelt()
    try:
        return Settings(**dict(given))  # type: ignore[arg-type]
    except ValidationError as error:
        # Only the setting's name and the reason: the rejected value might hold a password.
        problems = "; ".join(f"ERA5_{'_'.join(map(str, e['loc'])).upper()}: {e['msg']}" for e in error.errors())
        raise UsageError(
            f"settings: {problems}", remedy="Correct it in the environment or in .env (see .env.example)."
        ) from None


def _require_no_misspelt() -> None:
    known = [f"{_PREFIX}{name.upper()}" for name in Settings.model_fields]
    given = {name.upper() for name in (*os.environ, *dotenv_values(_ENV_FILE)) if name.upper().startswith(_PREFIX)}
    for name in sorted(given - set(known)):
        if meant := difflib.get_close_matches(name, known, n=1, cutoff=_SIMILARITY):
            raise UsageError(
                f"{name} is not a setting", remedy=f"Did you mean {meant[0]}? .env.example lists all settings."
            )
