"""A run opened for reading, with pandas frames for what the command line prints.

Every method calls the function that the command of its name calls; nothing is computed here.
"""

import warnings
from collections.abc import Mapping, Sequence
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

    def slopes(self) -> "pd.DataFrame":
        """One row an adapter, attribute, arm and label: slope, interval, p, q, or the reason why there is none.

        Raises:
            RunError: the run has not got that far.
        """
        return self._result("slopes")

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

    def amplification(
        self,
        *,
        base: Mapping[str, float] | None = None,
        base_group: str | None = None,
        observed: tuple[str, Sequence[str]] | None = None,
        tasks: Mapping[str, str] | None = None,
        values: Sequence[tuple[float, float]] = (),
        **options: Any,
    ) -> "pd.DataFrame":
        """Directional bias amplification with the attribute intervened on, as ``counterslope amplification RUN``.

        Example:
            >>> run.amplification(base={"smile": 0.6}, base_group="feminine")

        Args:
            base: task -> share of ``base_group``, which gives each task its sign.
            base_group: what one end of the sweep is called, such as "feminine".
            observed: in place of a base, manifest columns: of the group, and of the tasks.
            tasks: label -> task; every label is its own task unless given.
            values: pairs of values a to compare; the ends of the sweep unless given.
            options: cluster, response, resamples, seed, level of ``intervening.amplification_of_run``.

        Raises:
            RunError, InputError: nothing fits, or something does not; the message says what.
        """
        from pipeline.analyses.run_amplification import amplification_of_run

        return amplification_of_run(
            self.folder,
            shares=base,
            share_group=base_group,
            observed=observed,
            tasks=tasks,
            values=values,
            **options,
        )

    def local(
        self,
        *,
        adapter: str | None = None,
        label: str | None = None,
        features: str | Path | None = None,
        centre: Literal["group", "none"] | None = None,
        **options: Any,
    ) -> "dict[str, pd.DataFrame]":
        """Clusters of similar faces in which a label's rate differs between groups, as ``counterslope local RUN``.

        Args:
            adapter, label: whose labels and which one; may be left out where there is one.
            features: a file; the judge's embedding of the faces unless given.
            centre: "group" for the judge's embedding unless given, else "none".
            options: of ``local_search.search`` and ``statistics.local_bias.local_bias``, such as clusters=5.

        Returns:
            Tables ``statistics``, ``clusters`` and ``exemplars``.

        Raises:
            RunError, InputError: no such adapter or label, or no labels yet.
            ValueError: an option does not fit, or there are too few faces.
        """
        from pipeline.analyses.local_bias import search
        from pipeline.analyses.local_rows import rows_of_run

        rows = rows_of_run(
            self.folder, adapter=adapter, label=label, features=None if features is None else Path(features)
        )
        return search(rows, centre=centre or ("group" if features is None else "none"), **options).tables

    def representation(
        self, by: str = "folder", *, method: Literal["wilson", "exact"] = "wilson", cluster: str | None = None
    ) -> "pd.DataFrame":
        """Shares of perceived gender and race by group, raw and corrected, as ``counterslope represent RUN``.

        Args:
            by: a manifest's column, or "folder".
            method: of the raw shares' intervals.
            cluster: a manifest's column whose photos belong together; then the intervals are the bootstrap's.

        Raises:
            RunError: the run's faces are not found yet.
            ConfigError: the manifest lacks a column.
        """
        from pipeline.analyses.representation import represented

        options = settings_of(self._run, {"statistics": {"cluster": cluster}}).statistics
        return represented(self._run, by=by, method=method, options=options).frame

    def compare(
        self, other: "RunView | str | Path | None" = None, *, adapters: Sequence[str] | None = None, **options: Any
    ) -> "pd.DataFrame":
        """Differences of slopes to another run, or between two adapters, as ``counterslope compare``.

        Args:
            other: a run on the same photos; this one unless given.
            adapters: one name for each side; adapters that both have unless given.
            options: cluster, min_count, family, in place of this run's.

        Raises:
            RunError: there is nothing to compare.
        """
        from pipeline.analyses.comparison import compare_runs

        second = other.folder if isinstance(other, RunView) else Path(other or self.folder)
        return compare_runs(self.folder, second, adapters=adapters, changes=options).frame

    def power(
        self,
        *,
        width: float = 0.05,
        slope: float | None = None,
        power: float = 0.8,
        max_p: float | None = None,
        **options: Any,
    ) -> "pd.DataFrame":
        """How many photos a run like this one needs, as ``counterslope power``.

        Args:
            width: wanted width of a slope's 95 % interval, end to end.
            slope, power, max_p: size of a slope to be found, with which probability, at which p.
            options: cluster, min_count, in place of the run's.
        """
        from pipeline.analyses.power import photos_needed

        return photos_needed(self.folder, width=width, slope=slope, power=power, max_p=max_p, changes=options).frame

    def estimate(self, *, progress: bool = False, **options: Any) -> "RunView":
        """Estimate slopes and report anew with other options of ``[statistics]``, as ``counterslope slopes``; itself.

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
        from pipeline.stages.run_view import result_table

        return result_table(self._run, name)


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
