import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import adapters
from adapters.base import AdapterError
from adapters.packages import install_command, package


def test_missing_package_is_named_as_on_the_index(monkeypatch):
    with pytest.raises(AdapterError, match=r"'clip:x' needs .* 'nothing_like_it', .*install.* nothing_like_it"):
        package("nothing_like_it", adapter="clip:x")
    monkeypatch.setitem(sys.modules, "open_clip", None)
    with pytest.raises(AdapterError, match=r"'open_clip_torch', which is not installed: .* open_clip_torch"):
        package("open_clip", adapter="clip:x")


def test_install_command_targets_this_environment():
    words = shlex.split(install_command("botocore>=1.35"))
    assert words[-1] == "botocore>=1.35"
    assert words[1:4] == ["pip", "install", "--python"] or words[1:4] == ["-m", "pip", "install"]
    python = words[4] if words[1] == "pip" else words[0]
    assert Path(python).absolute() == Path(sys.executable)


@pytest.mark.parametrize("own_uv", [False, True])
def test_install_command_without_pip_uses_uv(tmp_path, own_uv):
    """As set up by scripts/setup.sh: .venv without pip, and uv on the path or in .venv/uv."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", ".venv"], cwd=tmp_path, check=True)
    if own_uv:
        (tmp_path / ".venv/uv/bin").mkdir(parents=True)
        (tmp_path / ".venv/uv/bin/uv").write_text("")
    done = subprocess.run(
        [tmp_path / ".venv/bin/python", "-c", "from adapters.packages import *; print(install_command('timm'))"],
        cwd=tmp_path, capture_output=True, text=True, check=True,
        env={**os.environ, "PYTHONPATH": str(Path(adapters.__file__).parents[1]), "PATH": "/nowhere"},
    )  # fmt: skip
    uv = tmp_path / ".venv/uv/bin/uv" if own_uv else "uv"
    assert done.stdout.strip() == f"{uv} pip install --python .venv/bin/python timm"
