"""The Python API, to be imported from the package: ``from pipeline import audit, open_run``. See ``docs/python.md``."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.config.sources import load_settings
from pipeline.photos import SAMPLE
from pipeline.run.folder import local_run
from pipeline.run.storage import Location, location
from pipeline.stages.adapters import adapter_names
from pipeline.stages.audit import audit as perform
from pipeline.stages.run_view import RunView, agreed, finished, shown

if TYPE_CHECKING:
    from pipeline.dataset.make import Dataset
    from pipeline.stages.adapters import Classifier
    from pipeline.stages.run_view import Tables

Paths = str | Path | Sequence[str | Path]


def open_run(folder: str | Path) -> "RunView":
    """Open a run for reading, by its folder or its URL; see ``local_run``.

    Example:
        >>> run = open_run("runs/portraits")
        >>> run.findings()[["adapter", "label", "slope", "q"]]

    Raises:
        RunError: the folder holds no run.
    """
    return RunView(local_run(location(folder)))


def analyse(name: str, source: str | Path, **options: Any) -> "Tables":
    """Run an analysis on a file with one row per photo, or on a run, like the command of the same name.

    Example:
        >>> analyse("leakage", "predictions.csv", attribute="gender", task="cooking", prediction="guess")

    Args:
        name: the analysis, such as "amplification", "leakage", "dpa" or "local".
        source: a CSV, TSV or Parquet file, or a run's folder or URL. It is only read.
        options: the command's options, named as there.

    Returns:
        The table, or name -> table if there are several. Notes for the reader are in ``attrs["notes"]``.

    Raises:
        ConfigError, InputError, RunError: an option, the file or the run is not usable; the message says what to do.
        ValueError: the measure is not defined for these values.
    """
    from pipeline.analyses.registry import compute

    return compute(name, local_run(location(source)), options).value


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
    """Audit classifiers on photos, like ``counterslope audit``. Repeating the call continues the same run.

    Example:
        >>> def classify(image: bytes) -> dict[str, float]:
        ...     return {"bright": my_model(image)}
        >>> run = audit("portraits/", out="runs/mine", adapters=[classify, "opencv"])

    Args:
        photos: a folder, files, or one manifest, or their URLs. Default: the embedded sample.
        out: the run's folder or its URL.
        adapters: names of classifiers (see ``counterslope adapters``), functions from the bytes of an image to a dict
            of label -> score in 0-1, or objects with the methods of ``adapters.base.Adapter``.
        attributes: the attributes to sweep, such as "gender" and "race".
        options: section -> option -> value, as in a TOML file: ``{"statistics": {"min_slope": 0.05}}``.
        config: a TOML file.
        send_faces: consent to sending faces to the remote classifiers among ``adapters``.
        progress: whether to show progress bars. Default: only in a notebook.

    Raises:
        NoUsablePhotos: there is nothing to audit.
        ConfigError: an option is unknown or its value is invalid.
        AdapterError: a classifier cannot be used.
        PlanError: faces would leave this machine without ``send_faces``, or a limit would be exceeded.
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
        location(out),
        settings=settings,
        given=given,
        adapters=adapters,
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
    """Make a publishable dataset of counterfactual versions of photos, like ``counterslope generate``.

    Example:
        >>> dataset = generate("portraits/", out="faces", options={"dataset": {"licence": "cc-by-nc-4.0"}})
        >>> dataset.facts.images

    Args:
        photos, attributes, options, config, progress: as for ``audit``.
        out: the dataset's folder or its URL. The run's tables lie next to it, in ``OUT.run``.

    Raises:
        NoUsablePhotos, ConfigError, RunError: as for ``audit``.
    """
    from pipeline.dataset.make import make_dataset

    given = _given(options, attributes)
    settings = load_settings(given=given, file=None if config is None else Path(config))
    return make_dataset(_paths(photos), location(out), settings=settings, given=given, watch=shown(progress))


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
