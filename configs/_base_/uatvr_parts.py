# Parts of UATVR on MSR-VTT 1k-A: rows of its Tab. 1, 2 and 6, and what its code does.
_base_ = ['uatvr_vitb32.py']

_alone = {
    'model.heads': None,
    'model.objectives': dict(_delete_=True),
    'test_evaluator': [dict(type='mmvtr.RetrievalMetric')],
}
# Token-wise matching of words and frames: row "TI" (Eq. 7).  It has the transformer, too (its
# parameters are in Tab. 2).
preset_ti = {'model.encoder.extra_frames': 0, 'model.encoder.extra_words': 0, **_alone}
# Without the probabilistic part: row "+ DSA".
preset_dsa = _alone
# Without the KL term: row "+ DUA".
preset_dua = {'model.objectives.kl.loss_weight': 0.0}
# PCME's soft contrast in place of Eq. 11 (Tab. 1, + KL*; with `+dua` + DUA*).
preset_soft = {'model.objectives.dua.type': 'SoftContrast'}
# ... summed over the pairs of a batch, as PCME's code has it (docs/uatvr.md).
preset_soft_sum = {
    'model.objectives.dua.type': 'SoftContrast',
    'model.objectives.dua.reduction': 'sum',
}
# As its code has it, for checkpoints from `tools/model_converters/convert.py uatvr`: extra
# tokens are position rows, C_v = C_t = 2 (its script), SOT is matched, padded tokens have a
# cosine of 0, the heads attend to padding too, Eq. 11 has its sum outside the logarithm and no
# temperature, and KL takes log sigma for the log variance and sums over the batch.  In training the
# first frame is a random one of the first second (`--strategy 2`).  The scores
# are those of the code; sigma is where there is no padding: what the heads attend to there are
# zeros, in the code what its towers make of it.
preset_official = {
    'train_dataloader.dataset.video_pipeline.0.sampling': 'per_second_random',
    'model.encoder': dict(
        extra='positions', extra_frames=2, extra_words=2, match_sot=True, position_rows=77
    ),
    'model.similarity': dict(official_mask=True, init_std=0.02),
    'model.heads': dict(use_mask=False, initial_log_std=0.0, init_std=0.02),
    'model.objectives': dict(
        dua=dict(form='outer_sum', temperature=1.0, normalise=False),
        kl=dict(type='OfficialKLToUnit', num_samples=7),
    ),
    # `--cfg-options num_samples=5`: both draw the same samples.
    'shortcuts': dict(
        num_samples=['model.objectives.dua.num_samples', 'model.objectives.kl.num_samples']
    ),
}
# Post-processed (Tab. 6, double dagger): QB-Norm with training queries, and dual softmax over
# the test queries, an oracle.  Results stand beside the raw ones.
preset_postprocessed = {
    'custom_hooks': [
        # Queries bring their tokens, 34 x 512 numbers a text and 15 x 512 a video: 2,048 of
        # each are .2 GB on the GPU and in each checkpoint, NCL's 16,384 would be 1.7 GB.  More
        # than the 1,000 test items that they normalise is enough here.
        dict(type='mmvtr.QueryQueueHook', size=2048),
        # beta of QB-Norm's code
        dict(type='mmvtr.QBNormHook', queries='train_queue', temperature=1 / 20),
        # UATVR's code: at the model's temperature
        dict(type='mmvtr.DualSoftmaxHook', queries='test'),
    ],
    # With --best-on-test the epoch counts that is best after dual softmax, which UATVR's code
    # has.
    'default_hooks.checkpoint.save_best': 'dual_softmax_oracle/retrieval/rsum',
}
