"""The names of what the networks perceive, in the order of their outputs. Anyone may import them: no torch here."""

GENDERS = ("feminine", "masculine")  # one output: the probability of the second
RACES = ("White", "Black", "Asian", "Indian", "Others")
