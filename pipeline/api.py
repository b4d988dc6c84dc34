"""The Python API: what the command line does. ``from pipeline import audit, open_run`` is how it is meant to be used.

What a run has to show is in ``stages.run_view``; ``docs/python.md`` shows all of it.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.config.sources import load_settings
from pipeline.photos import SAMPLE
from pipeline.run.storage import Location, location
from pipeline.stages.adapters import adapter_names, make_adapters
from pipeline.stages.audit import audit as perform
from pipeline.stages.run_view import RunView, agreed, finished, shown

if TYPE_CHECKING:
    from pipeline.dataset.make import Dataset
    from pipeline.stages.adapters import Classifier
    from pipeline.stages.run_view import Tables

Paths = str | Path | Sequence[str | Path]


def open_run(folder: str | Path) -> "RunView":
    """A run's folder, for reading.

    Example:
        >>> run = open_run("runs/portraits")
        >>> run.findings()[["adapter", "label", "slope", "q"]]

    Raises:
        RunError: the folder holds no run.
    """
    return RunView(folder)


def analyse(name: str, source: str | Path, **options: Any) -> "Tables":
    """Run one analysis on a file with one row a photo, or on a run, as the command of its name does.

    Example:
        >>> analyse("leakage", "predictions.csv", attribute="gender", task="cooking", prediction="guess")

    Args:
        name: such as "amplification", "leakage", "dpa" or "local".
        source: a CSV, TSV or Parquet file, or a run's folder; nothing is written.
        options: by the names of the command's options.

    Returns:
        The table, or where there are several, name -> table; what to know about them is in ``attrs["notes"]``.

    Raises:
        ConfigError, InputError, RunError: an option, a file or a run that does not fit, with what to do.
        ValueError: values that the measure cannot take.
    """
    from pipeline.analyses.registry import compute

    return compute(name, Path(source), options).value


def audit(
    photos: Paths | None = None,
    *,
    out: str | Path,
    adapters: "Sequence[Classifier] | None" = None,
    attributes: Sequence[str] | None = None,
    options: Mapping[str, Mapping[str, Any]] | None = None,
    config: str | Path | None = None,
    send_faces: bool = False,
    progress: bool | None = None,
) -> "RunView":
    """Audit classifiers on photos, as ``counterslope audit`` does; the same call continues the same run.

    Example:
        >>> def classify(image: bytes) -> dict[str, float]:
        ...     return {"bright": my_model(image)}
        >>> run = audit("portraits/", out="runs/mine", adapters=[classify, "opencv"])

    Args:
        photos: a folder, files, or one manifest, or their URLs; the embedded sample unless given.
        out: the run's folder.
        adapters: classifiers by name (see ``counterslope adapters``), functions that take the bytes of an image and
            return a dict of label -> score in 0-1, or objects with the methods of ``adapters.base.Adapter``.
        attributes: "gender", "race" or both.
        options: section -> option -> value, as in a TOML file: ``{"statistics": {"min_slope": 0.05}}``.
        config: a TOML file.
        send_faces: agree that faces are sent to the remote classifiers named; without it they are refused.
        progress: show bars: in a notebook below the cell, unless False; elsewhere on standard error, if True.

    Raises:
        NoUsablePhotos: there is nothing to audit.
        ConfigError: an option is unknown or does not fit.
        AdapterError: a classifier cannot be used.
        PlanError: faces would leave this machine without ``send_faces``, or a limit would be passed.
        RunError: the folder cannot be used.

    Warns:
        UserWarning: a classifier stopped before all images were sent, or labelled few of them.
    """
    given = _given(options, attributes)
    if adapters is not None:
        given.setdefault("query", {})["adapters"] = adapter_names(adapters)
    settings = load_settings(given=given, file=None if config is None else Path(config))
    run = perform(
        _paths(photos),
        Path(out),
        settings=settings,
        given=given,
        adapters=None if adapters is None else make_adapters(settings, Path(out), adapters),
        watch=shown(progress),
        consent=agreed(send_faces),
    )
    return finished(run.folder)


def generate(
    photos: Paths | None = None,
    *,
    out: str | Path,
    attributes: Sequence[str] | None = None,
    options: Mapping[str, Mapping[str, Any]] | None = None,
    config: str | Path | None = None,
    progress: bool | None = None,
) -> "Dataset":
    """Make the counterfactual versions of photos as a dataset that can be published, as ``counterslope generate`` does.

    Example:
        >>> made = generate("portraits/", out="faces", options={"dataset": {"licence": "cc-by-nc-4.0"}})
        >>> made.facts.images

    Args:
        photos: a folder, files, or one manifest; the embedded sample unless given.
        out: the dataset's folder; the run's tables lie next to it, in ``OUT.run``.
        attributes: "gender", "race" or both.
        options: section -> option -> value, as in a TOML file.
        config: a TOML file.
        progress: show bars: in a notebook below the cell, unless False; elsewhere on standard error, if True.

    Raises:
        NoUsablePhotos, ConfigError, RunError: with what to do about it.
    """
    from pipeline.dataset.make import make_dataset

    given = _given(options, attributes)
    settings = load_settings(given=given, file=None if config is None else Path(config))
    return make_dataset(_paths(photos), Path(out), settings=settings, given=given, watch=shown(progress))


def _given(
    options: Mapping[str, Mapping[str, Any]] | None, attributes: Sequence[str] | None
) -> dict[str, dict[str, Any]]:
    given = {name: dict(section) for name, section in (options or {}).items()}
    if attributes is not None:
        given.setdefault("sweep", {})["attributes"] = list(attributes)
    return given


def _paths(photos: Paths | None) -> list[Location]:
    if photos is None:
        return [SAMPLE / "manifest.csv"]
    return [location(path) for path in ([photos] if isinstance(photos, str | Path) else photos)]
