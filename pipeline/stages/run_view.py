"""``RunView``: a run opened for reading, with pandas frames of what the command line prints.

Each method calls the function behind the command of the same name; nothing is computed here.
"""

import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pipeline.config.attributes import EDIT_ARM
from pipeline.config.options import Settings
from pipeline.querying.plan import Consent, no_consent
from pipeline.run.folder import Run, settings_of
from pipeline.run.progress import Bars, NotebookBars, Watch, in_notebook, unwatched
from pipeline.run.record import RunError
from pipeline.run.tables import read_frame
from pipeline.stages.adapters import adapter_names, make_adapters
from pipeline.stages.audit import estimate_run, keep_result, query_run
from pipeline.stages.figures import analysis_figures, chart_figures, finding_tables, sheets, write_figures

if TYPE_CHECKING:
    import pandas as pd

    from pipeline.report.figures import Figure
    from pipeline.report.tables import FindingTable
    from pipeline.stages.adapters import Classifier

    Tables = pd.DataFrame | dict[str, pd.DataFrame]

STAGE_COUNTS = ("planned", "ok", "failed", "excluded")
ESTIMATED = ("slopes", "curves", "validity", "effectiveness", "lightness", "photo_failures")


class RunView:
    """A run opened for reading: its tables as pandas frames, its figures, and analyses of it.

    Args:
        folder: the folder of the run.

    Raises:
        RunError: the folder contains no run.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        settings_of(Run(self.folder))

    def __repr__(self) -> str:
        return f"open_run({str(self.folder)!r})"

    def _repr_html_(self) -> str:
        """Show the validity card and the findings in a notebook, or the stages of a run without estimates."""
        from pipeline.report.card import card_frame, card_title, check_results
        from pipeline.report.markup import render_frame

        if not self.is_estimated:
            return render_frame(self.status(), "html", title=str(self.folder))
        card = self.validity()
        title = card_title(check_results(card.to_dict("records")))
        return render_frame(card_frame(card), "html", title=title) + self.table("html")

    @property
    def settings(self) -> Settings:
        """The options that the run was made with, or was last estimated with."""
        return settings_of(self._run)

    def status(self) -> "pd.DataFrame":
        """One row per stage: stage, state, planned, ok, failed, excluded, seconds, peak_mib."""
        import pandas as pd

        from pipeline.stages.status import summary

        rows = [
            {"stage": name, "state": stage["state"]}
            | {count: stage["counts"].get(count) for count in STAGE_COUNTS}
            | {"seconds": stage["seconds"], "peak_mib": stage["peak_mib"]}
            for name, stage in summary(self.folder)["stages"].items()
        ]
        return pd.DataFrame(rows).astype(dict.fromkeys(STAGE_COUNTS, "Int64"))

    def photos(self) -> "pd.DataFrame":
        """One row per input photo: status, reason, size and the manifest's columns (``photos.parquet``)."""
        return self._table("photos.parquet")

    def faces(self) -> "pd.DataFrame":
        """One row per usable photo: its face's box, landmarks and estimated attributes (``faces.parquet``)."""
        return self._table("faces.parquet")

    def versions(self) -> "pd.DataFrame":
        """One row per counterfactual version: file, value a and the checks of the edit
        (``counterfactuals.parquet``)."""
        return self._table("counterfactuals.parquet")

    def labels(self) -> "pd.DataFrame":
        """One row per label of a version: adapter, attribute, arm, photo, step, value, label, score in 0-1,
        returned."""
        return self._table("labels.parquet")

    def findings(self, *, max_p: float | None = None, min_slope: float | None = None) -> "pd.DataFrame":
        """The edits' rows of ``slopes`` with p < ``max_p`` and |slope| > ``min_slope`` that exceed their placebos.

        A column ``direction`` (-1 or 1) is added. Default thresholds: the run's.
        """
        from pipeline.statistics.slopes import findings

        rule, slopes = self.settings.statistics, self.slopes()
        return findings(
            slopes[slopes["arm"] == EDIT_ARM],
            max_p=rule.max_p if max_p is None else max_p,
            min_slope=rule.min_slope if min_slope is None else min_slope,
        )

    def curves(self) -> "pd.DataFrame":
        """The curves of every label: value a, rate y, normalised rate z with its 95 % band z_low to z_high."""
        return self._run.read_csv("curves")

    def validity(self) -> "pd.DataFrame":
        """The validity card, one row per check: attribute, name, figure, unit, threshold, passed, words."""
        return self._run.read_csv("validity")

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

        if format not in RENDERERS:
            raise ValueError(f"there is no format {format!r}; there are {', '.join(RENDERERS)}")
        found = self.finding_tables(adapters=adapters, attributes=attributes, max_p=max_p, min_slope=min_slope)
        return RENDERERS[format](found)

    def finding_tables(
        self,
        *,
        adapters: Sequence[str] = (),
        attributes: Sequence[str] = (),
        max_p: float | None = None,
        min_slope: float | None = None,
        slopes: "pd.DataFrame | None" = None,
    ) -> "tuple[FindingTable, ...]":
        """The findings of every adapter and attribute, in the published layout.

        Args:
            adapters: restrict to these. Default: all.
            attributes: restrict to these. Default: all.
            max_p: the largest p of a finding. Default: the run's.
            min_slope: the smallest |slope| of a finding. Default: the run's.
            slopes: slopes estimated with other options. Default: the run's.

        Raises:
            RunError: the run has no slopes, or not what was named.
        """
        rule = {"max_p": max_p, "min_slope": min_slope}
        return finding_tables(self._run, adapters=adapters, attributes=attributes, slopes=slopes, **rule)

    def figures(
        self,
        out: str | Path | None = None,
        *,
        format: str = "pdf",
        adapters: Sequence[str] = (),
        attributes: Sequence[str] = (),
        labels: Sequence[str] = (),
        photos: Sequence[str] = (),
        columns: int = 1,
        watch: Watch = unwatched,
    ) -> list[Path]:
        """Draw the run's figures into a folder, each with a caption in a text file, as ``counterslope figures``.

        There are curves and intervals for every adapter and attribute, and for every attribute the judge's
        probability, the lightness, and sheets of diverse faces at every step, without and with their scores.

        Args:
            out: the folder. Default: ``figures`` in the run's folder.
            format: "pdf", "svg" or "png".
            adapters: restrict to these. Default: all.
            attributes: restrict to these. Default: all.
            labels: labels with a curve. Default: those of the strongest findings.
            photos: draw only the sweeps of these photos, with their scores.
            columns: width of the figures in columns of a page, 1 or 2.
            watch: opens the progress display.

        Returns:
            The files; each caption follows its figure.

        Raises:
            RunError: the run has no slopes, or not what was named.
            ValueError: an unknown format or width, or more labels than a chart can distinguish.
        """
        from pipeline.report.figures import check_drawable

        check_drawable(format, columns)
        run = self._run
        found: list[Figure] = []
        if not (adapters or attributes or labels or photos):
            found += analysis_figures(run)
        if self.is_estimated or not found:  # a run of represent alone has no slopes
            chosen = {"adapters": adapters, "attributes": attributes}
            found += [] if photos else chart_figures(run, **chosen, labels=labels)
            found += sheets(run, **chosen, photos=photos)
        folder = self.folder / "figures" if out is None else Path(out)
        return write_figures(found, folder, format=format, columns=columns, watch=watch)

    def sweep_figure(self, photo: str, attribute: str, *, adapters: Sequence[str] = ()) -> "Figure":
        """Draw one photo at every value of an attribute, with the scores under each image; notebooks display it.

        Example:
            >>> run.sweep_figure("ada.jpg", "gender").save("ada.pdf", columns=2)

        Raises:
            RunError: the run has no slopes, or not what was named.
        """
        return sheets(self._run, adapters=adapters, attributes=[attribute], photos=[photo])[0]

    def analyse(
        self,
        name: str,
        source: "str | Path | None" = None,
        *,
        keep: bool = False,
        progress: bool | None = None,
        **options: Any,
    ) -> "Tables":
        """Run an analysis by its name; ``run.NAME(...)`` is the same, such as ``run.power(width=0.1)``.

        Example:
            >>> run.amplification(base={"smile": 0.6}, base_group="feminine")

        Args:
            name: one of ``pipeline.analyses.registry``, as on the command line.
            source: a file with one row per photo, for analyses that read one. Default: this run.
            keep: store the tables in this run, for its report, as the command does.
            progress: show bars, in a notebook unless False, elsewhere on standard error if True.
            options: options of the analysis, by the names of the command's options.

        Returns:
            The table, or a dict of several tables by name; notes are in ``attrs["notes"]``.

        Raises:
            RunError, ConfigError, InputError: the run, an option or a file does not fit; the message says what to do.
            ValueError: values that the measure cannot take.
        """
        from pipeline.analyses.registry import compute

        result = compute(name, self.folder if source is None else Path(source), options, watch=shown(progress))
        if keep:
            keep_result(self.folder, name, result, watch=shown(progress))
        return result.value

    def __getattr__(self, name: str) -> "Callable[..., Any]":
        """Return the analysis of that name as a method, with the options of the command as its arguments."""
        from pipeline.analyses.registry import analysis_names, method_of

        if name.startswith("_") or name not in analysis_names():
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return method_of(name, self.analyse)

    def __dir__(self) -> list[str]:
        from pipeline.analyses.registry import analysis_names

        return sorted({*super().__dir__(), *analysis_names()})

    def estimate(self, *, progress: bool | None = None, **options: Any) -> "RunView":
        """Estimate and report again with other options of ``[statistics]``, as ``counterslope report``; return the
        view.

        Example:
            >>> run.estimate(min_slope=0.05, by="perceived").findings()

        Raises:
            RunError: the run has no labels, or another process works on it.
            ConfigError: an option is unknown or invalid.
        """
        estimate_run(self.folder, changes={"statistics": options}, watch=shown(progress))
        return self

    def query(
        self,
        adapters: "Sequence[Classifier]",
        *,
        options: Mapping[str, Any] | None = None,
        send_faces: bool = False,
        progress: bool | None = None,
        only: bool = False,
        drop: Sequence[str] = (),
        retry: Literal["failed", "unreadable"] | None = None,
    ) -> "RunView":
        """Send the run's versions to these classifiers, as ``counterslope query``; return the updated view.

        Args:
            adapters: the classifiers. Answered versions are not sent again; other classifiers stay in the run.
            options: options of the section ``[query]``.
            only: remove classifiers that are not named now from the run.
            drop: names of classifiers to remove from the run.
            retry: "failed": also resend requests whose answers have no labels; "unreadable": resend only unreadable
                answers.
            send_faces: agree that faces are sent to the named remote classifiers.
            progress: show bars, in a notebook unless False, elsewhere on standard error if True.

        Raises:
            RunError, ConfigError, AdapterError, PlanError: as ``audit``.
        """
        changes = {"query": {**(options or {}), "adapters": adapter_names(adapters)}}
        settings = settings_of(self._run, changes)
        query_run(
            self.folder,
            changes=changes,
            adapters=make_adapters(settings, self.folder, adapters),
            watch=shown(progress),
            consent=agreed(send_faces),
            only=only,
            drop=drop,
            retry=retry,
        )
        return finished(self.folder)

    def report(self) -> Path:
        """Write ``report.html`` again, as ``counterslope report`` does; return its path.

        Raises:
            RunError: the run has no labels, or another process works on it.
        """
        estimate_run(self.folder, changes={})
        return self.folder / "report.html"

    @property
    def is_estimated(self) -> bool:
        """Whether the tables of the run's current options are complete."""
        run = self._run
        return run.record.is_done("tables") and all(run.csv_path(name).is_file() for name in ESTIMATED)

    @property
    def _run(self) -> Run:
        """Open the run each time, so that changes by other calls are visible."""
        return Run(self.folder)

    def _table(self, name: str) -> "pd.DataFrame":
        if not (self.folder / name).is_file():
            raise RunError(f"{self.folder} has no {name} (yet): finish the run with the command that made it")
        return read_frame(self.folder / name)


def finished(folder: Path) -> RunView:
    """Return a view of a run after a query; warn about classifiers that stopped early or labelled few versions."""
    from pipeline.stages.status import few_labels, stop_reasons

    for reason in (*stop_reasons(folder), *(words for words, _ in few_labels(folder))):
        warnings.warn(reason, UserWarning, stacklevel=3)
    return RunView(folder)


def shown(progress: bool | None) -> Watch:
    """Return progress bars or no display. Default: bars only in a notebook."""
    if progress is False or (progress is None and not in_notebook()):
        return unwatched
    return NotebookBars() if in_notebook() else Bars()


def agreed(send_faces: bool) -> Consent:
    """Return the consent of a Python program: given in advance, or refused."""
    return (lambda plan: True) if send_faces else no_consent
