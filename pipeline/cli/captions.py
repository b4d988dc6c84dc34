"""``counterslope captions``: captions of a file as columns of 0 and 1 for each concept that they name."""

from pathlib import Path
from typing import Annotated

import typer

from pipeline.cli.console import print_text, stop, user_errors
from pipeline.config.flags import listed
from pipeline.run.formats import pluralise


def captions(
    file: Annotated[Path, typer.Argument(help="A file with one row an image (CSV, TSV or Parquet).")],
    column: Annotated[str, typer.Option(help="Columns of captions, with commas between: human,model.")],
    concepts: Annotated[
        str, typer.Option(help="A TOML file of concepts and their words; person: the list that is included.")
    ] = "person",
    groups: Annotated[
        str, typer.Option(help="Concepts that are groups, such as woman,man: rows that name one of them are kept.")
    ] = "",
    out: Annotated[Path | None, typer.Option(help="Write the table to this CSV file.", show_default=False)] = None,
) -> None:
    """Turn captions into a table of the concepts that they name, for amplification, leakage, dpa and local."""
    with user_errors(ValueError):
        from pipeline.analyses.captions import caption_table
        from pipeline.run.tables import frame_to_csv

        if out is not None and not out.parent.is_dir():
            stop(f"--out {out}: there is no folder {out.parent}")
        table = caption_table(file, columns=listed([column]), concepts=concepts, groups=listed([groups]))
        if table.left_out:
            typer.echo(
                f"{pluralise(table.left_out, 'row')} left out: a caption names none or several groups.", err=True
            )
        print_text(frame_to_csv(table.rows), out)
