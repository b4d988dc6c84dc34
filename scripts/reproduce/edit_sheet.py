"""Draw a contact sheet of edited photos: ``edit_sheet.py FACES.npz OUT.png --attribute race --rows 0,5,9``.

Each row shows a photo and its versions from the lowest to the highest value.
"""

from pathlib import Path
from typing import Annotated

import cv2
import numpy as np
import typer
from evaluate_editor import EditorName, editor_of, subjects_of, versions_of

from models.training.evaluation_set import load_evaluation_set
from models.weights import load_parser
from pipeline.config.attributes import ATTRIBUTES


def main(
    faces: Annotated[Path, typer.Argument(help="set of faces, written by `train.py prepare evaluation`")],
    out: Annotated[Path, typer.Argument(help="picture to write")],
    attribute: str = "race",
    editor: EditorName = EditorName.RESIDUAL,
    weights: Annotated[
        Path | None, typer.Option(help="weights of the residual editor. [default: the shipped ones]")
    ] = None,
    rows: Annotated[
        str, typer.Option(help="indices of photos, joined by commas. [default: 12 spread over the set]")
    ] = "",
    values: Annotated[str, typer.Option(help="values of the sweep, joined by commas")] = "-2,-1,1,2",
    height: Annotated[int, typer.Option(help="pixels of a photo's row")] = 275,
) -> None:
    """Draw the sheet."""
    chosen, parser = load_evaluation_set(faces), load_parser()
    places = [int(row) for row in rows.split(",")] if rows else np.linspace(0, len(chosen) - 1, 12).astype(int)
    subjects = subjects_of(chosen.take(places), parser)
    steps = tuple(float(value) for value in values.split(","))
    made = versions_of(editor_of(editor, parser, weights), parser, subjects, ATTRIBUTES[attribute], values=steps)
    lines = []
    for subject, versions in zip(subjects, made, strict=True):
        pictures = [subject.pixels, *(versions[1] if versions else [subject.pixels] * len(steps))]
        width = round(height * subject.pixels.shape[1] / subject.pixels.shape[0])
        lines.append(np.hstack([cv2.resize(p, (width, height), interpolation=cv2.INTER_AREA) for p in pictures]))
    out.parent.mkdir(parents=True, exist_ok=True)
    cv2.imwrite(str(out), cv2.cvtColor(np.vstack(lines), cv2.COLOR_RGB2BGR))


if __name__ == "__main__":
    typer.run(main)
