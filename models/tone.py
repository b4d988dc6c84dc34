"""Skin tone: the distribution of skin colours in a group's photos, and a smooth shift of all visible skin.

Closed form, without a network: conditional quantile mapping of the skin's median CIELAB colour, and a gain in linear
light that preserves shading and highlights. The parser finds the skin; ``training.tones`` fits the table.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

from models.attributes import RACES
from models.image_metrics import luma

TABLE = Path(__file__).parent / "weights" / "tone.json"

# The parser's classes that show the face and its skin, and by how much less than skin their pixels shift if they differ
# from skin in colour: lips less (between the groups' photos they move 0.6 times as far in linear light), the white of
# the eye hardly, teeth not at all. Rims of glasses and brows are dark, so a gain in linear light hardly moves them.
SHOWN = ("skin", "nose", "l_ear", "r_ear", "neck", "l_brow", "r_brow", "eyeglasses", "u_lip", "l_lip", "l_eye",
         "r_eye", "mouth")  # fmt: skip
SPARED: Mapping[str, float] = {"eyeglasses": 0.2, "u_lip": 0.4, "l_lip": 0.4, "l_eye": 0.85, "r_eye": 0.85, "mouth": 1}
# Light above this multiple of the surrounding skin's is shine, which keeps its strength: at these two values of the
# skin's L*, interpolated. The darker the skin, the more of what is bright on it is shine.
SHINE = (35.0, 65.0), (1.2, 1.8)
HUE = 1.15  # multiple of the skin's hue above which green and blue of lightened skin are shine
BLOWN = 212.0  # luma from which on a pixel is overexposed
# Share of the measured difference between the groups' colours, which errors of labels and estimates widen.
SHARE = 0.9
TINT_SHARE = 0.6  # the same for the tint where skin is made lighter; skin with less tint looks ashy
CERTAIN = 0.9  # probability above which a pixel counts as skin in its median colour
REACH = 0.06  # crop sides: the standard deviation of the smooth lightness
GAINS = (0.15, 5.0)
BRIGHTEST = 250.0  # largest luma after a shift
LIGHTNESS = (12.0, 93.0)  # range of the skin's median L* after a shift of L*
_STEPS = np.linspace(0, 100, 1001)  # values of L* at which gains are tabulated
_WHITE = np.array([0.95047, 1.0, 1.08883])  # D65
_TO_XYZ = np.array(
    [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]]
)
_TO_RGB = np.linalg.inv(_TO_XYZ)
_DARKEST = 1 / 255 / 12.92  # one level


@dataclass(frozen=True)
class ToneTable:
    """Quantiles of the skin's median colour in photos of each group.

    ``quantiles`` ``(Q,)`` in 0..1, rising; ``ages`` ``(T,)`` years, rising; ``colours`` ``(2, 5, T, 3, Q)``: for
    feminine and masculine, the races of ``models.judge.RACES`` and the ages, the three coordinates of `ratios`.
    """

    quantiles: NDArray[np.float64]
    ages: NDArray[np.float64]
    colours: NDArray[np.float64]

    def group(self, *, gender: float, race: str, age: float) -> NDArray[np.float64]:
        """Interpolate the quantiles ``(3, Q)`` of `ratios` for perceived gender (-1..1), race and age in years."""
        masculine = float(np.clip((1 + gender) / 2, 0, 1))
        of_race = self.colours[:, RACES.index(race)]
        of_gender = (1 - masculine) * of_race[0] + masculine * of_race[1]
        place = float(np.clip(np.interp(age, self.ages, np.arange(len(self.ages))), 0, len(self.ages) - 1))
        below = min(int(place), len(self.ages) - 2)
        return np.asarray((1 - (place - below)) * of_gender[below] + (place - below) * of_gender[below + 1])

    def tint(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Fit a* / L* and b* / L* on L* by least squares over the groups' means: slopes ``(2,)`` and values at L* = 0
        ``(2,)``."""
        means = self.colours.mean(axis=-1).transpose(3, 0, 1, 2).reshape(3, -1)
        slopes, starts = np.polyfit(means[0], means[1:].T, 1)
        return slopes, starts

    def typical(self, lightness: float) -> NDArray[np.float64]:
        """Return the CIELAB ``(3,)`` of skin with that L* and the corresponding tint."""
        slopes, starts = self.tint()
        return np.concatenate([[lightness], lightness * (starts + lightness * slopes)])


def ratios(colours: NDArray[np.floating]) -> NDArray[np.float64]:
    """Convert CIELAB ``(..., 3)`` to L*, a* / L* and b* / L*; the ratios hardly depend on the illumination."""
    lightness = np.maximum(np.asarray(colours, dtype=np.float64)[..., :1], 1.0)
    return np.concatenate([lightness, colours[..., 1:] / lightness], axis=-1)


