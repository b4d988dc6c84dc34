"""Sections of the page for what the other commands found: frames in, ``Extra`` out; the template knows no kind of them.

One file a kind; ``every`` puts them in their order.
"""

from pipeline.report.extras.shape import Drawing, Extra, Gallery, Part, Picture, Sheet

__all__ = ["Drawing", "Extra", "Gallery", "Part", "Picture", "Sheet"]
