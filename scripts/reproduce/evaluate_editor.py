"""The figures that a counterfactual editor is held to, on held-out faces: a JSON file and a table.

``evaluate_editor.py FACES.npz OUT.json --editor residual``, with a set of faces from ``train.py prepare evaluation``.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal

import cv2
import numpy as np
import torch
import typer
from numpy.typing import NDArray
from torch.nn import functional as F

from models.alignment import aligned_crop, invert
from models.attributes import class_indices
from models.judge import Perception, age_in_years, perceive_crops, split
from models.parser import BiSeNet, SmallParser
from models.precision import unit_batch
from models.residual import Prototypes
from models.tone import load_tone_table
from models.training.evaluation_set import EvaluationSet, load_evaluation_set
from models.training.outside_judge import OutsideJudge
from models.weights import load_fader, load_judge, load_parser, load_residual, read_weights
from pipeline.config.attributes import ATTRIBUTES, Attribute
from pipeline.config.sweep_options import SweepOptions
from pipeline.counterfactuals import measures
from pipeline.counterfactuals.checks import spearman_per_row
from pipeline.counterfactuals.editors.base import CROP, Editor, Patch, PhotoEdit, Subject
from pipeline.counterfactuals.editors.fader import FaderEditor
from pipeline.counterfactuals.editors.residual import ToneAndFields
from pipeline.counterfactuals.mask import add_change, chances_of, crop_mask, parser_view, patches_of, to_patch

VALUES = {"gender": (-2.0, -4 / 3, -1.0, -2 / 3, 0.0, 2 / 3, 1.0, 4 / 3, 2.0), "race": (-2.0, -1.0, 0.0, 1.0, 2.0)}
SWEEP = {"gender": [0, 1, 3, 4, 5, 7, 8], "race": [0, 1, 2, 3, 4]}  # the steps of the default sweep
BATCH = 32
REGION, FEATHER = SweepOptions().region, SweepOptions().feather


class EditorName(StrEnum):
    """The editors."""

    FADER = "fader"
    RESIDUAL = "residual"


class Part(StrEnum):
    """The two parts of the residual editor."""

    TONE = "tone"
    FEATURES = "features"


@dataclass(frozen=True)
class Pictures:
    """Aligned crops of ``N`` photos and their ``K`` versions, with masks ``(N, 128, 128)`` in 0..1.

    Attributes:
        photos: ``(N, 128, 128, 3)`` uint8.
        versions: ``(N, K, 128, 128, 3)`` uint8.
        regions: where the versions may differ.
        faces: skin and nose, as the parser sees them.
        necks: neck and ears.
        rows: ``(N,)`` which photos of the set these are.
    """

    photos: NDArray[np.uint8]
    versions: NDArray[np.uint8]
    regions: NDArray[np.float32]
    faces: NDArray[np.float32]
    necks: NDArray[np.float32]
    rows: list[int]


def main(
    faces: Annotated[Path, typer.Argument(help="set of faces, written by `train.py prepare evaluation`")],
    out: Annotated[Path, typer.Argument(help="file for the figures")],
    editor: Annotated[EditorName, typer.Option(help="which editor makes the versions")],
    weights: Annotated[Path | None, typer.Option(help="the residual editor's; the shipped ones unless given")] = None,
    without: Annotated[Part | None, typer.Option(help="leave out one part of the residual editor")] = None,
    outside: Annotated[
        Path | None, typer.Option(help="weights from `outside-judge`, which perceives the versions too")
    ] = None,
    limit: Annotated[int | None, typer.Option(help="only so many faces, spread over the set")] = None,
) -> None:
    """Measure an editor on a set of faces."""
    chosen, parser = load_evaluation_set(faces), load_parser()
    if limit is not None and limit < len(chosen):
        chosen = chosen.take(np.linspace(0, len(chosen) - 1, limit).astype(int))
    made = editor_of(editor, parser, weights, without=without)
    result: dict[str, dict[str, Any]] = {}
    for name in VALUES:
        result[name] = figures(pictures(made, parser, chosen, ATTRIBUTES[name]), chosen, name, outside)
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(result, indent=1) + "\n")
    for name, found in result.items():
        print(name, shortened({key: value for key, value in found.items() if not isinstance(value, dict)}))
        for observer, seen in found.items():
            if isinstance(seen, dict):
                print("  ", observer, shortened(seen))


def editor_of(
    editor: EditorName, parser: SmallParser | BiSeNet, weights: Path | None = None, *, without: Part | None = None
) -> Editor:
    """The editor of that name, with the shipped weights or the residual editor's others."""
    if editor is EditorName.FADER:
        return FaderEditor(load_fader())
    network = load_residual() if weights is None else read_weights(Prototypes(), weights).eval()
    parts = {"tone": without is not Part.TONE, "features": without is not Part.FEATURES}
    return ToneAndFields(network, load_tone_table(), parser, REGION, FEATHER, load_judge("estimator"), **parts)


