"""The images of a dataset: the versions of its run and, if they are published, the source photos."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from pipeline.config.attributes import EDIT_ARM, Attribute, attribute_of
from pipeline.config.options import Settings
from pipeline.counterfactuals.files import ImageFile
from pipeline.dataset.layout import id_of
from pipeline.dataset.metadata import ESTIMATED, Column, columns_of
from pipeline.photos.decoding import PhotoError, read_photo
from pipeline.run.files import write_bytes
from pipeline.run.folder import Run
from pipeline.run.image_store import ImageStore
from pipeline.run.progress import Advance
from pipeline.run.storage import location, sizes_of
from pipeline.run.tables import read_frames

if TYPE_CHECKING:
    import pandas as pd

ORIGINAL = "original"  # the attribute and the folder of source photos
OF_VERSIONS = ("step", "value", "perceived", "mask_share", "mask_line")  # columns that are empty for originals


@dataclass(frozen=True, eq=False)
class DatasetContent:
    """The images as successive frames with the columns of metadata.csv and ``file``, the name in ``images``.

    Attributes:
        run: a run whose versions are complete.
        settings: its options.
        images: the dataset's files.
        photos: the run's photos table.
        faces: the run's faces table.
        advance: called with numbers of processed versions.
    """

    run: Run
    settings: Settings
    images: ImageStore
    photos: "pd.DataFrame"
    faces: "pd.DataFrame"
    advance: Advance = lambda count, note="": None

    @property
    def columns(self) -> dict[str, Column]:
        """The columns of metadata.csv."""
        options = self.settings.dataset
        return columns_of(self._estimated, photo_names=options.photo_names, manifest=options.columns)

    @property
    def _estimated(self) -> Mapping[str, Attribute]:
        """The attributes for which the value of the unedited face is published."""
        swept = self.settings.sweep.chosen().items()
        return {name: attribute for name, attribute in swept if attribute.given is None and not attribute.relative}

    def frames(self) -> "Iterator[pd.DataFrame]":
        """Yield the versions, then the originals if they are published."""
        for frame in self._versions():
            yield frame
            self.advance(len(frame))
        if self.settings.dataset.originals:
            yield from map(self._original_rows, self._versions())

    def first_versions(self, frame: "pd.DataFrame") -> "pd.DataFrame":
        """Return one row per photo."""
        attribute = next(iter(self.settings.sweep.chosen()))
        return frame[(frame["attribute"] == attribute) & (frame["arm"] == EDIT_ARM) & (frame["step"] == 1)]

    def write_originals(self) -> None:
        """Write the photos that have versions, decoded as for their edits: upright, of their size, without metadata."""
        sweep = self.settings.sweep
        encoding = ImageFile(sweep.image_format, sweep.jpeg_quality)
        paths = dict(zip(self.photos["photo"], self.photos["path"], strict=True))
        for frame in self._versions():
            rows = self.first_versions(frame)
            files = self._original_files(rows)
            sizes = sizes_of([self.images.file(file) for file in files])
            with self.images.writing(ORIGINAL) as writing:
                for photo, file, size in zip(rows["photo"], files, sizes, strict=True):
                    if size is None:
                        try:
                            pixels = read_photo(location(paths[photo]), options=self.settings.photos).pixels
                        except PhotoError:  # omitted, because it is missing or changed since its versions were made
                            continue
                        write_bytes(writing.folder / file, encoding.encode(pixels))

    def _versions(self) -> "Iterator[pd.DataFrame]":
        import pandas as pd

        swept, facts = self.settings.sweep.chosen(), self._photo_facts()
        for frame in read_frames(self.run.path("counterfactuals.parquet")):
            rows = frame[frame["status"] == "ok"]
            if rows.empty:
                continue
            perceived = [attribute_of(str(name), swept).perceived(of) for name, of in rows.groupby("attribute")]
            places = rows["file"].str.partition("/")
            yield rows.assign(
                split=places[0],
                file_name=places[2],
                perceived=pd.concat(perceived).round(4),
                mask_share=rows["mask_share"].round(6),
                mask_line=rows.get("mask_line", pd.Series(float("nan"), index=rows.index)).round(4),
            ).merge(facts, on="photo", how="left")

    def _photo_facts(self) -> "pd.DataFrame":
        """Return the columns that all rows of a photo share: sha256, estimated values, the manifest's columns."""
        estimated = {
            f"{ESTIMATED}{name}": attribute.own_value(self.faces).round(4)
            for name, attribute in self._estimated.items()
        }
        known = self.photos[["photo", *self.settings.dataset.columns]].assign(photo_sha256=self.photos["sha256"])
        return known.merge(self.faces[["photo"]].assign(**estimated), on="photo")

    def _original_rows(self, versions: "pd.DataFrame") -> "pd.DataFrame":
        """Return rows of the existing originals of these versions' photos."""
        first = self.first_versions(versions)
        rows = first.assign(file=self._original_files(first), **dict.fromkeys(OF_VERSIONS))
        names, sums = rows["file"].str.split("/", n=1).str[1], rows["file"].map(self.images.sums(rows["file"]))
        rows = rows.assign(attribute=ORIGINAL, arm=ORIGINAL, file_name=names, sha256=sums)
        return rows[sums.notna()]

    def _original_files(self, rows: "pd.DataFrame") -> list[str]:
        """Return ``SPLIT/original/ID-original.png`` for each version's photo, sharded like the versions."""
        files = []
        for version, sha256 in zip(rows["file"], rows["photo_sha256"], strict=True):
            split, _, *shard, name = PurePosixPath(version).parts
            own = f"{id_of(sha256)}-{ORIGINAL}{PurePosixPath(name).suffix}"
            files.append(str(PurePosixPath(split, ORIGINAL, *shard, own)))
        return files
