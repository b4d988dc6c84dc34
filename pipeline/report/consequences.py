"""What to make of the slopes where a check of the validity card fails: a sentence for each check."""

from collections.abc import Mapping

PLACEBO = "trust slopes only as far as they exceed their placebos' (edit − placebo)"
AGAIN = "tables/photo_failures.csv names the photos: audit again without them and compare"

# By a check's whole name, or by what stands before its colon.
CONSEQUENCES: Mapping[str, str] = {
    "null edit": "asking for nothing changes something: differences to the photo are not the attribute's alone",
    "background": f"pixels outside the mask changed: this edit reaches more than the face; {AGAIN}",
    "effect": "judges see less of it than was asked for: slopes understate, and that none is found says little",
    "effect: smallest group": "slopes understate most in this group: differences between groups may be the edit's",
    "monotone": "some faces do not move in order from step to step: read the whole sweep, not single steps",
    "falls": "some faces go back on the way: read the whole sweep, not single steps",
    "dead faces": f"these faces hardly change and pull slopes towards 0; {AGAIN}",
    "age": "labels that go with age may move for that reason: sweep age too and compare, 5 years are one unit there",
    "age: nine of ten": "single faces look years younger or older, which the mean of few photos may show",
    "off-target": "this moves along: labels that go with it may have their slopes from there; sweep it too where it is "
    "an attribute, and compare",
    "lightness": "labels that answer to brightness may move for that reason: compare with the placebo of colour",
    "lightness gap": "brightness changes more in one group: differences between groups may be the edit's",
    "tone": "skin takes another step than was asked for: slopes of labels that answer to skin tone are off by as much",
    "face against neck": f"the face no longer fits the neck, and classifiers may answer to that: {PLACEBO}",
    "concentration": f"the change gathers in small places, which people's faces do not do: {PLACEBO}",
    "stencil": f"all faces are drawn the same picture, which a classifier may know: {PLACEBO}",
    "asymmetry": f"one half of the face changes more: {PLACEBO}",
    "share of a real paste": "the edit does more than a real face of the other group: slopes overstate",
    "detection": f"a small classifier knows edited pictures, so the audited one may: {PLACEBO}",
    "identity": "versions look like other people: labels may move because of that",
    "seam": f"the mask's edge shows as a line: {PLACEBO}; {AGAIN}",
    "clipping": f"light and shade are cut off where the edit runs out of levels; {AGAIN}",
    "placebo": "a change without the attribute moves what judges perceive (its interval says whether chance may): "
    f"{PLACEBO}",
}


def consequence_of(check: str) -> str:
    """What to make of the slopes where a check of that name fails; empty for one that is not of the card's."""
    return CONSEQUENCES.get(check) or CONSEQUENCES.get(check.partition(":")[0], "")
