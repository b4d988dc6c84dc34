"""The first stage: which photos there are, and which can be used (``photos.parquet``)."""

from pipeline.run.files import digest
from pipeline.run.tables import check_account, write_table
from pipeline.stages.base import Audit, decoding_options


def photos_stage(audit: Audit) -> str:
    """List, check and hash the photos.

    Returns:
        The stage's fingerprint.

    Raises:
        NoUsablePhotos: there is nothing to audit.
    """
    from pipeline.photos.listing import check_photos, find_photos, read_opt_out

    run, options = audit.run, audit.settings.photos
    found = find_photos(audit.inputs)
    opt_out = read_opt_out(options.opt_out)
    listed = [[sorted(opt_out.names), sorted(opt_out.hashes)]] if opt_out else []
    fingerprint = digest(["photos", found.fingerprint, decoding_options(options), *listed])
    if run.is_done("photos", fingerprint):
        return fingerprint
    with (
        run.stage("photos", fingerprint, outputs=["photos.parquet"]) as counts,
        audit.watch("photos", total=len(found)) as advance,
    ):
        table = check_photos(found, options=options, opt_out=opt_out, advance=advance)
        counts |= check_account(planned=len(found), statuses=table["status"].to_pylist(), stage="photos")
        write_table(table, run.path("photos.parquet"))
    return fingerprint
