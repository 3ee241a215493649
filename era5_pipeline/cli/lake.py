"""`era5 lake`: a data set's months as an Iceberg table for other engines: where it is, if it is right, its upkeep."""

import json
from dataclasses import asdict
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from era5_pipeline.cli import options
from era5_pipeline.cli.output import ResultsCommand, print_line, terminal
from era5_pipeline.lake.open_lake import KEEP_DAYS, ORPHAN_HOURS, open_lake
from era5_pipeline.model.words import counted

if TYPE_CHECKING:
    from era5_pipeline.lake.months import Lake
    from era5_pipeline.model.errors import NoDataError

lake = typer.Typer(no_args_is_help=True, help="The lake (ERA5_LAKE): the same months as an Iceberg table.")

_JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@lake.command("path")
def path(*, dataset: options.Dataset = None) -> None:
    """Print the table's newest metadata file, which engines open without a catalog.

    \b
    Examples:
      era5 lake path
      era5 lake path --dataset era5-land
      duckdb -c "LOAD iceberg; SELECT count(*) FROM iceberg_scan('$(era5 lake path)')"
    """  # noqa: D301  # \b is meant: it keeps the examples on their own lines
    from era5_pipeline.model.settings import read_settings
    from era5_pipeline.postgres.connect import open_warehouse

    settings = read_settings(dataset=dataset)
    own = open_lake(settings)
    with open_warehouse(settings) as warehouse, warehouse.connect() as connection:
        table = own.open(connection)
    if table is None or table.current_snapshot() is None:
        raise _no_month_yet(own)
    print_line(table.metadata_location)


@lake.command("verify", cls=ResultsCommand)
def verify(
    *,
    from_: options.FirstMonth = None,
    to: options.LastMonth = None,
    dataset: options.Dataset = None,
    as_json: _JsonOption = False,
) -> None:
    """Compare the lake with the ledger, month by month: rows, and a digest of every value of every column.

    Exit code 4 if they differ.

    \b
    Examples:
      era5 lake verify
      era5 lake verify --from 2023-01 --to 2023-12
    """  # noqa: D301
    from era5_pipeline.cli.bars import stage_bars
    from era5_pipeline.model.dataset import dataset_option
    from era5_pipeline.model.errors import RefusedError
    from era5_pipeline.model.months import months_between
    from era5_pipeline.model.settings import read_settings
    from era5_pipeline.postgres.connect import open_warehouse

    settings = read_settings(dataset=dataset)
    own = open_lake(settings)
    from era5_pipeline.lake.upkeep import LakeVerifier, read_both

    wanted = None if from_ is None else set(months_between(from_, to))
    results = []
    with open_warehouse(settings) as warehouse, warehouse.connect() as connection:
        table, held = read_both(connection, own)
        verifier = LakeVerifier(own, table)
        for contents in held:
            if wanted is not None and contents.month not in wanted:
                continue
            with stage_bars(terminal(stderr=True), str(contents.month), "verify"):
                differences = verifier.differences(contents)
            results.append({"month": str(contents.month), "rows": contents.rows, "differences": list(differences)})
            if not as_json:
                for line in differences or (f"{contents.month}: {contents.rows:,} rows are equal",):
                    print_line(line)
    if as_json:
        print_line(json.dumps(results, indent=1))
    different = [result for result in results if result["differences"]]
    if different:
        first, option = different[0]["month"], dataset_option(own.place.dataset)
        raise RefusedError(
            f"the lake differs from the warehouse in {len(different)} of {len(results)} months",
            remedy=f"Load them again: era5 load{option} --from {first} --force."
            if any(result["rows"] for result in different)
            else f"The warehouse lacks them: era5 drop{option} --from {first} takes them out of the lake, too.",
        )


@lake.command("snapshots", cls=ResultsCommand)
def snapshots(*, dataset: options.Dataset = None, as_json: _JsonOption = False) -> None:
    """List the snapshots, by which earlier versions of months can be read: id, time, month, and what it brought.

    \b
    Examples:
      era5 lake snapshots
      era5 lake snapshots --json
    """  # noqa: D301
    from era5_pipeline.model.settings import read_settings
    from era5_pipeline.postgres.connect import open_warehouse

    settings = read_settings(dataset=dataset)
    own = open_lake(settings)
    from era5_pipeline.lake.snapshots import list_snapshots

    with open_warehouse(settings) as warehouse, warehouse.connect() as connection:
        table = own.open(connection)
    found = () if table is None else list_snapshots(table)
    if as_json:
        print_line(json.dumps([{**asdict(one), "made": one.made.isoformat()} for one in found], indent=1))
        return
    for one in found:
        what = "dropped" if one.version is None else f"{one.version}, from {one.source}"
        print_line(
            f"{one.snapshot_id}  {one.made:%Y-%m-%d %H:%M:%S}  {one.month}  {what}  "
            f"(then {counted(one.rows, 'row')}, {one.bytes:,} bytes)"
        )


