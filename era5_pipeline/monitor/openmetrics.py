"""Metrics as text in the OpenMetrics format, which Prometheus and node_exporter's textfile collector read.

Here: the format. Not here: the numbers (`warehouse_metrics`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

Labels = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class MetricFamily:
    """A metric with its samples, by labels; `unit` is the end of its name, empty if it is a number without a unit.

    Of types there are only these two: node_exporter refuses a whole file because of one that Prometheus' older format
    does not have, such as `info`.
    """

    name: str
    kind: Literal["gauge", "counter"]
    help: str
    samples: Mapping[Labels, float]
    unit: str = ""


def openmetrics_text(families: Iterable[MetricFamily]) -> str:
    """Write the metrics as text; those without a sample are left out."""
    lines = [line for family in families if family.samples for line in _lines_of(family)]
    return "\n".join([*lines, "# EOF", ""])


def _lines_of(family: MetricFamily) -> Iterable[str]:
    yield f"# TYPE {family.name} {family.kind}"
    if family.unit:
        yield f"# UNIT {family.name} {family.unit}"
    yield f"# HELP {family.name} {_escaped(family.help)}"
    suffix = "_total" if family.kind == "counter" else ""
    for labels, value in family.samples.items():
        written = ",".join(f'{name}="{_escaped(text)}"' for name, text in labels)
        yield f"{family.name}{suffix}{f'{{{written}}}' if written else ''} {_number(value)}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def _number(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return repr(value)
