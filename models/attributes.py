"""The names of what the networks perceive, in the order of their outputs. Anyone may import them: no torch here."""

RACES = ("White", "Black", "Asian", "Indian", "Others")
