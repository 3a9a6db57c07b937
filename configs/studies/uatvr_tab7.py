# UATVR Tab. 7: VATEX.
paper, table, section = 'UATVR', 'Tab. 7', '4.3'
about = 'VATEX'
metrics = {
    'retrieval/t2v_R1': 'R@1',
    'retrieval/t2v_R5': 'R@5',
    'retrieval/t2v_R10': 'R@10',
    'retrieval/t2v_MdR': 'MdR',
    'retrieval/t2v_MnR': 'MnR',
}
rows = {
    'uatvr_vitb32_vatex': dict(config='uatvr_vitb32_vatex.py', printed=[61.3, 91, 95.6, 1, 3.3]),
    'uatvr_vitb16_vatex': dict(config='uatvr_vitb16_vatex.py', printed=[64.5, 92.6, 96.8, 1, 2.8]),
    'clip4clip_seqtransf_vatex': dict(config='clip4clip_seqtransf_vatex.py'),
    'ssb_vatex': dict(config='ssb_vatex.py'),
    'hgr_vatex': dict(config='hgr_vatex.py'),
    'c2v_vatex_vitb32_qbnorm, raw': dict(config='clip2video/c2v_vatex_vitb32_qbnorm.py'),
    'c2v_vatex_vitb32_qbnorm': dict(
        config='clip2video/c2v_vatex_vitb32_qbnorm.py',
        of='c2v_vatex_vitb32_qbnorm, raw',
        prefix='qb_norm/',
    ),
    'c2v_vatex': dict(config='c2v_vatex.py'),
}
