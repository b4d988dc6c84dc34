"""From files to photos with one aligned face each; nothing is edited here."""

from pathlib import Path

# Portraits of people who do not exist: what is audited where no photo is named, and what sentinels are.
SAMPLE = Path(__file__).parent / "sample"
