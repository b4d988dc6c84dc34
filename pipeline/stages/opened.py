"""A run opened for reading, with pandas frames for what the command line prints.

Every method calls the function that the command of its name calls; nothing is computed here.
"""

import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pipeline.config.options import Settings
from pipeline.querying.plan import Consent, nobody
from pipeline.run.folder import Run, settings_of
from pipeline.run.progress import Bars, Watch, unwatched
from pipeline.run.record import RunError
from pipeline.run.tables import read_frame
from pipeline.stages.audit import ask_again, estimate_again
from pipeline.stages.classifiers import adapter_names, made_adapters

if TYPE_CHECKING:
    import pandas as pd

    from pipeline.stages.classifiers import Classifier

    Tables = pd.DataFrame | dict[str, pd.DataFrame]

STAGE_COUNTS = ("planned", "ok", "failed", "excluded")


class RunView:
    """A run that was opened for reading: its tables as pandas frames, and what can be made of them.

    Args:
        folder: the run's.

    Raises:
        RunError: the folder holds no run.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        settings_of(Run(self.folder))

    def __repr__(self) -> str:
        return f"open_run({str(self.folder)!r})"

    @property
    def settings(self) -> Settings:
        """The options that the run was made with, or was last estimated with."""
        return settings_of(self._run)

    def status(self) -> "pd.DataFrame":
        """One row a stage: stage, state, planned, ok, failed, excluded, seconds, peak_mib."""
        import pandas as pd

        from pipeline.stages.run_view import summary

        rows = [
            {"stage": name, "state": stage["state"]}
            | {count: stage["counts"].get(count) for count in STAGE_COUNTS}
            | {"seconds": stage["seconds"], "peak_mib": stage["peak_mib"]}
            for name, stage in summary(self.folder)["stages"].items()
        ]
        return pd.DataFrame(rows).astype(dict.fromkeys(STAGE_COUNTS, "Int64"))

    def photos(self) -> "pd.DataFrame":
        """One row a photo that was given: status, reason, size and the manifest's columns (``photos.parquet``)."""
        return self._table("photos.parquet")

    def faces(self) -> "pd.DataFrame":
        """One row a usable photo: its face's box, landmarks and estimated attributes (``faces.parquet``)."""
        return self._table("faces.parquet")

    def versions(self) -> "pd.DataFrame":
        """One row a counterfactual version: file, value a and the checks of the edit (``counterfactuals.parquet``)."""
        return self._table("counterfactuals.parquet")

    def labels(self) -> "pd.DataFrame":
        """One row a label of a version: adapter, attribute, arm, photo, step, value, label, score in 0-1, returned."""
        return self._table("labels.parquet")

    def findings(self, *, max_p: float | None = None, min_slope: float | None = None) -> "pd.DataFrame":
        """The rows of ``slopes`` with p < ``max_p`` and |slope| > ``min_slope``, and their ``direction`` (-1 or 1).

        Placebos' rows are among them, in their own ``arm``; thresholds are the run's unless given.
        """
        from pipeline.statistics import findings

        rule = self.settings.statistics
        return findings(
            self.slopes(),
            max_p=rule.max_p if max_p is None else max_p,
            min_slope=rule.min_slope if min_slope is None else min_slope,
        )

    def curves(self) -> "pd.DataFrame":
        """The curves of every label: value a, rate y, normalised rate z with its 95 % band z_low to z_high."""
        return self._result("curves")

    def validity(self) -> "pd.DataFrame":
        """The validity card, one row a check: attribute, name, figure, unit, threshold, passed, words."""
        return self._result("validity")

    def table(
        self,
        format: Literal["latex", "csv", "md", "html", "json", "text"] = "latex",
        *,
        adapters: Sequence[str] = (),
        attributes: Sequence[str] = (),
        max_p: float | None = None,
        min_slope: float | None = None,
    ) -> str:
        """The findings as text in the layout of the published tables, as ``counterslope slopes RUN --format`` prints.

        Example:
            >>> Path("table.tex").write_text(open_run("runs/portraits").table("latex"))

        Raises:
            RunError: the run has no slopes, or not what was named.
            ValueError: there is no such format.
        """
        from pipeline.report.tables import RENDERERS
        from pipeline.stages.run_view import findings_of

        if format not in RENDERERS:
            raise ValueError(f"there is no format {format!r}; there are {', '.join(RENDERERS)}")
        found = findings_of(self._run, adapters=adapters, attributes=attributes, max_p=max_p, min_slope=min_slope)
        return RENDERERS[format](found)

    def figures(
        self,
        out: str | Path | None = None,
        *,
        format: Literal["pdf", "svg", "png"] = "pdf",
        adapters: Sequence[str] = (),
        attributes: Sequence[str] = (),
        labels: Sequence[str] = (),
    ) -> list[Path]:
        """Draw the run's figures into a folder, a caption beside each, as ``counterslope figures``; the files.

        Args:
            out: the folder; ``figures`` in the run's unless given.
            format: "pdf", "svg" or "png".
            adapters, attributes: only these; all unless given.
            labels: whose curves; the strongest findings' unless given.

        Raises:
            RunError: the run has no slopes, or not what was named.
            ValueError: there is no such format, or more labels than one chart can tell apart.
        """
        from pipeline.stages.run_view import figures_of, write_figures

        found = figures_of(self._run, adapters=adapters, attributes=attributes, labels=labels)
        return write_figures(found, self.folder / "figures" if out is None else Path(out), format=format)

    def analyse(self, name: str, source: "str | Path | None" = None, *, keep: bool = False, **options: Any) -> "Tables":
        """Run an analysis by its name; ``run.NAME(...)`` is the same, such as ``run.power(width=0.1)``.

        Example:
            >>> run.amplification(base={"smile": 0.6}, base_group="feminine")

        Args:
            name: one of ``pipeline.analyses.registry``, as on the command line.
            source: a file with one row a photo, for analyses that read one; this run unless given.
            keep: leave the tables in this run, for its report, as the command does.
            options: of the analysis, by the names of the command's options.

        Returns:
            The table, or where there are several, name -> table; what to know about them is in ``attrs["notes"]``.

        Raises:
            RunError, ConfigError, InputError: the run, an option or a file does not fit; the message says what to do.
            ValueError: values that the measure cannot take.
        """
        from pipeline.analyses.registry import compute
        from pipeline.stages.audit import keep_result

        result = compute(name, self.folder if source is None else Path(source), options)
        if keep:
            keep_result(self.folder, name, result)
        return result.value

    def __getattr__(self, name: str) -> "Callable[..., Any]":
        """The analysis of that name as a method, with the options of the command as its arguments."""
        from pipeline.analyses.registry import analysis_names, method_of

        if name.startswith("_") or name not in analysis_names():
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return method_of(name, self.analyse)

    def __dir__(self) -> list[str]:
        from pipeline.analyses.registry import analysis_names

        return sorted({*super().__dir__(), *analysis_names()})

    def estimate(self, *, progress: bool = False, **options: Any) -> "RunView":
        """Estimate slopes and report anew with other options of ``[statistics]``, as ``counterslope report``; itself.

        Example:
            >>> run.estimate(min_slope=0.05, by="perceived").findings()

        Raises:
            RunError: the run has no labels, or another process works on it.
            ConfigError: an option is unknown or does not fit.
        """
        estimate_again(self.folder, changes={"statistics": options}, watch=shown(progress))
        return self

    def query(
        self,
        adapters: "Sequence[Classifier]",
        *,
        options: Mapping[str, Any] | None = None,
        send_faces: bool = False,
        progress: bool = False,
        only: bool = False,
        drop: Sequence[str] = (),
        retry: Literal["failed", "unreadable"] | None = None,
    ) -> "RunView":
        """Send these classifiers the versions that the run has, as ``counterslope query``; itself.

        Args:
            adapters: the classifiers; what they have answered is not sent again, and others of the run stay in it.
            options: of the section ``[query]``.
            only: classifiers that are not named now leave the run.
            drop: names of classifiers that leave the run.
            retry: "failed": also send again what was answered without labels; "unreadable": nothing else.
            send_faces: agree that faces are sent to the remote classifiers named.
            progress: show bars on standard error.

        Raises:
            RunError, ConfigError, AdapterError, PlanError: as ``audit``.
        """
        changes = {"query": {**(options or {}), "adapters": adapter_names(adapters)}}
        settings = settings_of(self._run, changes)
        ask_again(
            self.folder,
            changes=changes,
            adapters=made_adapters(adapters, settings, self.folder),
            watch=shown(progress),
            consent=agreed(send_faces),
            only=only,
            drop=drop,
            retry=retry,
        )
        return finished(self.folder)

    def report(self) -> Path:
        """The file ``report.html``, written anew as ``counterslope report`` does.

        Raises:
            RunError: the run has no labels, or another process works on it.
        """
        estimate_again(self.folder, changes={})
        return self.folder / "report.html"

    @property
    def _run(self) -> Run:
        """Opened each time, so that what another call has changed is seen."""
        return Run(self.folder)

    def _table(self, name: str) -> "pd.DataFrame":
        if not (self.folder / name).is_file():
            raise RunError(f"{self.folder} has no {name} (yet): finish the run with the command that made it")
        return read_frame(self.folder / name)

    def _result(self, name: str) -> "pd.DataFrame":
        return self._run.read_csv(name)


def finished(folder: Path) -> RunView:
    """A run that was just asked about; a classifier that stopped early is warned of."""
    from pipeline.stages.run_view import few_labels, stop_reasons

    for reason in (*stop_reasons(folder), *(words for words, _ in few_labels(folder))):
        warnings.warn(reason, UserWarning, stacklevel=3)
    return RunView(folder)


def shown(progress: bool) -> Watch:
    """Bars, or nothing."""
    return Bars() if progress else unwatched


def agreed(send_faces: bool) -> Consent:
    """Whoever calls from Python is asked nothing: they have agreed beforehand, or not."""
    return (lambda plan: True) if send_faces else nobody
