"""How calls prepare and run: compiled operators, eager functions of every library, and the launches of graphs."""
