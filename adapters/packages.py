"""Optional packages of adapters, and the command that installs a missing one."""

import shlex
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

from adapters.base import AdapterError

# Module -> requirement, where the names differ or a version matters.
_INSTALLED_AS = {
    "botocore": "botocore>=1.35",
    "google": "google-auth>=2.35",
    "open_clip": "open_clip_torch",
    "cv2": "opencv-python-headless<5",
    "PIL": "pillow",
}


@contextmanager
def needed(adapter: str, *, hint: str = "") -> Iterator[None]:
    """Context of imports that an adapter needs.

    Args:
        adapter: the adapter's name, for messages.
        hint: an alternative to installing the package.

    Raises:
        AdapterError: a package is missing; the message has the command that installs it.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        module = (error.name or "").partition(".")[0]
        package = _INSTALLED_AS.get(module, module)
        more = f"; {hint}" if hint else ""
        raise AdapterError(
            f"the adapter {adapter!r} needs the package {package.partition('>')[0].partition('<')[0]!r}, which is not "
            f"installed: {install_command(package)}{more}"
        ) from error
    except ImportError as error:
        raise AdapterError(f"the adapter {adapter!r} cannot be loaded: {error}") from error


def package(module: str, *, adapter: str) -> ModuleType:
    """Import a module that an adapter needs; AdapterError with the command that installs it if it is missing."""
    with needed(adapter):
        return import_module(module)


def install_command(package: str) -> str:
    """Return the shell command that installs a package into this program's environment."""
    python, own_uv = Path(sys.executable), Path(sys.prefix, "uv", "bin", "uv")
    here = Path.cwd()
    shown = str(python.relative_to(here)) if python.is_relative_to(here) else str(python)
    if shutil.which("uv") is None and not own_uv.is_file() and find_spec("pip") is not None:
        return shlex.join([shown, "-m", "pip", "install", package])
    uv = "uv" if shutil.which("uv") or not own_uv.is_file() else str(own_uv)
    return shlex.join([uv, "pip", "install", "--python", shown, package])
