"""Import scripts as modules."""

import importlib.util
import sys
from pathlib import Path

SCRIPTS = Path(__file__).resolve().parents[1] / "scripts"


def load_script(name, *needs):
    """Import ``scripts/NAME.py``, after the scripts that it imports from its own folder (``needs``)."""
    path = SCRIPTS / f"{name}.py"
    for dependency in needs:
        load_script(dependency)
    if path.stem not in sys.modules:
        spec = importlib.util.spec_from_file_location(path.stem, path)
        module = importlib.util.module_from_spec(spec)
        sys.modules[path.stem] = module
        spec.loader.exec_module(module)
    return sys.modules[path.stem]