def subjects_of(faces: EvaluationSet) -> list[Subject]:
    """The photos as subjects of a sweep."""
    columns = [str(name) for name in faces.columns]
    return [
        Subject(str(name), pixels, landmarks, dict(zip(columns, map(float, own), strict=True)))
        for name, pixels, landmarks, own in zip(faces.files, faces.pixels, faces.landmarks, faces.own, strict=True)
    ]


@torch.inference_mode()
def pictures(editor: Editor, parser: SmallParser | BiSeNet, faces: EvaluationSet, attribute: Attribute) -> Pictures:
    """All versions of all faces that the editor can change, as aligned crops."""
    found: list[tuple[NDArray[Any], ...]] = []
    rows, subjects = [], subjects_of(faces)
    for start in range(0, len(subjects), BATCH):
        chunk = subjects[start : start + BATCH]
        chances = chances_of(parser, chunk)
        made = versions_of(editor, parser, chunk, attribute)
        for place, (subject, one) in enumerate(zip(chunk, made, strict=True)):
            if one is None:
                continue
            patch, versions = one
            rows.append(start + place)
            crops = [aligned_crop(pixels, subject.landmarks, size=CROP) for pixels in (subject.pixels, *versions)]
            masks = [_in_crop(subject, chances[place], names) for names in (("skin", "nose"), ("neck", "ears"))]
            found.append((crops[0], np.stack(crops[1:]), crop_mask(subject, patch), *masks))
    photos, changed, regions, skin, necks = (np.stack(column) for column in zip(*found, strict=True))
    return Pictures(photos, changed, regions, skin, necks, rows)


def versions_of(
    editor: Editor,
    parser: SmallParser | BiSeNet,
    subjects: Sequence[Subject],
    attribute: Attribute,
    *,
    values: tuple[float, ...] | None = None,
) -> list[tuple[Patch, list[NDArray[np.uint8]]] | None]:
    """Each face's patch and K versions in its photo, put back as an audit does; None where nothing may change."""
    edit = editor.read(subjects).edit(attribute, values or VALUES[attribute.name])
    if isinstance(edit, PhotoEdit):
        made = [edit.make(place) for place in range(len(subjects))]
        return [None if one is None else (one.patch, [version.pixels for version in one.versions]) for one in made]
    patches = patches_of(parser, subjects, region=REGION, feather_share=FEATHER)
    return [
        None
        if patch is None
        else (patch, [add_change(one.pixels, patch, to_patch(change, one, patch)).pixels for change in changes])
        for one, patch, changes in zip(subjects, patches, edit.changes, strict=True)
    ]


def figures(found: Pictures, faces: EvaluationSet, attribute: str, outside: Path | None) -> dict[str, Any]:
    """One attribute's figures: what judge, estimator and outside judge perceive, and measures of the pictures."""
    values = np.array(VALUES[attribute])
    low, high = int(np.argmin(np.abs(values + 1))), int(np.argmin(np.abs(values - 1)))
    photos, versions, skin = found.photos, found.versions, found.faces
    groups = faces.groups[found.rows]
    names: tuple[Literal["judge", "estimator"], ...] = ("judge", "estimator")
    result: dict[str, Any] = {"faces": len(photos)}
    for name in names:
        seen = perceive_crops(load_judge(name), list(versions.reshape(-1, *versions.shape[2:])))
        result[name] = perceived(seen, attribute, groups, low=low, high=high)
    if outside is not None:
        result["outside"] = seen_outside(outside, versions, attribute, groups, low=low, high=high)
    whole = (skin > 0.5).astype(np.float32)
    maps = [measures.lightness_map(photos, versions[:, step], found.regions) for step in (low, high)]
    on_skin = [measures.lightness_map(photos, versions[:, step], whole) for step in (low, high)]
    before = measures.median_colours(photos, skin), measures.median_colours(photos, found.necks)
    ends = [
        (measures.median_colours(versions[:, step], skin), measures.median_colours(versions[:, step], found.necks))
        for step in (low, high)
    ]
    moved = np.nanmean(ends[1][0] - ends[0][0], axis=0)
    change = measures.lightness_change(photos, versions[:, low]), found.regions
    return result | {
        "stencils": [measures.stencil(one) for one in maps],
        "stencils_of_skin": [measures.stencil(one) for one in on_skin],
        "skin_moves": moved.round(2).tolist(),
        "face_neck_gaps": [float(np.nanmean(measures.shift_gap(before, end))) for end in ends],
        "concentration": float(np.nanmean(measures.concentration(*change))),
        "asymmetry": float(np.nanmean(measures.asymmetry(*change))),
        "levels": float(np.abs(versions[:, low].astype(float) - photos)[found.regions > 0.5].mean()),
    }


