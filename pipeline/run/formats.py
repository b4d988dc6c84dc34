"""Every number that is printed is formatted here, once, so that page, tables and charts agree.

Nothing here computes a number; what cannot be given (None, NaN) is printed as a dash.
"""

import math

MINUS = "−"
MISSING = "–"
STAR_LEVELS = ((0.001, "***"), (0.01, "**"), (0.05, "*"))
STAR_WORDS = "* q < 0.05, ** q < 0.01, *** q < 0.001"


def is_missing(number: float | None) -> bool:
    """Whether there is no number: None or NaN."""
    return number is None or math.isnan(number)


def decimal(number: float | None, *, places: int = 3, sign: bool = False) -> str:
    """``-0.1204`` -> ``−0.120``, with a real minus sign; what rounds to zero has none.

    Args:
        places: digits after the point.
        sign: also write the plus sign of a positive number.
    """
    if number is None or math.isnan(number):
        return MISSING
    if math.isinf(number):
        return "∞" if number > 0 else MINUS + "∞"
    rounded = f"{abs(number):,.{places}f}"
    if not any(digit in "123456789" for digit in rounded):
        return rounded
    return {True: MINUS, False: "+" if sign else ""}[number < 0] + rounded


def p_value(p: float | None) -> str:
    """Three decimals, ``<0.001`` below that; never ``0.000``."""
    if p is None or math.isnan(p):
        return MISSING
    return "<0.001" if p < 0.001 else decimal(p)


def p_equals(name: str, p: float | None) -> str:
    """``q < 0.001``, ``q = 0.012``; for running text."""
    printed = p_value(p)
    return f"{name} < {printed[1:]}" if printed.startswith("<") else f"{name} = {printed}"


def interval(low: float | None, high: float | None, *, places: int = 3) -> str:
    """``0.080 to 0.160``: words, because a dash between signed numbers is misread."""
    if is_missing(low) or is_missing(high):
        return MISSING
    return f"{decimal(low, places=places)} to {decimal(high, places=places)}"


def stars(q: float | None) -> str:
    """``***``, ``**``, ``*`` or nothing, by ``STAR_LEVELS``."""
    if q is None or math.isnan(q):
        return ""
    return next((mark for level, mark in STAR_LEVELS if q < level), "")


def count(number: float | None) -> str:
    """``12,345``: a count, rounded to a whole."""
    return decimal(number, places=0)


def pluralise(number: float, noun: str) -> str:
    """``1 label``, ``2 labels``."""
    return f"{count(number)} {noun}" + ("" if number == 1 else "s")


def plain(number: float | None) -> str:
    """Up to three significant digits and no needless zeros: thresholds, values of a."""
    if number is None or math.isnan(number) or math.isinf(number):
        return decimal(number)
    return f"{number:.3g}".replace("-", MINUS)


def measured(number: float | None, unit: str, *, least_places: int = 0) -> str:
    """A figure with its unit as people read it; a ``share`` becomes per cent.

    Args:
        least_places: digits after the point, where there would be fewer.
    """
    if number is None or math.isnan(number):
        return MISSING
    if unit == "share":
        # 99.996 % of identical pixels must not be printed as 100 %
        share = 100 * number
        places = 0 if share == 100 else next((n for n in (1, 2, 3, 4) if round(share, n) != 100), 4)
        return f"{decimal(share, places=max(places, least_places))} %"
    places = max(2 if abs(number) < 10 else 1, least_places)
    return f"{decimal(number, places=places)} {'' if unit == 'probability' else unit}".strip()


def next_to_threshold(number: float | None, limit: float | None, unit: str) -> tuple[str, str]:
    """A figure and its threshold as people read them, with so many digits that two different ones look different.

    The threshold is printed without needless zeros.
    """
    if limit is None or math.isnan(limit):
        return measured(number, unit), MISSING
    scale = 100 if unit == "share" else 1
    sizes = [abs(scale * x) for x in (0.0 if number is None else number, limit)]
    places = next((n for n in range(7) if round(sizes[0], n) != round(sizes[1], n)), 0)
    short = plain(scale * limit)
    if not math.isclose(float(short.replace(MINUS, "-")), scale * limit):
        short = decimal(scale * limit, places=max(places, 2))
    suffix = {"share": " %", "probability": "", "": ""}.get(unit, f" {unit}")
    return measured(number, unit, least_places=places), short + suffix


def duration(seconds: float | None) -> str:
    """``0.4 s``, ``12 s``, ``3 min 05 s``, ``2 h 07 min``."""
    if seconds is None or math.isnan(seconds):
        return MISSING
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} min"
