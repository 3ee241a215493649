"""Dagster's daemon, started once everything that runs need is imported; run this module with `python -m`.

Otherwise the first run waits for the imports, and on a starved machine counts as one that could not be started.
"""

from importlib.metadata import entry_points

from era5_pipeline.defs.instance.run_launcher import import_in_advance


def main() -> None:
    """Import, then run `dagster-daemon` with the arguments of this process."""
    import_in_advance()
    (daemon,) = entry_points(group="console_scripts", name="dagster-daemon")
    daemon.load()()


if __name__ == "__main__":
    main()
