"""Parts of a face that edits of features keep."""

from dataclasses import replace

import numpy as np
from drawn_subjects import subject

from pipeline.counterfactuals.editors.base import Patch
from pipeline.counterfactuals.kept_parts import highlights


def test_highlights_find_a_shiny_spot_but_not_shading():
    shade = np.linspace(0.6, 1.0, 200)[:, None, None]
    photo = np.rint(shade * np.full((200, 200, 3), (150, 105, 80))).astype(np.uint8)
    photo[95:105, 95:105] = (235, 225, 215)
    face = Patch(0, 0, np.ones((200, 200), dtype=np.float32))
    found = highlights(replace(subject("a.jpg"), pixels=photo), face)
    assert found is not None
    spot = np.zeros((200, 200), dtype=bool)
    spot[95:105, 95:105] = True
    assert found.mask[spot].min() == 1
    assert found.mask[~spot].max() < 0.2


def test_photo_without_a_face_has_no_highlights():
    assert highlights(subject("a.jpg"), None) is None
