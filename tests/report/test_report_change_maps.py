import numpy as np
import pandas as pd

from pipeline.report.change_maps import change_maps, coloured


def test_darker_lighter_unchanged_and_missing_pixels_have_different_colours():
    blue, white, orange, grey = coloured(np.array([[-20.0, 0.0, 20.0, np.nan]]))[0].tolist()
    assert blue[2] > blue[0]
    assert orange[0] > orange[2]
    assert min(white) > 240
    assert len(set(grey)) == 1


def test_change_maps_need_both_ends_of_an_attribute():
    field = [np.nan] + [1.0] * 4094 + [-12.5]
    rows = [{"attribute": "gender", "measure": f"map: {end}", "map": field} for end in ("low", "high")]
    checks = pd.DataFrame([*rows, {"attribute": "race", "measure": "map: low", "map": field}])
    found = change_maps(checks)
    assert list(found) == ["gender"]
    low, high = found["gender"]
    assert low.address.startswith("data:image/png;base64,")
    assert low.words == "Mean change of L* at a = −1: from -12.5 to +1.0"
    assert "+1" in high.words
