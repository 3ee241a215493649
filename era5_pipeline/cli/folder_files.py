"""Report on the files of the user's folders: months that are refused before a run, files passed over, and counts."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import typer

from era5_pipeline.cli.output import by_cause, grouped_problems, one_line
from era5_pipeline.model.errors import Era5Error, InputError, RefusedError
from era5_pipeline.model.months import Month, spans
from era5_pipeline.model.settings import Settings, read_settings
from era5_pipeline.netcdf.recognise import counts_text
from era5_pipeline.sources.open_source import own_files_of
from era5_pipeline.sources.source import FolderUse, Refusal

if TYPE_CHECKING:
    from era5_pipeline.netcdf.contents import Problem
    from era5_pipeline.sources.files import FilesSource

# The most problems with one remedy that are told.
_SHOWN_PROBLEMS = 10
# The most months that lack hours whose hours are told.
_SHOWN_LACKING = 5
_ENDS = ("used", "unchanged", "failed", "refused", "not tried", "passed over", "ignored", "not asked for")


@dataclass
class FolderReport:
    """The files of the user's folders that a load uses, refuses and passes over; all empty for other sources.

    `refused` says, by position in the list of months, why a month is not run: known from the headers of the files.
    Months that lack hours are among them once it is known which months are unchanged; see `refuse_lacking`.
    """

    use: FolderUse = field(default_factory=FolderUse)
    refused: dict[int, tuple[Refusal, ...]] = field(default_factory=dict)
    _months: Sequence[Month] = ()
    _sources: "Sequence[FilesSource | None]" = ()

    @classmethod
    def of(
        cls,
        settings: Settings,
        wanted: Sequence[tuple[Month, Mapping[str, Any]]],
        asked: Collection[Month] | None = None,
    ) -> "FolderReport":
        """Look at the files for these months, each with its overrides of the settings; see `cli.run_months`."""
        months = [month for month, _ in wanted]
        source = own_files_of(settings)
        sources: dict[frozenset[tuple[str, Any]], FilesSource | None] = {}
        refused, of_position = {}, []
        for position, (month, overrides) in enumerate(wanted):
            key = frozenset(overrides.items())
            if key not in sources:
                own = read_settings(**overrides)
                # A source lists its folders once.
                sources[key] = source if own == settings else own_files_of(own)
            of_month = sources[key]
            of_position.append(of_month)
            if of_month is not None and (found := of_month.refusals(month)):
                refused[position] = found
        use = FolderUse() if source is None else source.use(months if asked is None else asked, months)
        return cls(use, refused, months, of_position)

    def refuse_lacking(self, unchanged: Collection[Month]) -> None:
        """Refuse the months that lack hours, but for those unchanged; print the first of them, and which they are."""
        found: dict[int, RefusedError] = {}
        for position, (month, source) in enumerate(zip(self._months, self._sources, strict=True)):
            if position in self.refused or month in unchanged or source is None:
                continue
            if (error := source.lacking_hours(month)) is not None:
                found[position] = error
        if not found:
            return
        self.refused |= {position: (Refusal(error),) for position, error in found.items()}
        errors = list(found.values())
        lines = [f"era5: {error.message}" for error in errors[:_SHOWN_LACKING]]
        if more := sorted(self._months[position] for position in list(found)[_SHOWN_LACKING:]):
            lines.append(f"      and {len(more):,} more months that lack hours: {spans(more, shown=3)}")
        typer.echo("\n".join([*lines, f"      {errors[0].remedy}"]), err=True)

    def print_reasons(self) -> None:
        """Print why months are refused and files are passed over: each reason once, with its files and months."""
        of_problem: dict[Problem, set[str]] = {}
        by_remedy: dict[str, list[tuple[Month, str]]] = {}
        for position, refusals in self.refused.items():
            month = self._months[position]
            for refusal in refusals:
                if refusal.problem is not None:
                    of_problem.setdefault(refusal.problem, set()).add(str(month))
                else:
                    by_remedy.setdefault(refusal.error.remedy, []).append((month, refusal.error.message))
        # Of files of many years, only the months that were asked for.
        _print_problems((replace(one, months=tuple(sorted(of))) for one, of in of_problem.items()), "not loaded")
        texts = ((f"era5: {text}", remedy) for remedy, said in by_remedy.items() for text in by_cause(said))
        for text in grouped_problems(texts):
            typer.echo(text, err=True)
        others = [problem for _, problem in self._untold]
        ends = ("passed over", "ignored") if self._months else ("not loaded", "not loaded")
        _print_problems((one for one in others if one.kind != "nothing"), ends[0])
        _print_problems((one for one in others if one.kind == "nothing"), ends[1])

    @property
    def _untold(self) -> "list[tuple[str, Problem]]":
        """The files that are passed over, but for those that refuse a month."""
        told = [refusal.error.message for refusals in self.refused.values() for refusal in refusals]
        return [(path, one) for path, one in self.use.passed_over if not any(str(one) in text for text in told)]

    def print_counts(self, states: Mapping[Month, str]) -> None:
        """Print how many files ended how, unless all were used or are unchanged; `states` are those of months run."""
        found: dict[str, str] = {}
        of_months = {**{self._months[position]: "refused" for position in self.refused}, **states}
        for state in ("used", "unchanged", "failed", "refused", "not tried"):
            for month, files in self.use.by_month.items():
                if of_months.get(month, "not tried") == state:
                    for path in files:
                        found.setdefault(path, state)
        for path, problem in self.use.passed_over:
            found.setdefault(path, "passed over" if problem.kind != "nothing" else "ignored")
        for path in self.use.files:
            found.setdefault(path, "not asked for")
        ends = list(found.values())
        said = ", ".join(f"{count:,} {end}" for end in _ENDS if (count := ends.count(end)))
        others = f"not read, in other formats: {counts_text(self.use.others)}" if self.use.others else ""
        if others or not set(ends) <= {"used", "unchanged"}:
            typer.echo("; ".join(filter(None, (f"era5: data files: {said or 'none'}", others))), err=True)

    @cached_property
    def code(self) -> int:
        """The exit code of refused months; 0 if there are none."""
        return next((one.error.exit_code for refusals in self.refused.values() for one in refusals), 0)

    @cached_property
    def code_of_passed_over(self) -> int:
        """The exit code of files that are passed over: that of input files if one may hold variables of ERA5."""
        return InputError.exit_code if any(one.may_be_era5 for _, one in self.use.passed_over) else 0

    def errors_of(self, position: int) -> tuple[Era5Error, ...]:
        """The errors of a refused month."""
        return tuple(refusal.error for refusal in self.refused[position])

    def passed_over_as_json(self) -> list[dict[str, Any]]:
        """A JSON object for each problem of a file that is passed over."""
        return [
            {
                "month": None,
                "state": "passed over" if problem.kind != "nothing" else "ignored",
                "file": path,
                "months": list(problem.months),
                "errors": [{"message": str(problem), "remedy": problem.remedy, "exit_code": InputError.exit_code}],
            }
            for path, problem in self._untold
        ]


def _print_problems(problems: Iterable["Problem"], end: str) -> None:
    problems = list(problems)
    if not problems:
        return
    from era5_pipeline.netcdf.contents import together  # slow to import, and other sources have no such problems

    told: dict[str, list[str]] = {}
    for problem in together(problems):
        months = f", {spans([Month.parse(month) for month in problem.months], shown=3)}" if problem.months else ""
        told.setdefault(problem.remedy, []).append(f"era5: {one_line(str(problem))} ({end}{months})")
    for remedy, texts in told.items():
        more = len(texts) - _SHOWN_PROBLEMS
        lines = texts[:_SHOWN_PROBLEMS] + ([f"      and {more:,} more of this kind"] if more > 0 else [])
        typer.echo("\n".join([*lines, f"      {remedy}"]), err=True)
