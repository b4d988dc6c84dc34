"""Evaluate a counterfactual editor on held-out faces; write the figures to a JSON file and print them.

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
from models.judge import age_in_years, perceive_crops, split
from models.parser import BiSeNet, SmallParser
from models.precision import unit_batch
from models.residual import Prototypes
from models.tone import load_tone_table
from models.training.evaluation_set import EvaluationSet, load_evaluation_set
from models.training.outside_judge import OutsideJudge
from models.weights import load_fader, load_judge, load_parser, load_residual, read_weights
from pipeline.config.attributes import ATTRIBUTES, RACE, Attribute
from pipeline.config.sweep_options import SweepOptions
from pipeline.counterfactuals import measures
from pipeline.counterfactuals.checks import spearman_per_row
from pipeline.counterfactuals.editors.base import CROP, Editor, Patch, PhotoEdit, Subject
from pipeline.counterfactuals.editors.fader import FaderEditor
from pipeline.counterfactuals.editors.residual import ToneAndFields
from pipeline.counterfactuals.mask import add_change, chances_of, crop_mask, parser_view, patches_of, to_patch
from pipeline.counterfactuals.skin import skin_lightness

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
        faces: skin and nose, according to the parser.
        necks: neck and ears.
        rows: ``(N,)`` indices of the photos in the set.
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
    weights: Annotated[
        Path | None, typer.Option(help="weights of the residual editor. [default: the shipped ones]")
    ] = None,
    without: Annotated[Part | None, typer.Option(help="leave out one part of the residual editor")] = None,
    outside: Annotated[
        Path | None, typer.Option(help="weights from `outside-judge`; also evaluate the versions with it")
    ] = None,
    limit: Annotated[int | None, typer.Option(help="number of faces, spread over the set. [default: all]")] = None,
    attributes: Annotated[str, typer.Option(help="attributes, joined by commas")] = "gender,race",
) -> None:
    """Measure an editor on a set of faces."""
    chosen, parser = load_evaluation_set(faces), load_parser()
    if limit is not None and limit < len(chosen):
        chosen = chosen.take(np.linspace(0, len(chosen) - 1, limit).astype(int))
    made = editor_of(editor, parser, weights, without=without)
    result: dict[str, dict[str, Any]] = {}
    for name in attributes.split(","):
        swept = ATTRIBUTES[name]
        result[name] = figures(pictures(made, parser, chosen, swept), chosen, swept, outside)
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
    """Load an editor, with the shipped weights or, for the residual editor, other ones."""
    if editor is EditorName.FADER:
        return FaderEditor(load_fader())
    network = load_residual() if weights is None else read_weights(Prototypes(), weights).eval()
    parts = {"tone": without is not Part.TONE, "features": without is not Part.FEATURES}
    return ToneAndFields(network, load_tone_table(), parser, REGION, FEATHER, load_judge("estimator"), **parts)


def subjects_of(faces: EvaluationSet, parser: SmallParser | BiSeNet) -> list[Subject]:
    """Convert photos to subjects of a sweep, with the L* of their skin (NaN where too little is visible)."""
    columns, found = [str(name) for name in faces.columns], []
    for name, pixels, landmarks, own in zip(faces.files, faces.pixels, faces.landmarks, faces.own, strict=True):
        known = dict(zip(columns, map(float, own), strict=True))
        lightness = skin_lightness(parser, Subject(str(name), pixels, landmarks, known))
        found.append(
            Subject(str(name), pixels, landmarks, known | {"skin_l": np.nan if lightness is None else lightness})
        )
    return found


def swept_values(attribute: Attribute) -> tuple[NDArray[np.float64], list[int]]:
    """Return the values of an attribute's default sweep with -1 and 1 added, and the indices of the original values."""
    sweep = np.linspace(-2, 2, attribute.default_steps)
    values = np.union1d(sweep, (-1.0, 1.0))
    return values, [int(np.abs(values - value).argmin()) for value in sweep]


@torch.inference_mode()
def pictures(editor: Editor, parser: SmallParser | BiSeNet, faces: EvaluationSet, attribute: Attribute) -> Pictures:
    """Make all versions of all faces that the editor can change, as aligned crops."""
    found: list[tuple[NDArray[Any], ...]] = []
    rows, subjects = [], subjects_of(faces, parser)
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
    """Make each face's patch and K versions in its photo, composited as in an audit; None where nothing may change."""
    edit = editor.read(subjects).edit(attribute, values or tuple(map(float, swept_values(attribute)[0])))
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


