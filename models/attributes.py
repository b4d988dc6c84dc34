"""Names of the networks' outputs, in their order. This module does not import torch."""

from collections.abc import Iterable

GENDERS = ("feminine", "masculine")  # a single output: the probability of the second
RACES = ("White", "Black", "Asian", "Indian", "Others")

# The ten colours of the Monk Skin Tone scale (Monk 2022, skintone.google) in sRGB, from light to dark, and their CIELAB
# L* (D65), which places photos on the scale. The colours are meant for comparison by people; photos vary in exposure.
MONK = (
    "#f6ede4", "#f3e7db", "#f7ead0", "#eadaba", "#d7bd96", "#a07e56", "#825c43", "#604134", "#3a312a", "#292420",
)  # fmt: skip
MONK_LIGHTNESS = (94.21, 92.28, 93.09, 87.57, 77.90, 55.14, 42.47, 30.68, 21.07, 14.61)

# The classes of the face parsers, in their order, and names of groups of classes.
CLASSES = (
    "background", "skin", "l_brow", "r_brow", "l_eye", "r_eye", "eyeglasses", "l_ear", "r_ear", "earring",
    "nose", "mouth", "u_lip", "l_lip", "neck", "necklace", "cloth", "hair", "hat",
)  # fmt: skip
GROUPS = {
    "brows": ("l_brow", "r_brow"),
    "eyes": ("l_eye", "r_eye"),
    "ears": ("l_ear", "r_ear"),
    "lips": ("u_lip", "l_lip"),
}


def class_indices(names: Iterable[str]) -> tuple[int, ...]:
    """Return the sorted indices of classes, given by class ("skin") or group ("brows").

    Raises:
        ValueError: a name is neither a class nor a group; the message lists both.
    """
    indices: list[int] = []
    for name in names:
        members = GROUPS.get(name, (name,))
        unknown = [member for member in members if member not in CLASSES]
        if unknown:
            raise ValueError(
                f"there is no face class {unknown[0]!r}; choose from {', '.join(CLASSES)} and {', '.join(GROUPS)}"
            )
        indices += [CLASSES.index(member) for member in members]
    return tuple(sorted(set(indices)))
