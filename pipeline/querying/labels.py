"""Tables of answers and labels from stored raw answers, derived and written in blocks.

Nothing is sent or estimated here: a label that was not returned stays *not returned*.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from adapters.answers import checked
from adapters.base import Adapter, AnswerError, Label, RawAnswer
from pipeline.querying.encoding import SentImage
from pipeline.querying.requests import key_maker
from pipeline.querying.store import Store
from pipeline.run.files import atomic_write
from pipeline.run.progress import Watch, unwatched
from pipeline.run.tables import ANSWERS, LABELS, check_account, schema

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    import pyarrow as pa
    from numpy.typing import NDArray

    Integers = NDArray[np.int64]

SWEEP = ["attribute", "arm", "photo"]
_NEEDED = [*SWEEP, "step", "value", "sha256", "status", "reason"]
_BLOCK = 4096  # counterfactuals at a time, which bounds memory


@dataclass(frozen=True)
class Derived:
    """Tables of one classifier with the columns ``ANSWERS`` and ``LABELS`` of `pipeline.run.tables`."""

    answers: "pa.Table"
    labels: "pa.Table"


def derive(
    counterfactuals: "pd.DataFrame",
    outcomes: Mapping[str, RawAnswer | SentImage | str],
    *,
    adapter: str,
    parse: Callable[[RawAnswer], list[Label]],
) -> Derived:
    """Derive the answers and labels of one classifier for each counterfactual.

    Args:
        counterfactuals: rows of the table of counterfactuals. Sweeps must be complete, because a label returned at any
            step of a sweep has a row at every answered step (``returned`` False and no score if it was not returned).
        outcomes: image sha256 -> its raw answer, or why there is none.
        adapter: the classifier's name.
        parse: its parser.

    Returns:
        One answers row per counterfactual: "excluded" if there is no image or it cannot be sent, "failed" if there are
        no labels (each with its reason), else "ok". Rows are sorted by attribute, arm, photo, step and label.
    """
    import pyarrow as pa

    rows = _sorted(counterfactuals)
    parsed: dict[str, list[Label] | str] = {}
    results: list[tuple[str, str | None]] = []  # a status, and its reason
    answered: list[tuple[int, list[Label]]] = []
    for index, (digest, made, why) in enumerate(zip(rows["sha256"], rows["status"], rows["reason"], strict=True)):
        outcome = outcomes.get(digest, "not sent yet")
        if made != "ok":
            results.append(("excluded", why if isinstance(why, str) else "there is no counterfactual"))
        elif isinstance(outcome, SentImage):
            results.append(("excluded", f"it cannot be sent: {outcome.how}"))
        else:
            if digest not in parsed:
                parsed[digest] = _labels_or_reason(outcome, parse)
            labels = parsed[digest]
            if isinstance(labels, str):
                results.append(("failed", labels))
            else:
                results.append(("ok", None))
                answered.append((index, labels))
    statuses, reasons = zip(*results, strict=True) if results else ((), ())
    steps = {name: pa.array(rows[name], from_pandas=True) for name in [*SWEEP, "step", "value", "sha256"]}
    steps["adapter"] = pa.array([adapter] * len(rows), pa.string())
    answers = _table({**steps, "status": list(statuses), "reason": list(reasons)}, ANSWERS)
    return Derived(answers=answers, labels=_label_rows(steps, _sweep_numbers(rows), answered))


def derive_blocks(
    counterfactuals: "pd.DataFrame",
    adapters: Sequence[Adapter],
    store: Store,
    *,
    sent: Mapping[str, Mapping[str, SentImage]] | None = None,
    block: int = _BLOCK,
) -> Iterator[Derived]:
    """Call `derive` for each classifier (by name) with its stored answers, in blocks of whole sweeps.

    Args:
        counterfactuals: as for `derive`.
        adapters: the classifiers.
        store: holds their answers.
        sent: adapter -> image sha256 -> what was sent in its place.
        block: maximum counterfactuals per block.
    """
    rows = _sorted(counterfactuals)
    cuts = _cuts(_sweep_numbers(rows), block=block)
    for adapter in sorted(adapters, key=lambda adapter: adapter.name):
        for start, end in pairwise(cuts):
            part = rows.iloc[start:end]
            made = part.loc[part["status"] == "ok", "sha256"]
            outcomes = _outcomes(adapter, list(dict.fromkeys(made)), store, (sent or {}).get(adapter.name, {}))
            yield derive(part, outcomes, adapter=adapter.name, parse=adapter.parse)


def write_derived(blocks: Iterable[Derived], *, answers: Path, labels: Path, planned: int) -> dict[str, int]:
    """Write both tables block by block, atomically.

    Returns:
        The number of answers that are planned, ok, failed and excluded.

    Raises:
        AssertionError: the number of rows is not ``planned`` (counterfactuals times adapters).
    """
    import pyarrow.parquet as pq

    statuses: Counter[str] = Counter()
    with atomic_write(answers) as new_answers, atomic_write(labels) as new_labels:
        with (
            pq.ParquetWriter(new_answers, schema(ANSWERS), compression="zstd") as to_answers,
            pq.ParquetWriter(new_labels, schema(LABELS), compression="zstd") as to_labels,
        ):
            for block in blocks:
                to_answers.write_table(block.answers)
                to_labels.write_table(block.labels)
                statuses.update(block.answers["status"].to_pylist())
        return check_account(planned=planned, statuses=statuses, stage="labels")


def write_run_labels(
    folder: Path,
    counterfactuals: "pd.DataFrame",
    adapters: Sequence[Adapter],
    store: Store,
    *,
    sent: Mapping[str, Mapping[str, SentImage]],
    keep: Collection[str] = (),
    watch: Watch = unwatched,
) -> "tuple[dict[str, int], pd.DataFrame]":
    """Write both tables of a run: derive the rows of ``adapters``, and copy those of ``keep`` from the present tables.

    Returns:
        The counts of `write_derived`, and the table of `statuses_of`.
    """
    answers, labels = folder / "answers.parquet", folder / "labels.parquet"
    derived = {adapter.name: adapter for adapter in adapters}
    planned = len(counterfactuals) * len({*derived, *keep})

    def blocks() -> Iterator[Derived]:
        with watch("labels", total=planned) as advance:
            for name in sorted({*derived, *keep}):
                made = derive_blocks(counterfactuals, [derived[name]], store, sent=sent) if name in derived else None
                for block in made or kept_blocks(name, answers=answers, labels=labels):
                    yield block
                    advance(block.answers.num_rows)

    return write_derived(blocks(), answers=answers, labels=labels, planned=planned), statuses_of(answers)


def kept_blocks(adapter: str, *, answers: Path, labels: Path) -> Iterator[Derived]:
    """Yield the rows of a classifier in the present tables, in blocks; each block has rows of one table only."""
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    empty = Derived(schema(ANSWERS).empty_table(), schema(LABELS).empty_table())
    for table, path in (("answers", answers), ("labels", labels)):
        with pq.ParquetFile(path) as file:
            for number in range(file.num_row_groups):
                rows = file.read_row_group(number)
                rows = rows.filter(pc.equal(rows["adapter"], adapter))
                if rows.num_rows:
                    yield replace(empty, **{table: rows})


def statuses_of(answers: Path) -> "pd.DataFrame":
    """Count the answers by adapter, status and reason: columns adapter, status, reason and count."""
    import pyarrow.parquet as pq

    table = pq.read_table(answers, columns=["adapter", "status", "reason"])
    counts = table.group_by(["adapter", "status", "reason"]).aggregate([([], "count_all")])
    frame: pd.DataFrame = counts.rename_columns(["adapter", "status", "reason", "count"]).to_pandas()
    return frame


def full_answers(labels: Path, *, adapter: str, top_k: int) -> int:
    """Count the versions with ``top_k`` labels of an adapter, its maximum, so that further labels may be missing."""
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    place = [*SWEEP, "step"]
    wanted = (pc.field("adapter") == adapter) & pc.field("returned")
    table = pq.read_table(labels, columns=place, filters=wanted, read_dictionary=[*SWEEP])
    counts = table.group_by(place).aggregate([([], "count_all")])["count_all"]
    return int(pc.sum(pc.greater_equal(counts, top_k)).as_py() or 0)


def _labels_or_reason(outcome: RawAnswer | str, parse: Callable[[RawAnswer], list[Label]]) -> list[Label] | str:
    if isinstance(outcome, str):
        return outcome
    try:
        return checked((label.name, label.score) for label in parse(outcome))
    except AnswerError as error:
        return str(error)
    except Exception as error:  # a faulty third-party parser must not end the run
        return f"the parser failed: {type(error).__name__}: {error}"


def _label_rows(
    steps: Mapping[str, Any], sweeps: "Integers", answered: Sequence[tuple[int, list[Label]]]
) -> "pa.Table":
    """Make one row for each answered step and each label that its sweep has at any step."""
    import pandas as pd
    import pyarrow as pa

    ok = pd.DataFrame({"row": [row for row, _ in answered]}, dtype="int64")
    ok["sweep"] = sweeps[ok["row"]]
    found = [(row, label.name, label.score) for row, labels in answered for label in labels]
    returned = pd.DataFrame(found, columns=["row", "label", "score"]).astype({"row": "int64"})
    of_sweep = returned.merge(ok, on="row")[["sweep", "label"]].drop_duplicates()
    wanted = ok.merge(of_sweep, on="sweep").merge(returned, on=["row", "label"], how="left")
    wanted = wanted.sort_values(["row", "label"])
    columns = {name: steps[name].take(pa.array(wanted["row"])) for name in LABELS if name in steps}
    columns["label"] = pa.array(wanted["label"], pa.string())
    columns["score"] = pa.array(wanted["score"], pa.float64(), from_pandas=True)
    columns["returned"] = pa.array(wanted["score"].notna())
    return _table(columns, LABELS)


def _table(columns: Mapping[str, Any], wanted: Mapping[str, str]) -> "pa.Table":
    import pyarrow as pa

    arrays = {}
    for field in schema(wanted):
        values = columns[field.name]
        made = isinstance(values, pa.Array | pa.ChunkedArray)  # text of a large frame comes in chunks
        arrays[field.name] = values.cast(field.type) if made else pa.array(values, field.type)
    return pa.table(arrays, schema=schema(wanted))


def _sorted(counterfactuals: "pd.DataFrame") -> "pd.DataFrame":
    return counterfactuals[_NEEDED].sort_values([*SWEEP, "step"], kind="stable", ignore_index=True)


def _sweep_numbers(rows: "pd.DataFrame") -> "Integers":
    """Number the sweeps from 0; return the sweep of each row."""
    import numpy as np

    return np.asarray(rows.groupby(SWEEP, sort=False).ngroup(), dtype=np.int64)


def _cuts(sweeps: "Integers", *, block: int) -> list[int]:
    """Return the bounds of blocks of whole sweeps with at most ``block`` rows, or one sweep."""
    import numpy as np

    edges = [*np.flatnonzero(np.diff(sweeps, prepend=-1)).tolist(), len(sweeps)]
    cuts = [0]
    for edge, following in pairwise(edges):
        if following - cuts[-1] > block and edge > cuts[-1]:
            cuts.append(edge)
    return [*cuts, len(sweeps)]


def _outcomes(
    adapter: Adapter, digests: Sequence[str], store: Store, sent: Mapping[str, SentImage]
) -> dict[str, RawAnswer | SentImage | str]:
    """Return the outcome of each image; several versions may have been sent as the same bytes."""
    key = key_maker(adapter)
    outcomes: dict[str, RawAnswer | SentImage | str] = {}
    digests_of: dict[str, list[str]] = defaultdict(list)
    for digest in digests:
        instead = sent.get(digest)
        if instead is None:
            digests_of[key(digest)].append(digest)
        elif instead.sha256 is None:
            outcomes[digest] = instead
        else:
            digests_of[key(instead.sha256)].append(digest)
    for found, reason in store.failures(digests_of).items():
        outcomes.update(dict.fromkeys(digests_of[found], reason))
    for found, answer in store.answers(digests_of):
        outcomes.update(dict.fromkeys(digests_of[found], answer))
    return outcomes
