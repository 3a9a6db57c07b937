# NCL Fig. 5: the size of the query queue.  One training, tested again with smaller queues.
paper, table, section = 'NCL', 'Fig. 5', '4.2'
about = 'size of the query queue, ActivityNet'
config = 'ncl_clip4clip_activitynet.py'
metrics = {
    'sinkhorn/retrieval/t2v_R1': 't2v R@1',
    'sinkhorn/retrieval/v2t_R1': 'v2t R@1',
    'sinkhorn/normalisation/t2v_error': 't2v error',
}
rows = {'queue 16384': dict()}
rows |= {
    f'queue {size}': dict(of='queue 16384', options={'custom_hooks.0.size': size})
    for size in (8192, 4096, 2048, 1024, 512, 256)
}
note = 'The paper prints the figure, no numbers.'
