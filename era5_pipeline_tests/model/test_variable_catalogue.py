"""The table of variables: each line is complete and possible, and no two are the same."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from era5_pipeline.flat.formats import KEYS
from era5_pipeline.model.variable_catalogue import QUANTITIES, VARIABLES, read_catalogue
from era5_pipeline_tests.commands import ROOT

if TYPE_CHECKING:
    from pathlib import Path

    from era5_pipeline.model.variable_type import Variable

TABLE = ROOT / "era5_pipeline" / "model" / "variables.csv"


def test_there_are_more_than_forty_and_the_default_ones_come_first() -> None:
    assert len(VARIABLES) > 40
    assert [variable.short_name for variable in VARIABLES[:6]] == ["t2m", "u10", "v10", "tcc", "tp", "sf"]


@pytest.mark.parametrize("variable", VARIABLES, ids=lambda v: v.short_name)
def test_every_entry_is_possible(variable: Variable) -> None:
    assert re.fullmatch(r"[a-z][a-z0-9_]{2,62}", variable.column)
    assert variable.column not in KEYS
    assert re.fullmatch(r"[a-z0-9_]+", variable.cds_name)
    assert variable.minimum < variable.maximum
    assert variable.scale > 0
    assert variable.param_id > 0
    assert variable.long_name
    assert variable.description[0].isupper()
    assert not variable.description.endswith(".")
    # One value of the table changes the checksum: its scale is finer than float32 at the bounds.
    greatest = max(abs(variable.minimum), abs(variable.maximum))
    assert greatest * variable.checksum_scale <= 2**29
    if variable.step_type == "accum":
        assert "accumulated over the hour that ends at the time" in variable.description
    elif variable.step_type != "instant":
        assert "of the hour that ends at the time" in variable.description
    assert variable.step_type == "instant" or variable.first_valid.hour == 7


def test_columns_names_and_numbers_are_there_once() -> None:
    for of in (
        [variable.column for variable in VARIABLES],
        [variable.cds_name for variable in VARIABLES],
        [variable.param_id for variable in VARIABLES],
        [variable.long_name.casefold() for variable in VARIABLES],
        [name for variable in VARIABLES for name in variable.names_in_files if name.islower()],
    ):
        assert [one for one, count in Counter(of).items() if count > 1] == []


def test_totals_and_rates_keep_their_convention() -> None:
    """Totals stay totals of the hour, mean rates stay rates: no column is both."""
    by_name = {variable.short_name: variable for variable in VARIABLES}
    assert (by_name["ssrd"].step_type, by_name["ssrd"].unit) == ("accum", "J/m2")
    assert (by_name["avg_sdswrf"].step_type, by_name["avg_sdswrf"].unit) == ("avg", "W/m2")
    assert (by_name["tp"].step_type, by_name["tp"].unit) == ("accum", "mm")
    assert (by_name["avg_tprate"].step_type, by_name["avg_tprate"].unit) == ("avg", "kg/m2/s")
    assert by_name["avg_tprate"].names_in_files == ("avg_tprate", "mtpr")
    assert (by_name["mn2t"].step_type, by_name["mn2t"].file_step_type) == ("min", "max")


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("t2m", -0.001, "0.00"),
        ("t2m", 13.268, "13.27"),
        ("tp", 0.0284, "0.028"),
        ("avg_tprate", 1.2345e-5, "1.23e-05"),
        ("tco3", 0.006543, "0.00654"),
        ("ssrd", 1403971.38, "1403971"),
        ("swvl1", 0.31415, "0.314"),
        ("msl", 1013.25, "1013.25"),
    ],
)
def test_values_are_rounded_for_reading_by_their_size(name: str, value: float, text: str) -> None:
    variable = next(variable for variable in VARIABLES if variable.short_name == name)
    assert variable.rounded(value) == text


def test_every_quantity_is_used() -> None:
    lines = TABLE.read_text(encoding="utf-8").splitlines()[1:]
    assert {name for name in QUANTITIES if any(f",{name}," in line for line in lines)} == set(QUANTITIES)


@pytest.mark.parametrize(
    ("was", "is_", "said"),
    [
        ("instant,analysis", "instantly,analysis", "'instantly' is none of instant, accum"),
        ("instant,analysis", "instant,reanalysis", "'reanalysis' is none of analysis, forecast"),
        (",everywhere,", ",nowhere,", "'nowhere' is none of everywhere, sea"),
    ],
)
def test_a_line_with_an_unknown_word_is_refused(tmp_path: Path, was: str, is_: str, said: str) -> None:
    lines = TABLE.read_text(encoding="utf-8").splitlines()[:2]
    (tmp_path / "variables.csv").write_text("\n".join(line.replace(was, is_) for line in lines) + "\n")
    with pytest.raises(ValueError, match=said):
        read_catalogue(tmp_path / "variables.csv")
