"""A run with generated counterfactuals, before its classifiers are queried."""

import json
from hashlib import sha256
from pathlib import Path

import numpy as np
from PIL import Image
from run_tables import write_tables

from pipeline.config.options import Settings
from pipeline.run.folder import Run
from pipeline.run.record import Stage

PHOTOS, STEPS = 4, 3


def unqueried_run(folder: Path, *, side: int = 40) -> Run:
    """Four photos of ``side`` x ``side`` pixels, each in three steps of gender."""
    rows = []
    for photo in range(PHOTOS):
        for step in range(1, STEPS + 1):
            file = Path("images") / "gender" / f"{photo}" / f"step{step}.png"
            path = folder / file
            path.parent.mkdir(parents=True, exist_ok=True)
            pixels = np.full((side, side, 3), photo * 10 + step, dtype=np.uint8)
            Image.fromarray(pixels).save(path)
            version = {"attribute": "gender", "arm": "edit", "photo": f"{photo}.png", "step": step, "value": step - 2.0}
            digest = sha256(path.read_bytes()).hexdigest()
            rows.append(version | {"status": "ok", "file": str(file), "sha256": digest})
    write_tables(folder, counterfactuals=rows)
    (folder / "run.json").write_text(json.dumps({"schema": 2}))
    run = Run(folder)
    run.note(settings=Settings(), stages={"counterfactuals": Stage(fingerprint="v", state="done")})
    return run