def load_tone_table(path: Path = TABLE) -> ToneTable:
    """Load the shipped table, or another of the same layout.

    Raises:
        ValueError: the shapes of the arrays do not match.
    """
    content = json.loads(path.read_text())
    table = ToneTable(*(np.asarray(content[name], dtype=np.float64) for name in ("quantiles", "ages", "colours")))
    wanted = (2, len(RACES), len(table.ages), 3, len(table.quantiles))
    if table.colours.shape != wanted:
        raise ValueError(f"{path.name}: colours of shape {table.colours.shape}, not {wanted}")
    return table


def tone_shifts(
    table: ToneTable,
    colour: NDArray[np.floating],
    values: Sequence[float],
    *,
    own: float,
    pair: tuple[str, str],
    gender: float,
    age: float,
) -> NDArray[np.float64]:
    """Compute the shifts of the skin's median colour along a race sweep: conditional quantile mapping.

    At -1 and +1 each coordinate of `ratios` moves by `SHARE` of the way to its current quantile in the group of that
    end. At the face's own value the shift is exactly zero. Between and beyond, the coordinates are linear in the value,
    so lightness is monotone, up to the outermost quantiles of lightness in the photos of the two groups.

    Args:
        table: the groups' colours.
        colour: ``(3,)`` the median CIELAB of the face's skin.
        values: K values of the sweep.
        own: the face's own value, clipped to -1..1.
        pair: the races at -1 and +1.
        gender: perceived gender, -1..1.
        age: perceived age in years.

    Returns:
        ``(K, 3)`` differences of CIELAB.
    """
    low, high = (table.group(gender=gender, race=race, age=age) for race in pair)
    start = float(np.clip(own, -1, 1))
    here, now = low + (1 + start) / 2 * (high - low), ratios(np.asarray(colour))
    # Beyond the outermost quantiles the difference of the groups is constant.
    ranks = [np.interp(now[channel], here[channel], table.quantiles) for channel in range(3)]
    ends = np.array([[np.interp(ranks[k], table.quantiles, group[k]) for k in range(3)] for group in (low, high)])
    steps = np.asarray(values, dtype=np.float64)[:, None] - start
    moves = steps * (ends[1] - ends[0]) / 2
    tint = np.where(moves[:, :1] < 0, SHARE, TINT_SHARE)
    wanted = now + moves * np.concatenate([np.full_like(tint, SHARE), tint, tint], axis=1)
    lights = [now[0], *low[0], *high[0]]
    lightness = np.clip(wanted[:, :1], min(lights), max(lights))
    shifts = np.concatenate([lightness, lightness * wanted[:, 1:]], axis=1) - colour
    return np.where(steps == 0, 0.0, shifts)


def lightness_shifts(table: ToneTable, colour: NDArray[np.floating], moves: Sequence[float]) -> NDArray[np.float64]:
    """Return the shifts ``(K, 3)`` of the skin's median CIELAB ``colour`` ``(3,)`` that move L* by ``moves`` ``(K,)``.

    The tint changes as between the groups of the table: darker skin has more chroma for its lightness.
    """
    steps = np.asarray(moves, dtype=np.float64)[:, None]
    lightness = np.clip(colour[0] + steps, min(LIGHTNESS[0], colour[0]), max(LIGHTNESS[1], colour[0]))
    moved = lightness - colour[0]
    wanted = ratios(np.asarray(colour))[1:] + moved * table.tint()[0]
    shifts = np.concatenate([moved, lightness * wanted - np.asarray(colour)[1:]], axis=1)
    return np.where(steps == 0, 0.0, shifts)


def median_colour(pixels: NDArray[np.uint8], membership: NDArray[np.floating]) -> NDArray[np.float64] | None:
    """Return the median CIELAB ``(3,)`` of certain skin pixels, which is robust to shine and shadow.

    Args:
        pixels: ``(h, w, 3)`` uint8 RGB.
        membership: ``(h, w)`` in 0..1, the parser's probability of skin or nose.

    Returns:
        None if fewer than 50 pixels are skin with a probability above `CERTAIN`.
    """
    sure = membership > CERTAIN
    if int(sure.sum()) < 50:
        return None
    lab = cv2.cvtColor(pixels[sure][None].astype(np.float32) / 255, cv2.COLOR_RGB2LAB)
    return np.asarray(np.median(lab[0], axis=0), dtype=np.float64)


def shown_and_spared(chances: NDArray[np.floating], names: Sequence[str]) -> NDArray[np.float32]:
    """Map where a face and its skin show, and by how much less than skin each pixel shifts, ``(2, h, w)`` in 0..1.

    Args:
        chances: ``(C, h, w)`` the parser's probabilities.
        names: the C classes' names.
    """
    shares = np.array([[name in SHOWN, SPARED.get(name, 0.0)] for name in names], dtype=np.float32)
    return np.asarray(np.tensordot(shares.T, np.asarray(chances, dtype=np.float32), axes=1), dtype=np.float32)


