# Frame-length paper, Tab. 1: EPIC, against removing clips.
paper, table, section = 'frame length', 'Tab. 1', '4.1'
about = 'EPIC, against removing clips'
metrics = {
    'relevance/v2t_nDCG': 'v2t nDCG',
    'relevance/t2v_nDCG': 't2v nDCG',
    'relevance/avg_nDCG': 'nDCG',
    'relevance/v2t_epic_mAP': 'v2t mAP',
    'relevance/t2v_epic_mAP': 't2v mAP',
    'relevance/avg_epic_mAP': 'mAP',
}
rows = {
    'hgr_epic': dict(config='hgr_epic.py', printed=[39.4, 38.91, 39.15, 40.47, 36.6, 38.54]),
    'hgr_epic_rmv_rand': dict(
        config='hgr/hgr_epic_rmv_rand.py', printed=[39.69, 38.42, 39.06, 40.37, 35.7, 38.04]
    ),
    'hgr_epic_rmv_all': dict(
        config='hgr/hgr_epic_rmv_all.py', printed=[40.06, 38.82, 39.44, 41.01, 36.34, 38.67]
    ),
    'causal_hgr_epic': dict(
        config='causal_hgr_epic.py', printed=[42.73, 40.61, 41.67, 45.36, 37.8, 41.58]
    ),
}
