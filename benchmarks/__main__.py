"""Run the benchmarks: `python -m benchmarks run SUITE...` and `report`, which are `era5 bench run` and `report`."""

from benchmarks.commands import app
from era5_pipeline.cli import main

if __name__ == "__main__":
    main(command=app)
