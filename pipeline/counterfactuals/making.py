"""From faces to written, checked versions: one chunk of photos at a time, networks in batches, files in threads."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from models.fader import Fader
from models.judge import RACES, Estimator, Judge
from models.parser import BiSeNet, SmallParser
from pipeline.config import SweepOptions
from pipeline.counterfactuals.compositing import Patch
from pipeline.counterfactuals.rendering import ImageFile, Version, render
from pipeline.counterfactuals.sweep import Edit, Subject, crops_of, edits_of, patches_of, unit_batch
from pipeline.records import EDIT_ARM

NO_REGION = "no pixel of the face belongs to the region that may change"


@dataclass(frozen=True)
class Networks:
    """What making versions needs: the editor, the parser that says where, and the judge that checks."""

    fader: Fader
    parser: SmallParser | BiSeNet
    judge: Estimator | Judge


def make_versions(
    subjects: Sequence[Subject],
    *,
    networks: Networks,
    options: SweepOptions,
    run_folder: Path,
    pool: ThreadPoolExecutor,
) -> list[dict[str, Any]]:
    """Edit, composite, write and judge every version of some photos.

    Returns:
        Rows of the counterfactuals table, K for each photo and attribute.
    """
    if not subjects:
        return []
    patches = patches_of(
        networks.parser,
        subjects,
        region=options.region,
        feather_share=options.feather,
        within_crop=options.mode == "reconstruction",
    )
    crops, own = crops_of(subjects), torch.from_numpy(np.stack([subject.own for subject in subjects]))
    rows: list[dict[str, Any]] = []
    # One attribute at a time: what a run of gender alone would write must not depend on race being swept too.
    for attribute in options.attributes:
        sweep: dict[str, tuple[float, ...]] = {attribute: options.values(attribute)}
        (edit,) = edits_of(networks.fader, crops, own, sweeps=sweep, race_pair=options.race_pair)
        rows += _write_edit(
            subjects, patches, edit, networks=networks, options=options, run_folder=run_folder, pool=pool
        )
    return rows


def _write_edit(
    subjects: Sequence[Subject],
    patches: Sequence[Patch | None],
    edit: Edit,
    *,
    networks: Networks,
    options: SweepOptions,
    run_folder: Path,
    pool: ThreadPoolExecutor,
) -> Iterator[dict[str, Any]]:
    images = edit.changes if options.mode == "delta" else edit.faces
    file = ImageFile(options.image_format, options.jpeg_quality)

    def write(place: int) -> list[Version]:
        patch = patches[place]
        if patch is None:
            return []
        return render(
            subjects[place],
            patch,
            attribute=edit.attribute,
            values=edit.values,
            images=images[place],
            mode=options.mode,
            file=file,
            run_folder=run_folder,
        )

    written = list(pool.map(write, range(len(subjects))))
    versions = [version for of_photo in written for version in of_photo]
    judged = iter(_judge(networks.judge, [version.crop for version in versions]))
    for subject, of_photo in zip(subjects, written, strict=True):
        if of_photo:
            yield from (version.row | next(judged) for version in of_photo)
        else:
            yield from unmade(subject.photo, edit.attribute, edit.values, status="excluded", reason=NO_REGION)


def unmade(
    photo: str, attribute: str, values: Sequence[float], *, status: str, reason: str
) -> Iterator[dict[str, Any]]:
    """The rows of a photo's sweep that could not be made."""
    for step, value in enumerate(values, start=1):
        yield {
            "attribute": attribute,
            "arm": EDIT_ARM,
            "photo": photo,
            "step": step,
            "value": float(value),
            "status": status,
            "reason": reason,
        }


@torch.inference_mode()
def _judge(judge: Estimator | Judge, crops: Sequence[NDArray[np.uint8]]) -> list[dict[str, float]]:
    if not crops:
        return []
    with torch.autocast("cpu", dtype=torch.bfloat16):
        seen = judge.perceive(unit_batch(crops).contiguous(memory_format=torch.channels_last))
    columns = {
        "judge_masculine": seen.masculine,
        **{f"judge_race_{race}": seen.race[:, index] for index, race in enumerate(RACES)},
        "judge_age": seen.age,
        "judge_young": seen.young,
        "judge_smiling": seen.smiling,
    }
    numbers = {name: column.float().tolist() for name, column in columns.items()}
    return [{name: values[place] for name, values in numbers.items()} for place in range(len(crops))]
