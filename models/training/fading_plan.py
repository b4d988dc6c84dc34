"""How the Fader network is trained: the losses' weights and the run's length."""

from dataclasses import dataclass

from models.fader import FaderShape

# A code of 256 x 4 x 4, from which the edits are learned in reasonable time; `distilling` takes them from there.
COARSE = FaderShape(widths=(32, 64, 128, 256, 256))


@dataclass(frozen=True)
class FadingPlan:
    """The losses' weights and the run's length.

    ``reach``: edits are drawn from -reach..reach. ``gender_steepness``, ``race_steepness``: at the value a the guide
    shall perceive sigmoid(steepness a). ``tone_share``: of the difference of the races' mean skin colours, how much a
    change of perceived race shall take over (neck and ears keep theirs). ``most_drift``, ``least_psnr``: the floors
    that a checkpoint has to keep.
    """

    steps: int = 3300
    batch: int = 32
    rate: float = 4e-4
    reach: float = 2.0
    reconstruction: float = 45.0
    gender_effect: float = 1.0
    race_effect: float = 2.2
    gender_steepness: float = 1.7
    race_steepness: float = 1.9
    keep: float = 5.0
    drift: float = 150.0
    lightness: float = 20.0
    small: float = 1.0
    rough: float = 6.0
    even: float = 120.0
    tint: float = 250.0
    tone: float = 12.0
    tone_share: float = 0.5
    realism: float = 0.4
    latent: float = 0.05
    latent_ramp: float = 0.4
    latent_turns: int = 2
    most_drift: float = 0.03
    least_psnr: float = 24.0
    seed: int = 5
