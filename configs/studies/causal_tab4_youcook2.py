# Frame-length paper, Tab. 4, YouCook2: parts of the training set.
_base_ = ['causal_tab4_epic.py']

about = 'how the training set is split, YouCook2'
config = 'causal_hgr_youcook2.py'
metrics = {
    '_delete_': True,
    'relevance/avg_nDCG': 'nDCG',
    'retrieval/t2v_R10': 't2v R@10',
    'retrieval/t2v_MnR': 't2v MnR',
}
_equal = {'train_dataloader.dataset.records.environments.share': None}
rows = {
    'baseline': dict(config='hgr_youcook2.py', printed=[49.56, 50.74, 66.47]),
    'equal, 2': dict(options=_equal, printed=[51.01, 51.15, 66.22]),
    'adjusted, 2': dict(printed=[51.65, 51.58, 63.18]),
    'adjusted, 3': dict(printed=[51.45, 49.28, 68.94]),
    'adjusted, 4': dict(printed=[51.64, 47.11, 74.33]),
    'first split only': dict(printed=[48.86, 48.42, 80.44]),
    'second split only': dict(printed=[50.48, 36.77, 115.87]),
}
