"""Patches for the hosts: what there is, what a tree needs, put in all or nothing and taken out again.

Nothing here knows a host's code: what a patch touches stands in the patch, everything else in `series.yml`
(see patches/README.md). Hunks are applied by `git apply`, to copies; `store` swaps the copies in.
"""
