# Frame-length paper, Tab. 6: which features.
paper, table, section = 'frame length', 'Tab. 6', '4.2'
about = 'spatial and temporal features, EPIC-KITCHENS-100'
config = 'hgr_epic.py'
metrics = {'relevance/avg_nDCG': 'nDCG', 'relevance/avg_epic_mAP': 'mAP'}
runs = [
    dict(name='all', printed=[38.12, 39.79]),
    dict(name='without audio', config='hgr_epic_no_audio.py', printed=[36.55, 37.77]),
    dict(name='without spatial', config='hgr_epic_no_spatial.py', printed=[36.63, 35.63]),
    dict(name='without temporal', config='hgr_epic_no_temporal.py', printed=[32.56, 32.50]),
]
