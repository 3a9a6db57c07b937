# ARL Tab. 2: CLIP-L/14.
_base_ = ['arl_tab1.py']

table, about = 'Tab. 2', 'CLIP-L/14'
rows = {
    '_delete_': True,
    'arl_tvr_clip_paper': dict(
        config='arl/arl_tvr_clip_paper.py', printed=[34.6, 60.4, 70.7, 94.4, 260.1]
    ),
    'arl_activitynet_clip_paper': dict(
        config='arl/arl_activitynet_clip_paper.py', printed=[15.3, 38.4, 51.5, 85.2, 190.4]
    ),
    'mssl_tvr_clip': dict(config='mssl_tvr_clip.py', printed=[31.9, 57.6, 67.7, 93.8, 251]),
    'mssl_activitynet_clip': dict(
        config='mssl_activitynet_clip.py', printed=[14.7, 37.1, 50.4, 84.6, 186.7]
    ),
    'gmmformer_tvr_clip': dict(
        config='gmmformer_tvr_clip.py', printed=[29.8, 54.2, 64.6, 92.5, 241.1]
    ),
    'gmmformer_activitynet_clip': dict(
        config='gmmformer_activitynet_clip.py', printed=[15.2, 37.7, 50.5, 83.7, 187.1]
    ),
}
