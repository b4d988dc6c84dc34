"""How the shipped weights were trained. Read by ``scripts/train.py`` only; an audit never imports this."""
