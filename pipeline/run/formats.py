"""Formats of printed numbers, shared by page, tables, charts and console. None and NaN are printed as a dash."""

import math

MINUS = "−"
MISSING = "–"
STAR_LEVELS = ((0.001, "***"), (0.01, "**"), (0.05, "*"))
STAR_WORDS = "* q < 0.05, ** q < 0.01, *** q < 0.001"


def is_missing(number: float | None) -> bool:
    """Return whether a number is None or NaN."""
    return number is None or math.isnan(number)


def decimal(number: float | None, *, places: int = 3, sign: bool = False) -> str:
    """Format ``-0.1204`` as ``−0.120``, with a minus sign unless it rounds to zero, and on demand with a plus sign."""
    if number is None or math.isnan(number):
        return MISSING
    if math.isinf(number):
        return "∞" if number > 0 else MINUS + "∞"
    rounded = f"{abs(number):,.{places}f}"
    if not any(digit in "123456789" for digit in rounded):
        return rounded
    return {True: MINUS, False: "+" if sign else ""}[number < 0] + rounded


def p_value(p: float | None) -> str:
    """Format with three decimals; smaller values are ``<0.001``."""
    if p is None or math.isnan(p):
        return MISSING
    return "<0.001" if p < 0.001 else decimal(p)


def p_equals(name: str, p: float | None) -> str:
    """Return ``q < 0.001`` or ``q = 0.012``, for running text."""
    printed = p_value(p)
    return f"{name} < {printed[1:]}" if printed.startswith("<") else f"{name} = {printed}"


def interval(low: float | None, high: float | None, *, places: int = 3) -> str:
    """Return ``0.080 to 0.160``, because a dash between signed numbers is misread."""
    if is_missing(low) or is_missing(high):
        return MISSING
    return f"{decimal(low, places=places)} to {decimal(high, places=places)}"


def stars(q: float | None) -> str:
    """Return ``***``, ``**``, ``*`` or nothing, by ``STAR_LEVELS``."""
    if q is None or math.isnan(q):
        return ""
    return next((mark for level, mark in STAR_LEVELS if q < level), "")


def count(number: float | None) -> str:
    """Format a count as ``12,345``."""
    return decimal(number, places=0)


def pluralise(number: float, noun: str) -> str:
    """Return ``1 label``, ``2 labels``."""
    return f"{count(number)} {noun}" + ("" if number == 1 else "s")


def plain(number: float | None) -> str:
    """Format with up to three significant digits and without trailing zeros, for thresholds and values of a."""
    if number is None or math.isnan(number) or math.isinf(number):
        return decimal(number)
    return f"{number:.3g}".replace("-", MINUS)


def measured(number: float | None, unit: str, *, least_places: int = 0) -> str:
    """Format a figure with its unit; a ``share`` becomes per cent. ``least_places`` is the least number of decimals."""
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
    """Format a figure and its threshold, with enough digits to tell them apart."""
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
    """Return ``0.4 s``, ``12 s``, ``3 min 05 s``, ``2 h 07 min``."""
    if seconds is None or math.isnan(seconds):
        return MISSING
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} min"