def smooth_lightness(pixels: NDArray[np.uint8], weights: NDArray[np.floating], *, reach: float) -> NDArray[np.float32]:
    """Smooth the skin's lightness: mean L* ``(h, w)`` over neighbouring skin.

    Args:
        pixels: ``(h, w, 3)`` uint8 RGB.
        weights: ``(h, w)`` in 0..1, share of the shift that each pixel takes.
        reach: standard deviation of the Gaussian, in pixels.
    """
    factor = min(1.0, 4 / max(reach, 1e-6))  # a deviation of four pixels is accurate enough
    height, width = pixels.shape[:2]
    size = max(1, round(width * factor)), max(1, round(height * factor))
    small = cv2.resize(pixels, size, interpolation=cv2.INTER_AREA).astype(np.float32) / 255
    known = cv2.resize(np.asarray(weights, dtype=np.float32), size, interpolation=cv2.INTER_AREA)
    light = cv2.cvtColor(small, cv2.COLOR_RGB2LAB)[..., 0]
    overall = float((light * known).sum() / max(float(known.sum()), 1e-6))
    near, far = (cv2.GaussianBlur(field, (0, 0), reach * factor) for field in (known, known * light))
    # Without skin nearby, the overall mean.
    smooth = (far + 0.02 * overall) / (near + 0.02)
    return np.asarray(cv2.resize(smooth, (width, height), interpolation=cv2.INTER_LINEAR), dtype=np.float32)


def tone_change(
    pixels: NDArray[np.uint8],
    weights: NDArray[np.floating],
    colour: NDArray[np.floating],
    shift: NDArray[np.floating],
    *,
    lightness: NDArray[np.floating],
    grey: bool = False,
) -> NDArray[np.float32]:
    """Return what one shift ``(3,)`` adds to each pixel; see `tone_changes`."""
    (change,) = tone_changes(pixels, weights, colour, np.asarray(shift)[None], lightness=lightness, grey=grey)
    return change


def tone_changes(
    pixels: NDArray[np.uint8],
    weights: NDArray[np.floating],
    colour: NDArray[np.floating],
    shifts: NDArray[np.floating],
    *,
    lightness: NDArray[np.floating],
    grey: bool = False,
) -> Iterator[NDArray[np.float32]]:
    """Yield what each shift adds to each pixel, in levels: a smooth gain of the skin's diffuse light, 0 for no shift.

    Light is modelled as albedo times shading plus shine (the dichromatic model, Shafer 1985), and the gain changes the
    albedo. Pixels brighter than `SHINE` times their surroundings count as shine and are not scaled further. The gain
    follows the skin's smooth lightness, so that face and shaded neck change by the same L* and detail keeps its
    contrast. Brightly lit skin is lightened less; where it is overexposed, it gets the skin's hue as it is darkened.

    Args:
        pixels: ``(h, w, 3)`` uint8 RGB.
        weights: ``(h, w)`` in 0..1, share of the shift that each pixel takes.
        colour: ``(3,)`` the skin's median CIELAB.
        shifts: ``(K, 3)`` shifts of that colour.
        lightness: ``(h, w)``, from `smooth_lightness`.
        grey: shift the lightness only, all channels alike, so that a grey photo stays grey.

    Yields:
        ``(h, w, 3)`` float32, to be added to ``pixels``; the sum stays within 0..255.
    """
    inside = np.asarray(weights) > 0
    skin, taken = pixels[inside], np.asarray(weights, dtype=np.float32)[inside][:, None]
    # Deep shade is followed only in part, so that no skin turns black.
    followed = np.clip(np.asarray(lightness, dtype=np.float32)[inside], max(8.0, 0.4 * colour[0]), 100)
    place = np.rint(followed * 10).astype(np.intp)
    before = np.asarray(colour, dtype=np.float64)
    # Skin in shade has less chroma, in proportion.
    chroma = np.clip(_STEPS / max(float(before[0]), 1.0), 0.2, 1.2)[:, None] * (0 if grey else 1)
    light, median = _decoding()[skin], _linear(_STEPS, chroma * before)
    around = median.astype(np.float32)[place]
    shine = float(np.interp(before[0], *SHINE))
    squares = (light / (shine * around)) ** 2
    # A pixel of the median colour takes the whole shift.
    diffuse = taken * light * float((1 + shine**-4) ** 0.25) / np.sqrt(np.sqrt(1 + squares * squares))
    # Shine has the colour of the lamp: what green and blue have beyond the skin's hue, judged by red, is shine too.
    of_skin = HUE * around * (light[:, :1] / around[:, :1])
    skinlike = diffuse * np.minimum(of_skin / np.maximum(light, 1e-4), 1)
    blown = np.flatnonzero(luma(skin) > BLOWN)
    lost = taken[blown] * _lost_colour(skin[blown], around[blown])
    for shift in np.asarray(shifts, dtype=np.float64):
        change = np.zeros(pixels.shape, dtype=np.float32)
        if len(skin) and np.any(shift):
            after = _linear(np.clip(_shifted(before[0], shift[0]), 1, 100), chroma * (before + shift))
            gains = np.clip(after / median, *GAINS)
            if grey:
                gains[:] = gains.mean(axis=1, keepdims=True)
            gained = (gains - 1).astype(np.float32)[place]
            made = light + gained * (skinlike if shift[0] > 0 else diffuse)
            fallen = np.clip(-2 * gained[blown].mean(axis=1, keepdims=True), 0, 1)
            made[blown] += fallen * (1 + gained[blown]) * lost
            change[inside] = _in_gamut(skin, 255 * _encoded(made) - skin)
        yield change


