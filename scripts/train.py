"""Train the networks: ``python scripts/train.py --help``; the order of the steps is in models/weights/README.md.

Every step is seeded, keeps checkpoints in its folder OUT, and continues from them when it is started again.
"""

from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import numpy as np
import torch
import typer
from numpy.typing import NDArray

from models.fader import Fader
from models.judge import Estimator
from models.parser import SmallParser
from models.residual import Prototypes
from models.training import classifiers, distillation, evaluation_set, fader, outside_judge, parser, preparation
from models.training.calibration import calibrate as calibrate_strength
from models.training.data import load_faces, report_rows, selection_rows
from models.training.prototypes import set_prototypes
from models.training.small_faces import load_small, prepare_small
from models.training.tones import fit_tones, write_tones
from models.weights import load_judge, read_weights, write_weights

app = typer.Typer(help="Train the shipped networks.", no_args_is_help=True, add_completion=False)
prepare = typer.Typer(help="Convert the archives of photos to the arrays used in training.", no_args_is_help=True)
app.add_typer(prepare, name="prepare")


class Classifier(StrEnum):
    """The names of ``classifiers.PLANS``."""

    ESTIMATOR = "estimator"
    JUDGE = "judge"
    GREY_JUDGE = "grey-judge"
    GUIDE = "guide"


Faces = Annotated[Path, typer.Argument(help="folder written by `prepare faces`")]
Edits = Annotated[Path, typer.Argument(help="folder written by `prepare edits`")]
Out = Annotated[Path, typer.Argument(help="folder for checkpoints, log and the finished weights")]
Device = Annotated[str, typer.Option(help="cpu or cuda; cuda where there is one")]
Compile = Annotated[bool, typer.Option("--compile", help="faster; needs a C++ compiler")]
Start = Annotated[Path | None, typer.Option(help="initialise from these weights instead of at random")]
Data = Annotated[Path, typer.Option(envvar="COUNTERSLOPE_DATA", help="folder of the archives")]
Limit = Annotated[int | None, typer.Option(help="use only this many photos, for a trial run")]
SKIN_PIXELS = 200  # of 72 x 72; faces with fewer are excluded from the table of tones
TONE_SOURCE = "UTKFace, age of 12 and more, training faces (90 %): median CIELAB of skin and nose per face"
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@prepare.command("faces")
def prepare_faces(out: Path, data: Data, limit: Limit = None) -> None:
    """Detect and crop the labelled faces of UTKFace."""
    typer.echo(f"{preparation.prepare_faces(data, out, limit=limit)} prepared in {out}")


@prepare.command("masks")
def prepare_masks(out: Path, data: Data, limit: Limit = None) -> None:
    """Collect the photos with label masks of CelebAMask-HQ."""
    typer.echo(f"{preparation.prepare_masks(data, out, limit=limit)} prepared in {out}")


@prepare.command("edits")
def prepare_edits(
    out: Path,
    faces: Annotated[Path, typer.Option()],
    masks: Annotated[Path, typer.Option()],
    guide: Annotated[Path, typer.Option(help="weights from `classifier guide`")],
    parser: Annotated[Path, typer.Option(help="weights from `parser`")],
) -> None:
    """Combine both data sets for the Fader network, with the regions that may change."""
    networks = read_weights(SmallParser(), parser).eval(), read_weights(classifiers.PLANS["guide"][0](), guide).eval()
    count = preparation.prepare_edits(faces, masks, out, parser=networks[0], guide=networks[1])
    typer.echo(f"{count} prepared in {out}")


@prepare.command("small")
def prepare_small_faces(faces: Faces, parser: Annotated[Path, typer.Argument(help="weights from `parser`")]) -> None:
    """Add half-size crops, face classes and skin colours to a folder of faces, for the residual editor."""
    network = read_weights(SmallParser(), parser).eval()
    typer.echo(f"{prepare_small(faces, parser=network)} prepared in {faces}")


