# Frame-length paper, Tab. 4, YouCook2: parts of the training set.
paper, table, section = 'frame length', 'Tab. 4', '4.2'
about = 'how the training set is split, YouCook2'
config = 'causal_hgr_youcook2.py'
metrics = {
    'relevance/avg_nDCG': 'nDCG',
    'retrieval/t2v_R10': 't2v R@10',
    'retrieval/t2v_MnR': 't2v MnR',
}
_equal = {
    'train_dataloader.dataset.records.environments.rule': 'equal',
    'train_dataloader.dataset.records.environments.share': None,
}
runs = [
    dict(name='baseline', config='hgr_youcook2.py', printed=[49.56, 50.74, 66.47]),
    dict(name='equal, 2', options=_equal, printed=[51.01, 51.15, 66.22]),
    dict(name='adjusted, 2', printed=[51.65, 51.58, 63.18]),
    dict(name='adjusted, 3', options={'parts': 3}, printed=[51.45, 49.28, 68.94]),
    dict(name='adjusted, 4', options={'parts': 4}, printed=[51.64, 47.11, 74.33]),
    dict(
        name='first split only',
        of='adjusted, 2',
        prefix='member_0/',
        printed=[48.86, 48.42, 80.44],
    ),
    dict(
        name='second split only',
        of='adjusted, 2',
        prefix='member_1/',
        printed=[50.48, 36.77, 115.87],
    ),
]
