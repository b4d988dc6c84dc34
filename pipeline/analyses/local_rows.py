"""The rows among which local bias is looked for: a run's photos and one label of one adapter, or a plain file's.

The features come from ``pipeline.analyses.features``; the search is in ``pipeline.statistics.local.logan``.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.analyses.columns import complete_columns
from pipeline.analyses.features import judged_features, read_features
from pipeline.analyses.predictions import InputError, read_predictions
from pipeline.config.attributes import ATTRIBUTES, EDIT_ARM, Attribute
from pipeline.run.folder import Run
from pipeline.run.progress import Watch, unwatched
from pipeline.run.record import RunError
from pipeline.run.tables import read_frame

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from numpy.typing import NDArray

PHOTO = "photo"


@dataclass(frozen=True, eq=False)
class LocalRows:
    """``n`` rows: what they are called, their features ``(n, D)``, group, outcome, and texts if there are any.

    Of a run, ``adapter`` and ``label`` say whose outcome it is.
    """

    names: tuple[str, ...]
    features: "NDArray[np.float64]"
    groups: tuple[str, ...]
    prediction: "NDArray[Any]"
    truth: "NDArray[Any] | None" = None
    texts: tuple[str, ...] | None = None
    notes: tuple[str, ...] = ()
    adapter: str = ""
    label: str = ""


def rows_of_run(
    folder: Path, *, adapter: str | None, label: str | None, features: Path | None = None, watch: Watch = unwatched
) -> LocalRows:
    """The photos of a run: was the label present on the version nearest the photo as it is, by perceived gender?

    The versions asked about are those of the sweep; the one taken is that whose value is nearest the photo's own, in
    the sweep of gender if there is one. The features are the judge's embedding of the face, unless a file is given.

    Args:
        folder: of the run.
        adapter: by name; may be left out where the run has one.
        label: one of the adapter's.
        features: see ``read_features``; rows are matched by a column ``photo``.

    Raises:
        RunError: the folder holds no run, or one without labels.
        InputError: an adapter or a label that the run does not have.
        ConfigError: features that do not fit.
    """
    import numpy as np

    from pipeline.run.folder import settings_of

    run = Run(folder)
    settings = settings_of(run)
    thresholds = run.record.presence_thresholds
    if not thresholds:
        raise RunError(f"no classifier has labelled the versions in {folder}: ask one with `counterslope query`")
    chosen = _one_of(adapter, sorted(thresholds), "adapter", folder)
    faces = read_frame(run.path("faces.parquet"))
    faces = faces[faces["status"] == "ok"].reset_index(drop=True)
    answers = read_frame(run.path("answers.parquet"))
    mine = answers[(answers["adapter"] == chosen) & (answers["arm"] == EDIT_ARM)]
    own = _own_versions(mine, faces, swept=settings.sweep.chosen())
    labels = read_frame(run.path("labels.parquet"))
    labels = labels[(labels["adapter"] == chosen) & (labels["arm"] == EDIT_ARM) & labels["returned"]]
    wanted = _one_of(label, sorted(set(labels["label"])), "label", folder)
    threshold = settings.statistics.thresholds(thresholds)[chosen]
    present = labels[(labels["label"] == wanted) & (labels["score"] >= threshold)]
    shown = set(zip(present["attribute"], present["photo"], present["step"], strict=True))
    if features is None:
        judged = judged_features(run, settings=settings, watch=watch).set_index(PHOTO)["features"]
        own = own[own[PHOTO].isin(judged.index)]
        table = np.stack([judged[photo] for photo in own[PHOTO]]) if len(own) else np.empty((0, 0))
    else:
        table = read_features(features, photos=list(own[PHOTO]))
    if own.empty:
        raise RunError(f"no photo in {folder} has both a face and an answer of {chosen!r}")
    grouping = next(each for each in ATTRIBUTES.values() if not each.categories)
    groups = dict(zip(faces[PHOTO], grouping.classes_of(faces), strict=True))
    left_out = len(faces) - len(own)
    return LocalRows(
        names=tuple(own[PHOTO]),
        features=table,
        groups=tuple(groups[photo] for photo in own[PHOTO]),
        prediction=np.array(
            [key in shown for key in zip(own["attribute"], own[PHOTO], own["step"], strict=True)], dtype=np.int64
        ),
        notes=(f"{left_out} of {len(faces)} faces are left out: not answered, or not readable any more.",)
        if left_out
        else (),
        adapter=chosen,
        label=wanted,
    )


def rows_of_file(
    path: Path,
    *,
    group: str | None,
    prediction: str | None,
    truth: str | None = None,
    text: str | None = None,
    name: str | None = None,
    features: Path | None = None,
) -> LocalRows:
    """The rows of a CSV, TSV or Parquet file; columns by name.

    Args:
        path: the file.
        group, prediction: what must be named.
        truth, text, name: what may be; ``name`` is "photo" if there is such a column, else rows are numbered from 1.
        features: see ``read_features``; without a column ``photo`` in it its rows are the file's.

    Raises:
        InputError: a column is not named, is not there, or has no value in some row; or no features are given.
        ConfigError: features that do not fit.
    """
    import numpy as np

    frame = read_predictions(path)
    if group is None or prediction is None:
        raise InputError(f"name the columns of {path} with --group and --prediction")
    if features is None:
        raise InputError(f"name a file with the features of the rows of {path} with --features")
    if name is None and PHOTO in frame.columns:
        name = PHOTO
    named = [column for column in (group, prediction, truth, text, name) if column is not None]
    complete_columns(frame, named, table=str(path))
    names = [str(value) for value in frame[name]] if name else [f"row {number + 1}" for number in range(len(frame))]
    table = read_features(features, photos=names)
    return LocalRows(
        names=tuple(names),
        features=table,
        groups=tuple(str(value) for value in frame[group]),
        prediction=np.asarray(frame[prediction]),
        truth=None if truth is None else np.asarray(frame[truth]),
        texts=None if text is None else tuple(str(value) for value in frame[text]),
    )


def _own_versions(answers: "pd.DataFrame", faces: "pd.DataFrame", *, swept: Mapping[str, Attribute]) -> "pd.DataFrame":
    """attribute, photo, step of each photo's answered version that is nearest the photo as it is."""
    attribute = next(
        (each for name, each in swept.items() if (answers["attribute"] == name).any()), next(iter(swept.values()))
    )
    own = dict(zip(faces[PHOTO], attribute.own_value(faces), strict=True))
    asked = answers[(answers["attribute"] == attribute.name) & answers[PHOTO].isin(list(own))]
    away = (asked["value"] - asked[PHOTO].map(own)).abs()
    nearest = asked.assign(away=away).sort_values([PHOTO, "away", "step"], kind="stable").drop_duplicates(PHOTO)
    # A photo whose nearest version was not answered is left out: a farther one would be another face.
    return nearest.loc[nearest["status"] == "ok", ["attribute", PHOTO, "step"]].reset_index(drop=True)


def _one_of(wanted: str | None, there: Sequence[str], what: str, folder: Path) -> str:
    if wanted in there:
        return str(wanted)
    if wanted is None and len(there) == 1:
        return there[0]
    shown = ", ".join(map(repr, there[:12])) + (", …" if len(there) > 12 else "")
    missing = f"name one with --{what}" if wanted is None else f"there is no {what} {wanted!r} in {folder}"
    raise InputError(f"{missing}; there are {shown or 'none'}")
