"""Gradient-SHAP attribution: values, region shares, slopes of shares, and the report's section."""

import io
import json

import numpy as np
import pandas as pd
import pytest
import torch
from captum.attr import GradientShap
from finished_run import responses, write_run
from PIL import Image
from scipy.stats import t

from adapters.base import Capabilities, Differentiable
from adapters.local.face_attributes import FaceAttributes
from adapters.local.gradient_shap import attribute_scores, heatmap
from adapters.local.preprocessing import Preprocessing, map_pixels
from adapters.registry import create
from pipeline.analyses.attribution import summaries
from pipeline.analyses.registry import compute, sections
from pipeline.config.attributes import ATTRIBUTES
from pipeline.config.options import ConfigError
from pipeline.counterfactuals.face_regions import OUTSIDE, REGIONS, region_shares
from pipeline.photos import SAMPLE
from pipeline.report.charts import chart_of
from pipeline.run.folder import Run
from pipeline.run.tables import COUNTERFACTUALS, FACES, to_table, write_table


class TopLeftMean:
    """A network whose score is the mean of the image's top left quarter."""

    capabilities = Capabilities(labels=("bright", "dark"))

    def network_input(self, image):
        return np.asarray(Image.open(io.BytesIO(image)).convert("RGB"), dtype=np.float32).transpose(2, 0, 1) / 255

    def map_on_input(self, image, regions):
        return regions

    def scores(self, inputs):
        bright = inputs[..., : inputs.shape[-2] // 2, : inputs.shape[-1] // 2].mean(dim=(1, 2, 3))
        return torch.stack([bright, 1 - bright], dim=1)


@pytest.fixture
def image():
    return np.random.default_rng(0).random((3, 8, 8), dtype=np.float32)


def test_attribution_is_confined_to_the_pixels_that_determine_the_score(image):
    found = attribute_scores(TopLeftMean(), image, 0, samples=8, seed=0)
    assert found.shape == (8, 8)
    assert np.abs(found[:4, :4]).sum() > 0
    assert not found[4:].any()
    assert not found[:, 4:].any()


def test_sum_of_attribution_equals_captum(image):
    state = np.random.get_state()
    found = attribute_scores(TopLeftMean(), image, 0, samples=8, seed=3)
    assert np.random.get_state()[1].tolist() == state[1].tolist()
    image = torch.from_numpy(image)[None]
    levels = [getattr(image, name)(dim=(2, 3), keepdim=True) for name in ("amin", "amax", "mean")]
    baselines = torch.cat([level.expand_as(image) for level in levels])
    torch.manual_seed(3)
    np.random.seed(3)
    expected = GradientShap(TopLeftMean().scores).attribute(
        image, baselines=baselines, n_samples=8, stdevs=0.05, target=0
    )
    np.random.set_state(state)
    assert found.sum() == pytest.approx(float(expected.sum()), rel=1e-6)


def test_same_seed_gives_identical_attribution(image):
    first, again = (attribute_scores(TopLeftMean(), image, 0, samples=4, seed=1) for _ in range(2))
    assert (first == again).all()


def test_region_shares_of_absolute_attribution_sum_to_one():
    regions = np.zeros((4, 4), dtype=np.uint8)
    regions[:2] = list(REGIONS).index("face")
    attribution = np.zeros((4, 4))
    attribution[0, 0], attribution[3, 3] = -3.0, 1.0
    found = {name: (share, area) for name, share, area in region_shares(attribution, regions)}
    assert found["face"] == (0.75, 0.5)
    assert found["background"] == (0.25, 0.5)
    assert found[OUTSIDE] == (0.25, 0.5)
    assert sum(share for name, (share, _) in found.items() if name in REGIONS) == pytest.approx(1)


def test_shares_of_zero_attribution_are_nan():
    assert all(np.isnan(share) for _, share, _ in region_shares(np.zeros((4, 4)), np.zeros((4, 4), dtype=np.uint8)))


def test_regions_are_preprocessed_like_the_image():
    regions = np.zeros((40, 80), dtype=np.uint8)
    regions[:, 40:] = 3
    carried = map_pixels(regions, Preprocessing(size=(20, 20), mean=(0, 0, 0), std=(1, 1, 1)))
    assert carried.shape == (20, 20)
    assert (carried[:, :10] == 0).all()
    assert (carried[:, 10:] == 3).all()


def test_heatmap_is_an_image(image):
    content = heatmap(image, np.arange(64.0).reshape(8, 8))
    assert Image.open(io.BytesIO(content)).size == (160, 160)


def test_face_attributes_is_differentiable_and_opencv_is_not():
    judge = create("face-attributes")
    assert isinstance(judge, Differentiable)
    content = sorted(SAMPLE.glob("*.jpg"))[0].read_bytes()
    inputs = judge.network_input(content)
    regions = judge.map_on_input(content, np.ones((400, 400), dtype=np.uint8))
    assert regions.shape == inputs.shape[1:]
    label = FaceAttributes.capabilities.labels.index("smiling")
    found = attribute_scores(judge, inputs, label, samples=2, seed=0)
    assert np.isfinite(found).all()
    assert found.any()
    assert not isinstance(create("opencv"), Differentiable)


def test_adapter_without_gradients_or_unknown_label_raises(tmp_path):
    run = write_run(tmp_path / "run", [("opencv", "gender", "edit", responses(effect=[0.2, 0, 0], seed=1))])
    with pytest.raises(ConfigError, match="opencv has no gradients"):
        compute("attribution", run, {"adapter": "opencv", "label": "smile"})
    with pytest.raises(ConfigError, match="face-attributes has no label 'purple'"):
        compute("attribution", run, {"adapter": "face-attributes", "label": "purple"})


def share_rows(*photos, label="smiling", values=(-2.0, 0.0, 2.0)):
    """Rows of the table attribution_photos: for each photo the face's shares at ``values``, the rest background."""
    return pd.DataFrame(
        {"adapter": "mine", "attribute": "gender", "photo": f"p{number}", "value": value, "label": label}
        | {"region": region, "share": face if region == "face" else 1 - face, "area": 0.5}
        for number, shares in enumerate(photos)
        for value, face in zip(values, shares, strict=True)
        for region in ("face", "background", OUTSIDE)
    )


def test_means_and_slopes_of_shares_use_photos_as_units():
    summary, steps = summaries(share_rows((0.2, 0.3, 0.4), (0.5, 0.6, 0.9), (0.4, 0.3, 0.2)))
    face = summary.set_index("region").loc["face"]
    slopes = np.array([0.05, 0.1, -0.05])  # per unit of a
    assert face["slope"] == pytest.approx(slopes.mean())
    reach = t.ppf(0.975, 2) * slopes.std(ddof=1) / np.sqrt(3)
    assert (face["slope_low"], face["slope_high"]) == pytest.approx((slopes.mean() - reach, slopes.mean() + reach))
    assert summary.set_index("region").loc["background", "slope"] == pytest.approx(-slopes.mean())
    middle = steps[(steps["region"] == "face") & (steps["value"] == 0)].iloc[0]
    assert middle["share"] == pytest.approx(0.4)
    assert middle["share_low"] < 0.4 < middle["share_high"]


def test_incomplete_photos_are_excluded_and_one_photo_has_no_interval():
    summary, _ = summaries(share_rows((0.2, 0.3, 0.4), (0.5, np.nan, 0.9)))
    assert set(summary["photos"]) == {1}
    assert summary["slope"].notna().all()
    assert summary[["slope_low", "slope_high"]].isna().all(axis=None)
    without_photos, _ = summaries(share_rows((0.5, np.nan, 0.9)))
    assert set(without_photos["photos"]) == {0}
    assert without_photos["slope"].isna().all()


def test_report_section_has_shares_heatmaps_and_label_slopes():
    summary, steps = summaries(share_rows((0.2, 0.3, 0.4), (0.5, 0.6, 0.9)))
    summary = summary.assign(label_slope=0.12, label_slope_low=0.1, label_slope_high=np.nan)
    photos = share_rows((0.2, 0.3, 0.4), (0.5, 0.6, 0.9))
    drawn = photos.assign(heatmap=(photos["value"].astype(str) + ".webp").where(photos["photo"] == "p0", ""))
    tables = {"attribution": summary, "attribution_steps": steps, "attribution_photos": drawn}
    found = sections(tables, about={}, stale={}, swept=ATTRIBUTES)
    (section,) = (candidate for candidate in found if candidate.key == "attribution")
    (part,) = section.parts
    assert part.sentences[0].startswith("“smiling”: 51.7 % of the absolute attribution lies outside the face")
    assert "own slope is +0.120" in part.sentences[0]
    (chart,) = part.charts
    drawn = json.dumps(chart_of(chart).to_dict())
    assert "background" in drawn
    assert "feminine" in drawn
    ((photo, files),) = part.galleries[0].rows
    assert photo == "p0"
    assert files == ["attribution/-2.0.webp", "attribution/0.0.webp", "attribution/2.0.webp"], "in sweep order"
    assert section.photos == set(files)


def test_attribution_of_a_run_at_selected_steps(tmp_path):
    run = Run(write_run(tmp_path, [("face-attributes", "gender", "edit", responses(effect=[0.2, 0, 0], seed=1))]))
    rows = []
    for photo, portrait in zip(("p0000", "p0001"), sorted(SAMPLE.glob("*.jpg")), strict=False):
        for value in (-2.0, -1.0, 0.0, 1.0, 2.0):
            file = run.path(f"{photo}{value}.jpg")
            file.write_bytes(portrait.read_bytes())
            rows.append({"attribute": "gender", "arm": "edit", "photo": photo, "value": value, "status": "ok"})
            rows[-1]["file"] = file.name
    write_table(to_table(rows, COUNTERFACTUALS), run.path("counterfactuals.parquet"))
    points = [140.0, 160.0, 260.0, 160.0, 200.0, 220.0, 150.0, 270.0, 250.0, 270.0]
    faces = [{"photo": photo, "status": "ok", "landmarks": points} for photo in ("p0000", "p0001")]
    write_table(to_table(faces, FACES), run.path("faces.parquet"))
    slope = {"slope": 0.1, "slope_low": 0.05, "slope_high": 0.15, "q": 0.01, "estimable": True}
    of = {"adapter": "face-attributes", "attribute": "gender", "arm": "edit", "label": "smiling"}
    run.write_csv("slopes", pd.DataFrame([of | slope]))
    given = {"adapter": "face-attributes", "photos": 2, "steps": 3, "samples": 1, "heatmaps": 1}
    tables = compute("attribution", run.folder, given).tables
    photos = tables["attribution_photos"]
    assert set(photos["value"]) == {-2.0, 0.0, 2.0}
    whole = photos[photos["region"].isin(REGIONS)].groupby(["photo", "value"])["share"].sum()
    assert whole.to_numpy() == pytest.approx(np.ones(6))
    assert tables["attribution"]["label_slope"].tolist() == [0.1] * 6
    assert tables["attribution"]["slope"].to_numpy() == pytest.approx(np.zeros(6), abs=1e-9), "identical versions"
    drawn = set(photos["heatmap"]) - {""}
    assert {path.name for path in run.path("attribution").iterdir()} == drawn
    assert len(drawn) == 3
