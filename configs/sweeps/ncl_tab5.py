# NCL Tab. 5: what the test-time normalisation reads.  The NCL rows are one training, whose test has
# all of them.
paper, table, section = 'NCL', 'Tab. 5', '4.3'
about = 'queries of the test-time normalisation, ActivityNet'
config = 'ncl_clip4clip_activitynet.py'
metrics = {
    'retrieval/t2v_R1': 't2v R@1',
    'retrieval/t2v_R5': 't2v R@5',
    'retrieval/v2t_R1': 'v2t R@1',
    'retrieval/v2t_R5': 'v2t R@5',
}
runs = [
    dict(
        name='none (CLIP4Clip)',
        config='clip4clip_activitynet.py',
        printed=[40.5, 72.4, 42.5, 74.1],
    ),
    dict(name='NCL, raw scores'),
    dict(
        name='train queries',
        of='NCL, raw scores',
        prefix='sinkhorn/',
        printed=[45.9, 76.8, 46.8, 76.5],
    ),
    dict(
        name='test queries (oracle)',
        of='NCL, raw scores',
        prefix='sinkhorn_oracle/',
        printed=[54.1, 80.7, 54.2, 76.7],
    ),
]