@lake.command("publish", cls=ResultsCommand)
def publish(
    *,
    forget: Annotated[
        bool, typer.Option("--forget", help="Forget other catalogs that were told before, for era5 lake clean.")
    ] = False,
    dataset: options.Dataset = None,
    as_json: _JsonOption = False,
) -> None:
    """Send all months to the REST catalog of ERA5_LAKE_CATALOG, as each load does.

    \b
    Examples:
      era5 lake publish
      era5 lake publish --forget
    """  # noqa: D301
    from era5_pipeline.model.errors import UsageError
    from era5_pipeline.model.settings import read_settings
    from era5_pipeline.postgres.connect import open_connection

    settings = read_settings(dataset=dataset)
    own = open_lake(settings)
    if forget:
        from era5_pipeline.lake.pointer import forget_followers

        kept = None if own.follower is None else own.follower.shown
        with open_connection(settings, "forgetting") as connection:
            own.require(connection)
            for address in forget_followers(connection, but=kept):
                typer.echo(f"forgotten: {address}", err=True)
        if own.follower is None:
            return
    if own.follower is None:
        raise UsageError("there is no REST catalog", remedy="Name it: ERA5_LAKE_CATALOG=https://host/path.")
    with open_connection(settings, "reading the lake") as connection:
        done = own.publish(connection)
    if done is None:
        raise _no_month_yet(own)
    if as_json:
        print_line(json.dumps(asdict(done)))
        return
    print_line(
        f"{own.follower.shown}: {counted(done.snapshots, 'snapshot')}, {done.added} added, {done.removed} removed"
    )


@lake.command("clean", cls=ResultsCommand)
def clean(
    *,
    keep_days: Annotated[
        float, typer.Option("--keep-days", min=0, help="Keep the snapshots of the last DAYS days, for time travel.")
    ] = KEEP_DAYS,
    orphan_hours: Annotated[
        float,
        typer.Option("--orphan-hours", min=0, help="Keep files that belong to no snapshot for this many hours."),
    ] = ORPHAN_HOURS,
    remove_newer: Annotated[
        bool, typer.Option("--remove-newer", help="Remove files that are newer than the newest load of this database.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say which files would go now.")] = False,
    dataset: options.Dataset = None,
    as_json: _JsonOption = False,
) -> None:
    """Expire old snapshots, and remove files that belong to none: what they had, and what killed loads left behind.

    Files that a snapshot needed, or that were written, in the last --orphan-hours stay for readers and loads in
    progress: a later clean removes them.

    \b
    Examples:
      era5 lake clean --dry-run
      era5 lake clean --keep-days 7
    """  # noqa: D301
    from era5_pipeline.model.dataset import dataset_option
    from era5_pipeline.model.settings import read_settings
    from era5_pipeline.postgres.connect import open_connection

    settings = read_settings(dataset=dataset)
    own = open_lake(settings)
    from era5_pipeline.lake import upkeep

    with open_connection(settings, "cleaning the lake") as connection:
        done = upkeep.clean(
            connection,
            own,
            keep=timedelta(days=keep_days),
            orphans_after=timedelta(hours=orphan_hours),
            dry_run=dry_run,
            remove_newer=remove_newer,
        )
    if as_json:
        print_line(json.dumps(asdict(done)))
        return
    would = "would remove" if dry_run else "removed"
    print_line(
        f"{would} {counted(done.snapshots, 'snapshot')} and {counted(done.files, 'file')} with {done.bytes:,} bytes"
    )
    if done.waiting_files:
        print_line(
            f"{counted(done.waiting_files, 'file')} with {done.waiting_bytes:,} bytes "
            f"{'belongs' if done.waiting_files == 1 else 'belong'} to no snapshot, but not for {orphan_hours:g} hours "
            f"yet (--orphan-hours): era5 lake clean{dataset_option(own.place.dataset)} removes them after that"
        )


def _no_month_yet(own: "Lake") -> "NoDataError":
    from era5_pipeline.model.dataset import dataset_option
    from era5_pipeline.model.errors import NoDataError

    return NoDataError(
        "the lake has no month yet",
        remedy=f"Load one, with ERA5_LAKE set: era5 load{dataset_option(own.place.dataset)}.",
    )
