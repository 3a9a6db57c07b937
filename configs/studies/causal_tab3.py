# Frame-length paper, Tab. 3: YouCook2, MSR-VTT 1k-A.
paper, table, section = 'frame length', 'Tab. 3', '4.1'
about = 'YouCook2, MSR-VTT 1k-A'
metrics = {
    'retrieval/t2v_R1': 't2v R@1',
    'retrieval/t2v_R5': 't2v R@5',
    'retrieval/t2v_R10': 't2v R@10',
    'retrieval/t2v_MdR': 't2v MdR',
    'retrieval/t2v_MnR': 't2v MnR',
    'relevance/v2t_nDCG': 'v2t nDCG',
    'relevance/t2v_nDCG': 't2v nDCG',
    'relevance/avg_nDCG': 'nDCG',
}
rows = {
    'hgr_youcook2': dict(
        config='hgr_youcook2.py', printed=[13.17, 36.31, 50.74, 10, 66.47, 49.42, 49.7, 49.56]
    ),
    'hgr_msrvtt': dict(
        config='hgr_msrvtt.py', printed=[20.76, 47.29, 59.92, 6, 41.1, 59.77, 60.84, 60.3]
    ),
    'causal_hgr_youcook2': dict(
        config='causal_hgr_youcook2.py', printed=[14.6, 37.8, 51.58, 10, 63.18, 51.92, 51.39, 51.65]
    ),
    'causal_hgr_msrvtt': dict(
        config='causal_hgr_msrvtt.py', printed=[24.64, 52.99, 66.09, 5, 26.26, 62.67, 62.33, 62.5]
    ),
    'hgr_youcook2_ran': dict(
        config='relevance/hgr_youcook2_ran.py',
        printed=[13.29, 36.37, 50.4, 10, 64.85, 50.17, 50.35, 50.26],
    ),
    'hgr_youcook2_ranp': dict(
        config='relevance/hgr_youcook2_ranp.py',
        printed=[13.63, 35.65, 50.32, 10, 64.34, 50.49, 50.19, 50.34],
    ),
    'hgr_msrvtt_ran': dict(
        config='relevance/hgr_msrvtt_ran.py',
        printed=[21.08, 47.98, 60.95, 6, 42.28, 59.49, 60.15, 59.82],
    ),
    'hgr_msrvtt_ranp': dict(
        config='relevance/hgr_msrvtt_ranp.py',
        printed=[21.14, 47.72, 60.32, 6, 41.66, 59.94, 60.55, 60.25],
    ),
    'causal_hgr_youcook2_ran': dict(
        config='causal/causal_hgr_youcook2_ran.py',
        printed=[14.92, 37.37, 50.86, 10, 63.78, 50.97, 51.25, 51.11],
    ),
    'causal_hgr_youcook2_ranp': dict(
        config='causal/causal_hgr_youcook2_ranp.py',
        printed=[15.23, 37.6, 51.58, 10, 61.34, 51.53, 51.05, 51.29],
    ),
    'causal_hgr_msrvtt_ran': dict(
        config='causal/causal_hgr_msrvtt_ran.py',
        printed=[24.54, 53.5, 66.7, 5, 26.91, 60.95, 61.86, 61.41],
    ),
    'causal_hgr_msrvtt_ranp': dict(
        config='causal/causal_hgr_msrvtt_ranp.py',
        printed=[24.03, 53.24, 66.53, 5, 27.35, 61.54, 61.58, 61.56],
    ),
}
