"""Apply measures of edits to real faces: ``real_faces.py EVALUATION.npz OUT/faces --outside outside.safetensors``.

Two comparisons show what an edit can be expected to reach: real faces of the other group pasted into the editor's
masks, and the difference between the mean faces of both groups in the training photos.
"""

from pathlib import Path
from typing import Annotated

import cv2
import numpy as np
import typer
from evaluate_editor import FEATHER, REGION, seen_outside, shortened
from numpy.typing import NDArray

from models.alignment import aligned_crop
from models.attributes import GENDERS, RACES
from models.judge import perceive_crops
from models.training.evaluation_set import EvaluationSet, load_evaluation_set
from models.training.small_faces import MARGIN, SIZE, SKIN, SmallFaces, load_small
from models.weights import load_judge, load_parser
from pipeline.config.attributes import ATTRIBUTES, Attribute
from pipeline.counterfactuals.editors.base import CROP, Subject
from pipeline.counterfactuals.mask import crop_mask, patches_of
from pipeline.counterfactuals.measures import stencil
from pipeline.counterfactuals.picture_measures import pasted

DEAD = 0.2  # change of P below which a face counts as one that does not respond, as on the validity card
DONORS = 5  # real faces pasted into each photo: those next in age
AGES = ((18, 35), (35, 55), (55, 90))
MOST = 900  # faces per mean
INSIDE = slice(MARGIN, MARGIN + SIZE)


def main(
    evaluation: Annotated[Path, typer.Argument(help="set of faces, written by `train.py prepare evaluation`")],
    faces: Annotated[Path, typer.Argument(help="training faces, written by `train.py prepare`")],
    outside: Annotated[Path, typer.Option(help="weights from `train.py outside-judge`")],
    limit: Annotated[int, typer.Option(help="number of photos that receive faces, spread over the set")] = 96,
) -> None:
    """Print the effects of pasted faces, and the largest deviations of the groups' mean difference."""
    chosen = load_evaluation_set(evaluation)
    for name in ("gender", "race"):
        for judge, swings in paste_swings(chosen, ATTRIBUTES[name], outside, limit=limit).items():
            means = [float(np.mean(of_face)) for of_face in swings]
            figures = {
                "faces": len(swings),
                "swing": float(np.mean(means)),
                f"pastes below {DEAD}": float(np.mean(np.concatenate(swings) < DEAD)),
                f"faces whose mean is below {DEAD}": float(np.mean(np.array(means) < DEAD)),
            }
            typer.echo(f"{name}, pasted, {judge}: {shortened(figures)}")
    small = load_small(faces)
    for name in ("gender", "race"):
        found = [stencil(difference) for difference in group_differences(small, ATTRIBUTES[name])]
        typer.echo(f"{name}, mean faces, largest deviation of ΔL*: {', '.join(f'{figure:.1f}' for figure in found)}")


def paste_swings(
    faces: EvaluationSet, attribute: Attribute, outside: Path, *, limit: int
) -> dict[str, list[NDArray[np.float64]]]:
    """Return the changes of P(higher pole) by each pasted face, towards the donors' pole, by judge and photo.

    Donors are of the other pole and otherwise of the same group as labelled; all faces of the other pole where there
    are too few. They get the replaced face's mean colour, unless skin colour belongs to the attribute.
    """
    groups = np.array([group.split(", ") for group in faces.groups])
    own, other = (0, 1) if attribute.name == "gender" else (1, 0)
    poles, ages = groups[:, own], faces.own[:, list(faces.columns).index("age")]
    subjects = [Subject(*row, {}) for row in zip(faces.files, faces.pixels, faces.landmarks, strict=True)]
    crops = np.stack([aligned_crop(subject.pixels, subject.landmarks, size=CROP) for subject in subjects])
    patches = patches_of(load_parser(), subjects, region=REGION, feather_share=FEATHER)
    pictures: list[NDArray[np.uint8]] = []
    receivers, signs = [], []
    for place in np.linspace(0, len(faces) - 1, min(limit, len(faces))).astype(int):
        patch = patches[place]
        if patch is None or poles[place] not in attribute.poles:
            continue
        high = poles[place] == attribute.poles[0]
        there = np.flatnonzero(poles == attribute.poles[int(high)])
        alike = there[groups[there, other] == groups[place, other]]
        donors = alike if len(alike) >= DONORS else there
        for donor in donors[np.argsort(np.abs(ages[donors] - ages[place]))][:DONORS]:
            mask = crop_mask(subjects[place], patch)
            pictures.append(pasted(crops[place], crops[donor], mask, matched=not attribute.moves_colour))
            receivers.append(place)
            signs.append(1 if high else -1)
    judged, chosen = load_judge("judge"), np.array(receivers)

    def perceived(images: NDArray[np.uint8], judge: str) -> NDArray[np.float64]:
        if judge == "outside":
            columns = {name: column[:, 0] for name, column in seen_outside(outside, images[:, None]).items()}
        else:
            seen = perceive_crops(judged, list(images)).named()
            columns = {f"judge_{name}": column.double().numpy() for name, column in seen.items()}
        return np.asarray(attribute.perceived(columns))

    found = {}
    for judge in ("judge", "outside"):
        swings = np.array(signs) * (perceived(np.stack(pictures), judge) - perceived(crops[chosen], judge))
        found[judge] = [swings[chosen == place] for place in np.unique(chosen)]
    return found


def group_differences(faces: SmallFaces, attribute: Attribute) -> list[NDArray[np.float64]]:
    """Return the symmetric difference of the skin's mean L* ``(64, 64)`` between both poles, for each other group and
    each of `AGES`; NaN where fewer than half of the faces show skin."""
    random = np.random.default_rng(0)
    labels, age = faces.labels, faces.labels.age.numpy()
    by_race = np.array(RACES)[labels.race.numpy()]
    by_gender = np.array(GENDERS)[(labels.gender > 0).long().numpy()]
    own, other = (by_gender, by_race) if attribute.name == "gender" else (by_race, by_gender)
    others = RACES[:2] if attribute.name == "gender" else GENDERS
    found = []
    for group in others:
        for youngest, oldest in AGES:
            means = []
            for pole in attribute.poles:
                of_age = (age >= youngest) & (age < oldest)
                rows = np.flatnonzero((own == pole) & (other == group) & of_age)
                means.append(_mean_lightness(faces, random.permutation(rows)[:MOST]))
            difference = means[1] - means[0]
            found.append((difference + difference[:, ::-1]) / 2)
    return found


def _mean_lightness(faces: SmallFaces, rows: NDArray[np.integer]) -> NDArray[np.float64]:
    total, count = np.zeros((SIZE, SIZE)), np.zeros((SIZE, SIZE))
    for row in rows:
        light = cv2.cvtColor(faces.crops[row, INSIDE, INSIDE].astype(np.float32) / 255, cv2.COLOR_RGB2LAB)[..., 0]
        skin = faces.classes[row, SKIN, INSIDE, INSIDE] > 127
        total += np.where(skin, light, 0)
        count += skin
    return np.where(count > len(rows) / 2, total / np.maximum(count, 1), np.nan)


if __name__ == "__main__":
    typer.run(main)
