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
