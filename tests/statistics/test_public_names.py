"""What ``pipeline.statistics`` exports: every name, loaded late, without a network."""

import subprocess
import sys

import pytest

import pipeline.statistics


@pytest.mark.parametrize("name", pipeline.statistics.__all__)
def test_every_public_name_is_there(name):
    assert getattr(pipeline.statistics, name) is not None
    assert name in dir(pipeline.statistics)


def test_an_unknown_name_is_refused():
    with pytest.raises(ImportError, match="slope_tables"):
        from pipeline.statistics import slope_tables  # noqa: F401


def test_importing_loads_nothing_heavy():
    code = (
        "import sys, pipeline.statistics as s; assert 'numpy' not in sys.modules; s.slope_table; "
        "heavy = {'torch', 'sklearn', 'statsmodels', 'adapters'} & set(sys.modules); assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


BITS = [[0], [1]] * 3
BOTH = {"predicted_attributes": BITS, "predictions": BITS}
TAKING_OPTIONS = {
    "attribute_to_task": ((BITS, BITS), {"predictions": BITS}),
    "multi_amplification": (("A->T", BITS, BITS), {"predictions": BITS, "sets": [[0]]}),
    "mals": ((BITS, BITS), BOTH),
    "multi_mals": ((BITS, BITS), BOTH | {"sets": [[0]]}),
    "group_rates": ((BITS, BITS), {"predictions": BITS}),
    "leakage": ((BITS, BITS, BITS), {}),
    "dpa": ((BITS, BITS), {"predictions": BITS}),
    "shares_by_group": (({"of": ["a"]}, {"of": ["a", "b"]}, ["all"]), {}),
}


@pytest.mark.parametrize("name", TAKING_OPTIONS)
def test_a_misspelt_option_is_refused(name):
    arguments, options = TAKING_OPTIONS[name]
    call = getattr(pipeline.statistics, name)
    call(*arguments, **options)
    with pytest.raises(TypeError, match="resamplings"):
        call(*arguments, **options, resamplings=3)


def test_a_misspelt_option_of_slopes_is_refused():
    sweeps = pipeline.statistics.Sweeps.from_array([[[0], [1], [1]]] * 3, [-1, 0, 1])
    with pytest.raises(TypeError, match="resamplings"):
        pipeline.statistics.slope_frame([sweeps], resamplings=3)
    with pytest.raises(TypeError, match="resamplings"):
        pipeline.statistics.subgroup_slopes(sweeps, {"0": "a"}, resamplings=3)