def figures(found: Pictures, faces: EvaluationSet, attribute: Attribute, outside: Path | None) -> dict[str, Any]:
    """Compute an attribute's figures: outputs of judge, estimator and outside judge, and measures of the pictures."""
    values, _ = swept_values(attribute)
    low, high = int(np.argmin(np.abs(values + 1))), int(np.argmin(np.abs(values - 1)))
    photos, versions, skin = found.photos, found.versions, found.faces
    groups = faces.groups[found.rows]
    names: tuple[Literal["judge", "estimator"], ...] = ("judge", "estimator")
    result: dict[str, Any] = {"faces": len(photos)}
    measured = {
        "skin_l": np.stack([measures.median_colours(one, skin)[:, 0] for one in versions.swapaxes(0, 1)], axis=1)
    }
    for name in names:
        seen = perceive_crops(load_judge(name), list(versions.reshape(-1, *versions.shape[2:]))).named()
        named = {f"judge_{key}": one.double().numpy().reshape(len(photos), -1) for key, one in seen.items()}
        result[name] = along_sweep({**named, **measured}, attribute, groups, low=low, high=high)
    if outside is not None:
        result["outside"] = along_sweep(
            {**seen_outside(outside, versions), **measured}, attribute, groups, low=low, high=high
        )
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


def along_sweep(
    seen: Mapping[str, NDArray[np.float64]], attribute: Attribute, groups: NDArray[np.str_], *, low: int, high: int
) -> dict[str, Any]:
    """Summarise the effect along the sweep, its order, its size per group, and side effects.

    Args:
        seen: outputs of a network or measurements of the versions ``(N, K)``, by column of the counterfactuals table.
        attribute: the swept attribute.
        groups: ``(N,)`` the faces' groups.
        low, high: the indices of the values -1 and 1.
    """
    target, age, smile = attribute.perceived(seen), seen["judge_age"], seen["judge_smiling"]
    values, sweep = swept_values(attribute)
    swept, women = target[:, sweep], np.char.startswith(groups, "feminine")
    years, older = measures.years_moved(age[:, low], age[:, high]), age[:, high] - age[:, low]
    return {
        "effect_1": float((target[:, high] - target[:, low]).mean()),
        "effect_2": float((target[:, -1] - target[:, 0]).mean()),
        "falls": measures.falling_share(swept),
        "spearman": float((spearman_per_row(values[sweep], swept) >= 0.9).mean()),
        "dead": float(measures.dead_faces(swept).mean()),
        "groups_1": dict(measures.group_effects(target[:, low], target[:, high], groups)),
        "groups_2": dict(measures.group_effects(target[:, 0], target[:, -1], groups)),
        "age_1": years.mean,
        "age_1_p90": years.most,
        "age_1_women": float(older[women].mean()),
        "age_1_men": float(older[~women].mean()),
        "age_2": float((age[:, -1] - age[:, 0]).mean()),
        "smile_1": float((smile[:, high] - smile[:, low]).mean()),
    }


@torch.inference_mode()
def seen_outside(weights: Path, versions: NDArray[np.uint8]) -> dict[str, NDArray[np.float64]]:
    """Evaluate versions ``(N, K, 128, 128, 3)`` with the outside judge; return columns ``(N, K)``."""
    judge, found = read_weights(OutsideJudge(), weights).eval(), []
    for step in range(versions.shape[1]):
        faces = F.avg_pool2d(unit_batch(list(versions[:, step])), 2)
        gender, race, _, age, smiling = split(judge(faces, torch.Generator().manual_seed(5)))
        columns = torch.sigmoid(gender), age_in_years(age), torch.sigmoid(smiling), *race.softmax(dim=1).unbind(1)
        found.append(torch.stack(columns))
    names = "judge_masculine", "judge_age", "judge_smiling", *RACE.columns
    return dict(zip(names, torch.stack(found, dim=-1).double().numpy(), strict=True))


def shortened(found: Mapping[str, Any]) -> str:
    """Format figures on one line."""
    return " ".join(
        f"{key}={value:.3f}" if isinstance(value, float) else f"{key}={value}" for key, value in found.items()
    )


def _in_crop(subject: Subject, chances: NDArray[np.float32], names: tuple[str, ...]) -> NDArray[np.float32]:
    """Map the probability of some classes from the parser's near view to the aligned crop."""
    to_photo = invert(parser_view(subject.landmarks, size=chances.shape[-1]))
    there = subject.to_crop @ np.vstack([to_photo, [0, 0, 1]])
    membership = chances[list(class_indices(names))].sum(axis=0)
    return np.asarray(cv2.warpAffine(membership, there, (CROP, CROP), flags=cv2.INTER_LINEAR), dtype=np.float32)


if __name__ == "__main__":
    typer.run(main)
