# UATVR Tab. 1: its components.
paper, table, section = 'UATVR', 'Tab. 1', '4.2'
about = 'its components, MSR-VTT 1k-A, ViT-B/16'
config = 'uatvr_vitb16_msrvtt.py'
metrics = {
    'retrieval/t2v_R1': 't2v R@1',
    'retrieval/t2v_R5': 't2v R@5',
    'retrieval/t2v_R10': 't2v R@10',
    'retrieval/t2v_MdR': 't2v MdR',
    'retrieval/t2v_MnR': 't2v MnR',
}
rows = {
    'CLIP4Clip': dict(
        config='clip4clip_seqtransf_vitb16_msrvtt.py',
        printed=[47.1, 74.1, 81.8, 2.0, 14.9],
    ),
    'TI': dict(config='uatvr/uatvr_vitb16_msrvtt_ti.py', printed=[48.4, 74.2, 83.3, 2.0, 14.1]),
    '+ DSA': dict(
        config='uatvr/uatvr_vitb16_msrvtt_dsa.py',
        printed=[49.6, 75.5, 84.9, 2.0, 12.5],
    ),
    '+ DUA': dict(
        config='uatvr/uatvr_vitb16_msrvtt_dua.py',
        printed=[50.1, 75.8, 84.6, 1.5, 12.8],
    ),
    '+ KL (UATVR)': dict(printed=[50.8, 76.3, 85.5, 1.0, 12.4]),
    '+ DUA, soft contrast': dict(
        config='uatvr/uatvr_vitb16_msrvtt_dua_soft.py',
        printed=[50.0, 75.8, 83.9, 1.5, 12.9],
    ),
    '+ KL, soft contrast': dict(
        config='uatvr/uatvr_vitb16_msrvtt_soft.py',
        printed=[50.6, 75.9, 84.9, 1.0, 12.8],
    ),
}
