# Frame-length paper, Tab. 2: EPIC.
paper, table, section = 'frame length', 'Tab. 2', '4.1'
about = 'EPIC'
metrics = {
    'relevance/avg_nDCG': 'nDCG',
    'relevance/avg_epic_mAP': 'mAP',
}
rows = {
    'hgr_epic': dict(config='hgr_epic.py'),
    'causal_hgr_epic': dict(config='causal_hgr_epic.py'),
    'hgr_epic_ran': dict(config='relevance/hgr_epic_ran.py', printed=[41.06, 39.46]),
    'hgr_epic_ranp': dict(config='relevance/hgr_epic_ranp.py', printed=[43.14, 43.77]),
    'causal_hgr_epic_ran': dict(config='causal/causal_hgr_epic_ran.py', printed=[41.84, 41.24]),
    'causal_hgr_epic_ranp': dict(config='causal/causal_hgr_epic_ranp.py', printed=[43.8, 44.12]),
}
