"""The plan of the house: the rooms, which of them may import which, and no module loose next to them."""

import ast
import itertools
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
# Data flows downwards: a room imports those above it. ``api`` and the package itself come last.
ROOMS = (
    "config", "run", "photos", "counterfactuals", "querying", "collection", "statistics", "review", "analyses",
    "report", "stages", "dataset", "cli",
)  # fmt: skip
BELOW = {"adapters": (), "models": ()}  # packages that know nothing of the pipeline
HEAVY = {"torch", "torchvision", "facenet_pytorch", "adapters"}


def modules(package: str) -> dict[str, ast.Module]:
    """Module name -> its syntax tree."""
    files = (ROOT / package).rglob("*.py")
    return {
        ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): ast.parse(file.read_text())
        for file in files
    }


def imported(tree: ast.Module) -> set[str]:
    """All that a module imports, inside functions and for type checking too."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module)
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
    return found


def room_of(name: str) -> str | None:
    """The room of a module of the pipeline; None for other packages, ``api`` and the package itself."""
    parts = name.split(".")
    return parts[1] if parts[0] == "pipeline" and len(parts) > 1 and parts[1] in ROOMS else None


@pytest.fixture(scope="module")
def house() -> dict[str, set[str]]:
    return {name: imported(tree) for package in ("pipeline", *BELOW) for name, tree in modules(package).items()}


def test_no_module_is_loose_in_the_pipeline():
    loose = {file.name for file in (ROOT / "pipeline").glob("*.py")}
    assert loose == {"__init__.py", "api.py"}
    folders = {folder.name for folder in (ROOT / "pipeline").iterdir() if (folder / "__init__.py").exists()}
    assert folders == set(ROOMS)


@pytest.mark.parametrize("package", BELOW)
def test_adapters_and_models_know_nothing_of_the_pipeline(house, package):
    wrong = {
        name: sorted(target for target in targets if target.split(".")[0] == "pipeline")
        for name, targets in house.items()
        if name.split(".")[0] == package
    }
    assert not {name: targets for name, targets in wrong.items() if targets}


def test_imports_run_one_way_through_the_rooms(house):
    """So packages form no circle, imports inside functions and for type checking counted."""
    wrong = sorted(
        f"{name} imports {target}"
        for name, targets in house.items()
        for target in targets
        if (own := room_of(name)) and (other := room_of(target)) and ROOMS.index(other) > ROOMS.index(own)
    )
    assert not wrong, "\n".join(wrong)


def test_files_form_no_circle(house):
    """Imports inside functions and for type checking counted; a package's own list of names is no part of its files."""
    needs = {
        name: {target for target in targets if target in house and not f"{name}.".startswith(f"{target}.")}
        for name, targets in house.items()
    }
    TopologicalSorter(needs).prepare()  # CycleError names the files


def test_no_room_imports_the_api(house):
    wrong = sorted(name for name, targets in house.items() if room_of(name) and "pipeline.api" in targets)
    assert not wrong


@pytest.mark.parametrize("room", ["statistics", "report"])
def test_statistics_and_report_import_no_network_and_no_adapter(house, room):
    wrong = sorted(
        f"{name} imports {target}"
        for name, targets in house.items()
        if room_of(name) == room
        for target in targets
        if target.split(".")[0] in HEAVY
    )
    assert not wrong, "\n".join(wrong)


def test_no_private_name_crosses_a_module(house):
    wrong = sorted(
        f"{name} imports {target}"
        for name, targets in house.items()
        for target in targets
        if target.split(".")[0] in ("pipeline", *BELOW)
        and target.split(".")[-1].startswith("_")
        and not target.endswith("__")
    )
    assert not wrong, "\n".join(wrong)


def test_every_import_of_the_house_exists(house):
    known = set(house)
    packages = {".".join(name.split(".")[:depth]) for name in known for depth in (1, 2, 3)}
    targets = set(itertools.chain.from_iterable(house.values()))
    own = {target for target in targets if target.split(".")[0] in ("pipeline", *BELOW)}
    missing = {target for target in own if target not in packages | known and target.rpartition(".")[0] not in known}
    assert not missing
