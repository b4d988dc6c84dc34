"""How the shipped weights were trained. Read by ``scripts/train_*.py`` only; an audit never imports this."""
