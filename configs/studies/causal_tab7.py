# Frame-length paper, Tab. 7: transformers.
paper, table, section = 'frame length', 'Tab. 7', '4.1'
about = 'transformers'
metrics = {
    'relevance/avg_nDCG': 'nDCG',
}
rows = {
    'mmt_msrvtt': dict(config='mmt_msrvtt.py', printed=[63.79]),
    'causal_mmt_msrvtt': dict(config='causal_mmt_msrvtt.py', printed=[63.94]),
    'taco_youcook2': dict(config='taco_youcook2.py', printed=[53.53]),
    'causal_taco_youcook2': dict(config='causal_taco_youcook2.py', printed=[54.03]),
    'egovlp_mm_clip_epic': dict(config='egovlp_mm_clip_epic.py', printed=[12.53]),
    'causal_egovlp_mm_clip_epic': dict(config='causal_egovlp_mm_clip_epic.py', printed=[13.06]),
}
