"""What a failed check of the validity card means for the slopes: a sentence for each check."""

from collections.abc import Mapping

PLACEBO = "trust slopes only as far as they exceed those of their placebos (edit − placebo)"
AGAIN = "repeat the audit without the photos in tables/photo_failures.csv and compare"

# By the name of a check, or by its part before the colon.
CONSEQUENCES: Mapping[str, str] = {
    "null edit": "an edit to the face's own value changes the photo, so differences from the photo are not due to the "
    "attribute alone",
    "background": f"pixels outside the mask changed, so the edit affects more than the face; {AGAIN}",
    "effect": "judges perceive a smaller change than intended, so slopes are underestimated and the absence of "
    "findings means little",
    "effect: smallest group": "slopes are underestimated most in this group, so differences between groups may be due "
    "to the edit",
    "monotone": "some faces do not change steadily from step to step: judge the whole sweep, not single steps",
    "falls": "some faces change back along the sweep: judge the whole sweep, not single steps",
    "dead faces": f"these faces hardly change and pull slopes towards 0; {AGAIN}",
    "age": "labels related to age may change for that reason: sweep age as well and compare (one unit is 5 years)",
    "age: nine of ten": "single faces look years younger or older, which may affect the mean of few photos",
    "off-target": "this attribute changes as well, and labels related to it may change for that reason: sweep it too, "
    "if possible, and compare",
    "lightness": "labels that depend on brightness may change for that reason: compare with the colour placebo",
    "lightness gap": "brightness changes more in one group, so differences between groups may be due to the edit",
    "tone": "skin tone changes by another amount than intended, so slopes of labels that depend on it are biased",
    "face against neck": f"the face no longer matches the neck, to which classifiers may respond: {PLACEBO}",
    "concentration": f"the change is concentrated in small areas, unlike differences between real faces: {PLACEBO}",
    "stencil": f"all faces receive the same pattern, which a classifier may recognise: {PLACEBO}",
    "asymmetry": f"one half of the face changes more: {PLACEBO}",
    "share of a real paste": "the edit has a larger effect than a real face of the other group, so slopes are "
    "overestimated",
    "detection": f"a small classifier detects edited images, so the audited one may as well: {PLACEBO}",
    "identity": "versions look like other people, which may change labels",
    "seam": f"the mask's edge shows as a line: {PLACEBO}; {AGAIN}",
    "clipping": f"highlights and shadows are clipped; {AGAIN}",
    "placebo": "a change without the attribute changes what judges perceive (the interval shows whether by chance): "
    f"{PLACEBO}",
}


def consequence_of(check: str) -> str:
    """Return what the failure of a check means for the slopes; empty for an unknown check."""
    return CONSEQUENCES.get(check) or CONSEQUENCES.get(check.partition(":")[0], "")
