"""Calibrate the residual editor: ``calibrate_residual.py CALIBRATION.npz residual.safetensors``.

Finds the strengths at which the estimator perceives the target rises, on faces that are not used for any figure.
"""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import numpy as np
import torch
import typer
from evaluate_editor import EditorName, editor_of, subjects_of

from models.fader import ATTRIBUTES as INPUTS
from models.fader import GENDER, RACE
from models.judge import perceive_crops
from models.residual import Prototypes
from models.training.evaluation_set import load_evaluation_set
from models.weights import load_judge, load_parser, read_weights, write_weights
from pipeline.config.attributes import ATTRIBUTES
from pipeline.counterfactuals.editors.residual import ResidualBatch, ToneAndFields

STRENGTHS = (0.3, 2.7)  # the search interval
PLACES = {"gender": slice(GENDER, GENDER + 1), "race": RACE}


def main(
    calibration: Annotated[Path, typer.Argument(help="calibration.npz of `train.py prepare evaluation`")],
    weights: Annotated[Path, typer.Argument(help="weights from `train.py prototypes`; overwritten")],
    gender: Annotated[float, typer.Option(help="target rise of the mean probability from -1 to +1")] = 0.38,
    race: Annotated[float, typer.Option(help="the same for race")] = 0.51,
    limit: Annotated[int, typer.Option(help="number of faces, spread over the set")] = 60,
) -> None:
    """Find the strengths by bisection."""
    faces = load_evaluation_set(calibration)
    parser = load_parser()
    subjects = subjects_of(faces.take(np.linspace(0, len(faces) - 1, min(limit, len(faces))).astype(int)), parser)
    editor = editor_of(EditorName.RESIDUAL, parser, weights)
    assert isinstance(editor, ToneAndFields)
    prototypes, batch = read_weights(Prototypes(), weights).eval(), editor.read(subjects)
    ages = torch.tensor([float(subject.own["age"]) for subject in subjects])
    for name, target in (("gender", gender), ("race", race)):
        below, above = STRENGTHS
        for _ in range(6):
            strength = (below + above) / 2
            prototypes.strength[PLACES[name]] = strength
            found = rise(replace(batch, fields=prototypes(ages)), name)
            typer.echo(f"{name}: strength {strength:.3f}, rise {found:.3f}")
            if abs(found - target) < 0.01:
                break
            below, above = (strength, above) if found < target else (below, strength)
    typer.echo(dict(zip(INPUTS, prototypes.strength.tolist(), strict=True)))
    write_weights(prototypes, weights)


def rise(faces: ResidualBatch, name: str) -> float:
    """Return the rise of the estimator's mean probability of the higher pole from -1 to +1."""
    attribute, means, estimator = ATTRIBUTES[name], [], load_judge("estimator")
    units = faces.units(attribute)
    for value in (-1.0, 1.0):
        drawn = faces.drawn(attribute, units, np.full((1, len(faces.subjects)), value))
        perceived = {
            f"judge_{name}": figure.numpy() for name, figure in perceive_crops(estimator, drawn).named().items()
        }
        means.append(float(attribute.perceived(perceived).mean()))
    return means[1] - means[0]


if __name__ == "__main__":
    typer.run(main)
