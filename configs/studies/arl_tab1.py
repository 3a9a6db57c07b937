# ARL Tab. 1: ResNet, I3D, RoBERTa.
paper, table, section = 'ARL', 'Tab. 1', 'Experiments'
about = 'ResNet, I3D, RoBERTa'
metrics = {
    'retrieval/t2v_R1': 'R@1',
    'retrieval/t2v_R5': 'R@5',
    'retrieval/t2v_R10': 'R@10',
    'retrieval/t2v_R100': 'R@100',
    'retrieval/t2v_SumR': 'SumR',
}
rows = {
    'arl_tvr_i3d_paper': dict(
        config='arl/arl_tvr_i3d_paper.py', printed=[15.6, 36.3, 47.7, 86.3, 185.9]
    ),
    'arl_activitynet_i3d_paper': dict(
        config='arl/arl_activitynet_i3d_paper.py', printed=[8.3, 24.6, 37.4, 78, 148.3]
    ),
    'mssl_tvr_i3d': dict(config='mssl_tvr_i3d.py', printed=[13.5, 32.1, 43.4, 83.4, 172.4]),
    'mssl_activitynet_i3d': dict(
        config='mssl_activitynet_i3d.py', printed=[7.1, 22.5, 34.7, 75.8, 140.1]
    ),
    'gmmformer_tvr_i3d': dict(
        config='gmmformer_tvr_i3d.py', printed=[13.9, 33.3, 44.5, 84.9, 176.6]
    ),
    'gmmformer_activitynet_i3d': dict(
        config='gmmformer_activitynet_i3d.py', printed=[8.3, 24.9, 36.7, 76.1, 146]
    ),
    'dldkd_tvr_hard': dict(
        config='prvr/dldkd_tvr_hard.py', printed=[14.4, 34.9, 45.8, 84.9, 179.9]
    ),
    'dldkd_activitynet_hard': dict(
        config='prvr/dldkd_activitynet_hard.py', printed=[8, 25, 37.4, 77.1, 147.6]
    ),
}
