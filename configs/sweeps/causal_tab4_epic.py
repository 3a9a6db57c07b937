# Frame-length paper, Tab. 4, EPIC-KITCHENS-100: parts of the training set.
paper, table, section = 'frame length', 'Tab. 4', '4.2'
about = 'how the training set is split, EPIC-KITCHENS-100'
config = 'causal_hgr_epic.py'
metrics = {'relevance/avg_nDCG': 'nDCG', 'relevance/avg_epic_mAP': 'mAP'}
_equal = {'train_dataloader.dataset.records.environments.rule': 'equal'}
runs = [
    dict(name='baseline', config='hgr_epic.py', printed=[39.15, 38.54]),
    dict(name='equal, 2', options=_equal, printed=[41.19, 41.07]),
    dict(name='adjusted, 2', printed=[41.67, 41.58]),
    dict(name='adjusted, 3', options={'parts': 3}, printed=[41.06, 39.48]),
    dict(name='adjusted, 4', options={'parts': 4}, printed=[39.89, 37.54]),
    dict(
        name='first split only',
        of='adjusted, 2',
        prefix='member_0/',
        printed=[37.24, 38.59],
    ),
    dict(
        name='second split only',
        of='adjusted, 2',
        prefix='member_1/',
        printed=[38.0, 34.07],
    ),
]