def _shifted(median: float, shift: float) -> NDArray[np.float64]:
    """Where every lightness of `_STEPS` goes if the median moves by ``shift``: as far up to the median; above it, less
    far towards white, so that lit skin is not overexposed, and further down, by the median's own gain."""
    room = (100 - _STEPS) / max(100 - median, 1.0)
    gain = (_STEPS + 16) / (median + 16)  # light is about the cube of L* + 16
    return np.asarray(_STEPS + shift * (np.minimum(room, 1) if shift > 0 else np.maximum(gain, 1)))


def _lost_colour(levels: NDArray[np.uint8], around: NDArray[np.float32]) -> NDArray[np.float32]:
    """What overexposed pixels ``(N, 3)`` lack of the colour of skin in linear light ``around`` them ``(N, 3)``.

    Made darker they would show the sensor's white, not skin.
    """
    light = _decoding()[levels]
    share = np.clip((luma(levels) - BLOWN) / (255 - BLOWN), 0, 1)[:, None]
    luminance = _TO_XYZ[1].astype(np.float32)
    return np.asarray(share * (around * (light @ luminance / (around @ luminance))[:, None] - light))


def _in_gamut(levels: NDArray[np.uint8], added: NDArray[np.float32]) -> NDArray[np.float32]:
    """Limit a change ``(N, 3)`` of pixels ``(N, 3)`` so that no luma exceeds `BRIGHTEST`.

    Near the limit a highlight rises less, and where one channel would leave the range it turns white, as overexposed
    skin does. Clipping only that channel would turn it green; limiting all three would leave a dark spot in the light.
    """
    light, rise = luma(levels), luma(added)
    squares = (np.maximum(rise, 0) / np.maximum(BRIGHTEST - light, 0.2)) ** 2
    made = levels + added / np.sqrt(np.sqrt(1 + squares * squares))[:, None]
    middle = luma(made)[:, None]
    most = np.maximum(np.maximum(made[:, :1], made[:, 1:2]), made[:, 2:])  # ten times as fast as max() of three
    share = np.clip((255 - middle) / np.maximum(most - middle, 1e-3), 0, 1)
    return np.asarray(middle + share * (made - middle) - levels, dtype=np.float32)


def _linear(lightness: NDArray[np.float64], colours: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the linear light ``(T, 3)`` of L* ``(T,)`` with a* and b* of ``colours`` ``(T, 3)`` (D65, IEC 61966-2-1).

    Values may exceed 1, because clipping channels would turn warm skin in bright light green; see `_in_gamut`.
    """
    middle = (lightness + 16) / 116
    ratio = np.stack([middle + colours[:, 1] / 500, middle, middle - colours[:, 2] / 200], axis=1)
    xyz = _WHITE * np.where(ratio > 6 / 29, ratio**3, 3 * (6 / 29) ** 2 * (ratio - 4 / 29))
    return np.asarray(np.maximum(xyz @ _TO_RGB.T, _DARKEST))


@cache
def _decoding() -> NDArray[np.float32]:
    """Return the linear light 0..1 of each of 256 levels (IEC 61966-2-1)."""
    level = np.arange(256) / 255
    return np.where(level <= 0.04045, level / 12.92, ((level + 0.055) / 1.055) ** 2.4).astype(np.float32)


def _encoded(light: NDArray[np.float32]) -> NDArray[np.float32]:
    """Encode linear light as a share of the highest level (IEC 61966-2-1); values may exceed 1."""
    positive = np.maximum(light, 0)
    return np.where(positive <= 0.0031308, 12.92 * positive, 1.055 * cv2.pow(positive, 1 / 2.4) - 0.055)
