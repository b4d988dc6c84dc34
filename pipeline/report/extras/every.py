"""All further sections of a page in their order, from the tables that are there."""

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from pipeline.config.attributes import Attribute
from pipeline.report.card import CheckResult, banner
from pipeline.report.extras.amplification import amplification
from pipeline.report.extras.comparison import adapters_compared, runs_compared
from pipeline.report.extras.local import local
from pipeline.report.extras.power import power
from pipeline.report.extras.predictability import predictability
from pipeline.report.extras.representation import representation
from pipeline.report.extras.shape import Extra, Part
from pipeline.report.extras.subgroups import subgroups
from pipeline.run.text import visible

COMMANDS = {"comparison": "compare"}  # those that are not called as their result is


def every(
    tables: Mapping[str, pd.DataFrame],
    *,
    about: Mapping[str, Mapping[str, Any]],
    stale: Mapping[str, str],
    card: Sequence[CheckResult],
    by: str | None,
    swept: Mapping[str, Attribute],
    pictures: Mapping[str, bytes],
) -> list[Extra]:
    """One section for each result; a table that is missing or empty has none.

    Args:
        tables: name -> frame, of the run's stages and of commands over it.
        about: name of a command's result -> what it was told.
        stale: the same -> why it is not shown.
        card: the validity card; where it fails for an attribute, that stands over what concerns it.
        by: what the subgroups are grouped by.
        swept: the attributes of the sweeps by their names.
        pictures: photo -> a small WebP image of its face.
    """
    there = {name: frame for name, frame in tables.items() if len(frame)}

    def banners(name: str) -> list[str]:
        attributes = there[name]["attribute"].unique() if "attribute" in there[name] else ()
        return [text for attribute in attributes if (text := banner(card, str(attribute))) is not None]

    found = []
    if "adapter_comparison" in there:
        name = "adapter_comparison"
        found.append(adapters_compared(there[name], swept=swept, banners=banners(name)))
    if "comparison" in there:
        kept = about["comparison"]
        found.append(runs_compared(there["comparison"], kept, swept=swept, banners=banners("comparison")))
    if "subgroups" in there:
        differences = tables["subgroup_differences"]
        found.append(
            subgroups(there["subgroups"], differences, by=by or "group", swept=swept, banners=banners("subgroups"))
        )
    if "amplification" in there:
        kept = about["amplification"]
        found.append(amplification(there["amplification"], kept, swept=swept, banners=banners("amplification")))
    if "local_clusters" in there:
        parts = (there[f"local_{part}"] for part in ("statistics", "clusters", "exemplars"))
        found.append(local(*parts, pictures=pictures))
    found += [
        predictability(name, there[name], there[f"{name}_grid"], about[name])
        for name in ("dpa", "leakage")
        if name in there
    ]
    if "representation" in there:
        found.append(representation(there["representation"], about["representation"]))
    if "power" in there:
        found.append(power(there["power"], about["power"], swept=swept))
    if stale:
        found.append(_not_shown(stale))
    return found


def _not_shown(stale: Mapping[str, str]) -> Extra:
    sentences = [
        f"{visible(name)}: {visible(reason)}; run counterslope {COMMANDS.get(name, name)} again."
        for name, reason in stale.items()
    ]
    return Extra(
        key="not-shown",
        heading="RunView that are not shown",
        explanation="What these were made from is not what this run holds now, so their tables would mislead.",
        parts=[Part("", sentences)],
    )
