"""Options of local bias, and its rows: a run's photos with a label of an adapter, or the rows of a file."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field

from pipeline.analyses.base import Options, one_or_more
from pipeline.analyses.features import judged_features, read_features
from pipeline.analyses.inputs import InputError, columns_of, presence_thresholds, read_predictions
from pipeline.config.attributes import ATTRIBUTES, EDIT_ARM, Attribute
from pipeline.config.flags import Flag, listed
from pipeline.review.answers import read_faces
from pipeline.run.folder import Run, settings_of
from pipeline.run.progress import Watch, unwatched
from pipeline.run.record import RunError
from pipeline.run.tables import read_frame

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from numpy.typing import NDArray

PHOTO = "photo"


class LocalOptions(Options):
    """The labels or columns, the clustering, and the tests."""

    renamed: ClassVar[Mapping[str, str]] = {"group": "attribute", "truth": "task"}

    adapter: str | None = Field(None, description="of a run: the classifier; default: the only one")
    label: str | None = Field(None, description="of a run: the label; default: the only one")
    attribute: str | None = Field(None, description="of a file: column with two groups")
    prediction: str | None = Field(None, description="of a file: column with the predicted label")
    task: str | None = Field(None, description="of a file: column with the true label")
    text: str | None = Field(None, description="of a file: column with texts")
    topics: int = Field(0, description="number of topics of the texts by LDA, described by cluster; 0 for none", ge=0)
    features: Path | None = Field(
        None, description="file of features, .npy, .csv or .parquet; default for a run: the judge's embeddings"
    )
    centre: Literal["group", "none"] | None = Field(
        None,
        description="centring of the features: group (subtract the group's mean, so that clusters hold both groups) or "
        "none; default: group for the judge's embeddings, else none",
    )
    metric: str | None = Field(
        None,
        description="metric: accuracy, presence, fpr, tpr or auc; default: accuracy with a true label, else presence",
    )
    clusters: int = Field(10, description="number of clusters before small ones are merged")
    objective: str = Field(
        "literal", description="objective of the search: literal (the paper's Eq. 2) or weighted (by rows)"
    )
    strength: Annotated[tuple[float, ...], BeforeValidator(one_or_more), Flag(metavar="LAMBDA", parse=listed)] = Field(
        (5.0,),
        description="lambda; 0 is k-means; of several, such as 1,5,10,100, the one with most biased clusters is chosen",
    )
    scale: str = Field("none", description="scaling of the features: variance (total variance of 1) or none")
    min_rows: int = Field(20, description="rows of each group that a cluster needs to be reported")
    min_gap: float = Field(0.05, description="|gap| from which a cluster is called biased")
    permutations: int = Field(199, description="number of permutations under each of two null hypotheses")
    null: str = Field(
        "rerun", description="clusters in each permutation: rerun (search again; valid) or fixed (optimistic)"
    )
    seed: int = Field(0, description="seed of k-means and of the permutations")


@dataclass(frozen=True, eq=False)
class LocalRows:
    """``n`` rows to search for local bias."""

    names: tuple[str, ...]
    features: "NDArray[np.float64]"  # (n, D)
    groups: tuple[str, ...]
    prediction: "NDArray[Any]"
    truth: "NDArray[Any] | None" = None
    texts: tuple[str, ...] | None = None
    notes: tuple[str, ...] = ()  # on rows that were left out
    adapter: str = ""  # of a run: the classifier and the label of the predictions
    label: str = ""


def rows_of_run(folder: Path, options: LocalOptions, *, watch: Watch = unwatched) -> LocalRows:
    """Photos of a run, grouped by perceived gender, with the presence of a label on the nearly unchanged version.

    This is the version in the first sweep of the run whose value is nearest to the photo's own. The features are the
    judge's embeddings of the faces, or those of a file, whose rows are matched by a column ``photo``.

    Raises:
        RunError: the folder holds no run, or one without labels.
        InputError: an adapter or a label that the run does not have.
        ConfigError: features that do not match the photos.
    """
    import numpy as np

    run = Run(folder)
    settings = settings_of(run)
    thresholds = presence_thresholds(run, settings.statistics)
    adapter = _one_of(options.adapter, sorted(thresholds), "adapter", folder)
    faces = read_faces(run)
    faces = faces[faces["status"] == "ok"].reset_index(drop=True)
    answers, labels = (
        frame[(frame["adapter"] == adapter) & (frame["arm"] == EDIT_ARM)]
        for frame in (read_frame(run.path("answers.parquet")), read_frame(run.path("labels.parquet")))
    )
    own = _own_versions(answers, faces, swept=settings.sweep.chosen())
    labels = labels[labels["returned"]]
    label = _one_of(options.label, sorted(set(labels["label"])), "label", folder)
    present = labels[(labels["label"] == label) & (labels["score"] >= thresholds[adapter])]
    shown = set(zip(present["attribute"], present["photo"], present["step"], strict=True))
    if options.features is None:
        judged = judged_features(run, settings=settings, watch=watch).set_index(PHOTO)["features"]
        own = own[own[PHOTO].isin(judged.index)]
        table = np.stack([judged[photo] for photo in own[PHOTO]]) if len(own) else np.empty((0, 0))
    else:
        table = read_features(options.features, photos=list(own[PHOTO]))
    if own.empty:
        raise RunError(f"no photo in {folder} has both a face and an answer of {adapter!r}")
    grouping = next(each for each in ATTRIBUTES.values() if not each.categories)
    groups = dict(zip(faces[PHOTO], grouping.classes_of(faces), strict=True))
    keys = zip(own["attribute"], own[PHOTO], own["step"], strict=True)
    left_out = len(faces) - len(own)
    note = f"{left_out} of {len(faces)} faces are left out: not answered, or no longer readable."
    return LocalRows(
        names=tuple(own[PHOTO]),
        features=table,
        groups=tuple(groups[photo] for photo in own[PHOTO]),
        prediction=np.array([key in shown for key in keys], dtype=np.int64),
        notes=(note,) if left_out else (),
        adapter=adapter,
        label=label,
    )


def rows_of_file(path: Path, options: LocalOptions) -> LocalRows:
    """Rows of a CSV, TSV or Parquet file, named by a column ``photo`` if there is one, else numbered.

    Raises:
        InputError: a column is not given, missing or incomplete, or no features are given.
        ConfigError: features that do not match the rows.
    """
    import numpy as np

    frame = read_predictions(path)
    if options.attribute is None or options.prediction is None:
        raise InputError(f"name the columns of {path} with --attribute and --prediction")
    if options.features is None:
        raise InputError(f"name a file with the features of the rows of {path} with --features")
    photos = [PHOTO] if PHOTO in frame.columns else []
    named = [options.attribute, options.prediction, options.task, options.text, *photos]
    columns_of(frame, [column for column in named if column is not None], table=str(path))
    names = [str(value) for value in frame[PHOTO]] if photos else [f"row {row}" for row in range(1, len(frame) + 1)]
    return LocalRows(
        names=tuple(names),
        features=read_features(options.features, photos=names),
        groups=tuple(str(value) for value in frame[options.attribute]),
        prediction=np.asarray(frame[options.prediction]),
        truth=None if options.task is None else np.asarray(frame[options.task]),
        texts=None if options.text is None else tuple(str(value) for value in frame[options.text]),
    )


def _own_versions(answers: "pd.DataFrame", faces: "pd.DataFrame", *, swept: Mapping[str, Attribute]) -> "pd.DataFrame":
    """Attribute, photo and step of the version nearest to each unchanged photo, if it was answered."""
    attribute = next(
        (each for name, each in swept.items() if (answers["attribute"] == name).any()), next(iter(swept.values()))
    )
    own = dict(zip(faces[PHOTO], attribute.own_value(faces), strict=True))
    answered = answers[(answers["attribute"] == attribute.name) & answers[PHOTO].isin(list(own))]
    distance = (answered["value"] - answered[PHOTO].map(own)).abs()
    ordered = answered.assign(distance=distance).sort_values([PHOTO, "distance", "step"], kind="stable")
    nearest = ordered.drop_duplicates(PHOTO)
    # A photo whose nearest version was not answered is left out, because the next one would be a different face.
    return nearest.loc[nearest["status"] == "ok", ["attribute", PHOTO, "step"]].reset_index(drop=True)


def _one_of(wanted: str | None, known: Sequence[str], what: str, folder: Path) -> str:
    """The given adapter or label, or by default the only one."""
    if wanted in known:
        return str(wanted)
    if wanted is None and len(known) == 1:
        return known[0]
    shown = ", ".join(map(repr, known[:12])) + (", …" if len(known) > 12 else "")
    missing = f"name one with --{what}" if wanted is None else f"there is no {what} {wanted!r} in {folder}"
    raise InputError(f"{missing}; there are {shown or 'none'}")
