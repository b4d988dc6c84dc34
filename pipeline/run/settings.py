"""The options that a run was made with, as settings, some of them changed."""

from collections.abc import Mapping, Sequence
from typing import Any

from pipeline.config.options import EVERY, Settings, checked, overlaid, upgraded
from pipeline.run.folder import Run, RunError


def settings_of(run: Run, changes: Mapping[str, Mapping[str, Any]] | None = None) -> Settings:
    """The options a run was made with, some of them changed. Limits of calls and cost hold for one command only.

    Raises:
        RunError: the folder holds no run.
        ConfigError: a change does not fit.
    """
    if "settings" not in run.record:
        raise RunError(f"{run.folder} holds no run (there is no run.json): make one with `counterslope audit`")
    kept = upgraded(run.record["settings"])
    kept["query"] = {name: value for name, value in kept["query"].items() if name not in ("max_calls", "max_cost")}
    for section, options in (changes or {}).items():
        given = {name: value for name, value in options.items() if value is not None}
        if "adapters" in given:  # what the run said of others is theirs
            kept[section] = _about(given["adapters"], kept[section])
        kept[section] = overlaid(kept.get(section, {}), given)
    return checked(kept)


def _about(adapters: Sequence[str], query: Mapping[str, Any]) -> dict[str, Any]:
    """The section ``query`` without what it says of classifiers other than these."""
    return {
        name: {one: said for one, said in value.items() if one in (*adapters, EVERY)}
        if isinstance(value, dict)
        else value
        for name, value in query.items()
    }