@prepare.command("evaluation")
def prepare_evaluation(
    out: Path,
    data: Data,
    each: Annotated[int, typer.Option(help="photos per gender and race")] = 30,
    portraits: Annotated[int, typer.Option(help="official portraits")] = 200,
) -> None:
    """Collect held-out faces, others to calibrate on, and official portraits for scripts/reproduce/."""
    out.mkdir(parents=True, exist_ok=True)
    estimator = load_judge("estimator")
    evaluation_set.held_out_faces(data, estimator, each=each).save(out / "faces.npz")
    evaluation_set.held_out_faces(data, estimator, each=each // 2, calibration=True).save(out / "calibration.npz")
    evaluation_set.portraits(data, estimator, limit=portraits).save(out / "portraits.npz")


@app.command("parser")
def train_parser(
    masks: Annotated[Path, typer.Argument(help="folder written by `prepare masks`")],
    out: Out,
    device: Device = DEVICE,
    steps: int = parser.ParserPlan.steps,
    rate: Annotated[float, typer.Option(help="peak learning rate")] = parser.ParserPlan.peak_rate,
    start: Start = None,
) -> None:
    """Train the small face parser."""
    plan = replace(parser.ParserPlan(), steps=steps, peak_rate=rate)
    torch.manual_seed(plan.seed)
    network = SmallParser()
    if start:
        read_weights(network, start)
    data = parser.load_masks(masks)
    parser.train(network, data, plan, out, device=device)
    typer.echo(parser.evaluate(network, data, device=device))
    write_weights(network, out / "parser.safetensors")


@app.command("classifier")
def train_classifier(
    name: Classifier, faces: Faces, out: Out, device: Device = DEVICE, compiled: Compile = False
) -> None:
    """Train the estimator, one of the judges, or the guide of the Fader network's training."""
    make, plan = classifiers.PLANS[name]
    torch.manual_seed(plan.seed)
    network, data = make(), load_faces(faces)
    classifiers.train(network, data, plan, out, device=device, compiled=compiled)
    typer.echo(classifiers.evaluate(network, data, report_rows(data), device=device))
    write_weights(network, out / f"{name}.safetensors")


@app.command("fader")
def train_fader(
    edits: Edits,
    guide: Annotated[Path, typer.Argument(help="weights from `classifier guide`")],
    out: Out,
    device: Device = DEVICE,
    steps: int = fader.FaderPlan.steps,
    start: Start = None,
    compiled: Compile = False,
) -> None:
    """Train the coarse Fader network, the teacher of the shipped one."""
    plan = replace(fader.FaderPlan(), steps=steps)
    torch.manual_seed(plan.seed)
    network, against = Fader(fader.COARSE), read_weights(classifiers.PLANS["guide"][0](), guide)
    if start:
        read_weights(network, start, strict=False)
    faces, masks = load_faces(edits), _masks(edits)
    average = fader.train(network, against, faces, masks, plan, out, device=device, compiled=compiled)
    write_weights(average.module, out / "fader.safetensors")


@app.command("distil")
def distil_fader(
    edits: Edits,
    teacher: Annotated[Path, typer.Argument(help="weights from `fader`, calibrated")],
    out: Out,
    device: Device = DEVICE,
    steps: int = distillation.DistillationPlan.steps,
) -> None:
    """Train the shipped Fader network from its teacher."""
    plan = replace(distillation.DistillationPlan(), steps=steps)
    torch.manual_seed(plan.seed)
    coarse, network = read_weights(Fader(fader.COARSE), teacher), Fader()
    distillation.inherit(network, coarse)
    average = distillation.train(network, coarse, load_faces(edits), _masks(edits), plan, out, device=device)
    write_weights(average.module, out / "fader.safetensors")


@app.command("calibrate")
def calibrate_fader(
    edits: Edits,
    estimator: Annotated[Path, typer.Argument(help="weights from `classifier estimator`")],
    weights: Annotated[Path, typer.Argument(help="weights of the Fader network; overwritten")],
    coarse: Annotated[bool, typer.Option("--coarse", help="the weights are from `fader`, not from `distil`")] = False,
) -> None:
    """Calibrate the strength of a unit of gender and race."""
    network = read_weights(Fader(fader.COARSE if coarse else None), weights, strict=False).eval()
    calibrate_strength(network, read_weights(Estimator(), estimator).eval(), load_faces(edits), _masks(edits))
    typer.echo(f"strength of gender and race: {network.strength.tolist()}")
    write_weights(network, weights)


@app.command("tone")
def fit_tone(faces: Faces, out: Annotated[Path, typer.Argument(help="the table, such as tone.json")]) -> None:
    """Fit the table of skin tones."""
    data = load_small(faces)
    rows = data.labels.rows(0, 1)
    colours = data.lab[rows].numpy()
    colours[data.skin_pixels[rows.numpy()] < SKIN_PIXELS] = np.nan
    gender, race, age = (column[rows].numpy() for column in (data.labels.gender, data.labels.race, data.labels.age))
    table = fit_tones(colours, gender=gender, race=race, age=age)
    write_tones(table, out, source=TONE_SOURCE)


@app.command("prototypes")
def compute_prototypes(faces: Faces, out: Out) -> None:
    """Compute the prototypes of the residual editor, which are differences of mean faces."""
    data = load_small(faces)
    prototypes = Prototypes()
    set_prototypes(prototypes, data, data.labels.rows(0, 1))
    out.mkdir(parents=True, exist_ok=True)
    write_weights(prototypes, out / "residual.safetensors")


@app.command("outside-judge")
def train_outside_judge(faces: Faces, out: Out) -> None:
    """Train the outside judge, which is only used to evaluate editors."""
    plan, data = outside_judge.OutsidePlan(), load_small(faces)
    torch.manual_seed(plan.first)
    judge = outside_judge.OutsideJudge()
    outside_judge.train(judge, data, plan, out)
    typer.echo(outside_judge.evaluate(judge, data, selection_rows(data.labels)))
    write_weights(judge, out / "outside.safetensors")


def _masks(edits: Path) -> NDArray[np.uint8]:
    masks: NDArray[np.uint8] = np.load(edits / "masks.npy", mmap_mode="r")
    return masks


if __name__ == "__main__":
    app()
