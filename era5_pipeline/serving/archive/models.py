"""Models of an answer: data sets of the warehouse by the names, and numbers, that Open-Meteo has for them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from era5_pipeline.model.dataset import DATASETS
from era5_pipeline.model.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from era5_pipeline.model.dataset import Dataset
    from era5_pipeline.serving.archive.hourly import ArchiveVariable

# The data set that the server answers from if none is named.
BEST_MATCH = "best_match"


def model_name(dataset: Dataset) -> str:
    """Open-Meteo's name of a data set."""
    return dataset.name.replace("-", "_")


_BY_NAME = {model_name(dataset): dataset for dataset in DATASETS.values()}
MODEL_NAMES = (*_BY_NAME, BEST_MATCH)
# Earlier names are those of today after this word.
_EARLIER = "copernicus_"
# Numbers in the published schema (see `names`); 0 is that of no model.
_NUMBERS = {"era5": 27, "era5_land": 29}


@dataclass(frozen=True)
class Model:
    """A data set by the requested name, with which the names of variables end if several models are asked for."""

    name: str = field(compare=False)
    dataset: Dataset

    @property
    def number(self) -> int:
        """Its number in FlatBuffers."""
        return _NUMBERS.get(model_name(self.dataset), 0)

    def has(self, variable: ArchiveVariable) -> bool:
        """Return True if the data set has the columns behind a variable."""
        return not self.lacks(variable)

    def lacks(self, variable: ArchiveVariable) -> list[str]:
        """The columns behind a variable that the data set does not have."""
        return [column for column in variable.columns if column not in self.dataset.catalogue.by_column]


def models_named(names: Iterable[str], default: Dataset) -> tuple[Model, ...]:
    """The models of these names, each once; without any, that of the default data set.

    Raises:
        UsageError: if one is not here.
    """
    return tuple(_model(name, default) for name in dict.fromkeys(names)) or (Model(BEST_MATCH, default),)


def _model(name: str, default: Dataset) -> Model:
    if name == BEST_MATCH:
        return Model(name, default)
    dataset = _BY_NAME.get(name.removeprefix(_EARLIER))
    if dataset is None:
        raise UsageError(
            f"The model {name} is not available",
            remedy=f"Leave models out, or set it to {', '.join(MODEL_NAMES[:-1])} or {MODEL_NAMES[-1]}.",
        )
    return Model(name, dataset)


def require_variables(models: Iterable[Model], variables: Iterable[tuple[str, ArchiveVariable]]) -> None:
    """Require that a model has each of these variables, given with the requested name; others may lack it."""
    models = tuple(models)
    for name, variable in variables:
        if not any(model.has(variable) for model in models):
            lacking = models[0].lacks(variable)
            raise UsageError(
                f"The variable {name} is not available: {models[0].dataset.short_title} has no {' or '.join(lacking)}",
                remedy=f"Leave it out, or ask for another model of {', '.join(_BY_NAME)}.",
            )
