"""``counterslope captions``: turns captions into one column of 0 and 1 per concept."""

from pathlib import Path
from typing import Annotated

import typer

from pipeline.cli.console import check_folder, print_text, user_errors
from pipeline.config.flags import listed
from pipeline.run.formats import pluralise


def captions(
    file: Annotated[Path, typer.Argument(help="A file with one row per image (CSV, TSV or Parquet).")],
    column: Annotated[str, typer.Option(help="Columns of captions, separated by commas, such as human,model.")],
    concepts: Annotated[
        str, typer.Option(help="A TOML file of concepts and their words; person: the embedded list.")
    ] = "person",
    groups: Annotated[
        str, typer.Option(help="Concepts that are groups, such as woman,man; only rows that name exactly one are kept.")
    ] = "",
    out: Annotated[Path | None, typer.Option(help="Write the table to this CSV file.", show_default=False)] = None,
) -> None:
    """Turn captions into a table of the concepts that they mention, for amplification, leakage, dpa and local."""
    with user_errors(ValueError):
        from pipeline.analyses.captions import caption_table
        from pipeline.run.tables import frame_to_csv

        check_folder(out)
        table = caption_table(file, columns=listed([column]), concepts=concepts, groups=listed([groups]))
        if table.left_out:
            omitted = pluralise(table.left_out, "row")
            typer.echo(f"{omitted} omitted, because a caption names no group or several.", err=True)
        print_text(frame_to_csv(table.rows), out)
