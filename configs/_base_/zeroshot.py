# The towers of zeroshot_towers.py, and their names on the command line:
#     --cfg-options weights=/path/to/checkpoint transform=SinkhornHook queries=test
_base_ = ['zeroshot_towers.py']

shortcuts = _base_.zeroshot_shortcuts
