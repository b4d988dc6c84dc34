"""A small album of drawn sweeps for the viewer's tests; every version has its own grey."""

import cv2
import numpy as np

from pipeline.report.viewer import Album, MissedCheck, Photo, Sweep, SweepScores

VALUES = (-2.0, -1.0, 0.0, 1.0, 2.0)
NAN = float("nan")
OUTLINE = "M64 40L192 40L192 216L64 216Z"


def film(first=40, *, side=64, steps=5):
    """Versions side by side; the grey is ``first`` plus 30 per step."""
    greys = np.repeat(first + 30 * np.arange(steps), side).astype(np.uint8)
    frames = np.broadcast_to(greys[None, :, None], (side, side * steps, 3))
    return cv2.imencode(".webp", np.ascontiguousarray(frames), [cv2.IMWRITE_WEBP_QUALITY, 90])[1].tobytes()


def sweep_scores(rising="smile", *, absent="beard", unanswered=None, values=VALUES):
    """Scores of three labels; ``absent`` is returned at a = 0 only."""
    rows = [[0.1, 0.3, 0.5, 0.7, 0.9], [NAN, NAN, 0.25, NAN, NAN], [0.6, 0.6, 0.6, 0.6, 0.6]]
    scores = np.array(rows)[:, [VALUES.index(value) for value in values]]
    return SweepScores([rising, absent, "person"], scores, unanswered or {})


def sweep(attribute="gender", arm="edit", *, first=40, adapters=("clarity",), unanswered=None):
    """A sweep of all values, or for a placebo of every second one."""
    values = VALUES if arm == "edit" else VALUES[::2]
    scores = {name: sweep_scores(unanswered=unanswered, values=values) for name in adapters}
    return Sweep(attribute, arm, values, film(first, steps=len(values)), scores)


def album(**changes):
    """Three photos: with two attributes and a placebo, with a failed check, and with an unanswered version."""
    photos = [
        Photo("ada.jpg", OUTLINE, (), [sweep(), sweep(arm="random", first=45), sweep("race", first=50)]),
        Photo("bea.jpg", OUTLINE, [MissedCheck("gender", "clipping", 0.4, 0.05)], [sweep(first=60)]),
        Photo("cleo.jpg", OUTLINE, (), [sweep(first=70, unanswered={0: "HTTP 503"})]),
    ]
    facts = {
        "photos": photos,
        "total": len(photos),
        "steepest": {("gender", "clarity"): {"smile": 0.31, "beard": -0.12, "never said": 0.1}},
        "presence": {"clarity": 0.5},
    }
    return Album(**(facts | changes))


def hostile_album(names):
    """An album with these names for photos, attributes, adapters and labels."""
    scores = SweepScores(names, np.full((len(names), len(VALUES)), 0.5), {1: names[0]})
    photos = [
        Photo(
            name,
            "",
            [MissedCheck("gender", names[2], 1.0, 0.5)],
            [Sweep("gender", names[4], VALUES, film(), {names[3]: scores})],
        )
        for name in names
    ]
    return album(photos=photos, total=len(photos), steepest={("gender", names[3]): {names[0]: 0.1}}, presence={})