def perceived(seen: Perception, attribute: str, groups: NDArray[np.str_], *, low: int, high: int) -> dict[str, Any]:
    """What a network perceives along the sweep: the effect, its order, its groups, and what goes along with it."""
    shape = -1, len(VALUES[attribute])
    named = {f"judge_{name}": figure.double().numpy().reshape(shape) for name, figure in seen.named().items()}
    target, age, smile = ATTRIBUTES[attribute].perceived(named), named["judge_age"], named["judge_smiling"]
    women = np.char.startswith(groups, "feminine")
    years = measures.years_moved(age[:, low], age[:, high])
    older = age[:, high] - age[:, low]
    return along_sweep(target, attribute, low=low, high=high) | {
        "dead": float(measures.dead_faces(target[:, SWEEP[attribute]]).mean()),
        "groups_1": dict(measures.group_effects(target[:, low], target[:, high], groups)),
        "groups_2": dict(measures.group_effects(target[:, 0], target[:, -1], groups)),
        "age_1": years.mean,
        "age_1_p90": years.most,
        "age_1_women": float(older[women].mean()),
        "age_1_men": float(older[~women].mean()),
        "age_2": float((age[:, -1] - age[:, 0]).mean()),
        "smile_1": float((smile[:, high] - smile[:, low]).mean()),
    }


def along_sweep(target: NDArray[np.float64], attribute: str, *, low: int, high: int) -> dict[str, Any]:
    """The rise of probabilities ``(N, K)`` from -1 to +1 and from -2 to +2, and whether they are in order."""
    swept = target[:, SWEEP[attribute]]
    ranked = spearman_per_row(np.array(VALUES[attribute])[SWEEP[attribute]], swept)
    return {
        "effect_1": float((target[:, high] - target[:, low]).mean()),
        "effect_2": float((target[:, -1] - target[:, 0]).mean()),
        "falls": measures.falling_share(swept),
        "spearman": float((ranked >= 0.9).mean()),
    }


@torch.inference_mode()
def seen_outside(
    weights: Path, versions: NDArray[np.uint8], attribute: str, groups: NDArray[np.str_], *, low: int, high: int
) -> dict[str, Any]:
    """What the outside judge perceives."""
    judge = read_weights(OutsideJudge(), weights).eval()
    target, years = [], []
    for step in range(versions.shape[1]):
        faces = F.avg_pool2d(unit_batch(list(versions[:, step])), 2)
        gender, race, _, age, _ = split(judge(faces, torch.Generator().manual_seed(5)))
        ends = [race[:, ATTRIBUTES["race"].categories.index(pole)] for pole in ATTRIBUTES["race"].poles]
        target.append(torch.sigmoid(gender if attribute == "gender" else ends[1] - ends[0]))
        years.append(age_in_years(age))
    older, women = (years[high] - years[low]).numpy(), np.char.startswith(groups, "feminine")
    found = torch.stack(target, dim=1).double().numpy()
    return along_sweep(found, attribute, low=low, high=high) | {
        "dead": float(measures.dead_faces(found[:, SWEEP[attribute]]).mean()),
        "groups_1": dict(measures.group_effects(found[:, low], found[:, high], groups)),
        "age_1": float(older.mean()),
        "age_1_women": float(older[women].mean()),
        "age_1_men": float(older[~women].mean()),
    }


def shortened(found: Mapping[str, Any]) -> str:
    """Figures in one line."""
    return " ".join(
        f"{key}={value:.3f}" if isinstance(value, float) else f"{key}={value}" for key, value in found.items()
    )


def _in_crop(subject: Subject, chances: NDArray[np.float32], names: tuple[str, ...]) -> NDArray[np.float32]:
    """The probability of some classes, from the parser's near view, over the aligned crop."""
    to_photo = invert(parser_view(subject.landmarks, size=chances.shape[-1]))
    there = subject.to_crop @ np.vstack([to_photo, [0, 0, 1]])
    membership = chances[list(class_indices(names))].sum(axis=0)
    return np.asarray(cv2.warpAffine(membership, there, (CROP, CROP), flags=cv2.INTER_LINEAR), dtype=np.float32)


if __name__ == "__main__":
    typer.run(main)
