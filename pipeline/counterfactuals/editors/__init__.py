"""What changes faces: the contract in ``base``, and the editors that keep it."""
