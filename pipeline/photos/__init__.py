"""Photos: listing and decoding the files, and finding one face in each."""

from pathlib import Path

# Synthetic portraits: audited if no photos are given, and sent as sentinels.
SAMPLE = Path(__file__).parent / "sample"
