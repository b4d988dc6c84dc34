"""The first stage: list the photos and check which can be used (``photos.parquet``)."""

from hashlib import sha256
from pathlib import Path

from pipeline.config.options import PhotoOptions
from pipeline.run.files import digest
from pipeline.run.tables import check_account, write_table
from pipeline.stages.base import Audit, decoding_options


def photos_stage(audit: Audit) -> str:
    """List, check and hash the photos.

    Returns:
        A fingerprint of the table's content. If files were only touched or moved, later stages stay done.

    Raises:
        NoUsablePhotos: there is nothing to audit.
    """
    from pipeline.photos.listing import check_photos, find_photos, opt_outs

    run, options = audit.run, audit.settings.photos
    found = find_photos(audit.inputs)
    opt_out = opt_outs(found, options=options)
    listed = [[sorted(opt_out.names), sorted(opt_out.hashes)]] if opt_out else []
    fingerprint = digest(["photos", found.fingerprint, decoding_options(options), *listed])
    path = run.path("photos.parquet")
    if run.is_done("photos", fingerprint):
        return _content(path, options)
    audit.engine_for(len(found)).start()  # while the photos are checked
    with (
        run.stage("photos", fingerprint, outputs=["photos.parquet"]) as counts,
        audit.watch("photos", total=len(found)) as advance,
    ):
        table = check_photos(found, options=options, opt_out=opt_out, advance=advance)
        counts |= check_account(planned=len(found), statuses=table["status"].to_pylist(), stage="photos")
        write_table(table, path)
    return _content(path, options)


def _content(path: Path, options: PhotoOptions) -> str:
    """Return a fingerprint of the photos' table without the paths."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    table, content = pq.ParquetFile(path).read().drop_columns(["path"]), sha256()
    for batch in table.replace_schema_metadata().combine_chunks().to_batches():
        content.update(pa.RecordBatch.serialize(batch))
    return digest(["photos", content.hexdigest(), decoding_options(options)])
