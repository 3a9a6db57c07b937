# Frame-length paper, Tab. 10, on one of its three sets: the split against an ensemble.  Of how many
# models that is, the paper does not say; here two seeds.
paper, table, section = 'frame length', 'Tab. 10', 'C.4'
about = 'an ensemble of two seeds against the length split, epic'
config = 'hgr_epic.py'
metrics = {'relevance/avg_nDCG': 'nDCG'}
rows = {
    'baseline': dict(printed=[39.15]),
    'baseline, another seed': dict(seed=1000),
    'ensemble': dict(of=['baseline', 'baseline, another seed'], printed=[39.76]),
    'length split': dict(config='causal_hgr_epic.py', printed=[41.67]),
}
