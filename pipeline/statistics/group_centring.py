"""Features without the part that tells groups apart, so that clusters can hold both. Nothing is clustered here."""

import numpy as np
from numpy.typing import ArrayLike

from pipeline.statistics.categories import categories, check_rows, scores
from pipeline.statistics.inference import Floats


def centred_by_group(features: ArrayLike, groups: ArrayLike) -> Floats:
    """Features less the mean of their group: ``(n, D)``.

    A network that was trained to tell the groups apart, as the judge was, puts them in places of their own; clusters of
    one group have no gap. With equal means, rows are alike by what else there is. Outcomes are not used, so the
    permutation tests of ``local_bias`` stay valid.

    Args:
        features: ``(n, D)`` finite numbers.
        groups: ``(n,)``.

    Raises:
        ValueError: arrays that cannot be, named.
    """
    table = scores(features, "features")
    (group,) = categories(groups=groups)
    check_rows({"features": table, "groups": group})
    codes = group.joint()
    chosen = (codes == np.arange(codes.max() + 1)[:, None]).astype(np.float64)
    means = chosen @ table / chosen.sum(axis=1, keepdims=True)
    centred: Floats = table - means[codes]
    return centred
