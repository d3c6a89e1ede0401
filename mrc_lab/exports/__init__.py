"""``mrc export``: an experiment file becomes files of another simulator, so far htsim's.

`htsim` writes its connection matrix (`htsim_flows`) and its topology (`htsim_fabric`).
"""
