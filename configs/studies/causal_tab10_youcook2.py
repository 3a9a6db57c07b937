# Frame-length paper, Tab. 10, on another of its three sets.
_base_ = ['causal_tab10_epic.py']

about = 'an ensemble of two seeds against the length split, youcook2'
config = 'hgr_youcook2.py'
rows = {
    'baseline': dict(printed=[49.56]),
    'ensemble': dict(printed=[49.8]),
    'length split': dict(config='causal_hgr_youcook2.py', printed=[51.65]),
}
