# Frame-length paper, Tab. 4, EPIC-KITCHENS-100: parts of the training set.
paper, table, section = 'frame length', 'Tab. 4', '4.2'
about = 'how the training set is split, EPIC-KITCHENS-100'
config = 'causal_hgr_epic.py'
metrics = {'relevance/avg_nDCG': 'nDCG', 'relevance/avg_epic_mAP': 'mAP'}
_equal = {'train_dataloader.dataset.records.environments.rule': 'equal'}
rows = {
    'baseline': dict(config='hgr_epic.py', printed=[39.15, 38.54]),
    'equal, 2': dict(options=_equal, printed=[41.19, 41.07]),
    'adjusted, 2': dict(printed=[41.67, 41.58]),
    'adjusted, 3': dict(options={'parts': 3}, printed=[41.06, 39.48]),
    'adjusted, 4': dict(options={'parts': 4}, printed=[39.89, 37.54]),
    'first split only': dict(
        of='adjusted, 2',
        prefix='member_0/',
        printed=[37.24, 38.59],
    ),
    'second split only': dict(
        of='adjusted, 2',
        prefix='member_1/',
        printed=[38.0, 34.07],
    ),
}
