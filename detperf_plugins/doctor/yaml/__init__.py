"""YAML as the hosts read it, with the place of every value: nodes, repair of broken text, `_BASE_` chains."""
