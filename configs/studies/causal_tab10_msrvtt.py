# Frame-length paper, Tab. 10, on one of its three sets: the split against an ensemble.  Of how many
# models that is, the paper does not say; here two seeds.
paper, table, section = 'frame length', 'Tab. 10', 'C.4'
about = 'an ensemble of two seeds against the length split, msrvtt'
config = 'hgr_msrvtt.py'
metrics = {'relevance/avg_nDCG': 'nDCG'}
rows = {
    'baseline': dict(printed=[60.3]),
    'baseline, another seed': dict(seed=1000),
    'ensemble': dict(of=['baseline', 'baseline, another seed'], printed=[60.6]),
    'length split': dict(config='causal_hgr_msrvtt.py', printed=[62.5]),
}
