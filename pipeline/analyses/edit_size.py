"""Effects of the attribute's direction and of the size of the edit; with a warning about one-sided photos."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.analyses import sections as page
from pipeline.analyses.base import Analysis, Kept, Result, RunOptions
from pipeline.analyses.inputs import RunSweeps, run_sweeps
from pipeline.config.attributes import Attribute, attribute_of
from pipeline.run.folder import settings_of
from pipeline.run.formats import decimal, measured, pluralise
from pipeline.run.progress import Watch, unwatched

if TYPE_CHECKING:
    import pandas as pd

ONE_SIDED = 0.8  # share of photos on one side of the scale from which a warning is printed
KEYS = ["adapter", "attribute"]
COLUMNS: tuple[page.Column, ...] = (
    ("Label", "label", "text"), ("Slope", "slope", "signed"), ("Direction", "direction", "signed"),
    ("95 % interval", ("direction_low", "direction_high"), "interval"), ("p", "direction_p", "p"),
    ("Size", "size", "signed"), ("95 % interval", ("size_low", "size_high"), "interval"), ("p", "size_p", "p"),
)  # fmt: skip


class EditSize(Analysis[RunOptions]):
    """Split slopes into effects of the attribute's direction and of the size of the edit."""

    name = "edit_size"
    command = "edit-size"
    options = RunOptions
    tables = ("edit_size", "edit_balance")
    examples = ("counterslope edit-size runs/portraits",)

    def compute(self, source: Path, options: RunOptions, *, watch: Watch = unwatched) -> Result:
        """Direction and size of every label, and the shares of photos on either side of the scale."""
        tables = self.of_every_run(run_sweeps(source, options.changes()), watch)
        title, shown = "Direction of the attribute and size of the edit", page.largest_first(tables[self.name], "slope")
        shown = page.printed(shown.sort_values(KEYS, kind="stable"), KEYS, COLUMNS)
        return Result(title, tables, printed={self.name: shown}, inputs=self.inputs(options))

    def of_every_run(self, known: RunSweeps, watch: Watch = unwatched) -> "Mapping[str, pd.DataFrame]":
        """Both tables, of the edits."""
        import pandas as pd

        from pipeline.statistics.edit_size import EDIT_SIZE_COLUMNS, balance, edit_size

        swept, faces = settings_of(known.run).sweep.chosen(), known.faces
        faces = faces[faces["status"] == "ok"]
        own: dict[str, dict[str, float]] = {}
        for name in dict.fromkeys(each.attribute for each in known.edits):
            attribute = attribute_of(name, swept)
            if set(attribute.inputs) <= set(faces):
                own[name] = dict(zip(faces["photo"], attribute.own_value(faces).astype(float), strict=True))
        frames = [edit_size(each, own[each.attribute], **known.rules) for each in known.edits if each.attribute in own]
        empty = pd.DataFrame(columns=list(EDIT_SIZE_COLUMNS))
        rows = [{"attribute": name, **balance(values)} for name, values in own.items()]
        sides = pd.DataFrame(rows, columns=["attribute", "photos", "low", "high", "mean"])
        return {"edit_size": pd.concat(frames or [empty], ignore_index=True), "edit_balance": sides}

    def sections(self, kept: Kept) -> Sequence[page.Section]:
        """A part for each adapter and attribute."""
        frame = kept.tables["edit_size"]
        sides = {}
        if "edit_balance" in kept.tables:
            sides = {str(row["attribute"]): row for row in kept.tables["edit_balance"].to_dict("records")}
        section = page.Section(
            key="edit-size",
            heading="Direction of the attribute, size of the edit",
            explanation="An edit is larger the farther its value is from the face’s own value. Does a label follow the "
            "attribute, or only the size of the edit? Within photos, responses are regressed on the value and on the "
            "distance from the face’s own value together. The slope is direction + lean × size, where lean is the "
            "slope of that distance along the sweep.",
            parts=[
                _part(rows, adapter, kept.attribute(name), sides.get(name))
                for (adapter, name), rows in page.rows_by(frame, "adapter", "attribute")
            ],
            caveats=[
                "Own values are estimated; errors attribute part of the size to the direction.",
                "The response of a label that appears from some value of the attribute is not linear either, which "
                "looks like an effect of size.",
            ],
            attributes=page.attributes_of(frame),
        )
        return (section,)


def one_sided(row: Mapping[Any, Any], attribute: Attribute) -> str | None:
    """Warning that most photos lie on one side of an attribute's scale, from a row of ``edit_balance``; else None."""
    side, share = max(zip(attribute.poles, (row["low"], row["high"]), strict=True), key=lambda pair: pair[1])
    if not row["photos"] or share < ONE_SIDED:
        return None
    return (
        f"{measured(share, 'share')} of {pluralise(row['photos'], 'photo')} are on the {side} side of "
        f"{attribute.name}: the size of the edit changes along the sweep, so a slope may be an effect of this size."
    )


def _part(rows: "pd.DataFrame", adapter: str, attribute: Attribute, sides: Mapping[Any, Any] | None) -> page.Subsection:
    heading = f"{adapter}, {attribute.subject}"
    warning = None if sides is None else one_sided(sides, attribute)
    sentences = [] if warning is None else [f"Warning: {warning}"]
    known = page.largest_first(rows[rows["estimable"].astype(bool)], "slope")
    if known.empty:
        return page.Subsection(heading, [*sentences, "No label can be estimated."])
    sized = known[known["size_p"] < page.SURE]
    left = known[(known["direction_low"] > 0) | (known["direction_high"] < 0)]
    sentences.append(f"Lean: {decimal(known.iloc[0]['lean'], sign=True)} (0: photos lie evenly about the middle).")
    sentences.append(
        f"{len(left)} of {pluralise(len(known), 'label')} have a direction whose interval excludes 0; "
        f"{len(sized)} follow the size of the edit (p < 0.05)"
        + (
            f", most {page.quoted(sized.iloc[0]['label'])}: {decimal(sized.iloc[0]['size'], sign=True)}."
            if len(sized)
            else "."
        )
    )
    caption = f"{pluralise(len(known), 'label')}, the largest slope first"
    return page.Subsection(heading, sentences, tables=[page.Table(caption, known, COLUMNS)])


EDIT_SIZE = EditSize()
