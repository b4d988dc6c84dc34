"""The names that ``pipeline.statistics`` exports, and their options."""

import subprocess
import sys

import pytest

import pipeline.statistics


@pytest.mark.parametrize("name", pipeline.statistics.__all__)
def test_public_names_exist(name):
    assert getattr(pipeline.statistics, name) is not None
    assert name in dir(pipeline.statistics)


def test_unknown_name_raises():
    with pytest.raises(ImportError, match="slope_tables"):
        from pipeline.statistics import slope_tables  # noqa: F401


def test_import_is_lazy():
    code = (
        "import sys, pipeline.statistics as s; assert 'numpy' not in sys.modules; s.slope_table; "
        "heavy = {'torch', 'sklearn', 'statsmodels', 'adapters'} & set(sys.modules); assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


BITS = [[0], [1]] * 3
PREDICTIONS = {"predicted_attributes": BITS, "predictions": BITS}
CALLS = {
    "attribute_to_task": ((BITS, BITS), {"predictions": BITS}),
    "multi_amplification": (("A->T", BITS, BITS), {"predictions": BITS, "sets": [[0]]}),
    "mals": ((BITS, BITS), PREDICTIONS),
    "multi_mals": ((BITS, BITS), PREDICTIONS | {"sets": [[0]]}),
    "group_rates": ((BITS, BITS), {"predictions": BITS}),
    "leakage": ((BITS, BITS, BITS), {}),
    "dpa": ((BITS, BITS), {"predictions": BITS}),
    "shares_by_group": (({"of": ["a"]}, {"of": ["a", "b"]}, ["all"]), {}),
}


@pytest.mark.parametrize("name", CALLS)
def test_misspelt_option_raises(name):
    arguments, options = CALLS[name]
    call = getattr(pipeline.statistics, name)
    call(*arguments, **options)
    with pytest.raises(TypeError, match="resamplings"):
        call(*arguments, **options, resamplings=3)


def test_misspelt_option_of_slopes_raises():
    sweeps = pipeline.statistics.Sweeps.from_array([[[0], [1], [1]]] * 3, [-1, 0, 1])
    with pytest.raises(TypeError, match="resamplings"):
        pipeline.statistics.slope_frame([sweeps], resamplings=3)
    with pytest.raises(TypeError, match="resamplings"):
        pipeline.statistics.subgroup_slopes(sweeps, {"0": "a"}, resamplings=3)
