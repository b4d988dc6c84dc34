"""The package structure of docs/architecture.md: which packages exist, and which may import which."""

import ast
import itertools
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
# A package imports only packages above it in this list. `api` and `pipeline` itself come last.
PACKAGES = (
    "config", "run", "photos", "counterfactuals", "querying", "collection", "statistics", "review", "analyses",
    "report", "stages", "dataset", "cli",
)  # fmt: skip
INDEPENDENT = ("adapters", "models")  # do not import `pipeline`
HEAVY = {"torch", "torchvision", "facenet_pytorch", "adapters"}


def modules(package: str) -> dict[str, ast.Module]:
    """Module name -> its syntax tree."""
    files = (ROOT / package).rglob("*.py")
    return {
        ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): ast.parse(file.read_text())
        for file in files
    }


def imported(tree: ast.Module) -> set[str]:
    """All imports of a module, including those inside functions and for type checking."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module)
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
    return found


def package_of(name: str) -> str | None:
    """The package of `pipeline` that a module belongs to; None for `api`, `pipeline` itself and other modules."""
    parts = name.split(".")
    return parts[1] if parts[0] == "pipeline" and len(parts) > 1 and parts[1] in PACKAGES else None


@pytest.fixture(scope="module")
def imports() -> dict[str, set[str]]:
    return {name: imported(tree) for package in ("pipeline", *INDEPENDENT) for name, tree in modules(package).items()}


def test_pipeline_has_only_the_listed_packages():
    assert {file.name for file in (ROOT / "pipeline").glob("*.py")} == {"__init__.py", "api.py"}
    folders = {folder.name for folder in (ROOT / "pipeline").iterdir() if (folder / "__init__.py").exists()}
    assert folders == set(PACKAGES)


@pytest.mark.parametrize("package", INDEPENDENT)
def test_adapters_and_models_do_not_import_the_pipeline(imports, package):
    wrong = sorted(
        f"{name} imports {target}"
        for name, targets in imports.items()
        if name.split(".")[0] == package
        for target in targets
        if target.split(".")[0] == "pipeline"
    )
    assert not wrong, "\n".join(wrong)


def test_packages_import_only_packages_above_them(imports):
    wrong = sorted(
        f"{name} imports {target}"
        for name, targets in imports.items()
        for target in targets
        if (own := package_of(name)) and (other := package_of(target)) and PACKAGES.index(other) > PACKAGES.index(own)
    )
    assert not wrong, "\n".join(wrong)


def test_modules_have_no_circular_imports(imports):
    dependencies = {  # the ``__init__`` of a module's own packages does not count
        name: {target for target in targets if target in imports and not f"{name}.".startswith(f"{target}.")}
        for name, targets in imports.items()
    }
    TopologicalSorter(dependencies).prepare()  # CycleError names the modules


def test_no_package_imports_the_api(imports):
    wrong = sorted(name for name, targets in imports.items() if package_of(name) and "pipeline.api" in targets)
    assert not wrong


@pytest.mark.parametrize("package", ["statistics", "report"])
def test_statistics_and_report_import_no_torch_and_no_adapter(imports, package):
    wrong = sorted(
        f"{name} imports {target}"
        for name, targets in imports.items()
        if package_of(name) == package
        for target in targets
        if target.split(".")[0] in HEAVY
    )
    assert not wrong, "\n".join(wrong)


def test_private_names_are_not_imported(imports):
    wrong = sorted(
        f"{name} imports {target}"
        for name, targets in imports.items()
        for target in targets
        if target.split(".")[0] in ("pipeline", *INDEPENDENT)
        and target.split(".")[-1].startswith("_")
        and not target.endswith("__")
    )
    assert not wrong, "\n".join(wrong)


def test_every_internal_import_exists(imports):
    known = set(imports)
    packages = {".".join(name.split(".")[:depth]) for name in known for depth in (1, 2, 3)}
    targets = set(itertools.chain.from_iterable(imports.values()))
    own = {target for target in targets if target.split(".")[0] in ("pipeline", *INDEPENDENT)}
    missing = {target for target in own if target not in packages | known and target.rpartition(".")[0] not in known}
    assert not missing
