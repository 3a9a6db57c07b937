# Frame-length paper, Tab. 10, on one of its three sets: the split against an ensemble.  Of how many
# models that is, the paper does not say; here two seeds.
paper, table, section = 'frame length', 'Tab. 10', 'C.4'
about = 'an ensemble of two seeds against the length split, epic'
config = 'hgr_epic.py'
metrics = {'relevance/avg_nDCG': 'nDCG'}
runs = [
    dict(name='baseline', printed=[39.15]),
    dict(name='baseline, another seed', seeds=1000),
    dict(name='ensemble', of=['baseline', 'baseline, another seed'], printed=[39.76]),
    dict(name='length split', config='causal_hgr_epic.py', printed=[41.67]),
]
